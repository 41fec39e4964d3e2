"""Faults that are races: a person's command, and something else that happens at the same moment."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fireledger.domain.commands import CreateTrigger, DeleteTrigger, ReleaseFire, SetCeiling
from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import HOUR, MILLISECOND, SECOND, Instant
from fireledger.domain.state import Ceiling, OpenFire
from tests.simulation.broker import wait
from tests.simulation.executors import Report
from tests.simulation.nodes import TOKENS, Node

if TYPE_CHECKING:
    from tests.simulation.world import World

UNSEEN_WITHIN = 3 * HOUR
"""How long before its end a period is chosen to go by unseen, at most."""


async def no_scheduler(world: "World", down_s: float) -> None:
    """Every scheduler dies; return after so many seconds, or when one is started."""
    for node in world.schedulers:
        if node.running:
            await node.crash()
    await world.outage(down_s)


def back(nodes: Iterable[Node]) -> None:
    """Start those that do not run."""
    for node in nodes:
        if not node.running:
            node.start()


async def command_race(world: "World") -> None:
    """Several commands meet the same due instant."""
    await _until_next_due(world)
    for _ in range(world.random.choice((1, 2, 4))):
        world.command_soon()
        await wait(world.random.choice((0.0, 0.001, 0.01)))


async def _until_next_due(world: "World") -> None:
    """Return a few milliseconds around what is due in the next seconds, else around the next whole second."""
    left = world.oracle.next_release(world.now() + 10 * SECOND) - world.now()
    if not (world.pace.skipping and 0 < left < 10 * SECOND):
        left = SECOND - world.now() % SECOND
    await wait(max(0.0, (left + world.random.randint(-10, 40) * MILLISECOND) / SECOND))


async def period_unseen(world: "World") -> None:
    """The period of a suspension ends while no scheduler runs, and a person changes the ceiling before one does."""
    found = [each for each in _spent_ceilings(world) if 0 < each[2].end - world.now() < UNSEEN_WITHIN]
    if not (found and world.pace.skipping):
        return
    tenant, trigger, ceiling = world.random.choice(found)
    used_up = SetCeiling(trigger=trigger, per=ceiling.per, amount=ceiling.spent)
    await no_scheduler(world, (ceiling.end - world.now()) / SECOND - 2)
    await world.carry_out(tenant, used_up)
    await world.outage((ceiling.end - world.now()) / SECOND + world.random.choice((0.5, 600.0, 4_000.0)))
    amount = world.random.choice((None, 0, 1, ceiling.spent + 300))
    await world.carry_out(tenant, replace(used_up, amount=amount))
    back(world.schedulers)


def _spent_ceilings(world: "World") -> Iterator[tuple[str, str | None, Ceiling]]:
    """The ceilings that something is spent of: tenant, trigger or (None) all of the tenant's, ceiling."""
    for tenant in world.workload.tenants:
        state = world.control.state(tenant)
        owners = [(None, state.ceilings), *((each.name, each.ceilings) for each in state.triggers.values())]
        yield from ((tenant, name, each) for name, ceilings in owners for each in ceilings if each.spent)


async def held_again(world: "World") -> None:
    """An executor tells once more that it waits for a person, as the person lets the fire go on."""
    found = [each for each in _open_fires(world) if each[2].held and not each[2].orphaned]
    if not found:
        return
    tenant, trigger, fire = world.random.choice(found)
    key = FireKey(tenant, trigger, Instant(fire.scheduled), fire.sequence)
    report = Report(key, fire.attempt, TOKENS.mint(key, fire.attempt), "held", cost=0)
    world.executors.report_soon(report, world.random.choice((0.0, 0.005, 0.02)))
    released = ReleaseFire(trigger=trigger, scheduled=fire.scheduled, sequence=fire.sequence, by="someone")
    await world.carry_out(tenant, released)


async def name_taken(world: "World") -> None:
    """A trigger is deleted while attempts of it are under way and fail, and another takes its name at once."""
    world.executors.mood = "failing"
    await wait(world.random.choice((0.5, 2.0)))
    found = [each for each in _open_fires(world) if each[2].started_at is not None and each[2].retry_at is None]
    if found:
        tenant, trigger, _ = world.random.choice(found)
        definition = world.control.state(tenant).triggers[trigger].definition
        await world.carry_out(tenant, DeleteTrigger(trigger=trigger))
        await world.carry_out(tenant, CreateTrigger(trigger=trigger, definition=definition, paused=False))
    await wait(1.0)
    world.executors.mood = "healthy"


def _open_fires(world: "World") -> list[tuple[str, str, OpenFire]]:
    """The open fires of live triggers: tenant, trigger, fire."""
    return [
        (tenant, name, fire)
        for tenant in world.workload.tenants
        for name, trigger in sorted(world.control.state(tenant).triggers.items())
        for fire in trigger.open
        if not trigger.deleted
    ]
