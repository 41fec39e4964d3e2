"""One run: a world made from a seed, broken on purpose, healed, and looked at.

First the safety phase with faults, then the liveness phase without; the oracle watches both.
"""

import asyncio
from collections.abc import Callable, Coroutine
from hashlib import sha256
from heapq import heappop, heappush
from random import Random

from fireledger.domain import commands as c
from fireledger.domain.instants import HOUR, MILLISECOND, SECOND, parse_instant
from fireledger.projections.ledger_fold import LedgerFold
from fireledger.runners.clock import ClockHeld
from fireledger.runners.control.commands import Asked
from fireledger.runners.errors import BrokerUnavailable, ControlRefused
from fireledger.runners.jetstream.leader import Stored
from fireledger.runners.scheduler.pacing import LaneRates
from tests.simulation.backfilling import with_plan
from tests.simulation.broker import SimulatedBroker, wait
from tests.simulation.executors import Executors
from tests.simulation.executors import Report as Told
from tests.simulation.faults import FAULTS, Fault
from tests.simulation.hooks import Hooks, database_versions, zone_library
from tests.simulation.invariants import require
from tests.simulation.nodes import ControlNode, DispatcherNode, Node, SchedulerNode, Surroundings
from tests.simulation.oracle import Oracle
from tests.simulation.quiet import AWAKE_BEFORE, SKIPPED_MIN, quiet_until
from tests.simulation.report import Failed, Report
from tests.simulation.rush import RUSHED, fall_behind, rushed
from tests.simulation.tail import lose_tail
from tests.simulation.virtual_time import run_virtually
from tests.simulation.workload import DENSE, REAL, STARTS, Pace, Workload

SETTLE_ROUND = 20 * SECOND
SETTLE_ROUNDS = 4
"""The liveness phase: long enough for leases to move and calls to be sent again."""
DRAINED_WITHIN = 900 * SECOND
"""So much later every paced lane is drained and no retry or person is waited for."""
LANE_RATES = LaneRates(catch_up=2, backfill=1)
REPORT_TRIES = 20
DECIDED_WITHIN = 15 * SECOND
OUTCOME_WITHIN = 50 * SECOND
"""Without faults every due instant is decided within the first, and every fire has its outcome within the second."""
FAULTS_AT_ONCE_MAX = 4
UNAIMED = 0.25
"""Of faults and commands that come in a quiet stretch, how many stay there. The others come when something is due."""
LOOK_EVERY = SECOND // 5
"""How often a run looks whether it is quiet."""
EARLY_WHEN_LIED = 150 * MILLISECOND
"""What the witness accepts of a clock that runs ahead, and the broker's own skew."""
BROKER_SKEW = 20 * MILLISECOND


