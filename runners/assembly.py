"""Putting a runner together: its connection, clock, zones, log and leases, from what the command line said."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fireledger.domain.instants import Duration
from fireledger.domain.limits import PARTITION_COUNT_DEFAULT

from .attempt_tokens import AttemptTokens
from .broker.credentials import load_credentials, load_report_key
from .clock import OnStep, SystemClock, choose_clock
from .control.control import Control
from .control.outcome_endpoint import OutcomeOptions
from .dispatcher.dispatcher import Dispatcher
from .dispatcher.policy import TargetPolicy
from .dispatcher.reporting import Reporting
from .identity import given_predecessor, given_runner_id
from .jetstream.buckets import Bucket
from .jetstream.connection import BrokerConnection, Login
from .jetstream.ledger import Ledger
from .jetstream.provisioning import verify
from .jetstream.reader import Checkpoint, PullReader
from .joining import join_broker
from .leases import LeaseKind, PartitionLeases
from .logs import get_log
from .runner_state import Blocked, Seen, StateReport
from .scheduler.pacing import LaneRates
from .scheduler.scheduler import Scheduler
from .scheduler.status import figures_of
from .zone_store import load_zones, store_packaged_zones

BEGINNING = Checkpoint(0, b"")

_log = get_log("runner")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """What a runner was asked for.

    ``local``: broker and runner share a machine, so a declared clock and loopback targets are allowed.
    ``report_key``, ``report_url`` and ``outcome_port`` are how executors report outcomes later; control and dispatcher
    need the same key.
    """

    kind: str
    nats_url: str
    credentials: Path
    clock_bound: Duration | None = None
    on_clock_step: OnStep = "hold"
    partition_count: int = PARTITION_COUNT_DEFAULT
    local: bool = False
    report_key: Path | None = None
    report_url: str = ""
    outcome_port: int | None = None
    lane_rates: LaneRates = field(default_factory=LaneRates)

    def tokens(self) -> AttemptTokens | None:
        """What makes and checks the tokens of attempts. Raises OperationalError when the key cannot be read."""
        return None if self.report_key is None else AttemptTokens(load_report_key(self.report_key))

    def login(self) -> Login:
        """The runner's login. Raises OperationalError when the credentials file cannot be read."""
        credentials = load_credentials(self.credentials)
        return Login(self.nats_url, credentials.user, credentials.password)


@dataclass(frozen=True, slots=True)
class Runtime:
    """What every runner is made of."""

    options: RunnerOptions
    runner_id: str
    clock: SystemClock
    connection: BrokerConnection
    ledger: Ledger

    def reader(self) -> PullReader:
        """A reader of the whole LEDGER."""
        return PullReader(self.connection, after=BEGINNING)

    def leases(self, kind: LeaseKind) -> PartitionLeases:
        """The runner's leases."""
        return PartitionLeases(
            Bucket(self.connection, "leases"),
            self.clock,
            kind=kind,
            runner_id=self.runner_id,
            predecessor=given_predecessor(kind),
            partition_count=self.options.partition_count,
        )

    def report(self, kind: LeaseKind, look: Callable[[], Seen]) -> StateReport:
        """What tells others of the runner's state."""
        bucket = Bucket(self.connection, "leases")
        return StateReport(bucket, self.clock, kind=kind, runner_id=self.runner_id, look=look)


async def run_scheduler(options: RunnerOptions, stop: asyncio.Event) -> None:
    """Run a scheduler until ``stop``. Raises OperationalError."""
    async with _runtime(options, stop) as runtime:
        if runtime is None:
            return
        leases = runtime.leases("scheduler")
        scheduler = Scheduler(
            ledger=runtime.ledger,
            reader=runtime.reader(),
            clock=runtime.clock,
            ownership=leases,
            zones=await load_zones(runtime.connection),
            runner_id=runtime.runner_id,
            reload_zones=lambda known: load_zones(runtime.connection, known),
            lane_rates=options.lane_rates,
        )

        def look() -> Seen:
            """Which books the scheduler cannot decide, and its figures."""
            status = scheduler.snapshot()
            blocked = tuple(Blocked(each.tenant, each.reason) for each in status.blocked)
            return Seen(blocked=blocked, figures=figures_of(status))

        report = runtime.report("scheduler", look)
        await _together(stop, scheduler.run(stop), _once_ready(scheduler.ready, leases, stop), report.run(stop))


