"""Fires that wait for a person: what holds them, who lets them go, and what no timer does."""

import msgspec
import pytest

from fireledger.domain import entries as e
from fireledger.domain.commands import CancelFire, ReleaseFire
from fireledger.domain.definition import Retry
from fireledger.domain.instants import DAY, parse_instant
from fireledger.domain.rejections import Rejection, RejectionCode
from tests.unit.domain.given import DELETE, PAUSE, RESUME, TICK, Given, changed, create, cron, result, started

TEN = parse_instant("2026-11-30T10:00:00Z")
RELEASE = ReleaseFire(trigger="t", scheduled=TEN, sequence=0, by="someone")
CANCEL = CancelFire(trigger="t", scheduled=TEN, sequence=0, by="someone")


def held(**changes: object) -> Given:
    """An hourly trigger whose fire of 10:00 is held since 10:00:05."""
    book = Given(create(changed(cron("0 * * * *"), **changes))).given(TICK, at="10:00:00")
    records = (started("10:00:00", "10:00:01", 10), result("10:00:00", "10:00:04", 11, "held"))
    return book.when(TICK, at="10:00:05", observed=records)


def test_no_timer_touches_a_held_fire() -> None:
    """Days later it is still open and held: no retry, no unknown, and the schedule's instants overlap."""
    book = held()
    book.when(TICK, at="10:59:59", as_of_read_at="10:59:59")
    assert book.result == ()
    book.when(TICK, at="11:00:00", as_of_read_at="11:00:00").then("skipped t 11:00:00 overlap")
    assert book.trigger().open[0].held


def test_held_says_why() -> None:
    """The executor's short message stands in the entry."""
    book = Given(create(cron("0 * * * *"))).given(TICK, at="10:00:00")
    answer = msgspec.structs.replace(result("10:00:00", "10:00:04", 11, "held"), message="four eyes")
    book.when(TICK, at="10:00:05", observed=(answer,))
    entry = book.entries()[-1]
    assert isinstance(entry, e.FireHeld)
    assert (entry.attempt, entry.message) == (1, "four eyes")


def test_a_released_fire_goes_on_with_its_next_attempt() -> None:
    """The person's command is an entry; the next tick releases attempt 2, beyond the maximum of attempts as well."""
    book = held(retry=Retry(attempts=1))
    book.when(RELEASE, at="10:30:00").then("HeldFireReleased t")
    assert book.next_due() == "10:30:00"
    book.when(TICK, at="10:30:00").then("released t 10:00:00 on-time attempt 2")
    records = (
        started("10:00:00", "10:30:01", 12, attempt=2),
        result("10:00:00", "10:30:04", 13, "retryable", attempt=2),
    )
    book.when(TICK, at="10:30:05", observed=records)
    assert book.brief(book.entries()[-1]) == "finished t 10:00:00 failed"


def test_a_released_fire_may_be_held_again() -> None:
    """The second attempt may answer held as well, and is released as attempt 3."""
    book = held().given(RELEASE, at="10:30:00").given(TICK, at="10:30:00")
    records = (started("10:00:00", "10:30:01", 12, attempt=2), result("10:00:00", "10:30:04", 13, "held", attempt=2))
    book.when(TICK, at="10:30:05", observed=records)
    book.given(RELEASE, at="10:40:00").when(TICK, at="10:40:00").then("released t 10:00:00 on-time attempt 3")


def test_releasing_twice_is_refused() -> None:
    """Once released it is not held any more."""
    book = held().given(RELEASE, at="10:30:00")
    book.when(RELEASE, at="10:30:01").then_refused(RejectionCode.FIRE_NOT_HELD)


def test_a_cancelled_fire_ends_failed() -> None:
    """Outcome failed, cause cancelled; the trigger is free again and nothing can be released or cancelled."""
    book = held().when(CANCEL, at="10:30:00").then("finished t 10:00:00 failed")
    (finished,) = book.entries()
    assert isinstance(finished, e.FireFinished)
    assert finished.cause == "cancelled"
    book.when(CANCEL, at="10:30:01").then_refused(RejectionCode.FIRE_MISSING)
    book.when(RELEASE, at="10:30:01").then_refused(RejectionCode.FIRE_MISSING)
    book.when(TICK, at="11:00:00").then("released t 11:00:00 on-time")


