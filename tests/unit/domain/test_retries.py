"""Rule 6: when a failed fire is tried again, what outlasts what, and when nobody tries any more."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.commands import CancelFire
from fireledger.domain.definition import Retry
from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant, parse_instant
from fireledger.domain.page import Quarantine
from fireledger.domain.rejections import RejectionCode
from fireledger.domain.retry import nominal_wait, retry_at
from tests.unit.domain.given import (
    DELETE,
    PAUSE,
    RESUME,
    TICK,
    Given,
    amend,
    changed,
    create,
    cron,
    result,
    started,
)

TEN = parse_instant("2026-11-30T10:00:00Z")
KEY = FireKey("acme", "t", Instant(TEN))
FAILED_AT = "10:00:04"
WAIT_END = parse_instant("2026-11-30T10:01:04Z")
"""The end of the nominal wait after a first attempt that failed at FAILED_AT."""


def fired(**changes: object) -> Given:
    """An hourly trigger whose fire of 10:00 is open and started at 10:00:01."""
    book = Given(create(changed(cron("0 * * * *"), **changes))).given(TICK, at="10:00:00")
    return book.when(TICK, at="10:00:02", observed=(started("10:00:00", "10:00:01", 10),))


def failed(kind: e.ResultKind = "retryable", *, retry_after: int | None = None, **changes: object) -> Given:
    """The same, and its first attempt failed."""
    observed = (result("10:00:00", FAILED_AT, 11, kind, retry_after=retry_after),)
    return fired(**changes).when(TICK, at="10:00:05", observed=observed)


def waiting_until(book: Given) -> int:
    """The instant at which the only open fire is tried again."""
    (fire,) = book.trigger().open
    assert fire.retry_at is not None
    return fire.retry_at


def test_the_waits_grow_by_the_factor_up_to_the_cap() -> None:
    """By default 1, 2, 4, 8 ... minutes, never above the hour; a factor of one keeps the base."""
    waits = [nominal_wait(Retry(), attempt) for attempt in range(1, 10)]
    assert waits == [minutes * MINUTE for minutes in (1, 2, 4, 8, 16, 32, 60, 60, 60)]
    assert {nominal_wait(Retry(factor=100), attempt) for attempt in (1, 2, 49)} == {MINUTE}
    assert nominal_wait(Retry(base=SECOND, factor=150, cap=DAY), 3) == 2_250_000
    assert nominal_wait(Retry(base=HOUR, cap=HOUR), 49) == HOUR


def test_the_spread_is_a_quarter_at_most_and_a_function_of_key_and_attempt() -> None:
    """Every retry waits its nominal time at least and a quarter more at most; the same key always as long."""
    waits: set[int] = set()
    for minutes in range(200):
        key = FireKey("acme", "t", Instant(TEN + minutes * MINUTE))
        at = retry_at(Retry(), key, failed_attempt=1, failed_at=TEN, retry_after=None)
        assert at == retry_at(Retry(), key, failed_attempt=1, failed_at=TEN, retry_after=None)
        assert MINUTE <= at - TEN < MINUTE + MINUTE // 4
        waits.add(at - TEN)
    assert len(waits) == 200
    assert min(waits) < MINUTE + SECOND
    assert max(waits) > MINUTE + 14 * SECOND


def test_the_attempts_of_one_fire_are_spread_apart() -> None:
    """The same fire is not moved by the same part of its wait each time."""
    retry = Retry(factor=100)
    ats = {retry_at(retry, KEY, failed_attempt=n, failed_at=TEN, retry_after=None) for n in range(1, 20)}
    assert len(ats) == 19


@pytest.mark.parametrize(
    "asked,counted", [(0, MINUTE), (30 * SECOND, MINUTE), (10 * MINUTE, 10 * MINUTE), (5 * HOUR, HOUR), (-1, MINUTE)]
)
def test_what_the_executor_asks_for_lengthens_the_wait_up_to_the_cap(asked: int, counted: int) -> None:
    """A shorter Retry-After changes nothing, a longer one counts, one beyond the cap counts as the cap."""
    at = retry_at(Retry(), KEY, failed_attempt=1, failed_at=TEN, retry_after=asked)
    assert counted <= at - TEN < counted + counted // 4


@pytest.mark.parametrize("kind", ["retryable", "timeout"])
def test_a_failed_attempt_is_released_again_at_its_instant(kind: e.ResultKind) -> None:
    """The entry names attempt and instant; a microsecond before it nothing happens, at it the attempt is released."""
    book = failed(kind)
    book.then(f"observed t 10:00:00 {kind}", "retry t 10:00:00 attempt 2")
    scheduled = book.entries()[-1]
    assert isinstance(scheduled, e.RetryScheduled)
    assert WAIT_END <= scheduled.at < WAIT_END + 15 * SECOND
    assert book.next_due() == book.short(scheduled.at)
    assert book.when(TICK, at=scheduled.at - 1).result == ()
    book.when(TICK, at=scheduled.at).then("released t 10:00:00 on-time attempt 2")
    (fire,) = book.trigger().open
    assert (fire.attempt, fire.started_at, fire.retry_at, fire.released_at) == (2, None, None, scheduled.at)


def test_the_wait_counts_from_the_brokers_timestamp_of_the_result() -> None:
    """However late a result is observed, the wait began when the broker stamped it."""
    book = fired()
    late = (result("10:00:00", FAILED_AT, 11, "retryable"),)
    book.when(TICK, at="10:09:00", observed=late)
    # The instant has passed, so the attempt is released in the same page.
    book.then("observed t 10:00:00 retryable", "retry t 10:00:00 attempt 2", "released t 10:00:00 on-time attempt 2")


def test_a_result_with_retry_after_moves_the_entry() -> None:
    """What the executor asked for stands in the observation and in the instant."""
    book = failed(retry_after=10 * MINUTE)
    assert waiting_until(book) >= WAIT_END + 9 * MINUTE


def test_retries_end_with_the_attempts() -> None:
    """The last retryable failure ends the fire failed, the last timeout ends it unknown."""
    for kind, outcome in (("retryable", "failed"), ("timeout", "unknown")):
        book = failed("retryable", retry=Retry(attempts=2))
        at = waiting_until(book)
        book.given(TICK, at=at)
        last: e.ResultKind = "timeout" if kind == "timeout" else "retryable"
        records = (
            started("10:00:00", at + 1, 12, attempt=2),
            result("10:00:00", at + SECOND, 13, last, attempt=2),
        )
        book.when(TICK, at=at + 2 * SECOND, observed=records)
        assert book.brief(book.entries()[-1]) == f"finished t 10:00:00 {outcome}"
        assert book.trigger().open == ()


def test_a_waiting_retry_keeps_the_fire_open() -> None:
    """No window runs while an attempt waits, and the next instant of the schedule overlaps."""
    book = failed(retry=Retry(base=2 * HOUR, cap=3 * HOUR))
    book.when(TICK, at="11:00:00", as_of_read_at="11:00:00").then("skipped t 11:00:00 overlap")
    assert len(book.trigger().open) == 1


def test_a_success_while_a_retry_waits_ends_the_fire() -> None:
    """An answer of the attempt that seemed to fail, reported late, still counts; nothing is tried again."""
    book = failed("timeout")
    book.when(TICK, at="10:00:30", observed=(result("10:00:00", "10:00:29", 12, "succeeded"),))
    book.then("observed t 10:00:00 succeeded", "finished t 10:00:00 succeeded")
    assert book.when(TICK, at="10:30:00", as_of_read_at="10:30:00").result == ()


def test_a_second_failure_of_the_same_attempt_changes_nothing() -> None:
    """A duplicate failure neither moves the instant nor uses up an attempt."""
    book = failed("timeout")
    at = waiting_until(book)
    book.when(TICK, at="10:00:30", observed=(result("10:00:00", "10:00:29", 12, "retryable"),))
    book.then("observed t 10:00:00 retryable")
    assert waiting_until(book) == at


def test_a_result_of_an_older_attempt_changes_nothing() -> None:
    """Once the next attempt is released, an answer to the one before is late: recorded and counted."""
    book = failed("timeout")
    book.given(TICK, at=waiting_until(book))
    book.when(TICK, at="10:02:00", observed=(result("10:00:00", "10:01:59", 12, "succeeded"),))
    book.then("observed t 10:00:00 succeeded")
    assert book.trigger().open[0].attempt == 2
    assert book.state.late_count == 1


def test_the_second_attempts_window_begins_at_its_own_start() -> None:
    """A released retry has no window until the dispatcher starts it."""
    book = failed()
    at = waiting_until(book)
    book.given(TICK, at=at)
    assert book.next_due() == "11:00:00"
    book.when(TICK, at=at + SECOND, observed=(started("10:00:00", at + SECOND, 12, attempt=2),))
    assert book.next_due() == book.short(at + SECOND + 15 * MINUTE)


def test_a_failure_after_the_window_is_not_tried_again() -> None:
    """A result stamped at or after the window's end is late, whatever it says."""
    book = fired()
    observed = (result("10:00:00", "10:15:01", 11, "retryable"),)
    book.when(TICK, at="10:16:00", observed=observed, as_of_read_at="10:16:00")
    book.then("observed t 10:00:00 retryable", "finished t 10:00:00 unknown")
    assert book.state.late_count == 1