async def run_dispatcher(options: RunnerOptions, stop: asyncio.Event) -> None:
    """Run a dispatcher until ``stop``. Raises OperationalError."""
    async with _runtime(options, stop) as runtime:
        if runtime is None:
            return
        leases, tokens = runtime.leases("dispatcher"), options.tokens()
        dispatcher = Dispatcher(
            connection=runtime.connection,
            ledger=runtime.ledger,
            reader_factory=runtime.reader,
            clock=runtime.clock,
            ownership=leases,
            policy=TargetPolicy(allow_loopback=options.local),
            runner_id=runtime.runner_id,
            reporting=None if tokens is None else Reporting(tokens, options.report_url),
        )

        def look() -> Seen:
            """How many fires the dispatcher cannot call yet, and its figures."""
            snapshot = dispatcher.snapshot()
            waiting, calling = snapshot["waiting"], snapshot["calling"]
            assert isinstance(waiting, int), "a number of fires"
            assert isinstance(calling, int), "a number of calls"
            figures = {name: value for name, value in snapshot.items() if type(value) is int}
            return Seen(calls_waiting=waiting, calls_under_way=calling, figures=figures)

        report = runtime.report("dispatcher", look)
        await _together(stop, dispatcher.run(stop), _once_ready(dispatcher.ready, leases, stop), report.run(stop))


async def run_control(options: RunnerOptions, stop: asyncio.Event) -> None:
    """Run a control until ``stop``. Raises OperationalError."""
    async with _runtime(options, stop) as runtime:
        if runtime is None:
            return
        # Stored before anything can adopt it, so that every runner can load what a book is decided by.
        await store_packaged_zones(runtime.connection)
        control = Control(
            connection=runtime.connection,
            ledger=runtime.ledger,
            reader=runtime.reader(),
            clock=runtime.clock,
            zones=await load_zones(runtime.connection),
            runner_id=runtime.runner_id,
            allow_loopback=options.local,
            outcomes=OutcomeOptions(tokens=options.tokens(), port=options.outcome_port),
        )
        await control.run(stop)


@asynccontextmanager
async def _runtime(options: RunnerOptions, stop: asyncio.Event) -> AsyncGenerator[Runtime | None, None]:
    """What the runner is made of, or None when it was stopped before the broker could be reached."""
    clock = choose_clock(declared=options.clock_bound, single_machine=options.local, on_step=options.on_clock_step)
    runner_id = given_runner_id(options.kind)
    login = options.login()
    connection = await join_broker(login, runner_id, stop)
    if connection is None:
        yield None
        return
    try:
        await verify(login)
        _log.info("runner-connected", runner_id=runner_id, broker=options.nats_url, clock=clock.description)
        yield Runtime(options, runner_id, clock, connection, Ledger(connection))
    finally:
        await connection.close()


async def _once_ready(ready: asyncio.Event, leases: PartitionLeases, stop: asyncio.Event) -> None:
    """Keep the leases once the runner has folded the log: what is not understood yet must not be owned."""
    waits = [asyncio.ensure_future(ready.wait()), asyncio.ensure_future(stop.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    if not stop.is_set():
        await leases.run(stop)


async def _together(stop: asyncio.Event, *parts: Awaitable[None]) -> None:
    """Run the parts of one runner; when one ends, the others are told to stop too."""

    async def until_end(part: Awaitable[None]) -> None:
        try:
            await part
        finally:
            stop.set()

    async with asyncio.TaskGroup() as group:
        for part in parts:
            group.create_task(until_end(part))
