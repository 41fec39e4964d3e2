"""What a new time-zone database does to decided and undecided instants (DESIGN section 4, adoption).

An interval-like schedule goes by eras: instants up to an adoption by the old rules, later ones by the new. A
fixed-time schedule goes by its local times: those that the old rules put at or before the last decided instant stay
decided, wherever the new rules put them, so that none is owed twice and none is forgotten.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

from .definition import Fold, Gap
from .instants import SECOND, Instant
from .recurrence.exclusions import Occurrences
from .recurrence.local_times import LocalTimes, local_times_of
from .recurrence.months import DAY_S
from .recurrence.rule_search import rule_times_of
from .recurrence.schedule import CronSchedule, IntervalSchedule, OneOffSchedule, RuleSchedule, Schedule
from .recurrence.timeline import NEAR_S
from .zones import Transition, ZoneRules

_OFFSETS_KEPT_MAX = 4_096
"""Distinct (zone, day) whose offsets are kept at once: a book's triggers were decided within few days."""


def goes_by_local_time(schedule: Schedule) -> bool:
    """Whether the schedule names local times (fixed-time) rather than running through all of them."""
    match schedule:
        case IntervalSchedule():
            return False
        case CronSchedule() | RuleSchedule():
            return not schedule.interval_like
        case OneOffSchedule():
            return True


@dataclass(frozen=True, slots=True)
class Era:
    """Instants up to ``until`` (inclusive; None: for ever) come from ``recurrence``."""

    recurrence: Occurrences
    until: int | None


class Eras:
    """Recurrences one after the other in time; answers as one recurrence does."""

    def __init__(self, eras: Sequence[Era]) -> None:
        assert eras, "no era"
        assert eras[-1].until is None, "the last era has no end"
        self._eras = tuple(eras)

    def next_after(self, instant: int) -> Instant | None:
        """The first instant strictly after, or None."""
        after = instant
        for era in self._eras:
            if era.until is not None and after >= era.until:
                continue
            found = era.recurrence.next_after(after)
            if found is not None and (era.until is None or found <= era.until):
                return found
            if era.until is not None:
                after = era.until
        return None

    def previous_before(self, instant: int) -> Instant | None:
        """The last instant strictly before, or None."""
        for place in range(len(self._eras) - 1, -1, -1):
            era = self._eras[place]
            start = self._start(place)
            before = instant if era.until is None else min(instant, era.until + 1)
            found = era.recurrence.previous_before(before)
            if found is not None and (start is None or found > start):
                return found
        return None

    def count(self, after: int, until: int) -> int:
        """How many instants lie in (after, until]."""
        total = 0
        for place, era in enumerate(self._eras):
            start = self._start(place)
            low = after if start is None else max(after, start)
            high = until if era.until is None else min(until, era.until)
            total += era.recurrence.count(low, high) if high > low else 0
        return total

    def _start(self, place: int) -> int | None:
        return self._eras[place - 1].until if place else None


@dataclass(frozen=True, slots=True)
class Rules:
    """A schedule's declared rules."""

    schedule: Schedule
    gap: Gap
    fold: Fold


@dataclass(frozen=True, slots=True)
class NamedTime:
    """A local time that a schedule names (microseconds), and which of its ``passes`` (1 or 2) is meant, from 0."""

    local: int
    place: int = 0
    passes: int = 1


@dataclass(frozen=True, slots=True)
class Covered:
    """The local times decided under one zone's rules: those that these put at or before ``decided``."""

    rules: Rules
    decided: int
    zone: ZoneRules

    def holds(self, named: NamedTime) -> bool:
        """Whether this local time, in this pass, is decided.

        A local time that stood alone counts in both passes of a new fold. One that a gap swallowed counts as passed
        where it would have been, whether the rule for gaps fired it or not.
        """
        passes = self.zone.local_to_instants(named.local)
        if len(passes) == 2:
            return passes[named.place if named.passes == 2 else int(self.rules.fold == "second")] <= self.decided
        return (passes[0] if passes else _out_of_gap(self.rules, named.local, self.zone)) <= self.decided

    def bounds(self, present: ZoneRules) -> tuple[int, int]:
        """Instants of other rules: all up to the first are decided, none after the second is."""
        before, after = _offsets_near(self.zone, self.decided), _offsets_near(present, self.decided)
        return (
            self.decided + (before[0] - after[-1]) * SECOND - 1,
            self.decided + (before[-1] - after[0]) * SECOND,
        )


