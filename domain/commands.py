"""Commands: what a person, a program or a scheduler asks of a book. Recorded in the page they lead to."""

import msgspec

from .definition import Definition, TenantSettings
from .entries import OnResume


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


Command = (
    Tick | CreateTenant | AmendTenant | AdoptZoneData
    | CreateTrigger | AmendTrigger | PauseTrigger | ResumeTrigger | DeleteTrigger
)  # fmt: skip
"""Everything that can lead to a page."""
