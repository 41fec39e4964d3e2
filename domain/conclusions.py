"""What observed results say about open fires: their outcome, a wait for a person, or another attempt.

A result counts while its fire is open at that attempt and its outcome window is not over; anything else is recorded
and changes nothing decided (DESIGN section 3).
"""

from . import entries as e
from .draft import FireId, fire_id
from .fire_ends import finished
from .identifiers import FireKey
from .instants import Instant
from .retry import retry_at
from .state import OpenFire, State, TriggerState

Conclusion = e.FireFinished | e.FireHeld | e.RetryScheduled


def conclusions(state: State, observed: tuple[e.AttemptObserved, ...]) -> list[Conclusion]:
    """The conclusions from a page's observed results, in their order. ``state`` is as observing left it."""
    found: list[Conclusion] = []
    fires: dict[str, dict[FireId, OpenFire]] = {}
    latest: dict[tuple[str, FireId], Conclusion] = {}
    for entry in observed:
        trigger = state.triggers.get(entry.trigger)
        if entry.result is None or trigger is None:
            continue
        if entry.trigger not in fires:
            fires[entry.trigger] = {(fire.scheduled, fire.sequence): fire for fire in trigger.open}
        fire = fires[entry.trigger].get(fire_id(entry))
        before = latest.get((entry.trigger, fire_id(entry)))
        if fire is None or fire.attempt != entry.attempt or isinstance(before, e.FireFinished):
            continue
        conclusion = _conclusion(state, trigger, fire, entry, before)
        if conclusion is not None:
            found.append(conclusion)
            latest[entry.trigger, fire_id(entry)] = conclusion
    return found


def _conclusion(
    state: State, trigger: TriggerState, fire: OpenFire, entry: e.AttemptObserved, before: Conclusion | None
) -> Conclusion | None:
    """What one result says of its open fire, after what an earlier one in the same page said."""
    held = fire.held if before is None else isinstance(before, e.FireHeld)
    waits = fire.retry_at is not None if before is None else isinstance(before, e.RetryScheduled)
    if not (held or waits) and fire.deadline is not None and entry.stamped_at >= fire.deadline:
        return None
    match entry.result:
        case "succeeded":
            return finished(entry.trigger, fire, "succeeded", "executor")
        case "final":
            return finished(entry.trigger, fire, "failed", "refused by the executor")
        case "held":
            # The attempt that asked has been answered: asked again, it does not undo what a person decided.
            return None if held or fire.let_go else _held(entry)
        case "retryable" | "timeout":
            if held or waits:
                return None
            return _retried(state, trigger, fire, entry) or _given_up(
                trigger, fire, timed_out=entry.result == "timeout"
            )
        case _:
            return None


def _retried(state: State, trigger: TriggerState, fire: OpenFire, entry: e.AttemptObserved) -> e.RetryScheduled | None:
    """The next attempt; None when none is left, or nobody would want it any more."""
    retry = trigger.definition.retry
    if entry.attempt >= retry.attempts or fire.orphaned:
        return None
    key = FireKey(state.tenant, entry.trigger, Instant(entry.scheduled), entry.sequence)
    return e.RetryScheduled(
        trigger=entry.trigger,
        scheduled=entry.scheduled,
        sequence=entry.sequence,
        attempt=entry.attempt + 1,
        at=retry_at(
            retry,
            key,
            failed_attempt=entry.attempt,
            failed_at=entry.stamped_at,
            retry_after=entry.retry_after,
        ),
    )


def _given_up(trigger: TriggerState, fire: OpenFire, *, timed_out: bool) -> e.FireFinished:
    if timed_out:
        return finished(trigger.name, fire, "unknown", "the last attempt timed out")
    return finished(trigger.name, fire, "failed", "trigger deleted" if fire.orphaned else "no attempts left")


def _held(entry: e.AttemptObserved) -> e.FireHeld:
    return e.FireHeld(
        trigger=entry.trigger,
        scheduled=entry.scheduled,
        sequence=entry.sequence,
        attempt=entry.attempt,
        message=entry.message,
    )
