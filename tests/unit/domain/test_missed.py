"""On-time and missed instants: order, horizon, tolerance and the three policies, with exact counts."""

import pytest

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.definition import TenantSettings
from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import DAY, HOUR, MICROSECOND, MINUTE, SECOND, Instant
from fireledger.domain.jitter import offset_of
from fireledger.domain.owed import Owed, Timeline
from tests.unit.domain.given import TICK, Given, changed, create, cron, each, every, length, once

START = "2026-11-30T09:00:00Z"


def test_an_on_time_fire_is_decided_and_released_in_one_entry() -> None:
    """At its release an instant becomes one released entry with the page of its definition."""
    book = Given(create(cron("*/5 * * * *"))).when(TICK, at="09:05:00")
    instant = book.instant("09:05:00")
    book.then(
        e.FireReleased(
            trigger="t", scheduled=instant, release=instant, definition_page=2, lane="on-time", cause="on-time"
        )
    )
    assert book.trigger().fired_count == 1
    assert book.next_due() == "09:10:00"


def test_nothing_fires_before_its_release() -> None:
    """A microsecond early nothing is due."""
    book = Given(create(cron("*/5 * * * *")))
    assert book.when(TICK, at=book.instant("09:05:00") - MICROSECOND).result == ()


def test_an_instant_is_decided_once() -> None:
    """A second tick at the same now has nothing to say."""
    book = Given(create(cron("*/5 * * * *"))).when(TICK, at="09:05:00")
    assert book.when(TICK, at="09:05:00").result == ()


def test_triggers_are_decided_oldest_due_first() -> None:
    """The order within a page is by due instant, then by name."""
    book = Given(create(cron("2 * * * *"), "a"), create(cron("1 * * * *"), "b"), create(cron("1 * * * *"), "c")).when(
        TICK, at="09:02:00"
    )
    book.then("released b 09:01:00 on-time", "released c 09:01:00 on-time", "released a 09:02:00 on-time")


def test_all_on_time_instants_fire_whatever_the_policy() -> None:
    """A per-second trigger forgives five seconds: each instant of them fires, in order."""
    book = Given(create(every("1s", missed="skip", overlap="allow"))).when(TICK, at="09:00:05")
    book.then(*(f"released t 09:00:0{second} on-time" for second in range(1, 6)))


@pytest.mark.parametrize(
    "text,late,on_time",
    [
        ("*/5 * * * * *", "5s", True),
        ("*/5 * * * * *", "6s", False),
        ("*/20 * * * * *", "20s", True),
        ("*/20 * * * * *", "21s", False),
        ("0 10 * * *", "60s", True),
        ("0 10 * * *", "61s", False),
    ],
)
def test_the_tolerance_is_the_gap_clamped(text: str, late: str, on_time: bool) -> None:
    """On time means no older than the gap to the next instant, at least five and at most sixty seconds."""
    book = Given(create(cron(text, missed="skip")))
    first = book.state.triggers["t"].segments[0].after
    due = {"*/5 * * * * *": 5 * SECOND, "*/20 * * * * *": 20 * SECOND, "0 10 * * *": HOUR}[text] + first
    entry = book.when(TICK, at=due + length(late)).entries()[0]
    assert isinstance(entry, e.FireReleased) == on_time
    if isinstance(entry, e.InstantsResolved):
        assert (entry.first, entry.state, entry.cause) == (due, "skipped", "missed")


def test_a_per_second_trigger_forgives_five_seconds() -> None:
    """The lower clamp: five seconds late is on time, a microsecond more is not."""
    book = Given(create(every("1s", missed="skip", overlap="allow"))).when(TICK, at=Given().instant("09:00:06") + 1)
    book.then("skipped t 09:00:01 missed", *(f"released t 09:00:0{second} on-time" for second in range(2, 7)))


def test_a_one_off_has_the_widest_tolerance() -> None:
    """Without a next instant a minute is forgiven."""
    book = Given(create(once("2026-11-30T10:00", missed="skip"))).when(TICK, at="10:01:00")
    book.then("released t 10:00:00 on-time")
    assert book.next_due() is None
    late = Given(create(once("2026-11-30T10:00", missed="skip"))).when(TICK, at="10:01:01")
    late.then("skipped t 10:00:00 missed")


