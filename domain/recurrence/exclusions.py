"""Excluded dates: a recurrence without the instants whose local date is one of them.

What counts is the date that a clock in the zone shows at the instant itself, after every rule for gaps and folds
has had its say. Days begin and end wherever the zone's own clock says: a day may begin in a gap, happen in two
parts, or not at all.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, pairwise
from typing import TypeAlias

from ..instants import SECOND, Instant
from ..zones import ZoneRules
from .local_times import FAR_S
from .months import DAY_S
from .recurrence import Recurrence
from .timeline import NEAR_S

EXCLUSIONS_KEPT_MAX = 1_024
"""Distinct (recurrence, zone, excluded dates) kept ready at once: a hundred bytes for each run of dates."""
_RANGES_KEPT_MAX = 256
"""Distinct (zone, excluded dates) kept as stretches of UTC at once: a whole tenant shares its holidays."""


class Excluding:
    """A recurrence without its excluded local dates; answers as one recurrence does. Made by ``with_exclusions``.

    No search steps over more stretches than there are runs of excluded dates, and the changes of offset in them.
    """

    __slots__ = ("_ends", "_recurrence", "_starts")

    def __init__(self, recurrence: Recurrence, ranges: "list[tuple[int, int]]") -> None:
        """``ranges`` are the excluded instants: disjoint and ascending, each open at its end."""
        self._recurrence = recurrence
        self._starts = [start for start, _ in ranges]
        self._ends = [end for _, end in ranges]

    def next_after(self, instant: int) -> Instant | None:
        """The first instant strictly after this one; None when there is none up to YEAR_MAX."""
        found = self._recurrence.next_after(instant)
        while found is not None:
            place = self._excluded_at(found)
            if place is None:
                return found
            found = self._recurrence.next_after(self._ends[place] - 1)
        return None

    def next_many(self, instant: int, count: int) -> list[Instant]:
        """The first ``count`` instants strictly after this one, ascending; fewer when no more follow."""
        return list(islice(self.between(instant, FAR_S), count))

    def previous_before(self, instant: int) -> Instant | None:
        """The last instant strictly before this one; None when there is none from YEAR_MIN."""
        found = self._recurrence.previous_before(instant)
        while found is not None:
            place = self._excluded_at(found)
            if place is None:
                return found
            found = self._recurrence.previous_before(self._starts[place])
        return None

    def between(self, after: int, until: int) -> Iterator[Instant]:
        """The instants with ``after`` < instant <= ``until``, ascending; its cost is that of what is taken."""
        first = self.next_after(after)
        while first is not None and first <= until:
            place = bisect_right(self._starts, first)
            end = min(until, self._starts[place] - 1) if place < len(self._starts) else until
            yield from self._recurrence.between(first - 1, end)
            first = self.next_after(end)

    def count(self, after: int, until: int) -> int:
        """How many instants ``between`` gives, exactly: all, less those of each excluded stretch."""
        total = self._recurrence.count(after, until)
        for place in range(bisect_right(self._ends, after + 1), bisect_right(self._starts, until)):
            low, high = max(after, self._starts[place] - 1), min(until, self._ends[place] - 1)
            total -= self._recurrence.count(low, high) if high > low else 0
        return total

    def _excluded_at(self, instant: int) -> int | None:
        """Which excluded stretch holds the instant, if any."""
        place = bisect_right(self._starts, instant) - 1
        return place if place >= 0 and instant < self._ends[place] else None


Occurrences: TypeAlias = Recurrence | Excluding
"""The instants of a schedule, its excluded dates left out."""


def with_exclusions(recurrence: Recurrence, zone: ZoneRules, excluded: tuple[int, ...]) -> Occurrences:
    """The recurrence without the local dates ``excluded`` (ascending days since 1970-01-01) of its zone.

    The recurrence itself when nothing is excluded; otherwise the same object for equal arguments.
    """
    return _excluding(recurrence, zone, excluded) if excluded else recurrence


def is_excluded(instant: int, zone: ZoneRules, excluded: tuple[int, ...]) -> bool:
    """Whether the local date of the instant is one of the ascending days ``excluded``."""
    day = (instant // SECOND + zone.utc_offset_at(instant)) // DAY_S
    place = bisect_left(excluded, day)
    return place < len(excluded) and excluded[place] == day


@lru_cache(maxsize=EXCLUSIONS_KEPT_MAX)
def _excluding(recurrence: Recurrence, zone: ZoneRules, excluded: tuple[int, ...]) -> Excluding:
    return Excluding(recurrence, _ranges(zone, excluded))


@lru_cache(maxsize=_RANGES_KEPT_MAX)
def _ranges(zone: ZoneRules, excluded: tuple[int, ...]) -> list[tuple[int, int]]:
    """The instants on excluded dates, as disjoint ascending stretches. Shared: callers must not change it."""
    pieces: list[tuple[int, int]] = []
    for first, last in _runs(excluded):
        pieces += _shown(zone, first * DAY_S, (last + 1) * DAY_S)
    ranges: list[tuple[int, int]] = []
    for start, end in sorted(pieces):
        if ranges and start <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
        else:
            ranges.append((start, end))
    return [(start * SECOND, end * SECOND) for start, end in ranges]


def _runs(days: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The first and last of each run of consecutive days."""
    first = days[0]
    for day, following in pairwise(days):
        if following != day + 1:
            yield first, day
            first = following
    yield first, days[-1]


def _shown(zone: ZoneRules, low: int, high: int) -> Iterator[tuple[int, int]]:
    """The UTC seconds at which a clock in the zone shows a local second of [low, high)."""
    start, offset = low - NEAR_S, zone.offset_at_second(low - NEAR_S)
    changes = [(change.at_s, change.after_s) for change in zone.transitions(start + 1, high + NEAR_S)]
    for end, following in [*changes, (high + NEAR_S, 0)]:
        first, last = max(start, low - offset), min(end, high - offset)
        if first < last:
            yield first, last
        start, offset = end, following
