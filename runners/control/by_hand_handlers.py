"""The requests about single fires: firing a trigger now, releasing a held fire, cancelling one."""

from fireledger.domain import commands as c
from fireledger.domain.entries import FireFinished, FireRequested, FireWithdrawn
from fireledger.domain.identifiers import FireKey, check_trigger, parse_fire_key
from fireledger.domain.instants import format_instant
from fireledger.domain.state import OpenFire, State, TriggerState, WaitingFire

from ..json_edge import Json
from . import policy_requests as p
from . import requests as r
from .answers import Answer
from .command_handlers import about, carry_out, no_tenant
from .commands import CommandWriter, Done
from .policy_answers import state_of
from .policy_options import check_name


class ByHandHandlers:
    """One method for each subject. Each raises ControlRefused and other OperationalErrors."""

    def __init__(self, writer: CommandWriter) -> None:
        self._writer = writer

    async def fire_now(self, content: dict[str, Json]) -> Answer:
        """Fire a trigger once, beside its schedule."""
        request = r.read_request(content, p.FiresNow)
        check_trigger(request.trigger)
        check_name("--by", request.by)
        command = c.FireNow(trigger=request.trigger, by=request.by)
        done = await self._carry_out("control.fires.now", request, content, command)
        requested = done.entry(FireRequested)
        key = requested.key(request.tenant)
        return self._answer(key, done, _next_of_request(done.book.state.live(key.trigger), key))

    async def release(self, content: dict[str, Json]) -> Answer:
        """Let a held fire go on with its next attempt."""
        request = r.read_request(content, p.FireByHand)
        key = _key(request)
        command = c.ReleaseFire(trigger=key.trigger, scheduled=key.scheduled, sequence=key.sequence, by=request.by)
        done = await self._carry_out("control.fires.release", request, content, command)
        trigger = self._writer.same_trigger(done, key.trigger)
        return self._answer(key, done, _next_of_release(done.book.state, trigger, key))

    async def cancel(self, content: dict[str, Json]) -> Answer:
        """End a fire that is held, or that waits for its release or its next attempt."""
        request = r.read_request(content, p.FireByHand)
        key = _key(request)
        command = c.CancelFire(trigger=key.trigger, scheduled=key.scheduled, sequence=key.sequence, by=request.by)
        done = await self._carry_out("control.fires.cancel", request, content, command)
        ended = done.entry(FireWithdrawn, FireFinished)
        if isinstance(ended, FireWithdrawn):
            return self._answer(key, done, "It was not released and does not fire.")
        return self._answer(key, done, "It ends as failed, cause cancelled: no further attempt is made.")

    async def _carry_out(
        self, subject: str, request: r.CommandRequest, content: dict[str, Json], command: c.Command
    ) -> Done:
        def build(state: State, _now: int) -> c.Command:
            """The command as the book stands now."""
            if state.settings is None:
                raise no_tenant(request.tenant)
            return command

        return await carry_out(self._writer, subject, request, content, build)

    def _answer(self, key: FireKey, done: Done, sentence: str) -> Answer:
        return {
            "key": str(key),
            "tenant": key.tenant,
            "trigger": key.trigger,
            "scheduled": format_instant(key.scheduled),
            "sequence": key.sequence,
            "sentence": sentence,
            **about(done),
        }


def _key(request: p.FireByHand) -> FireKey:
    check_name("--by", request.by)
    key = parse_fire_key(request.key)
    if key.tenant != request.tenant:
        raise r.malformed(f'fire "{key}" is not of tenant "{request.tenant}"')
    return key


def _stopped(state: State, trigger: TriggerState) -> str | None:
    """Why nothing of the trigger is released now; None when nothing of its own keeps it back."""
    return None if state.deciding(trigger) else state_of(state, trigger)


def _next_of_release(state: State, trigger: TriggerState | None, key: FireKey) -> str:
    if trigger is None or not any(fire.let_go and _is(fire, key) for fire in trigger.open):
        return f"See what became of it: fireledger fires show {key}."
    stopped = _stopped(state, trigger)
    when = "at once" if stopped is None else f"once the trigger is no longer {stopped}"
    return f"The scheduler releases its next attempt {when}."


def _next_of_request(trigger: TriggerState | None, key: FireKey) -> str:
    if trigger is None or not _waits(trigger, key):
        return f"See what became of it: fireledger fires show {key}."
    if trigger.open and trigger.definition.overlap != "allow":
        return "It waits for the trigger's open fire to end; then the scheduler releases it."
    return "The scheduler releases it at once."


def _waits(trigger: TriggerState, key: FireKey) -> bool:
    return any(_is(fire, key) for fire in trigger.waiting)


def _is(fire: OpenFire | WaitingFire, key: FireKey) -> bool:
    return (fire.scheduled, fire.sequence) == (key.scheduled, key.sequence)
