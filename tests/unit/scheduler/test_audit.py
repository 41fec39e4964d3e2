"""The audit of the due calendar: what it finds, what it leaves alone, and how much it looks at."""

from collections.abc import Callable

import pytest

from fireledger.domain.state import State
from fireledger.projections.ledger_fold import LedgerFold
from fireledger.runners.scheduler.audit import AUDIT_PERIOD_S, ROWS_AT_ONCE_MAX, ROWS_PER_SECOND_MAX, RowAudit
from fireledger.runners.scheduler.books import OwnedBook, OwnedBooks
from fireledger.runners.scheduler.zone_watch import ZoneWatch
from tests.unit.domain.given import TENANT, Given, create, every


class Kept:
    """A scheduler's rows of one book, and their audit."""

    def __init__(self, book: Given) -> None:
        self.books, self.owned = OwnedBooks(), OwnedBook(TENANT, 0, 0, complete=True)
        self.books.adopt(self.owned)
        self.state: State = book.state
        self.books.refresh(self.owned, book.state, book.state.triggers, book.zones)
        fold = LedgerFold()
        fold.books[TENANT] = book.book
        self.audit = RowAudit(self.books, fold, ZoneWatch(book.zones, None))
        self._now_s = 0.0

    def look(self, times: int = 3) -> int:
        """Let it look at everything once more; how many rows have differed."""
        self._now_s += AUDIT_PERIOD_S
        for _ in range(times):
            self._now_s += ROWS_AT_ONCE_MAX / ROWS_PER_SECOND_MAX
            self.audit.go_on(self._now_s)
        return self.audit.diverged_count

    def row(self, trigger: str) -> int | None:
        """The trigger's row."""
        return self.books.calendar.row(TENANT, trigger)


def kept(count: int = 3) -> Kept:
    """Rows of triggers that are due at other times."""
    return Kept(Given(*(create(every(f"{number + 1}m"), f"t{number}") for number in range(count))))


def _lose(kept: Kept) -> None:
    kept.books.calendar.set(TENANT, "t1", None)


def _delay(kept: Kept) -> None:
    row = kept.row("t1")
    assert row is not None
    kept.books.calendar.set(TENANT, "t1", row + 1)


@pytest.mark.parametrize("harm", [_lose, _delay])
def test_a_row_that_differs_is_counted_and_made_anew(harm: Callable[[Kept], None]) -> None:
    """A lost row and a wrong one are found by the next walk over all rows, once."""
    found = kept()
    right = found.row("t1")
    assert found.look() == 0
    harm(found)
    assert found.row("t1") != right
    assert found.look() == 1
    assert found.row("t1") == right
    assert found.look() == 1


def test_what_is_being_decided_is_left_alone() -> None:
    """A row that came up is gone from the calendar until its page is read back."""
    found = kept()
    row = found.row("t0")
    assert row is not None
    found.books.collect(row, 0.0)
    assert found.row("t0") is None
    assert found.look() == 0


def test_a_book_whose_rows_are_still_made_is_left_alone() -> None:
    """It is complete only once all are there."""
    found = kept()
    _lose(found)
    found.owned.complete = False
    assert found.look() == 0
    found.owned.complete = True
    assert found.look() == 1


def test_rows_of_a_deleted_book_end_a_walk_quietly() -> None:
    """A walk that has begun goes on after the book has another owner."""
    found = kept()
    _lose(found)
    assert found.look(1) == 0
    found.books.drop(TENANT)
    assert found.look() == 0


def test_a_round_looks_at_so_many_rows_and_a_period_at_all() -> None:
    """Many rows take several rounds; with nothing left, the next walk waits for its time."""
    found = kept(ROWS_AT_ONCE_MAX + 5)
    last = f"t{ROWS_AT_ONCE_MAX + 4}"
    assert found.look(2) == 0
    found.books.calendar.set(TENANT, last, None)
    assert found.look(2) == 1
