"""What a backfill leaves out of its range: stretches that have fired, and those that the schedule still decides."""

from collections.abc import Iterable, Iterator

from .due import exhausted
from .entries import Span
from .owed import Timeline
from .state import State, TriggerState
from .zones import ZoneLibrary


def undecided_spans(state: State, trigger: TriggerState, start: int, end: int, zones: ZoneLibrary) -> tuple[Span, ...]:
    """The stretches of [start, end) that the trigger's schedules have still to decide, ascending and apart.

    A backfill that fired them too would fire them twice. Empty for a trigger that has made all its fires.
    """
    if exhausted(trigger) and not any(fire.sequence == 0 for fire in trigger.waiting):
        # A waiting fire that is withdrawn gives its place back: then the schedule goes on.
        return ()
    return joined_spans(_undecided(state, trigger, start, end, zones))


def _undecided(state: State, trigger: TriggerState, start: int, end: int, zones: ZoneLibrary) -> Iterator[Span]:
    for segment in trigger.segments:
        following = Timeline(state, trigger, segment, zones).next_undecided()
        last = end - 1 if segment.until is None else min(end - 1, segment.until)
        if following is not None and following <= last:
            yield Span(max(following, start), last)


def joined_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans in order, those that overlap or touch made one; empty ones are left out."""
    joined: list[Span] = []
    for span in sorted((span for span in spans if span.first <= span.last), key=lambda each: each.first):
        if joined and span.first <= joined[-1].last + 1:
            joined[-1] = Span(joined[-1].first, max(joined[-1].last, span.last))
        else:
            joined.append(span)
    return tuple(joined)
