"""All tenants fall behind at once: each has instants to catch up and a backfill, so that they meet in the paced lanes.

Each tenant has a paused trigger for it. It resumes, owes what it missed, and is paused again soon after.
"""

from typing import TYPE_CHECKING

from fireledger.domain import commands as c
from fireledger.domain.definition import Definition
from fireledger.domain.instants import HOUR, MINUTE, SECOND, format_instant
from fireledger.domain.state import State
from tests.simulation.broker import wait
from tests.simulation.workload import PERSON, Workload
from tests.unit.domain.given import changed, every

if TYPE_CHECKING:
    from tests.simulation.world import World

RUSHED = "behind"
"""The trigger's name."""
RUSH_S = 8.0
"""So long a backlog goes on, in seconds; what is left of it waits for the next time."""
BEHIND = 3
"""Instants that are caught up, and as many that are filled in."""


def rushed(workload: Workload, start: int, until: int) -> Definition:
    """The trigger's definition, with instants up to ``until`` and other policies as drawn."""
    anchor = format_instant(start // (10 * MINUTE) * 10 * MINUTE)
    drawn = workload.policies(every("5m" if workload.sparse else "5s", anchor))
    return changed(drawn, missed="fire-all", cap=BEHIND, horizon=HOUR, overlap="allow", max_fires=None, not_after=until)


async def fall_behind(world: "World", tenant: str) -> None:
    """Let the tenant's trigger go on for a while."""
    for command in _begun(world.control.state(tenant), world.now(), 5 * (MINUTE if world.workload.sparse else SECOND)):
        await world.carry_out(tenant, command)
    await wait(RUSH_S)
    await world.carry_out(tenant, c.PauseTrigger(trigger=RUSHED))


def _begun(state: State, now: int, interval: int) -> list[c.Command]:
    """The trigger resumes, and a backfill of its last instants begins."""
    trigger = state.live(RUSHED)
    if trigger is None:
        return []
    start = max(trigger.segments[0].after, now - BEHIND * interval)
    backfill = c.StartBackfill(
        trigger=RUSHED,
        backfill=f"from {format_instant(start)}",
        start=start,
        end=now - SECOND,
        only_missing=False,
        rate_per_second=50,
        by=PERSON,
    )
    grant = c.ChangeGrant(grant="backfill", trigger=RUSHED, value=400, holder=PERSON)
    return [c.ResumeTrigger(trigger=RUSHED), grant, backfill]
