"""Schedulers in this process on a real broker, and a desk that plays control's and the dispatcher's part."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from fireledger.domain import entries as e
from fireledger.domain.book import Folded, next_page, page_now
from fireledger.domain.commands import Command, CreateTenant, CreateTrigger
from fireledger.domain.decide import decide
from fireledger.domain.definition import Definition, Overlap, TenantSettings, seal_plain
from fireledger.domain.identifiers import book_subject, slot_of
from fireledger.domain.inputs import Inputs
from fireledger.domain.instants import MINUTE, SECOND
from fireledger.domain.limits import SLOT_COUNT
from fireledger.domain.page import AttemptsPage, MalformedPage, PageInputs, encode_attempts, encode_page
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.rules import default_rules
from fireledger.domain.zones import ZoneLibrary
from fireledger.projections.ledger_fold import FoldedAttempts, LedgerFold
from fireledger.runners.clock import Clock, realtime
from fireledger.runners.identity import new_commit_id
from fireledger.runners.jetstream.connection import BrokerConnection, Login
from fireledger.runners.jetstream.ledger import Append, Committed, Ledger, Stored
from fireledger.runners.jetstream.reader import Checkpoint, PullReader
from fireledger.runners.scheduler.ownership import Ownership
from fireledger.runners.scheduler.scheduler import Scheduler
from fireledger.runners.zone_package import load_packaged_zones
from tests.integration.brokers import RunningBroker
from tests.integration.others import Others
from tests.simulated_clock import SimulatedClock
from tests.waiting import until

BEGINNING = Checkpoint(0, b"")
ZONES = ZoneLibrary(load_packaged_zones())


class OwnsEverything:
    """Believes that it owns every slot, whatever others believe."""

    def owns_slot(self, slot: int) -> bool:
        """Yes."""
        del slot
        return True

    def owned_slots(self) -> frozenset[int]:
        """All."""
        return frozenset(range(SLOT_COUNT))

    def epoch_of(self, slot: int) -> int:
        """A lease nobody granted."""
        del slot
        return 7

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Never changes."""
        del callback
        return lambda: None


def definition(
    expression: str = "* * * * * *",
    *,
    overlap: Overlap = "allow",
    window: int = 15 * MINUTE,
    max_fires: int | None = None,
) -> Definition:
    """A trigger in UTC, every second unless said otherwise."""
    schedule = parse_cron(expression)
    gap, fold = default_rules(schedule)
    return Definition(
        schedule=schedule,
        zone="UTC",
        gap=gap,
        fold=fold,
        target="nats:demo",
        payload=seal_plain(b""),
        overlap=overlap,
        outcome_window=window,
        max_fires=max_fires,
    )


@dataclass(frozen=True)
class Read:
    """A page as the desk read it, and when."""

    folded: Folded
    arrived_at: int