class World:
    """A run in the making."""

    def __init__(self, seed: int, hours: float, pace: Pace, hooks: Hooks, *, start_at: int | None = None) -> None:
        self.report = Report(seed, hours, actions=hooks.actions)
        self.random = hooks.random
        self.pace = pace
        self.hours = hours
        self.poisoned = hooks.poisoned
        self.slow_rounds = hooks.slow_rounds
        self.shared = hooks.shared
        drawn = parse_instant(self.random.choice(STARTS)) + self.random.randrange(0, 60 * SECOND)
        self.start_at: int = drawn if start_at is None else start_at
        self._origin = self.start_at
        self._passing: asyncio.Future[None] | None = None
        self.loop = asyncio.get_running_loop()
        self.broker = SimulatedBroker(self.now)
        self.broker.offset = self.random.randint(-BROKER_SKEW, BROKER_SKEW)
        self.oracle = Oracle(zone_library())
        self.oracle.slack.broker = 2 * BROKER_SKEW + 10 * MILLISECOND
        self.executors = Executors(self.random, self.now, self._watched(self.oracle.called))
        self.executors.beat_s = pace.beat_s
        self.executors.reported = self._reported_by_executor
        self.workload = Workload(self.random, pace, self.start_at)
        self.failure: asyncio.Future[None] = self.loop.create_future()
        self._around = around = Surroundings(
            self.broker, self.executors, self.random, self.now, zone_library(), self.fail, pace.expiry_s
        )
        self.oracle.sent_at = self.broker.sent_at
        self.pace_lanes(LANE_RATES)
        self.schedulers = [SchedulerNode("scheduler-a", around, "hold"), SchedulerNode("scheduler-b", around, "accept")]
        self.dispatchers = [
            DispatcherNode("dispatcher-a", around, "accept"),
            DispatcherNode("dispatcher-b", around, "hold"),
        ]
        self.control = ControlNode("control-a", around, "accept")
        self.nodes: list[Node] = [*self.schedulers, *self.dispatchers, self.control]
        self.broker.on_store.append(self.stored)
        self._faults: set[asyncio.Task[None]] = set()
        self._commands: set[asyncio.Task[None]] = set()
        self._request_count = 0
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._agenda_count = 0
        self.outage_until: int | None = None
        """While every scheduler is gone: when they come back."""

    # Time and failure

    def now(self) -> int:
        """True time in microseconds: what the loop has waited, and what was skipped."""
        return self._origin + round(self.loop.time() * SECOND)

    def skip(self, until: int) -> None:
        """Let time pass up to an instant at once, although the loop waits for nothing."""
        self.report.skipped += until - self.now()
        self._origin += until - self.now()
        self._around.sleepers.look()

    @property
    def faults_under_way(self) -> int:
        """How many faults are in effect."""
        return len(self._faults)

    @property
    def commands_under_way(self) -> int:
        """How many commands have no answer yet."""
        return len(self._commands)

    def fail(self, error: BaseException) -> None:
        """End the run with this error."""
        if not self.failure.done():
            self.failure.set_exception(error)
            if self._passing is not None and not self._passing.done():
                self._passing.set_result(None)

    def _watched(self, check: Callable[..., None]) -> Callable[..., None]:
        def watched(*args: object, **named: object) -> None:
            """Check, and end the run when something does not hold."""
            try:
                check(*args, **named)
            except (AssertionError, LookupError) as error:
                self.fail(error)

        return watched

    def stored(self, message: Stored) -> None:
        """Have the oracle look at a message as it is stored."""
        self._watched(self.oracle.stored)(message, self.now())

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and raise what went wrong meanwhile."""
        if not self.failure.done():
            self._passing = passing = self.loop.create_future()
            timer = self.loop.call_later(seconds, _over, passing)
            try:
                await passing
            finally:
                timer.cancel()
        if self.failure.done():
            self.failure.result()

    def lied(self) -> None:
        """From now on a clock may have been wrong by what the witness accepts."""
        self.oracle.slack.early = EARLY_WHEN_LIED

    def pace_lanes(self, rates: LaneRates) -> None:
        """Give schedulers that start from now on these rates."""
        self._around.lane_rates = rates
        for lane, rate in (("catch-up", rates.catch_up), ("backfill", rates.backfill)):
            self.oracle.shared[lane].rate = 100 * rate

    @property
    def partition_count(self) -> int:
        """Into how many partitions slots are divided by the processes that start now."""
        return self._around.partition_count

    def repartition(self, count: int) -> None:
        """Divide them otherwise from now on."""
        self._around.partition_count = count

    # The run

    async def run(self) -> Report:
        """Run both phases. Raises Violation and whatever a runner failed with."""
        for node in self.nodes:
            node.start()
        await self._open()
        await self._safety()
        await self._heal()
        await self._settle()
        self.look()
        report = self._reported()
        await lose_tail(self)
        await self.end()
        return report

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
            behind = rushed(self.workload, self.start_at, self.now() + round(self.hours * HOUR))
            await self.do(tenant, c.CreateTrigger(trigger=RUSHED, definition=behind, paused=True))
        for tenant, name, definition in self.workload.first_triggers():
            await self.do(tenant, c.CreateTrigger(trigger=name, definition=definition))

    async def _safety(self) -> None:
        end = self.now() + round(self.hours * HOUR)
        self._fault_later()
        self._command_later()
        self._look_in_later()
        self._rush_later()
        while self.now() < end:
            await self._pass_until(min(self._agenda[0][0], end))
            while self._agenda[0][0] <= self.now():
                _, _, act = heappop(self._agenda)
                act()

    def _at(self, at: int, act: Callable[[], None]) -> None:
        self._agenda_count += 1
        heappush(self._agenda, (at, self._agenda_count, act))

    def _gap(self, per_hour: float) -> int:
        return round(self.random.expovariate(per_hour) * HOUR)

    def _fault_later(self) -> None:
        def due() -> None:
            """Plan the next one from here, and this one for when it matters."""
            self._fault_later()
            self._aim(self._inject)

        self._at(self.now() + self._gap(self.pace.faults_per_hour), due)

    def _command_later(self) -> None:
        def due() -> None:
            """Plan the next one from here, and this one for when it matters."""
            self._command_later()
            self._aim(self.command_soon)

        self._at(self.now() + self._gap(self.pace.commands_per_hour), due)

    def _look_in_later(self) -> None:
        def due() -> None:
            """A person looks in now, and later again."""
            self._look_in_later()
            for tenant in self.workload.tenants:
                for command in self.workload.attend(self.control.state(tenant)):
                    self._give(tenant, command)

        self._at(self.now() + self._gap(self.pace.looks_per_hour), due)

    def _rush_later(self) -> None:
        def due() -> None:
            """All tenants have a backlog now, and later again."""
            self._rush_later()
            for tenant in self.workload.tenants:
                self._keep(fall_behind(self, tenant))

        self._at(self.now() + self._gap(self.pace.rushes_per_hour), due)

    def _aim(self, act: Callable[[], None]) -> None:
        """Do it now; in the middle of a long and quiet stretch mostly around its end, when something is due."""
        end = quiet_until(self) if self.pace.skipping else None
        if end is None or self.random.random() < UNAIMED:
            act()
        else:
            self._at(end + self.random.randint(-4 * SECOND, SECOND), act)

    async def _pass_until(self, until: int) -> None:
        """Let time pass up to an instant, quiet stretches at once."""
        while (left := until - self.now()) > 0:
            quiet = quiet_until(self) if self.pace.skipping else None
            if quiet is not None and (end := min(quiet - AWAKE_BEFORE, until)) - self.now() > SKIPPED_MIN:
                self.skip(end)
            else:
                await self.pass_time((min(left, LOOK_EVERY) if self.pace.skipping else left) / SECOND)

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
        self.executors.mood, self.executors.surprising = "healthy", False
        self.executors.give_up_reports()
        self.poisoned.clear()
        self.slow_rounds.clear()
        for node in self.nodes:
            node.time.step = node.time.extra_epsilon = 0
            node.time.skew = max(-node.time.epsilon, min(node.time.skew, node.time.epsilon)) * 9 // 10
            node.link.thaw()
            node.heal()
            if node.running and node.partition_count != self.partition_count:
                # A change of their number is over once every process knows it.
                await node.leave()
            if not node.running:
                node.start()
        await self.pass_time(15.0)
        await self._repair()

    async def _repair(self) -> None:
        """What a person does at the end: whatever stands still goes on, and what waits for a person is answered."""
        for tenant in self.workload.tenants:
            for command in self.workload.repair(self.control.state(tenant)):
                await self.do(tenant, command)

    async def _settle(self) -> None:
        """Let everything come to rest: leases, calls that are sent again, retries, backlogs."""
        for _ in range(SETTLE_ROUNDS):
            await self._pass_until(self.now() + SETTLE_ROUND)
            await self._repair()
        end = self.now() + DRAINED_WITHIN
        while self.now() < end and self.left_over():
            await self._pass_until(self.now() + SETTLE_ROUND // 4)
            await self._repair()

    def left_over(self) -> bool:
        """Whether anything waits for a pace, a retry's instant or a person."""
        return any(next(book.left_over(), None) is not None for book in self.oracle.books.values())

    def look(self) -> None:
        """Everything is decided, released and finished, and all runners have the same picture."""
        now = self.now()
        for book in self.oracle.books.values():
            left = list(book.overdue(now - DECIDED_WITHIN, now - OUTCOME_WITHIN))
            require(not left, "drains", "; ".join(left[:5]))
            left = list(book.left_over())
            require(not left, "drains", f"after {DRAINED_WITHIN} us: {left[:5]}")
        for rate in self.oracle.shared.values():
            rate.check(len(self.schedulers))
        self.shared.alone = True
        again = LedgerFold(observing=False)
        for message in self.broker.log:
            again.apply(message)
        for node in self.schedulers:
            fold = node.fold
            require(fold is not None, "drains", f"{node.name} does not run")
            assert fold is not None
            diverged = 0 if node.scheduler is None else node.scheduler.snapshot().rows_diverged
            require(diverged == 0, "due-rows", f"{diverged} rows of {node.name} differed from the log")
            for tenant, folded in fold.books.items():
                if folded.head.number == again.book(tenant).head.number:
                    require(folded == again.book(tenant), "same-fold", f"{node.name} has another picture of {tenant}")

    async def end(self) -> None:
        """Stop every runner, and raise what went wrong until then."""
        for task in [*self._commands]:
            task.cancel()
        self.executors.give_up_reports()
        for node in self.nodes:
            await node.leave()
        if self.failure.done():
            self.failure.result()
        self.failure.cancel()

    def _reported(self) -> Report:
        report, oracle = self.report, self.oracle
        report.fires, report.calls = oracle.fire_count, self.executors.call_count
        report.retries = sum(book.retry_count for book in oracle.books.values())
        report.entries, report.reports = oracle.counts, oracle.report_count
        report.decisions = sum(book.decided_count for book in oracle.books.values())
        report.pages, report.ineffective = oracle.page_count, oracle.ineffective_count
        report.turns = oracle.fairness.judged_count
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
            done = await writer.execute(asked, lambda state, _now: with_plan(command, state, self.control))
        except (ControlRefused, BrokerUnavailable, ClockHeld):
            return
        if self.failure.done():
            return
        book = self.oracle.books.get(tenant)
        known = done.page is None or (book is not None and done.page in book.effective)
        require(known, "answer-true", f"command {command} is said to be page {done.page} of {tenant}")

    async def _reported_by_executor(self, told: Told) -> None:
        """Take an executor's report to control until it is recorded or refused."""
        if told.rightly:
            self.oracle.told.add(told.record())
        for _ in range(REPORT_TRIES):
            reports = self.control.reports
            if reports is not None and self.control.running:
                try:
                    await reports.take(told.body(), tenant=told.key.tenant)
                except ControlRefused as error:
                    self._watched(require)(not told.rightly, "report-checked", f"{told} is refused: {error}")
                    return
                except (BrokerUnavailable, ClockHeld):
                    pass
                else:
                    self._watched(self.oracle.acknowledged)(told.record(), rightly=told.rightly)
                    return
            await wait(1.0)

    def command_soon(self) -> None:
        """Give some command."""
        tenant = self.random.choice(self.workload.tenants)
        command = self.workload.command(self.control.state(tenant), self.now())
        if command is not None:
            self._give(tenant, command)

    def _give(self, tenant: str, command: c.Command) -> None:
        self._keep(self.carry_out(tenant, command))

    def _keep(self, commands: Coroutine[None, None, None]) -> None:
        task = self.loop.create_task(commands)
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)

    async def carry_out(self, tenant: str, command: c.Command) -> None:
        """Carry a command out, and end the run when something does not hold."""
        try:
            await self.do(tenant, command)
        except (AssertionError, LookupError) as error:
            self.fail(error)

    async def outage(self, seconds: float) -> None:
        """Let an outage of every scheduler pass, unless one is started meanwhile; what is quiet of it is skipped."""
        self.outage_until = until = self.now() + round(seconds * SECOND)
        try:
            while (left := until - self.now()) > 0 and not any(node.running for node in self.schedulers):
                await wait(min(left, SECOND) / SECOND)
        finally:
            self.outage_until = None

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


def _over(passing: "asyncio.Future[None]") -> None:
    if not passing.done():
        passing.set_result(None)


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
