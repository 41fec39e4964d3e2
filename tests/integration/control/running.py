"""What the tests of control share: one that runs in this process, questions to it, and pages by other writers."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fireledger.domain.book import Folded, next_page, page_now
from fireledger.domain.commands import Tick
from fireledger.domain.decide import decide
from fireledger.domain.entries import AttemptRecord, BookEntry
from fireledger.domain.identifiers import slot_of
from fireledger.domain.inputs import Inputs
from fireledger.domain.page import AttemptsPage, PageInputs, attempts_seed, encode_attempts, encode_page
from fireledger.domain.rejections import Rejection
from fireledger.domain.zones import ZoneLibrary
from fireledger.runners.control.control import Control
from fireledger.runners.control.outcome_endpoint import OutcomeOptions
from fireledger.runners.control_client import ControlClient
from fireledger.runners.errors import ControlRefused
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.ledger import Append, Committed, Ledger
from fireledger.runners.jetstream.reader import Checkpoint, PullReader
from fireledger.runners.json_edge import Json, loads
from fireledger.runners.zone_package import load_packaged_zones
from tests.integration.brokers import RunningBroker
from tests.simulated_clock import SimulatedClock
from tests.waiting import PATIENCE_S, until

ZONES = ZoneLibrary(load_packaged_zones())
TARGET = "nats:report"


@dataclass(frozen=True)
class Ended:
    """How a process of the command line ended."""

    status: int
    stdout: str
    stderr: str


@dataclass
class Service:
    """A running control with a client beside it."""

    broker: RunningBroker
    clock: SimulatedClock
    control: Control
    client: ControlClient
    stop: asyncio.Event
    writers: dict[str, BrokerConnection] = field(default_factory=dict[str, BrokerConnection])

    async def ask(self, subject: str, **request: Json) -> dict[str, Json]:
        """Ask for one object."""
        answer = await self.client.ask(f"control.{subject}", request)
        assert isinstance(answer, dict)
        return answer

    async def refusal(self, subject: str, **request: Json) -> ControlRefused:
        """What a request is refused with."""
        try:
            answer = await self.client.ask(f"control.{subject}", request)
        except ControlRefused as error:
            return error
        raise AssertionError(f"not refused: {answer}")

    async def create(self, tenant: str, trigger: str = "nightly", **options: Json) -> dict[str, Json]:
        """Create the tenant unless it is there, and a trigger."""
        if tenant not in self.control.model.books:
            await self.ask("tenant.create", tenant=tenant)
        named: dict[str, Json] = {"tenant": tenant, "trigger": trigger, "target": TARGET}
        if not options.keys() & {"cron", "every", "at"}:
            named["cron"] = "0 2 * * *"
        return await self.ask("trigger.create", **{**named, **options})

    async def run(self, *arguments: str) -> Ended:
        """Run the command line in a process of its own."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FIRELEDGER_")}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "fireledger.runners.cli.main",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**kept, "FIRELEDGER_DATA": str(self.broker.folder.path)},
        )
        async with asyncio.timeout(PATIENCE_S):
            stdout, stderr = await process.communicate()
        return Ended(process.returncode or 0, stdout.decode(), stderr.decode())

    async def rows(self, *arguments: str) -> list[dict[str, Json]]:
        """Run a command that succeeds and return the objects it prints, one a line."""
        ended = await self.run(*arguments)
        assert (ended.status, ended.stderr) == (0, "")
        rows = [loads(line) for line in ended.stdout.splitlines()]
        return [row for row in rows if isinstance(row, dict)]

    # Other writers

    async def tick(self, tenant: str) -> Folded:
        """Write a scheduler's page as soon as something is due, and wait until control has read it."""
        await until(lambda: bool(self._due(tenant)), what="something due")
        book, inputs = self.control.model.book(tenant), self._inputs(tenant)
        page = next_page(
            book, commit_id=f"{tenant}-{book.head.number}", inputs=inputs, command=Tick(), entries=self._due(tenant)
        )
        await self._append("scheduler", f"book.{slot_of(tenant)}.{tenant}", encode_page(page), book.head.sequence)
        return Folded(self.control.model.book(tenant), page, True)

    async def attempt(self, tenant: str, *records: AttemptRecord) -> None:
        """Write the first attempts page of the tenant's slot."""
        subject = f"attempts.{slot_of(tenant)}"
        page = AttemptsPage(
            slot=slot_of(tenant),
            number=1,
            commit_id=subject,
            previous_sha256=attempts_seed(subject),
            previous_stamped_at=0,
            owner="dispatcher",
            epoch=1,
            records=records,
        )
        await self._append("dispatcher", subject, encode_attempts(page), 0)

    def _inputs(self, tenant: str) -> PageInputs:
        state, reading = self.control.model.book(tenant).state, self.clock.now()
        return PageInputs(
            now=page_now(state, reading.earliest),
            earliest=reading.earliest,
            latest=reading.latest,
            clock_source=reading.source,
            as_of=state.as_of,
            owner="scheduler",
        )

    def _due(self, tenant: str) -> tuple[BookEntry, ...]:
        decided = decide(self.control.model.book(tenant).state, Tick(), Inputs(self._inputs(tenant), ZONES))
        assert not isinstance(decided, Rejection)
        return decided

    async def _append(self, user: str, subject: str, body: bytes, expected: int) -> None:
        if user not in self.writers:
            self.writers[user] = await BrokerConnection.open(self.broker.login(user), name=user)
        outcome = await Ledger(self.writers[user]).append(Append(subject, body, f"{subject}-{expected}", expected))
        assert isinstance(outcome, Committed)
        model = self.control.model
        assert await model.wait_until(lambda: model.position >= outcome.sequence, PATIENCE_S)


@asynccontextmanager
async def running_control(
    broker: RunningBroker,
    clock: SimulatedClock,
    stop: asyncio.Event | None = None,
    *,
    outcomes: OutcomeOptions | None = None,
) -> AsyncGenerator[Control, None]:
    """A control that is ready; stopped in the end."""
    connection = await BrokerConnection.open(broker.login("control"), name="control")
    control = Control(
        connection=connection,
        ledger=Ledger(connection),
        reader=PullReader(connection, after=Checkpoint(0, b"")),
        clock=clock,
        zones=ZONES,
        runner_id="control-test",
        allow_loopback=outcomes is not None,
        outcomes=outcomes,
    )
    stop = stop or asyncio.Event()
    running = asyncio.create_task(control.run(stop))
    try:
        await asyncio.wait_for(control.ready.wait(), PATIENCE_S)
        yield control
    finally:
        stop.set()
        await asyncio.wait_for(running, PATIENCE_S)
        await connection.close()


@asynccontextmanager
async def running_service(broker: RunningBroker) -> AsyncGenerator[Service, None]:
    """A control on a simulated clock, and a client."""
    clock, stop = SimulatedClock(), asyncio.Event()
    async with running_control(broker, clock, stop) as control:
        connection = await BrokerConnection.open(broker.login("operator"), name="client")
        service = Service(broker, clock, control, ControlClient(connection), stop)
        try:
            yield service
        finally:
            for each in (connection, *service.writers.values()):
                await each.close()