def test_a_declared_tolerance_counts_as_declared() -> None:
    """A declared tolerance is not clamped."""
    hourly = cron("0 * * * *", missed="skip", tolerance=2 * SECOND)
    Given(create(hourly)).when(TICK, at="10:00:02").then("released t 10:00:00 on-time")
    Given(create(hourly)).when(TICK, at="10:00:03").then("skipped t 10:00:00 missed")
    generous = cron("0 * * * *", missed="skip", tolerance=30 * MINUTE)
    Given(create(generous)).when(TICK, at="10:30:00").then("released t 10:00:00 on-time")


def test_fire_once_now_fires_the_newest_missed() -> None:
    """The default policy: the newest missed instant fires, the others are coalesced into it."""
    book = Given(create(cron("*/10 * * * *"))).when(TICK, at="09:45:00")
    book.then(
        "coalesced t 09:10:00-09:30:00 x3 coalesced into 09:40:00",
        "released t 09:40:00 caught-up",
    )


def test_fire_once_now_coalesces_into_an_on_time_instant() -> None:
    """When an on-time instant is due in the same page, the missed ones go into that."""
    book = Given(create(cron("*/10 * * * *"))).when(TICK, at="09:40:30")
    book.then(
        "coalesced t 09:10:00-09:30:00 x3 coalesced into 09:40:00",
        "released t 09:40:00 on-time",
    )


def test_one_missed_instant_is_caught_up() -> None:
    """A single missed instant fires with its own scheduled instant."""
    Given(create(cron("0 * * * *"))).when(TICK, at="10:20:00").then("released t 10:00:00 caught-up")


def test_skip_records_missed_instants() -> None:
    """Under skip nothing missed fires; the range says how many and why."""
    book = Given(create(cron("*/10 * * * *", missed="skip"))).when(TICK, at="09:45:00")
    book.then("skipped t 09:10:00-09:40:00 x4 missed")
    book.when(TICK, at="09:50:00").then("released t 09:50:00 on-time")


def test_fire_all_fires_the_newest_up_to_the_cap() -> None:
    """The newest N fire, oldest of them first; what is over the cap is dropped, with its count."""
    book = Given(create(cron("*/10 * * * *", missed="fire-all", cap=2, overlap="allow"))).when(TICK, at="09:45:00")
    book.then(
        "dropped t 09:10:00-09:20:00 x2 over-cap",
        "released t 09:30:00 caught-up",
        "released t 09:40:00 caught-up",
    )


def test_fire_all_within_the_cap_drops_nothing() -> None:
    """Up to the cap every missed instant fires, then the on-time one."""
    book = Given(create(cron("*/10 * * * *", missed="fire-all", overlap="allow"))).when(TICK, at="09:30:05")
    book.then(
        "released t 09:10:00 caught-up",
        "released t 09:20:00 caught-up",
        "released t 09:30:00 on-time",
    )


@pytest.mark.parametrize("policy", ["fire-all", "fire-once-now", "skip"])
def test_beyond_the_horizon_everything_expires(policy: str) -> None:
    """An instant older than the horizon expires whatever the policy; at the horizon it does not."""
    book = Given(create(cron("0 * * * *", missed=policy))).when(TICK, at="11:00:00")
    book.then(
        {
            "fire-all": "decided t 10:00:00 caught-up",
            "fire-once-now": "coalesced t 10:00:00 coalesced into 11:00:00",
            "skip": "skipped t 10:00:00 missed",
        }[policy],
        "released t 11:00:00 on-time",
    )
    late = Given(create(cron("0 * * * *", missed=policy))).when(TICK, at=book.instant("11:00:00") + 1)
    late.then("expired t 10:00:00 beyond-horizon", "released t 11:00:00 on-time")


def test_a_months_outage_is_counted_exactly() -> None:
    """A long outage is one range with an exact count, then what the horizon holds."""
    book = Given(create(cron("*/10 * * * *", missed="skip"))).when(TICK, at="2026-12-31T09:05:00Z")
    first, second = book.entries()
    assert isinstance(first, e.InstantsResolved)
    assert (first.state, first.count) == ("expired", 31 * 144 - 6)
    assert isinstance(second, e.InstantsResolved)
    assert (second.state, second.cause, second.count) == ("skipped", "missed", 6)


