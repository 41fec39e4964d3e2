"""The requests about lanes, fires by hand, backfills, ceilings and grants: their fields."""

from msgspec import UNSET, UnsetType

from fireledger.domain.entries import Lane, Period

from .requests import CommandRequest, Request, TriggerRequest

WORST_DEFAULT = 10
PREVIEW_DEFAULT = 10


class LanesShow(Request, frozen=True, kw_only=True):
    """The lanes of all tenants and of the ``worst`` of them, or of one tenant."""

    tenant: str | None = None
    worst: int = WORST_DEFAULT


class LanesDeclareDrain(Request, frozen=True, kw_only=True):
    """A lane will be behind ``until`` an instant, or for a duration; ``after`` is an earlier answer's ``next``."""

    lane: Lane
    until: str
    why: str
    after: str = ""


class FiresNow(TriggerRequest, frozen=True, kw_only=True):
    """Fire a trigger once, now."""

    by: str


class FireByHand(CommandRequest, frozen=True, kw_only=True):
    """Release a held fire, or cancel one that is held or waits; ``key`` is of the same tenant."""

    key: str
    by: str


class CeilingChange(CommandRequest, frozen=True, kw_only=True):
    """Set the most that a trigger, or without one the tenant, may spend in a period; null removes it."""

    trigger: str | None = None
    per: Period
    amount: int | None


class BackfillGrant(CommandRequest, frozen=True, kw_only=True):
    """How many fires one backfill of a trigger, or of any of the tenant's, may have; 0 withdraws the grant."""

    trigger: str | None = None
    fires: int
    holder: str


class BackfillPreview(Request, frozen=True, kw_only=True):
    """What a backfill of the instants in [start, end) would fire; ``after`` is an earlier answer's ``next``."""

    tenant: str
    trigger: str
    start: str
    end: str
    only_missing: bool = False
    count: int = PREVIEW_DEFAULT
    after: tuple[int, int] | None = None


class BackfillStart(TriggerRequest, frozen=True, kw_only=True):
    """Fire the instants in [start, end) beside the fires they had; without a rate, at the tenant's catch-up share."""

    start: str
    end: str
    only_missing: bool = False
    rate: int | UnsetType = UNSET
    label: str | UnsetType = UNSET
    by: str


class BackfillCancel(TriggerRequest, frozen=True, kw_only=True):
    """End a trigger's backfill."""

    by: str


class BackfillStatus(Request, frozen=True, kw_only=True):
    """How far a trigger's last backfill has come."""

    tenant: str
    trigger: str
