"""The entries of a book and of an attempts page: every fact that Fireledger ever stores.

Each entry has an explicit, versioned topic and no trace of Python in its bytes. An entry type never
changes; new meaning is a new topic with a reader for the old. Unknown topics and unknown fields are refused.
Instants and durations are integer microseconds. All types here, including those whose behaviour is
not built yet, are held by golden bytes in ``tests/golden``.
"""

from typing import Literal

import msgspec

from .definition import Definition, TenantSettings
from .identifiers import FireKey
from .instants import Instant

Lane = Literal["on-time", "catch-up", "backfill"]
FireCause = Literal["on-time", "caught-up", "backfilled", "by-hand"]
Unfired = Literal["skipped", "coalesced", "dropped", "expired", "cancelled"]
Withdrawn = Literal["skipped", "dropped", "cancelled"]
UnfiredCause = Literal[
    "overlap", "missed", "paused", "ceiling", "shed", "quarantined", "replaced",
    "coalesced", "over-cap", "beyond-horizon", "deleted", "by-person",
]  # fmt: skip
Outcome = Literal["succeeded", "failed", "unknown"]
ResultKind = Literal["succeeded", "retryable", "final", "held", "timeout", "accepted"]
RecordKind = Literal["started", "result", "reported"]
OnResume = Literal["policy", "skip"]
Period = Literal["day", "week", "month"]
GrantKind = Literal["backfill", "horizon", "quota"]


