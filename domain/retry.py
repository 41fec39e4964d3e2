"""Retries: when the next attempt of a failed fire is released (DESIGN section 5, rule 6)."""

from hashlib import sha256

from .definition import Retry
from .identifiers import FireKey
from .instants import Instant
from .limits import RETRY_SPREAD_PERCENT


def nominal_wait(retry: Retry, failed_attempt: int) -> int:
    """The wait after attempt ``failed_attempt`` without spread, in microseconds: exponential up to the cap."""
    wait = retry.base
    for _ in range(failed_attempt - 1):
        if wait >= retry.cap:
            break
        wait = wait * retry.factor // 100
    return min(wait, retry.cap)


def retry_at(retry: Retry, key: FireKey, *, failed_attempt: int, failed_at: int, retry_after: int | None) -> Instant:
    """The instant at which the next attempt is released, in microseconds.

    ``failed_at`` is the broker's stamp of the result. What the executor asks for (``retry_after``) counts when it is
    longer than the nominal wait, up to the cap. The spread of up to RETRY_SPREAD_PERCENT comes on top, so that it
    shortens neither; it is a function of the fire key and the attempt, the same on every node.
    """
    wait = nominal_wait(retry, failed_attempt)
    if retry_after is not None:
        wait = max(wait, min(retry_after, retry.cap))
    return Instant(failed_at + wait + _spread(wait, key, failed_attempt + 1))


def _spread(wait: int, key: FireKey, attempt: int) -> int:
    leading = int.from_bytes(sha256(f"{key}#{attempt}".encode()).digest()[:8], "big") >> 11
    return wait * RETRY_SPREAD_PERCENT * leading // (100 << 53)
