"""Backfills as control asks for them: with the stretches that the plan leaves out."""

from msgspec import structs

from fireledger.domain import commands as c
from fireledger.domain.state import State
from fireledger.runners.control.backfill_plan import BackfillPlan, BackfillRange, fired_instants
from tests.simulation.hooks import zone_library
from tests.simulation.nodes import ControlNode


def with_plan(command: c.Command, state: State, control: ControlNode) -> c.Command:
    """The command; a backfill's start with the stretches that its plan leaves out. Raises ControlRefused."""
    model = control.model
    trigger = state.live(command.trigger) if isinstance(command, c.StartBackfill) else None
    if not isinstance(command, c.StartBackfill) or trigger is None or model is None:
        return command
    asked = BackfillRange(command.start, command.end, command.only_missing)
    fired = fired_instants(model.rows, state.tenant, trigger.name, asked) if command.only_missing else []
    plan = BackfillPlan(state, trigger, asked, fired, zone_library())
    return structs.replace(command, fired=plan.fired)
