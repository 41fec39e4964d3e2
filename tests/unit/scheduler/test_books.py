"""Which due triggers a page looks at when it cannot look at all of them."""

from dataclasses import replace

import pytest

from fireledger.domain import entries as e
from fireledger.domain.book import page_now
from fireledger.domain.decide import decide
from fireledger.domain.inputs import Inputs
from fireledger.domain.page import PageInputs
from fireledger.runners.scheduler.books import OwnedBook, OwnedBooks, first_due
from tests.unit.domain.given import TICK, Given, create, cron, every, result, started, zones

TRIGGERS = 12


def crowded() -> Given:
    """A book in which much is due: with open fires, a waiting one, a retry, and instants that are missed."""
    schedules = [cron("* * * * *", overlap="queue"), every("30s", overlap="allow"), cron("*/5 * * * *")]
    book = Given(*(create(schedules[number % 3], f"t{number:02}") for number in range(TRIGGERS)))
    book.given(TICK, at="09:01:00")
    observed = (
        started("09:01:00", "09:01:01", 9, trigger="t00"),
        result("09:01:00", "09:01:02", 10, "retryable", trigger="t00"),
        started("09:01:00", "09:01:01", 11, trigger="t03"),
    )
    book.when(TICK, at="09:01:05", observed=observed)
    return book.when(TICK, at="09:02:00")


def owned_at(book: Given, at: int) -> tuple[OwnedBooks, OwnedBook]:
    """The book's rows, with all taken up that is due."""
    books, owned = OwnedBooks(), OwnedBook(book.state.tenant, 0, 0, complete=True)
    books.adopt(owned)
    books.refresh(owned, book.state, tuple(book.state.triggers), zones())
    books.collect(at, 0.0)
    return books, owned


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 11, 12, 20])
def test_a_page_decides_the_same_whether_it_looks_at_all_or_at_the_first(limit: int) -> None:
    """What the scheduler leaves out is what the decision would not have come to, so replaying needs no hint."""
    book = crowded()
    at = book.instant("09:20:00")
    recorded = PageInputs(
        now=page_now(book.state, at),
        earliest=at,
        latest=at + 1,
        clock_source="simulated",
        as_of=book.state.as_of,
        owner="writer",
        trigger_limit=limit,
    )
    _, owned = owned_at(book, at)
    inputs = Inputs(recorded=recorded, zones=zones())
    due = first_due(owned, book.state, limit)
    whole = decide(book.state, TICK, inputs)
    assert decide(book.state, TICK, replace(inputs, due=due, waiting=frozenset(owned.waiting))) == whole
    assert isinstance(whole, tuple)
    fired = {entry.trigger for entry in whole if isinstance(entry, e.FireReleased | e.InstantsResolved)}
    assert 0 < len(fired) <= limit + 1, "one waits for a retry and is looked at in any case"


def test_what_a_page_left_stays_due() -> None:
    """After a page of the first ones the others need no new row: they are decided in the next page."""
    book = crowded()
    at = book.instant("09:20:00")
    books, owned = owned_at(book, at)
    due = first_due(owned, book.state, 4)
    left = frozenset(owned.due) - due
    assert left
    books.settle(owned, book.state, due, zones(), left=left)
    assert owned.due.keys() == left
    assert [each.tenant for each in books.candidates(0.0)] == [book.state.tenant]
    books.settle(owned, book.state, left, zones())
    assert not owned.due
    assert list(books.candidates(0.0)) == []
