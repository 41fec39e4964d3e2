"""A reader that was silent for too long starts again while its earlier consumer still delivers."""

import asyncio

import pytest

from fireledger.runners.jetstream import reader as module
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.leader import StreamState, stream_state
from fireledger.runners.jetstream.ledger import Ledger
from fireledger.runners.jetstream.reader import Checkpoint, PullReader
from tests.integration.brokers import RunningBroker
from tests.integration.ledger.books import Book
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]


async def test_what_an_earlier_consumer_delivers_late_is_no_gap(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a freeze: messages that arrive while the reader makes its next consumer come once, in order."""
    connection = await BrokerConnection.open(broker.login("scheduler"), name="reader")
    writing = await BrokerConnection.open(broker.login("control"), name="writer")
    ledger, book = Ledger(writing), Book("book.1.acme")
    reader = PullReader(connection, after=Checkpoint(0, b""))
    read: list[int] = []

    async def write_meanwhile(connection: BrokerConnection, stream: str) -> StreamState:
        """Write while the reader starts again, and go on only when everything has been delivered."""
        state = await stream_state(connection, stream)
        if reader.start_count and book.count < 50:
            book.settle(await ledger.append(book.next()))
            await connection.flush()
        return state

    async def follow() -> None:
        """Read for ever."""
        async for batch in reader.batches():
            read.extend(stored.sequence for stored in batch)

    monkeypatch.setattr(module, "SILENCE_MAX_S", 0.05)
    monkeypatch.setattr(module, "stream_state", write_meanwhile)
    following = asyncio.create_task(follow())
    try:
        book.settle(await ledger.append(book.next()))
        await until(lambda: following.done() or len(read) >= 20, what="twenty messages are read")
        assert not following.done() or following.exception() is None, following.exception()
        assert read == list(range(1, len(read) + 1))
        assert reader.start_count > 5
    finally:
        await reader.close()
        following.cancel()
        await asyncio.wait({following})
        await connection.close()
        await writing.close()
