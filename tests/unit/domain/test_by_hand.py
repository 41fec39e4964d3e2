"""Fires by hand and declared drains: run numbers, refusals, and that the schedule does not notice."""

from collections.abc import Callable

import pytest

from fireledger.domain import entries as e
from fireledger.domain.commands import CancelFire, DeclareDrain, FireNow, SetCeiling
from fireledger.domain.instants import SECOND
from fireledger.domain.limits import DRAIN_MAX, WAITING_MAX
from fireledger.domain.page import Quarantine
from fireledger.domain.rejections import Rejection, RejectionCode
from tests.unit.domain.given import DELETE, PAUSE, RESUME, TICK, Given, amend, create, cron, result, started

HOURLY = cron("0 * * * *")
NOW = FireNow(trigger="t", by="someone")


def test_a_fire_by_hand_is_asked_for_and_then_released() -> None:
    """Two entries: the request at the page's now with the next run number, and the scheduler's release."""
    book = Given(create(HOURLY)).when(NOW, at="09:10:00.5").then("FireRequested t")
    assert book.entries() == (
        e.FireRequested(
            trigger="t", scheduled=book.instant("09:10:00.500000"), sequence=1, definition_page=2, by="someone"
        ),
    )
    assert book.next_due() == "1970-01-01T00:00:00Z"
    book.when(TICK, at="09:10:01").then("released t 09:10:00.500000 by-hand after waiting")
    (released,) = book.entries()
    assert isinstance(released, e.FireReleased)
    assert (released.sequence, released.lane, released.release) == (1, "on-time", released.scheduled)


def test_each_takes_the_next_run_number() -> None:
    """Two at one instant are two fires, also after a deletion."""
    book = Given(create(HOURLY)).given(NOW, NOW, at="09:10:00")
    assert [fire.sequence for fire in book.trigger().waiting] == [1, 2]
    book.given(DELETE, at="09:10:00").given(create(HOURLY), at="09:10:00").given(NOW, at="09:10:00")
    assert [fire.sequence for fire in book.trigger().waiting] == [3]


def test_the_schedule_does_not_notice() -> None:
    """Marks and count of fires stay; a fire by hand at a scheduled instant is another fire than the schedule's."""
    book = Given(create(cron("0 * * * *", overlap="allow", max_fires=2))).given(TICK, at="10:00:00")
    before = book.trigger()
    book.given(NOW, at="10:00:00").given(TICK, at="10:00:00")
    assert (book.trigger().segments, book.trigger().fired_count) == (before.segments, 1)
    assert [(f.scheduled, f.sequence) for f in book.trigger().open] == [
        (book.instant("10:00:00"), 0),
        (book.instant("10:00:00"), 1),
    ]
    book.when(TICK, at="11:00:00").then("released t 11:00:00 on-time")
    book.when(NOW, at="11:10:00").then("FireRequested t")


def test_a_fire_by_hand_waits_for_an_open_one() -> None:
    """Unless overlap is allowed it waits, is never skipped for overlap, and goes ahead of what was missed."""
    book = Given(create(cron("*/10 * * * *", missed="fire-all"))).given(TICK, at="09:35:00").given(NOW, at="09:36:00")
    assert book.when(TICK, at="09:36:00").result == ()
    book.when(TICK, at="09:37:00", observed=(result("09:10:00", "09:36:59", 5, "succeeded"),))
    assert book.brief(book.entries()[-1]) == "released t 09:36:00 by-hand after waiting"


def test_an_on_time_fire_goes_ahead_of_one_by_hand() -> None:
    """Both wait for a caught-up fire; the schedule's own is released first."""
    book = Given(create(cron("*/10 * * * *"))).given(TICK, at="09:35:00").given(NOW, at="09:36:00")
    book.when(TICK, at="09:40:00").then("decided t 09:40:00 on-time")
    book.when(TICK, at="09:41:00", observed=(result("09:30:00", "09:40:59", 5, "succeeded"),))
    assert book.brief(book.entries()[-1]) == "released t 09:40:00 on-time after waiting"


def test_waiting_by_hand_is_not_replaced() -> None:
    """Under queue an on-time fire replaces the on-time one that waits, never one that a person asked for."""
    book = Given(create(cron("* * * * *", overlap="queue"))).given(TICK, at="09:01:00").given(NOW, at="09:01:30")
    book.given(TICK, at="09:02:00").when(TICK, at="09:03:00")
    book.then("withdrawn t 09:02:00 skipped replaced", "decided t 09:03:00 on-time")
    assert [fire.cause for fire in book.trigger().waiting] == ["by-hand", "on-time"]


STOPS: dict[str, Callable[[Given], Given]] = {
    "trigger resume acme/t": lambda book: book.given(PAUSE, at="09:10:00"),
    "amend": lambda book: book.when(TICK, at="09:10:00", quarantine=(Quarantine("t", "broken"),)),
    "trigger ceiling acme/t --per day --amount": lambda book: book.given(
        SetCeiling(trigger="t", per="day", amount=0), at="09:10:00"
    ),
    "tenant ceiling acme --per day --amount": lambda book: book.given(
        SetCeiling(trigger=None, per="day", amount=0), at="09:10:00"
    ),
    "tenant ceiling acme --per month --amount": lambda book: book.given(
        SetCeiling(trigger="t", per="day", amount=0),
        SetCeiling(trigger=None, per="week", amount=9),
        SetCeiling(trigger=None, per="month", amount=0),
        at="09:10:00",
    ),
}
"""What makes a trigger stand still, by words of the hint that leads out of it."""


