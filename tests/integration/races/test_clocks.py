"""The machine's own clock, stepping and losing its certainty, under schedulers on a real broker."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from fireledger.domain.identifiers import slot_of
from fireledger.domain.instants import HOUR, MILLISECOND, SECOND, Duration
from fireledger.domain.limits import SLOT_COUNT
from fireledger.runners.clock import KernelStatus, MachineTime, OnStep, SystemClock, choose_clock, realtime
from fireledger.runners.jetstream.buckets import Bucket
from fireledger.runners.jetstream.connection import BrokerConnection, Login
from fireledger.runners.jetstream.ledger import Ledger
from fireledger.runners.jetstream.reader import PullReader
from fireledger.runners.leases import PartitionLeases
from fireledger.runners.scheduler.ownership import Ownership
from fireledger.runners.scheduler.scheduler import Scheduler
from tests.integration.brokers import RunningBroker
from tests.integration.scheduler.harness import BEGINNING, ZONES, Desk, opened_desk
from tests.unit.dispatcher.owning import Owned
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

CERTAIN = Duration(5 * MILLISECOND)


class Machine:
    """A machine whose wall clock can be set, and whose kernel attests as much as it is told to."""

    def __init__(self) -> None:
        self.step = 0
        """How far the wall clock is off, in microseconds."""
        self.attests = True
        self.error_max = CERTAIN
        self._true = MachineTime()

    def realtime_ns(self) -> int:
        """Wall clock."""
        return self._true.realtime_ns() + self.step * 1_000

    def boottime_ns(self) -> int:
        """Steady clock."""
        return self._true.boottime_ns()

    def kernel(self) -> KernelStatus:
        """What the kernel says of its clock."""
        return KernelStatus(self.attests, self.error_max)

    def clock(self, on_step: OnStep) -> SystemClock:
        """The clock that a runner on this machine would choose."""
        return choose_clock(declared=None, single_machine=False, on_step=on_step, machine=self, kernel=self.kernel)


@asynccontextmanager
async def scheduling_by(
    login: Login, name: str, clock: SystemClock, ownership: Ownership
) -> AsyncGenerator[Scheduler, None]:
    """A running scheduler on a clock."""
    connection = await BrokerConnection.open(login, name=name)
    scheduler = Scheduler(
        ledger=Ledger(connection),
        reader=PullReader(connection, after=BEGINNING),
        clock=clock,
        ownership=ownership,
        zones=ZONES,
        runner_id=name,
    )
    stop = asyncio.Event()
    running = asyncio.create_task(scheduler.run(stop))
    try:
        yield scheduler
    finally:
        stop.set()
        await asyncio.wait_for(running, PATIENCE_S)
        await connection.close()


@dataclass
class Stepping:
    """A tenant whose scheduler runs on a machine of its own."""

    tenant: str
    on_step: OnStep
    step: int
    machine: Machine
    scheduler: Scheduler


async def more(desk: Desk, tenant: str, count: int, what: str) -> None:
    """Wait until so many more instants of the tenant are decided."""
    wanted = len(desk.decided(tenant)) + count
    await until(lambda: len(desk.decided(tenant)) >= wanted, what=f"{tenant}: {what}")


async def quiet(desk: Desk, tenants: list[str], seconds: int) -> None:
    """Assert that nothing of these tenants is decided for a while."""
    before, end = [len(desk.decided(tenant)) for tenant in tenants], realtime() + seconds * SECOND
    await until(lambda: realtime() >= end, timeout_s=seconds + PATIENCE_S, what="time passes")
    assert [len(desk.decided(tenant)) for tenant in tenants] == before


async def test_a_stepped_machine_decides_nothing_early_and_nothing_twice(
    broker: RunningBroker, measured: Callable[[str], None]
) -> None:
    """Steps of an hour to and fro: under hold nothing until attested, under accept nothing that the log believes."""
    login = broker.login("scheduler")
    cases: list[tuple[str, OnStep, int]] = [
        ("hold-forward", "hold", HOUR),
        ("hold-back", "hold", -HOUR),
        ("accept-forward", "accept", HOUR),
        ("accept-back", "accept", -HOUR),
    ]
    async with AsyncExitStack() as stack:
        desk = await stack.enter_async_context(opened_desk(broker))
        every: list[Stepping] = []
        for tenant, on_step, step in cases:
            await desk.create(tenant, "a", "b")
            machine = Machine()
            mine = Owned(without=set(range(SLOT_COUNT)) - {slot_of(tenant)})
            by = scheduling_by(login, tenant, machine.clock(on_step), mine)
            every.append(Stepping(tenant, on_step, step, machine, await stack.enter_async_context(by)))
        tenants = [each.tenant for each in every]
        assert len({slot_of(tenant) for tenant in tenants}) == len(tenants)
        await asyncio.gather(*(more(desk, tenant, 4, "decides before the step") for tenant in tenants))
        for each in every:
            each.machine.attests = each.on_step == "accept"
            each.machine.step = each.step
        # A page on its way at the step may still land.
        await until(lambda: all(_stands(each) for each in every), what="all stand still")
        await quiet(desk, tenants, 2)
        ineffective = {each.tenant: each.scheduler.ineffective_count for each in every}
        for each in every:
            each.machine.step, each.machine.attests = 0, True
        await asyncio.gather(*(more(desk, tenant, 8, "goes on") for tenant in tenants))
    for tenant in tenants:
        desk.check_exactly_once(tenant)
        desk.check_never_early(tenant)
    assert ineffective["hold-forward"] == ineffective["hold-back"] == 0, "a held clock writes nothing"
    assert ineffective["accept-forward"] > 0, "the broker's clock witnessed against the new time"
    measured(f"pages without effect: {ineffective}; {sum(len(desk.decided(t)) for t in tenants)} instants decided once")


def _stands(each: Stepping) -> bool:
    """Whether its scheduler has noticed the step: held, blocked by its book's now, or disbelieved."""
    status = each.scheduler.snapshot()
    if each.on_step == "hold":
        return not status.clock_usable
    return bool(status.blocked) if each.step < 0 else status.pages_ineffective > 0


