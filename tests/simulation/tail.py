"""The last thing in a run: the broker comes back without its newest messages, and uses their sequences again.

Whoever saw one of them must stop and write nothing more (docs/ARCHITECTURE.md); whoever did not goes on, and the log
stays one chain. What was called for a lost page was called rightly: it was committed then.
"""

from typing import TYPE_CHECKING, cast

from fireledger.domain import commands as c
from fireledger.domain.page import decode_attempts, decode_page
from fireledger.projections.ledger_fold import LedgerFold
from fireledger.runners.control.commands import Asked
from fireledger.runners.errors import BrokerUnavailable, ControlRefused, RolledBack
from fireledger.runners.jetstream.leader import Stored
from tests.simulation.broker import wait
from tests.simulation.invariants import require

if TYPE_CHECKING:
    from tests.simulation.world import World

LAGGING_S = 1.0
"""So long before the loss some processes hear nothing of the log."""
STOPPED_WITHIN_S = 40.0
"""Longer than any of them goes without a word from the broker."""


async def lose_tail(world: "World") -> None:
    """Have messages written that some processes do not see, lose a few of all, and watch. Raises Violation."""
    random, broker = world.random, world.broker
    broker.on_store.remove(world.stored)
    world.executors.began = lambda _work: None
    world.executors.give_up_reports()
    ended: dict[str, BaseException] = {}
    for node in world.nodes:
        node.ended = ended.__setitem__
    lagging = random.sample(world.nodes[:-1], k=random.choice((0, 1, 2)))
    for node in lagging:
        node.link.freeze()
    seen_at_least = broker.last_sequence()
    for number in range(random.choice((2, 5, 10))):
        await _write(world, f"before-{number}")
    await wait(LAGGING_S)
    written = broker.last_sequence() - seen_at_least
    if not written:
        return
    first_lost = broker.last_sequence() - random.randint(1, written) + 1
    doomed = {node.runner_id for node in world.nodes if node.running and node.position >= first_lost}
    broker.lose_tail(broker.last_sequence() - first_lost + 1)
    for node in lagging:
        node.link.thaw()
    for number in range(4):
        await _write(world, f"after-{number}")
        await wait(STOPPED_WITHIN_S / 4)
    for name in sorted(doomed):
        require(name in ended, "rolled-back", f"{name} saw message {first_lost}, and goes on without it")
        require(_is_rolled_back(ended[name]), "rolled-back", f"{name} ended otherwise: {ended[name]!r}")
    wrote = doomed & {_writer(stored) for stored in broker.log[first_lost - 1 :]}
    require(not wrote, "rolled-back", f"{sorted(wrote)} saw message {first_lost}, which is lost, and wrote")
    again = LedgerFold(observing=False)
    for stored in broker.log:
        again.apply(stored)


async def _write(world: "World", request_id: str) -> None:
    """Somebody asks for a fire, and perhaps hears that control cannot go on."""
    tenant = world.random.choice(world.workload.tenants)
    names = [name for name, trigger in world.control.state(tenant).triggers.items() if not trigger.deleted]
    writer = world.control.writer
    if writer is None or not names or not world.control.running:
        return
    command = c.FireNow(trigger=world.random.choice(sorted(names)), by="someone")
    try:
        await writer.execute(Asked(tenant, request_id, b""), lambda _state, _now: command)
    except (ControlRefused, BrokerUnavailable, RolledBack):
        return


def _is_rolled_back(error: BaseException) -> bool:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return isinstance(error, RolledBack)


def _writer(stored: Stored) -> str:
    if stored.subject.startswith("book."):
        return decode_page(stored.body).inputs.owner
    if stored.subject.startswith("attempts."):
        return decode_attempts(stored.body).owner
    return ""
