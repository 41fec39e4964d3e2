"""When a trigger next has something to decide: the rows of the due index."""

from .owed import Timeline
from .state import State, TriggerState
from .zones import ZoneLibrary

AT_ONCE = 0
"""A due instant in the past: there is something to decide whatever the time is."""


def next_due(state: State, trigger: TriggerState, zones: ZoneLibrary) -> int | None:
    """The instant from which ``decide`` has something to say about this trigger, or None for never.

    Covers the next release, waiting fires that nothing blocks, and ends of outcome windows. New attempt
    records make a trigger due by themselves and are not seen from here.
    """
    candidates = [fire.deadline for fire in trigger.open if fire.deadline is not None]
    if trigger.deciding:
        if trigger.waiting and (not trigger.open or trigger.definition.overlap == "allow"):
            return AT_ONCE
        candidates.extend(_releases(state, trigger, zones))
    return min(candidates, default=None)


def exhausted(trigger: TriggerState) -> bool:
    """Whether the trigger has made its maximum number of fires."""
    limit = trigger.definition.max_fires
    return limit is not None and trigger.fired_count >= limit


def _releases(state: State, trigger: TriggerState, zones: ZoneLibrary) -> list[int]:
    if exhausted(trigger):
        return []
    found: list[int] = []
    for segment in trigger.segments:
        timeline = Timeline(state, trigger, segment, zones)
        scheduled = timeline.next_undecided()
        if scheduled is not None:
            found.append(timeline.release(scheduled))
        elif segment.until is not None:
            found.append(AT_ONCE)
    return found