def test_a_years_outage_of_a_per_second_trigger_is_bounded_work() -> None:
    """Thirty million instants are counted, not looked at."""
    book = Given(create(every("1s", horizon=10 * SECOND, missed="skip", overlap="allow")))
    expired = book.when(TICK, at=book.start + 365 * DAY).entries()[0]
    assert isinstance(expired, e.InstantsResolved)
    assert expired.count == 365 * 86_400 - 11


def test_an_outage_across_a_clock_change_is_counted_exactly() -> None:
    """The hour that a zone repeats or misses is in the count: 25 and 23 hours."""
    for start, end, hours in (
        ("2026-10-24T22:30:00Z", "2026-10-25T23:00:00Z", 25),
        ("2027-03-27T23:30:00Z", "2027-03-28T22:00:00Z", 23),
    ):
        book = Given(create(cron("0 * * * *", "Europe/Rome", horizon=0, missed="skip")), start=start)
        entry = book.when(TICK, at=book.instant(end) + SECOND).entries()[0]
        assert isinstance(entry, e.InstantsResolved)
        assert (entry.state, entry.count) == ("expired", hours)


def test_jitter_moves_the_release_and_not_the_key() -> None:
    """A jittered fire is due at its release, under its scheduled instant."""
    book = Given(create(cron("*/5 * * * *", jitter=MINUTE)))
    scheduled = book.instant("09:05:00")
    release = scheduled + offset_of(FireKey("acme", "t", Instant(scheduled)), MINUTE)
    assert scheduled < release < scheduled + MINUTE
    assert book.when(TICK, at=release - 1).result == ()
    entry = book.when(TICK, at=release).entries()[0]
    assert isinstance(entry, e.FireReleased)
    assert (entry.scheduled, entry.release) == (scheduled, release)


def test_a_tenants_default_jitter_holds_unless_the_trigger_opts_out() -> None:
    """A trigger without a window takes the tenant's; one with window 0 has none."""
    book = Given(
        create(cron("*/5 * * * *"), "takes"),
        create(cron("*/5 * * * *", jitter=0), "opts-out"),
        settings=TenantSettings(default_jitter=4 * MINUTE),
    )
    assert book.next_due("opts-out") == "09:05:00"
    due = book.next_due("takes")
    assert due is not None
    assert "09:05:00" < due < "09:09:00"


def test_a_new_default_jitter_leaves_undecided_instants_as_they_were() -> None:
    """Instants scheduled up to the amendment keep the old default window; later ones have the new."""
    book = Given(create(cron("*/5 * * * *")), settings=TenantSettings(default_jitter=4 * MINUTE))
    due = book.next_due()
    book.given(c.AmendTenant(settings=TenantSettings(default_jitter=0)), at="09:05:00")
    assert book.next_due() == due
    assert due is not None
    book.when(TICK, at=due).then("released t 09:05:00 on-time")
    assert book.next_due() == "09:10:00"


def test_the_default_jitter_may_change_as_often_as_its_triggers_are_decided() -> None:
    """Old default windows are forgotten once no undecided instant has them."""
    book = Given(create(every("1m", overlap="allow")))
    for number, at in enumerate(each("2026-11-30T09:01:00Z", "1m", 200)):
        book.given(c.AmendTenant(settings=TenantSettings(default_jitter=number % 2 * SECOND)), at=at)
        book.given(TICK, at=at + 30 * SECOND)
    assert len(book.state.default_jitters) <= 3


def test_not_before_and_not_after_are_inclusive() -> None:
    """The bounds are on scheduled instants, both included."""
    book = Given()
    bounds = {"not_before": book.instant("09:10:00"), "not_after": book.instant("09:20:00")}
    definition = changed(cron("*/5 * * * *", overlap="allow"), **bounds)
    book.given(create(definition))
    assert book.next_due() == "09:10:00"
    book.ticks("09:05:00", "09:10:00", "09:15:00", "09:20:00", "09:25:00")
    book.then(*(f"released t 09:{minute}:00 on-time" for minute in (10, 15, 20)))
    assert book.next_due() is None


def test_an_outage_over_both_bounds_counts_what_lies_within() -> None:
    """Only instants within the bounds are owed."""
    book = Given()
    definition = cron(
        "*/5 * * * *", not_before=book.instant("09:10:00"), not_after=book.instant("09:20:00"), missed="skip", horizon=0
    )
    book.given(create(definition)).when(TICK, at="12:00:00").then("expired t 09:10:00-09:20:00 x3 beyond-horizon")
    assert book.when(TICK, at="13:00:00").result == ()


