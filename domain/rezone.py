"""What a new time-zone database does to decided and undecided instants (DESIGN section 4, adoption).

An interval-like schedule goes by eras: instants up to an adoption by the old rules, later ones by the new. A
fixed-time schedule goes by its local times: the last decided local time stays the last decided one, wherever the
new rules put it, so that none is owed twice and none is forgotten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

from .definition import Fold, Gap
from .instants import SECOND, Instant
from .recurrence.local_times import LocalTimes
from .recurrence.recurrence import Recurrence
from .recurrence.schedule import CronSchedule, IntervalSchedule, OneOffSchedule, Schedule
from .zones import ZoneRules

_NEIGHBOUR_S = 2 * 24 * 3_600
"""No gap is farther from the instant it shifted than this."""


def goes_by_local_time(schedule: Schedule) -> bool:
    """Whether the schedule names local times (fixed-time) rather than running through all of them."""
    match schedule:
        case IntervalSchedule():
            return False
        case CronSchedule():
            return not schedule.interval_like
        case OneOffSchedule():
            return True


@dataclass(frozen=True, slots=True)
class Era:
    """Instants up to ``until`` (inclusive; None: for ever) come from ``recurrence``."""

    recurrence: Recurrence
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


def moved_mark(rules: Rules, decided: int, old: ZoneRules, new: ZoneRules) -> Instant:
    """Where the new rules put the local time whose instant ``decided`` was under the old ones.

    Meant for fixed-time schedules. A local time that does not exist any more is taken as shifted by its gap, which
    keeps the order of local times whatever the gap rule is.
    """
    local, pass_number = _nominal(rules, decided, old)
    instants = new.local_to_instants(local)
    if len(instants) == 1:
        return instants[0]
    if len(instants) == 2:
        by_fold = {"first": 0, "second": 1, "both": pass_number}
        return instants[by_fold[rules.fold]]
    gap = new.gap_at(local)
    assert gap is not None, "a local time without an instant lies in a gap"
    return Instant(local - gap.before_s * SECOND)


def _nominal(rules: Rules, decided: int, zone: ZoneRules) -> tuple[int, int]:
    """The local time that the schedule named for this instant, and in which pass of a fold it was (0 or 1).

    Where one instant serves several local times, the last of them: all are decided with it.
    """
    actual = decided + zone.utc_offset_at(decided) * SECOND
    schedule = rules.schedule
    match schedule:
        case OneOffSchedule():
            named = schedule.local
        case CronSchedule():
            named = _last_named(rules, actual, decided, zone)
        case IntervalSchedule():
            raise AssertionError("an interval names no local time")
        case _:
            assert_never(schedule)
    passes = zone.local_to_instants(named)
    # One that stood alone counts as the last pass, so that a fold that is new does not owe it again.
    return named, passes.index(Instant(decided)) if len(passes) == 2 and decided in passes else 1


def _last_named(rules: Rules, actual: int, decided: int, zone: ZoneRules) -> int:
    assert isinstance(rules.schedule, CronSchedule)
    times = _local_times(rules.schedule)
    if times.first_from(actual // SECOND) == actual // SECOND:
        return actual
    decided_s = decided // SECOND
    for change in reversed(zone.transitions(decided_s - _NEIGHBOUR_S, decided_s + 1)):
        width = (change.after_s - change.before_s) * SECOND
        if width <= 0:
            continue
        shifted = actual - width
        if times.first_from(shifted // SECOND) == shifted // SECOND:
            return shifted
        if change.at_s == decided_s:
            return _last_in_gap(times, actual, width)
    raise AssertionError("a decided instant stands for no local time of its schedule")


def _last_in_gap(times: LocalTimes, end: int, width: int) -> int:
    """For the rule next-valid: the last named local time in the gap that ends at ``end``."""
    found, position = end, times.first_from((end - width) // SECOND)
    while position * SECOND < end:
        found, position = position * SECOND, times.first_from(position + 1)
    return found


@lru_cache(maxsize=1_024)
def _local_times(schedule: CronSchedule) -> LocalTimes:
    return LocalTimes(schedule)
