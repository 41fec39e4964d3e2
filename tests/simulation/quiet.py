"""When nothing can happen but heartbeats: such stretches are skipped, so that a run spends its time on what matters.

A stretch is quiet when every process runs and has read the whole log, nothing is under way, no fault is in effect,
and both the oracle and the schedulers say that nothing is due before its end. While every scheduler is gone it is
enough that nobody makes a call. Skipping moves true time, and with it every node's clocks, and leaves the loop's own
time, which leases, parked books and messages on their way go by, where it is.
"""

from typing import TYPE_CHECKING

from fireledger.domain.instants import HOUR, SECOND
from tests.simulation.nodes import SchedulerNode

if TYPE_CHECKING:
    from tests.simulation.world import World

AWAKE_BEFORE = SECOND // 10
"""A stretch ends this much before something is due: a clock may be ahead by nearly half of it."""
SKIPPED_MIN = SECOND // 2
"""A shorter stretch is not worth a look."""


def quiet_until(world: "World") -> int | None:
    """Up to when, in true time, nothing happens by itself; None when something is going on."""
    if world.commands_under_way or not world.broker.up:
        return None
    if world.outage_until is not None:
        return world.outage_until if _nobody_calls(world) else None
    if not world.oracle.at_rest():
        return None
    if not (_all_read(world) and _all_owned(world)):
        return None
    return _next_due(world)


def _next_due(world: "World") -> int | None:
    """The first instant at which something may be due; None when something is due already."""
    now = world.now()
    # Whole hours, so that what was found holds for many looks.
    horizon = (now // HOUR + 2) * HOUR
    due = world.oracle.next_release(horizon)
    for node in world.schedulers:
        if node.scheduler is not None:
            status = node.scheduler.snapshot()
            if status.pages_in_flight or status.blocked or not status.clock_usable:
                return None
            due = min(due, status.next_due_at or due)
    return due if due > now else None


def _all_read(world: "World") -> bool:
    last = world.broker.last_sequence()
    return all(node.running and not node.link.frozen and node.position == last for node in world.nodes)


def _all_owned(world: "World") -> bool:
    """Whether each partition has an owner of each kind."""
    for nodes in (world.schedulers, world.dispatchers):
        owned = [node.ownership.owned for node in nodes if node.ownership is not None]
        count = world.partition_count
        if sum(map(len, owned)) != count or frozenset[int]().union(*owned) != frozenset(range(count)):
            return False
    return True


def _nobody_calls(world: "World") -> bool:
    """Whether no scheduler runs and the dispatchers have nothing to do."""
    gone = not any(node.running for node in world.nodes if isinstance(node, SchedulerNode))
    return gone and _idle(world)


def _idle(world: "World") -> bool:
    last = world.broker.last_sequence()
    return all(node.position == last and node.open_count == 0 for node in world.dispatchers if node.running)
