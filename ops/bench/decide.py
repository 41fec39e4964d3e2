"""Decided fires per second through decide and commit: 10,000 triggers due at one instant, real broker.

Run as ``make bench``. Prints one line per shape: how many tenants the triggers are spread over, and the
median of several instants.
"""

import asyncio
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from fireledger.domain.book import Book, empty_book, fold_page, next_page, page_now
from fireledger.domain.commands import Command, CreateTenant, CreateTrigger, Tick
from fireledger.domain.decide import decide
from fireledger.domain.definition import Definition, TenantSettings, seal_plain
from fireledger.domain.identifiers import slot_of
from fireledger.domain.inputs import Inputs
from fireledger.domain.instants import MINUTE, SECOND, Instant
from fireledger.domain.page import Page, PageInputs, encode_page
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.rejections import Rejection
from fireledger.domain.zones import ZoneLibrary
from fireledger.runners.broker.folder import DataFolder
from fireledger.runners.broker.process import EmbeddedBroker
from fireledger.runners.clock import realtime
from fireledger.runners.identity import new_commit_id
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.ledger import Append, Committed, Ledger
from fireledger.runners.jetstream.provisioning import provision
from fireledger.runners.jetstream.topology import UserName
from fireledger.runners.supervisor.supervisor import login_of
from fireledger.runners.zone_package import load_packaged_zones

TRIGGERS = 10_000
INSTANTS = 7


@dataclass(slots=True)
class Bench:
    """Books with triggers, and the log they are written to."""

    ledger: Ledger
    zones: ZoneLibrary
    books: dict[str, Book] = field(default_factory=dict[str, Book])

    def decided(self, tenant: str, command: Command, now: Instant) -> Page | None:
        """Decide one command against one book."""
        book = self.books.get(tenant) or empty_book(tenant)
        recorded = PageInputs(
            now=page_now(book.state, now),
            earliest=now,
            latest=Instant(now + SECOND),
            clock_source="bench",
            as_of=book.state.as_of,
            owner="bench",
        )
        entries = decide(book.state, command, Inputs(recorded=recorded, zones=self.zones))
        assert not isinstance(entries, Rejection), entries
        if not entries:
            return None
        return next_page(book, commit_id=new_commit_id(), inputs=recorded, command=command, entries=entries)

    async def commit(self, pages: list[Page]) -> None:
        """Append the pages and fold them."""
        bodies = {page.tenant: encode_page(page) for page in pages}
        appends = [
            Append(
                subject=f"book.{slot_of(page.tenant)}.{page.tenant}",
                body=bodies[page.tenant],
                commit_id=page.commit_id,
                expected_sequence=self._book(page.tenant).head.sequence,
            )
            for page in pages
        ]
        results = await self.ledger.append_many(appends)
        for page, result in zip(pages, results, strict=True):
            assert isinstance(result, Committed)
            self.books[page.tenant] = fold_page(
                self._book(page.tenant),
                bodies[page.tenant],
                stamped_at=page.inputs.earliest,
                sequence=result.sequence,
            ).book

    def _book(self, tenant: str) -> Book:
        return self.books.get(tenant) or empty_book(tenant)


async def measure(ledger: Ledger, zones: ZoneLibrary, tenant_count: int) -> tuple[float, float]:
    """Median seconds for one instant of all triggers: deciding alone, and with the commit."""
    bench = Bench(ledger, zones)
    start = Instant(realtime() // MINUTE * MINUTE)
    tenants = [f"bench-{tenant_count}-{number}" for number in range(tenant_count)]
    definition = Definition(
        schedule=parse_cron("* * * * *"),
        zone="Europe/Rome",
        gap="skip",
        fold="both",
        target="nats:bench",
        payload=seal_plain(b""),
        overlap="allow",
    )
    create = CreateTenant(
        settings=TenantSettings(), zone_version=zones.current.version, zone_sha256=zones.current.sha256
    )
    await bench.commit([page for tenant in tenants if (page := bench.decided(tenant, create, start))])
    for number in range(TRIGGERS // tenant_count):
        command = CreateTrigger(trigger=f"trigger-{number:05d}", definition=definition)
        await bench.commit([page for tenant in tenants if (page := bench.decided(tenant, command, start))])
    deciding: list[float] = []
    whole: list[float] = []
    for step in range(1, INSTANTS + 1):
        began = time.perf_counter()
        now = Instant(start + step * MINUTE)
        pages = [page for tenant in tenants if (page := bench.decided(tenant, Tick(), now))]
        deciding.append(time.perf_counter() - began)
        assert sum(len(page.entries) for page in pages) == TRIGGERS
        await bench.commit(pages)
        whole.append(time.perf_counter() - began)
    return statistics.median(deciding), statistics.median(whole)


async def main() -> None:
    """Measure each shape on a broker of its own folder."""
    zones = ZoneLibrary(load_packaged_zones())
    with tempfile.TemporaryDirectory() as path:
        folder = DataFolder.open(Path(path) / "data")
        lock = folder.lock()
        broker = EmbeddedBroker(folder, lock)
        await broker.start()
        try:
            await provision(login_of(broker, UserName.ADMIN))
            connection = await BrokerConnection.open(login_of(broker, UserName.SCHEDULER), name="bench")
            for tenant_count in (1, 100, 1_000):
                deciding, whole = await measure(Ledger(connection), zones, tenant_count)
                print(
                    f"decide+commit: {TRIGGERS} triggers due at one instant, {tenant_count} tenants: "
                    f"{TRIGGERS / whole:,.0f} fires/s (decide alone {TRIGGERS / deciding:,.0f}/s)"
                )
            await connection.close()
        finally:
            await broker.stop()
            lock.release()


if __name__ == "__main__":
    asyncio.run(main())
