"""What a trigger owes at an instant: its undecided instants, each with its release and how it is judged.

Long stretches are counted, not listed, so that a month of outage costs no more than an hour of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from .identifiers import FireKey
from .instants import Instant
from .jitter import release_of
from .limits import TOLERANCE_MAX, TOLERANCE_MIN
from .recurrence.exclusions import Occurrences, with_exclusions
from .recurrence.recurrence import local_text, recurrence_of
from .rezone import Covered, Era, Eras, Rules, goes_by_local_time, named_times
from .state import Mark, Pause, Segment, State, TriggerState
from .zones import ZoneLibrary, ZoneRules

Judgement = Literal[
    "on-time", "missed", "missed-paused", "skip-paused", "skip-quarantined", "skip-suspended", "expired", "taken"
]
"""How an instant is judged; ``taken``: new zone data moved it onto a key that is decided already."""


_FIREABLE: frozenset[Judgement] = frozenset({"missed", "missed-paused"})
"""Judgements under which a policy says what fires."""


@dataclass(frozen=True, slots=True)
class Owed:
    """One undecided instant, its release, and how long it is forgiven for being late."""

    scheduled: int
    release: int
    tolerance: int


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive undecided instants under one judgement: ``count`` of them from ``first`` to ``last``.

    ``listed`` holds them one by one when the judgement may fire them, else it is empty.
    """

    judgement: Judgement
    first: int
    last: int
    count: int
    listed: tuple[Owed, ...] = ()


