"""Books through the library: any page is a stored event, and control's repository loads and saves them."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from dataclasses import replace

import pytest
import pytest_asyncio
from eventsourcing.persistence import DataError, IntegrityError, ProgrammingError, StoredEvent

from fireledger.domain.book import Book, BrokenChain, empty_book, fold_page, next_page
from fireledger.domain.commands import CreateTenant, Tick
from fireledger.domain.decide import decide
from fireledger.domain.definition import TenantSettings
from fireledger.domain.identifiers import book_subject
from fireledger.domain.inputs import Inputs
from fireledger.domain.instants import parse_instant
from fireledger.domain.page import BOOK_PAGE_TOPIC, Page, PageInputs, encode_page
from fireledger.domain.rejections import Rejection
from fireledger.domain.zones import ZoneLibrary
from fireledger.runners.errors import RolledBack
from fireledger.runners.eventsourcing_store.books import (
    BookRecorder,
    BookRepository,
    page_append,
    page_to_stored_event,
    stored_event_to_page,
)
from fireledger.runners.jetstream.connection import BrokerConnection, Login
from fireledger.runners.jetstream.leader import Stored
from fireledger.runners.jetstream.ledger import Append, Committed, Ledger, Lost
from fireledger.runners.zone_package import load_packaged_zones
from tests.contract.eventsourcing_store.stores import Broker, running_broker

pytestmark = pytest.mark.integration

INPUTS = PageInputs(
    now=parse_instant("2026-11-30T09:00:00Z"),
    # Wide enough for the broker's clock, whatever it says: these pages take effect.
    earliest=0,
    latest=parse_instant("2199-01-01T00:00:00Z"),
    clock_source="simulated",
    as_of=0,
    owner="control-1",
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[Broker, None, None]:
    """A broker with the product's streams; each test has a tenant of its own."""
    with running_broker(tmp_path_factory.mktemp("books") / "data") as started:
        started.provision()
        yield started


@pytest_asyncio.fixture
async def ledger(broker: Broker) -> AsyncGenerator[Ledger, None]:
    """Control's writer."""
    connection = await BrokerConnection.open(broker.login("control"), name="control")
    yield Ledger(connection)
    await connection.close()


@pytest.fixture
def recorder(broker: Broker) -> Generator[BookRecorder, None, None]:
    """The library's face of the books, as control's user."""
    made = BookRecorder(broker.login("control"))
    yield made
    made.close()


def opening(tenant: str, commit_id: str = "c1") -> Page:
    """The first page of a book."""
    zones = ZoneLibrary(load_packaged_zones())
    command = CreateTenant(
        settings=TenantSettings(zone="Europe/Rome"),
        zone_version=zones.current.version,
        zone_sha256=zones.current.sha256,
    )
    book = empty_book(tenant)
    entries = decide(book.state, command, Inputs(recorded=INPUTS, zones=zones))
    assert not isinstance(entries, Rejection)
    return next_page(book, commit_id=commit_id, inputs=INPUTS, command=command, entries=entries)


def following(book: Book, commit_id: str = "c") -> Page:
    """A page that continues a book and changes nothing."""
    return next_page(book, commit_id=commit_id, inputs=INPUTS, command=Tick(), entries=())


async def saved(repository: BookRepository, tenant: str, count: int) -> Book:
    """A book of so many pages, saved one after the other."""
    assert isinstance(await repository.save(opening(tenant), empty_book(tenant)), Committed)
    book = await repository.load(tenant)
    for number in range(2, count + 1):
        assert isinstance(await repository.save(following(book, f"c{number}"), book), Committed)
        book = await repository.load(tenant)
    return book


def test_a_page_and_its_stored_event_hold_the_same() -> None:
    """The mapping loses nothing either way, and refuses an event that says something else than its page."""
    page = opening("acme")
    event = page_to_stored_event(page)
    assert event == StoredEvent("acme", 1, BOOK_PAGE_TOPIC, encode_page(page))
    assert stored_event_to_page(event) == page
    for wrong in (
        StoredEvent("globex", 1, BOOK_PAGE_TOPIC, event.state),
        StoredEvent("acme", 2, BOOK_PAGE_TOPIC, event.state),
        StoredEvent("acme", 1, "fireledger.page.v0", event.state),
        StoredEvent("acme", 1, BOOK_PAGE_TOPIC, b"nothing"),
    ):
        with pytest.raises(DataError):
            stored_event_to_page(wrong)


@pytest.mark.asyncio
async def test_control_loads_decides_and_saves(ledger: Ledger) -> None:
    """A book is folded from its pages; what is kept of it is continued, and is the same as read from page 1."""
    repository = BookRepository(ledger)
    assert await repository.load("loads") == empty_book("loads")
    book = await saved(repository, "loads", 4)
    assert (book.head.number, book.state.settings) == (4, TenantSettings(zone="Europe/Rome"))
    assert await repository.load("loads") is book
    assert await BookRepository(ledger).load("loads") == book


