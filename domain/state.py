"""The state of a book: what its pages have made true. Frozen; built only by ``evolve``."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from .definition import Definition, Fold, Gap, TenantSettings
from .entries import FireCause, FireDecided, GrantKind, Lane, OnResume, Period, ResultKind, Span
from .recurrence.schedule import Schedule


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """A last-decided instant, and the hash of the time-zone database that it was resolved with.

    ``since`` is the first instant decided with that database, and later than ``decided`` while there is none.
    """

    decided: int
    zone_sha256: str
    since: int


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the timeline under one schedule: scheduled instants in (after, until].

    Amendments close a segment at their now and open the next. ``mark`` is the last scheduled instant with a
    decision (``after`` before the first). ``earlier`` are the last marks of other time-zone data, as long as new
    data could move local times decided by them to after ``mark``. Segments are decided independently.
    """

    schedule: Schedule
    zone: str
    gap: Gap
    fold: Fold
    jitter: int | None
    tolerance: int | None
    not_before: int | None
    not_after: int | None
    excluded: tuple[int, ...]
    after: int
    until: int | None
    mark: Mark
    earlier: tuple[Mark, ...] = ()

    @property
    def decided(self) -> int:
        """The last decided scheduled instant."""
        return self.mark.decided


class Pause(msgspec.Struct, frozen=True, array_like=True):
    """A stretch in which nothing is decided: releases in (start, end]. ``end`` None: still going on."""

    start: int
    end: int | None
    on_resume: OnResume
    cause: Literal["paused", "quarantined", "suspended"]


class OpenFire(msgspec.Struct, frozen=True, kw_only=True):
    """A released fire without a terminal outcome.

    ``attempt`` is the last released one, ``started_at`` the broker time of its last started record, and
    ``retry_at`` when the next attempt is released, None while none waits. ``let_go``: a person let it go on from being
    held, and that attempt waits. ``orphaned``: its trigger was deleted, so that no further attempt is made, also not
    when another trigger has taken the name.
    """

    scheduled: int
    sequence: int
    release: int
    lane: Lane
    cause: FireCause
    over_quota: bool
    definition_page: int
    attempt: int
    released_at: int
    outcome_window: int
    started_at: int | None = None
    held: bool = False
    retry_at: int | None = None
    let_go: bool = False
    orphaned: bool = False

    @property
    def deadline(self) -> int | None:
        """When the outcome window ends: None before the first start, while a person is asked or a retry waits."""
        if self.started_at is None or self.held or self.retry_at is not None:
            return None
        return self.started_at + self.outcome_window

    def late(self, attempt: int, result: ResultKind | None, stamped_at: int) -> bool:
        """Whether an answer of that attempt comes too late to change what is decided of the fire.

        A later attempt was released, the outcome window was over, or it asks for a person who has answered already.
        """
        asks_again = self.let_go and result == "held"
        over = self.deadline is not None and stamped_at >= self.deadline
        return self.attempt != attempt or asks_again or over


class WaitingFire(msgspec.Struct, frozen=True, kw_only=True):
    """A decided fire that is not released yet."""

    scheduled: int
    sequence: int
    release: int
    lane: Lane
    cause: FireCause
    definition_page: int
    over_quota: bool

    @classmethod
    def decided(cls, entry: FireDecided) -> "WaitingFire":
        """The fire of which the entry says that it waits."""
        return cls(
            scheduled=entry.scheduled,
            sequence=entry.sequence,
            release=entry.release,
            lane=entry.lane,
            cause=entry.cause,
            definition_page=entry.definition_page,
            over_quota=entry.over_quota,
        )


class Bucket(msgspec.Struct, frozen=True, array_like=True):
    """Tokens of a pace: ``level`` of them, in the smallest units of that pace, at the instant ``at``."""

    level: int
    at: int


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """The most that may be spent in a period [start, end); ``later`` was spent since ``end``, before the next began."""

    per: Period
    amount: int
    start: int = 0
    end: int = 0
    spent: int = 0
    later: int = 0

    @property
    def exhausted(self) -> bool:
        """Whether the period's amount is used up."""
        return self.spent >= self.amount


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Something granted apart from authorship, for one trigger or (None) for all of the tenant."""

    grant: GrantKind
    trigger: str | None
    value: int
    holder: str


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill under way: ``segment`` holds its range, and its mark how far it is decided."""

    label: str
    segment: Segment
    rate_per_second: int
    fired: tuple[Span, ...]
    started_at: int
    pace: Bucket
    decided_count: int = 0
    released_count: int = 0


