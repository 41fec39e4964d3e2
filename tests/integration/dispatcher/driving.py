"""What stands in for control and scheduler in the dispatcher's tests: real pages in real books, written by hand."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fireledger.domain.book import Book, empty_book, fold_page, next_page, page_now
from fireledger.domain.commands import Command, CreateTenant, CreateTrigger, Tick
from fireledger.domain.decide import decide
from fireledger.domain.definition import Definition, TenantSettings, seal_plain
from fireledger.domain.entries import AttemptRecord, AttemptResult, AttemptStarted, BookEntry, FireReleased
from fireledger.domain.identifiers import slot_of
from fireledger.domain.inputs import Inputs
from fireledger.domain.instants import SECOND, Duration, Instant
from fireledger.domain.page import PageInputs, decode_attempts, encode_page
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.zones import ZoneLibrary
from fireledger.runners.clock import choose_clock, realtime
from fireledger.runners.dispatcher.dispatcher import Dispatcher
from fireledger.runners.dispatcher.policy import TargetPolicy
from fireledger.runners.dispatcher.reporting import Reporting
from fireledger.runners.identity import new_commit_id, new_runner_id
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.ledger import Append, Committed, Ledger
from fireledger.runners.jetstream.reader import Checkpoint, PullReader
from fireledger.runners.jetstream.reading import scan
from fireledger.runners.zone_package import load_packaged_zones
from tests.integration.brokers import RunningBroker
from tests.unit.dispatcher.owning import Owned

ZONES = load_packaged_zones()
LIBRARY = ZoneLibrary(ZONES)
CLOCK_BOUND = Duration(10_000)


def every_second(target: str, *, timeout: int = 5 * SECOND, payload: bytes = b"hello") -> Definition:
    """A definition due each second, whatever fires are open."""
    return Definition(
        schedule=parse_cron("* * * * * *"),
        zone="UTC",
        gap="skip",
        fold="both",
        target=target,
        payload=seal_plain(payload),
        content_type="text/plain",
        overlap="allow",
        timeout=timeout,
    )


class BookWriter:
    """One tenant's book, written as control and scheduler would."""

    def __init__(self, connection: BrokerConnection, tenant: str = "acme") -> None:
        self._ledger = Ledger(connection)
        self._tenant = tenant
        self._subject = f"book.{slot_of(tenant)}.{tenant}"
        self.book: Book = empty_book(tenant)

    async def write(self, command: Command, at: Instant) -> tuple[BookEntry, ...]:
        """Decide and append with a clock that says ``at``; the page's entries."""
        inputs = PageInputs(
            now=page_now(self.book.state, at),
            earliest=at,
            latest=at + 2 * CLOCK_BOUND,
            clock_source="test",
            as_of=self.book.state.as_of,
            owner="test",
        )
        entries = decide(self.book.state, command, Inputs(recorded=inputs, zones=LIBRARY))
        assert isinstance(entries, tuple), entries
        return await self.append(command, inputs, entries)

    async def append(
        self, command: Command, inputs: PageInputs, entries: tuple[BookEntry, ...]
    ) -> tuple[BookEntry, ...]:
        """Append a page of these entries and fold it as it was stored."""
        page = next_page(self.book, commit_id=new_commit_id(), inputs=inputs, command=command, entries=entries)
        outcome = await self._ledger.append(
            Append(self._subject, encode_page(page), page.commit_id, self.book.head.sequence)
        )
        assert isinstance(outcome, Committed)
        stored = await self._ledger.head(self._subject)
        assert stored is not None
        self.book = fold_page(self.book, stored.body, stamped_at=stored.stamped_at, sequence=stored.sequence).book
        return entries

    async def open(self, triggers: dict[str, Definition], *, seconds: int) -> list[str]:
        """Create the tenant and its triggers some seconds ago and decide what is due since; the released keys."""
        now = realtime()
        then = Instant(now - seconds * SECOND)
        settings = CreateTenant(settings=TenantSettings(), zone_version=ZONES.version, zone_sha256=ZONES.sha256)
        await self.write(settings, then)
        for name, definition in triggers.items():
            await self.write(CreateTrigger(trigger=name, definition=definition), then)
        # At the instant taken above: however long the pages take to write, so many whole seconds are due and no more.
        return self.released(await self.write(Tick(), now))

    def released(self, entries: tuple[BookEntry, ...]) -> list[str]:
        """The keys that entries release."""
        return [str(entry.key(self._tenant)) for entry in entries if isinstance(entry, FireReleased)]


@dataclass
class Dispatching:
    """A dispatcher at work."""

    dispatcher: Dispatcher
    running: asyncio.Task[None]
    stop: asyncio.Event
    connection: BrokerConnection
    ownership: Owned

    async def end(self) -> None:
        """Stop it as a signal would."""
        self.stop.set()
        await self.running

    async def kill(self) -> None:
        """End it without draining, as if its process were gone."""
        self.running.cancel()
        await asyncio.wait({self.running})


async def start_dispatcher(
    broker: RunningBroker, *, ownership: Owned | None = None, reporting: Reporting | None = None
) -> Dispatching:
    """A dispatcher that believes it owns every slot, or what the test says; ready."""
    owned = ownership or Owned()
    connection = await BrokerConnection.open(broker.login("dispatcher"), name="dispatcher")
    dispatcher = Dispatcher(
        connection=connection,
        ledger=Ledger(connection),
        reader_factory=lambda: PullReader(connection, after=Checkpoint(0, b"")),
        clock=choose_clock(declared=CLOCK_BOUND, single_machine=True, on_step="accept"),
        ownership=owned,
        policy=TargetPolicy(allow_loopback=True),
        runner_id=new_runner_id("dispatcher"),
        reporting=reporting,
    )
    stop = asyncio.Event()
    dispatching = Dispatching(dispatcher, asyncio.ensure_future(dispatcher.run(stop)), stop, connection, owned)
    ready = asyncio.ensure_future(dispatcher.ready.wait())
    await asyncio.wait({ready, dispatching.running}, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    assert dispatcher.ready.is_set(), "the dispatcher is not ready"
    return dispatching


@asynccontextmanager
async def dispatching(
    broker: RunningBroker, *, ownership: Owned | None = None, reporting: Reporting | None = None
) -> AsyncGenerator[Dispatching]:
    """A dispatcher for a block."""
    running = await start_dispatcher(broker, ownership=ownership, reporting=reporting)
    try:
        yield running
    finally:
        if not running.running.done():
            await running.end()
        await running.connection.close()


async def records(connection: BrokerConnection) -> list[AttemptRecord]:
    """Every record of every attempts page in the log."""
    found: list[AttemptRecord] = []
    async for stored in scan(connection, "LEDGER"):
        if stored.subject.startswith("attempts."):
            found += decode_attempts(stored.body).records
    return found


def started(found: list[AttemptRecord]) -> list[AttemptStarted]:
    """The started records."""
    return [record for record in found if isinstance(record, AttemptStarted)]


def results(found: list[AttemptRecord]) -> list[AttemptResult]:
    """The results."""
    return [record for record in found if isinstance(record, AttemptResult)]
