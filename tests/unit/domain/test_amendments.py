"""An edit neither loses nor invents a fire: segments, their marks, and what bounds them."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain import limits
from fireledger.domain.instants import MINUTE, SECOND
from fireledger.domain.rejections import RejectionCode
from tests.unit.domain.given import PAUSE, RESUME, TICK, Given, amend, changed, create, cron, each, every


def test_nothing_fires_because_of_an_edit() -> None:
    """An instant of the new schedule that lies before the amendment is not owed."""
    book = Given(create(cron("0 12 * * *"))).given(amend(cron("10 9 * * *")), at="09:15:00")
    assert book.next_due() == "2026-12-01T09:10:00Z"
    assert book.when(TICK, at="13:00:00").result == ()


def test_an_edit_after_the_last_instant_closes_nothing() -> None:
    """When the old schedule owes nothing, it is settled in the page of the amendment."""
    book = Given(create(cron("*/5 * * * *"))).when(amend(cron("*/7 * * * *")), at="09:02:00")
    book.then("TriggerAmended t", "settled t 09:02:00")
    assert len(book.trigger().segments) == 1


def test_undecided_instants_keep_the_old_schedule() -> None:
    """Instants up to the amendment stay owed under the old schedule; later ones come from the new."""
    book = Given(create(cron("*/5 * * * *", overlap="allow"))).given(
        amend(cron("*/7 * * * *", overlap="allow")), at="09:05:01"
    )
    book.when(TICK, at="09:07:00").then(
        "released t 09:05:00 caught-up", "settled t 09:05:01", "released t 09:07:00 on-time"
    )
    assert book.next_due() == "09:14:00"


def test_an_edit_inside_the_jitter_window_keeps_the_release() -> None:
    """An instant scheduled before the edit and released after it fires as first drawn, once."""
    jittered = cron("*/5 * * * *", jitter=4 * MINUTE, overlap="allow")
    book = Given(create(jittered))
    due = book.next_due()
    assert due is not None
    book.given(amend(changed(jittered, jitter=0)), at=book.instant("09:05:00"))
    assert book.next_due() == due
    book.when(TICK, at=due).then("released t 09:05:00 on-time", "settled t 09:05:00")
    book.when(TICK, at="09:10:00").then("released t 09:10:00 on-time")


def test_an_edited_trigger_meets_the_new_policies() -> None:
    """Old instants have the old tolerance and the new definition's other policies."""
    book = Given(create(cron("*/5 * * * *", missed="skip"))).given(
        amend(cron("*/7 * * * *", missed="fire-all")), at="09:11:00"
    )
    book.when(TICK, at="09:11:30").then(
        "released t 09:05:00 caught-up", "decided t 09:10:00 caught-up", "settled t 09:11:00"
    )


def test_an_edit_of_policies_alone_keeps_the_segment() -> None:
    """A definition that leaves times as they are opens no segment."""
    book = Given(create(cron("*/5 * * * *"))).given(amend(cron("*/5 * * * *", overlap="allow", cap=3)), at="09:06:00")
    book.then("TriggerAmended t")
    book.when(TICK, at="09:06:30").then("released t 09:05:00 caught-up")


def test_edits_at_one_now_neither_lose_nor_invent() -> None:
    """Two amendments at the same now, with an instant owed before them: it stays owed, once."""
    book = Given(create(cron("*/5 * * * *", overlap="allow")))
    book.given(amend(cron("*/7 * * * *", overlap="allow")), at="09:05:30")
    book.given(amend(cron("*/9 * * * *", overlap="allow")), at="09:05:30")
    assert len(book.trigger().segments) == 2
    book.when(TICK, at="09:09:00").then(
        "released t 09:05:00 caught-up", "settled t 09:05:30", "released t 09:09:00 on-time"
    )


def test_an_edit_at_the_creations_now_replaces_it() -> None:
    """Between creation and an amendment at the same now lies no instant."""
    book = Given(create(cron("*/5 * * * *"))).when(amend(cron("*/7 * * * *")), at="09:00:00").then("TriggerAmended t")
    assert len(book.trigger().segments) == 1
    assert book.next_due() == "09:07:00"


