"""Options about lanes, fires by hand, backfills, ceilings and grants: reading them, refusing what is out of bounds.

The same code runs in the command line, for an error before anything is sent, and in control, whose word counts.
"""

from fireledger.domain.instants import SECOND, MalformedDuration, format_duration, parse_duration, parse_instant
from fireledger.domain.limits import (
    AMOUNT_MAX,
    BACKFILL_FIRES_MAX,
    DRAIN_MAX,
    LANE_RATE_MAX,
    NAME_LENGTH_MAX,
    REASON_LENGTH_MAX,
)

from .refusals import read_option, refuse_unprintable, refused

WORST_MAX = 1_000
"""Tenants that one answer about lanes names."""
PREVIEW_MAX = 10_000
"""Instants of a backfill that one preview lists; it counts all of them."""


def check_name(option: str, name: str) -> str:
    """A name that stands in the book. Raises ControlRefused if it says nothing or too much."""
    return _check_line(option, name, NAME_LENGTH_MAX, "give a name on one line")


def check_reason(why: str) -> str:
    """A reason that stands in the book. Raises ControlRefused if it says nothing or too much."""
    return _check_line("--why", why, REASON_LENGTH_MAX, "say on one line what is expected, such as: moving house")


def check_worst(worst: int) -> int:
    """How many tenants an answer names. Raises ControlRefused."""
    return _check_number("--worst", worst, 0, WORST_MAX, "tenants")


def check_count(count: int) -> int:
    """How many instants a preview lists. Raises ControlRefused."""
    return _check_number("-n", count, 0, PREVIEW_MAX, "instants")


def check_rate(rate: int) -> int:
    """A backfill's rate. Raises ControlRefused."""
    return _check_number("--rate", rate, 1, LANE_RATE_MAX, "fires a second")


def check_amount(amount: int) -> int:
    """A ceiling's amount. Raises ControlRefused."""
    return _check_number("--amount", amount, 0, AMOUNT_MAX, "in the executor's units")


def check_fires(fires: int) -> int:
    """A grant's fires; 0 withdraws it. Raises ControlRefused."""
    return _check_number("--fires", fires, 0, BACKFILL_FIRES_MAX, "fires in one backfill; 0 withdraws the grant")


def read_range(start: str, end: str) -> tuple[int, int]:
    """A backfill's range, [start, end). Raises ControlRefused."""
    low, high = read_option("--from", start, parse_instant), read_option("--to", end, parse_instant)
    if low >= high:
        raise refused(f"--from {start} is not earlier than --to {end}", hint="give the earlier of the two to --from")
    if low < 0:
        raise refused(f"--from {start} lies before 1970", hint="no schedule reaches that far back")
    return low, high


def read_until(text: str, now: int) -> int:
    """Until when a drain is declared: an instant, or a duration from now on in whole seconds. Raises ControlRefused."""
    try:
        until = now + parse_duration(text)
        until -= until % SECOND
    except MalformedDuration:
        until = read_option("--until", text, parse_instant)
    if not now < until <= now + DRAIN_MAX:
        raise refused(
            f'--until "{text[:64]}" is out of bounds',
            hint=f"give an instant in the future, or a duration, of at most {format_duration(DRAIN_MAX)}",
        )
    return until


def _check_line(option: str, text: str, longest: int, hint: str) -> str:
    if not text.strip():
        raise refused(f"{option} is empty", hint=hint)
    refuse_unprintable(option, text, hint)
    if len(text) > longest:
        raise refused(f"{option} has {len(text)} characters", hint=f"use at most {longest}")
    return text


def _check_number(option: str, number: int, low: int, high: int, what: str) -> int:
    if not low <= number <= high:
        raise refused(f"{option} {number} is out of bounds", hint=f"use {low} to {high} {what}")
    return number
