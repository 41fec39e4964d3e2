"""A trigger takes the name of a deleted one: what it finds of it, row by row of the table in docs/policies/edits.md."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.commands import CancelFire, ChangeGrant, FireNow, ReleaseFire, SetCeiling, StartBackfill
from fireledger.domain.instants import HOUR, MINUTE
from fireledger.domain.limits import FIRES_OPEN_MAX
from fireledger.domain.page import Quarantine
from fireledger.domain.rejections import RejectionCode
from tests.unit.domain.given import (
    DELETE,
    PAUSE,
    TICK,
    Given,
    amend,
    changed,
    create,
    cron,
    result,
    started,
)

NEW = cron("*/10 * * * *")
NOW = FireNow(trigger="t", by="someone")
GRANT = ChangeGrant(grant="backfill", trigger="t", value=100, holder="owner")


def deleted(**changes: object) -> Given:
    """The fire of 10:00 was under way when its trigger was deleted at 10:00:03."""
    book = Given(create(changed(cron("0 * * * *", outcome_window=30 * MINUTE), **changes))).given(TICK, at="10:00:00")
    book.when(TICK, at="10:00:02", observed=(started("10:00:00", "10:00:01", 10),))
    return book.given(DELETE, at="10:00:03")


def taken(**changes: object) -> Given:
    """Another trigger, each ten minutes, has had the name since 10:00:04."""
    return deleted().given(create(changed(NEW, **changes)), at="10:00:04")


def held(**changes: object) -> Given:
    """The same, and the old fire was held before the deletion."""
    book = Given(create(cron("0 * * * *"))).given(TICK, at="10:00:00")
    book.when(TICK, at="10:00:02", observed=(result("10:00:00", "10:00:01", 10, "held"),))
    return book.given(DELETE, create(changed(NEW, **changes)), at="10:00:04")


def answered(book: Given, kind: e.ResultKind, *, at: str = "10:05:00", cost: int | None = None) -> Given:
    """The old fire's attempt is answered so."""
    return book.when(TICK, at=at, observed=(result("10:00:00", at, 50, kind, cost=cost),), as_of_read_at=at)


def test_a_key_decided_before_the_deletion_is_not_decided_again() -> None:
    """Created in the very instant that is decided: the first instant is a later one."""
    book = Given(create(cron("0 * * * *", overlap="allow"))).given(TICK, at="10:00:00")
    book.given(DELETE, create(cron("0 * * * *", overlap="allow")), at="10:00:00")
    assert book.next_due() == "11:00:00"


def test_run_numbers_go_on_over_several_lives_of_a_name() -> None:
    """Each fire by hand takes the next, whichever trigger it is of."""
    book = Given(create(cron("0 * * * *", overlap="allow")))
    for life in (1, 2, 3):
        book.when(NOW, at="09:10:00")
        (requested,) = book.entries()
        assert isinstance(requested, e.FireRequested)
        assert requested.sequence == life
        book.given(TICK, DELETE, create(cron("0 * * * *", overlap="allow")), at="09:10:00")
    assert [fire.sequence for fire in book.trigger().open] == [1, 2, 3]
    assert all(fire.orphaned for fire in book.trigger().open)


@pytest.mark.parametrize("state", ["under way", "held"])
@pytest.mark.parametrize(
    "overlap,first",
    [
        ("skip", "skipped t 10:10:00 overlap"),
        ("queue", "decided t 10:10:00 on-time"),
        ("allow", "released t 10:10:00 on-time"),
    ],
)
def test_an_old_open_fire_overlaps_with_the_new_triggers(state: str, overlap: str, first: str) -> None:
    """Whether it is under way or held, the new trigger's own policy says what that means, until it ends."""
    book = taken(overlap=overlap) if state == "under way" else held(overlap=overlap)
    book.when(TICK, at="10:10:00").then(first)
    answered(book, "succeeded", at="10:15:00")
    waited = ["released t 10:10:00 on-time after waiting"] if overlap == "queue" else []
    book.then("observed t 10:00:00 succeeded", "finished t 10:00:00 succeeded", *waited)
    if overlap == "skip":
        book.when(TICK, at="10:20:00").then("released t 10:20:00 on-time")


def test_old_open_fires_count_towards_the_bound_of_open_ones() -> None:
    """A trigger cannot be deleted and created again to have more open fires than one may have."""
    per_second = cron("* * * * * *", overlap="allow")
    book = Given(create(per_second))
    for second in (*range(5, FIRES_OPEN_MAX, 5), FIRES_OPEN_MAX - 1):
        book.when(TICK, at=book.start + second * 1_000_000)
    book.given(DELETE, create(per_second), at=book.at)
    book.when(TICK, at=book.at + 1_000_000)
    assert [type(entry) for entry in book.entries()] == [e.FireReleased]
    book.when(TICK, at=book.at + 1_000_000)
    assert [entry.cause for entry in book.entries() if isinstance(entry, e.InstantsResolved)] == ["overlap"]


@pytest.mark.parametrize("kind,outcome", [("retryable", "failed"), ("timeout", "unknown"), ("succeeded", "succeeded")])
def test_the_attempt_under_way_is_the_last(kind: e.ResultKind, outcome: str) -> None:
    """It ends the fire, whatever attempts the new trigger allows, and nothing of it is due any more."""
    book = answered(taken(), kind)
    book.then(f"observed t 10:00:00 {kind}", f"finished t 10:00:00 {outcome}")
    assert (book.trigger().open, book.next_due()) == ((), "10:10:00")