class TriggerState(msgspec.Struct, frozen=True, kw_only=True):
    """One trigger. The last segment is the open one. ``next_run_number`` outlives deletion, so no key is reused."""

    name: str
    definition: Definition
    definition_page: int
    segments: tuple[Segment, ...]
    pauses: tuple[Pause, ...] = ()
    quarantine: str | None = None
    deleted: bool = False
    fired_count: int = 0
    next_run_number: int = 1
    open: tuple[OpenFire, ...] = ()
    waiting: tuple[WaitingFire, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    suspended_until: int | None = None
    backfill: Backfill | None = None

    @property
    def paused(self) -> bool:
        """Whether a pause is going on."""
        return bool(self.pauses) and any(pause.end is None and pause.cause == "paused" for pause in self.pauses)

    @property
    def deciding(self) -> bool:
        """Whether instants of this trigger may be decided and released now, as far as it is its own matter."""
        return not (self.deleted or self.quarantine is not None or self.suspended_until is not None or self.paused)


class RememberedRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request that led to a page, for answering its repetition."""

    at: int
    sha256: bytes
    page: int


class DefaultJitter(msgspec.Struct, frozen=True, array_like=True):
    """The tenant's default window for scheduled instants after ``after``."""

    after: int
    window: int


class Adoption(msgspec.Struct, frozen=True, array_like=True):
    """The time-zone database, by hash, that holds for instants after ``at``."""

    at: int
    zone_sha256: str


class State(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's book, folded. ``page`` is the last page number, effective or not."""

    tenant: str = ""
    page: int = 0
    effective_page: int = 0
    ineffective_count: int = 0
    now: int = 0
    as_of: int = 0
    settings: TenantSettings | None = None
    default_jitters: tuple[DefaultJitter, ...] = ()
    zone_version: str = ""
    adoptions: tuple[Adoption, ...] = ()
    triggers: dict[str, TriggerState] = {}
    requests: dict[str, RememberedRequest] = {}
    closed: bool = False
    quota: Bucket = Bucket(0, 0)
    catch_up: Bucket = Bucket(0, 0)
    backfill_pace: Bucket = Bucket(0, 0)
    ceilings: tuple[Ceiling, ...] = ()
    suspended_until: int | None = None
    suspensions: tuple[Pause, ...] = ()
    grants: tuple[Grant, ...] = ()
    late_count: int = 0

    @property
    def zone_sha256(self) -> str:
        """The hash of the time-zone database last adopted, empty before the first."""
        return self.adoptions[-1].zone_sha256 if self.adoptions else ""

    def zone_data_of(self, segment: Segment) -> str:
        """The time-zone database that resolves a segment: the last adopted, or for a closed one the last before it."""
        if segment.until is None:
            return self.zone_sha256
        before = [adoption.zone_sha256 for adoption in self.adoptions if adoption.at < segment.until]
        return before[-1] if before else self.adoptions[0].zone_sha256

    def deciding(self, trigger: TriggerState) -> bool:
        """Whether instants of this trigger may be decided and released now."""
        return self.suspended_until is None and trigger.deciding

    def pauses_of(self, trigger: TriggerState) -> tuple[Pause, ...]:
        """All stretches in which nothing of the trigger is decided: its own and the tenant's suspensions."""
        return (*trigger.pauses, *self.suspensions) if self.suspensions else trigger.pauses

    def granted(self, grant: GrantKind, trigger: str) -> Grant | None:
        """The grant that holds for a trigger: its own, else the tenant's."""
        own = [each for each in self.grants if each.grant == grant and each.trigger in (trigger, None)]
        return max(own, key=lambda each: each.trigger is not None, default=None)

    def live(self, trigger: str) -> TriggerState | None:
        """The trigger, unless it does not exist or is deleted."""
        found = self.triggers.get(trigger)
        return None if found is None or found.deleted else found


def initial() -> State:
    """The state before page 1."""
    return State()


def segment_of(definition: Definition, after: int, zone_sha256: str) -> Segment:
    """The open segment that a definition begins: instants strictly after ``after``."""
    return Segment(
        schedule=definition.schedule,
        zone=definition.zone,
        gap=definition.gap,
        fold=definition.fold,
        jitter=definition.jitter,
        tolerance=definition.tolerance,
        not_before=definition.not_before,
        not_after=definition.not_after,
        excluded=definition.excluded,
        after=after,
        until=None,
        mark=Mark(after, zone_sha256, after + 1),
    )


def backfill_segment(state: State, definition: Definition, start: int, end: int) -> Segment:
    """The instants in [start, end) of the definition, by the time-zone data that held at their end."""
    segment = msgspec.structs.replace(segment_of(definition, start - 1, ""), until=end - 1)
    mark = Mark(start - 1, state.zone_data_of(segment), start)
    return msgspec.structs.replace(segment, mark=mark)


def same_timing(segment: Segment, definition: Definition) -> bool:
    """Whether a definition leaves the open segment's instants, releases and tolerance as they are."""
    fresh = segment_of(definition, segment.after, "")
    return msgspec.structs.replace(fresh, mark=segment.mark, earlier=segment.earlier) == segment


def needed_suspensions(suspensions: tuple[Pause, ...], triggers: Mapping[str, TriggerState]) -> tuple[Pause, ...]:
    """The tenant's suspensions without those that no undecided instant can lie in any more."""
    if not suspensions:
        return suspensions
    earliest = min((segment.decided for trigger in triggers.values() for segment in trigger.segments), default=None)
    return tuple(p for p in suspensions if p.end is None or (earliest is not None and p.end > earliest))


def needed_jitters(
    jitters: tuple[DefaultJitter, ...], triggers: Mapping[str, TriggerState]
) -> tuple[DefaultJitter, ...]:
    """The tenant's default windows without those that hold for no undecided instant any more."""
    if len(jitters) < 2:
        return jitters
    marks = (segment.decided for trigger in triggers.values() for segment in trigger.segments)
    earliest = min(marks, default=jitters[-1].after)
    return jitters[sum(following.after <= earliest for following in jitters[1:]) :]