@asynccontextmanager
async def leasing_by(login: Login, name: str, clock: SystemClock) -> AsyncGenerator[PartitionLeases, None]:
    """Running leases on a clock."""
    connection = await BrokerConnection.open(login, name=name)
    leases = PartitionLeases(
        Bucket(connection, "leases"), clock, kind="scheduler", runner_id=name, partition_count=64, handover_every_s=60
    )
    stop = asyncio.Event()
    running = asyncio.create_task(leases.run(stop))
    try:
        yield leases
    finally:
        stop.set()
        await asyncio.wait_for(running, PATIENCE_S)
        await connection.close()


async def test_an_uncertain_machine_sheds_its_books(broker: RunningBroker, measured: Callable[[str], None]) -> None:
    """At 150 ms of uncertainty a scheduler gives up its leases, another decides its books, and none decides twice."""
    login, names = broker.login("scheduler"), [f"tenant-{number}" for number in range(100)]
    tenants = [each for half in (0, 1) for each in [n for n in names if slot_of(n) * 2 // SLOT_COUNT == half][:6]]
    unsure, sure = Machine(), Machine()
    clocks = unsure.clock("hold"), sure.clock("hold")
    async with (
        opened_desk(broker) as desk,
        leasing_by(login, "unsure", clocks[0]) as first,
        leasing_by(login, "sure", clocks[1]) as second,
        scheduling_by(login, "unsure", clocks[0], first),
        scheduling_by(login, "sure", clocks[1], second),
    ):
        await asyncio.gather(*(desk.create(tenant, "t") for tenant in tenants))

        def owners() -> tuple[int, int]:
            """How many of the books each holds."""
            slots = [slot_of(tenant) for tenant in tenants]
            return sum(map(first.owns_slot, slots)), sum(map(second.owns_slot, slots))

        await until(lambda: min(owners()) > 0 and sum(owners()) == len(tenants), what="they share")
        await asyncio.gather(*(more(desk, tenant, 2, "is decided") for tenant in tenants))
        shared = owners()
        unsure.error_max = Duration(150 * MILLISECOND)
        since = realtime()
        await until(lambda: owners() == (0, len(tenants)), what="the other has them all")
        took_s = (realtime() - since) / SECOND
        assert first.snapshot().reason == "clock-uncertain"
        shed = realtime()
        await asyncio.gather(*(more(desk, tenant, 2, "goes on") for tenant in tenants))
    for tenant in tenants:
        desk.check_exactly_once(tenant)
        desk.check_never_early(tenant)
    late = [r for r in desk.pages if r.folded.page.inputs.owner == "unsure" and r.folded.page.inputs.earliest > shed]
    assert late == []
    measured(f"books held {shared}, all with the other {took_s:.1f} s after 150 ms of uncertainty")
