"""Instants and durations: integer microseconds inside, RFC 3339 and short forms outside.

An ``Instant`` is the number of microseconds since 1970-01-01T00:00:00Z. Leap seconds do not exist
here, as in POSIX time. No function in this module reads a clock.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import NewType

Instant = NewType("Instant", int)
"""Microseconds since the Unix epoch, UTC."""

Duration = NewType("Duration", int)
"""A length of time in microseconds."""

MICROSECOND = Duration(1)
MILLISECOND = Duration(1_000)
SECOND = Duration(1_000_000)
MINUTE = Duration(60 * SECOND)
HOUR = Duration(60 * MINUTE)
DAY = Duration(24 * HOUR)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_SHORT = re.compile(r"(\d{1,15})(ms|us|s|m|h|d|w)", re.ASCII)
_ISO = re.compile(
    r"P(?:(\d{1,9})W)?(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.(\d{1,6}))?S)?)?", re.ASCII
)
_UNITS = {"us": MICROSECOND, "ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}


class MalformedInstant(ValueError):
    """The text is not an RFC 3339 instant with a zone offset; the message names the text and a valid example."""


class MalformedDuration(ValueError):
    """The text is not a duration such as ``90s``, ``15m``, ``1h30m`` or ``PT90S``; the message says so."""


def parse_instant(text: str) -> Instant:
    """Read an RFC 3339 instant (``2026-11-30T09:00:00Z``, any offset, at most microseconds).

    Raises MalformedInstant when the text has no offset, more than six fractional digits or an
    impossible date.
    """
    match = _RFC3339.fullmatch(text)
    hint = "write it as 2026-11-30T09:00:00Z"
    if match is None:
        raise MalformedInstant(f'"{text[:64]}" is not an instant; {hint}')
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction = int((match[7] or "").ljust(6, "0"))
    try:
        moment = datetime(year, month, day, hour, minute, second, fraction, tzinfo=_offset(match[8]))
        return from_datetime(moment)
    except (ValueError, OverflowError) as error:
        raise MalformedInstant(f'"{text[:64]}" is not an instant: {error}; {hint}') from error


def _offset(text: str) -> timezone:
    if text in "Zz":
        return UTC
    sign = -1 if text[0] == "-" else 1
    hours, minutes = int(text[1:3]), int(text[4:6])
    if minutes > 59:
        raise ValueError("offset minutes must be below 60")
    return timezone(sign * timedelta(hours=hours, minutes=minutes))


def format_instant(instant: int) -> str:
    """Write an instant as RFC 3339 with ``Z``: whole seconds, or six digits when it is not whole."""
    moment = to_datetime(instant)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S") if moment.year > 999 else moment.isoformat()[:19]
    return f"{text}.{moment.microsecond:06d}Z" if moment.microsecond else f"{text}Z"


def from_datetime(moment: datetime) -> Instant:
    """Convert an aware datetime. Raises MalformedInstant for a naive one."""
    if moment.tzinfo is None:
        raise MalformedInstant("a datetime without a zone is not an instant; give it a tzinfo")
    return Instant((moment - _EPOCH) // timedelta(microseconds=1))


def to_datetime(instant: int) -> datetime:
    """Convert to an aware UTC datetime. Raises OverflowError outside the years 1 to 9999."""
    return _EPOCH + timedelta(microseconds=instant)


def parse_duration(text: str) -> Duration:
    """Read ``90s``, ``15m``, ``1h30m``, ``2d``, ``250ms`` or an ISO 8601 duration without years and months.

    Raises MalformedDuration for anything else, including negative lengths and a bare number
    (``0`` excepted, which needs no unit).
    """
    if text == "0":
        return Duration(0)
    parts = _SHORT.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return Duration(sum(int(number) * _UNITS[unit] for number, unit in parts))
    match = _ISO.fullmatch(text)
    if match is not None and any(match.groups()) and not text.endswith("T"):
        weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:5])
        fraction = int((match[6] or "").ljust(6, "0"))
        return Duration((weeks * 7 + days) * DAY + hours * HOUR + minutes * MINUTE + seconds * SECOND + fraction)
    raise MalformedDuration(f'"{text[:64]}" is not a duration; write it as 90s, 15m, 2h, 1d or PT90S')


def format_duration(duration: int) -> str:
    """Write a duration in the shortest exact short form, such as ``1h30m`` or ``250ms``; zero is ``0s``."""
    rest, text = duration, ""
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, rest = divmod(rest, _UNITS[unit])
        text += f"{count}{unit}" if count else ""
    return text or "0s"