class Timeline:
    """One segment of one trigger, resolved by the time-zone data it goes by: where its instants and releases are."""

    def __init__(self, state: State, trigger: TriggerState, segment: Segment, zones: ZoneLibrary) -> None:
        self._state = state
        self._trigger = trigger
        self._segment = segment
        self._zones = zones
        self._zone_sha256 = state.zone_data_of(segment)
        self.recurrence: Occurrences | Eras = self._recurrence()
        by_local_time = goes_by_local_time(segment.schedule)
        decided_before = segment.mark.zone_sha256 != self._zone_sha256 and segment.mark.since <= segment.decided
        self._moved = by_local_time and decided_before
        # Marks of other zone data that still say something about this segment's local times and keys.
        self._earlier = (*segment.earlier, segment.mark) if self._moved else segment.earlier if by_local_time else ()
        after = self._last_decided()
        if segment.not_before is not None:
            after = max(after, segment.not_before - 1)
        self._after = after
        bounds = [bound for bound in (segment.until, segment.not_after) if bound is not None]
        self._until = min(bounds) if bounds else None
        self._settled = self._settled_instants()

    def _recurrence(self) -> Occurrences | Eras:
        present = self._resolved_by(self._zone_sha256)
        adoptions = self._state.adoptions
        if len(adoptions) < 2 or goes_by_local_time(self._segment.schedule):
            return present
        # Of an interval-like schedule, instants up to an adoption stay where the rules before it put them.
        eras = [
            Era(self._resolved_by(adoption.zone_sha256), following.at)
            for adoption, following in pairwise(adoptions)
            if following.at > self._segment.decided
        ]
        return Eras([*eras, Era(self._resolved_by(adoptions[-1].zone_sha256), None)]) if eras else present

    def _resolved_by(self, zone_sha256: str) -> Occurrences:
        segment, zone = self._segment, self._zone(zone_sha256)
        recurrence = recurrence_of(segment.schedule, zone, segment.gap, segment.fold)
        return with_exclusions(recurrence, zone, segment.excluded)

    def _covered(self, mark: Mark) -> Covered:
        segment = self._segment
        rules = Rules(segment.schedule, segment.gap, segment.fold)
        return Covered(rules, mark.decided, self._zone(mark.zone_sha256))

    def _zone(self, zone_sha256: str) -> ZoneRules:
        return self._zones.database(zone_sha256).zone(self._segment.zone)

    def _last_decided(self) -> int:
        """The present zone data puts no undecided instant at or before this."""
        segment = self._segment
        if not self._moved:
            return segment.decided
        low, _ = self._covered(segment.mark).bounds(self._zone(self._zone_sha256))
        # What moves to before the segment's beginning is not of this segment: no definition reaches into the past.
        return max(low, segment.after)

    def _settled_instants(self) -> tuple[int, ...]:
        """The instants after the last decided one whose local times are decided: they are never owed again."""
        if not self._earlier:
            return ()
        present = self._zone(self._zone_sha256)
        covered = [self._covered(mark) for mark in self._earlier]
        until = max(each.bounds(present)[1] for each in covered)
        found: list[int] = []
        instant = self.recurrence.next_after(self._after)
        while instant is not None and instant <= until:
            named = named_times(covered[0].rules, instant, present)
            if all(any(each.holds(local) for each in covered) for local in named):
                found.append(instant)
            instant = self.recurrence.next_after(instant)
        return tuple(found)

    def looked_at_until(self) -> int | None:
        """Up to here an undecided instant may have a decided key: each has to be looked at. None: nowhere."""
        last = max((mark.decided for mark in self._earlier), default=self._after)
        return last if last > self._after else None

    def taken(self, scheduled: int) -> bool:
        """Whether the key of this undecided instant was decided under earlier zone data."""
        return any(
            mark.since <= scheduled <= mark.decided
            and self._resolved_by(mark.zone_sha256).next_after(scheduled - 1) == scheduled
            for mark in self._earlier
        )

    def next_undecided(self, after: int | None = None) -> Instant | None:
        """The first undecided scheduled instant (strictly after ``after`` as well), or None."""
        found = self.recurrence.next_after(Instant(self._after if after is None else max(after, self._after)))
        while found in self._settled:
            found = self.recurrence.next_after(found)
        return None if found is None or (self._until is not None and found > self._until) else found

    def release(self, scheduled: int) -> Instant:
        """When the instant is released: scheduled plus its jitter offset."""
        window = self.window(scheduled)
        if window == 0:
            return Instant(scheduled)
        key = FireKey(self._state.tenant, self._trigger.name, Instant(scheduled))
        return release_of(key, window, self._gap(scheduled))

    def local_text(self, scheduled: int) -> str:
        """The instant on the segment's own clock (see ``local_text``)."""
        return local_text(scheduled, self._zone(self._zone_sha256))

    def window(self, scheduled: int) -> int:
        """The jitter window that holds for the instant: the segment's own, else the tenant's default of that time."""
        if self._segment.jitter is not None:
            return self._segment.jitter
        window = 0
        for default in self._state.default_jitters:
            if default.after < scheduled:
                window = default.window
        return window

    def clear_until(self, border: int) -> int:
        """Up to here every instant of the segment is released at or before ``border``, however wide its window is.

        A release never reaches the next instant, so of all instants up to the border only the last one can be
        released after it. Nothing is enumerated.
        """
        last = self.recurrence.previous_before(border + 1)
        return border if last is None else max(border - self._widest_window(), last - 1)

    def _widest_window(self) -> int:
        if self._segment.jitter is not None:
            return self._segment.jitter
        return max((default.window for default in self._state.default_jitters), default=0)

    def longest_tolerance(self) -> int:
        """No instant of the segment is forgiven for being later than this."""
        return int(TOLERANCE_MAX) if self._segment.tolerance is None else self._segment.tolerance

    def owed(self, scheduled: int) -> Owed:
        """The instant with its release and tolerance: the gap to the next instant clamped, or as declared."""
        tolerance = self._segment.tolerance
        if tolerance is None:
            gap = self._gap(scheduled)
            tolerance = int(TOLERANCE_MAX) if gap is None else min(max(gap, TOLERANCE_MIN), TOLERANCE_MAX)
        return Owed(scheduled, self.release(scheduled), tolerance)

    def count_until(self, after: int, until: int) -> int:
        """How many undecided instants lie in (after, until]."""
        low = max(after, self._after)
        high = until if self._until is None else min(until, self._until)
        if high <= low:
            return 0
        settled = sum(low < instant <= high for instant in self._settled)
        return self.recurrence.count(Instant(low), Instant(high)) - settled

    def last_until(self, until: int) -> Instant | None:
        """The last instant at or before ``until`` that is undecided."""
        high = until if self._until is None else min(until, self._until)
        found = self.recurrence.previous_before(Instant(high + 1))
        while found in self._settled:
            found = self.recurrence.previous_before(found)
        return None if found is None or found <= self._after else found

    def _gap(self, scheduled: int) -> int | None:
        following = self.recurrence.next_after(scheduled)
        return None if following is None else following - scheduled


def owed_runs(timeline: Timeline, pauses: tuple[Pause, ...], horizon: int, now: int, *, keep: int) -> list[Run]:
    """Everything owed at ``now`` (release ≤ now), oldest first, joined into runs of one judgement.

    Stretches between two borders (pause edges, the horizon, the tolerance) are counted: they have one judgement. One
    by one are looked at the instant at each border, and what may be on time. Of all missed instants that a policy
    may fire the newest ``keep`` at least are listed, and a run lists its newest.
    """
    scan = _Scan(timeline, pauses, horizon, now)
    expiry, missed_until = now - horizon - 1, now - timeline.longest_tolerance() - 1
    pieces: list[Run] = []
    position: int | None = None
    looked_at = timeline.looked_at_until()
    first = timeline.next_undecided()
    if first is None or first > now:
        return []
    if looked_at is None and first > missed_until:
        # As nearly always: nothing is so old that it would have to be counted.
        return list(_joined(scan.with_newest([*scan.singles(None, now)], keep)))
    if looked_at is not None:
        # Each of these may be an instant whose key is taken.
        pieces.extend(scan.singles(None, min(looked_at, now)))
        position = looked_at
    for border in sorted({expiry, missed_until, *_edges(pauses)}):
        if border > max(expiry, missed_until):
            break
        bulk_end = timeline.clear_until(border)
        pieces.extend(scan.bulk(position, bulk_end))
        position = bulk_end if position is None else max(position, bulk_end)
        pieces.extend(scan.singles(position, border))
        position = max(position, border)
    pieces.extend(scan.singles(position, now))
    return list(_joined(scan.with_newest(pieces, keep)))


