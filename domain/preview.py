"""Preview: the coming instants of a recurrence, by the very code that decides them."""

from dataclasses import dataclass
from itertools import islice

from .identifiers import FireKey
from .instants import Instant
from .jitter import release_of
from .recurrence.exclusions import Occurrences
from .recurrence.months import LOCAL_END_S
from .recurrence.recurrence import local_text
from .zones import ZoneRules

_END = Instant(LOCAL_END_S * 1_000_000)


@dataclass(frozen=True, slots=True)
class Previewed:
    """One coming instant: scheduled, its release after jitter, and the local time as RFC 3339 text."""

    scheduled: Instant
    release: Instant
    local: str


@dataclass(frozen=True, slots=True)
class PreviewBounds:
    """Limits on what is previewed, each inclusive and None for no limit: instants in microseconds."""

    not_before: Instant | None = None
    not_after: Instant | None = None


NO_BOUNDS = PreviewBounds()


def preview(
    recurrence: Occurrences,
    zone: ZoneRules,
    *,
    tenant: str,
    trigger: str,
    jitter_window: int,
    after: int,
    count: int,
    until: int | None = None,
    bounds: PreviewBounds = NO_BOUNDS,
) -> list[Previewed]:
    """At most ``count`` instants strictly after ``after``, up to and including ``until``.

    The jitter window (microseconds) counts as no wider than the gap to the recurrence's next instant,
    even when that one lies beyond a bound.
    """
    start = after if bounds.not_before is None else max(after, bounds.not_before - 1)
    ends = [end for end in (until, bounds.not_after) if end is not None]
    previewed: list[Previewed] = []
    for scheduled in islice(recurrence.between(start, min(ends, default=_END)), count):
        following = recurrence.next_after(scheduled)
        gap = None if following is None else following - scheduled
        release = release_of(FireKey(tenant, trigger, scheduled), jitter_window, gap)
        previewed.append(Previewed(scheduled, release, local_text(scheduled, zone)))
    return previewed