def test_its_own_outcome_window_ends_an_old_fire() -> None:
    """Half an hour from its start, though the new trigger's is a minute."""
    book = taken(outcome_window=MINUTE, overlap="allow")
    book.given(TICK, at="10:29:00")
    assert book.trigger().open[0].scheduled == book.instant("10:00:00")
    book.when(TICK, at="10:30:01", as_of_read_at="10:30:01")
    assert "finished t 10:00:00 unknown" in [book.brief(entry) for entry in book.entries()]


@pytest.mark.parametrize("before", [True, False])
def test_a_held_fire_is_ended_by_a_person_and_never_released(before: bool) -> None:
    """Held before or after the deletion, and after the new trigger was amended, paused or deleted as well."""
    book = held() if before else answered(taken(), "held")
    release = ReleaseFire(trigger="t", scheduled=book.instant("10:00:00"), sequence=0, by="someone")
    for command in (amend(cron("*/20 * * * *")), PAUSE, DELETE, create(NEW)):
        book.when(release, at="10:06:00").then_refused(RejectionCode.TRIGGER_STOPPED)
        book.given(command, at="10:06:00")
    book.when(release, at="10:06:00").then_refused(RejectionCode.TRIGGER_STOPPED)
    assert answered(book, "retryable", at="10:07:00").trigger().open[0].held
    book.when(CancelFire(trigger="t", scheduled=release.scheduled, sequence=0, by="someone"), at="10:07:30")
    book.then("finished t 10:00:00 failed")


def test_a_late_cost_counts_under_the_ceilings_that_the_name_has_now() -> None:
    """Not under those of the deleted trigger, which ended with it; and the outcome stays what it was."""
    book = answered(taken(), "succeeded", at="10:05:00", cost=3)
    assert (book.trigger().ceilings, book.state.late_count) == ((), 0)
    book.given(SetCeiling(trigger="t", per="day", amount=10), at="10:05:01")
    book.given(TICK, at="10:05:02")
    answered(book, "succeeded", at="10:05:30", cost=7)
    book.then("observed t 10:00:00 succeeded")
    assert ([each.spent for each in book.trigger().ceilings], book.state.late_count) == ([7], 1)


def test_what_was_spent_of_a_tenants_ceiling_stays_spent() -> None:
    """It is the tenant's, whichever of its triggers spent it."""
    book = taken().given(SetCeiling(trigger=None, per="day", amount=10), at="10:00:05")
    book.given(TICK, at="10:00:06")
    answered(book, "succeeded", cost=4)
    book.given(DELETE, create(NEW), at="10:06:00")
    assert [each.spent for each in book.state.ceilings] == [4]


def test_the_maximum_of_fires_is_counted_anew() -> None:
    """Neither what the old trigger fired counts, nor its fire that ends now."""
    book = deleted(max_fires=1).given(create(changed(NEW, max_fires=2)), at="10:00:04")
    answered(book, "succeeded")
    assert book.trigger().fired_count == 0
    for instant in ("10:10:00", "10:20:00"):
        book.when(TICK, at=instant).then(f"released t {instant} on-time")
        minute = instant[:5]
        book.when(
            TICK, at=f"{minute}:05", observed=(result(instant, f"{minute}:04", book.book.head.number * 100, "final"),)
        )
    assert book.next_due() is None


def test_stops_of_the_old_trigger_do_not_stop_the_new_one() -> None:
    """Pause, quarantine and suspension ended with it; what they kept is not owed."""
    paused = Given(create(cron("0 * * * *"))).given(PAUSE, at="09:30:00")
    broken = Given(create(cron("0 * * * *"))).when(TICK, at="10:00:00", quarantine=(Quarantine("t", "broken"),))
    suspended = Given(create(cron("0 * * * *")), SetCeiling(trigger="t", per="day", amount=0)).given(
        TICK, at="09:30:00"
    )
    assert suspended.trigger().suspended_until is not None
    for book in (paused, broken, suspended):
        assert not book.state.deciding(book.trigger())
        book.given(DELETE, create(NEW), at="10:00:04")
        assert book.state.deciding(book.trigger())
        book.when(TICK, at="10:10:00").then("released t 10:10:00 on-time")


def test_what_waited_is_not_there_any_more() -> None:
    """Fires that waited for their release, a retry and the fires of a backfill ended with the deletion, by entries."""
    book = Given(create(cron("*/10 * * * *", missed="fire-all")), GRANT).given(TICK, at="09:35:00")
    failed = (result("09:10:00", "09:35:01", 10, "retryable"),)
    book.when(TICK, at="09:35:02", observed=failed)
    again = StartBackfill(
        trigger="t", backfill="b", start=book.start - HOUR, end=book.start, only_missing=False, rate_per_second=1,
        by="someone",
    )  # fmt: skip
    book.given(again, at="09:36:00").given(TICK, at="09:36:00")
    assert {fire.lane for fire in book.trigger().waiting} == {"catch-up", "backfill"}
    book.given(DELETE, at="09:37:00")
    ended = {type(entry) for entry in book.entries()}
    assert ended == {e.FireWithdrawn, e.FireFinished, e.BackfillEnded, e.TriggerDeleted}
    book.given(create(NEW), at="09:37:01")
    new = book.trigger()
    assert (new.waiting, new.open, new.backfill, new.segments[0].after) == ((), (), None, book.instant("09:37:01"))
    assert book.next_due() == "09:40:00"


def test_what_was_granted_to_the_old_trigger_is_not_granted_to_the_new_one() -> None:
    """A grant is of one trigger, not of whatever has its name."""
    book = Given(create(cron("0 * * * *")), GRANT).given(DELETE, create(NEW), at="10:00:04")
    assert book.state.granted("backfill", "t") is None
