"""Backfills: firing a range of past instants again, or for the first time, beside the fires they had."""

from bisect import bisect_left
from operator import attrgetter

from .entries import Span
from .owed import Timeline

_last = attrgetter("last")


def backfill_next(timeline: Timeline, fired: tuple[Span, ...], after: int | None = None) -> int | None:
    """The backfill's next instant to decide (strictly after ``after`` as well), leaving out the ``fired`` spans.

    ``timeline`` is that of the backfill's own segment; ``fired`` are ascending and do not touch.
    """
    scheduled = timeline.next_undecided(after)
    while scheduled is not None:
        place = bisect_left(fired, scheduled, key=_last)
        if place == len(fired) or scheduled < fired[place].first:
            return scheduled
        scheduled = timeline.next_undecided(fired[place].last)
    return None


def backfill_count(timeline: Timeline, fired: tuple[Span, ...], end: int) -> int:
    """How many instants before ``end`` the backfill has still to decide, counted without listing them."""
    total = timeline.count_until(-(2**62), end - 1)
    return total - sum(timeline.count_until(span.first - 1, min(span.last, end - 1)) for span in fired)
