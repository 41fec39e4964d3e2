"""The fire rows between attempts: asked for by hand, waiting for a retry, held, and what it all cost."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import MINUTE, SECOND, Instant
from fireledger.projections.fires import FireRow, FireRows
from tests.unit.projections.lane_log import T0, attempts_page, book_page, finished, released, started


class Log:
    """Feeds rows."""

    def __init__(self) -> None:
        self.rows = FireRows(rows_max=10)
        self.sequence = 0

    def page(self, *entries: e.BookEntry, at: int = T0) -> None:
        """Take in a book page."""
        self.sequence += 1
        self.rows.apply(book_page("acme", *entries, at=at), sequence=self.sequence, stamped_at=at)

    def attempt(self, result: e.ResultKind, *, attempt: int = 1, cost: int | None = None, at: int = T0) -> None:
        """Take in a start and its result."""
        self.sequence += 1
        answered = e.AttemptResult(
            tenant="acme", trigger="t", scheduled=T0, attempt=attempt, result=result, cost=cost, message="why"
        )
        page = attempts_page(started("acme", T0, attempt=attempt), answered, at=at)
        self.rows.apply(page, sequence=self.sequence, stamped_at=at)

    def row(self, sequence: int = 0) -> FireRow:
        """The fire's row, which must be there."""
        (row,) = [row for row in self.rows.changed_since("acme", "t", 0, limit=10) if row.sequence == sequence]
        assert row.key == FireKey("acme", "t", Instant(T0), sequence)
        return row


def test_a_fire_by_hand_waits_until_it_is_released() -> None:
    """It is on time from when it was asked for."""
    log = Log()
    log.page(e.FireRequested(trigger="t", scheduled=T0, sequence=1, definition_page=2, by="ann"))
    row = log.row(1)
    assert (row.state, row.cause, row.lane, row.release, row.released) == ("waiting", "by-hand", "on-time", T0, None)
    log.page(released(T0, sequence=1, decides=False), at=T0 + SECOND)
    assert (log.row(1).state, log.row(1).released) == ("fired", T0 + SECOND)


def test_a_retry_has_an_instant_until_it_is_released() -> None:
    """Between two attempts a fire is not finished; the last attempt's end is its own."""
    log = Log()
    log.page(released(T0))
    log.attempt("retryable", at=T0 + SECOND)
    log.page(e.RetryScheduled(trigger="t", scheduled=T0, attempt=2, at=T0 + MINUTE), at=T0 + 2 * SECOND)
    row = log.row()
    assert (row.state, row.result, row.retry_at, row.finished) == ("fired", "retryable", T0 + MINUTE, None)
    log.page(released(T0, attempt=2, decides=False), at=T0 + MINUTE)
    assert (log.row().retry_at, log.row().released) == (None, T0)
    log.attempt("succeeded", attempt=2, at=T0 + MINUTE + SECOND)
    log.page(finished(T0), at=T0 + MINUTE + 2 * SECOND)
    row = log.row()
    assert (row.outcome, row.attempts, row.finished) == ("succeeded", 2, T0 + MINUTE + SECOND)


def test_a_held_fire_says_what_it_waits_for_until_a_person_decides() -> None:
    """Let go on, it is due at once; ended, it is held no more."""
    log = Log()
    log.page(released(T0))
    log.page(e.FireHeld(trigger="t", scheduled=T0, attempt=1, message="approve me"), at=T0 + SECOND)
    assert (log.row().state, log.row().outcome, log.row().message) == ("held", "held", "approve me")
    log.page(e.HeldFireReleased(trigger="t", scheduled=T0, by="ann"), at=T0 + MINUTE)
    assert (log.row().state, log.row().outcome, log.row().retry_at) == ("fired", None, T0 + MINUTE)
    log.page(e.FireHeld(trigger="t", scheduled=T0, attempt=2), at=T0 + 2 * MINUTE)
    log.page(finished(T0, "failed"), at=T0 + 3 * MINUTE)
    assert (log.row().state, log.row().outcome, log.row().retry_at) == ("fired", "failed", None)


def test_all_that_was_reported_is_its_cost() -> None:
    """Of every attempt, and also what comes after the outcome, which changes nothing else."""
    log = Log()
    log.page(released(T0))
    assert log.row().cost is None
    log.attempt("retryable", cost=3)
    log.attempt("succeeded", attempt=2, cost=4)
    log.page(finished(T0))
    log.attempt("final", attempt=2, cost=5)
    assert (log.row().cost, log.row().result, log.row().outcome) == (12, "succeeded", "succeeded")


RETRY = e.RetryScheduled(trigger="t", scheduled=T0, attempt=2, at=T0 + MINUTE)
HELD = e.FireHeld(trigger="t", scheduled=T0, attempt=1)
LET_GO = e.HeldFireReleased(trigger="t", scheduled=T0, by="ann")


@pytest.mark.parametrize("between", [(RETRY,), (HELD,), (HELD, LET_GO)])
@pytest.mark.parametrize("kind", ["retryable", "timeout", "held", "accepted"])
def test_an_answer_that_is_repeated_between_two_attempts_finishes_nothing(
    between: tuple[e.BookEntry, ...], kind: e.ResultKind
) -> None:
    """A fire that waits for a retry or a person stays so, and its end is that of what ends it."""
    log = Log()
    log.page(released(T0))
    log.attempt("retryable", at=T0 + SECOND)
    for entry in between:
        log.page(entry, at=T0 + 2 * SECOND)
    before = log.row()
    state, outcome, retry_at = before.state, before.outcome, before.retry_at
    log.attempt(kind, at=T0 + 3 * SECOND)
    row = log.row()
    assert (row.state, row.outcome, row.retry_at, row.finished) == (state, outcome, retry_at, None)
    log.page(finished(T0, "failed", cause="cancelled"), at=T0 + 4 * SECOND)
    assert log.row().finished == T0 + 4 * SECOND


@pytest.mark.parametrize("kind", ["succeeded", "final", "retryable", "held"])
def test_what_an_attempt_says_once_the_next_is_released_is_not_the_fires(kind: e.ResultKind) -> None:
    """Also before the next one starts, and what it said just before is not the next one's answer."""
    for order in ("before", "after"):
        log = Log()
        log.page(released(T0))
        log.attempt("retryable", at=T0 + SECOND)
        log.page(RETRY, at=T0 + 2 * SECOND)
        if order == "before":
            log.attempt(kind, at=T0 + MINUTE)
        log.page(released(T0, attempt=2, decides=False), at=T0 + MINUTE)
        if order == "after":
            log.attempt(kind, at=T0 + MINUTE)
        row = log.row()
        assert (row.state, row.result, row.message, row.finished) == ("fired", None, "", None)
        log.page(finished(T0, "unknown", cause="outcome window over"), at=T0 + 30 * MINUTE)
        assert (log.row().outcome, log.row().finished) == ("unknown", T0 + 30 * MINUTE)


def test_an_outcome_window_is_over_at_its_page_whatever_came_late() -> None:
    """An answer between the window's end and the page that says so ends nothing."""
    log = Log()
    log.page(released(T0))
    log.attempt("accepted", at=T0 + SECOND)
    log.attempt("succeeded", at=T0 + 16 * MINUTE)
    log.page(finished(T0, "unknown", cause="outcome window over"), at=T0 + 17 * MINUTE)
    assert (log.row().outcome, log.row().finished) == ("unknown", T0 + 17 * MINUTE)
