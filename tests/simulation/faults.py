"""What goes wrong in a run, by name. docs/testing.md lists the same names.

Each fault is injected somewhere drawn at random, lasts a drawn time, and is undone. Healing undoes whatever is left.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

from fireledger.domain.instants import MILLISECOND, SECOND
from fireledger.domain.page import decode_page
from fireledger.runners.jetstream.leader import Stored
from tests.simulation.broker import Trouble, wait
from tests.simulation.executors import Mood
from tests.simulation.nodes import Node
from tests.simulation.races import back, command_race, held_again, name_taken, no_scheduler, period_unseen

if TYPE_CHECKING:
    from tests.simulation.world import World

Fault = Literal[
    "scheduler-crash",
    "scheduler-outage",
    "dispatcher-crash",
    "control-crash",
    "orderly-restart",
    "frozen-owner",
    "broker-restart",
    "lost-answer",
    "lost-request",
    "slow-append",
    "reader-delay",
    "clock-step-forward",
    "clock-step-back",
    "clock-uncertain",
    "clock-uncertain-everywhere",
    "clock-lie",
    "two-owners",
    "executor-slow",
    "executor-failing",
    "executor-refusing",
    "executor-silent",
    "executor-busy",
    "executor-asking",
    "executor-reporting",
    "slow-rounds",
    "crash-at-commit",
    "crash-in-call",
    "partitions-changed",
    "command-race",
    "period-unseen",
    "held-again",
    "name-taken",
    "poisoned-trigger",
    "zone-adoption",
]

OUTAGES_S = (20.0, 70.0, 200.0)
OUTAGES_SKIPPED_S = (*OUTAGES_S, 1_300.0)
"""Where nothing is due each few seconds, an outage has to be longer for several instants to be missed."""

_Inject = Callable[["World"], Awaitable[None]]


async def _crash(world: "World", node: Node, down_s: float) -> None:
    if node.running:
        await node.crash()
        await wait(down_s)
        if not node.running:
            node.start()


async def _scheduler_crash(world: "World") -> None:
    node = world.random.choice(world.schedulers)
    await _crash(world, node, world.random.choice((0.0, 0.05, 2.0, 15.0)))


async def _scheduler_outage(world: "World") -> None:
    """Every scheduler is gone for a while: what becomes due meanwhile is missed."""
    await no_scheduler(world, world.random.choice(OUTAGES_SKIPPED_S if world.pace.skipping else OUTAGES_S))
    back(world.schedulers)


async def _dispatcher_crash(world: "World") -> None:
    node = world.random.choice(world.dispatchers)
    await _crash(world, node, world.random.choice((0.0, 0.5, 10.0)))


async def _control_crash(world: "World") -> None:
    await _crash(world, world.control, world.random.choice((0.0, 5.0)))


async def _orderly_restart(world: "World") -> None:
    node = world.random.choice([*world.schedulers, *world.dispatchers])
    if node.running:
        await node.leave()
        if not node.running:
            node.start()


async def _frozen_owner(world: "World") -> None:
    """Nothing of a process, or of all schedulers, gets out or in for a while; then their pages arrive, late."""
    links = [world.random.choice([*world.schedulers, *world.dispatchers, world.control]).link]
    if world.random.random() < 0.4:
        links = [node.link for node in world.schedulers]
    for link in links:
        link.freeze()
    await wait(world.random.choice((0.5, 4.0, 9.0, 13.0, 25.0)))
    for link in links:
        link.thaw()


async def _broker_restart(world: "World") -> None:
    world.broker.go_down()
    await wait(world.random.choice((0.1, 1.0, 6.0)))
    world.broker.come_up()


def _troubled(**changes: float) -> _Inject:
    async def inject(world: "World") -> None:
        """One process's link is troubled for a while."""
        node = world.random.choice(world.nodes)
        link = node.link
        link.trouble = Trouble(**changes)
        await wait(world.random.choice((2.0, 10.0, 30.0)))
        if not link.dead:
            link.trouble = Trouble()

    return inject


def _stepped(sign: int) -> _Inject:
    async def inject(world: "World") -> None:
        """A wall clock is set wrong, and put right after a while."""
        node = world.random.choice(world.nodes)
        step = world.random.choice((1, 8, 60, 3_600)) * SECOND
        if node.on_step == "accept":
            world.lied()
        node.time.step = sign * step
        await wait(world.random.choice((1.0, 5.0, 20.0)))
        node.time.step = 0

    return inject


async def _clock_uncertain(world: "World") -> None:
    node = world.random.choice(world.nodes)
    node.time.extra_epsilon = 150 * MILLISECOND
    await wait(world.random.choice((2.0, 12.0)))
    node.time.extra_epsilon = 0


async def _clock_uncertain_everywhere(world: "World") -> None:
    for node in world.nodes:
        node.time.extra_epsilon = 150 * MILLISECOND
    await wait(world.random.choice((2.0, 12.0)))
    for node in world.nodes:
        node.time.extra_epsilon = 0


async def _clock_lie(world: "World") -> None:
    """A clock is off by more than it claims, but by less than the witness notices."""
    node = world.random.choice(world.nodes)
    world.lied()
    before = node.time.skew
    node.time.skew = before + world.random.randint(-80, 80) * MILLISECOND
    await wait(world.random.choice((5.0, 30.0)))
    node.time.skew = before


