"""Outcomes: what observed records say about open fires, the outcome window, held fires and late answers."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.definition import Retry
from fireledger.domain.instants import DAY, MINUTE, SECOND
from tests.unit.domain.given import DELETE, PAUSE, TICK, Given, changed, create, cron, every, result, started

HOURLY = cron("0 * * * *")


def fired(**changes: object) -> Given:
    """An hourly trigger whose fire of 10:00 is open and started at 10:00:01."""
    book = Given(create(changed(cron("0 * * * *"), **changes))).given(TICK, at="10:00:00")
    return book.when(TICK, at="10:00:02", observed=(started("10:00:00", "10:00:01", 10),))


@pytest.mark.parametrize(
    "kind,outcome",
    [("succeeded", "succeeded"), ("final", "failed"), ("retryable", "failed"), ("timeout", "unknown")],
)
def test_a_result_finishes_the_fire(kind: e.ResultKind, outcome: str) -> None:
    """Success, refusal, a retryable failure without attempts left and a timeout each end the fire."""
    book = fired(retry=Retry(attempts=1))
    book.when(TICK, at="10:00:05", observed=(result("10:00:00", "10:00:04", 11, kind),))
    book.then(f"observed t 10:00:00 {kind}", f"finished t 10:00:00 {outcome}")
    assert book.trigger().open == ()
    assert book.state.as_of == 11


def test_an_accepted_call_leaves_the_fire_open() -> None:
    """An executor that will answer later has not answered."""
    book = fired().when(TICK, at="10:00:05", observed=(result("10:00:00", "10:00:04", 11, "accepted"),))
    book.then("observed t 10:00:00 accepted")
    assert book.next_due() == "10:15:01"


def test_the_window_ends_at_the_last_start_plus_its_length() -> None:
    """A resend begins the window anew."""
    book = fired(outcome_window=5 * MINUTE)
    assert book.next_due() == "10:05:01"
    book.when(TICK, at="10:03:00", observed=(started("10:00:00", "10:02:59", 11, resend=True),))
    assert book.next_due() == "10:07:59"


def test_unknown_needs_the_leader_asked_after_the_window() -> None:
    """A window over ends the fire as unknown only if the stream was read from its leader after that."""
    book = fired()
    assert book.when(TICK, at="10:16:00").result == ()
    assert book.when(TICK, at="10:16:00", as_of_read_at="10:15:00").result == ()
    book.when(TICK, at="10:16:00", as_of_read_at="10:15:01").then("finished t 10:00:00 unknown")
    assert book.next_due() == "11:00:00"


def test_unknown_is_never_early() -> None:
    """A window that is not over at the page's now stays open, whatever was read when."""
    book = fired()
    assert book.when(TICK, at="10:15:00", as_of_read_at="10:20:00").result == ()


def test_a_fire_that_was_never_started_stays_open() -> None:
    """Without a start there is no window: the fire waits for its dispatcher."""
    book = Given(create(HOURLY)).given(TICK, at="10:00:00")
    assert book.when(TICK, at="10:59:00", as_of_read_at="10:59:00").result == ()


@pytest.mark.parametrize("stamped_at,counts", [("10:15:00.999999", True), ("10:15:01", False)])
def test_a_result_counts_if_it_was_stamped_before_the_windows_end(stamped_at: str, counts: bool) -> None:
    """The broker's timestamp decides, not when it was observed."""
    book = fired()
    observed = (result("10:00:00", stamped_at, 11, "succeeded"),)
    book.when(TICK, at="10:20:00", observed=observed, as_of_read_at="10:20:00")
    book.then("observed t 10:00:00 succeeded", f"finished t 10:00:00 {'succeeded' if counts else 'unknown'}")


def test_a_late_result_is_recorded_and_changes_nothing() -> None:
    """After the end of a fire further records are observed, and nothing else."""
    book = fired().given(TICK, at="10:00:03")
    book.when(TICK, at="10:16:00", as_of_read_at="10:16:00")
    before = book.trigger()
    book.when(TICK, at="10:17:00", observed=(result("10:00:00", "10:16:59", 12, "succeeded"),))
    book.then("observed t 10:00:00 succeeded")
    assert book.trigger() == before


def test_a_result_of_another_attempt_says_nothing() -> None:
    """Only the attempt that is released counts."""
    book = fired().when(TICK, at="10:00:05", observed=(result("10:00:00", "10:00:04", 11, "succeeded", attempt=2),))
    book.then("observed t 10:00:00 succeeded")
    assert len(book.trigger().open) == 1


