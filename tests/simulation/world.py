"""One run: a world made from a seed, broken on purpose, healed, and looked at.

First the safety phase with faults, then the liveness phase without; the oracle watches both.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from random import Random
from unittest import mock

from fireledger.domain import commands as c
from fireledger.domain.due import next_due
from fireledger.domain.instants import MILLISECOND, SECOND, parse_instant
from fireledger.domain.state import State, TriggerState
from fireledger.domain.zones import ZoneDatabase, ZoneLibrary
from fireledger.projections.ledger_fold import LedgerFold
from fireledger.runners.clock import ClockHeld
from fireledger.runners.control.commands import Asked
from fireledger.runners.errors import BrokerUnavailable, ControlRefused
from fireledger.runners.jetstream.leader import Stored
from fireledger.runners.zone_package import load_packaged_zones
from tests.simulation.broker import SimulatedBroker, wait
from tests.simulation.executors import Executors
from tests.simulation.faults import FAULTS, Fault
from tests.simulation.invariants import require
from tests.simulation.nodes import ControlNode, DispatcherNode, Node, SchedulerNode, Surroundings
from tests.simulation.oracle import Oracle
from tests.simulation.virtual_time import run_virtually
from tests.simulation.workload import DENSE, REAL, STARTS, ZONES, Pace, Workload

SETTLE_S = 80.0
"""The liveness phase: long enough for leases to move, calls to be sent again and backlogs to drain."""
DECIDED_WITHIN = 15 * SECOND
OUTCOME_WITHIN = 50 * SECOND
"""Without faults every due instant is decided within the first, and every fire has its outcome within the second."""
FAULTS_AT_ONCE_MAX = 4
EARLY_WHEN_LIED = 150 * MILLISECOND
"""What the witness accepts of a clock that runs ahead, and the broker's own skew."""
BROKER_SKEW = 20 * MILLISECOND


@dataclass
class Report:
    """What a run came to. ``digest`` is a hash of every byte that was logged, and when."""

    seed: int
    hours: float
    fires: int = 0
    decisions: int = 0
    calls: int = 0
    pages: int = 0
    ineffective: int = 0
    commands: int = 0
    faults: Counter[Fault] = field(default_factory=Counter[Fault])
    digest: str = ""
    actions: Counter[str] = field(default_factory=Counter[str])

    @property
    def fault_count(self) -> int:
        """Faults injected."""
        return sum(self.faults.values())


class Failed(AssertionError):
    """A run failed; the message ends with the one line that repeats it."""

    def __init__(self, seed: int, hours: float, cause: BaseException) -> None:
        super().__init__(f"{cause}\nrepeat with: make sim SEED={seed} HOURS={hours:g}")
        self.seed = seed
        self.cause = cause


@cache
def zone_library() -> ZoneLibrary:
    """The zones of runs: the packaged data, and a later version in which Rome and New York have moved by an hour."""
    packaged = load_packaged_zones()
    now = {name: packaged.content(name) for name in ZONES}
    moved = {**now, "Europe/Rome": packaged.content("Etc/GMT-3"), "America/New_York": packaged.content("Etc/GMT+3")}
    return ZoneLibrary(ZoneDatabase("2026z", moved), ZoneDatabase(packaged.version, now))


def database_versions() -> tuple[ZoneDatabase, ZoneDatabase]:
    """The packaged zones, and the moved ones."""
    moved, packaged = sorted(zone_library(), key=lambda database: database.version, reverse=True)
    return packaged, moved


