"""Deletion cancels what is not released, and no key is ever used again."""

import msgspec

from fireledger.domain import entries as e
from fireledger.domain.book import Book
from fireledger.domain.instants import MINUTE
from tests.unit.domain.given import DELETE, PAUSE, TICK, Given, amend, create, cron, result, started


def test_a_deleted_trigger_decides_nothing_more() -> None:
    """After its deletion nothing of the trigger is due."""
    book = Given(create(cron("* * * * *"))).when(DELETE, at="09:00:30").then("TriggerDeleted t")
    assert book.next_due() is None
    assert book.when(TICK, at="09:10:00").result == ()
    assert book.state.live("t") is None


def test_what_is_inside_its_jitter_window_is_cancelled() -> None:
    """An instant scheduled and not yet released is cancelled by an entry."""
    book = Given(create(cron("*/5 * * * *", jitter=4 * MINUTE))).when(DELETE, at="09:05:00")
    book.then("cancelled t 09:05:00 deleted", "TriggerDeleted t")


def test_what_was_due_and_undecided_is_cancelled_with_its_count() -> None:
    """Deleted during an outage: one range with the exact count for each schedule."""
    book = Given(create(cron("*/5 * * * *"))).given(amend(cron("*/10 * * * *")), at="09:32:00")
    book.when(DELETE, at="10:02:00").then(
        "cancelled t 09:05:00-09:30:00 x6 deleted", "cancelled t 09:40:00-10:00:00 x3 deleted", "TriggerDeleted t"
    )


def test_what_waits_is_cancelled() -> None:
    """Decided fires that were not released are withdrawn."""
    book = Given(create(cron("*/10 * * * *", missed="fire-all"))).given(TICK, at="09:35:00")
    book.when(DELETE, at="09:36:00").then(
        "withdrawn t 09:20:00 cancelled deleted", "withdrawn t 09:30:00 cancelled deleted", "TriggerDeleted t"
    )


def test_a_paused_trigger_can_be_deleted() -> None:
    """What the pause kept undecided is cancelled."""
    book = Given(create(cron("*/10 * * * *"))).given(PAUSE, at="09:05:00")
    book.when(DELETE, at="2026-12-30T09:05:00Z")
    first = book.entries()[0]
    assert isinstance(first, e.InstantsResolved)
    assert (first.state, first.count) == ("cancelled", 30 * 144)


def test_a_released_fire_goes_on_after_deletion() -> None:
    """What is released is not taken back: its outcome is still observed."""
    book = Given(create(cron("* * * * *"))).given(TICK, at="09:01:00").given(DELETE, at="09:01:01")
    book.when(
        TICK,
        at="09:01:05",
        observed=(started("09:01:00", "09:01:02", 5), result("09:01:00", "09:01:03", 6, "succeeded")),
    )
    assert book.brief(book.entries()[-1]) == "finished t 09:01:00 succeeded"


def test_a_new_trigger_under_an_old_name_reuses_no_key() -> None:
    """Re-created at the same now, its first instant is later than every cancelled one; run numbers go on."""
    book = Given(create(cron("*/5 * * * *", jitter=4 * MINUTE))).given(DELETE, at="09:05:00")
    used = msgspec.structs.replace(book.trigger(), next_run_number=7)
    state = msgspec.structs.replace(book.state, triggers={"t": used})
    book.book = Book("acme", state, book.book.head)
    book.given(create(cron("*/5 * * * *", jitter=4 * MINUTE)), at="09:05:00")
    assert book.trigger().next_run_number == 7
    assert book.when(TICK, at="09:09:59").result == ()
    book.when(TICK, at="09:14:59").then("released t 09:10:00 caught-up")


def test_a_fire_left_open_by_a_deletion_still_overlaps() -> None:
    """A new trigger under the name sees the old one's open fire."""
    book = Given(create(cron("* * * * *"))).given(TICK, at="09:01:00").given(DELETE, at="09:01:01")
    book.given(create(cron("* * * * *")), at="09:01:02")
    book.when(TICK, at="09:02:00").then("skipped t 09:02:00 overlap")


def test_a_deletion_that_ends_one_fire_leaves_the_others_no_further_attempt() -> None:
    """One fire waits for its retry and ends in the deletion's page; the one under way is tried no more."""
    book = Given(create(cron("* * * * *", overlap="allow"))).given(TICK, at="09:01:00").given(TICK, at="09:02:00")
    failed = (started("09:01:00", "09:02:01", 5), result("09:01:00", "09:02:02", 6, "retryable"))
    book.when(TICK, at="09:02:03", observed=failed)
    book.when(DELETE, at="09:02:04").then("finished t 09:01:00 failed", "TriggerDeleted t")
    book.given(create(cron("0 0 1 1 *")), at="09:02:05")
    records = (started("09:02:00", "09:02:06", 7), result("09:02:00", "09:02:07", 8, "retryable"))
    book.when(TICK, at="09:02:08", observed=records)
    assert book.brief(book.entries()[-1]) == "finished t 09:02:00 failed"


def test_an_exhausted_trigger_cancels_nothing() -> None:
    """After its last fire nothing is owed, so nothing is cancelled."""
    book = Given(create(cron("* * * * *", max_fires=1))).given(TICK, at="09:01:00")
    book.when(DELETE, at="09:30:00").then("TriggerDeleted t")