def test_the_first_of_two_results_counts() -> None:
    """A second result in the same page changes nothing."""
    book = fired().when(
        TICK,
        at="10:00:05",
        observed=(result("10:00:00", "10:00:03", 11, "final"), result("10:00:00", "10:00:04", 12, "succeeded")),
    )
    book.then("observed t 10:00:00 final", "observed t 10:00:00 succeeded", "finished t 10:00:00 failed")


def test_records_of_unknown_triggers_are_observed_alone() -> None:
    """A record that fits no fire of the book is carried and changes nothing."""
    book = fired().when(TICK, at="10:00:05", observed=(result("10:00:00", "10:00:04", 11, "final", trigger="who"),))
    book.then("observed who 10:00:00 final")


def test_a_held_fire_waits_for_a_person() -> None:
    """Held stops the window and stays open: nothing is released over it and it never becomes unknown."""
    book = fired().when(TICK, at="10:00:05", observed=(result("10:00:00", "10:00:04", 11, "held"),))
    book.then("observed t 10:00:00 held", "held t 10:00:00")
    book.when(TICK, at="11:00:00", as_of_read_at="11:00:00").then("skipped t 11:00:00 overlap")


def test_a_fire_held_in_this_page_is_open_in_this_page() -> None:
    """Held and an on-time instant in one page: the instant overlaps."""
    book = fired(outcome_window=DAY)
    book.when(TICK, at="11:00:00", observed=(result("10:00:00", "10:59:59", 11, "held"),), as_of_read_at="11:00:00")
    book.then("observed t 10:00:00 held", "held t 10:00:00", "skipped t 11:00:00 overlap")


def test_a_fire_held_in_time_does_not_end_unknown_in_the_same_page() -> None:
    """Held before the window's end, observed after it: the fire is held."""
    book = fired()
    book.when(TICK, at="10:20:00", observed=(result("10:00:00", "10:15:00", 11, "held"),), as_of_read_at="10:20:00")
    book.then("observed t 10:00:00 held", "held t 10:00:00")
    assert book.trigger().open[0].held


def test_a_held_fire_can_finish_later() -> None:
    """After held, a result ends the fire however late it is, also within the same page."""
    book = fired().given(TICK, at="10:00:03")
    book.when(TICK, at="10:00:05", observed=(result("10:00:00", "10:00:04", 11, "held"),))
    book.when(TICK, at="10:50:00", observed=(result("10:00:00", "10:49:59", 12, "succeeded"),))
    book.then("observed t 10:00:00 succeeded", "finished t 10:00:00 succeeded")
    at_once = fired().when(
        TICK,
        at="10:30:00",
        observed=(result("10:00:00", "10:00:04", 11, "held"), result("10:00:00", "10:29:59", 12, "final")),
        as_of_read_at="10:30:00",
    )
    at_once.then(
        "observed t 10:00:00 held", "observed t 10:00:00 final", "held t 10:00:00", "finished t 10:00:00 failed"
    )


def test_windows_close_while_paused_and_after_deletion() -> None:
    """A pause or a deletion stops deciding and releasing, not the end of what runs."""
    for command in (PAUSE, DELETE):
        book = fired().given(command, at="10:05:00")
        assert book.next_due() == "10:15:01"
        book.when(TICK, at="10:16:00", as_of_read_at="10:16:00").then("finished t 10:00:00 unknown")
        assert book.next_due() is None


def test_many_open_fires_end_over_several_pages() -> None:
    """More ends than a page holds are cut, and the next page goes on."""
    book = Given(create(every("1s", overlap="allow", outcome_window=SECOND)))
    instants = [book.start + number * SECOND for number in range(1, 31)]
    for number, at in enumerate(instants):
        book.when(TICK, at=at, observed=(started(at - SECOND, at, number + 2),) if number else ())
    ended: list[str] = []
    for _ in range(4):
        book.when(TICK, at="09:00:40", as_of_read_at="09:00:40", entry_limit=20)
        assert len(book.entries()) <= 20
        ended.extend(line for entry in book.entries() if (line := book.brief(entry)).startswith("finished"))
    assert len(ended) == len(set(ended)) == 29


def test_a_clock_step_is_noted_in_the_page() -> None:
    """An accepted step of the writer's clock stands in the page, before what is decided."""
    book = Given(create(HOURLY)).when(TICK, at="10:00:00", step=-3600 * SECOND)
    book.then("ClockNoted", "released t 10:00:00 on-time")