def test_a_pause_holds_a_retry_back_and_resume_lets_it_go() -> None:
    """Nothing is released between pause and resume; the first tick after it releases what is due."""
    book = failed().given(PAUSE, at="10:00:30")
    assert book.when(TICK, at="10:20:00", as_of_read_at="10:20:00").result == ()
    assert book.next_due() is None
    book.given(RESUME, at="10:30:00")
    book.when(TICK, at="10:30:00").then("released t 10:00:00 on-time attempt 2")


def test_an_amendment_leaves_a_waiting_retry_where_it_is() -> None:
    """The instant is an entry's field: other attempts, base or schedule do not move it, nor the page it is sent by."""
    book = failed()
    at = waiting_until(book)
    book.given(amend(cron("30 * * * *", retry=Retry(attempts=1), target="nats:other")), at="10:00:30")
    book.when(TICK, at=at).then("released t 10:00:00 on-time attempt 2")
    released = book.entries()[-1]
    assert isinstance(released, e.FireReleased)
    assert released.definition_page == 2
    last = (started("10:00:00", at + 1, 12, attempt=2), result("10:00:00", at + 2, 13, "retryable", attempt=2))
    book.when(TICK, at=at + SECOND, observed=last)
    assert book.brief(book.entries()[-1]) == "finished t 10:00:00 failed"