def test_a_tight_loop_of_edits_is_bounded() -> None:
    """Edits that leave nothing owed may go on for ever and cost no state."""
    book = Given(create(cron("*/5 * * * *")))
    for number in range(300):
        book.given(amend(cron(f"{number % 50} * * * *")), at=book.start + number)
        assert len(book.trigger().segments) == 1


def test_edits_that_leave_instants_owed_are_bounded() -> None:
    """An amendment beyond the bound waits for the scheduler; after a tick it is accepted."""
    book = Given(create(every("1s", overlap="allow")))
    for number in range(1, limits.SEGMENTS_MAX):
        book.given(amend(every(f"{1 + number % 2}s", overlap="allow")), at=book.start + number * 2 * SECOND)
    at = book.start + limits.SEGMENTS_MAX * 2 * SECOND
    book.when(amend(every("5s")), at=at).then_refused(RejectionCode.TOO_MANY_SEGMENTS)
    book.given(TICK, at=at)
    assert len(book.trigger().segments) == 1
    book.given(amend(every("5s")), at=at + SECOND)


def test_edits_during_a_pause_owe_each_stretch_by_its_schedule() -> None:
    """Three schedules within one pause: each instant of each stretch is resolved once."""
    book = Given(create(cron("*/10 * * * *", missed="skip"))).given(PAUSE, at="09:05:00")
    book.given(amend(cron("*/20 * * * *", missed="skip")), at="09:25:00")
    book.given(amend(cron("*/30 * * * *", missed="skip")), at="09:50:00")
    book.given(RESUME, at="10:05:00")
    book.when(TICK, at="10:05:01").then(
        "skipped t 09:10:00-09:20:00 x2 paused",
        "settled t 09:25:00",
        "skipped t 09:40:00 paused",
        "settled t 09:50:00",
        "skipped t 10:00:00 paused",
    )


def test_segments_are_decided_independently() -> None:
    """The last instant of an old schedule, far jittered, may be released after the first of the new one."""
    book = Given(create(cron("*/5 * * * *", jitter=5 * MINUTE, overlap="allow")))
    due = book.next_due()
    assert due is not None
    book.given(amend(cron("* * * * *", overlap="allow")), at="09:05:00")
    ticked = list(each("2026-11-30T09:06:00Z", "1m", 5))
    lines = [book.brief(entry) for at in ticked for entry in book.when(TICK, at=at).entries()]
    assert sorted(line for line in lines if line.startswith("released")) == [
        *("released t 09:05:00 on-time",),
        *(f"released t 09:{minute:02d}:00 on-time" for minute in range(6, 11)),
    ]


def test_an_interval_keeps_its_anchor() -> None:
    """Editing anything else of an interval leaves its grid."""
    book = Given(create(every("1h", "2026-11-30T09:15:00Z")))
    book.given(amend(every("1h", "2026-11-30T09:15:00Z", target="nats:other")), at="09:40:00")
    book.when(TICK, at="09:40:00").then("released t 09:15:00 caught-up")
    assert book.next_due() == "10:15:00"


@pytest.mark.parametrize("policy", ["fire-all", "fire-once-now", "skip"])
def test_an_edit_during_an_outage_counts_both_sides(policy: str) -> None:
    """Instants of both schedules beyond the horizon expire, with exact counts on either side of the edit."""
    book = Given(create(cron("*/10 * * * *", missed=policy, horizon=0)))
    book.given(amend(cron("*/15 * * * *", missed=policy, horizon=0)), at="11:05:00")
    entries = book.when(TICK, at="15:01:00").entries()
    ranges = [entry for entry in entries if isinstance(entry, e.InstantsResolved)]
    assert [(book.short(entry.first), book.short(entry.last), entry.count) for entry in ranges] == [
        ("09:10:00", "11:00:00", 12),
        ("11:15:00", "15:00:00", 16),
    ]
