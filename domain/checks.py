"""Bounds of stored values: what a definition or a tenant's settings may hold. Refusals name the option."""

from itertools import pairwise
from urllib.parse import urlsplit

from . import limits
from .definition import Definition, TenantSettings
from .identifiers import MalformedName, check_target_name
from .instants import MILLISECOND, SECOND, format_duration
from .recurrence.months import END_DAY
from .rejections import Rejection, RejectionCode
from .zones import MalformedZone, UnknownZone, ZoneDatabase

NATS_PREFIX = "nats:"


def check_settings(settings: TenantSettings, zones: ZoneDatabase) -> Rejection | None:
    """Refuse a tenant's settings that are out of bounds or name an unknown zone."""
    try:
        zones.zone(settings.zone)
    except (UnknownZone, MalformedZone) as error:
        return Rejection(RejectionCode.ZONE_UNKNOWN, str(error), "use an IANA name such as Europe/Rome, or UTC")
    if not 1 <= settings.quota_per_second <= limits.QUOTA_MAX_PER_SECOND:
        return _refused("--quota", f"must be 1 to {limits.QUOTA_MAX_PER_SECOND} fires per second")
    return _duration("--default-jitter", settings.default_jitter, 0, limits.JITTER_MAX)


def check_definition(definition: Definition) -> Rejection | None:
    """Refuse a definition with a value out of bounds."""
    d = definition
    checks = (
        check_target(d.target),
        _payload(d),
        _duration("--jitter", d.jitter, 0, limits.JITTER_MAX),
        _duration("--horizon", d.horizon, 0, limits.HORIZON_MAX),
        _duration("--tolerance", d.tolerance, 0, limits.HORIZON_MAX),
        _duration("--outcome-window", d.outcome_window, SECOND, limits.OUTCOME_WINDOW_MAX),
        _duration("--timeout", d.timeout, MILLISECOND, limits.ATTEMPT_TIMEOUT_MAX),
        _count("--cap", d.cap, limits.CAP_MAX),
        _count("--max-fires", d.max_fires, limits.MAX_FIRES_MAX),
        _bounds(d),
        _excluded(d),
    )
    return next((refused for refused in checks if refused is not None), None)


def check_target(target: str) -> Rejection | None:
    """Refuse a target that is neither an absolute http(s) URL without credentials nor ``nats:NAME``."""
    if len(target) > limits.TARGET_LENGTH_MAX:
        return _refused("--target", f"is {len(target)} characters; at most {limits.TARGET_LENGTH_MAX}")
    if target.startswith(NATS_PREFIX):
        try:
            check_target_name(target.removeprefix(NATS_PREFIX))
        except MalformedName as error:
            return _refused("--target", str(error))
        return None
    if not target.isascii() or any(character <= " " or character == "\x7f" for character in target):
        return _refused("--target", "has a space, control or non-ASCII character; percent-encode it")
    try:
        parts = urlsplit(target)
        _ = parts.port
    except ValueError as error:
        return _refused("--target", f'"{target[:120]}" is not a URL: {error}')
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return _refused("--target", f'"{target[:120]}" is neither an http(s) URL nor nats:NAME')
    if parts.username is not None or parts.password is not None:
        return _refused("--target", "must not carry a user name or password")
    return None


def _payload(definition: Definition) -> Rejection | None:
    size = len(definition.payload.data)
    if size > limits.PAYLOAD_BYTES_MAX:
        return _refused("--payload", f"is {size} bytes; at most {limits.PAYLOAD_BYTES_MAX}")
    return None


def _duration(option: str, value: int | None, low: int, high: int) -> Rejection | None:
    if value is None or low <= value <= high:
        return None
    return _refused(
        option, f'"{format_duration(value)}" is out of bounds; {format_duration(low)} to {format_duration(high)}'
    )


def _count(option: str, value: int | None, high: int) -> Rejection | None:
    return None if value is None or 1 <= value <= high else _refused(option, f"{value} is out of bounds; 1 to {high}")


def _bounds(definition: Definition) -> Rejection | None:
    low, high = definition.not_before, definition.not_after
    if low is not None and high is not None and low > high:
        return _refused("--not-after", "lies before --not-before")
    return None


def _excluded(definition: Definition) -> Rejection | None:
    days = definition.excluded
    if len(days) > limits.EXCLUDED_DATES_MAX:
        return _refused("--exclude", f"names {len(days)} dates; at most {limits.EXCLUDED_DATES_MAX}")
    if any(following <= day for day, following in pairwise(days)):
        return _refused("--exclude", "names dates that are not ascending, each once")
    if days and not 0 <= days[0] <= days[-1] < END_DAY:
        return _refused("--exclude", f"names a date outside the years {limits.YEAR_MIN} to {limits.YEAR_MAX}")
    return None


def _refused(option: str, reason: str) -> Rejection:
    return Rejection(RejectionCode.VALUE_REFUSED, f"{option} {reason}")
