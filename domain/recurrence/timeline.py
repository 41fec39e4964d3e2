"""A zone's local clock under declared rules, laid out along UTC.

The instants from YEAR_MIN to YEAR_MAX are cut into *stretches*. Within a stretch an occurrence is a
matching local time minus one of the stretch's *shifts*: one shift ordinarily, none where a pass of a
repeated hour does not count, two where times shifted out of a gap are mixed with real ones. A stretch
may begin with a *probe*: a range of missing local times that all stand for the stretch's first second.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from ..zones import Transition, ZoneRules
from .months import LOCAL_END_S, LOCAL_FIRST_S
from .rules import FoldRule, GapRule

NEAR_S = 3 * 86_400
"""More than any two offsets of one zone can differ, so farther apart local order is UTC order."""
FIRST_S = LOCAL_FIRST_S - NEAR_S
END_S = LOCAL_END_S + NEAR_S
SEARCH_STEPS_MAX = 32_768
"""Stretches a search can look at: a zone has no more, since its data lists at most 4,096 changes, its footer
adds fewer than 700, and a change cuts the clock at most six times. The longest real zone has about 1,000."""
TIMELINES_KEPT_MAX = 512
"""Distinct (zone, gap, fold) kept at once; more are built again, about a millisecond each."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Stretches in order: ``starts`` (UTC seconds, one more at the end), their ``shifts`` and ``probes``.

    ``alone`` has the shift of a stretch that has one and no probe, else None; one None more at the end.
    """

    starts: list[int]
    shifts: list[tuple[int, ...]]
    probes: list[tuple[int, int] | None]
    alone: list[int | None]

    def index_at(self, at_s: int) -> int:
        """The stretch that holds an instant; the nearest one outside the bounds."""
        return min(max(bisect_right(self.starts, at_s) - 1, 0), len(self.shifts) - 1)


@dataclass(frozen=True, slots=True)
class _Segment:
    """A run of constant offset: UTC seconds [from_s, to_s)."""

    from_s: int
    to_s: int
    offset_s: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """UTC seconds [from_s, to_s) whose local times count with this shift."""

    from_s: int
    to_s: int
    shift_s: int


@lru_cache(maxsize=TIMELINES_KEPT_MAX)
def timeline_of(zone: ZoneRules, gap: GapRule, fold: FoldRule) -> Timeline:
    """Lay out the zone under the rules. Shared: callers must not change it."""
    segments = _segments(zone)
    pieces: list[_Piece] = []
    probes: dict[int, tuple[int, int]] = {}
    for index, segment in enumerate(segments):
        near = _near(segments, index)
        pieces += _passes(segment, near, fold)
    if gap != "skip":
        for change in zone.transitions(FIRST_S + 1, END_S):
            missing = _missing(zone, change)
            if missing is None:
                continue
            if gap == "shift":
                pieces.append(_Piece(missing[0] - change.before_s, missing[1] - change.before_s, change.before_s))
            else:
                probes[change.at_s] = missing
    return _overlaid(pieces, probes)


def _segments(zone: ZoneRules) -> list[_Segment]:
    segments: list[_Segment] = []
    from_s, offset_s = FIRST_S, zone.offset_at_second(FIRST_S)
    for change in zone.transitions(FIRST_S + 1, END_S):
        segments.append(_Segment(from_s, change.at_s, offset_s))
        from_s, offset_s = change.at_s, change.after_s
    return [*segments, _Segment(from_s, END_S, offset_s)]


def _near(segments: list[_Segment], index: int) -> list[_Segment]:
    """The other segments close enough to show some of the same local times."""
    segment = segments[index]
    first = index
    while first > 0 and segments[first - 1].to_s > segment.from_s - NEAR_S:
        first -= 1
    last = index
    while last + 1 < len(segments) and segments[last + 1].from_s < segment.to_s + NEAR_S:
        last += 1
    return segments[first:index] + segments[index + 1 : last + 1]


def _passes(segment: _Segment, near: list[_Segment], fold: FoldRule) -> list[_Piece]:
    """The parts of a segment that count: its local times are ranked among those that show them too."""
    low, high = segment.from_s + segment.offset_s, segment.to_s + segment.offset_s
    rivals = [(one.from_s + one.offset_s, one.to_s + one.offset_s, one.from_s < segment.from_s) for one in near]
    rivals = [rival for rival in rivals if rival[0] < high and rival[1] > low]
    if fold == "both" or not rivals:
        return [_Piece(segment.from_s, segment.to_s, segment.offset_s)]
    cuts = sorted({low, high} | {cut for rival in rivals for cut in rival[:2] if low < cut < high})
    pieces: list[_Piece] = []
    for start, end in pairwise(cuts):
        earlier = sum(1 for rival in rivals if rival[2] and rival[0] <= start < rival[1])
        later = sum(1 for rival in rivals if not rival[2] and rival[0] <= start < rival[1])
        if earlier == 0 if fold == "first" else earlier == 1 or earlier + later == 0:
            pieces.append(_Piece(start - segment.offset_s, end - segment.offset_s, segment.offset_s))
    return pieces


def _missing(zone: ZoneRules, change: Transition) -> tuple[int, int] | None:
    """The local seconds [low, high) that this transition swallows."""
    low, high = change.at_s + change.before_s, change.at_s + change.after_s
    for other in zone.transitions(change.at_s - NEAR_S, change.at_s + NEAR_S):
        if other.at_s == change.at_s:
            continue
        # A neighbouring change may show part of these local times, or have swallowed them first.
        shown_until = other.at_s + max(other.before_s, other.after_s)
        shown_from = other.at_s + min(other.before_s, other.after_s)
        if other.at_s > change.at_s and shown_from < high:
            high = max(low, shown_from)
        elif other.at_s < change.at_s and shown_until > low:
            low = min(high, shown_until)
    return (low, high) if low < high else None


def _overlaid(pieces: list[_Piece], probes: dict[int, tuple[int, int]]) -> Timeline:
    """Cut overlapping pieces into disjoint stretches that cover all of [FIRST_S, END_S)."""
    cuts = {FIRST_S, END_S} | {piece.from_s for piece in pieces} | {piece.to_s for piece in pieces}
    cuts |= {cut for at_s in probes for cut in (at_s, at_s + 1)}
    waiting = sorted(pieces, key=lambda piece: piece.from_s, reverse=True)
    active: list[_Piece] = []
    timeline = Timeline([], [], [], [])
    for at_s in sorted(cut for cut in cuts if FIRST_S <= cut < END_S):
        while waiting and waiting[-1].from_s <= at_s:
            active.append(waiting.pop())
        active = [piece for piece in active if piece.to_s > at_s]
        shifts = tuple(sorted({piece.shift_s for piece in active}))
        probe = probes.get(at_s)
        same = timeline.shifts and timeline.shifts[-1] == shifts and timeline.probes[-1] is None
        if probe is None and same:
            continue
        timeline.starts.append(at_s)
        timeline.shifts.append(shifts)
        timeline.probes.append(probe)
        timeline.alone.append(shifts[0] if len(shifts) == 1 and probe is None else None)
    timeline.starts.append(END_S)
    timeline.alone.append(None)
    return timeline
