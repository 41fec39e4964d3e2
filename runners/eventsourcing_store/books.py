"""Tenants' books through the library: every page of LEDGER, whoever wrote it, is a stored event.

The aggregate is the book, ``originator_id`` the tenant, ``originator_version`` the page's number, ``state`` the page's
body. ``BookRecorder`` is the library's face of it, ``BookRepository`` the one that control loads and saves through;
both go through the same mapping. The fold is the domain's, in the library's functional style: no aggregate class.
"""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any
from uuid import UUID

from eventsourcing.persistence import AggregateRecorder, DataError, IntegrityError, ProgrammingError, StoredEvent

from fireledger.domain.book import Book, empty_book, fold_page
from fireledger.domain.identifiers import MalformedName, book_subject
from fireledger.domain.page import BOOK_PAGE_TOPIC, MalformedPage, Page, body_hash, book_seed, decode_page, encode_page

from ..errors import RolledBack
from ..jetstream.connection import BrokerConnection, Login
from ..jetstream.leader import Stored
from ..jetstream.ledger import Append, Committed, Ledger, Lost
from ..jetstream.reading import read_subject
from ..jetstream.topology import LEDGER
from ..jetstream.transaction import BatchTooLarge, TransactionalLedger
from .link import lease
from .wire import event_headers

BOOKS_CACHED_MAX = 1_000
"""Folded books that are kept; another is folded again from its first page."""


def page_to_stored_event(page: Page) -> StoredEvent:
    """Return a page as the library knows it. Raises PageTooLarge."""
    return StoredEvent(page.tenant, page.number, page.topic, encode_page(page))


def stored_event_to_page(event: StoredEvent) -> Page:
    """Return the page that an event holds. Raises DataError when it is none, or another than the event says."""
    try:
        page = decode_page(event.state)
    except MalformedPage as error:
        raise DataError(f'version {event.originator_version} of "{event.originator_id}" is {error}') from error
    if (page.tenant, page.number, page.topic) != (event.originator_id, event.originator_version, event.topic):
        raise DataError(
            f'version {event.originator_version} of "{event.originator_id}" holds page {page.number} of "{page.tenant}"'
        )
    return page


def page_append(event: StoredEvent, page: Page, expected_sequence: int) -> Append:
    """Return what appends a page, as ``event`` holds it, behind the page at ``expected_sequence``."""
    return Append(
        book_subject(page.tenant), event.state, page.commit_id, expected_sequence, headers=event_headers(event)
    )


class BookRepository:
    """Loads books from the stream's leader and saves pages through the ledger. For one event loop."""

    def __init__(self, ledger: Ledger) -> None:
        """``ledger`` is the writer that ``save`` appends through; it shares what it saw with ``load``."""
        self._ledger = ledger
        self._books: OrderedDict[str, Book] = OrderedDict()

    async def load(self, tenant: str) -> Book:
        """Return the tenant's book up to its last page: what is kept of it, and the pages after that.

        Raises MalformedName, BrokenChain and MalformedPage for a book that cannot be folded, RolledBack when pages
        that were seen are missing, LogGap, BrokerUnavailable, BrokerRefused.
        """
        book = self._books.get(tenant) or empty_book(tenant)
        head = await self._ledger.head(book_subject(tenant))
        if head is None or head.sequence <= book.head.sequence:
            _check_unchanged(book, head)
        else:
            book = await self._fold_tail(book)
        self._keep(book)
        return book

    async def save(self, page: Page, book: Book) -> Committed | Lost:
        """Append the page that continues ``book``; Lost when another writer's page has its place: load again.

        Raises ValueError for a page that does not continue the book, and what ``Ledger.append`` raises; the outcome
        is then unknown, and the same page may be saved again to learn it.
        """
        if (page.tenant, page.number, page.previous_sha256, page.previous_stamped_at) != (
            book.tenant,
            *book.next_page_follows(),
        ):
            raise ValueError(f'page {page.number} of "{page.tenant}" does not continue the book it was decided on')
        return await self._ledger.append(page_append(page_to_stored_event(page), page, book.head.sequence))

    async def _fold_tail(self, book: Book) -> Book:
        messages = read_subject(
            self._ledger.connection, LEDGER, book_subject(book.tenant), from_sequence=book.head.sequence + 1
        )
        async with aclosing(messages):
            async for stored in messages:
                # Which page it is need not be read twice: the fold refuses any but the next.
                event = StoredEvent(book.tenant, book.head.number + 1, BOOK_PAGE_TOPIC, stored.body)
                book = fold_page(book, event.state, stamped_at=stored.stamped_at, sequence=stored.sequence).book
        return book

    def _keep(self, book: Book) -> None:
        self._books[book.tenant] = book
        self._books.move_to_end(book.tenant)
        if len(self._books) > BOOKS_CACHED_MAX:
            self._books.popitem(last=False)