@dataclass
class Desk:
    """Writes commands and attempt records, and reads everything back."""

    ledger: Ledger
    attempts: Ledger
    clock: Clock
    fold: LedgerFold = field(default_factory=lambda: LedgerFold(observing=False))
    pages: list[Read] = field(default_factory=list[Read])
    conflicts: int = 0
    failure: MalformedPage | None = None
    may_fail: bool = False

    async def follow(self, reader: PullReader) -> None:
        """Read for ever, or until something cannot be read."""
        try:
            async for batch in reader.batches():
                self._take(batch, realtime())
        except MalformedPage as error:
            self.failure = error

    def _take(self, batch: list[Stored], arrived_at: int) -> None:
        for message in batch:
            folded = self.fold.apply(message)
            if not isinstance(folded, FoldedAttempts):
                self.pages.append(Read(folded, arrived_at))

    async def do(self, tenant: str, command: Command) -> tuple[e.BookEntry, ...]:
        """Append a command's page and return its entries once it is read back and took effect."""
        number, append, entries = self._command(tenant, command)
        while not isinstance(await self.ledger.append(append), Committed):
            self.conflicts += 1
            await self._reached(tenant, number)
            number, append, entries = self._command(tenant, command)
        await self._reached(tenant, number)
        assert self.fold.book(tenant).state.effective_page >= number, "the command took no effect"
        return entries

    def _command(self, tenant: str, command: Command) -> tuple[int, Append, tuple[e.BookEntry, ...]]:
        book, reading = self.fold.book(tenant), self.clock.now()
        inputs = PageInputs(
            now=page_now(book.state, reading.earliest),
            earliest=reading.earliest,
            latest=max(reading.latest, book.state.now),
            clock_source="test",
            as_of=book.state.as_of,
            owner="desk",
        )
        entries = decide(book.state, command, Inputs(recorded=inputs, zones=ZONES))
        assert isinstance(entries, tuple), entries
        commit_id = new_commit_id()
        page = next_page(book, commit_id=commit_id, inputs=inputs, command=command, entries=entries)
        return page.number, Append(book_subject(tenant), encode_page(page), commit_id, book.head.sequence), entries

    async def _reached(self, tenant: str, number: int) -> None:
        await until(lambda: self.fold.book(tenant).head.number >= number, what=f"page {number} is read back")

    async def create(self, tenant: str, *triggers: str, of: Definition | None = None) -> None:
        """Create the tenant if need be, and triggers."""
        if self.fold.book(tenant).state.settings is None:
            zones = ZONES.current
            await self.do(
                tenant,
                CreateTenant(settings=TenantSettings(), zone_version=zones.version, zone_sha256=zones.sha256),
            )
        for trigger in triggers:
            await self.do(tenant, CreateTrigger(trigger=trigger, definition=of or definition()))

    async def attempt(self, tenant: str, fire: e.FireReleased, *, result: e.ResultKind | None = None) -> None:
        """Append an attempts page with a started record, or a result."""
        slot = slot_of(tenant)
        subject = f"attempts.{slot}"
        head = self.fold.attempts_head(subject)
        record: e.AttemptRecord
        if result is None:
            record = e.AttemptStarted(
                tenant=tenant,
                trigger=fire.trigger,
                scheduled=fire.scheduled,
                attempt=1,
                definition_page=fire.definition_page,
                timeout=30 * SECOND,
            )
        else:
            record = e.AttemptResult(
                tenant=tenant, trigger=fire.trigger, scheduled=fire.scheduled, attempt=1, result=result
            )
        page = AttemptsPage(
            slot=slot,
            number=head.number + 1,
            commit_id=new_commit_id(),
            previous_sha256=head.sha256,
            previous_stamped_at=head.stamped_at,
            owner="desk",
            epoch=1,
            records=(record,),
        )
        outcome = await self.attempts.append(Append(subject, encode_attempts(page), page.commit_id, head.sequence))
        assert isinstance(outcome, Committed)
        await until(lambda: self.fold.position >= outcome.sequence, what="the desk reads the record back")

    # What was found

    def entries(self, tenant: str) -> list[tuple[Read, e.BookEntry]]:
        """All entries of effective pages of a book, with their pages."""
        return [
            (read, entry)
            for read in self.pages
            if read.folded.page.tenant == tenant and read.folded.effective
            for entry in read.folded.page.entries
        ]

    def decided(self, tenant: str) -> Counter[tuple[str, int]]:
        """How often each instant (trigger, scheduled) of every-second triggers was decided."""
        found: Counter[tuple[str, int]] = Counter()
        for _, entry in self.entries(tenant):
            if isinstance(entry, e.FireDecided) or (isinstance(entry, e.FireReleased) and entry.decides):
                found[entry.trigger, entry.scheduled] += 1
            elif isinstance(entry, e.InstantsResolved):
                for scheduled in range(entry.first, entry.last + 1, SECOND):
                    found[entry.trigger, scheduled] += 1
        return found

    def released(self, tenant: str) -> list[tuple[Read, e.FireReleased]]:
        """All releases of a book, in order."""
        return [(read, entry) for read, entry in self.entries(tenant) if isinstance(entry, e.FireReleased)]

    def lateness(self, tenant: str, while_quiet: Others) -> list[int]:
        """Read-back minus due instant of each release that was due while nobody else worked; microseconds, sorted."""
        return sorted(
            read.arrived_at - entry.release
            for read, entry in self.released(tenant)
            if while_quiet.quiet(entry.release, entry.release + SECOND)
        )

    def check_exactly_once(self, tenant: str) -> int:
        """Assert that every-second triggers have every instant decided once, without holes; how many were."""
        decided = self.decided(tenant)
        assert set(decided.values()) <= {1}, [key for key, count in decided.items() if count > 1]
        by_trigger: dict[str, list[int]] = {}
        for trigger, scheduled in decided:
            by_trigger.setdefault(trigger, []).append(scheduled)
        for trigger, instants in by_trigger.items():
            wanted = list(range(min(instants), max(instants) + SECOND, SECOND))
            assert sorted(instants) == wanted, trigger
        return len(decided)

    def check_never_early(self, tenant: str) -> None:
        """Assert that no release was decided or stored before its instant."""
        for read, entry in self.released(tenant):
            assert read.folded.page.inputs.earliest >= entry.release
            assert read.folded.book.head.stamped_at >= entry.release, "stamped before it was due"


