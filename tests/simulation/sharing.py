"""One process folds a message for all nodes of a run: what they would each compute from the same bytes is the same.

A page folded after a head gives one result, whoever folds it, and results are frozen; so the first node's is handed
to the others. At the end of a run everything is folded once more without this.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

from fireledger.domain.book import Book, Folded, Head, fold_page
from fireledger.domain.page import AttemptsPage, decode_attempts
from fireledger.projections import ledger_fold


@dataclass(frozen=True, slots=True)
class _Known:
    head: Head
    body: bytes
    stamped_at: int
    folded: Folded


@dataclass
class SharedFolds:
    """What has been folded so far. ``alone`` True: every node for itself."""

    alone: bool = False
    _pages: dict[int, _Known] = field(default_factory=dict[int, _Known])
    _attempts: dict[bytes, AttemptsPage] = field(default_factory=dict[bytes, AttemptsPage])

    def fold_page(self, book: Book, body: bytes, *, stamped_at: int, sequence: int) -> Folded:
        """As ``domain.book.fold_page``."""
        known = None if self.alone else self._pages.get(sequence)
        if known is not None and known.body is body and (known.stamped_at, known.head) == (stamped_at, book.head):
            return known.folded
        folded = fold_page(book, body, stamped_at=stamped_at, sequence=sequence)
        self._pages[sequence] = _Known(book.head, body, stamped_at, folded)
        return folded

    def decode_attempts(self, body: bytes) -> AttemptsPage:
        """As ``domain.page.decode_attempts``."""
        page = None if self.alone else self._attempts.get(body)
        if page is None:
            page = self._attempts[body] = decode_attempts(body)
        return page

    @contextmanager
    def placed(self) -> Generator[None, None, None]:
        """Put them in the place of what every ledger fold calls."""
        with (
            mock.patch.object(ledger_fold, "fold_page", self.fold_page),
            mock.patch.object(ledger_fold, "decode_attempts", self.decode_attempts),
        ):
            yield
