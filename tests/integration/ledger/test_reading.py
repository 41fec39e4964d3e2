"""Reading a book, or a stretch of the log, up to its end at the call."""

import pytest

from fireledger.runners.errors import BrokerUnavailable
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.leader import Stored
from fireledger.runners.jetstream.ledger import Append, Ledger
from fireledger.runners.jetstream.reading import read_subject, scan
from tests.integration.brokers import RunningBroker
from tests.integration.ledger.books import Book, books

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]


async def subject_of(connection: BrokerConnection, subject: str, from_sequence: int = 1) -> list[Stored]:
    """A subject's messages."""
    return [stored async for stored in read_subject(connection, "LEDGER", subject, from_sequence=from_sequence)]


async def fill(ledger: Ledger, rounds: int) -> list[Book]:
    """A page each for a hundred books, as often as said; a batch a round."""
    shelf = books(100)
    for _ in range(rounds):
        outcomes = await ledger.append_many([book.next() for book in shelf])
        assert all(book.settle(outcome) for book, outcome in zip(shelf, outcomes, strict=True))
    return shelf


async def test_a_long_book_is_read_whole_from_any_page(connection: BrokerConnection, ledger: Ledger) -> None:
    """More pages than the broker sends at once, read from the first, the middle, the head, and after it."""
    book = Book("book.1.acme")
    for _ in range(2_300):
        book.settle(await ledger.append(book.next()))
    pages = await subject_of(connection, book.subject)
    assert [page.body for page in pages] == [f"book.1.acme#{number}".encode() for number in range(1, 2_301)]
    assert await subject_of(connection, book.subject, 1_500) == pages[1_499:]
    assert await subject_of(connection, book.subject, 2_300) == pages[-1:]
    assert await subject_of(connection, book.subject, 2_301) == []
    assert await subject_of(connection, "book.1.nobody") == []


async def test_large_pages_are_read_whole(connection: BrokerConnection, ledger: Ledger) -> None:
    """A book whose pages exceed the bytes asked for at once."""
    book = Book("book.1.acme")
    for _ in range(12):
        book.settle(await ledger.append(book.next(900 * 1024)))
    assert [len(page.body) for page in await subject_of(connection, book.subject)] == [900 * 1024] * 12
    assert len([stored async for stored in scan(connection, "LEDGER")]) == 12


async def test_every_way_to_read_gives_the_same_messages(connection: BrokerConnection, ledger: Ledger) -> None:
    """Sequence, subject, body and the broker's microsecond agree between leader, batch and consumer."""
    shelf = await fill(ledger, 3)
    all_of_it = [stored async for stored in scan(connection, "LEDGER")]
    for book in shelf[::20]:
        pages = await subject_of(connection, book.subject)
        assert pages == [stored for stored in all_of_it if stored.subject == book.subject]
        assert await ledger.head(book.subject) == pages[-1]


async def test_a_scan_keeps_to_its_borders(connection: BrokerConnection, ledger: Ledger) -> None:
    """From a sequence, from an instant, until a sequence, filtered: each border is inclusive."""
    await fill(ledger, 5)
    whole = [stored async for stored in scan(connection, "LEDGER")]
    assert [stored.sequence for stored in whole] == list(range(1, 501))
    part = [stored async for stored in scan(connection, "LEDGER", from_sequence=120, until_sequence=130)]
    assert part == whole[119:130]
    instant = whole[250].stamped_at
    late = [stored async for stored in scan(connection, "LEDGER", from_instant=instant)]
    assert late == [stored for stored in whole if stored.stamped_at >= instant]
    one = [stored async for stored in scan(connection, "LEDGER", subjects=["book.1.t7"], until_sequence=300)]
    assert one == [stored for stored in whole[:300] if stored.subject == "book.1.t7"]
    for nothing in (
        scan(connection, "LEDGER", from_sequence=501),
        scan(connection, "LEDGER", until_sequence=0),
        scan(connection, "LEDGER", from_instant=whole[-1].stamped_at + 1),
        scan(connection, "LEDGER", subjects=["attempts.*"]),
    ):
        assert [stored async for stored in nothing] == []


async def test_a_scan_ends_at_the_end_as_it_was(connection: BrokerConnection, ledger: Ledger) -> None:
    """What is appended while a scan goes on is not part of it."""
    await fill(ledger, 1)
    found: list[int] = []
    async for stored in scan(connection, "LEDGER"):
        if not found:
            await ledger.append(Append("book.2.acme", b"later", "c", 0))
        found.append(stored.sequence)
    assert found == list(range(1, 101))


async def test_reading_without_a_broker_says_so(broker: RunningBroker, connection: BrokerConnection) -> None:
    """A read during an outage raises at once what a caller may retry on."""
    await broker.process.stop()
    with pytest.raises(BrokerUnavailable):
        await subject_of(connection, "book.1.acme")