def percentile(values: list[int], share: float) -> float:
    """The share-th value of a sorted list, in milliseconds."""
    return values[min(len(values) - 1, int(len(values) * share))] / 1_000


@asynccontextmanager
async def opened_desk(broker: RunningBroker) -> AsyncGenerator[Desk, None]:
    """A desk on connections of its own, reading from the beginning."""
    connection = await BrokerConnection.open(broker.login("control"), name="desk")
    dispatching = await BrokerConnection.open(broker.login("dispatcher"), name="desk-attempts")
    reader = PullReader(connection, after=BEGINNING)
    desk = Desk(Ledger(connection), Ledger(dispatching), SimulatedClock())
    following = asyncio.create_task(desk.follow(reader))
    try:
        yield desk
    finally:
        await reader.close()
        following.cancel()
        await asyncio.wait({following})
        await connection.close()
        await dispatching.close()
        assert desk.may_fail or desk.failure is None


@dataclass
class Running:
    """A scheduler that runs, with what a test needs to hurt it."""

    scheduler: Scheduler
    connection: BrokerConnection
    clock: SimulatedClock
    stop: asyncio.Event
    task: asyncio.Task[None]
    may_fail: bool = False

    async def kill(self) -> None:
        """End it without any good-bye."""
        self.task.cancel()
        await self.connection.close()
        with suppress(asyncio.CancelledError):
            await self.task


@asynccontextmanager
async def scheduling(
    login: Login,
    name: str = "one",
    *,
    ownership: Ownership | None = None,
    clock: SimulatedClock | None = None,
    wait_ready: bool = True,
) -> AsyncGenerator[Running, None]:
    """A running scheduler on a connection of its own; stopped and checked at the end."""
    clock = clock or SimulatedClock()
    connection = await BrokerConnection.open(login, name=name)
    scheduler = Scheduler(
        ledger=Ledger(connection),
        reader=PullReader(connection, after=BEGINNING),
        clock=clock,
        ownership=ownership or OwnsEverything(),
        zones=ZONES,
        runner_id=name,
    )
    stop = asyncio.Event()
    task = asyncio.create_task(scheduler.run(stop))
    running = Running(scheduler, connection, clock, stop, task)
    try:
        if wait_ready:
            await until(lambda: scheduler.ready.is_set() or task.done(), what="the scheduler is ready")
        yield running
    finally:
        stop.set()
        await asyncio.wait({task}, timeout=10)
        await connection.close()
        assert task.done(), "the scheduler did not stop"
        if not (task.cancelled() or running.may_fail):
            task.result()
