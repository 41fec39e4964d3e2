"""The nodes of a run: each has a clock of its own and runs one real runner at a time, which can die and come again."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import cast
from unittest import mock

from fireledger.domain.instants import MILLISECOND, Duration, Instant
from fireledger.domain.limits import SLOT_COUNT
from fireledger.domain.state import State
from fireledger.domain.zones import ZoneLibrary
from fireledger.projections.ledger_fold import LedgerFold
from fireledger.runners.attempt_tokens import REPORT_KEY_BYTES, AttemptTokens
from fireledger.runners.clock import Bound, Clock, OnStep, Reading, SystemClock
from fireledger.runners.control.commands import CommandWriter
from fireledger.runners.control.model import Model
from fireledger.runners.control.outcome_reports import OutcomeReports
from fireledger.runners.dispatcher import dispatcher as dispatcher_module
from fireledger.runners.dispatcher.dispatcher import Dispatcher
from fireledger.runners.dispatcher.policy import TargetPolicy
from fireledger.runners.dispatcher.reporting import Reporting
from fireledger.runners.jetstream.buckets import Bucket
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.ledger import Ledger
from fireledger.runners.jetstream.reader import PullReader
from fireledger.runners.known_zones import KnownZones
from fireledger.runners.lease_plan import EXPIRY_S, RENEWAL_S
from fireledger.runners.leases import LeaseKind, PartitionLeases
from fireledger.runners.scheduler.pacing import LaneRates
from fireledger.runners.scheduler.scheduler import Scheduler
from tests.simulation.broker import Link, SimulatedBroker, Trouble
from tests.simulation.clients import SimulatedBucket, SimulatedLedger, SimulatedReader
from tests.simulation.executors import ExecutorConnection, Executors, SimulatedHttpTarget

PARTITION_COUNT = 4
"""Few, so that a hand-over moves many tenants and a look at the leases costs little."""
EVERY_SLOT = frozenset(range(SLOT_COUNT))
HANDOVER_EVERY_S = 45.0
TOKENS = AttemptTokens(bytes(REPORT_KEY_BYTES))
REPORT_URL = "http://control.test/outcomes"
EPSILON_MIN = Duration(1 * MILLISECOND)
EPSILON_MAX = Duration(40 * MILLISECOND)


class NodeTime:
    """A node's raw clocks and what its time daemon says about them. Offsets and epsilon in microseconds."""

    def __init__(self, now: Callable[[], int], random: Random) -> None:
        """``now`` is true time in microseconds."""
        self.epsilon: int = random.randint(EPSILON_MIN, EPSILON_MAX)
        self.skew = random.randint(-self.epsilon, self.epsilon) * 9 // 10
        """How far the wall clock is off when nothing is wrong: within epsilon."""
        self.extra_epsilon = 0
        self.step = 0
        """How far it was stepped away; the daemon attests nothing meanwhile."""
        self._now = now
        self._start = now()

    @property
    def honest(self) -> bool:
        """Whether true time lies within what the node claims."""
        return abs(self.skew + self.step) <= self.epsilon + self.extra_epsilon

    def realtime_ns(self) -> int:
        """The wall clock."""
        return (self._now() + self.skew + self.step) * 1_000

    def boottime_ns(self) -> int:
        """The steady clock."""
        return (self._now() - self._start) * 1_000

    def bound(self, boottime_ns: int) -> Bound:
        """What the node claims."""
        del boottime_ns
        return Bound(Duration(self.epsilon + self.extra_epsilon), "simulated", self.step == 0, "simulated")

    def forget(self) -> None:
        """Nothing is remembered."""


class Sleepers:
    """Who waits for an instant by a node's clock. After time was skipped they look at their clocks again."""

    def __init__(self) -> None:
        self._waits: dict[asyncio.Timeout, None] = {}

    async def wait(self, seconds: float, wake: asyncio.Event | None) -> bool:
        """Wait so long, until the event is set (True) or until time was skipped."""
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                self._waits[limit] = None
                await (asyncio.Event() if wake is None else wake).wait()
        except TimeoutError:
            return False
        finally:
            self._waits.pop(limit, None)
        return True

    def look(self) -> None:
        """End all waits: a timer that is early only has its owner look at the clock."""
        now_s = asyncio.get_running_loop().time()
        for limit in tuple(self._waits):
            limit.reschedule(now_s)
        self._waits.clear()


