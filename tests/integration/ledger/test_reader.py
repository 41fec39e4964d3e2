"""Following the log on the real broker: everything once and in order, through outages; or a loud stop."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from fireledger.runners.errors import BrokerRefused, LogGap
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.leader import Stored
from fireledger.runners.jetstream.ledger import Append, Ledger
from fireledger.runners.jetstream.reader import BATCH_BYTES, BATCH_MESSAGES, Checkpoint, PullReader
from tests.integration.brokers import RunningBroker
from tests.integration.ledger.books import Book, Connect, books, everything, until_above
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

BEGINNING = Checkpoint(0, b"")


@asynccontextmanager
async def following(reader: PullReader) -> AsyncGenerator[list[Stored], None]:
    """What a reader hands out, collected in the background."""
    found: list[Stored] = []

    async def follow() -> None:
        """Collect."""
        async for batch in reader.batches():
            found.extend(batch)

    task = asyncio.create_task(follow())
    try:
        yield found
    finally:
        await reader.close()
        await task


async def api(connection: BrokerConnection, operation: str, body: dict[str, Any]) -> dict[str, Any]:
    """Ask the broker's interface as its administrator."""
    reply = await connection.request(f"$JS.API.{operation}", msgspec.json.encode(body), timeout_s=2)
    answer: dict[str, Any] = msgspec.json.decode(reply.payload)
    assert "error" not in answer, answer
    return answer


async def test_a_reader_goes_through_kills_within_two_seconds(
    broker: RunningBroker, connection: BrokerConnection, connect: Connect
) -> None:
    """Three kill -9 while a writer appends: contiguous, no message twice, and reading on in less than 2 s each time."""
    ledger, shelf = Ledger(await connect("control")), books(20)
    stopping = False

    async def write() -> None:
        """Append without a pause."""
        while not stopping:
            outcomes = await ledger.append_many([book.next(200) for book in shelf])
            assert all(book.settle(outcome) for book, outcome in zip(shelf, outcomes, strict=True))

    writer = asyncio.create_task(write())
    clock = asyncio.get_running_loop().time
    async with following(PullReader(connection, after=BEGINNING)) as found:
        for _ in range(3):
            enough = len(found) + 200
            await until_above(lambda: len(found), enough, what="messages are read")
            os.kill(broker.pid, signal.SIGKILL)
            await broker.process.restart()
            back_at, count = clock(), len(found)
            await until_above(lambda: len(found), count, what="messages are read again")
            assert clock() - back_at < 2
        stopping = True
        await writer
        await until(lambda: len(found) >= ledger.highest_seen, what="the reader has caught up")
    assert [stored.sequence for stored in found] == list(range(1, ledger.highest_seen + 1))
    assert found == await everything(connection)


async def test_a_reader_resumes_behind_its_checkpoint(connection: BrokerConnection, ledger: Ledger) -> None:
    """What is at the checkpoint or before it is not read again."""
    book = Book("book.1.acme")
    for _ in range(5):
        book.settle(await ledger.append(book.next()))
    third = Checkpoint(3, sha256(b"book.1.acme#3").digest())
    batches = PullReader(connection, after=third).batches()
    assert (await anext(batches))[0].sequence == 4
    await batches.aclose()


async def test_a_filtered_reader_gets_its_subjects_in_order(connection: BrokerConnection, ledger: Ledger) -> None:
    """One filter or several: what matches, and nothing else."""
    for round_number in range(3):
        for slot in (1, 2, 3):
            head = await ledger.head(f"book.{slot}.acme")
            sequence = 0 if head is None else head.sequence
            await ledger.append(Append(f"book.{slot}.acme", b"x", f"{slot}-{round_number}", sequence))
    for subjects, expected in ((["book.2.*"], [2, 5, 8]), (["book.1.*", "book.3.*"], [1, 3, 4, 6, 7, 9])):
        async with following(PullReader(connection, after=BEGINNING, subjects=subjects)) as found:
            await until_above(lambda: len(found), len(expected) - 1, what="all are read")
            assert [stored.sequence for stored in found] == expected


async def test_a_gap_stops_the_reader(connect: Connect) -> None:
    """A message deleted behind the reader's back is an error that names both sides, and what precedes is handed out."""
    admin = await connect("admin")
    await api(admin, "STREAM.CREATE.HOLES", {"name": "HOLES", "subjects": ["holes"], "storage": "memory"})
    for number in range(6):
        await admin.request("holes", str(number).encode(), timeout_s=2)
    await api(admin, "STREAM.MSG.DELETE.HOLES", {"seq": 4})
    reader = PullReader(admin, stream="HOLES", after=BEGINNING)
    with pytest.raises(LogGap, match="from sequence 3 to 5"):
        async with asyncio.timeout(30):
            _ = [batch async for batch in reader.batches()]
    assert reader.position == 3


