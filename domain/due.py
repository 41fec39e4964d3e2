"""When a trigger next has something to decide: the rows of the due index."""

from .backfill import backfill_next
from .ceilings import suspension_end
from .lanes import lane_ready_at, waiting_ready_at
from .limits import BACKFILL_WAITING_MAX, FIRES_OPEN_MAX
from .owed import Timeline
from .state import State, TriggerState
from .zones import ZoneLibrary

AT_ONCE = 0
"""A due instant in the past: there is something to decide whatever the time is."""


def next_due(state: State, trigger: TriggerState, zones: ZoneLibrary) -> int | None:
    """The instant from which ``decide`` has something to say about this trigger, or None for never.

    Covers the next release, retries, waiting fires that nothing blocks, the ends of outcome windows and suspensions,
    and backfills. New attempt records make a trigger due by themselves and are not seen from here; neither are the
    shared rates of the lanes, and shedding.
    """
    waiting, others = waiting_due(state, trigger), due_beside_waiting(state, trigger, zones)
    return waiting if others is None else others if waiting is None else min(waiting, others)


def waiting_due(state: State, trigger: TriggerState) -> int | None:
    """From when on the book lets a waiting fire of the trigger go; None: none waits, or something stops them all."""
    if not trigger.waiting or not state.deciding(trigger) or blocked(trigger):
        return None
    return waiting_ready_at(state, trigger)


def due_beside_waiting(state: State, trigger: TriggerState, zones: ZoneLibrary) -> int | None:
    """The same as ``next_due``, waiting fires apart."""
    candidates = [fire.deadline for fire in trigger.open if fire.deadline is not None]
    candidates.extend(_suspensions(state, trigger))
    if state.deciding(trigger):
        candidates.extend(_retries(state, trigger))
        candidates.extend(_releases(state, trigger, zones))
        if trigger.backfill is not None:
            candidates.extend(_backfill(state, trigger, zones))
    return min(candidates, default=None)


def exhausted(trigger: TriggerState) -> bool:
    """Whether the trigger has made its maximum number of fires."""
    limit = trigger.definition.max_fires
    return limit is not None and trigger.fired_count >= limit


def blocked(trigger: TriggerState) -> bool:
    """Whether the overlap rule, or the bound of open fires, keeps a further fire of the trigger from its release."""
    open_count = len(trigger.open)
    return open_count > 0 and (trigger.definition.overlap != "allow" or open_count >= FIRES_OPEN_MAX)


def _suspensions(state: State, trigger: TriggerState) -> list[int]:
    if trigger.deleted:
        return []
    ends = [until for until in (state.suspended_until, trigger.suspended_until) if until is not None]
    until = suspension_end(trigger.ceilings)
    longer = until is not None and (trigger.suspended_until is None or until > trigger.suspended_until)
    if longer or any(ceiling.later for ceiling in trigger.ceilings):
        ends.append(AT_ONCE)
    return ends


def _retries(state: State, trigger: TriggerState) -> list[int]:
    return [
        max(fire.retry_at, lane_ready_at(state, trigger, fire.lane))
        for fire in trigger.open
        if fire.retry_at is not None
    ]


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


def _backfill(state: State, trigger: TriggerState, zones: ZoneLibrary) -> list[int]:
    """At once while instants of a backfill are to be decided, or it is to be ended."""
    backfill = trigger.backfill
    assert backfill is not None, "asked for triggers with a backfill only"
    waiting = sum(fire.lane == "backfill" for fire in trigger.waiting)
    if waiting == 0:
        return [AT_ONCE]
    if waiting > BACKFILL_WAITING_MAX // 2:
        return []
    timeline = Timeline(state, trigger, backfill.segment, zones)
    return [] if backfill_next(timeline, backfill.fired) is None else [AT_ONCE]