async def _two_owners(world: "World") -> None:
    """A scheduler or dispatcher believes that everything is its own, whatever its leases say."""
    node = world.random.choice([*world.schedulers, *world.dispatchers])
    ownership = node.ownership
    if ownership is not None:
        ownership.insist(insisting=True)
        began = world.now()
        world.oracle.doubt(began, None)
        await wait(world.random.choice((2.0, 10.0, 30.0)))
        ownership.insist(insisting=False)
        world.oracle.doubt(began, world.now())


def _moody(mood: Mood) -> _Inject:
    async def inject(world: "World") -> None:
        """Most executors behave like this for a while."""
        world.executors.mood = mood
        await wait(world.random.choice((3.0, 15.0, 40.0)))
        world.executors.mood = "healthy"

    return inject


async def _slow_rounds(world: "World") -> None:
    """Rounds of deciding take so long that schedulers hold work back, the least urgent first."""
    slow_s = world.random.choice((1.2, 2.5, 5.0, 31.0))
    runners = [node.runner_id for node in world.schedulers if world.random.random() < 0.7]
    world.slow_rounds.update(dict.fromkeys(runners, slow_s))
    await wait(world.random.choice((5.0, 15.0, 40.0)))
    for runner in runners:
        world.slow_rounds.pop(runner, None)


async def _crash_at_commit(world: "World") -> None:
    """A scheduler dies with its page just stored and not read back, or sent and not stored."""
    node = world.random.choice(world.schedulers)
    stored = asyncio.Event()

    def note(message: Stored) -> None:
        """A book's page of its own is stored."""
        if message.subject.startswith("book.") and decode_page(message.body).inputs.owner == node.runner_id:
            stored.set()

    before = world.random.random() < 0.5
    if before:
        # It dies with the next page on its way.
        node.link.trouble = Trouble(slow_requests=1.0, slow_s=1.0)
    world.broker.on_store.append(note)
    try:
        async with asyncio.timeout(30.0):
            await stored.wait()
    except TimeoutError:
        pass
    finally:
        world.broker.on_store.remove(note)
    await _crash(world, node, world.random.choice((0.0, 2.0)))
    node.heal()


async def _crash_in_call(world: "World") -> None:
    """A dispatcher dies between a call and its record."""
    node = world.random.choice(world.dispatchers)
    began = world.executors.call_count
    for _ in range(150):
        if world.executors.call_count > began:
            break
        await wait(0.2)
    await wait(world.random.choice((0.0, 0.05, 0.3)))
    await _crash(world, node, world.random.choice((0.0, 0.5, 10.0)))


async def _partitions_changed(world: "World") -> None:
    """Process after process comes back with the slots divided otherwise."""
    world.repartition(world.random.choice((2, 3, 4, 8)))
    for node in (*world.schedulers, *world.dispatchers):
        if node.running:
            await node.leave()
            if not node.running:
                node.start()
        await wait(world.random.choice((0.0, 3.0)))


async def _poisoned_trigger(world: "World") -> None:
    """A trigger cannot be decided by anybody for a while."""
    names = world.trigger_names()
    if names:
        name = world.random.choice(names)
        world.poisoned.add(name)
        await wait(world.random.choice((3.0, 15.0)))
        world.poisoned.discard(name)


async def _zone_adoption(world: "World") -> None:
    await world.adopt_zone_data()


FAULTS: dict[Fault, _Inject] = {
    "scheduler-crash": _scheduler_crash,
    "scheduler-outage": _scheduler_outage,
    "dispatcher-crash": _dispatcher_crash,
    "control-crash": _control_crash,
    "orderly-restart": _orderly_restart,
    "frozen-owner": _frozen_owner,
    "broker-restart": _broker_restart,
    "lost-answer": _troubled(lost_answers=0.5),
    "lost-request": _troubled(lost_requests=0.5),
    "slow-append": _troubled(slow_requests=0.5, slow_s=22.0),
    "reader-delay": _troubled(read_delay_s=3.0),
    "clock-step-forward": _stepped(1),
    "clock-step-back": _stepped(-1),
    "clock-uncertain": _clock_uncertain,
    "clock-uncertain-everywhere": _clock_uncertain_everywhere,
    "clock-lie": _clock_lie,
    "two-owners": _two_owners,
    "executor-slow": _moody("slow"),
    "executor-failing": _moody("failing"),
    "executor-refusing": _moody("refusing"),
    "executor-silent": _moody("silent"),
    "executor-busy": _moody("busy"),
    "executor-asking": _moody("asking"),
    "executor-reporting": _moody("reporting"),
    "slow-rounds": _slow_rounds,
    "crash-at-commit": _crash_at_commit,
    "crash-in-call": _crash_in_call,
    "partitions-changed": _partitions_changed,
    "command-race": command_race,
    "period-unseen": period_unseen,
    "held-again": held_again,
    "name-taken": name_taken,
    "poisoned-trigger": _poisoned_trigger,
    "zone-adoption": _zone_adoption,
}
"""How each is injected. A fault comes back when it is over."""
