"""A new time-zone database on the real broker: control adopts it, the running scheduler's due row moves.

The zones differ by seconds, so that an instant's old place passes during the test as well.
"""

import asyncio
import base64
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from fireledger.domain import entries as e
from fireledger.domain.book import empty_book, fold_page
from fireledger.domain.identifiers import book_subject
from fireledger.domain.instants import SECOND, Instant, format_instant
from fireledger.domain.page import decode_page, encode_page
from fireledger.domain.zones import ZoneDatabase, ZoneLibrary
from fireledger.runners.clock import realtime
from fireledger.runners.control.control import Control
from fireledger.runners.control_client import ControlClient
from fireledger.runners.errors import ControlRefused, ExitStatus
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.leader import Stored
from fireledger.runners.jetstream.ledger import Ledger
from fireledger.runners.jetstream.reader import Checkpoint, PullReader
from fireledger.runners.jetstream.reading import read_subject
from fireledger.runners.jetstream.topology import LEDGER
from fireledger.runners.json_edge import Json
from fireledger.runners.scheduler.scheduler import Scheduler
from fireledger.runners.zone_store import list_zones, load_zones, store_zones
from tests.integration.brokers import RunningBroker
from tests.integration.scheduler.harness import OwnsEverything
from tests.simulated_clock import SimulatedClock
from tests.unit.domain.given import decided_again, replace_entries
from tests.waiting import PATIENCE_S, until
from tests.zone_data import MadeZone, made_database

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

ZONE = "Test/Zone"
AHEAD_S = 8
"""By how much the new zone's clock is ahead of the old one's."""
OLD, NEW = made_database("2026a", MadeZone(0)), made_database("2026b", MadeZone(AHEAD_S))
BEGINNING = Checkpoint(0, b"")
TARGET = "nats:report"


def packed(database: ZoneDatabase) -> str:
    """The database as a client sends it."""
    return base64.b64encode(zlib.compress(database.pack())).decode()


@dataclass
class Running:
    """A client, a scheduler, and a connection that reads the log."""

    client: ControlClient
    scheduler: Scheduler
    connection: BrokerConnection

    async def ask(self, subject: str, **request: Json) -> dict[str, Json]:
        """Ask control for one object."""
        answer = await self.client.ask(f"control.{subject}", request)
        assert isinstance(answer, dict)
        return answer

    async def pages(self, tenant: str) -> list[Stored]:
        """Every page of a book."""
        return [stored async for stored in read_subject(self.connection, LEDGER, book_subject(tenant))]

    async def fired(self, tenant: str) -> list[int]:
        """The scheduled instants that were released."""
        return [
            entry.scheduled
            for stored in await self.pages(tenant)
            for entry in decode_page(stored.body).entries
            if isinstance(entry, e.FireReleased)
        ]


@asynccontextmanager
async def controlling(broker: RunningBroker, *known: ZoneDatabase) -> AsyncGenerator[ControlClient, None]:
    """A control that knows these databases at its start, and a client."""
    connection = await BrokerConnection.open(broker.login("control"), name="control")
    control = Control(
        connection=connection,
        ledger=Ledger(connection),
        reader=PullReader(connection, after=BEGINNING),
        clock=SimulatedClock(),
        zones=ZoneLibrary(*known),
        runner_id="control-test",
        allow_loopback=False,
    )
    stop = asyncio.Event()
    running = asyncio.create_task(control.run(stop))
    try:
        await asyncio.wait_for(control.ready.wait(), PATIENCE_S)
        asking = await BrokerConnection.open(broker.login("operator"), name="client")
        try:
            yield ControlClient(asking)
        finally:
            await asking.close()
    finally:
        stop.set()
        await asyncio.wait_for(running, PATIENCE_S)
        await connection.close()