def local_times(schedule: Schedule) -> LocalTimes | None:
    """The local times that a schedule names by their fields; None for an interval and a one-off."""
    match schedule:
        case CronSchedule():
            return local_times_of(schedule)
        case RuleSchedule():
            return rule_times_of(schedule)
        case IntervalSchedule() | OneOffSchedule():
            return None
        case _:
            assert_never(schedule)


def due_instants(rules: Rules, local: int, zone: ZoneRules) -> list[Instant]:
    """The instants at which a local time is due under the rules: none, one, or two where a fold runs twice."""
    shown = zone.local_to_instants(local)
    if len(shown) == 2 and rules.fold != "both":
        return [shown[int(rules.fold == "second")]]
    if shown or rules.gap == "skip":
        return list(shown)
    return [Instant(_out_of_gap(rules, local, zone))]


def _out_of_gap(rules: Rules, local: int, zone: ZoneRules) -> int:
    """Where a local time goes that a gap swallowed; as if shifted for the rule that skips it."""
    gap = zone.gap_at(local)
    assert gap is not None, "a local time without an instant lies in a gap"
    return gap.at_s * SECOND if rules.gap == "next-valid" else local - gap.before_s * SECOND


def named_times(rules: Rules, instant: int, zone: ZoneRules) -> Iterator[NamedTime]:
    """The local times that an instant of the schedule's recurrence stands for; several where a gap merged them."""
    times = local_times(rules.schedule)
    if times is not None:
        return _named(rules, times, instant, zone)
    assert isinstance(rules.schedule, OneOffSchedule), "an interval names no local time"
    return iter((_placed(rules.schedule.local, instant, zone),))


def _named(rules: Rules, times: LocalTimes, instant: int, zone: ZoneRules) -> Iterator[NamedTime]:
    at_s = instant // SECOND
    shown_s = at_s + zone.offset_at_second(at_s)
    if times.matches(shown_s):
        yield _placed(shown_s * SECOND, instant, zone)
    if rules.gap == "skip":
        return
    for change in zone.transitions(at_s - NEAR_S, at_s + 1):
        for local_s in _moved_to(rules.gap, change, at_s):
            if times.matches(local_s) and zone.gap_at(local_s * SECOND) == change:
                yield NamedTime(local_s * SECOND)


def _moved_to(gap: Gap, change: Transition, at_s: int) -> range:
    """The local seconds that the rule for gaps may have put from this gap to ``at_s``."""
    if gap == "shift":
        return range(at_s + change.before_s, at_s + change.before_s + 1)
    return range(at_s + change.before_s, at_s + change.after_s) if change.at_s == at_s else range(0)


def _placed(local: int, instant: int, zone: ZoneRules) -> NamedTime:
    passes = zone.local_to_instants(local)
    return NamedTime(local, passes.index(Instant(instant)), len(passes)) if instant in passes else NamedTime(local)


def _offsets_near(zone: ZoneRules, instant: int) -> list[int]:
    """Every offset in force around an instant, ascending: local times farther away keep their order with it."""
    return _offsets_around(zone, instant // SECOND // DAY_S)


@lru_cache(maxsize=_OFFSETS_KEPT_MAX)
def _offsets_around(zone: ZoneRules, day: int) -> list[int]:
    start_s, end_s = day * DAY_S - NEAR_S, (day + 1) * DAY_S + NEAR_S
    changes = zone.transitions(start_s + 1, end_s)
    return sorted({zone.offset_at_second(start_s), *(change.after_s for change in changes)})