def test_deletion_ends_a_waiting_retry() -> None:
    """What waited for its next attempt ends failed, by entry, and no attempt follows."""
    book = failed()
    book.when(DELETE, at="10:00:30").then("finished t 10:00:00 failed", "TriggerDeleted t")
    assert book.when(TICK, at="10:30:00", as_of_read_at="10:30:00").result == ()


def test_nothing_of_a_deleted_trigger_is_tried_again() -> None:
    """An attempt under way at the deletion that fails afterwards ends the fire, and the entry says why."""
    book = fired().given(DELETE, at="10:00:03")
    book.when(TICK, at="10:00:05", observed=(result("10:00:00", "10:00:04", 11, "retryable"),))
    book.then("observed t 10:00:00 retryable", "finished t 10:00:00 failed")
    finished = book.entries()[-1]
    assert isinstance(finished, e.FireFinished)
    assert finished.cause == "trigger deleted"


def test_quarantine_holds_a_retry_back_until_an_amendment() -> None:
    """A trigger that cannot be decided is not tried again either."""
    book = failed()
    book.when(TICK, at="10:00:30", quarantine=(Quarantine("t", "broken"),))
    assert book.when(TICK, at="10:20:00", as_of_read_at="10:20:00").result == ()
    book.given(amend(cron("0 * * * *")), at="10:21:00")
    book.when(TICK, at="10:21:00").then("released t 10:00:00 on-time attempt 2")


def test_a_retry_can_be_cancelled_while_it_waits() -> None:
    """A person ends the fire failed, cause cancelled; under way it cannot be called back."""
    cancel = CancelFire(trigger="t", scheduled=TEN, sequence=0, by="someone")
    fired().when(cancel, at="10:00:03").then_refused(RejectionCode.FIRE_UNDER_WAY)
    book = failed().when(cancel, at="10:00:30").then("finished t 10:00:00 failed")
    (finished,) = book.entries()
    assert isinstance(finished, e.FireFinished)
    assert (finished.cause, finished.attempt) == ("cancelled", 1)
    assert book.when(TICK, at="10:30:00").result == ()


def test_several_due_retries_go_in_the_order_of_their_instants() -> None:
    """After a stop the longest due is released first, whatever was scheduled first."""
    book = Given(create(cron("* * * * *", overlap="allow", retry=Retry(base=SECOND, cap=DAY))))
    book.ticks("09:01:00", "09:02:00")
    records = (
        result("09:01:00", "09:02:01", 5, "retryable", retry_after=10 * MINUTE),
        result("09:02:00", "09:02:02", 6, "retryable"),
    )
    book.when(TICK, at="09:02:03", observed=records).given(PAUSE, at="09:02:04").given(RESUME, at="09:30:00")
    book.when(TICK, at="09:30:00")
    retried = [line for line in map(book.brief, book.entries()) if "attempt 2" in line]
    assert retried == ["released t 09:02:00 on-time attempt 2", "released t 09:01:00 on-time attempt 2"]


def test_a_retry_scheduled_and_a_success_in_one_page() -> None:
    """Of two records of one attempt in one page each is judged after the one before."""
    book = fired()
    records = (result("10:00:00", "10:00:03", 11, "retryable"), result("10:00:00", "10:00:04", 12, "succeeded"))
    book.when(TICK, at="10:00:05", observed=records)
    assert [book.brief(entry) for entry in book.entries()][2:] == [
        "retry t 10:00:00 attempt 2",
        "finished t 10:00:00 succeeded",
    ]
    assert book.trigger().open == ()