def test_after_its_last_fire_a_trigger_owes_nothing() -> None:
    """The maximum counts fires, and instants after it are not owed, missed ones neither."""
    book = Given(create(every("1m", max_fires=2, overlap="allow"))).ticks(
        "09:01:00", "09:02:00", "09:03:00", "10:30:00"
    )
    book.then("released t 09:01:00 on-time", "released t 09:02:00 on-time")
    assert book.next_due() is None


def test_the_maximum_counts_fires_and_not_skips() -> None:
    """A skipped instant does not use up the maximum."""
    book = Given(create(every("10m", max_fires=1, missed="skip"))).ticks("09:15:00", "09:20:00", "09:30:00")
    book.then("skipped t 09:10:00 missed", "released t 09:20:00 on-time")


def test_fire_all_stops_at_the_maximum() -> None:
    """Caught-up fires count, and the newest that the maximum leaves room for fire."""
    book = Given(create(every("10m", max_fires=2, missed="fire-all", overlap="allow"))).when(TICK, at="09:50:30")
    book.then(
        "dropped t 09:10:00-09:20:00 x2 over-cap", "released t 09:30:00 caught-up", "released t 09:40:00 caught-up"
    )


def test_raising_the_maximum_owes_nothing_of_the_past() -> None:
    """An exhausted trigger that may fire again does so after the amendment: nothing fires because of an edit."""
    book = Given(create(every("1m", max_fires=1))).given(TICK, at="09:01:00")
    book.given(c.AmendTrigger(trigger="t", definition=every("1m", max_fires=2, overlap="allow")), at="09:30:30")
    assert book.next_due() == "09:31:00"
    book.when(TICK, at="09:31:00").then("released t 09:31:00 on-time")


def test_jitter_is_no_wider_than_the_gap() -> None:
    """Ten minutes of jitter on a per-minute trigger: every release lies before the next scheduled instant."""
    book = Given(create(cron("* * * * *", jitter=10 * MINUTE, overlap="allow")))
    for number in range(1, 11):
        scheduled = book.start + number * MINUTE
        due = book.next_due()
        assert due is not None
        assert scheduled <= book.instant(due) < scheduled + MINUTE
        book.when(TICK, at=due).then(f"released t {book.short(scheduled)} on-time")


def test_several_new_default_jitters_each_hold_for_their_stretch() -> None:
    """An undecided instant keeps the default of its own time, however many changes follow."""
    book = Given(create(cron("*/5 * * * *")), settings=TenantSettings(default_jitter=4 * MINUTE))
    book.given(c.AmendTenant(settings=TenantSettings(default_jitter=3 * MINUTE)), at="09:04:00")
    due = book.next_due()
    for at, window in (("09:05:00", 0), ("09:05:01", MINUTE)):
        book.given(c.AmendTenant(settings=TenantSettings(default_jitter=window)), at=at)
        assert book.next_due() == due != "09:05:00"


def test_a_maximum_reached_in_an_old_schedule_ends_the_new_one_too() -> None:
    """When the last fire is one of the old schedule, missed instants of the new one are not owed."""
    book = Given(create(cron("*/10 * * * *", max_fires=1)))
    book.given(c.AmendTrigger(trigger="t", definition=cron("*/7 * * * *", max_fires=1)), at="09:12:00")
    book.when(TICK, at="09:40:00").then("released t 09:10:00 caught-up")
    assert book.next_due() is None


def test_an_hour_of_missed_seconds_is_counted_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an outage only instants that may fire are looked at one by one, so a book is decided in bounded time."""
    looked_at: list[int] = []
    owed = Timeline.owed

    def counted(timeline: Timeline, scheduled: int) -> Owed:
        """Remember what is looked at."""
        looked_at.append(scheduled)
        return owed(timeline, scheduled)

    given = Given(create(cron("* * * * * *", horizon=HOUR)))
    monkeypatch.setattr(Timeline, "owed", counted)
    given.when(TICK, at="10:30:00")
    monkeypatch.undo()
    ranges = [entry for entry in given.entries() if isinstance(entry, e.InstantsResolved) and entry.count > 1]
    assert [(entry.state, entry.count) for entry in ranges] == [("expired", 1_799), ("coalesced", 3_595)]
    assert len(looked_at) < 300
