"""The engine: the instants of a schedule in a zone under declared rules.

Pure and bounded: no clock is read, nothing outside the years YEAR_MIN to YEAR_MAX is looked at. Instants
are microseconds. A range is open at its start and closed at its end, so that ranges placed end to end
hold every instant once.
"""

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import lru_cache, partial
from itertools import islice
from typing import Protocol, cast

from ..instants import SECOND, Instant, to_datetime
from ..zones import ZoneRules
from .local_times import FAR_S, LocalTimes, local_times_of
from .months import LOCAL_END_S, LOCAL_FIRST_S
from .rule_search import rule_times_of
from .rules import FoldRule, GapRule
from .schedule import CronSchedule, IntervalSchedule, OneOffSchedule, RuleSchedule, Schedule
from .search_costs import SEARCH_COSTS
from .timeline import NEAR_S, timeline_of

RECURRENCES_KEPT_MAX = 8_192
"""Distinct (schedule, zone, rules) kept ready at once, about 4 KiB each."""
_NO_WINDOW: tuple[int, int, Instant | None] = (0, 0, None)


class _Search(Protocol):
    """How one kind of schedule is searched; ranges are half-open at the start, as in Recurrence."""

    def after(self, instant: int) -> int | None: ...
    def before(self, instant: int) -> int | None: ...
    def between(self, after: int, until: int) -> Iterator[int]: ...
    def count(self, after: int, until: int) -> int: ...


class Recurrence:
    """The instants of one schedule: totally ordered, each once. Made by ``recurrence_of``."""

    __slots__ = ("_after_counted", "_search", "_window")

    def __init__(self, search: _Search) -> None:
        self._search = search
        counted = search.after_counted if isinstance(search, _CronSearch) else partial(_one_step, search)
        # What searches find are instants: said once, since saying it of each answer takes long beside finding it.
        self._after_counted = cast("Callable[[int], tuple[Instant | None, int]]", counted)
        # The last answer holds for every instant from its question up to itself: triggers that share a
        # schedule share the search. One tuple, replaced as a whole.
        self._window = _NO_WINDOW

    def next_after(self, instant: int) -> Instant | None:
        """The first instant strictly after this one; None when there is none up to YEAR_MAX."""
        low, high, answer = self._window
        if low <= instant < high:
            return answer
        answer, steps = self._after_counted(instant)
        SEARCH_COSTS.count += 1
        if steps > 1:
            SEARCH_COSTS.add_long(steps)
        self._window = (instant, FAR_S if answer is None else answer, answer)
        return answer

    def next_after_counted(self, instant: int) -> tuple[Instant | None, int]:
        """As ``next_after``, with what the search cost: the steps it took, each the same few operations.

        0 when the last answer still held, 1 ordinarily, never more than SEARCH_STEPS_MAX.
        """
        low, high, answer = self._window
        if low <= instant < high:
            return answer, 0
        answer, steps = self._after_counted(instant)
        SEARCH_COSTS.count += 1
        if steps > 1:
            SEARCH_COSTS.add_long(steps)
        self._window = (instant, FAR_S if answer is None else answer, answer)
        return answer, steps

    def next_many(self, instant: int, count: int) -> list[Instant]:
        """The first ``count`` instants strictly after this one, ascending; fewer when no more follow."""
        return list(islice(self.between(instant, FAR_S), count))

    def previous_before(self, instant: int) -> Instant | None:
        """The last instant strictly before this one; None when there is none from YEAR_MIN."""
        found = self._search.before(instant)
        return None if found is None else Instant(found)

    def between(self, after: int, until: int) -> Iterator[Instant]:
        """The instants with ``after`` < instant <= ``until``, ascending; its cost is that of what is taken."""
        return cast("Iterator[Instant]", self._search.between(after, until))

    def count(self, after: int, until: int) -> int:
        """How many instants ``between`` gives, exactly, without enumerating them."""
        return self._search.count(after, until)


def _one_step(search: _Search, instant: int) -> tuple[int | None, int]:
    return search.after(instant), 1


@lru_cache(maxsize=RECURRENCES_KEPT_MAX)
def recurrence_of(schedule: Schedule, zone: ZoneRules, gap: GapRule, fold: FoldRule) -> Recurrence:
    """The recurrence of a schedule; the same object for equal arguments, so that searches are shared."""
    match schedule:
        case CronSchedule():
            return Recurrence(_CronSearch(local_times_of(schedule), zone, gap, fold))
        case RuleSchedule():
            return Recurrence(_CronSearch(rule_times_of(schedule), zone, gap, fold))
        case IntervalSchedule():
            return Recurrence(_IntervalSearch(schedule))
        case OneOffSchedule():
            return Recurrence(_ListSearch(_one_off_instants(schedule.local, zone, gap, fold)))


