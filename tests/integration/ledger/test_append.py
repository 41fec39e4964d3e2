"""Appending to the real broker: conflicts, races, lost answers, outages and batches."""

import asyncio
import os
import signal
from collections import Counter

import pytest

from fireledger.runners.errors import BrokerRefused, BrokerUnavailable
from fireledger.runners.jetstream import ledger as ledger_module
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.leader import fetch
from fireledger.runners.jetstream.ledger import Append, Committed, Ledger, Lost
from fireledger.runners.jetstream.reading import read_subject
from tests.integration.brokers import RunningBroker
from tests.integration.ledger.books import Book, Connect, books, everything, frozen, sequences, until_above
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]


async def test_a_second_writer_with_the_same_expectation_loses(ledger: Ledger) -> None:
    """The loser is told the winner's page; the winner, asking again, is told its position again."""
    ours, rival = Append("book.1.acme", b"ours", "c1", 0), Append("book.1.acme", b"rival", "c2", 0)
    first = await ledger.append(ours)
    lost = await ledger.append(rival)
    assert first == Committed(1)
    assert isinstance(lost, Lost)
    assert lost.rival is not None
    assert (lost.rival.sequence, lost.rival.body) == (1, b"ours")
    assert await ledger.append(ours) == first
    assert await ledger.last_sequence() == 1


async def test_a_rival_with_our_bytes_is_still_a_rival(ledger: Ledger) -> None:
    """Equal bytes with another commit id, and the same commit id with other bytes, are not our page."""
    await ledger.append(Append("book.1.acme", b"same", "c1", 0))
    assert isinstance(await ledger.append(Append("book.1.acme", b"same", "c2", 0)), Lost)
    assert isinstance(await ledger.append(Append("book.1.acme", b"other", "c1", 0)), Lost)


async def test_the_position_decides_even_when_the_head_has_moved_on(ledger: Ledger) -> None:
    """A writer far behind is told the page after its expectation, and its own page is found below the head."""
    book, appends = Book("book.1.acme"), list[Append]()
    for _ in range(4):
        appends.append(book.next())
        book.settle(await ledger.append(appends[-1]))
    assert await ledger.append(appends[1]) == Committed(2)
    lost = await ledger.append(Append(book.subject, b"late", "late", 1))
    assert isinstance(lost, Lost)
    assert lost.rival is not None
    assert lost.rival.sequence == 2
    head = await ledger.head(book.subject)
    assert head is not None
    assert head.sequence == 4
    assert await ledger.head("book.1.nobody") is None


async def test_racing_writers_have_exactly_one_winner_each_time(connect: Connect) -> None:
    """Six writers on four connections race 25 times on one subject: one wins, five lose to its very page."""
    connections = [await connect(user) for user in ("scheduler", "scheduler", "control", "control")]
    ledgers = [Ledger(connections[number % 4]) for number in range(6)]
    writers = [Book("book.1.acme", f"w{number}") for number in range(6)]
    for _ in range(25):
        appends = [writer.next() for writer in writers]
        outcomes = await asyncio.gather(*(ours.append(a) for ours, a in zip(ledgers, appends, strict=True)))
        won = [writer.settle(outcome) for writer, outcome in zip(writers, outcomes, strict=True)]
        assert won.count(True) == 1
        winner = appends[won.index(True)]
        assert {outcome.rival.body for outcome in outcomes if isinstance(outcome, Lost) and outcome.rival} == {
            winner.body
        }
    assert len(await everything(connections[0])) == 25


