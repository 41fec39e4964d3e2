"""The shedding order: what each level holds back, that it waits or is recorded, and that it goes on afterwards."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.commands import ChangeGrant, FireNow, StartBackfill
from fireledger.domain.definition import Retry, TenantSettings
from fireledger.domain.instants import MINUTE, SECOND
from fireledger.domain.lanes import held_back
from tests.unit.domain.given import TICK, Given, create, cron, every, result

KINDS = ("backfill", "missed", "hand", "often", "over")
"""Triggers, each with a fire of another kind due at 09:10:00; the last one's is above the quota."""


def everything() -> Given:
    """A book in which a fire of every kind is due at 09:10:00."""
    book = Given(settings=TenantSettings(quota_per_second=2, catch_up_percent=100))
    book.given(ChangeGrant(grant="backfill", trigger=None, value=10, holder="owner"), at="09:00:00")
    book.given(create(cron("0 0 1 1 *"), "hand"), create(cron("0 0 1 1 *", overlap="allow"), "backfill"), at="09:00:00")
    book.given(create(cron("5 9 * * *", tolerance=SECOND), "missed"), at="09:00:00")
    book.given(create(cron("10 9 * * *"), "often"), create(cron("10 9 * * *"), "over"), at="09:00:00")
    first = book.instant("2026-01-01T00:00:00Z")
    book.given(
        StartBackfill(
            trigger="backfill", backfill="b", start=first, end=first + 1, only_missing=False, rate_per_second=10, by="x"
        ),
        at="09:09:00",
    )
    return book.given(FireNow(trigger="hand", by="someone"), at="09:09:00")


def outcome(book: Given, trigger: str) -> str:
    """What has become of the trigger's only fire."""
    state = book.trigger(trigger)
    if state.open:
        return "released"
    return "waits" if state.waiting else "skipped"


@pytest.mark.parametrize(
    "level,wanted",
    [
        (0, ("released", "released", "released", "released", "released")),
        (1, ("waits", "released", "released", "released", "released")),
        (2, ("waits", "waits", "released", "released", "released")),
        (3, ("waits", "waits", "released", "released", "waits")),
        (4, ("waits", "waits", "waits", "skipped", "skipped")),
    ],
)
def test_each_level_holds_back_what_it_says(level: int, wanted: tuple[str, ...]) -> None:
    """Backfill first, then catch-up, then what is above the quota, then what is on time.

    The quota is two: by hand and the first on-time fire use it up. At the highest level the one by hand is held back,
    so that both on-time fires are within the quota.
    """
    book = everything().when(TICK, at="09:10:00", shedding_level=level)
    assert tuple(outcome(book, name) for name in KINDS) == wanted


def test_a_shed_on_time_fire_is_skipped_by_entry() -> None:
    """Within the quota and at the highest level: skipped, cause shed, and never fired later."""
    book = Given(create(every("1m"))).when(TICK, at="09:01:00", shedding_level=4).then("skipped t 09:01:00 shed")
    book.when(TICK, at="09:02:00").then("released t 09:02:00 on-time")


def test_a_shed_fire_above_the_quota_waits_without_expiring() -> None:
    """Held back for hours it is released when there is room, mark and instant kept."""
    book = Given(
        create(cron("1 9 * * *", horizon=0), "a"), create(cron("1 9 * * *", horizon=0), "b"),
        settings=TenantSettings(quota_per_second=1),
    )  # fmt: skip
    book.when(TICK, at="09:01:00", shedding_level=3).then("released a 09:01:00 on-time", "decided b 09:01:00 on-time")
    assert book.when(TICK, at="14:00:00", shedding_level=3).result == ()
    book.when(TICK, at="15:00:00").then("released b 09:01:00 on-time after waiting")
    (entry,) = book.entries()
    assert isinstance(entry, e.FireReleased)
    assert entry.over_quota


def test_nothing_of_a_catch_up_is_lost_while_it_is_shed() -> None:
    """Every decided fire waits however long the level lasts, and all are released in order afterwards."""
    book = Given(create(cron("*/5 * * * *", missed="fire-all", overlap="allow", tolerance=SECOND)))
    book.when(TICK, at="09:31:00", shedding_level=2)
    assert [fire.scheduled for fire in book.trigger().waiting] == [
        book.start + minutes * MINUTE for minutes in (5, 10, 15, 20, 25, 30)
    ]
    book.when(TICK, at="09:34:00", shedding_level=2)
    assert book.result == ()
    book.when(TICK, at="09:34:30")
    assert [entry.scheduled for entry in book.entries() if isinstance(entry, e.FireReleased)] == [
        book.start + minutes * MINUTE for minutes in (5, 10, 15, 20, 25, 30)
    ]


def test_retries_are_shed_by_their_lane() -> None:
    """At the highest level an on-time fire's retry waits, open and unharmed, and goes on afterwards."""
    book = Given(create(every("1h", retry=Retry(base=SECOND)))).given(TICK, at="10:00:00")
    book.when(TICK, at="10:00:01", observed=(result("10:00:00", "10:00:01", 5, "retryable"),))
    assert book.when(TICK, at="10:30:00", shedding_level=4).result == ()
    book.when(TICK, at="10:31:00", shedding_level=3).then("released t 10:00:00 on-time attempt 2")


def test_outcomes_are_observed_and_windows_close_while_everything_is_shed() -> None:
    """Shedding holds releases back, not the truth about what was released."""
    book = Given(create(every("1h"), "a"), create(every("1h"), "b")).given(TICK, at="10:00:00")
    book.when(
        TICK, at="10:00:05", shedding_level=4, observed=(result("10:00:00", "10:00:04", 5, "succeeded", trigger="a"),)
    )
    book.then("observed a 10:00:00 succeeded", "finished a 10:00:00 succeeded")


def test_a_queued_fire_shed_at_the_highest_level_waits() -> None:
    """What was decided before is never skipped for shedding."""
    book = Given(create(every("1m", overlap="queue"))).given(TICK, at="09:01:00").given(TICK, at="09:02:00")
    done = (result("09:01:00", "09:02:10", 5, "succeeded"),)
    book.when(TICK, at="09:02:30", observed=done, shedding_level=4)
    book.then("observed t 09:01:00 succeeded", "finished t 09:01:00 succeeded")
    book.when(TICK, at="09:02:40").then("released t 09:02:00 on-time after waiting")


def test_missed_fires_of_a_skip_policy_are_not_shed_but_missed() -> None:
    """The policy speaks before the lane does."""
    book = Given(create(cron("*/5 * * * *", missed="skip", tolerance=SECOND)))
    book.when(TICK, at="09:06:00", shedding_level=4).then("skipped t 09:05:00 missed")


def test_the_order_is_the_published_one() -> None:
    """Each level holds back what the one below does, and one kind more."""
    lanes: list[tuple[e.Lane, bool]] = [("backfill", False), ("catch-up", False), ("on-time", True), ("on-time", False)]
    for level in range(6):
        assert [held_back(lane, over_quota=over, shedding_level=level) for lane, over in lanes] == [
            place < level for place in range(4)
        ]