def local_text(instant: int, zone: ZoneRules) -> str:
    """The instant on the zone's clock, RFC 3339 with numeric offset; six digits only when not whole.

    Offsets are rounded to the minute only where old zone data has seconds; RFC 3339 knows none.
    """
    offset_s = zone.utc_offset_at(instant)
    shown_s = round(offset_s / 60) * 60
    moment = to_datetime(instant) + timedelta(seconds=shown_s)
    hours, minutes = divmod(abs(shown_s) // 60, 60)
    text = moment.replace(tzinfo=None).isoformat(timespec="auto")
    return f"{text}{'-' if shown_s < 0 else '+'}{hours:02d}:{minutes:02d}"


class _CronSearch:
    """Cron: matching local seconds, laid along UTC by the zone's timeline."""

    __slots__ = ("_alone", "_local", "_probes", "_shifts", "_starts", "_timeline")

    def __init__(self, local: LocalTimes, zone: ZoneRules, gap: GapRule, fold: FoldRule) -> None:
        self._local = local
        self._timeline = timeline_of(zone, gap, fold)
        self._starts, self._shifts, self._probes = (
            self._timeline.starts,
            self._timeline.shifts,
            self._timeline.probes,
        )
        self._alone = self._timeline.alone

    def after(self, instant: int) -> int | None:
        return self.after_counted(instant)[0]

    def after_counted(self, instant: int) -> tuple[int | None, int]:
        """The answer, and how many stretches were looked at."""
        from_s = instant // SECOND + 1
        index = bisect_right(self._starts, from_s) - 1
        # Almost always the answer lies in the same stretch: what follows is _first_from for that case, in a hurry.
        # Before the first stretch ``index`` is -1, which is the None at the end.
        shift = self._alone[index]
        if shift is not None:
            found = self._local.first_from(from_s + shift) - shift
            if found < self._starts[index + 1]:
                return found * SECOND, 1
        found, _, steps = self._first_from(from_s)
        return (None if found >= FAR_S else found * SECOND), steps

    def before(self, instant: int) -> int | None:
        found = self._last_until((instant - 1) // SECOND)
        return None if found is None else found * SECOND

    def between(self, after: int, until: int) -> Iterator[int]:
        to_s, starts = until // SECOND + 1, self._starts
        found, index, _ = self._first_from(after // SECOND + 1)
        while found < to_s:
            end = starts[index + 1]
            for at_s in self._in_stretch(index, found, min(end, to_s)):
                yield at_s * SECOND
            found, index, _ = self._first_from(end)

    def count(self, after: int, until: int) -> int:
        from_s, to_s = after // SECOND + 1, until // SECOND + 1
        index = self._timeline.index_at(from_s)
        total = 0
        while index < len(self._shifts) and self._starts[index] < to_s:
            low, high = max(self._starts[index], from_s), min(self._starts[index + 1], to_s)
            if low < high:
                total += self._count_in_stretch(index, low, high)
            index += 1
        return total

    def _first_from(self, from_s: int) -> tuple[int, int, int]:
        """The first occurrence not before ``from_s`` (UTC seconds), or FAR_S; its stretch; the stretches looked at."""
        starts, shifts, first_from = self._starts, self._shifts, self._local.first_from
        index = bisect_right(starts, from_s) - 1
        if index < 0:
            index, from_s = 0, starts[0]
        sure_s = from_s + NEAR_S
        count = len(shifts)
        steps = 0
        while index < count:
            steps += 1
            start, end = starts[index], starts[index + 1]
            if from_s == start and self._probe_hits(index):
                return start, index, steps
            best = FAR_S
            for shift in shifts[index]:
                at_s = first_from(from_s + shift) - shift
                best = min(best, at_s)
            if best < end:
                return best, index, steps
            if end > sure_s and best - NEAR_S > end and shifts[index]:
                # No local time from here up to ``best`` matches, so no stretch that ends well before it can.
                index = max(index + 1, bisect_right(starts, best - NEAR_S) - 1)
            else:
                index += 1
            from_s = starts[index]
        return FAR_S, count, steps

    def _last_until(self, until_s: int) -> int | None:
        """The last occurrence that is not after ``until_s`` (UTC seconds)."""
        starts, last_until = self._starts, self._local.last_until
        if until_s < starts[0]:
            return None
        until_s = min(until_s, starts[-1] - 1)
        index = bisect_right(starts, until_s) - 1
        sure_s = until_s - NEAR_S
        while index >= 0:
            start = starts[index]
            best = -FAR_S
            shifts = self._shifts[index]
            for shift in shifts:
                best = max(best, last_until(until_s + shift) - shift)
            if best >= start:
                return best
            if self._probe_hits(index):
                return start
            index -= 1
            if shifts and start < sure_s and best + NEAR_S < start:
                index = min(index, bisect_right(starts, best + NEAR_S) - 1)
            until_s = starts[index + 1] - 1
        return None

    def _probe_hits(self, index: int) -> bool:
        probe = self._probes[index]
        return probe is not None and self._local.first_from(probe[0]) < probe[1]

    def _in_stretch(self, index: int, low: int, high: int) -> Iterator[int]:
        shift = self._alone[index]
        if shift is None:
            return self._mixed(index, low, high)
        return map((-shift).__add__, self._local.times(low + shift, high + shift))

    def _mixed(self, index: int, low: int, high: int) -> Iterator[int]:
        """Shifted and real occurrences in order, those that coincide merged into one."""
        last = -FAR_S
        if low == self._starts[index] < high and self._probe_hits(index):
            last = low
            yield low
        runs = [map((-shift).__add__, self._local.times(low + shift, high + shift)) for shift in self._shifts[index]]
        for at_s in heapq.merge(*runs):
            if at_s != last:
                last = at_s
                yield at_s

    def _count_in_stretch(self, index: int, low: int, high: int) -> int:
        """How many occurrences lie in [low, high), which is a part of the stretch."""
        shifts = self._shifts[index]
        if low == self._starts[index] and self._probe_hits(index):
            return 1  # A stretch with a probe is one second long.
        if len(shifts) == 1:
            return self._local.count(low + shifts[0], high + shifts[0])
        # Shifted and real times that coincide count once. Stretches with both are as short as their gap.
        together = 0
        for shift in shifts:
            together |= self._local.pattern(low + shift, high + shift)
        return together.bit_count()


class _IntervalSearch:
    """Intervals: arithmetic on the grid, within the same years as every other search."""

    __slots__ = ("_anchor", "_period")

    def __init__(self, schedule: IntervalSchedule) -> None:
        self._anchor, self._period = schedule.anchor, schedule.period

    def after(self, instant: int) -> int | None:
        instant = max(instant, LOCAL_FIRST_S * SECOND - 1)
        found = self._anchor + ((instant - self._anchor) // self._period + 1) * self._period
        return found if found < LOCAL_END_S * SECOND else None

    def before(self, instant: int) -> int | None:
        instant = min(instant, LOCAL_END_S * SECOND)
        found = self._anchor + ((instant - 1 - self._anchor) // self._period) * self._period
        return found if found >= LOCAL_FIRST_S * SECOND else None

    def between(self, after: int, until: int) -> Iterator[int]:
        first = self.after(after)
        last = min(until, LOCAL_END_S * SECOND - 1)
        return iter(range(first, last + 1, self._period)) if first is not None else iter(())

    def count(self, after: int, until: int) -> int:
        first = self.after(after)
        last = min(until, LOCAL_END_S * SECOND - 1)
        return len(range(first, last + 1, self._period)) if first is not None else 0


class _ListSearch:
    """A few known instants, ascending."""

    __slots__ = ("_instants",)

    def __init__(self, instants: tuple[int, ...]) -> None:
        self._instants = instants

    def after(self, instant: int) -> int | None:
        return next((one for one in self._instants if one > instant), None)

    def before(self, instant: int) -> int | None:
        return next((one for one in reversed(self._instants) if one < instant), None)

    def between(self, after: int, until: int) -> Iterator[int]:
        return (one for one in self._instants if after < one <= until)

    def count(self, after: int, until: int) -> int:
        return sum(1 for _ in self.between(after, until))


def _one_off_instants(local: int, zone: ZoneRules, gap: GapRule, fold: FoldRule) -> tuple[int, ...]:
    shown = zone.local_to_instants(local)
    if shown:
        chosen = {"first": shown[:1], "second": shown[1:2] or shown, "both": shown}
        return chosen[fold]
    swallowed = zone.gap_at(local)
    if swallowed is None or gap == "skip":
        return ()
    return (local - swallowed.before_s * SECOND,) if gap == "shift" else (swallowed.at_s * SECOND,)