async def test_a_lost_answer_ends_in_a_definite_one(
    broker: RunningBroker, connection: BrokerConnection, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the broker frozen the same bytes are sent again; thawed, it stores them once and we learn where."""
    monkeypatch.setattr(ledger_module, "ANSWER_TIMEOUT_S", 0.1)
    await ledger.append(Append("book.1.acme", b"one", "c1", 0))
    batch = [book.next() for book in books(40, slot=2)]
    with frozen(broker):
        single = asyncio.create_task(ledger.append(Append("book.1.acme", b"two", "c2", 1)))
        many = asyncio.create_task(ledger.append_many(batch))
        done, _ = await asyncio.wait({single, many}, timeout=0.6)
        assert not done
    assert isinstance(await single, Committed)
    assert len(sequences(await many)) == 40
    counts = Counter(stored.subject for stored in await everything(connection))
    assert counts == {"book.1.acme": 2, **{append.subject: 1 for append in batch}}


async def test_nothing_acknowledged_is_lost_and_nothing_repeated_over_kills(
    broker: RunningBroker, connection: BrokerConnection, ledger: Ledger
) -> None:
    """Three kill -9 during plain appends and batches: every page is there once, in the order of its writer."""
    singles, together = books(3, slot=1), books(30, slot=2)
    stopping = False

    async def write(some: list[Book]) -> None:
        """Append without a pause."""
        while not stopping:
            outcomes = await ledger.append_many([book.next(200) for book in some])
            assert all(book.settle(outcome) for book, outcome in zip(some, outcomes, strict=True))

    writers = [asyncio.create_task(write([book])) for book in singles] + [asyncio.create_task(write(together))]
    for _ in range(3):
        reached = ledger.highest_seen + 200
        await until_above(lambda: ledger.highest_seen, reached, what="pages are appended")
        os.kill(broker.pid, signal.SIGKILL)
        await broker.process.restart()
    reached = ledger.highest_seen + 100
    await until_above(lambda: ledger.highest_seen, reached, what="pages are appended again")
    stopping = True
    await asyncio.gather(*writers)
    found: dict[str, list[bytes]] = {}
    for stored in await everything(connection):
        found.setdefault(stored.subject, []).append(stored.body.rstrip(b"."))
    for book in singles + together:
        assert found[book.subject] == [f"{book.subject}#{number}".encode() for number in range(1, book.count + 1)]


async def test_a_batch_of_a_thousand_is_contiguous_and_each_page_at_its_place(
    connection: BrokerConnection, ledger: Ledger
) -> None:
    """The sequences worked out from one acknowledgement are where the pages really are."""
    appends = [book.next(100) for book in books(1_000)]
    found = sequences(await ledger.append_many(appends))
    assert found == list(range(1, 1_001))
    stored = await everything(connection)
    assert [(s.sequence, s.subject, s.body) for s in stored] == [
        (sequence, a.subject, a.body) for sequence, a in zip(found, appends, strict=True)
    ]


async def test_losers_are_taken_out_of_a_batch(connection: BrokerConnection, ledger: Ledger) -> None:
    """Three of 300 lost their position and one was stored before: these are told so, the rest are stored."""
    shelf = books(300)
    for book in shelf:
        book.head = 0
    appends = [book.next() for book in shelf]
    for number in (5, 77, 299):
        await ledger.append(Append(shelf[number].subject, b"rival", f"r{number}", 0))
    await ledger.append(appends[150])
    outcomes = await ledger.append_many(appends)
    lost = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Lost)]
    assert lost == [5, 77, 299]
    assert outcomes[150] == Committed(4)
    assert len(await everything(connection)) == 300


async def test_a_book_that_conflicted_stays_out_of_batches_for_a_moment(ledger: Ledger) -> None:
    """Its next page is appended alone, so that a busy rival does not make the batch fail again."""
    shelf = books(20)
    await ledger.append(Append(shelf[0].subject, b"rival", "r", 0))
    for book, outcome in zip(shelf, await ledger.append_many([b.next() for b in shelf]), strict=True):
        book.settle(outcome)
    outcomes = await ledger.append_many([book.next() for book in shelf])
    fetched = [await fetch_headers(ledger, outcome) for outcome in outcomes]
    assert [("Nats-Batch-Id" in headers) for headers in fetched] == [False] + [True] * 19


async def fetch_headers(ledger: Ledger, outcome: Committed | Lost) -> dict[str, str]:
    """The headers stored with a committed page."""
    assert isinstance(outcome, Committed)
    fetched = await fetch(ledger.connection, "LEDGER", {"seq": outcome.sequence})
    assert fetched is not None
    return dict(fetched.headers)


async def test_a_subject_twice_in_one_call_is_refused(ledger: Ledger) -> None:
    """Two pages of one book in a call would depend on each other; nothing is sent."""
    book = Book("book.1.acme")
    with pytest.raises(ValueError, match="twice"):
        await ledger.append_many([book.next(), book.next()])
    assert await ledger.last_sequence() == 0


async def test_an_outage_beyond_the_deadline_says_unknown_and_the_same_append_goes_on(
    broker: RunningBroker, connection: BrokerConnection
) -> None:
    """The caller learns that the outcome is unknown, and appending the same object later settles it."""
    ledger, append = Ledger(connection, deadline_s=0.3), Append("book.1.acme", b"x", "c1", 0)
    await broker.process.stop()
    with pytest.raises(BrokerUnavailable, match="unknown") as caught:
        await ledger.append(append)
    assert caught.value.hint
    with pytest.raises(BrokerUnavailable, match="unknown"):
        await ledger.append_many([book.next() for book in books(20)])
    await broker.process.start()
    assert await connection.wait_connected(PATIENCE_S)
    assert await ledger.append(append) == Committed(1)


async def test_missing_rights_are_a_definite_refusal(connect: Connect) -> None:
    """The dispatcher's user cannot append to a book, plain or in a batch, and hears of it at once."""
    connection = await connect("dispatcher")
    ledger = Ledger(connection)
    with pytest.raises(BrokerRefused, match=r'no right to publish on "book\.1\.acme"'):
        await asyncio.wait_for(ledger.append(Append("book.1.acme", b"x", "c1", 0)), 10)
    with pytest.raises(BrokerRefused, match="no right"):
        await asyncio.wait_for(ledger.append_many([book.next() for book in books(20)]), 10)
    assert connection.permission_error_count > 0


async def test_a_message_above_the_brokers_limit_is_a_definite_refusal(
    connection: BrokerConnection, ledger: Ledger
) -> None:
    """It is refused before it is sent: the broker would cut the connection."""
    with pytest.raises(BrokerRefused, match="above the broker's"):
        await ledger.append(Append("book.1.acme", bytes(connection.payload_bytes_max), "c1", 0))
    assert connection.connected
    assert isinstance(await ledger.append(Append("book.1.acme", bytes(900 * 1024), "c1", 0)), Committed)


async def test_what_the_socket_did_not_take_is_forgotten(broker: RunningBroker, connection: BrokerConnection) -> None:
    """A message stuck behind a full socket when the broker dies does not land after the reconnect."""
    with frozen(broker):
        for _ in range(20):
            await connection.publish("book.1.acme", bytes(900 * 1024))
        await until(lambda: connection.unsent_bytes == 0, what="the socket is full")
        await connection.publish("book.1.acme", b"too late")
        await until(lambda: connection.unsent_bytes > 0, what="a message is stuck")
        os.kill(broker.pid, signal.SIGKILL)
    await until(lambda: not connection.connected, what="the loss is noticed")
    await broker.process.restart()
    assert await connection.wait_connected(PATIENCE_S)
    await connection.flush()
    assert await everything(connection) == []


async def test_nothing_is_buffered_across_a_reconnect(broker: RunningBroker, connection: BrokerConnection) -> None:
    """What is handed over while the broker is dead never lands: neither before the client notices nor after."""
    os.kill(broker.pid, signal.SIGKILL)
    for _ in range(50):
        await connection.publish("book.1.acme", b"too late")
    await until(lambda: not connection.connected, what="the loss is noticed")
    with pytest.raises(BrokerUnavailable):
        await connection.publish("book.1.acme", b"too late")
    with pytest.raises(BrokerUnavailable):
        await connection.request("book.1.acme", b"too late", timeout_s=5)
    await broker.process.restart()
    assert await connection.wait_connected(PATIENCE_S)
    ledger = Ledger(connection)
    assert await ledger.append(Append("book.1.acme", b"first", "c1", 0)) == Committed(1)
    assert [stored.body async for stored in read_subject(connection, "LEDGER", "book.1.acme")] == [b"first"]
