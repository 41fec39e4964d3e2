"""A trigger's definition, as it is stored: what is due when, where it goes, and what may go wrong."""

from typing import Literal

import msgspec

from . import limits
from .recurrence.schedule import Schedule

Gap = Literal["shift", "skip", "next-valid"]
Fold = Literal["first", "second", "both"]
Missed = Literal["fire-all", "fire-once-now", "skip"]
Overlap = Literal["skip", "queue", "allow"]

PLAIN_SCHEME = 0
"""The sealed value's scheme byte for an unencrypted payload."""


class Sealed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A payload that only control may write and only the dispatcher may open.

    ``scheme`` says how ``data`` is sealed (0: plain), so that encryption can arrive without a new entry type.
    """

    scheme: int
    data: bytes

    def __repr__(self) -> str:
        return f"Sealed(scheme={self.scheme}, {len(self.data)} bytes)"


def seal_plain(data: bytes) -> Sealed:
    """Wrap a payload with scheme 0."""
    return Sealed(PLAIN_SCHEME, data)


def open_plain(sealed: Sealed) -> bytes:
    """Unwrap a payload of scheme 0. Raises ValueError for a scheme this release does not know."""
    if sealed.scheme != PLAIN_SCHEME:
        raise ValueError(f"payload is sealed with unknown scheme {sealed.scheme}")
    return sealed.data


class Retry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a failed attempt is made again: after ``base``, then each time ``factor`` hundredths longer, up to ``cap``.

    ``attempts`` counts the first one too, so 1 means no retry. Durations in microseconds.
    """

    attempts: int = limits.ATTEMPTS_DEFAULT
    base: int = limits.RETRY_BASE_DEFAULT
    factor: int = limits.RETRY_FACTOR_DEFAULT
    cap: int = limits.RETRY_CAP_DEFAULT


class Definition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a trigger says of itself. Durations in microseconds, instants in microseconds since the epoch.

    ``gap`` and ``fold`` are resolved when the trigger is defined. ``jitter`` None takes the tenant's
    default window, 0 opts out of it. ``tolerance`` None derives it from the gap to the next instant.
    ``not_before`` and ``not_after`` are inclusive bounds on scheduled instants. ``excluded`` are local dates, as
    ascending days since 1970-01-01, on which nothing is scheduled.
    """

    schedule: Schedule
    zone: str
    gap: Gap
    fold: Fold
    target: str
    payload: Sealed
    content_type: str = "application/octet-stream"
    jitter: int | None = None
    missed: Missed = "fire-once-now"
    cap: int = limits.CAP_DEFAULT
    horizon: int = limits.HORIZON_DEFAULT
    tolerance: int | None = None
    overlap: Overlap = "skip"
    outcome_window: int = limits.OUTCOME_WINDOW_DEFAULT
    timeout: int = limits.ATTEMPT_TIMEOUT_DEFAULT
    not_before: int | None = None
    not_after: int | None = None
    max_fires: int | None = None
    excluded: tuple[int, ...] = ()
    retry: Retry = Retry()


class TenantSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant's own settings: default zone, fires per second, default jitter window in microseconds.

    ``catch_up_percent`` is the share of the quota at which its catch-up fires are released, and its backfill fires.
    """

    zone: str = "UTC"
    quota_per_second: int = limits.QUOTA_DEFAULT_PER_SECOND
    default_jitter: int = 0
    catch_up_percent: int = limits.CATCH_UP_PERCENT_DEFAULT