@pytest.mark.asyncio
async def test_a_scheduler_that_was_faster_wins_and_is_folded(ledger: Ledger) -> None:
    """A page decided on an old book is lost to the one another writer appended, which the next load folds."""
    repository = BookRepository(ledger)
    book = await saved(repository, "loses", 2)
    rival = following(book, "rival")
    assert isinstance(
        await ledger.append(Append(book_subject("loses"), encode_page(rival), "rival", book.head.sequence)), Committed
    )
    assert isinstance(await repository.save(following(book, "mine"), book), Lost)
    fresh = await repository.load("loses")
    assert fresh.head.number == 3
    assert isinstance(await repository.save(following(fresh, "mine"), fresh), Committed)


@pytest.mark.asyncio
async def test_a_page_that_does_not_continue_the_book_is_not_saved(ledger: Ledger) -> None:
    """A page made from another book than it is saved with is a defect, found before anything is written."""
    repository = BookRepository(ledger)
    book = await saved(repository, "mixed", 2)
    with pytest.raises(ValueError, match="does not continue"):
        await repository.save(opening("mixed"), book)


@pytest.mark.asyncio
async def test_a_broken_chain_is_not_folded(ledger: Ledger) -> None:
    """A page that does not carry the hash of the one before it stops the load, cached book or not."""
    repository = BookRepository(ledger)
    book = await saved(repository, "broken", 2)
    forged = following(Book(book.tenant, book.state, empty_book("broken").head), "forged")
    await ledger.append(page_append(page_to_stored_event(forged), forged, book.head.sequence))
    for each in (repository, BookRepository(ledger)):
        with pytest.raises(BrokenChain):
            await each.load("broken")


def test_every_page_is_readable_with_the_library(broker: Broker, recorder: BookRecorder) -> None:
    """Pages written by other writers come back from the recorder as events, in every selection."""
    bodies = asyncio.run(write_pages(broker.login("scheduler"), "reads", 5))
    events = recorder.select_events("reads")
    assert [event.state for event in events] == bodies
    assert [stored_event_to_page(event).number for event in events] == [1, 2, 3, 4, 5]
    assert [event.originator_version for event in recorder.select_events("reads", gt=1, lte=4)] == [2, 3, 4]
    assert [event.originator_version for event in recorder.select_events("reads", desc=True, limit=2)] == [5, 4]
    assert (list(recorder.select_events("nobody")), list(recorder.select_events("reads", limit=0))) == ([], [])
    with pytest.raises(DataError, match="not a tenant name"):
        recorder.select_events("No.Body")


async def write_pages(login: Login, tenant: str, count: int) -> list[bytes]:
    """Write a book without the library, as the scheduler does, and return its pages' bodies."""
    connection = await BrokerConnection.open(login, name="scheduler")
    ledger, book, bodies = Ledger(connection), empty_book(tenant), [encode_page(opening(tenant))]
    for number in range(1, count + 1):
        append = Append(book_subject(tenant), bodies[-1], f"c{number}", book.head.sequence)
        outcome = await ledger.append(append)
        head = await ledger.head(book_subject(tenant))
        assert isinstance(outcome, Committed)
        assert head is not None
        book = fold_page(book, bodies[-1], stamped_at=head.stamped_at, sequence=outcome.sequence).book
        bodies.append(encode_page(following(book, f"c{number + 1}")))
    await connection.close()
    return bodies[:count]


def test_the_library_appends_pages(recorder: BookRecorder) -> None:
    """A page appended as an event is a page; one that does not follow its book, or is none, is refused."""
    first = page_to_stored_event(opening("appends"))
    assert recorder.insert_events([first]) is None
    with pytest.raises(IntegrityError, match="does not continue"):
        recorder.insert_events([first])
    with pytest.raises(DataError):
        recorder.insert_events([StoredEvent("appends", 2, BOOK_PAGE_TOPIC, b"nothing")])
    assert list(recorder.select_events("appends")) == [first]


def test_pages_of_several_books_are_inserted_all_or_none(recorder: BookRecorder) -> None:
    """Two books at once are one transaction; two pages of one book cannot be, since one holds the other's stamp."""
    one, two, three = (page_to_stored_event(opening(name)) for name in ("one", "two", "three"))
    recorder.insert_events([one, two])
    with pytest.raises(IntegrityError):
        recorder.insert_events([three, one])
    assert list(recorder.select_events("three")) == []
    with pytest.raises(ProgrammingError, match="two pages of one book"):
        recorder.insert_events([three, page_to_stored_event(opening("three", "other"))])


@pytest.mark.asyncio
async def test_a_book_that_no_longer_ends_as_it_was_read_is_not_folded(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the page that was read last is gone, or is another, the load stops: rolled back."""
    repository = BookRepository(ledger)
    book = await saved(repository, "shorter", 2)
    head = await ledger.head(book_subject("shorter"))
    assert head is not None
    for found in (None, replace(head, body=b"another"), replace(head, sequence=book.head.sequence - 1)):

        async def changed(_: str, found: Stored | None = found) -> Stored | None:
            return found

        monkeypatch.setattr(ledger, "head", changed)
        with pytest.raises(RolledBack, match="no longer ends with page 2"):
            await repository.load("shorter")