@asynccontextmanager
async def running(broker: RunningBroker) -> AsyncGenerator[Running, None]:
    """Control and a scheduler that know the old database only; it is stored."""
    connection = await BrokerConnection.open(broker.login("scheduler"), name="scheduler")
    storing = await BrokerConnection.open(broker.login("control"), name="storing")
    await store_zones(storing, OLD)
    scheduler = Scheduler(
        ledger=Ledger(connection),
        reader=PullReader(connection, after=BEGINNING),
        clock=SimulatedClock(),
        ownership=OwnsEverything(),
        zones=ZoneLibrary(OLD),
        runner_id="scheduler-test",
        reload_zones=partial(load_zones, connection),
    )
    stop = asyncio.Event()
    deciding = asyncio.create_task(scheduler.run(stop))
    try:
        async with controlling(broker, OLD) as client:
            await until(scheduler.ready.is_set, what="the scheduler is ready")
            yield Running(client, scheduler, storing)
    finally:
        stop.set()
        await asyncio.wait_for(deciding, PATIENCE_S)
        await connection.close()
        await storing.close()


def local_time_in(seconds: int) -> tuple[int, str]:
    """An instant so many seconds from now, and the expression that names it on the old zone's clock."""
    at = Instant((realtime() // SECOND + seconds) * SECOND)
    clock = format_instant(at)[11:19]
    hour, minute, second = (int(part) for part in clock.split(":"))
    return at, f"{second} {minute} {hour} * * *"


async def test_an_armed_instant_moves_fires_once_and_can_be_decided_again(broker: RunningBroker) -> None:
    """The due row moves, it fires at the new instant alone, later pages go by the new data, and replay agrees."""
    async with running(broker) as system:
        await system.ask("tenant.create", tenant="acme")
        armed_at, expression = local_time_in(14)
        moved_to = armed_at - AHEAD_S * SECOND
        trigger: dict[str, Json] = {"tenant": "acme", "zone": ZONE, "target": TARGET}
        await system.ask("trigger.create", **trigger, trigger="alarm", cron=expression)
        await system.ask("trigger.create", **trigger, trigger="poll", cron="0 0 * * * *")
        snapshot = system.scheduler.snapshot
        await until(lambda: snapshot().next_due_at == armed_at, what="the trigger is armed")

        compared = await system.ask("tz.diff", packed=packed(NEW), instants=2)
        rows = {row["trigger"]: row for row in rows_of(compared)}
        assert rows["alarm"]["count"] == 400 or rows["alarm"]["count"] == 401
        assert instants_of(rows["alarm"])[0]["new"] == format_instant(Instant(moved_to))
        assert {str(change["change"]) for change in instants_of(rows["poll"])} == {"vanishes", "appears"}

        adopted = await system.ask("tz.adopt", packed=packed(NEW), everyone=True)
        (row,) = rows_of(adopted)
        assert (row["tenant"], row["changed"], row["error"]) == ("acme", True, None)
        await until(lambda: snapshot().next_due_at == moved_to, what="the due row moves")
        again = await system.ask("tz.adopt", to=NEW.version, tenant="acme")
        assert [each["changed"] for each in rows_of(again)] == [False]

        # The old instant passes too.
        await until(lambda: realtime() > armed_at + SECOND, what="the old instant has passed")
        fired = await system.fired("acme")
        assert fired.count(moved_to) == 1
        assert armed_at not in fired
        await check_book(system, str(row["page"]))
        status = await system.ask("tz.status")
        assert {str(each["version"]): each["tenants"] for each in rows_of(status)} == {
            OLD.version: 0,
            NEW.version: 1,
        } | dict.fromkeys(_versions(status) - {OLD.version, NEW.version}, 0)


def _versions(status: dict[str, Json]) -> set[str]:
    return {str(each["version"]) for each in rows_of(status)}


async def check_book(system: Running, adopting_page: str) -> None:
    """Check what the book shows, and that each page's decision can be made again with the bytes of its day."""
    shown = await system.ask("book.show", tenant="acme", page=int(adopting_page))
    page = rows_of(shown)[0]
    assert page["command"] == "adopt-zone-data.v1"
    entries = page["entries"]
    assert isinstance(entries, list)
    entry = entries[0]
    assert isinstance(entry, dict)
    assert (entry["topic"], entry["version"]) == ("zone-data.adopted.v1", NEW.version)
    tenant = await system.ask("tenant.show", tenant="acme")
    assert tenant["zone_data"] == NEW.version
    library, book = ZoneLibrary(OLD, NEW), empty_book("acme")
    by: list[str] = []
    for stored in await system.pages("acme"):
        by.append(book.state.zone_sha256)
        written = decode_page(stored.body)
        decided = decided_again(book.state, written, library)
        assert isinstance(decided, tuple)
        assert encode_page(replace_entries(written, decided)) == stored.body
        book = fold_page(book, stored.body, stamped_at=stored.stamped_at, sequence=stored.sequence).book
    assert {OLD.sha256, NEW.sha256} <= set(by)


async def test_a_control_that_started_earlier_learns_the_bytes(broker: RunningBroker) -> None:
    """A book that goes by data which a control has never seen makes it load that; new tenants get the newest."""
    async with running(broker) as system:
        await system.ask("tenant.create", tenant="acme", zone=ZONE)
        await system.ask("tz.adopt", packed=packed(NEW), everyone=True)
        assert {each.version for each in await list_zones(system.connection)} >= {OLD.version, NEW.version}
    async with controlling(broker, OLD) as client:
        await client.ask(
            "control.trigger.create", {"tenant": "acme", "trigger": "t", "cron": "0 9 * * *", "target": TARGET}
        )
        answer = await client.ask("control.trigger.preview", {"tenant": "acme", "trigger": "t", "count": 1})
        assert isinstance(answer, dict)
        assert str(rows_of(answer)[0]["scheduled"]).endswith(f"T08:59:{60 - AHEAD_S}Z")
        created = await client.ask("control.tenant.create", {"tenant": "globex"})
        assert isinstance(created, dict)
        assert created["zone_data"] == NEW.version


async def test_what_cannot_be_adopted_is_refused(broker: RunningBroker) -> None:
    """An unknown version, broken bytes, both or neither of the ways to say what, and a book that lacks a zone then."""
    async with running(broker) as system:
        await system.ask("tenant.create", tenant="acme", zone=ZONE)
        for request, status in [
            ({"to": "1999z", "tenant": "acme"}, ExitStatus.NOT_FOUND),
            ({"packed": base64.b64encode(b"nonsense").decode(), "tenant": "acme"}, ExitStatus.REFUSED),
            ({"packed": base64.b64encode(zlib.compress(b"nonsense")).decode(), "tenant": "acme"}, ExitStatus.REFUSED),
            ({"packed": base64.b64encode(zlib.compress(bytes(2**25))).decode(), "tenant": "acme"}, ExitStatus.REFUSED),
            ({"to": OLD.version, "packed": packed(NEW), "tenant": "acme"}, ExitStatus.REFUSED),
            ({"to": OLD.version}, ExitStatus.REFUSED),
        ]:
            with pytest.raises(ControlRefused) as caught:
                await system.client.ask("control.tz.adopt", request)
            assert caught.value.exit_status == status
            assert caught.value.hint
        lacking = made_database("2026c", MadeZone(0), name="Test/Other")
        answer = await system.ask("tz.adopt", packed=packed(lacking), everyone=True)
        (row,) = rows_of(answer)
        assert row["changed"] is False
        assert ZONE in str(row["error"])


def rows_of(answer: dict[str, Json]) -> list[dict[str, Json]]:
    """The rows of an answer."""
    rows = answer["rows"]
    assert isinstance(rows, list)
    return [row for row in rows if isinstance(row, dict)]


def instants_of(row: dict[str, Json]) -> list[dict[str, Json]]:
    """The changed instants of a row."""
    instants = row["instants"]
    assert isinstance(instants, list)
    return [each for each in instants if isinstance(each, dict)]
