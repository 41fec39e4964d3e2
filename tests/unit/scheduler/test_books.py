"""Which due triggers a page looks at when it cannot look at all of them, and how those that wait are kept."""

from dataclasses import replace

import pytest

from fireledger.domain import entries as e
from fireledger.domain.book import page_now
from fireledger.domain.decide import decide
from fireledger.domain.due import due_beside_waiting
from fireledger.domain.inputs import Inputs
from fireledger.domain.instants import SECOND
from fireledger.domain.limits import PACE_STEP
from fireledger.domain.page import PageInputs
from fireledger.domain.state import State, TriggerState
from fireledger.domain.zones import ZoneLibrary
from fireledger.runners.scheduler.books import OwnedBook, OwnedBooks, first_due, touched
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


def behind(count: int) -> Given:
    """A book in which one missed fire of each trigger waits for its lane, and nothing else is due."""
    daily = cron("0 9 * * *", missed="fire-all", tolerance=SECOND)
    book = Given(*(create(daily, f"t{number:03}") for number in range(count)))
    return book.when(TICK, at="2026-12-01T09:00:10Z", allowances={"catch-up": 0})


@pytest.mark.parametrize("allowed", [0, 1, 3, 100])
@pytest.mark.parametrize("level", [0, 2])
def test_what_only_waits_is_decided_the_same_with_and_without_the_hint(allowed: int, level: int) -> None:
    """A page that knows where nothing else is due releases the same fires as one that looks for it."""
    book = behind(20)
    at = book.at + SECOND
    recorded = PageInputs(
        now=at, earliest=at, latest=at + 1, clock_source="simulated", as_of=0, owner="writer",
        allowances={"catch-up": allowed}, shedding_level=level,
    )  # fmt: skip
    books, owned = owned_at(book, at)
    books.await_pace(owned, book.state)
    assert (owned.due, len(owned.waiting)) == ({}, 20)
    inputs = Inputs(recorded=recorded, zones=zones())
    whole = decide(book.state, TICK, inputs)
    assert decide(book.state, TICK, replace(inputs, due=frozenset(), waiting=frozenset(owned.waiting))) == whole
    assert isinstance(whole, tuple)
    assert len(whole) == (min(allowed, 10) if level < 2 else 0), "the tenant's share is ten a second"


def test_after_a_page_only_what_it_touched_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many triggers wait, a page that releases two of them costs two searches."""
    book = behind(50)
    at = book.at + SECOND
    books, owned = owned_at(book, at)
    books.await_pace(owned, book.state)
    book.when(TICK, at=at, allowances={"catch-up": 2})
    names = touched(book.entries(), book.state)
    searched: list[str] = []

    def counted(state: State, trigger: TriggerState, library: ZoneLibrary) -> int | None:
        searched.append(trigger.name)
        return due_beside_waiting(state, trigger, library)

    monkeypatch.setattr("fireledger.runners.scheduler.books.due_beside_waiting", counted)
    books.settle(owned, book.state, names, zones())
    assert sorted(searched) == sorted(names) == ["t000", "t001"]
    assert owned.waiting == book.state.triggers.keys() - names


def test_what_waits_in_vain_is_looked_at_again_after_a_while_and_holds_nothing_back() -> None:
    """A lane without room wakes the scheduler at the instant it says, and the book is free for what is on time."""
    book = behind(20)
    at = book.at + SECOND
    books, owned = owned_at(book, at)
    books.await_pace(owned, book.state)
    books.collect(at, 0.0)
    assert list(books.candidates(0.0)) == [owned]
    books.settle(owned, book.state, (), zones(), not_before=at + PACE_STEP)
    assert books.next_at() == at + PACE_STEP
    books.collect(at + PACE_STEP - 1, 0.0)
    assert list(books.candidates(0.0)) == []
    books.collect(at + PACE_STEP, 0.0)
    assert list(books.candidates(0.0)) == [owned]
    books.drop(owned.tenant)
    assert books.next_at() is None