def count_owed(timeline: Timeline, now: int) -> int:
    """How many undecided instants have a release ≤ now, exactly."""
    clear = timeline.clear_until(now)
    total = timeline.count_until(-(2**62), clear)
    scheduled = timeline.next_undecided(clear)
    while scheduled is not None and scheduled <= now:
        total += timeline.release(scheduled) <= now
        scheduled = timeline.next_undecided(scheduled)
    return total


def _edges(pauses: tuple[Pause, ...]) -> Iterator[int]:
    for pause in pauses:
        yield pause.start
        if pause.end is not None:
            yield pause.end


@dataclass(frozen=True, slots=True)
class _Scan:
    """One look at a timeline: what is judged by which pauses and horizon, at which now."""

    timeline: Timeline
    pauses: tuple[Pause, ...]
    horizon: int
    now: int

    def bulk(self, after: int | None, until: int) -> Iterator[Run]:
        """The instants in (after, until], all under the judgement of the first, counted."""
        first = self.timeline.next_undecided(after)
        if first is None or first > until:
            return
        last = self.timeline.last_until(until)
        assert last is not None, "the first undecided instant has none before it"
        assert last >= first, "an undecided instant lies between the first and the end"
        count = self.timeline.count_until(first - 1, last)
        yield Run(self.judge(self.timeline.owed(first)), first, last, count)

    def with_newest(self, pieces: Sequence[Run], keep: int) -> Iterator[Run]:
        """The pieces, of whose counted missed instants the newest are listed until ``keep`` are, over all pieces."""
        left = keep
        listing: list[Run] = []
        for piece in reversed(pieces):
            found = piece
            if piece.judgement in _FIREABLE:
                if not piece.listed:
                    found = replace(piece, listed=self._newest(piece, min(left, piece.count)))
                left = max(0, left - len(found.listed))
            listing.append(found)
        return reversed(listing)

    def _newest(self, piece: Run, count: int) -> tuple[Owed, ...]:
        listed: list[Owed] = []
        scheduled: int | None = piece.last
        while scheduled is not None and len(listed) < count:
            listed.append(self.timeline.owed(scheduled))
            scheduled = self.timeline.last_until(scheduled - 1)
        return tuple(reversed(listed))

    def singles(self, after: int | None, until: int) -> Iterator[Run]:
        """The instants in (after, until] one by one, up to the first that is not released yet."""
        scheduled = self.timeline.next_undecided(after)
        while scheduled is not None and scheduled <= until:
            owed = self.timeline.owed(scheduled)
            if owed.release > self.now:
                return
            judgement = "taken" if self.timeline.taken(scheduled) else self.judge(owed)
            listed = (owed,) if judgement == "on-time" or judgement in _FIREABLE else ()
            yield Run(judgement, scheduled, scheduled, 1, listed)
            scheduled = self.timeline.next_undecided(scheduled)

    def judge(self, owed: Owed) -> Judgement:
        """Rules 2 and 3 of DESIGN section 5 for one instant."""
        inside = [p for p in self.pauses if p.start < owed.release and (p.end is None or owed.release <= p.end)]
        if any(pause.cause == "quarantined" for pause in inside):
            return "skip-quarantined"
        if any(pause.cause == "suspended" for pause in inside):
            return "skip-suspended"
        if any(pause.on_resume == "skip" for pause in inside):
            return "skip-paused"
        lateness = self.now - owed.release
        if lateness > self.horizon:
            return "expired"
        if inside:
            return "missed-paused"
        return "missed" if lateness > owed.tolerance else "on-time"


def _joined(pieces: Iterable[Run]) -> Iterator[Run]:
    """Join neighbours of one judgement; on-time and missed instants stay listed."""
    held: list[Run] = []
    for piece in pieces:
        if held and (held[0].judgement != piece.judgement or piece.judgement == "taken"):
            yield _join(held)
            held = []
        held.append(piece)
    if held:
        yield _join(held)


def _join(runs: list[Run]) -> Run:
    listed: list[Owed] = []
    for run in runs:
        if len(run.listed) < run.count:
            # What comes before instants that are only counted is too old to fire: a run lists its newest only.
            listed.clear()
        listed.extend(run.listed)
    return Run(runs[0].judgement, runs[0].first, runs[-1].last, sum(run.count for run in runs), tuple(listed))
