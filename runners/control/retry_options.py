"""Options about attempts and shares: reading their texts into a definition's retry rule and a tenant's share."""

import re

from msgspec import UNSET, UnsetType

from fireledger.domain import limits
from fireledger.domain.definition import Retry
from fireledger.domain.instants import format_duration, parse_duration
from fireledger.projections.book_text import factor_text

from .refusals import read_option, refused
from .requests import TriggerOptions

_FACTOR = re.compile(r"(\d{1,4})(?:\.(\d{1,2}))?", re.ASCII)
_SHARE = re.compile(r"(\d{1,4})%?", re.ASCII)


def retry_with(options: TriggerOptions, current: Retry) -> Retry:
    """A retry rule: ``current`` with the options that are given. Raises ControlRefused.

    No wait is longer than the cap, the first one included: which of the two is given takes the other along.
    """
    o = options
    base = _wait("--retry-base", o.retry_base, current.base)
    cap = _wait("--retry-cap", o.retry_cap, current.cap)
    if UNSET not in (o.retry_base, o.retry_cap) and cap < base:
        raise refused(
            f"--retry-cap {format_duration(cap)} is shorter than --retry-base {format_duration(base)}",
            hint="give the longer of the two to --retry-cap",
        )
    return Retry(
        attempts=current.attempts if o.max_attempts is UNSET else _attempts(o.max_attempts),
        base=base if o.retry_cap is UNSET else min(base, cap),
        factor=current.factor if o.retry_factor is UNSET else parse_factor(o.retry_factor),
        cap=max(base, cap) if o.retry_cap is UNSET else cap,
    )


def parse_factor(text: str) -> int:
    """Read ``2`` or ``1.5`` into hundredths. Raises ControlRefused."""
    match = _FACTOR.fullmatch(text)
    low, high = factor_text(limits.RETRY_FACTOR_MIN), factor_text(limits.RETRY_FACTOR_MAX)
    hint = f"write a number from {low} to {high} with at most two decimals, such as 1.5"
    if match is None:
        raise refused(f'--retry-factor "{text[:40]}" is not a factor', hint=hint)
    factor = int(match[1]) * 100 + int((match[2] or "").ljust(2, "0"))
    if not limits.RETRY_FACTOR_MIN <= factor <= limits.RETRY_FACTOR_MAX:
        raise refused(f"--retry-factor {text} is out of bounds", hint=hint)
    return factor


def parse_share(text: str) -> int:
    """Read ``10%`` or ``10`` into per cent. Raises ControlRefused."""
    match = _SHARE.fullmatch(text)
    hint = "write it as 10%, from 1% to 100% of the quota"
    if match is None:
        raise refused(f'--catch-up-share "{text[:40]}" is not a share', hint=hint)
    if not 1 <= int(match[1]) <= 100:
        raise refused(f"--catch-up-share {text} is out of bounds", hint=hint)
    return int(match[1])


def _attempts(count: int) -> int:
    if not 1 <= count <= limits.ATTEMPTS_MAX:
        raise refused(
            f"--max-attempts {count} is out of bounds",
            hint=f"use 1 to {limits.ATTEMPTS_MAX}; 1 means that a failed attempt is not made again",
        )
    return count


def _wait(option: str, text: str | UnsetType, current: int) -> int:
    if text is UNSET:
        return current
    wait = read_option(option, text, parse_duration)
    if not limits.RETRY_BASE_MIN <= wait <= limits.RETRY_CAP_MAX:
        raise refused(
            f'{option} "{format_duration(wait)}" is out of bounds',
            hint=f"use {format_duration(limits.RETRY_BASE_MIN)} to {format_duration(limits.RETRY_CAP_MAX)}",
        )
    return wait
