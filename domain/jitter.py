"""Jitter: moves a fire's release, never its identity, and is the same on every node.

The offset is ``window * (leading 53 bits of SHA-256(fire key) / 2**53)`` (DESIGN section 3), computed in
integers so that no platform's floating point has a say.
"""

from hashlib import sha256

from .identifiers import FireKey
from .instants import Duration, Instant


def effective_window(window: int, gap_to_next: int | None) -> Duration:
    """The window that counts: no wider than the gap to the next scheduled instant (None: unlimited)."""
    return Duration(window if gap_to_next is None else min(window, gap_to_next))


def offset_of(key: FireKey, window: int) -> Duration:
    """The fire's offset in microseconds, in [0, window)."""
    if window <= 0:
        return Duration(0)
    leading = int.from_bytes(sha256(str(key).encode()).digest()[:8], "big") >> 11
    return Duration(window * leading >> 53)


def release_of(key: FireKey, window: int, gap_to_next: int | None) -> Instant:
    """The fire's release: its scheduled instant plus its offset within the effective window."""
    return Instant(key.scheduled + offset_of(key, effective_window(window, gap_to_next)))
