"""One row of the fires: a fire, or a run of instants that did not fire. And which rows a question is about."""

from dataclasses import dataclass, field

from msgspec.structs import replace

from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import MILLISECOND, Instant
from fireledger.domain.owed import Timeline
from fireledger.domain.state import Segment, State, TriggerState
from fireledger.domain.zones import ZoneLibrary

from .ordered_keys import Key

Identity = Key
"""Scheduled instant, trigger and sequence: a row's name within its tenant, and its place among the others."""


@dataclass(frozen=True, slots=True)
class RangeRules:
    """By what a range's instants are found: the state before the page that resolved it, without other triggers."""

    state: State
    trigger: TriggerState
    segment: Segment

    def holds(self, instant: int, zones: ZoneLibrary) -> bool:
        """Whether this was an undecided instant of the trigger. Raises UnknownZoneData."""
        timeline = Timeline(self.state, self.trigger, self.segment, zones)
        return timeline.next_undecided(instant - 1) == instant


def rules_of(before: State | None, trigger: str, last: int) -> RangeRules | None:
    """The rules of a range that ends at ``last``; None when ``before`` does not know of the trigger."""
    found = None if before is None else before.triggers.get(trigger)
    if before is None or found is None:
        return None
    for segment in found.segments:
        if segment.after < last and (segment.until is None or last <= segment.until):
            # A row must not keep alive what it does not need: one tenant has many triggers and open fires.
            alone = replace(found, segments=(segment,), open=(), waiting=())
            return RangeRules(replace(before, triggers={}, requests={}), alone, segment)
    return None


@dataclass(slots=True)
class FireRow:
    """One fire, or one run of instants that did not fire. Instants in microseconds since the epoch.

    ``decided`` and ``released`` are the broker's timestamps of the pages that say so, ``dispatched`` that of the last
    ``started`` record of the first attempt, ``finished`` that of the result, or of the page that ended the fire without
    one. ``state`` is ``waiting`` (decided and not released yet), ``fired``, ``held`` (a person is waited for) or why it
    did not fire; ``outcome`` is None until the book has one, while ``result`` is what the present attempt gave.
    ``attempts`` is the last one that was started, ``attempt`` the last one that was released if there were several.
    ``retry_at`` is when the next attempt is due, while one waits. ``cost`` is the sum of what the executor reported,
    late or not. ``merged`` counts the local times that new time-zone data moved onto this instant after its decision.
    ``changed`` orders all changes of all rows.
    """

    tenant: str
    trigger: str
    scheduled: int
    sequence: int
    state: str
    cause: str
    version: int
    decided: int
    last: int
    count: int = 1
    lane: str | None = None
    release: int | None = None
    released: int | None = None
    dispatched: int | None = None
    finished: int | None = None
    attempts: int = 0
    attempt: int = 0
    duplicates: int = 0
    result: str | None = None
    outcome: str | None = None
    outcome_cause: str | None = None
    message: str = ""
    retry_at: int | None = None
    cost: int | None = None
    into: int | None = None
    over_quota: bool = False
    merged: int = 0
    changed: int = 0
    rules: RangeRules | None = field(default=None, repr=False, compare=False)

    @property
    def identity(self) -> Identity:
        """The row's name within its tenant."""
        return (self.scheduled, self.trigger, self.sequence)

    @property
    def key(self) -> FireKey:
        """The fire's key; of a range, that of its first instant."""
        return FireKey(self.tenant, self.trigger, Instant(self.scheduled), self.sequence)

    @property
    def lateness_ms(self) -> float | None:
        """Milliseconds from the scheduled instant to the dispatch."""
        return None if self.dispatched is None else (self.dispatched - self.scheduled) / MILLISECOND

    @property
    def delay_ms(self) -> float | None:
        """Milliseconds from the release to the dispatch."""
        if self.dispatched is None or self.release is None:
            return None
        return (self.dispatched - self.release) / MILLISECOND

    def covers(self, instant: int, zones: ZoneLibrary) -> bool:
        """Whether the row answers for a scheduled instant: its own, or one of its range. Raises UnknownZoneData.

        Where the rules of a range are not known (a lost page that was brought back), for any instant between its ends.
        """
        if instant in (self.scheduled, self.last):
            return True
        inside = self.count > 1 and self.scheduled < instant < self.last
        return inside and (self.rules is None or self.rules.holds(instant, zones))


@dataclass(frozen=True, slots=True, kw_only=True)
class FireQuery:
    """Which rows: of a tenant, of one trigger or of all, scheduled in [since, until), newest first.

    A range is one of them if any part of it is. ``before`` goes on where an earlier answer ended: rows strictly older
    than (scheduled, trigger, sequence).
    """

    tenant: str
    trigger: str | None = None
    since: int | None = None
    until: int | None = None
    before: Identity | None = None
    limit: int

    @property
    def bound(self) -> Identity | None:
        """The rows are strictly before this; None: all."""
        bounds: list[Identity] = [] if self.before is None else [self.before]
        if self.until is not None:
            # No trigger's name is before the empty one.
            bounds.append((self.until, "", 0))
        return min(bounds, default=None)
