"""Commands: what a person, a program or a scheduler asks of a book. Recorded in the page they lead to."""

import msgspec

from .definition import Definition, TenantSettings
from .entries import GrantKind, Lane, OnResume, Period, Span


class CommandStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all commands: frozen, tagged with a versioned topic, unknown fields refused."""


class Tick(CommandStruct, frozen=True, kw_only=True, tag="tick.v1"):
    """The scheduler's command: decide everything that is due at the inputs' now."""


class CreateTenant(CommandStruct, frozen=True, kw_only=True, tag="create-tenant.v1"):
    """Open the tenant's book with these settings and the time-zone database the inputs name."""

    settings: TenantSettings
    zone_version: str
    zone_sha256: str


class AmendTenant(CommandStruct, frozen=True, kw_only=True, tag="amend-tenant.v1"):
    """Replace the tenant's settings."""

    settings: TenantSettings


class AdoptZoneData(CommandStruct, frozen=True, kw_only=True, tag="adopt-zone-data.v1"):
    """Resolve the book's local times with another time-zone database from the page's now on."""

    version: str
    sha256: str


class CreateTrigger(CommandStruct, frozen=True, kw_only=True, tag="create-trigger.v1"):
    """Define a trigger. An interval without an anchor hangs on the whole second of the page's now."""

    trigger: str
    definition: Definition
    paused: bool = False


class AmendTrigger(CommandStruct, frozen=True, kw_only=True, tag="amend-trigger.v1"):
    """Replace a trigger's definition; control merges the changed options into the current one first."""

    trigger: str
    definition: Definition


class PauseTrigger(CommandStruct, frozen=True, kw_only=True, tag="pause-trigger.v1"):
    """From the page's now on nothing of the trigger is decided or released."""

    trigger: str


class ResumeTrigger(CommandStruct, frozen=True, kw_only=True, tag="resume-trigger.v1"):
    """End the pause."""

    trigger: str
    on_resume: OnResume = "policy"


class DeleteTrigger(CommandStruct, frozen=True, kw_only=True, tag="delete-trigger.v1"):
    """Delete the trigger and cancel what is not released."""

    trigger: str


class FireNow(CommandStruct, frozen=True, kw_only=True, tag="fire-now.v1"):
    """Fire the trigger once beside its schedule, at the page's now."""

    trigger: str
    by: str


class ReleaseFire(CommandStruct, frozen=True, kw_only=True, tag="release-fire.v1"):
    """Let a held fire go on with its next attempt."""

    trigger: str
    scheduled: int
    sequence: int
    by: str


class CancelFire(CommandStruct, frozen=True, kw_only=True, tag="cancel-fire.v1"):
    """End a fire that is held, or waits for its release or its next attempt."""

    trigger: str
    scheduled: int
    sequence: int
    by: str


class SetCeiling(CommandStruct, frozen=True, kw_only=True, tag="set-ceiling.v1"):
    """Set the most that a trigger, or (None) the tenant, may spend in a period; amount None removes the ceiling."""

    trigger: str | None
    per: Period
    amount: int | None


class ChangeGrant(CommandStruct, frozen=True, kw_only=True, tag="change-grant.v1"):
    """Grant something apart from authorship, for one trigger or (None) the tenant; value None withdraws it."""

    grant: GrantKind
    trigger: str | None
    value: int | None
    holder: str


class StartBackfill(CommandStruct, frozen=True, kw_only=True, tag="start-backfill.v1"):
    """Fire the trigger's instants in [start, end), but those in ``fired``, beside the fires they already had."""

    trigger: str
    backfill: str
    start: int
    end: int
    only_missing: bool
    rate_per_second: int
    by: str
    fired: tuple[Span, ...] = ()


class CancelBackfill(CommandStruct, frozen=True, kw_only=True, tag="cancel-backfill.v1"):
    """End the trigger's backfill; what of it is not released is cancelled."""

    trigger: str
    by: str


class DeclareDrain(CommandStruct, frozen=True, kw_only=True, tag="declare-drain.v1"):
    """Note that a lane is expected to be behind until the instant."""

    lane: Lane
    until: int
    why: str


Command = (
    Tick | CreateTenant | AmendTenant | AdoptZoneData
    | CreateTrigger | AmendTrigger | PauseTrigger | ResumeTrigger | DeleteTrigger
    | FireNow | ReleaseFire | CancelFire | SetCeiling | ChangeGrant | StartBackfill | CancelBackfill | DeclareDrain
)  # fmt: skip
"""Everything that can lead to a page."""
