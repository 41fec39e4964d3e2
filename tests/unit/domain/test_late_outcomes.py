"""What arrives after a fire has ended: recorded, counted, paid for, and without effect on what was decided."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.commands import CancelFire, SetCeiling
from fireledger.domain.definition import Retry
from fireledger.domain.instants import parse_instant
from tests.unit.domain.given import DELETE, TICK, Given, changed, create, cron, result, started

TEN = parse_instant("2026-11-30T10:00:00Z")


def fired(**changes: object) -> Given:
    """An hourly trigger whose fire of 10:00 is open and started at 10:00:01."""
    book = Given(create(changed(cron("0 * * * *"), **changes))).given(TICK, at="10:00:00")
    return book.when(TICK, at="10:00:02", observed=(started("10:00:00", "10:00:01", 10),))


@pytest.mark.parametrize("kind", ["succeeded", "retryable", "final", "held", "timeout", "accepted"])
def test_no_result_changes_an_unknown_fire(kind: e.ResultKind) -> None:
    """Unknown is terminal: whatever is reported later is observed, counted, and nothing follows."""
    book = fired().given(TICK, at="10:10:00")
    book.when(TICK, at="10:15:01", as_of_read_at="10:15:01").then("finished t 10:00:00 unknown")
    before = book.trigger()
    book.when(TICK, at="10:20:00", observed=(result("10:00:00", "10:19:59", 11, kind),))
    book.then(f"observed t 10:00:00 {kind}")
    assert (book.trigger(), book.state.late_count) == (before, 1)


def test_an_executor_that_answers_twice_is_counted() -> None:
    """The second answer changes nothing, even if it says otherwise."""
    book = fired().when(TICK, at="10:00:05", observed=(result("10:00:00", "10:00:04", 11, "succeeded"),))
    assert book.state.late_count == 0
    book.when(TICK, at="10:00:06", observed=(result("10:00:00", "10:00:05", 12, "final"),))
    book.then("observed t 10:00:00 final")
    assert book.state.late_count == 1


def test_an_answer_at_the_windows_end_is_late_though_the_fire_is_open_still() -> None:
    """Stamped too late and observed before the end is written: counted once, and the fire ends unknown."""
    book = fired().when(TICK, at="10:15:02", observed=(result("10:00:00", "10:15:01", 11, "succeeded"),))
    book.then("observed t 10:00:00 succeeded")
    assert book.state.late_count == 1
    book.when(TICK, at="10:15:03", as_of_read_at="10:15:03").then("finished t 10:00:00 unknown")


def test_an_answer_in_time_counts_however_late_it_is_observed() -> None:
    """The broker's timestamp decides; nothing is late about it."""
    book = fired()
    book.when(
        TICK, at="12:00:00", observed=(result("10:00:00", "10:15:00", 11, "succeeded"),), as_of_read_at="12:00:00"
    )
    assert book.brief(book.entries()[1]) == "finished t 10:00:00 succeeded"
    assert book.state.late_count == 0


def test_an_answer_after_a_person_cancelled_is_late() -> None:
    """Cancelled while a retry waited: the answer of the first attempt changes nothing any more."""
    book = fired().when(TICK, at="10:00:05", observed=(result("10:00:00", "10:00:04", 11, "timeout"),))
    book.given(CancelFire(trigger="t", scheduled=TEN, sequence=0, by="someone"), at="10:00:10")
    book.when(TICK, at="10:00:20", observed=(result("10:00:00", "10:00:19", 12, "succeeded"),))
    book.then("observed t 10:00:00 succeeded")
    assert book.state.late_count == 1


def test_a_late_answer_does_not_hold_up_or_free_the_schedule() -> None:
    """After unknown the next instant fires; the late success of the one before does not end it."""
    book = fired().given(TICK, at="10:00:03").when(TICK, at="10:15:01", as_of_read_at="10:15:01")
    book.given(TICK, at="11:00:00")
    book.when(TICK, at="11:00:05", observed=(result("10:00:00", "11:00:04", 11, "succeeded"),))
    book.then("observed t 10:00:00 succeeded")
    assert [fire.scheduled for fire in book.trigger().open] == [book.instant("11:00:00")]


def test_late_costs_are_paid_and_may_suspend() -> None:
    """A cost counts when it is observed, whatever became of the fire."""
    book = fired().given(SetCeiling(trigger="t", per="day", amount=10), at="10:00:02")
    book.when(TICK, at="10:15:01", as_of_read_at="10:15:01")
    book.when(TICK, at="10:20:00", observed=(result("10:00:00", "10:19:59", 11, "succeeded", cost=10),))
    book.then("observed t 10:00:00 succeeded", "TriggerSuspended t")


def test_a_late_start_is_nothing() -> None:
    """A start observed after the end of its fire neither counts as an answer nor opens anything."""
    book = fired().when(TICK, at="10:00:05", observed=(result("10:00:00", "10:00:04", 11, "succeeded"),))
    book.when(TICK, at="10:00:06", observed=(started("10:00:00", "10:00:05", 12, resend=True),))
    book.then("observed t 10:00:00 started")
    assert (book.trigger().open, book.state.late_count) == ((), 0)


def test_an_older_start_does_not_shorten_the_window() -> None:
    """Starts observed out of order: the latest one counts."""
    book = fired()
    book.when(TICK, at="10:05:00", observed=(started("10:00:00", "10:04:00", 11, resend=True),))
    book.when(TICK, at="10:05:01", observed=(started("10:00:00", "10:00:30", 12, resend=True),))
    assert book.next_due() == "10:19:00"


def test_after_a_deletion_outcomes_still_end_what_is_open() -> None:
    """What is open ends by its result; a record for a trigger that never was is carried alone."""
    book = fired(retry=Retry(attempts=1)).given(DELETE, at="10:00:03")
    book.when(TICK, at="10:00:05", observed=(result("10:00:00", "10:00:04", 11, "retryable"),))
    book.then("observed t 10:00:00 retryable", "finished t 10:00:00 failed")
    book.when(TICK, at="10:00:06", observed=(result("10:00:00", "10:00:05", 12, "succeeded", trigger="who"),))
    book.then("observed who 10:00:00 succeeded")
    assert book.state.late_count == 0