class Entry(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """Base of all entries: a frozen record, written as an array that begins with its topic."""


class FireEntry(Entry, frozen=True, kw_only=True):
    """Base of entries about one fire: its trigger, scheduled instant and sequence; the tenant is the book's."""

    trigger: str
    scheduled: int
    sequence: int = 0

    def key(self, tenant: str) -> FireKey:
        """The fire's full key."""
        return FireKey(tenant, self.trigger, Instant(self.scheduled), self.sequence)


# Definitions


class TenantCreated(Entry, frozen=True, kw_only=True, tag="tenant.created.v1"):
    """The book begins: the tenant's settings."""

    settings: TenantSettings


class TenantAmended(Entry, frozen=True, kw_only=True, tag="tenant.amended.v1"):
    """The tenant's settings from the page's now on."""

    settings: TenantSettings


class MovedInstant(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """A trigger whose next instant a new time-zone database moves."""

    trigger: str
    old: int | None
    new: int | None


class ZoneDataAdopted(Entry, frozen=True, kw_only=True, tag="zone-data.adopted.v1"):
    """From here on the book resolves local times with this time-zone database (SHA-256 of its packed bytes).

    ``moved_count`` triggers have another next instant than before; ``moved`` names them, up to a bound.
    """

    version: str
    sha256: str
    moved: tuple[MovedInstant, ...] = ()
    moved_count: int = 0


class TriggerCreated(Entry, frozen=True, kw_only=True, tag="trigger.created.v1"):
    """A trigger exists from the page's now on; its first instant is strictly later."""

    trigger: str
    definition: Definition
    paused: bool = False


class TriggerAmended(Entry, frozen=True, kw_only=True, tag="trigger.amended.v1"):
    """A new definition: undecided instants up to the page's now keep the old schedule and its marks."""

    trigger: str
    definition: Definition


class SegmentSettled(Entry, frozen=True, kw_only=True, tag="segment.settled.v1"):
    """A schedule that an amendment closed at ``until`` owes nothing more."""

    trigger: str
    until: int


class TriggerPaused(Entry, frozen=True, kw_only=True, tag="trigger.paused.v1"):
    """Nothing of this trigger is decided or released until it is resumed."""

    trigger: str


class TriggerResumed(Entry, frozen=True, kw_only=True, tag="trigger.resumed.v1"):
    """The pause ends; the ``owed_count`` instants due by now meet the policy, or are skipped if in the pause."""

    trigger: str
    on_resume: OnResume = "policy"
    owed_count: int = 0


class TriggerDeleted(Entry, frozen=True, kw_only=True, tag="trigger.deleted.v1"):
    """The trigger is gone; its run numbers are kept so that no key is ever reused."""

    trigger: str


class TriggerQuarantined(Entry, frozen=True, kw_only=True, tag="trigger.quarantined.v1"):
    """Deciding this trigger failed on a node; it waits for an amendment while the others go on."""

    trigger: str
    cause: str


class TriggerSuspended(Entry, frozen=True, kw_only=True, tag="trigger.suspended.v1"):
    """A spend ceiling is exhausted, of one trigger or (None) of the tenant; resumes at ``until`` or when raised."""

    trigger: str | None
    until: int
    message: str


class SuspensionEnded(Entry, frozen=True, kw_only=True, tag="suspension.ended.v1"):
    """A suspension ended: its period is over, or the ceiling was raised."""

    trigger: str | None
    cause: Literal["period-over", "raised"]


class CeilingSet(Entry, frozen=True, kw_only=True, tag="ceiling.set.v1"):
    """A spend ceiling per day, week or month in the owner's zone; amount None removes it."""

    trigger: str | None
    amount: int | None
    per: Period
    before: int | None = None


class SpendPeriodBegun(Entry, frozen=True, kw_only=True, tag="spend.period-begun.v1"):
    """A ceiling's next period, [start, end): costs observed from here on count in it."""

    trigger: str | None
    per: Period
    start: int
    end: int


class GrantChanged(Entry, frozen=True, kw_only=True, tag="grant.changed.v1"):
    """A grant apart from authorship: who may backfill, widen the horizon or the quota; with the value before."""

    grant: GrantKind
    trigger: str | None
    value: int | None
    before: int | None
    holder: str


class Span(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A stretch of a trigger's instants, both ends included."""

    first: int
    last: int


class BackfillStarted(Entry, frozen=True, kw_only=True, tag="backfill.started.v1"):
    """The instants in [start, end) fire again or for the first time, at a rate, in their own lane.

    The instants in ``fired`` are left out: stretches that the schedule had still to decide when it began, and with
    ``only_missing`` those that had fired when it was asked for. ``grant_holder`` holds the grant that allows it; who
    started it stands in the page's command.
    """

    trigger: str
    backfill: str
    start: int
    end: int
    only_missing: bool
    rate_per_second: int
    grant_holder: str
    fired: tuple[Span, ...] = ()


class BackfillEnded(Entry, frozen=True, kw_only=True, tag="backfill.ended.v1"):
    """A backfill is complete, or a person cancelled it."""

    trigger: str
    backfill: str
    cause: Literal["complete", "cancelled"]
    fired_count: int


class DrainDeclared(Entry, frozen=True, kw_only=True, tag="lane.drain-declared.v1"):
    """An operator expects this lane to be behind until the instant; mutes the lane's own alert only."""

    lane: Lane
    until: int
    why: str


class PayloadKeyDestroyed(Entry, frozen=True, kw_only=True, tag="payload-key.destroyed.v1"):
    """The tenant's payload key of this version is gone, and the payloads sealed with it."""

    key_version: int


# Decisions


class FireDecided(FireEntry, frozen=True, kw_only=True, tag="fire.decided.v1"):
    """The instant will fire, but not yet: it waits for an open fire, a pace or a ceiling."""

    release: int
    definition_page: int
    lane: Lane
    cause: FireCause
    over_quota: bool = False


class FireRequested(FireEntry, frozen=True, kw_only=True, tag="fire.requested.v1"):
    """A person asks for a fire now, beside the schedule; the scheduler releases it."""

    definition_page: int
    by: str


class FireReleased(FireEntry, frozen=True, kw_only=True, tag="fire.released.v1"):
    """Attempt ``attempt`` may be made now. ``decides``: this entry is the decision as well."""

    release: int
    definition_page: int
    lane: Lane
    cause: FireCause
    attempt: int = 1
    decides: bool = True
    over_quota: bool = False


class InstantsResolved(Entry, frozen=True, kw_only=True, tag="instants.resolved.v1"):
    """``count`` consecutive instants, ``first`` to ``last``, do not fire, and why; ``into`` names a fire's instant."""

    trigger: str
    first: int
    last: int
    count: int
    state: Unfired
    cause: UnfiredCause
    into: int | None = None


class FireWithdrawn(FireEntry, frozen=True, kw_only=True, tag="fire.withdrawn.v1"):
    """A decided fire that was never released does not fire after all, and why."""

    state: Withdrawn
    cause: UnfiredCause


class RetryScheduled(FireEntry, frozen=True, kw_only=True, tag="fire.retry-scheduled.v1"):
    """The attempt before failed; ``attempt`` is released at ``at``."""

    attempt: int
    at: int


class FireHeld(FireEntry, frozen=True, kw_only=True, tag="fire.held.v1"):
    """The executor waits for a person; no timer touches this fire."""

    attempt: int
    message: str = ""


class HeldFireReleased(FireEntry, frozen=True, kw_only=True, tag="fire.held-released.v1"):
    """A person let a held fire go on with its next attempt."""

    by: str


class FireFinished(FireEntry, frozen=True, kw_only=True, tag="fire.finished.v1"):
    """The fire's outcome. Anything observed later is recorded and changes nothing decided."""

    outcome: Outcome
    cause: str
    attempt: int


class AttemptObserved(FireEntry, frozen=True, kw_only=True, tag="attempt.observed.v1"):
    """A record of an attempt, folded into the book: its broker timestamp and LEDGER sequence travel with it."""

    attempt: int
    record: RecordKind
    stamped_at: int
    source_sequence: int
    result: ResultKind | None = None
    retry_after: int | None = None
    cost: int | None = None
    message: str = ""
    resend: bool = False


# The book itself


class ClockNoted(Entry, frozen=True, kw_only=True, tag="clock.noted.v1"):
    """The writer's wall clock stepped by ``step`` microseconds and the new time was accepted."""

    step: int
    source: str


class RollbackRecorded(Entry, frozen=True, kw_only=True, tag="rollback.recorded.v1"):
    """A page that the broker lost, brought back from the second copy with its original timestamp."""

    origin: Literal["book", "attempts"]
    body: bytes
    stamped_at: int
    surviving_sequence: int


class LossAccepted(Entry, frozen=True, kw_only=True, tag="loss.accepted.v1"):
    """An operator accepts that pages from ``first_page`` on are lost for good."""

    first_page: int
    surviving_sequence: int
    by: str
    why: str


class BookClosed(Entry, frozen=True, kw_only=True, tag="book.closed.v1"):
    """A closing page: the hash and object name of the full state, above which earlier pages may be trimmed."""

    state_sha256: bytes
    object_name: str


BookEntry = (
    TenantCreated | TenantAmended | ZoneDataAdopted
    | TriggerCreated | TriggerAmended | SegmentSettled | TriggerPaused | TriggerResumed | TriggerDeleted
    | TriggerQuarantined | TriggerSuspended | SuspensionEnded | CeilingSet | SpendPeriodBegun | GrantChanged
    | BackfillStarted | BackfillEnded | DrainDeclared | PayloadKeyDestroyed
    | FireDecided | FireRequested | FireReleased | InstantsResolved | FireWithdrawn | RetryScheduled | FireHeld
    | HeldFireReleased | FireFinished | AttemptObserved
    | ClockNoted | RollbackRecorded | LossAccepted | BookClosed
)  # fmt: skip
"""Every entry a book may hold."""


# Attempts


class AttemptEntry(FireEntry, frozen=True, kw_only=True):
    """Base of records in an attempts page, which spans the tenants of a slot."""

    tenant: str
    attempt: int

    @property
    def fire(self) -> FireKey:
        """The fire's full key."""
        return self.key(self.tenant)


class AttemptStarted(AttemptEntry, frozen=True, kw_only=True, tag="attempt.started.v1"):
    """The dispatcher is about to call. ``resend``: the same attempt began before and its result is not known."""

    definition_page: int
    timeout: int
    resend: bool = False


class AttemptResult(AttemptEntry, frozen=True, kw_only=True, tag="attempt.result.v1"):
    """What the call gave. ``code`` is the HTTP status or 0; ``took`` microseconds; ``cost`` as the executor reports."""

    result: ResultKind
    code: int = 0
    took: int = 0
    retry_after: int | None = None
    cost: int | None = None
    message: str = ""


class AttemptReported(AttemptEntry, frozen=True, kw_only=True, tag="attempt.reported.v1"):
    """An executor's later answer, its credential checked by control."""

    result: ResultKind
    cost: int | None = None
    message: str = ""


AttemptRecord = AttemptStarted | AttemptResult | AttemptReported
"""Every record an attempts or reports page may hold."""
