"""Schedulers that share partitions by lease: even shares, routine hand-over, and take-over after a death."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import pytest

from fireledger.domain.identifiers import slot_of
from fireledger.domain.instants import MILLISECOND
from fireledger.domain.limits import SLOT_COUNT
from fireledger.runners.clock import realtime
from fireledger.runners.jetstream.buckets import Bucket
from fireledger.runners.jetstream.connection import BrokerConnection, Login
from fireledger.runners.lease_plan import EXPIRY_S
from fireledger.runners.leases import PartitionLeases
from tests.integration.brokers import RunningBroker
from tests.integration.others import watching_others
from tests.integration.scheduler.harness import Running, opened_desk, scheduling
from tests.simulated_clock import SimulatedClock
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio, pytest.mark.slow]

PARTITIONS = 256


@dataclass
class Leased:
    """A runner's leases, running."""

    leases: PartitionLeases
    clock: SimulatedClock
    connection: BrokerConnection
    stop: asyncio.Event
    task: asyncio.Task[None]

    @property
    def count(self) -> int:
        """Slots owned at this moment."""
        return sum(self.leases.owns_slot(slot) for slot in range(SLOT_COUNT))

    async def end(self) -> None:
        """Stop in good order."""
        self.stop.set()
        await asyncio.wait_for(self.task, PATIENCE_S)
        await self.connection.close()

    async def kill(self) -> None:
        """End without releasing anything."""
        self.task.cancel()
        await self.connection.close()
        with suppress(asyncio.CancelledError):
            await self.task


@asynccontextmanager
async def leasing(
    login: Login,
    name: str,
    *,
    partitions: int = PARTITIONS,
    handover_every_s: float = 60.0,
    generation: int = 1,
    predecessor: str = "",
    expiry_s: float = EXPIRY_S,
    bucket: Callable[[BrokerConnection], Bucket] = lambda connection: Bucket(connection, "leases"),
) -> AsyncGenerator[Leased, None]:
    """Leases of a runner on a connection of its own."""
    connection = await BrokerConnection.open(login, name=name)
    clock, stop = SimulatedClock(), asyncio.Event()
    leases = PartitionLeases(
        bucket(connection),
        clock,
        kind="scheduler",
        runner_id=name,
        partition_count=partitions,
        generation=generation,
        handover_every_s=handover_every_s,
        predecessor=predecessor,
        expiry_s=expiry_s,
    )
    leased = Leased(leases, clock, connection, stop, asyncio.create_task(leases.run(stop)))
    try:
        yield leased
    finally:
        if not leased.task.done():
            await leased.end()


async def test_one_runner_owns_everything_within_two_seconds(broker: RunningBroker) -> None:
    """256 claims are taken, on an idle machine in under two seconds, and given up at once by a clean stop."""
    login = broker.login("scheduler")
    async with watching_others() as others, leasing(login, "one") as one:
        began = realtime()
        await until(lambda: one.count == SLOT_COUNT, what="one owns everything")
        assert others.within(began, 2)
        assert one.leases.epoch_of(5) == 1
        await one.end()
        assert one.count == 0
        async with leasing(login, "two") as two:
            await until(lambda: two.count == SLOT_COUNT, what="two owns everything")
            assert two.leases.epoch_of(5) == 2


async def test_two_runners_share_evenly_and_partitions_circulate(broker: RunningBroker) -> None:
    """A second runner gets its half without a lapse in ownership, and then partitions go to and fro."""
    login = broker.login("scheduler")
    async with leasing(login, "one", handover_every_s=0.5) as one:
        await until(lambda: one.count == SLOT_COUNT, what="one owns everything")
        orphaned_since: dict[int, float] = {}
        orphaned_s = [0.0]
        async with leasing(login, "two", handover_every_s=0.5) as two:

            def shared() -> bool:
                now = one.clock.monotonic()
                for slot in range(SLOT_COUNT):
                    if one.leases.owns_slot(slot) or two.leases.owns_slot(slot):
                        orphaned_since.pop(slot, None)
                    else:
                        orphaned_s.append(now - orphaned_since.setdefault(slot, now))
                return one.count == two.count == SLOT_COUNT // 2

            await until(shared, what="both own half")
            # Between a claim's writing and its acknowledgement nobody knows it; a lapse would last seconds.
            assert max(orphaned_s) < 1
            mine = one.leases.owned
            await until(
                lambda: one.leases.handover_count > 130 and two.leases.handover_count > 2,
                what="partitions circulate",
            )
            assert one.leases.owned != mine
            assert abs(one.count - two.count) <= SLOT_COUNT // 32
        await until(lambda: one.count == SLOT_COUNT, what="one owns everything again")


