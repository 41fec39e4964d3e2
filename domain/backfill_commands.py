"""Starting and cancelling backfills."""

from itertools import pairwise

from msgspec.structs import replace

from . import commands as c
from . import entries as e
from .backfill import backfill_count
from .backfill_range import joined_spans, undecided_spans
from .by_hand import refuse_text
from .fire_ends import withdrawn
from .inputs import Inputs
from .instants import format_instant
from .limits import BACKFILL_FIRES_MAX, BACKFILL_SPANS_MAX, LANE_RATE_MAX, NAME_LENGTH_MAX
from .owed import Timeline
from .rejections import Rejection, RejectionCode, no_trigger
from .state import Backfill, State, TriggerState, backfill_segment
from .tick import guarded


def start_backfill(state: State, command: c.StartBackfill, inputs: Inputs) -> tuple[e.BookEntry, ...] | Rejection:
    """Begin a backfill, if somebody granted as many fires as it would make.

    Instants that the trigger's schedules have still to decide are left to them.
    """
    trigger = state.live(command.trigger)
    if trigger is None:
        return no_trigger(state.tenant, command.trigger)
    name = f"{state.tenant}/{trigger.name}"
    if trigger.backfill is not None:
        return Rejection(
            RejectionCode.BACKFILL_RUNNING,
            f'backfill "{trigger.backfill.label}" of trigger "{name}" is under way',
            f"wait for it, or end it: fireledger backfill cancel {name}",
        )
    refused = _refuse_values(command, inputs) or _refuse_quarantined(state, trigger, inputs)
    if refused is not None:
        return refused
    undecided = guarded(trigger.name, undecided_spans, state, trigger, command.start, command.end, inputs.zones)
    fired = joined_spans((*command.fired, *undecided))
    refused = guarded(trigger.name, _refuse_count, state, trigger, replace(command, fired=fired), inputs)
    if refused is not None:
        return refused
    grant = state.granted("backfill", trigger.name)
    assert grant is not None, "without a grant it is refused"
    started = e.BackfillStarted(
        trigger=trigger.name,
        backfill=command.backfill,
        start=command.start,
        end=command.end,
        only_missing=command.only_missing,
        rate_per_second=command.rate_per_second,
        grant_holder=grant.holder,
        fired=fired,
    )
    return (started,)


def _refuse_quarantined(state: State, trigger: TriggerState, inputs: Inputs) -> Rejection | None:
    """Nobody can count the instants of a schedule that cannot be looked at."""
    if trigger.quarantine is None and all(item.trigger != trigger.name for item in inputs.recorded.quarantine):
        return None
    name = f"{state.tenant}/{trigger.name}"
    return Rejection(
        RejectionCode.TRIGGER_STOPPED,
        f'trigger "{name}" is in quarantine',
        f"see why, and amend it: fireledger trigger show {name}",
    )


def _refuse_values(command: c.StartBackfill, inputs: Inputs) -> Rejection | None:
    now = inputs.recorded.now
    refused = refuse_text(command.by, "the name of who starts it", NAME_LENGTH_MAX)
    refused = refused or refuse_text(command.backfill, "the label", NAME_LENGTH_MAX)
    if refused is not None:
        return refused
    if not 0 <= command.start < command.end:
        return Rejection(
            RejectionCode.VALUE_REFUSED,
            "a backfill's range begins before 1970 or is empty",
            "give a --from that is earlier than --to",
        )
    if command.end > now:
        return Rejection(
            RejectionCode.VALUE_REFUSED,
            f"a backfill to {format_instant(command.end)} reaches into the future",
            f"give a --to that is not later than {format_instant(now)}; what comes then fires by itself",
        )
    if not 1 <= command.rate_per_second <= LANE_RATE_MAX:
        return Rejection(
            RejectionCode.VALUE_REFUSED,
            f"a rate of {command.rate_per_second} fires a second is out of bounds",
            f"give a whole number from 1 to {LANE_RATE_MAX}",
        )
    return _refuse_spans(command)


def _refuse_spans(command: c.StartBackfill) -> Rejection | None:
    spans = command.fired
    if len(spans) > BACKFILL_SPANS_MAX:
        return Rejection(
            RejectionCode.VALUE_REFUSED,
            f"fired and missing instants alternate more than {BACKFILL_SPANS_MAX} times in this range",
            "give a shorter range",
        )
    ascending = all(span.first <= span.last for span in spans)
    if ascending and all(left.last < right.first for left, right in pairwise(spans)):
        return None
    return Rejection(RejectionCode.VALUE_REFUSED, "the fired stretches are not ascending", "this is a defect")


def _refuse_count(state: State, trigger: TriggerState, command: c.StartBackfill, inputs: Inputs) -> Rejection | None:
    segment = backfill_segment(state, trigger.definition, command.start, command.end)
    count = backfill_count(Timeline(state, trigger, segment, inputs.zones), command.fired, command.end)
    name = f"{state.tenant}/{trigger.name}"
    if count == 0:
        return Rejection(
            RejectionCode.VALUE_REFUSED,
            f'trigger "{name}" has nothing to backfill from {format_instant(command.start)} '
            f"to {format_instant(command.end)} that its schedule does not decide itself",
            f"see what a range would fire: fireledger backfill preview {name} --from INSTANT --to INSTANT",
        )
    grant = state.granted("backfill", trigger.name)
    if grant is not None and count <= grant.value:
        return None
    granted = "nobody granted a backfill" if grant is None else f"{grant.value} are granted"
    grantable = count <= BACKFILL_FIRES_MAX
    return Rejection(
        RejectionCode.GRANT_MISSING,
        f'this backfill of trigger "{name}" would make {count} fires, and {granted}',
        f"grant it: fireledger backfill grant {name} --fires {count} --holder NAME"
        if grantable
        else f"give a shorter range: one backfill can be granted {BACKFILL_FIRES_MAX} fires",
    )


def cancel_backfill(state: State, command: c.CancelBackfill) -> tuple[e.BookEntry, ...] | Rejection:
    """End a backfill; its fires that are decided and not released are cancelled, the others go on."""
    trigger = state.live(command.trigger)
    if trigger is None:
        return no_trigger(state.tenant, command.trigger)
    if trigger.backfill is None:
        return Rejection(
            RejectionCode.BACKFILL_MISSING,
            f'trigger "{state.tenant}/{trigger.name}" has no backfill under way',
            f"see what it did: fireledger fires list {state.tenant}/{trigger.name}",
        )
    refused = refuse_text(command.by, "the name of who cancels", NAME_LENGTH_MAX)
    if refused is not None:
        return refused
    waiting = [fire for fire in trigger.waiting if fire.lane == "backfill"]
    cancelled = (withdrawn(trigger.name, fire, "cancelled", "by-person") for fire in waiting)
    return (*cancelled, backfill_cancelled(trigger, trigger.backfill))


def backfill_cancelled(trigger: TriggerState, backfill: Backfill) -> e.BackfillEnded:
    """The end of a backfill before all of it was released."""
    return e.BackfillEnded(
        trigger=trigger.name, backfill=backfill.label, cause="cancelled", fired_count=backfill.released_count
    )
