"""The last-decided marks of a trigger's segments: how decisions advance them, and what they make superfluous."""

from msgspec.structs import replace

from .limits import EARLIER_MARKS_MAX, MARK_KEPT, STOPS_MAX
from .rezone import goes_by_local_time
from .state import Mark, Pause, Segment, State, TriggerState


def marked(
    state: State, trigger: TriggerState, scheduled: int, sequence: int, *, first: int | None = None
) -> TriggerState:
    """Advance the last-decided mark of the segment that holds the instants up to this, or take a run number."""
    if sequence:
        return replace(trigger, next_run_number=max(trigger.next_run_number, sequence + 1))
    for place, segment in enumerate(trigger.segments):
        if segment.after < scheduled and (segment.until is None or scheduled <= segment.until):
            begun = scheduled if first is None else first
            advanced = _advanced(segment, begun, scheduled, state.zone_data_of(segment))
            segments: tuple[Segment, ...] = (*trigger.segments[:place], advanced, *trigger.segments[place + 1 :])
            return without_spent_pauses(replace(trigger, segments=segments))
    raise AssertionError(f"instant {scheduled} of {trigger.name} lies in no segment")


def _advanced(segment: Segment, first: int, last: int, zone_sha256: str) -> Segment:
    """The segment with its next mark; new zone data may put it before the old one, which is then remembered."""
    before, earlier = segment.mark, segment.earlier
    if before.zone_sha256 == zone_sha256 or not goes_by_local_time(segment.schedule):
        assert last > before.decided, f"instant {last} is decided already"
        first = before.since if before.since <= before.decided else first
    elif before.since <= before.decided:
        earlier = (*earlier, before)
    if earlier:
        earlier = tuple(mark for mark in earlier if last < mark.decided + MARK_KEPT)[-EARLIER_MARKS_MAX:]
    return replace(segment, mark=Mark(last, zone_sha256, first), earlier=earlier)


def without_spent_pauses(trigger: TriggerState) -> TriggerState:
    """Drop pauses that no undecided instant can lie in: every release is later than its segment's mark."""
    if not trigger.pauses:
        return trigger
    earliest = min(segment.decided for segment in trigger.segments)
    kept = tuple(pause for pause in trigger.pauses if pause.end is None or pause.end > earliest)
    return trigger if len(kept) == len(trigger.pauses) else replace(trigger, pauses=kept)


def with_stop(pauses: tuple[Pause, ...], begun: Pause) -> tuple[Pause, ...]:
    """The pauses and a suspension or quarantine that begins: STOPS_MAX of its cause at most, the two oldest made one.

    A trigger that is rarely due keeps them all until it is. What lay between the oldest two was decided when the
    first of them ended, unless no scheduler ran.
    """
    same = [pause for pause in pauses if pause.cause == begun.cause]
    if len(same) < STOPS_MAX:
        return (*pauses, begun)
    first, second = same[:2]
    others = tuple(pause for pause in pauses if pause is not second)
    return (*(replace(pause, end=second.end) if pause is first else pause for pause in others), begun)
