"""The LEDGER, folded: every book's state and what attempts still have to be observed.

Fed with the stream's messages in order, whatever runner reads them. Checks every chain it meets and knows
nothing of the broker. Schedulers decide from it, control validates commands against it, dispatchers act on
the pages it returns.
"""

from collections import deque
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol, assert_never

from fireledger.domain.book import Book, BrokenChain, Folded, Head, empty_book, fold_page
from fireledger.domain.entries import AttemptObserved, AttemptRecord, AttemptReported, AttemptResult, AttemptStarted
from fireledger.domain.page import AttemptsPage, attempts_seed, body_hash, decode_attempts


class LogMessage(Protocol):
    """A message of the stream: its sequence, subject, broker timestamp (microseconds) and body."""

    @property
    def sequence(self) -> int:
        """The LEDGER sequence."""
        ...

    @property
    def subject(self) -> str:
        """The subject it was stored under."""
        ...

    @property
    def stamped_at(self) -> int:
        """The broker timestamp in microseconds."""
        ...

    @property
    def body(self) -> bytes:
        """The page, encoded."""
        ...


@dataclass(frozen=True, slots=True)
class FoldedAttempts:
    """An attempts or reports page, its chain checked, with where and when the broker stored it."""

    subject: str
    page: AttemptsPage
    stamped_at: int
    sequence: int


class LedgerFold:
    """All books and attempts chains up to ``position``. ``observing`` False keeps no pending observations."""

    def __init__(self, *, observing: bool = True) -> None:
        self.position = 0
        self.books: dict[str, Book] = {}
        self._attempts_heads: dict[str, Head] = {}
        self._pending: dict[str, deque[AttemptObserved]] = {}
        self._observing = observing

    def apply(self, message: LogMessage) -> Folded | FoldedAttempts:
        """Fold the next message.

        Raises BrokenChain when a page does not follow its predecessor, MalformedPage when it cannot be read.
        Nothing is changed then.
        """
        if message.sequence <= self.position:
            raise BrokenChain(f"LEDGER sequence {message.sequence} came after {self.position}")
        kind, _, rest = message.subject.partition(".")
        folded = self._fold_book(message, rest.partition(".")[2]) if kind == "book" else self._fold_attempts(message)
        self.position = message.sequence
        return folded

    def book(self, tenant: str) -> Book:
        """The tenant's book, empty if nothing was written yet."""
        return self.books.get(tenant) or empty_book(tenant)

    def attempts_head(self, subject: str) -> Head:
        """The head of an attempts or reports chain."""
        return self._attempts_heads.get(subject) or Head(0, attempts_seed(subject), 0, 0)

    def has_pending(self, tenant: str) -> bool:
        """Whether the book has not observed some attempt record yet."""
        return bool(self._pending.get(tenant))

    def oldest_pending_at(self, tenant: str) -> int | None:
        """The broker timestamp of the oldest unobserved record."""
        pending = self._pending.get(tenant)
        return pending[0].stamped_at if pending else None

    def pending(self, tenant: str, *, at_most: int) -> tuple[tuple[AttemptObserved, ...], int]:
        """Unobserved records in log order and the ``as_of`` that a page carrying exactly these may state.

        Whole source pages only, so that a page's as_of never splits one; at least the first source page even
        if it holds more than ``at_most`` records.
        """
        chosen: list[AttemptObserved] = []
        for _, records in groupby(self._pending.get(tenant, ()), key=_source_sequence):
            page = list(records)
            if chosen and len(chosen) + len(page) > at_most:
                return tuple(chosen), chosen[-1].source_sequence
            chosen.extend(page)
        return tuple(chosen), self.position

    def _fold_book(self, message: LogMessage, tenant: str) -> Folded:
        folded = fold_page(self.book(tenant), message.body, stamped_at=message.stamped_at, sequence=message.sequence)
        self.books[tenant] = folded.book
        pending = self._pending.get(tenant)
        while pending and pending[0].source_sequence <= folded.book.state.as_of:
            pending.popleft()
        return folded

    def _fold_attempts(self, message: LogMessage) -> FoldedAttempts:
        page = decode_attempts(message.body)
        head = self.attempts_head(message.subject)
        expected = (head.number + 1, head.sha256, head.stamped_at)
        if (page.number, page.previous_sha256, page.previous_stamped_at) != expected:
            raise BrokenChain(
                f'"{message.subject}", LEDGER sequence {message.sequence}: '
                f"page {page.number} does not follow page {head.number}"
            )
        self._attempts_heads[message.subject] = Head(
            page.number, body_hash(message.body), message.stamped_at, message.sequence
        )
        if self._observing:
            for record in page.records:
                observed = observed_from(record, stamped_at=message.stamped_at, sequence=message.sequence)
                self._pending.setdefault(record.tenant, deque()).append(observed)
        return FoldedAttempts(message.subject, page, message.stamped_at, message.sequence)


def observed_from(record: AttemptRecord, *, stamped_at: int, sequence: int) -> AttemptObserved:
    """The entry with which a book observes an attempt record."""
    match record:
        case AttemptStarted():
            return AttemptObserved(
                trigger=record.trigger,
                scheduled=record.scheduled,
                sequence=record.sequence,
                attempt=record.attempt,
                record="started",
                stamped_at=stamped_at,
                source_sequence=sequence,
                resend=record.resend,
            )
        case AttemptResult() | AttemptReported():
            return AttemptObserved(
                trigger=record.trigger,
                scheduled=record.scheduled,
                sequence=record.sequence,
                attempt=record.attempt,
                record="result" if isinstance(record, AttemptResult) else "reported",
                stamped_at=stamped_at,
                source_sequence=sequence,
                result=record.result,
                retry_after=record.retry_after if isinstance(record, AttemptResult) else None,
                cost=record.cost,
                message=record.message,
            )
        case _:
            assert_never(record)


def _source_sequence(observed: AttemptObserved) -> int:
    return observed.source_sequence
