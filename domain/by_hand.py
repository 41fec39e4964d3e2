"""What a person does to single fires and lanes: fire now, let a held fire go on, cancel one, declare a drain.

Control appends these; what time-based choice follows from them stays the scheduler's.
"""

from . import commands as c
from . import entries as e
from .fire_ends import finished, withdrawn
from .identifiers import FireKey
from .inputs import Inputs
from .instants import Instant, format_duration, format_instant
from .limits import DRAIN_MAX, NAME_LENGTH_MAX, REASON_LENGTH_MAX, WAITING_MAX
from .rejections import Rejection, RejectionCode, no_trigger
from .state import OpenFire, State, TriggerState, WaitingFire


def refuse_text(text: str, what: str, longest: int) -> Rejection | None:
    """Refuse a name or reason that is empty, too long, or not one printable line."""
    if text and len(text) <= longest and text.isprintable():
        return None
    return Rejection(
        RejectionCode.VALUE_REFUSED,
        f"{what} has {len(text)} characters or is not one printable line",
        f"give 1 to {longest} printable characters",
    )


def fire_now(state: State, command: c.FireNow, inputs: Inputs) -> tuple[e.BookEntry, ...] | Rejection:
    """Ask for a fire at the page's now, with the trigger's next run number."""
    trigger = state.live(command.trigger)
    if trigger is None:
        return no_trigger(state.tenant, command.trigger)
    refused = refuse_text(command.by, "the name of who asks", NAME_LENGTH_MAX) or _refuse_stopped(state, trigger)
    if refused is not None:
        return refused
    if len(trigger.waiting) >= WAITING_MAX:
        return Rejection(
            RejectionCode.TOO_MANY_WAITING,
            f'{WAITING_MAX} fires of trigger "{state.tenant}/{trigger.name}" wait for their release already',
            f"see them: fireledger fires list {state.tenant}/{trigger.name}",
        )
    requested = e.FireRequested(
        trigger=trigger.name,
        scheduled=inputs.recorded.now,
        sequence=trigger.next_run_number,
        definition_page=trigger.definition_page,
        by=command.by,
    )
    return (requested,)


def _refuse_stopped(state: State, trigger: TriggerState) -> Rejection | None:
    """Nothing is released while the trigger stands still, so nothing may be asked for."""
    if state.deciding(trigger):
        return None
    name = f"{state.tenant}/{trigger.name}"
    if trigger.paused:
        why, hint = "is paused", f"resume it first: fireledger trigger resume {name}"
    elif trigger.quarantine is not None:
        why, hint = "is in quarantine", f"see why, and amend it: fireledger trigger show {name}"
    else:
        why, hint = _suspension_words(state, trigger)
    return Rejection(RejectionCode.TRIGGER_STOPPED, f'trigger "{name}" {why}', hint)


def _suspension_words(state: State, trigger: TriggerState) -> tuple[str, str]:
    """Until when and by whose ceiling a trigger is suspended, and how to raise it: the one that holds for longer."""
    own, tenants = trigger.suspended_until or 0, state.suspended_until or 0
    until, ceilings = (tenants, state.ceilings) if tenants >= own else (own, trigger.ceilings)
    whose, path = ("tenant", state.tenant) if tenants >= own else ("trigger", f"{state.tenant}/{trigger.name}")
    used = [ceiling.per for ceiling in ceilings if ceiling.exhausted and ceiling.end == until]
    per = used[0] if used else "PERIOD"
    return (
        f"is suspended until {format_instant(until)}: a spend ceiling of the {whose} is used up",
        f"raise it: fireledger {whose} ceiling {path} --per {per} --amount N",
    )


def release_fire(state: State, command: c.ReleaseFire) -> tuple[e.BookEntry, ...] | Rejection:
    """Let a held fire go on with its next attempt."""
    refused = refuse_text(command.by, "the name of who releases", NAME_LENGTH_MAX)
    if refused is not None:
        return refused
    found = _fire(state, command)
    if isinstance(found, Rejection):
        return found
    if isinstance(found, WaitingFire) or not found.held:
        return Rejection(
            RejectionCode.FIRE_NOT_HELD,
            f'fire "{_key(state, command)}" is not held',
            f"see its state: fireledger fires show {_key(state, command)}",
        )
    if found.orphaned:
        return Rejection(
            RejectionCode.TRIGGER_STOPPED,
            f'the trigger of fire "{_key(state, command)}" was deleted: no further attempt is made',
            f"end the fire: fireledger fires cancel {_key(state, command)}",
        )
    released = e.HeldFireReleased(
        trigger=command.trigger, scheduled=command.scheduled, sequence=command.sequence, by=command.by
    )
    return (released,)


def cancel_fire(state: State, command: c.CancelFire) -> tuple[e.BookEntry, ...] | Rejection:
    """End a fire that no attempt is under way for: held, waiting for a retry, or decided and not released."""
    refused = refuse_text(command.by, "the name of who cancels", NAME_LENGTH_MAX)
    if refused is not None:
        return refused
    found = _fire(state, command)
    if isinstance(found, Rejection):
        return found
    if isinstance(found, WaitingFire):
        return (withdrawn(command.trigger, found, "cancelled", "by-person"),)
    if not found.held and found.retry_at is None:
        return Rejection(
            RejectionCode.FIRE_UNDER_WAY,
            f'attempt {found.attempt} of fire "{_key(state, command)}" is under way',
            "wait for its outcome: what is sent cannot be called back",
        )
    return (finished(command.trigger, found, "failed", "cancelled"),)


def _fire(state: State, command: c.ReleaseFire | c.CancelFire) -> OpenFire | WaitingFire | Rejection:
    """The fire that the command is about; a rejection for one that is neither open nor waiting."""
    trigger = state.triggers.get(command.trigger)
    if trigger is None:
        return no_trigger(state.tenant, command.trigger)
    wanted = (command.scheduled, command.sequence)
    fires: tuple[OpenFire | WaitingFire, ...] = (*trigger.open, *trigger.waiting)
    for fire in fires:
        if (fire.scheduled, fire.sequence) == wanted:
            return fire
    return Rejection(
        RejectionCode.FIRE_MISSING,
        f'fire "{_key(state, command)}" is neither open nor waiting',
        f"see what became of it: fireledger fires show {_key(state, command)}",
    )


def _key(state: State, command: c.ReleaseFire | c.CancelFire) -> FireKey:
    return FireKey(state.tenant, command.trigger, Instant(command.scheduled), command.sequence)


def declare_drain(command: c.DeclareDrain, inputs: Inputs) -> tuple[e.BookEntry, ...] | Rejection:
    """Note that a lane is expected to be behind for a while."""
    refused = refuse_text(command.why, "the reason", REASON_LENGTH_MAX)
    if refused is not None:
        return refused
    now = inputs.recorded.now
    if not now < command.until <= now + DRAIN_MAX:
        return Rejection(
            RejectionCode.VALUE_REFUSED,
            f"a drain until {format_instant(command.until)} is not within {format_duration(DRAIN_MAX)} from now",
            f"give an instant after {format_instant(now)}, and declare again when it takes longer",
        )
    return (e.DrainDeclared(lane=command.lane, until=command.until, why=command.why),)
