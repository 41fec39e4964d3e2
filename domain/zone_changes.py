"""What another time-zone database would change about a schedule's coming instants, counted exactly.

Pure and bounded: stretches in which two zones agree are passed over, days without a change of offset near by are
counted by masks, and only the instants that are shown are listed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from .instants import SECOND, Instant
from .recurrence.exclusions import Occurrences, is_excluded, with_exclusions
from .recurrence.local_times import LocalTimes
from .recurrence.months import DAY_S
from .recurrence.recurrence import recurrence_of
from .recurrence.timeline import NEAR_S
from .rezone import Rules, due_instants, goes_by_local_time, local_times, named_times
from .zones import ZoneRules


@dataclass(frozen=True, slots=True)
class ChangedInstant:
    """One local time of a fixed-time schedule that moves, or an instant that goes (no new) or comes (no old)."""

    old: Instant | None
    new: Instant | None


@dataclass(frozen=True, slots=True)
class Zoned:
    """A schedule with its rules, limits and excluded dates, to be looked at in two zones."""

    rules: Rules
    excluded: tuple[int, ...] = ()
    not_before: int | None = None
    not_after: int | None = None


@dataclass(slots=True)
class Changes:
    """``count`` changes in all, of which the first are listed in ``shown``, by old instant, else by the new one."""

    count: int = 0
    shown: list[ChangedInstant] = field(default_factory=list[ChangedInstant])


def changes_between(zoned: Zoned, old: ZoneRules, new: ZoneRules, *, after: int, until: int, limit: int) -> Changes:
    """What the zone ``new`` would change in (after, until] about a schedule that goes by ``old``; lists ``limit``.

    A local time of a fixed-time schedule counts once, at its old instant. Of an interval-like schedule, every instant
    that only one of the two has counts. An interval never changes.
    """
    search = _Search(zoned, old, new, after=after, until=until, limit=limit)
    for start_s, end_s in _days(old, new, after, until):
        search.look_at(start_s, end_s)
    return search.found


class _Search:
    """One comparison, day by day."""

    def __init__(self, zoned: Zoned, old: ZoneRules, new: ZoneRules, *, after: int, until: int, limit: int) -> None:
        self.found = Changes()
        self._zoned, self._rules = zoned, zoned.rules
        self._old, self._new = old, new
        low = after if zoned.not_before is None else max(after, zoned.not_before - 1)
        self._after, self._until = after, until
        self._low, self._high = low, until if zoned.not_after is None else min(until, zoned.not_after)
        self._limit = limit
        self._times = local_times(zoned.rules.schedule)
        self._fixed = goes_by_local_time(zoned.rules.schedule)

    def look_at(self, start_s: int, end_s: int) -> None:
        """Count the changes at seconds in [start, end)."""
        if not self._fixed:
            if self._times is None:
                return
            self._compare(self._mask(self._old, start_s, end_s), self._mask(self._new, start_s, end_s), start_s)
        elif self._times is not None and self._is_plain(start_s, end_s):
            self._shift(self._times, start_s, end_s)
        else:
            for change in sorted(self._moved(start_s, end_s), key=_order):
                self._add(change)

    # Fixed-time schedules: local times that have another instant

    def _shift(self, times: LocalTimes, start_s: int, end_s: int) -> None:
        """A day in which both zones keep one offset: every local time moves, or none does."""
        old_s, new_s = self._old.offset_at_second(start_s), self._new.offset_at_second(start_s)
        if old_s == new_s:
            return
        self.found.count += times.count(start_s + old_s, end_s + old_s)
        room = self._limit - len(self.found.shown)
        for local_s, _ in zip(times.times(start_s + old_s, end_s + old_s), range(room), strict=False):
            old, new = Instant((local_s - old_s) * SECOND), Instant((local_s - new_s) * SECOND)
            self.found.shown.append(ChangedInstant(old, new))

    def _moved(self, start_s: int, end_s: int) -> Iterator[ChangedInstant]:
        """The local times whose old instant lies in [start, end), or that only the new zone has there."""
        seen: set[tuple[int, int]] = set()
        for local, place in self._named(self._old, start_s, end_s):
            olds, news = self._due(local, self._old), self._due(local, self._new)
            old = olds[min(place, len(olds) - 1)]
            if (local, old) in seen or not start_s <= old // SECOND < end_s or old <= self._after:
                continue
            seen.add((local, old))
            # A fold that goes takes its second pass with it.
            new = news[olds.index(old)] if olds.index(old) < len(news) else None
            yield from self._change(old, new)
        for local, _ in self._named(self._new, start_s, end_s):
            if not self._passed(local):
                olds, news = self._due(local, self._old), self._due(local, self._new)
                for new in news[len(olds) :]:
                    if start_s <= new // SECOND < end_s and (local, -new) not in seen:
                        seen.add((local, -new))
                        yield from self._change(None, new)

    def _change(self, old: int | None, new: int | None) -> Iterator[ChangedInstant]:
        before, after = self._kept(old, self._old), self._kept(new, self._new)
        if before != after:
            yield ChangedInstant(before, after)

    def _kept(self, instant: int | None, zone: ZoneRules) -> Instant | None:
        """The instant, unless a limit or an excluded date keeps it from being due."""
        z = self._zoned
        outside = instant is None or (
            (z.not_before is not None and instant < z.not_before)
            or (z.not_after is not None and instant > z.not_after)
            or (bool(z.excluded) and is_excluded(instant, zone, z.excluded))
        )
        return None if outside or instant is None else Instant(instant)

    def _named(self, zone: ZoneRules, start_s: int, end_s: int) -> Iterator[tuple[int, int]]:
        """The local times, with their pass, that instants in [start, end) stand for."""
        low, high = max(start_s * SECOND - 1, self._after), min(end_s * SECOND - 1, self._until)
        recurrence = recurrence_of(self._rules.schedule, zone, self._rules.gap, self._rules.fold)
        for instant in recurrence.between(low, high):
            for named in named_times(self._rules, instant, zone):
                yield named.local, named.place

    def _due(self, local: int, zone: ZoneRules) -> list[Instant]:
        return due_instants(self._rules, local, zone)

    def _passed(self, local: int) -> bool:
        """Whether the old zone has put this local time at or before the beginning."""
        olds = self._due(local, self._old)
        return bool(olds) and olds[-1] <= self._after

    def _is_plain(self, start_s: int, end_s: int) -> bool:
        """Whether both zones keep one offset around the stretch, and nothing but the schedule has a say in it."""
        return (
            not self._excludes_near(start_s, end_s)
            and self._low < start_s * SECOND
            and self._high >= end_s * SECOND - 1
            and not any(zone.transitions(start_s - NEAR_S, end_s + NEAR_S) for zone in (self._old, self._new))
        )

    def _excludes_near(self, start_s: int, end_s: int) -> bool:
        """Whether a date is excluded that a clock might show in the stretch."""
        excluded = self._zoned.excluded
        return bisect_left(excluded, start_s // DAY_S - 2) < bisect_right(excluded, end_s // DAY_S + 2)

    # Interval-like schedules: instants that only one zone has

    def _mask(self, zone: ZoneRules, start_s: int, end_s: int) -> int:
        """The instants in [start, end) as bits."""
        if self._is_plain(start_s, end_s):
            assert self._times is not None, "the caller looked"
            offset_s = zone.offset_at_second(start_s)
            return self._times.pattern(start_s + offset_s, end_s + offset_s)
        mask = bytearray((end_s - start_s + 7) // 8)
        low, high = max(start_s * SECOND - 1, self._low), min(end_s * SECOND - 1, self._high)
        if low < high:
            for instant in self._recurrence(zone).between(low, high):
                place = instant // SECOND - start_s
                mask[place >> 3] |= 1 << (place & 7)
        return int.from_bytes(mask, "little")

    def _recurrence(self, zone: ZoneRules) -> Occurrences:
        every = recurrence_of(self._rules.schedule, zone, self._rules.gap, self._rules.fold)
        return with_exclusions(every, zone, self._zoned.excluded)

    def _compare(self, old: int, new: int, start_s: int) -> None:
        differing = old ^ new
        self.found.count += differing.bit_count()
        while differing and len(self.found.shown) < self._limit:
            lowest = differing & -differing
            instant = Instant((start_s + lowest.bit_length() - 1) * SECOND)
            gone = bool(old & lowest)
            self.found.shown.append(ChangedInstant(instant if gone else None, None if gone else instant))
            differing ^= lowest

    def _add(self, change: ChangedInstant) -> None:
        self.found.count += 1
        if len(self.found.shown) < self._limit:
            self.found.shown.append(change)


def _order(change: ChangedInstant) -> int:
    first = change.new if change.old is None else change.old
    assert first is not None, "a change has an instant"
    return first


def _days(old: ZoneRules, new: ZoneRules, after: int, until: int) -> Iterator[tuple[int, int]]:
    """The UTC days of (after, until] at or near which the zones differ, as whole seconds [start, end)."""
    first_s, last_s = after // SECOND + 1, until // SECOND + 1
    for start_s in range(first_s - first_s % DAY_S, last_s, DAY_S):
        if _differ(old, new, start_s - DAY_S, start_s + 2 * DAY_S):
            yield max(start_s, first_s), min(start_s + DAY_S, last_s)


def _differ(old: ZoneRules, new: ZoneRules, start_s: int, end_s: int) -> bool:
    """Whether the offsets differ anywhere in [start, end)."""
    return old.offset_at_second(start_s) != new.offset_at_second(start_s) or old.transitions(
        start_s + 1, end_s
    ) != new.transitions(start_s + 1, end_s)
