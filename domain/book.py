"""A book as it is read from the log: the folded state and the chain's head. Raw bytes in, proof or error out."""

from dataclasses import dataclass

from .commands import Command
from .entries import BookEntry
from .evolve import evolve
from .page import Page, PageInputs, body_hash, book_seed, decode_page, is_effective
from .state import State, initial


class BrokenChain(ValueError):
    """A page does not follow the page before it: missing, repeated, reordered or altered. Names book and page."""


@dataclass(frozen=True, slots=True)
class Head:
    """The last page of a chain: its number, hash, broker timestamp and LEDGER sequence (all 0 before page 1)."""

    number: int
    sha256: bytes
    stamped_at: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Book:
    """A tenant's book folded up to ``head``."""

    tenant: str
    state: State
    head: Head

    def next_page_follows(self) -> tuple[int, bytes, int]:
        """Number, previous hash and previous timestamp that the next page must carry."""
        return self.head.number + 1, self.head.sha256, self.head.stamped_at


@dataclass(frozen=True, slots=True)
class Folded:
    """A page folded into its book, and whether it took effect."""

    book: Book
    page: Page
    effective: bool


def empty_book(tenant: str) -> Book:
    """A book without pages."""
    return Book(tenant, initial(), Head(0, book_seed(tenant), 0, 0))


def fold_page(book: Book, body: bytes, *, stamped_at: int, sequence: int) -> Folded:
    """Fold the next page. Raises BrokenChain when it does not follow the head, MalformedPage when unreadable."""
    page = decode_page(body)
    check_chain(book, page, sequence)
    state = evolve(book.state, page, stamped_at)
    head = Head(page.number, body_hash(body), stamped_at, sequence)
    return Folded(Book(book.tenant, state, head), page, is_effective(page.inputs, stamped_at))


def check_chain(book: Book, page: Page, sequence: int) -> None:
    """Raise BrokenChain unless the page continues the book."""
    number, sha256, stamped_at = book.next_page_follows()
    where = f'book "{book.tenant}", LEDGER sequence {sequence}'
    if page.tenant != book.tenant:
        raise BrokenChain(f'{where}: the page belongs to tenant "{page.tenant}"')
    if page.number != number:
        raise BrokenChain(f"{where}: page {page.number} stands where page {number} must")
    if page.previous_sha256 != sha256:
        raise BrokenChain(f"{where}: page {number} does not carry the hash of page {number - 1}")
    if page.previous_stamped_at != stamped_at:
        raise BrokenChain(f"{where}: page {number} does not carry the timestamp of page {number - 1}")
    if sequence <= book.head.sequence:
        raise BrokenChain(f"{where}: not above sequence {book.head.sequence} of page {number - 1}")


def page_now(state: State, earliest: int) -> int:
    """The page's *now*: the writer's earliest instant, never before the previous effective page's."""
    return max(earliest, state.now)


def next_page(
    book: Book,
    *,
    commit_id: str,
    inputs: PageInputs,
    command: Command,
    entries: tuple[BookEntry, ...],
    request_id: str = "",
    request_sha256: bytes = b"",
) -> Page:
    """The page that continues ``book``."""
    number, sha256, stamped_at = book.next_page_follows()
    return Page(
        tenant=book.tenant,
        number=number,
        commit_id=commit_id,
        previous_sha256=sha256,
        previous_stamped_at=stamped_at,
        inputs=inputs,
        command=command,
        request_id=request_id,
        request_sha256=request_sha256,
        entries=entries,
    )