@dataclass
class Hooks:
    """What a run puts in the place of what runners take from the machine, or what never fails by itself."""

    random: Random
    actions: Counter[str] = field(default_factory=Counter[str])
    """Log lines by their action."""
    poisoned: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Triggers that nobody can decide at present."""

    def token_hex(self, size: int) -> str:
        """As ``secrets.token_hex``, from the seed."""
        return self.random.randbytes(size).hex()

    def next_due(self, state: State, trigger: TriggerState, zones: ZoneLibrary) -> int | None:
        """When the trigger is due, unless it is poisoned."""
        if (state.tenant, trigger.name) in self.poisoned:
            raise ValueError("poisoned")
        return next_due(state, trigger, zones)

    @contextmanager
    def placed(self) -> Generator[None, None, None]:
        """Put them in place."""

        def note(_log: object, _level: int, action: str, _fields: dict[str, object]) -> None:
            """Count a log line."""
            self.actions[action] += 1

        with (
            mock.patch("fireledger.runners.identity.secrets", self),
            mock.patch("fireledger.runners.logs._NamedLog._write", note),
            mock.patch("fireledger.domain.tick.next_due", self.next_due),
        ):
            yield


class World:
    """A run in the making."""

    def __init__(self, seed: int, hours: float, pace: Pace, hooks: Hooks, *, start_at: int | None = None) -> None:
        self.report = Report(seed, hours, actions=hooks.actions)
        self.random = hooks.random
        self.pace = pace
        self.hours = hours
        self.poisoned = hooks.poisoned
        drawn = parse_instant(self.random.choice(STARTS)) + self.random.randrange(0, 60 * SECOND)
        self.start_at: int = drawn if start_at is None else start_at
        self.loop = asyncio.get_running_loop()
        self.broker = SimulatedBroker(self.now)
        self.broker.offset = self.random.randint(-BROKER_SKEW, BROKER_SKEW)
        self.oracle = Oracle(zone_library())
        self.oracle.slack.broker = 2 * BROKER_SKEW + 10 * MILLISECOND
        self.executors = Executors(self.random, self.now, self._watched(self.oracle.called))
        self.workload = Workload(self.random, pace, self.start_at)
        self.failure: asyncio.Future[None] = self.loop.create_future()
        around = Surroundings(self.broker, self.executors, self.random, self.now, zone_library(), self.fail)
        self.schedulers = [SchedulerNode("scheduler-a", around, "hold"), SchedulerNode("scheduler-b", around, "accept")]
        self.dispatchers = [
            DispatcherNode("dispatcher-a", around, "accept"),
            DispatcherNode("dispatcher-b", around, "hold"),
        ]
        self.control = ControlNode("control-a", around, "accept")
        self.nodes: list[Node] = [*self.schedulers, *self.dispatchers, self.control]
        self.broker.on_store.append(self._stored)
        self._faults: set[asyncio.Task[None]] = set()
        self._commands: set[asyncio.Task[None]] = set()
        self._request_count = 0

    # Time and failure

    def now(self) -> int:
        """True time in microseconds."""
        return self.start_at + round(self.loop.time() * SECOND)

    def fail(self, error: BaseException) -> None:
        """End the run with this error."""
        if not self.failure.done():
            self.failure.set_exception(error)

    def _watched(self, check: Callable[..., None]) -> Callable[..., None]:
        def watched(*args: object) -> None:
            """Check, and end the run when something does not hold."""
            try:
                check(*args)
            except (AssertionError, LookupError) as error:
                self.fail(error)

        return watched

    def _stored(self, message: Stored) -> None:
        self._watched(self.oracle.stored)(message, self.now())

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and raise what went wrong meanwhile."""
        waiting = asyncio.ensure_future(wait(seconds))
        try:
            await asyncio.wait({waiting, self.failure}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self.failure.done():
            self.failure.result()

    def lied(self) -> None:
        """From now on a clock may have been wrong by what the witness accepts."""
        self.oracle.slack.early = EARLY_WHEN_LIED

    # The run

    async def run(self) -> Report:
        """Run both phases. Raises Violation and whatever a runner failed with."""
        for node in self.nodes:
            node.start()
        await self._open()
        await self._safety()
        await self._heal()
        await self.pass_time(SETTLE_S)
        self.look()
        await self.end()
        return self._reported()

    async def _open(self) -> None:
        """Tenants and the first triggers, before anything goes wrong."""
        await self.pass_time(1.0)
        packaged, _ = database_versions()
        for tenant in self.workload.tenants:
            await self.do(
                tenant,
                c.CreateTenant(
                    settings=self.workload.settings(), zone_version=packaged.version, zone_sha256=packaged.sha256
                ),
            )
        for tenant, name, definition in self.workload.first_triggers():
            await self.do(tenant, c.CreateTrigger(trigger=name, definition=definition))

    async def _safety(self) -> None:
        end_s = self.loop.time() + self.hours * 3_600
        next_fault_s = self.loop.time() + self._gap_s(self.pace.faults_per_hour)
        next_command_s = self.loop.time() + self._gap_s(self.pace.commands_per_hour)
        while self.loop.time() < end_s:
            await self.pass_time(max(0.0, min(next_fault_s, next_command_s, end_s) - self.loop.time()))
            if self.loop.time() >= next_fault_s:
                next_fault_s = self.loop.time() + self._gap_s(self.pace.faults_per_hour)
                self._inject()
            if self.loop.time() >= next_command_s:
                next_command_s = self.loop.time() + self._gap_s(self.pace.commands_per_hour)
                self.command_soon()

    def _gap_s(self, per_hour: float) -> float:
        return self.random.expovariate(per_hour / 3_600)

    def _inject(self) -> None:
        if len(self._faults) >= FAULTS_AT_ONCE_MAX:
            return
        name = self.random.choice(list(FAULTS))
        self.report.faults[name] += 1
        task = self.loop.create_task(self._fault(name), name=name)
        self._faults.add(task)
        task.add_done_callback(self._faults.discard)

    async def _fault(self, name: Fault) -> None:
        try:
            await FAULTS[name](self)
        except (AssertionError, LookupError) as error:
            self.fail(error)

    async def _heal(self) -> None:
        """Undo every fault."""
        for task in [*self._faults]:
            task.cancel()
        if self._faults:
            await asyncio.wait(set(self._faults))
        self.broker.come_up()
        self.executors.mood = "healthy"
        self.poisoned.clear()
        for node in self.nodes:
            node.time.step = node.time.extra_epsilon = 0
            node.time.skew = max(-node.time.epsilon, min(node.time.skew, node.time.epsilon)) * 9 // 10
            node.link.thaw()
            node.heal()
            if not node.running:
                node.start()
        await self.pass_time(15.0)
        for tenant in self.workload.tenants:
            for command in self.workload.repair(self.control.state(tenant)):
                await self.do(tenant, command)

    def look(self) -> None:
        """Everything is decided, released and finished, and all runners have the same picture."""
        now = self.now()
        for book in self.oracle.books.values():
            left = list(book.overdue(now - DECIDED_WITHIN, now - OUTCOME_WITHIN))
            require(not left, "drains", "; ".join(left[:5]))
        again = LedgerFold(observing=False)
        for message in self.broker.log:
            again.apply(message)
        for node in self.schedulers:
            fold = node.fold
            require(fold is not None, "drains", f"{node.name} does not run")
            assert fold is not None
            for tenant, folded in fold.books.items():
                if folded.head.number == again.book(tenant).head.number:
                    require(folded == again.book(tenant), "same-fold", f"{node.name} has another picture of {tenant}")

    async def end(self) -> None:
        """Stop every runner, and raise what went wrong until then."""
        for task in [*self._commands]:
            task.cancel()
        for node in self.nodes:
            await node.leave()
        if self.failure.done():
            self.failure.result()
        self.failure.cancel()

    def _reported(self) -> Report:
        report, oracle = self.report, self.oracle
        report.fires, report.calls = oracle.fire_count, self.executors.call_count
        report.decisions = sum(book.decided_count for book in oracle.books.values())
        report.pages, report.ineffective = oracle.page_count, oracle.ineffective_count
        digest = sha256()
        for message in self.broker.log:
            digest.update(f"{message.sequence} {message.subject} {message.stamped_at} ".encode() + message.body)
        report.digest = digest.hexdigest()
        return report

    # Commands

    async def do(self, tenant: str, command: c.Command) -> None:
        """Carry a command out as control does; what is refused is refused."""
        writer = self.control.writer
        if writer is None or not self.control.running:
            return
        self._request_count += 1
        self.report.commands += 1
        asked = Asked(tenant, f"request-{self._request_count}", sha256(str(self._request_count).encode()).digest())
        try:
            done = await writer.execute(asked, lambda _state, _now: command)
        except (ControlRefused, BrokerUnavailable, ClockHeld):
            return
        if self.failure.done():
            return
        book = self.oracle.books.get(tenant)
        known = done.page is None or (book is not None and done.page in book.effective)
        require(known, "answer-true", f"command {command} is said to be page {done.page} of {tenant}")

    def command_soon(self) -> None:
        """Give some command."""
        tenant = self.random.choice(self.workload.tenants)
        command = self.workload.command(self.control.state(tenant), self.now())
        if command is not None:
            task = self.loop.create_task(self._fault_free(tenant, command))
            self._commands.add(task)
            task.add_done_callback(self._commands.discard)

    async def _fault_free(self, tenant: str, command: c.Command) -> None:
        try:
            await self.do(tenant, command)
        except (AssertionError, LookupError) as error:
            self.fail(error)

    async def until_next_due(self) -> None:
        """Return a few milliseconds around the next whole second, when most things are due."""
        until = SECOND - self.now() % SECOND
        await wait(max(0.0, (until + self.random.randint(-10, 40) * MILLISECOND) / SECOND))

    def trigger_names(self) -> list[tuple[str, str]]:
        """Tenant and name of every live trigger."""
        return [
            (tenant, name)
            for tenant in self.workload.tenants
            for name, trigger in sorted(self.control.state(tenant).triggers.items())
            if not trigger.deleted
        ]

    async def adopt_zone_data(self) -> None:
        """Every book adopts the other version of the zones."""
        packaged, moved = database_versions()
        for tenant in self.workload.tenants:
            other = moved if self.control.state(tenant).zone_sha256 == packaged.sha256 else packaged
            await self.do(tenant, c.AdoptZoneData(version=other.version, sha256=other.sha256))


async def _run(seed: int, hours: float, pace: Pace, hooks: Hooks) -> Report:
    return await World(seed, hours, pace, hooks).run()


def pace_of(hours: float) -> Pace:
    """How much happens in a run of this length: in minutes as much as in a day."""
    return DENSE if hours < 1 else REAL


def simulate(seed: int, hours: float, pace: Pace | None = None) -> Report:
    """Run one seed, at the pace of its length unless told otherwise. Raises Failed."""
    hooks = Hooks(Random(seed))
    try:
        with hooks.placed():
            return run_virtually(_run(seed, hours, pace or pace_of(hours), hooks))
    except AssertionError as error:
        raise Failed(seed, hours, error) from error
    except BaseExceptionGroup as group:
        raise Failed(seed, hours, group) from group