async def test_a_trimmed_log_is_not_read_from_below(connect: Connect) -> None:
    """Where the beginning was trimmed a new reader starts after it, and an old checkpoint is refused."""
    admin = await connect("admin")
    await api(admin, "STREAM.CREATE.SHORT", {"name": "SHORT", "subjects": ["short"], "storage": "memory"})
    for number in range(6):
        await admin.request("short", str(number).encode(), timeout_s=2)
    await api(admin, "STREAM.PURGE.SHORT", {"seq": 4})
    batches = PullReader(admin, stream="SHORT", after=BEGINNING).batches()
    assert (await anext(batches))[0].sequence == 4
    await batches.aclose()
    with pytest.raises(LogGap, match="begins at 4"):
        await anext(PullReader(admin, stream="SHORT", after=Checkpoint(1, sha256(b"0").digest())).batches())


async def test_a_lost_consumer_is_made_again(connection: BrokerConnection, connect: Connect, ledger: Ledger) -> None:
    """An administrator removes the consumer under the reader: it goes on where it was."""
    admin, book = await connect("admin"), Book("book.1.acme")
    reader = PullReader(connection, after=BEGINNING)
    async with following(reader) as found:
        for number in range(1, 4):
            book.settle(await ledger.append(book.next()))
            await until_above(lambda: len(found), number - 1, what="the message is read")
            for name in (await api(admin, "CONSUMER.NAMES.LEDGER", {}))["consumers"]:
                await api(admin, f"CONSUMER.DELETE.LEDGER.{name}", {})
    assert [stored.sequence for stored in found] == [1, 2, 3]
    assert reader.start_count >= 2


async def test_a_message_is_read_soon_after_it_is_stored(connection: BrokerConnection, ledger: Ledger) -> None:
    """With a request waiting, half of the messages arrive within 20 ms of the append's start on a busy machine."""
    book, clock = Book("book.1.acme"), asyncio.get_running_loop().time
    batches = PullReader(connection, after=BEGINNING).batches()
    took: list[float] = []
    waiting = asyncio.ensure_future(anext(batches))
    for _ in range(50):
        began = clock()
        book.settle(await ledger.append(book.next()))
        assert [stored.sequence for stored in await waiting] == [book.head]
        took.append(clock() - began)
        waiting = asyncio.ensure_future(anext(batches))
    assert sorted(took)[25] < 0.02
    waiting.cancel()
    await asyncio.wait({waiting})
    await batches.aclose()


async def test_a_slow_caller_bounds_what_is_held(connection: BrokerConnection, ledger: Ledger) -> None:
    """Small requests, limited by messages or by bytes, still give everything, a bounded piece at a time."""
    for _ in range(3):
        shelf = books(200, slot=ledger.highest_seen)
        await ledger.append_many([book.next(1_000) for book in shelf])
    for batch_max, bytes_max in ((50, BATCH_BYTES), (BATCH_MESSAGES, 64 * 1024)):
        reader = PullReader(connection, after=BEGINNING, batch=batch_max, max_bytes=bytes_max)
        sizes, found = list[int](), list[int]()
        async for batch in reader.batches():
            sizes.append(len(batch))
            found += [stored.sequence for stored in batch]
            await connection.flush()
            if found[-1] == 600:
                break
        await reader.close()
        assert found == list(range(1, 601))
        assert max(sizes) <= 100
        assert reader.start_count == 1


async def test_a_reader_without_rights_is_refused(connect: Connect) -> None:
    """An executor's user cannot read the ledger, and learns it at once."""
    batches = PullReader(await connect("executor-acme"), after=BEGINNING).batches()
    with pytest.raises(BrokerRefused, match="no right"):
        await asyncio.wait_for(anext(batches), 30)


async def test_closing_ends_the_reader(connection: BrokerConnection, connect: Connect, ledger: Ledger) -> None:
    """Close ends a waiting iteration, removes the consumer, and may be called again."""
    reader = PullReader(connection, after=BEGINNING)
    async with following(reader):
        await ledger.append(Append("book.1.acme", b"x", "c", 0))
        await until(lambda: reader.position == 1, what="the message is read")
    await reader.close()
    await connection.flush()
    admin = await connect("admin")

    async def gone() -> bool:
        """Whether the stream has no consumer."""
        return not (await api(admin, "CONSUMER.NAMES.LEDGER", {})).get("consumers")

    await until(gone, what="the consumer is removed")