def _check_unchanged(book: Book, head: Stored | None) -> None:
    """Raise RolledBack unless the head in the log is still the page the book was folded up to."""
    if book.head.sequence == 0 and head is None:
        return
    if head is None or head.sequence != book.head.sequence or body_hash(head.body) != book.head.sha256:
        raise RolledBack(
            f'the book "{book.tenant}" no longer ends with page {book.head.number} as it was read',
            hint="acknowledged pages are missing from the broker's store; stop writers and recover from the copy",
        )


class BookRecorder(AggregateRecorder):
    """The books of LEDGER as the library's aggregates. Synchronous; raises what the store's recorders raise.

    Pages of several books are inserted all or none; of one book only one at a time, because a page carries the
    timestamp that the broker gave the page before it.
    """

    def __init__(self, login: Login, *, timeout_s: float = 30.0) -> None:
        """``login`` is a user with the right to read books, and to write them if pages are to be inserted."""
        self._lease = lease(login)

        async def open_ledger(connection: BrokerConnection) -> TransactionalLedger:
            return TransactionalLedger(connection, stream=LEDGER, deadline_s=timeout_s)

        self._ledger = self._lease.run(open_ledger)

    def close(self) -> None:
        """Give the connection back. Safe to call again."""
        self._lease.close()

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Append pages. Raises DataError for what is no page, IntegrityError for one that does not follow its book."""
        del kwargs
        pages = [stored_event_to_page(event) for event in stored_events]
        if len({page.tenant for page in pages}) < len(pages):
            raise ProgrammingError("two pages of one book cannot be inserted at once; insert one after the other")
        if pages:
            self._lease.run(lambda _: self._insert(list(zip(stored_events, pages, strict=True))))
        return None

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Return a book's pages, effective or not, by page number. Raises DataError for what is no page."""
        if limit is not None and limit <= 0:
            return []
        found = self._lease.run(lambda connection: _read(connection, str(originator_id)))
        events = [event for event in found if (gt is None or event.originator_version > gt)]
        events = [event for event in events if lte is None or event.originator_version <= lte]
        return (events[::-1] if desc else events)[:limit]

    async def _insert(self, pages: Sequence[tuple[StoredEvent, Page]]) -> None:
        appends = [page_append(event, page, await self._expected(page)) for event, page in pages]
        try:
            outcome = await self._ledger.commit_together(appends)
        except BatchTooLarge as error:
            raise ProgrammingError(f"{error}; insert fewer pages at once") from error
        if isinstance(outcome, Lost):
            raise IntegrityError("another writer's page was faster; load the books again and decide again")

    async def _expected(self, page: Page) -> int:
        """The sequence of the page that this one continues. Raises IntegrityError when it is not the last one."""
        head = await self._ledger.head(book_subject(page.tenant))
        if head is None:
            number, follows, sequence = 0, (book_seed(page.tenant), 0), 0
        else:
            number, follows = _page_event(head).originator_version, (body_hash(head.body), head.stamped_at)
            sequence = head.sequence
        if page.number != number + 1 or (page.previous_sha256, page.previous_stamped_at) != follows:
            raise IntegrityError(f'page {page.number} of "{page.tenant}" does not continue the book at page {number}')
        return sequence


async def _read(connection: BrokerConnection, tenant: str) -> list[StoredEvent]:
    try:
        subject = book_subject(tenant)
    except MalformedName as error:
        raise DataError(str(error)) from error
    messages = read_subject(connection, LEDGER, subject)
    async with aclosing(messages):
        return [_page_event(stored) async for stored in messages]


def _page_event(stored: Stored) -> StoredEvent:
    try:
        page = decode_page(stored.body)
    except MalformedPage as error:
        raise DataError(f'sequence {stored.sequence} of "{stored.subject}" is {error}') from error
    return StoredEvent(page.tenant, page.number, page.topic, stored.body)