class LeaseClock:
    """A node's clock as its leases see it: their steady clock is the loop's.

    Idle stretches that a run skips pass on the node's clocks and not on this one, so that heartbeats go on where they
    were. Leases measure nothing else with it.
    """

    def __init__(self, clock: SystemClock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()

    def now(self) -> Reading:
        """Read the node's clock. Raises ClockHeld."""
        return self._clock.now()

    def monotonic(self) -> float:
        """Seconds of the loop."""
        return self._loop.time()

    async def sleep_until(self, instant: Instant, wake: asyncio.Event | None = None) -> bool:
        """Wait as the node's clock does."""
        return await self._clock.sleep_until(instant, wake)

    def take_step(self) -> int:
        """Take the node's clock's step."""
        return self._clock.take_step()


@dataclass
class Surroundings:
    """What every node of a run shares."""

    broker: SimulatedBroker
    executors: Executors
    random: Random
    now: Callable[[], int]
    zones: ZoneLibrary
    failed: Callable[[BaseException], None]
    expiry_s: float = EXPIRY_S
    """Of leases; their renewal is as much slower or faster."""
    partition_count: int = PARTITION_COUNT
    lane_rates: LaneRates = field(default_factory=LaneRates)
    sleepers: Sleepers = field(default_factory=Sleepers)


@dataclass
class Node:
    """One machine with one runner. ``start`` begins a new process of it, ``crash`` ends it without a good-bye."""

    name: str
    around: Surroundings
    on_step: OnStep = "hold"
    count: int = 0
    ownership: "Insistent | None" = None
    partition_count: int = 0
    """Of the present process."""
    ended: Callable[[str, BaseException], None] | None = None
    """Takes the runner's name and what it ended with, where that does not end the run."""
    link: Link = field(init=False)
    time: NodeTime = field(init=False)
    clock: SystemClock = field(init=False)
    _task: "asyncio.Task[None] | None" = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.time = NodeTime(self.around.now, self.around.random)
        self.clock = self._new_clock()
        self.link = Link(self.around.broker, self.around.random)

    def _new_clock(self) -> SystemClock:
        return SystemClock(self.time, on_step=self.on_step, machine=self.time, wait=self.around.sleepers.wait)

    @property
    def running(self) -> bool:
        """Whether a process runs."""
        return self._task is not None

    @property
    def runner_id(self) -> str:
        """The present process's name."""
        return f"{self.name}-{self.count}"

    def start(self) -> None:
        """Begin a new process."""
        assert self._task is None, f"{self.name} runs already"
        self.count += 1
        self.partition_count = self.around.partition_count
        self._stop = asyncio.Event()
        self.link = Link(self.around.broker, self.around.random)
        self.clock = self._new_clock()
        self._task = asyncio.get_running_loop().create_task(self.work(self._stop), name=self.runner_id)
        self._task.add_done_callback(self._ended)

    async def crash(self) -> None:
        """End the process on the spot."""
        task, self._task = self._task, None
        if task is not None:
            self.link.cut()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def leave(self) -> None:
        """Have the process stop in an orderly way."""
        task, self._task = self._task, None
        if task is not None:
            self._stop.set()
            await asyncio.wait({task}, timeout=30)
            self.link.cut()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            assert error is not None
            if self.ended is None:
                self.around.failed(error)
            else:
                self._task = None
                self.ended(self.runner_id, error)

    async def work(self, stop: asyncio.Event) -> None:
        """Run the runner until ``stop``."""
        raise NotImplementedError

    @property
    def position(self) -> int:
        """How far the present process has read the log."""
        raise NotImplementedError

    def heal(self) -> None:
        """Undo what was done to this node alone."""
        if not self.link.dead:
            self.link.trouble = Trouble()
        if self.ownership is not None:
            self.ownership.insist(insisting=False)

    # The simulated adapters stand in for the real ones, which the contract tests hold them to.

    def ledger(self) -> Ledger:
        """A writer on this node's link."""
        return cast("Ledger", SimulatedLedger(self.link))

    def reader(self) -> PullReader:
        """A reader from the beginning on this node's link."""
        return cast("PullReader", SimulatedReader(self.link))

    def leases(self, kind: LeaseKind) -> PartitionLeases:
        """This process's leases."""
        return PartitionLeases(
            cast("Bucket", SimulatedBucket(self.link)),
            LeaseClock(self.clock),
            kind=kind,
            runner_id=self.runner_id,
            partition_count=self.partition_count,
            handover_every_s=HANDOVER_EVERY_S,
            expiry_s=self.around.expiry_s,
            renewal_s=self.around.expiry_s * RENEWAL_S / EXPIRY_S,
        )


class Insistent:
    """Leases that, when told to, make their holder believe that it owns everything."""

    def __init__(self, leases: PartitionLeases) -> None:
        self._leases = leases
        self._insisting = False
        self._callbacks: list[Callable[[], None]] = []

    def insist(self, *, insisting: bool) -> None:
        """Believe it, or believe the leases again."""
        self._insisting = insisting
        for callback in tuple(self._callbacks):
            callback()

    def owns_slot(self, slot: int) -> bool:
        """Whether the slot is believed to be owned."""
        return self._insisting or self._leases.owns_slot(slot)

    def owned_slots(self) -> frozenset[int]:
        """Every slot that is believed to be owned."""
        return EVERY_SLOT if self._insisting else self._leases.owned_slots()

    @property
    def owned(self) -> frozenset[int]:
        """The partitions by the leases."""
        return self._leases.owned

    def epoch_of(self, slot: int) -> int:
        """The epoch by the leases."""
        return self._leases.epoch_of(slot)

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when the leases or the belief change."""
        self._callbacks.append(callback)
        return self._leases.on_change(callback)


@dataclass
class SchedulerNode(Node):
    """Runs the scheduler with its leases."""

    scheduler: Scheduler | None = None

    async def work(self, stop: asyncio.Event) -> None:
        """Fold first, then own, as the assembly of the service does it."""
        leases = self.leases("scheduler")
        self.ownership = Insistent(leases)
        self.scheduler = scheduler = Scheduler(
            ledger=self.ledger(),
            reader=self.reader(),
            clock=self.clock,
            ownership=self.ownership,
            zones=self.around.zones,
            runner_id=self.runner_id,
            lane_rates=self.around.lane_rates,
        )
        await _together(scheduler.run(stop), _once_ready(scheduler.ready, leases, stop))

    @property
    def position(self) -> int:
        """How far the present process has read the log."""
        return 0 if self.scheduler is None else self.scheduler.fold.position

    @property
    def fold(self) -> LedgerFold | None:
        """What the present process has folded."""
        return None if self.scheduler is None or not self.running else self.scheduler.fold


@dataclass
class DispatcherNode(Node):
    """Runs the dispatcher with its leases."""

    dispatcher: Dispatcher | None = None

    async def work(self, stop: asyncio.Event) -> None:
        """Fold first, then own."""
        leases = self.leases("dispatcher")
        self.ownership = Insistent(leases)
        self.around.executors.position_of[self.runner_id] = lambda: self.position

        def http_target(policy: TargetPolicy, *, connections_max: int, clock: Clock) -> SimulatedHttpTarget:
            """The HTTP target without sockets."""
            del policy, connections_max, clock
            return SimulatedHttpTarget(self.around.executors, self.runner_id)

        with mock.patch.object(dispatcher_module, "HttpTarget", http_target):
            self.dispatcher = dispatcher = Dispatcher(
                connection=cast("BrokerConnection", ExecutorConnection(self.around.executors, self.runner_id)),
                ledger=self.ledger(),
                reader_factory=self.reader,
                clock=self.clock,
                ownership=self.ownership,
                policy=TargetPolicy(allow_loopback=True),
                runner_id=self.runner_id,
                reporting=Reporting(TOKENS, REPORT_URL),
            )
        await _together(dispatcher.run(stop), _once_ready(dispatcher.ready, leases, stop))

    @property
    def position(self) -> int:
        """How far the present process has read the log."""
        return self._shown("position")

    @property
    def open_count(self) -> int:
        """Released attempts without a result that it knows of."""
        return self._shown("open")

    def _shown(self, name: str) -> int:
        if self.dispatcher is None:
            return 0
        shown = self.dispatcher.snapshot()[name]
        assert isinstance(shown, int)
        return shown


@dataclass
class ControlNode(Node):
    """Follows the log, writes commands as control does for its clients, and records what executors report."""

    model: Model | None = None
    writer: CommandWriter | None = None
    reports: OutcomeReports | None = None

    async def work(self, stop: asyncio.Event) -> None:
        """Follow the log until ``stop``."""
        ledger, reader = self.ledger(), self.reader()
        self.model = model = Model()
        self.writer = CommandWriter(
            ledger=ledger,
            model=model,
            clock=self.clock,
            zones=KnownZones(self.around.zones),
            runner_id=self.runner_id,
        )
        self.reports = reports = OutcomeReports(
            ledger=ledger,
            model=model,
            zones=KnownZones(self.around.zones),
            clock=self.clock,
            runner_id=self.runner_id,
            tokens=TOKENS,
        )
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_follow(ledger, reader, model)),
                group.create_task(reports.run(group)),
            ]
            await stop.wait()
            reports.abandon()
            for task in tasks:
                task.cancel()

    @property
    def position(self) -> int:
        """How far the present process has read the log."""
        return 0 if self.model is None else self.model.position

    def state(self, tenant: str) -> State:
        """The tenant's book as control has it."""
        return State() if self.model is None else self.model.book(tenant).state


async def _follow(ledger: Ledger, reader: PullReader, model: Model) -> None:
    async for batch in reader.batches():
        model.apply(batch)
        ledger.note_seen(batch[-1].sequence)


async def _together(*parts: Awaitable[None]) -> None:
    async with asyncio.TaskGroup() as group:
        for part in parts:
            group.create_task(_awaited(part))


async def _awaited(part: Awaitable[None]) -> None:
    await part


async def _once_ready(ready: asyncio.Event, leases: PartitionLeases, stop: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(ready.wait()), asyncio.ensure_future(stop.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    if not stop.is_set():
        await leases.run(stop)