async def test_a_killed_runners_partitions_are_taken_within_ten_seconds(broker: RunningBroker) -> None:
    """A runner that vanishes loses its partitions to the other in at most ten seconds, and not while it may own."""
    login = broker.login("scheduler")
    async with leasing(login, "one") as one, leasing(login, "two") as two:
        await until(lambda: one.count == two.count == SLOT_COUNT // 2, what="both own half")
        moving = min(two.leases.owned) * SLOT_COUNT // PARTITIONS
        epoch = two.leases.epoch_of(moving)
        killed_at, valid_s = one.clock.monotonic(), two.leases.snapshot().valid_for_s
        await two.kill()
        await until(lambda: one.count == SLOT_COUNT, what="the survivor owns everything")
        assert one.leases.epoch_of(moving) == epoch + 1
        assert 0 < valid_s <= one.clock.monotonic() - killed_at <= 10


async def test_whoever_takes_the_place_of_a_dead_runner_has_its_partitions_at_once(broker: RunningBroker) -> None:
    """Its heartbeat would hold for another hour; a runner with a predecessor that never was does no harm."""
    login, hour_s = broker.login("scheduler"), 3_600.0
    async with leasing(login, "one", expiry_s=hour_s, predecessor="nobody") as one:
        await until(lambda: one.count == SLOT_COUNT, what="one owns everything")
        await one.kill()
    async with leasing(login, "two", expiry_s=hour_s, predecessor="one") as two:
        await until(lambda: two.count == SLOT_COUNT, what="two owns everything")
        assert two.leases.epoch_of(5) == 2
        assert two.leases.snapshot().peers == ()


async def test_an_uncertain_or_held_clock_sheds_everything(broker: RunningBroker) -> None:
    """At 150 ms of uncertainty, or on hold, a runner gives up all its partitions and takes them back afterwards."""
    login = broker.login("scheduler")
    async with leasing(login, "one") as one, leasing(login, "two") as two:
        await until(lambda: one.count == two.count == SLOT_COUNT // 2, what="both own half")
        one.clock.epsilon = 150 * MILLISECOND
        await until(lambda: two.count == SLOT_COUNT, what="two took over")
        assert one.count == 0
        assert one.leases.snapshot().reason == "clock-uncertain"
        one.clock.epsilon = MILLISECOND
        two.clock.held = True
        await until(lambda: one.count == SLOT_COUNT, what="one took over")
        assert (two.count, two.leases.snapshot().reason) == (0, "clock-held")


class Hesitant(Bucket):
    """A bucket of one who hesitates before claiming partitions."""

    def __init__(self, connection: BrokerConnection) -> None:
        super().__init__(connection, "leases")
        self.go, self.reached, self.done = asyncio.Event(), 0, 0

    async def put_if(self, key: str, value: bytes, revision: int) -> int | None:
        """Wait for the word to go with a claim."""
        if ".partition." not in key:
            return await super().put_if(key, value, revision)
        self.reached += 1
        await self.go.wait()
        written = await super().put_if(key, value, revision)
        self.done += 1
        return written


async def test_who_owned_nothing_for_a_moment_has_to_claim_again(broker: RunningBroker) -> None:
    """A runner comes back while another is about to take what it gave up: each partition has one owner, at once."""
    login, hesitant = broker.login("scheduler"), list[Hesitant]()

    def hesitating(connection: BrokerConnection) -> Bucket:
        """The other's bucket."""
        hesitant.append(Hesitant(connection))
        return hesitant[0]

    async with leasing(login, "one", partitions=8) as one:
        await until(lambda: one.count == SLOT_COUNT, what="one owns everything")
        one.clock.epsilon = 150 * MILLISECOND
        await until(lambda: one.leases.snapshot().reason == "clock-uncertain", what="one gives everything up")
        async with leasing(login, "two", partitions=8, bucket=hesitating) as two:
            await until(lambda: bool(hesitant) and hesitant[0].reached == 8, what="two is about to take everything")
            one.clock.epsilon = MILLISECOND
            await until(lambda: one.count == SLOT_COUNT, what="one has everything again")
            hesitant[0].go.set()
            await until(lambda: hesitant[0].done >= 8, what="two's writes are over")
            assert one.leases.owned.isdisjoint(two.leases.owned)
            await until(lambda: one.count == two.count == SLOT_COUNT // 2, what="they share")


async def test_a_wrong_wall_clock_steals_nothing(broker: RunningBroker) -> None:
    """A runner whose clock is an hour ahead sees every expiry passed, and still takes only its share."""
    login = broker.login("scheduler")
    async with leasing(login, "one") as one, leasing(login, "two") as two:
        two.clock.offset = 3_600_000_000
        await until(lambda: one.count == two.count == SLOT_COUNT // 2, what="both own half")
        end = one.clock.monotonic() + 3
        await until(lambda: one.clock.monotonic() >= end, what="two renewals pass")
        assert one.count == two.count == SLOT_COUNT // 2


async def test_the_number_of_partitions_changes_while_running(broker: RunningBroker) -> None:
    """A runner with a higher generation brings another number of partitions, and everybody follows."""
    login = broker.login("scheduler")
    async with leasing(login, "one", partitions=16) as one:
        await until(lambda: one.count == SLOT_COUNT, what="one owns everything")
        async with leasing(login, "two", partitions=60, generation=2) as two:
            await until(lambda: one.leases.snapshot().partition_count == 60, what="one follows")
            await until(
                lambda: {one.leases.snapshot().owned_count, two.leases.snapshot().owned_count} == {30},
                what="the new partitions are shared",
            )
            both = [(one.leases.owns_slot(slot), two.leases.owns_slot(slot)) for slot in range(SLOT_COUNT)]
            assert all(left != right for left, right in both)


async def test_schedulers_with_leases_hand_over_and_survive_a_kill(broker: RunningBroker) -> None:
    """Two schedulers share books by lease; ownership moves, one is killed, and every instant is decided once."""
    login = broker.login("scheduler")
    names = [f"tenant-{n}" for n in range(100)]
    halves = [[name for name in names if slot_of(name) // (SLOT_COUNT // 2) == half][:4] for half in (0, 1)]
    tenants = [*halves[0], *halves[1]]
    async with (
        opened_desk(broker) as desk,
        leasing(login, "one", handover_every_s=1.0) as first,
        leasing(login, "two", handover_every_s=1.0) as second,
        scheduling(login, "one", ownership=first.leases) as one,
        scheduling(login, "two", ownership=second.leases) as two,
    ):
        for tenant in tenants:
            await desk.create(tenant, "a")
        await until(lambda: first.count == second.count, what="both own half")

        def wrote(running: Running) -> bool:
            return running.scheduler.committed_count > 5

        await until(lambda: wrote(one) and wrote(two), what="both decide")
        killed_at = first.clock.monotonic()
        await second.kill()
        await two.kill()
        await until(lambda: first.count == SLOT_COUNT, what="the survivor owns everything")
        assert first.clock.monotonic() - killed_at <= 10
        now = first.clock.now().earliest

        def all_decided() -> bool:
            return all(max(at for _, at in desk.decided(tenant)) > now for tenant in tenants)

        await until(all_decided, what="the survivor decides all books")
        for tenant in tenants:
            desk.check_exactly_once(tenant)
            desk.check_never_early(tenant)
        epochs = {read.folded.page.inputs.epoch for read in desk.pages if read.folded.page.inputs.owner == "one"}
        assert min(epochs) >= 1
        assert one.scheduler.snapshot().owned_books == len({t for t in tenants if first.leases.owns_slot(slot_of(t))})
