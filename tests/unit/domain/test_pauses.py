"""A pause is exact: what lies in (pause's now, resume's now] by its release, and nothing else."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain import limits
from fireledger.domain.instants import MINUTE, SECOND
from fireledger.domain.rejections import RejectionCode
from tests.unit.domain.given import PAUSE, RESUME, RESUME_SKIPPING, TICK, Given, create, cron, every


def test_nothing_is_decided_during_a_pause() -> None:
    """A paused trigger has nothing due."""
    book = Given(create(cron("* * * * *"))).given(PAUSE, at="09:00:30")
    assert book.next_due() is None
    assert book.when(TICK, at="09:30:00").result == ()


@pytest.mark.parametrize(
    "paused,resumed,entries",
    [
        ("09:00:59.999999", "09:01:30", ["skipped t 09:01:00 paused"]),
        ("09:01:00", "09:01:30", ["released t 09:01:00 on-time"]),
        ("09:00:30", "09:01:00", ["skipped t 09:01:00 paused"]),
        ("09:00:30", "09:00:59.999999", ["released t 09:01:00 on-time"]),
    ],
)
def test_a_pause_is_open_at_its_start_and_closed_at_its_end(paused: str, resumed: str, entries: list[str]) -> None:
    """An instant is inside when its release lies in (pause's now, resume's now]."""
    book = Given(create(cron("* * * * *", missed="skip"))).given(PAUSE, at=paused).given(RESUME, at=resumed)
    book.when(TICK, at="09:01:31").then(*entries)


def test_a_pause_goes_by_release_not_by_scheduled_instant() -> None:
    """A jittered instant scheduled before the pause and released within it is inside."""
    book = Given(create(cron("* * * * *", jitter=MINUTE, missed="skip")))
    scheduled = book.instant("09:01:00")
    released_at = book.book.state.triggers["t"].segments[0].after
    due = book.next_due()
    assert due is not None
    book.given(PAUSE, at=book.instant(due) - 1).given(RESUME, at=due)
    assert released_at < scheduled < book.instant(due)
    book.when(TICK, at=due).then("skipped t 09:01:00 paused")
    again = Given(create(cron("* * * * *", jitter=MINUTE, missed="skip")))
    again.given(PAUSE, at=due).given(RESUME, at=book.instant(due) + 1)
    again.when(TICK, at=book.instant(due) + 1).then("released t 09:01:00 on-time")


def test_resume_owes_the_pause_under_the_policy() -> None:
    """By default the newest instant of the pause is caught up and the others coalesced into it."""
    book = Given(create(cron("*/10 * * * *"))).given(PAUSE, at="09:05:00").given(RESUME, at="09:35:00")
    book.when(TICK, at="09:35:01").then(
        "coalesced t 09:10:00-09:20:00 x2 coalesced into 09:30:00", "released t 09:30:00 caught-up"
    )


def test_an_instant_of_a_pause_is_missed_however_recent() -> None:
    """Within the tolerance, but inside the pause: it is missed, not on time."""
    book = Given(create(cron("*/10 * * * *", missed="skip"))).given(PAUSE, at="09:05:00")
    book.given(RESUME, at="09:10:01").when(TICK, at="09:10:02").then("skipped t 09:10:00 paused")


def test_resume_skipping_records_the_pause_as_skipped() -> None:
    """With --on-resume skip nothing of the pause fires, whatever the policy and the horizon."""
    book = Given(create(cron("0 * * * *", missed="fire-all"))).given(PAUSE, at="09:30:00")
    book.given(RESUME_SKIPPING, at="2026-11-30T18:30:00Z")
    book.when(TICK, at="18:30:01").then("skipped t 10:00:00-18:00:00 x9 paused")
    book.when(TICK, at="19:00:00").then("released t 19:00:00 on-time")


def test_resume_says_how_much_is_owed() -> None:
    """The resumed entry carries the exact number of undecided instants due by now."""
    book = Given(create(cron("*/10 * * * *"))).given(PAUSE, at="09:05:00").when(RESUME, at="12:05:00")
    book.then(e.TriggerResumed(trigger="t", owed_count=18))
    quick = Given(create(cron("*/10 * * * *"))).given(PAUSE, at="09:05:00").when(RESUME, at="09:06:00")
    quick.then(e.TriggerResumed(trigger="t"))
    assert quick.trigger().pauses == ()


def test_a_pause_of_a_month_costs_two_entries() -> None:
    """One range beyond the horizon, one within it, exact counts."""
    book = Given(create(cron("*/10 * * * *", missed="skip")), start="2026-05-01T09:00:00Z")
    book.given(PAUSE, at="2026-05-01T09:03:00Z").given(RESUME, at="2026-06-01T09:03:00Z")
    book.when(TICK, at="2026-06-01T09:03:01Z")
    assert [
        (entry.state, entry.cause, entry.count) for entry in book.entries() if isinstance(entry, e.InstantsResolved)
    ]
    first, second = book.entries()
    assert isinstance(first, e.InstantsResolved)
    assert isinstance(second, e.InstantsResolved)
    assert (first.state, first.cause, first.count) == ("expired", "beyond-horizon", 31 * 144 - 6)
    assert (second.state, second.cause, second.count) == ("skipped", "paused", 6)


def test_instants_before_a_pause_are_judged_by_themselves() -> None:
    """What was due before the pause and not yet decided is not inside it; each stretch has its own judgement."""
    book = Given(create(cron("*/10 * * * *", missed="skip"))).given(PAUSE, at="09:25:00").given(RESUME, at="09:45:00")
    book.when(TICK, at="09:55:00").then(
        "skipped t 09:10:00-09:20:00 x2 missed",
        "skipped t 09:30:00-09:40:00 x2 paused",
        "skipped t 09:50:00 missed",
    )


def test_a_pause_is_forgotten_when_nothing_undecided_lies_in_it() -> None:
    """Spent pauses leave the state."""
    book = Given(create(cron("*/10 * * * *"))).given(PAUSE, at="09:05:00").given(RESUME, at="09:15:00")
    assert len(book.trigger().pauses) == 1
    book.given(TICK, at="09:20:00")
    assert book.trigger().pauses == ()


def test_several_pauses_before_a_tick_are_each_exact() -> None:
    """Pauses with different endings keep their own meaning until the scheduler has decided."""
    book = Given(create(cron("*/10 * * * *", missed="fire-all", overlap="allow")))
    book.given(PAUSE, at="09:05:00").given(RESUME_SKIPPING, at="09:15:00")
    book.given(PAUSE, at="09:25:00").given(RESUME, at="09:35:00")
    book.when(TICK, at="09:41:00").then(
        "skipped t 09:10:00 paused",
        "released t 09:20:00 caught-up",
        "released t 09:30:00 caught-up",
        "released t 09:40:00 on-time",
    )


def test_pauses_with_undecided_instants_are_bounded() -> None:
    """A tight loop of pauses without a tick is refused at the bound, and goes on after a tick."""
    book = Given(create(every("1s")))
    for number in range(limits.PAUSES_MAX):
        book.given(PAUSE, at=book.start + (2 * number + 1) * SECOND).given(
            RESUME, at=book.start + (2 * number + 2) * SECOND
        )
    at = book.start + 1000 * SECOND
    book.when(PAUSE, at=at).then_refused(RejectionCode.TOO_MANY_PAUSES)
    book.given(TICK, at=at).given(PAUSE, at=at)


def test_pauses_without_instants_leave_nothing_behind() -> None:
    """Pausing and resuming between instants may be done for ever."""
    book = Given(create(cron("0 0 1 1 *")))
    for number in range(2 * limits.PAUSES_MAX):
        book.given(PAUSE, at=book.start + (2 * number) * SECOND).given(
            RESUME, at=book.start + (2 * number + 1) * SECOND
        )
    assert book.trigger().pauses == ()


def test_a_trigger_can_be_created_paused() -> None:
    """Created paused, it owes nothing until it is resumed."""
    book = Given(create(cron("*/10 * * * *", missed="skip"), paused=True)).given(RESUME, at="09:35:00")
    book.when(TICK, at="09:40:00").then("skipped t 09:10:00-09:30:00 x3 paused", "released t 09:40:00 on-time")


def test_a_pause_is_kept_until_its_last_instant_is_decided() -> None:
    """Cut in the middle of a pause, the next page still knows what lies inside."""
    book = Given(create(every("10s", missed="fire-all", overlap="allow"))).given(PAUSE, at="09:00:05")
    book.given(RESUME, at="09:00:45")
    for second in (10, 20, 30, 40):
        assert len(book.trigger().pauses) == 1
        book.when(TICK, at="09:00:45", entry_limit=1).then(f"released t 09:00:{second} caught-up")
    book.when(TICK, at="09:00:50").then("released t 09:00:50 on-time")
    assert book.trigger().pauses == ()
