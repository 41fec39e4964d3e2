"""Bounds of stored values: what a definition or settings may hold. Refusals name the option and have a hint."""

from itertools import pairwise
from urllib.parse import urlsplit

from . import limits
from .definition import Definition, Retry, TenantSettings
from .identifiers import MalformedName, check_target_name
from .instants import MILLISECOND, SECOND, format_duration, format_instant
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
        return _refused(
            "--quota",
            f"{settings.quota_per_second}/s is out of bounds",
            f"write 1/s to {limits.QUOTA_MAX_PER_SECOND}/s",
        )
    share, least, most = settings.catch_up_percent, limits.CATCH_UP_PERCENT_MIN, limits.CATCH_UP_PERCENT_MAX
    if not least <= share <= most:
        return _refused("--catch-up-share", f"{share}% is out of bounds", f"write {least}% to {most}%")
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
        *_retry(d.retry),
    )
    return next((refused for refused in checks if refused is not None), None)


def _retry(retry: Retry) -> tuple[Rejection | None, ...]:
    low, high = limits.RETRY_FACTOR_MIN, limits.RETRY_FACTOR_MAX
    factor = None
    if not low <= retry.factor <= high:
        factor = _refused(
            "--retry-factor", f"{retry.factor / 100:g} is out of bounds", f"use {low // 100} to {high // 100}"
        )
    return (
        _count("--max-attempts", retry.attempts, limits.ATTEMPTS_MAX),
        _duration("--retry-cap", retry.cap, limits.RETRY_BASE_MIN, limits.RETRY_CAP_MAX),
        _duration("--retry-base", retry.base, limits.RETRY_BASE_MIN, retry.cap),
        factor,
    )


def check_target(target: str) -> Rejection | None:
    """Refuse a target that is neither an absolute http(s) URL without credentials nor ``nats:NAME``."""
    if len(target) > limits.TARGET_LENGTH_MAX:
        length = f"is {len(target)} characters long"
        return _refused("--target", length, f"use at most {limits.TARGET_LENGTH_MAX}; put data into the payload")
    if target.startswith(NATS_PREFIX):
        try:
            check_target_name(target.removeprefix(NATS_PREFIX))
        except MalformedName as error:
            message, _, hint = str(error).partition("; ")
            return _refused("--target", message, hint)
        return None
    position = next((n for n, character in enumerate(target) if not "!" <= character <= "~"), None)
    if position is not None:
        what = f"has a space, control or non-ASCII character (at position {position})"
        return _refused("--target", what, "percent-encode it: %20 for a space")
    return _check_url(target)


def _check_url(target: str) -> Rejection | None:
    shown = f'"{target[:120]}"'
    try:
        parts = urlsplit(target)
        _ = parts.port
    except ValueError as error:
        return _refused("--target", f"{shown} is not a URL: {error}", _URL_HINT)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return _refused("--target", f"{shown} is neither an http(s) URL nor nats:NAME", _URL_HINT)
    if parts.username is not None or parts.password is not None:
        # The message does not repeat them.
        return _refused("--target", "carries a user name or password", "leave out what stands before the @")
    if "#" in target:
        what = f"{shown} has a fragment (at position {target.index('#')})"
        return _refused("--target", what, "leave out # and what follows it: no server gets to see it; %23 is a plain #")
    return None


_URL_HINT = "write it as https://example.com/run, or nats:NAME for a NATS executor"


def _payload(definition: Definition) -> Rejection | None:
    size = len(definition.payload.data)
    if size > limits.PAYLOAD_BYTES_MAX:
        return _refused(
            "--payload",
            f"is {size} bytes; at most {limits.PAYLOAD_BYTES_MAX}",
            "send a reference to the data instead of the data",
        )
    return None


def _duration(option: str, value: int | None, low: int, high: int) -> Rejection | None:
    if value is None or low <= value <= high:
        return None
    bounds = f"use {format_duration(low)} to {format_duration(high)}"
    return _refused(option, f'"{format_duration(value)}" is out of bounds', bounds)


def _count(option: str, value: int | None, high: int) -> Rejection | None:
    if value is None or 1 <= value <= high:
        return None
    return _refused(option, f"{value} is out of bounds", f"use 1 to {high}")


def _bounds(definition: Definition) -> Rejection | None:
    low, high = definition.not_before, definition.not_after
    if low is not None and high is not None and low > high:
        bounds = f"{format_instant(high)} lies before --not-before {format_instant(low)}"
        return _refused("--not-after", bounds, "give the earlier of the two to --not-before")
    return None


def _excluded(definition: Definition) -> Rejection | None:
    days = definition.excluded
    if len(days) > limits.EXCLUDED_DATES_MAX:
        return _refused(
            "--exclude",
            f"names {len(days)} dates",
            f"name at most {limits.EXCLUDED_DATES_MAX}, of the coming years only",
        )
    if any(following <= day for day, following in pairwise(days)):
        return _refused("--exclude", "names dates out of order or twice", "give them ascending, each once")
    if days and not 0 <= days[0] <= days[-1] < END_DAY:
        return _refused(
            "--exclude",
            "names a date that no schedule reaches",
            f"use the years {limits.YEAR_MIN} to {limits.YEAR_MAX}",
        )
    return None


def _refused(option: str, reason: str, hint: str) -> Rejection:
    return Rejection(RejectionCode.VALUE_REFUSED, f"{option} {reason}", hint)
