"""Intervals (``90m``) and one-off local times (``2026-12-24T18:00``): text to compiled schedules."""

import re
from datetime import datetime

from ..instants import MalformedDuration, format_duration, parse_duration
from ..limits import EXPRESSION_LENGTH_MAX, INTERVAL_MAX, INTERVAL_MIN, YEAR_MAX, YEAR_MIN
from .errors import MalformedSchedule
from .schedule import IntervalSchedule, OneOffSchedule

_EVERY = re.compile(r"(?:@?every[ \t]+)?", re.ASCII | re.IGNORECASE)
_LOCAL = re.compile(r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?", re.ASCII)
_OFFSET = re.compile(r"[Zz]|[+-]\d{2}:?\d{2}", re.ASCII)
_EPOCH = datetime(1970, 1, 1)
_LOCAL_HINT = "write it as 2026-12-24T18:00"


def parse_interval(text: str, anchor: int) -> IntervalSchedule:
    """Compile ``90m``, ``every 90m`` or ``PT90M``; the grid hangs on ``anchor`` (microseconds) and extends both ways.

    Raises MalformedSchedule for anything else, and for intervals below a second or above ten years.
    """
    _check_length(text, "interval")
    trimmed = text.strip(" \t")
    start = text.index(trimmed)
    prefix = _EVERY.match(trimmed)
    length_text = trimmed[prefix.end() :] if prefix else trimmed
    position = start + len(trimmed) - len(length_text)
    try:
        period = parse_duration(length_text)
    except MalformedDuration as error:
        raise MalformedSchedule(
            f'"{length_text[:64]}" is not an interval',
            position=position,
            token=length_text,
            hint="write it as 30s, 90m, 6h, 1d or PT90M",
        ) from error
    if not INTERVAL_MIN <= period <= INTERVAL_MAX:
        raise MalformedSchedule(
            f'the interval "{length_text}" is too {"short" if period < INTERVAL_MIN else "long"}',
            position=position,
            token=length_text,
            hint=f"use {format_duration(INTERVAL_MIN)} to {format_duration(INTERVAL_MAX)}",
        )
    return IntervalSchedule(source=text, period=period, anchor=anchor)


def parse_one_off(text: str) -> OneOffSchedule:
    """Compile a local date and time without offset; the trigger's zone says which instant it is.

    Raises MalformedSchedule for an offset, an impossible date or a year outside YEAR_MIN to YEAR_MAX.
    """
    _check_length(text, "local time")
    match = _LOCAL.match(text)
    if match is None:
        raise MalformedSchedule(f'"{text[:64]}" is not a local date and time', position=0, token=text, hint=_LOCAL_HINT)
    rest = text[match.end() :]
    if rest:
        offset = _OFFSET.fullmatch(rest)
        message = f'the offset "{rest}" contradicts the zone' if offset else f'"{rest[:64]}" follows the local time'
        hint = "leave it out and declare the zone with --zone (UTC for Z)" if offset else _LOCAL_HINT
        raise MalformedSchedule(message, position=match.end(), token=rest, hint=hint)
    local = _moment(match) - _EPOCH
    if not YEAR_MIN <= int(match[1]) <= YEAR_MAX:
        raise MalformedSchedule(
            f'the year "{match[1]}" is out of range', position=0, token=match[1], hint=f"use {YEAR_MIN} to {YEAR_MAX}"
        )
    return OneOffSchedule(source=text, local=(local.days * 86_400 + local.seconds) * 1_000_000 + local.microseconds)


def _moment(match: re.Match[str]) -> datetime:
    year, month, day, hour, minute = (int(part) for part in match.groups()[:5])
    fraction = int((match[7] or "").ljust(6, "0"))
    checks = ((2, month, 1, 12, "month"), (4, hour, 0, 23, "hour"), (5, minute, 0, 59, "minute"))
    for group, value, low, high, name in (*checks, (6, int(match[6] or 0), 0, 59, "second")):
        if not low <= value <= high:
            raise MalformedSchedule(
                f'the {name} "{match[group]}" is out of range',
                position=match.start(group),
                token=match[group],
                hint=f"write {low:02d} to {high:02d}",
            )
    try:
        return datetime(year, month, day, hour, minute, int(match[6] or 0), fraction)
    except ValueError as error:
        raise MalformedSchedule(
            f'"{match.group()[:10]}" is not a date', position=match.start(3), token=match[3], hint="check the day"
        ) from error


def _check_length(text: str, what: str) -> None:
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise MalformedSchedule(
            f"the {what} has {len(text)} characters",
            position=EXPRESSION_LENGTH_MAX,
            hint=f"at most {EXPRESSION_LENGTH_MAX} are read",
        )
