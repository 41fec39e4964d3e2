"""Lost messages stop the writer and the reader; they are never taken for a conflict."""

import asyncio
import os
import signal

import pytest

from fireledger.runners.errors import RolledBack
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.ledger import Append, Committed, Ledger
from fireledger.runners.jetstream.reader import Checkpoint, PullReader
from tests.integration.brokers import RunningBroker, cut_tail
from tests.integration.ledger.books import Book, Connect, books

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]


async def lose_tail(broker: RunningBroker, connection: BrokerConnection) -> None:
    """Kill the broker, cut its store, start it, and wait for the connection."""
    os.kill(broker.pid, signal.SIGKILL)
    await broker.process.wait()
    cut_tail(broker.folder, 1_000)
    await broker.process.restart()
    assert await connection.wait_connected(5)


async def test_a_cut_tail_stops_the_writer_for_good(
    broker: RunningBroker, connection: BrokerConnection, connect: Connect
) -> None:
    """Acknowledged pages are gone after a restart: the next append raises, also after others refill the sequences."""
    ledger, shelf = Ledger(connection), books(20)
    for book in shelf:
        book.settle(await ledger.append(book.next(200)))
    await lose_tail(broker, connection)
    with pytest.raises(RolledBack, match="rolled back") as caught:
        await ledger.append(shelf[0].next())
    assert caught.value.hint
    stranger = Ledger(await connect("control"))
    assert await stranger.last_sequence() < 20
    for number in range(20):
        assert isinstance(await stranger.append(Append(f"book.3.n{number}", b"new", f"n{number}", 0)), Committed)
    for attempt in (ledger.append(shelf[1].next()), ledger.append_many([book.next() for book in shelf])):
        with pytest.raises(RolledBack):
            await attempt
    assert ledger.stopped is not None


async def test_reused_sequences_are_noticed_by_the_bytes_seen_there(
    broker: RunningBroker, connection: BrokerConnection
) -> None:
    """The log has grown beyond what was seen by the time the writer looks: the bytes at its last page differ."""
    ledger, other, book = Ledger(connection), Ledger(connection), Book("book.1.acme")
    for _ in range(10):
        book.settle(await ledger.append(book.next(200)))
    await lose_tail(broker, connection)
    for filler in books(20, slot=3):
        await other.append(filler.next())
    with pytest.raises(RolledBack, match="no longer holds"):
        await ledger.append(book.next())


async def test_an_expectation_above_the_head_is_lost_pages_and_no_conflict(
    broker: RunningBroker, connection: BrokerConnection, connect: Connect
) -> None:
    """A writer that knows nothing but its book's head still refuses to take a shortened book for a rival's win."""
    ledger, book = Ledger(connection), Book("book.1.acme")
    for _ in range(10):
        book.settle(await ledger.append(book.next(200)))
    await lose_tail(broker, connection)
    fresh = Ledger(await connect("control"))
    with pytest.raises(RolledBack, match=f'the head of "book.1.acme" is [0-9]+, but {book.head} was seen'):
        await fresh.append(book.next())


async def test_an_acknowledgement_below_what_was_seen_stops_the_writer(ledger: Ledger) -> None:
    """A new message cannot lie below one that was read before it was sent."""
    assert await ledger.append(Append("book.1.acme", b"one", "c1", 0)) == Committed(1)
    ledger.note_seen(50)
    with pytest.raises(RolledBack, match="got sequence 2, but 50 was seen"):
        await ledger.append(Append("book.1.acme", b"two", "c2", 1))
    with pytest.raises(RolledBack):
        await ledger.append(Append("book.1.other", b"one", "c3", 0))


async def test_an_acknowledged_batch_below_what_was_seen_stops_the_writer(ledger: Ledger) -> None:
    """The first of a batch counts, not its last."""
    await ledger.append(Append("book.2.acme", b"one", "c1", 0))
    ledger.note_seen(10)
    with pytest.raises(RolledBack, match="got sequence 2, but 10 was seen"):
        await ledger.append_many([book.next() for book in books(20)])


async def test_lower_reads_stop_the_writer(ledger: Ledger) -> None:
    """A last sequence, or a subject's head, below one seen before raises."""
    await ledger.append(Append("book.1.acme", b"one", "c1", 0))
    assert await ledger.last_sequence() == 1
    ledger.note_seen(7)
    with pytest.raises(RolledBack, match="its last sequence is 1, but 7 was seen"):
        await ledger.last_sequence()


async def test_a_page_read_ahead_of_its_own_acknowledgement_is_no_alarm(ledger: Ledger) -> None:
    """Readers and other appends note higher sequences while an append is under way; it stays a success."""
    shelf = books(60)
    reader = PullReader(ledger.connection, after=Checkpoint(0, b""))

    async def follow() -> None:
        """Note what is read."""
        async for batch in reader.batches():
            ledger.note_seen(batch[-1].sequence)

    following = asyncio.create_task(follow())
    for _ in range(5):
        outcomes = await asyncio.gather(*(ledger.append(book.next()) for book in shelf))
        assert all(book.settle(outcome) for book, outcome in zip(shelf, outcomes, strict=True))
    await reader.close()
    await following


async def test_a_reader_that_saw_the_lost_tail_stops(broker: RunningBroker, connection: BrokerConnection) -> None:
    """Started again behind a page that is gone, it raises instead of waiting for the sequences to be used again."""
    ledger, book = Ledger(connection), Book("book.1.acme")
    for _ in range(20):
        book.settle(await ledger.append(book.next(200)))
    reader = PullReader(connection, after=Checkpoint(0, b""))
    batches = reader.batches()
    while reader.position < 20:
        await anext(batches)
    await lose_tail(broker, connection)
    with pytest.raises(RolledBack, match="rolled back"):
        await asyncio.wait_for(anext(batches), 30)


async def test_a_checkpoint_with_another_hash_is_refused(connection: BrokerConnection, ledger: Ledger) -> None:
    """A reader never goes on from a position whose message is not the one it knows."""
    await ledger.append(Append("book.1.acme", b"one", "c1", 0))
    for checkpoint in (Checkpoint(1, bytes(32)), Checkpoint(2, bytes(32))):
        batches = PullReader(connection, after=checkpoint).batches()
        with pytest.raises(RolledBack):
            await asyncio.wait_for(anext(batches), 30)