@pytest.mark.parametrize("word", STOPS)
def test_standing_triggers_refuse_with_the_way_out(word: str) -> None:
    """Paused, in quarantine and suspended: refused, and the hint says what to do first."""
    book = STOPS[word](Given(create(HOURLY))).when(NOW, at="09:11:00").then_refused(RejectionCode.TRIGGER_STOPPED)
    assert isinstance(book.result, Rejection)
    assert word in book.result.hint


def test_what_was_asked_for_before_a_pause_waits_for_the_resume() -> None:
    """Asked for and not released when the pause came: released afterwards."""
    book = Given(create(HOURLY)).given(NOW, at="09:10:00").given(PAUSE, at="09:10:00")
    assert book.when(TICK, at="09:11:00").result == ()
    book.given(RESUME, at="09:20:00").when(TICK, at="09:20:00").then("released t 09:10:00 by-hand after waiting")


def test_a_waiting_fire_can_be_cancelled() -> None:
    """By a person: withdrawn, cancelled; its number is not used again."""
    book = Given(create(HOURLY)).given(NOW, at="09:10:00")
    cancel = CancelFire(trigger="t", scheduled=book.instant("09:10:00"), sequence=1, by="someone")
    book.when(cancel, at="09:10:00").then("withdrawn t 09:10:00 cancelled by-person")
    assert book.when(TICK, at="09:11:00").result == ()
    book.when(cancel, at="09:12:00").then_refused(RejectionCode.FIRE_MISSING)
    book.given(NOW, at="09:13:00")
    assert book.trigger().waiting[0].sequence == 2


def test_a_cancelled_scheduled_fire_gives_its_place_back() -> None:
    """A waiting fire of the schedule counts towards the maximum until somebody cancels it."""
    book = Given(create(cron("* * * * *", overlap="queue", max_fires=2))).given(TICK, at="09:01:00")
    book.given(TICK, at="09:02:00")
    assert book.when(TICK, at="09:03:00").result == ()
    cancel = CancelFire(trigger="t", scheduled=book.instant("09:02:00"), sequence=0, by="someone")
    book.given(cancel, at="09:03:30")
    assert book.trigger().fired_count == 1
    book.when(TICK, at="09:03:40").then("decided t 09:03:00 on-time")


def test_a_fire_by_hand_is_sent_as_it_was_defined_when_asked_for() -> None:
    """An amendment between request and release does not change where it goes."""
    book = (
        Given(create(HOURLY)).given(NOW, at="09:10:00").given(amend(cron("5 * * * *", target="nats:o")), at="09:10:00")
    )
    (released,) = book.when(TICK, at="09:10:00").entries()
    assert isinstance(released, e.FireReleased)
    assert released.definition_page == 2


def test_a_fire_by_hand_has_an_outcome_like_any_other() -> None:
    """Its records name its run number; those of another number are late."""
    book = Given(create(HOURLY)).given(NOW, at="09:10:00").given(TICK, at="09:10:00")
    book.when(TICK, at="09:10:05", observed=(started("09:10:00", "09:10:01", 5, run=1),))
    assert book.trigger().open[0].started_at == book.instant("09:10:01")
    book.when(TICK, at="09:10:06", observed=(result("09:10:00", "09:10:05", 6, "succeeded", run=2),))
    assert (len(book.trigger().open), book.state.late_count) == (1, 1)
    book.when(TICK, at="09:10:07", observed=(result("09:10:00", "09:10:06", 7, "succeeded", run=1),))
    book.then("observed t 09:10:00 succeeded", "finished t 09:10:00 succeeded")


@pytest.mark.slow
def test_requests_that_wait_are_bounded() -> None:
    """Above WAITING_MAX a further one is refused, and nothing is lost."""
    book = Given(create(HOURLY))
    for place in range(0, WAITING_MAX, 500):
        book.given(*(NOW for _ in range(500)), at=book.start + place * SECOND)
    book.when(NOW, at=book.at).then_refused(RejectionCode.TOO_MANY_WAITING)
    assert len(book.trigger().waiting) == WAITING_MAX


@pytest.mark.parametrize("by", ["", "x" * 65, "a\tb"])
def test_who_asks_has_a_name(by: str) -> None:
    """Empty, too long or not printable is refused; so is an unknown trigger."""
    book = Given(create(HOURLY))
    book.when(FireNow(trigger="t", by=by), at="09:10:00").then_refused(RejectionCode.VALUE_REFUSED)
    book.when(FireNow(trigger="who", by="someone"), at="09:10:00").then_refused(RejectionCode.TRIGGER_MISSING)


@pytest.mark.parametrize(
    "after,accepted", [(1, True), (DRAIN_MAX, True), (0, False), (DRAIN_MAX + 1, False), (-1, False)]
)
def test_a_drain_is_declared_for_a_bounded_while(after: int, accepted: bool) -> None:
    """From now on, up to DRAIN_MAX; it changes nothing that is decided."""
    book = Given(create(HOURLY))
    before = book.state.triggers
    book.when(
        DeclareDrain(lane="catch-up", until=book.instant("09:10:00") + after, why="a month is caught up"), at="09:10:00"
    )
    if accepted:
        book.then("DrainDeclared")
        assert book.state.triggers == before
    else:
        book.then_refused(RejectionCode.VALUE_REFUSED)


@pytest.mark.parametrize("why", ["", "x" * 201, "two\nlines"])
def test_a_drain_has_a_reason(why: str) -> None:
    """One printable line of bounded length."""
    book = Given()
    book.when(DeclareDrain(lane="backfill", until=book.start + SECOND, why=why), at=book.start)
    book.then_refused(RejectionCode.VALUE_REFUSED)