@pytest.mark.parametrize("kind,outcome", [("succeeded", "succeeded"), ("final", "failed")])
def test_a_held_fire_ends_by_a_later_report(kind: e.ResultKind, outcome: str) -> None:
    """The executor may report what became of it without anybody releasing it."""
    book = held().when(TICK, at="10:40:00", observed=(result("10:00:00", "10:39:59", 12, kind),))
    book.then(f"observed t 10:00:00 {kind}", f"finished t 10:00:00 {outcome}")


@pytest.mark.parametrize("kind", ["retryable", "timeout", "accepted", "held"])
def test_other_results_leave_a_held_fire_held(kind: e.ResultKind) -> None:
    """A failure of the call that answered held does not bring a retry about."""
    book = held().when(TICK, at="10:40:00", observed=(result("10:00:00", "10:39:59", 12, kind),))
    book.then(f"observed t 10:00:00 {kind}")
    assert (book.trigger().open[0].held, book.trigger().open[0].retry_at) == (True, None)


def test_held_while_a_retry_waits_stops_the_retry() -> None:
    """An attempt that seemed to time out and then answers held is not tried again by a timer."""
    book = Given(create(cron("0 * * * *"))).given(TICK, at="10:00:00")
    book.when(TICK, at="10:00:05", observed=(result("10:00:00", "10:00:04", 11, "timeout"),))
    book.when(TICK, at="10:00:30", observed=(result("10:00:00", "10:00:29", 12, "held"),))
    book.then("observed t 10:00:00 held", "held t 10:00:00")
    assert book.when(TICK, at="10:50:00", as_of_read_at="10:50:00").result == ()


def test_a_pause_does_not_stop_people_but_the_next_attempt() -> None:
    """While paused a held fire may be released or cancelled; its attempt waits for the resume."""
    held().given(PAUSE, at="10:10:00").when(CANCEL, at="10:30:00").then("finished t 10:00:00 failed")
    book = held().given(PAUSE, at="10:10:00").given(RELEASE, at="10:30:00")
    assert book.when(TICK, at="10:31:00").result == ()
    book.given(RESUME, at="10:40:00").when(TICK, at="10:40:00").then("released t 10:00:00 on-time attempt 2")


def test_a_held_fire_outlives_its_trigger_until_somebody_ends_it() -> None:
    """After the deletion no attempt can follow, so it can be cancelled and not released."""
    book = held().given(DELETE, at="10:10:00")
    book.when(RELEASE, at="10:30:00").then_refused(RejectionCode.TRIGGER_STOPPED)
    assert isinstance(book.result, Rejection)
    assert "fires cancel" in book.result.hint
    book.when(CANCEL, at="10:30:00").then("finished t 10:00:00 failed")
    assert book.trigger().open == ()


def test_a_released_fire_whose_trigger_is_deleted_ends() -> None:
    """Released by a person and not yet by the scheduler: the deletion ends it, by entry."""
    book = held().given(RELEASE, at="10:10:00")
    book.when(DELETE, at="10:10:00").then("finished t 10:00:00 failed", "TriggerDeleted t")


def test_what_never_was_can_be_neither_released_nor_cancelled() -> None:
    """An unknown trigger, instant or run number is named; a fire under way is not held."""
    book = Given(create(cron("0 * * * *"))).given(TICK, at="10:00:00")
    book.when(RELEASE, at="10:01:00").then_refused(RejectionCode.FIRE_NOT_HELD)
    for trigger, scheduled, sequence, code in (
        ("who", TEN, 0, RejectionCode.TRIGGER_MISSING),
        ("t", TEN + DAY, 0, RejectionCode.FIRE_MISSING),
        ("t", TEN, 1, RejectionCode.FIRE_MISSING),
    ):
        for kind in (ReleaseFire, CancelFire):
            command = kind(trigger=trigger, scheduled=scheduled, sequence=sequence, by="someone")
            book.when(command, at="10:01:00").then_refused(code)


@pytest.mark.parametrize("by", ["", "x" * 65, "two\nlines"])
def test_who_does_it_has_a_name(by: str) -> None:
    """A name that is empty, too long or no printable line is refused."""
    book = held()
    for kind in (ReleaseFire, CancelFire):
        book.when(kind(trigger="t", scheduled=TEN, sequence=0, by=by), at="10:01:00")
        book.then_refused(RejectionCode.VALUE_REFUSED)
