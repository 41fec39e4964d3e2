"""The requests about spend ceilings, of a trigger or of a tenant."""

from collections.abc import Sequence

from fireledger.domain import commands as c
from fireledger.domain.entries import TriggerSuspended
from fireledger.domain.state import Ceiling, State

from ..json_edge import Json
from . import policy_requests as p
from . import requests as r
from .answers import Answer
from .command_handlers import DELETED_SINCE, about, carry_out, live_trigger, no_tenant
from .commands import CommandWriter, Done
from .policy_answers import standing_answer, tenant_standing_answer
from .policy_options import check_amount


class CeilingHandlers:
    """One method for each subject. Each raises ControlRefused and other OperationalErrors."""

    def __init__(self, writer: CommandWriter) -> None:
        self._writer = writer

    async def of_tenant(self, content: dict[str, Json]) -> Answer:
        """Set or remove a ceiling of a tenant."""
        request = r.read_request(content, p.CeilingChange)
        if request.trigger is not None:
            raise r.malformed("a tenant's ceiling names no trigger")
        done = await self._set("control.tenant.ceiling", request, content)
        state = done.book.state
        told = _told(request, done, state.ceilings)
        return {"tenant": request.tenant, **tenant_standing_answer(state, done.now), **told}

    async def of_trigger(self, content: dict[str, Json]) -> Answer:
        """Set or remove a ceiling of a trigger."""
        request = r.read_request(content, p.CeilingChange)
        if request.trigger is None:
            raise r.malformed("a trigger's ceiling names the trigger")
        done = await self._set("control.trigger.ceiling", request, content)
        trigger = self._writer.same_trigger(done, request.trigger)
        standing = {"state": "deleted"} if trigger is None else standing_answer(done.book.state, trigger, done.now)
        told = _told(request, done, None if trigger is None else trigger.ceilings)
        return {"tenant": request.tenant, "trigger": request.trigger, **standing, **told}

    async def _set(self, subject: str, request: p.CeilingChange, content: dict[str, Json]) -> Done:
        if request.amount is not None:
            check_amount(request.amount)

        def build(state: State, _now: int) -> c.Command:
            """The command as the book stands now."""
            if state.settings is None:
                raise no_tenant(request.tenant)
            if request.trigger is not None:
                live_trigger(state, request.tenant, request.trigger)
            return c.SetCeiling(trigger=request.trigger, per=request.per, amount=request.amount)

        return await carry_out(self._writer, subject, request, content, build)


def _told(request: p.CeilingChange, done: Done, ceilings: Sequence[Ceiling] | None) -> Answer:
    """The command's own part of the answer, with a sentence on what it leads to, as far as that is still so.

    ``ceilings`` are those of now, None when the trigger is no more.
    """
    suspended = next((entry for entry in done.entries if isinstance(entry, TriggerSuspended)), None)
    if ceilings is None:
        sentence = DELETED_SINCE
    elif request.amount != next((each.amount for each in ceilings if each.per == request.per), None):
        sentence = f"The ceiling per {request.per} was changed since."
    elif suspended is not None and suspended.until > done.now:
        sentence = f"Nothing fires for now: {suspended.message}."
    elif request.amount is None:
        sentence = f"What is spent in a {request.per} has no limit of its own any more."
    else:
        sentence = f"Once {request.amount} is spent in a {request.per}, nothing fires until the next begins."
    return {"per": request.per, "amount": request.amount, "sentence": sentence, **about(done)}
