"""Spend ceilings: periods in the owner's zone, what exhausts them, what a suspension does, and how it ends."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.ceilings import period_of
from fireledger.domain.commands import FireNow, SetCeiling
from fireledger.domain.definition import TenantSettings
from fireledger.domain.instants import HOUR, MINUTE, format_instant, parse_instant
from fireledger.domain.limits import AMOUNT_MAX, STOPS_MAX
from fireledger.domain.rejections import RejectionCode
from fireledger.domain.state import Ceiling, Pause
from tests.unit.domain.given import (
    DELETE,
    PAUSE,
    RESUME,
    TICK,
    Given,
    When,
    create,
    cron,
    every,
    result,
    started,
    zones,
)

HOURLY = cron("0 * * * *")
MIDNIGHT = "2026-12-01T00:00:00Z"


def ceiling(amount: int | None, per: e.Period = "day", trigger: str | None = "t") -> SetCeiling:
    """Return the command that sets a ceiling, by default of the trigger and per day."""
    return SetCeiling(trigger=trigger, per=per, amount=amount)


def fired(amount: int = 100, *, per: e.Period = "day", trigger: str | None = "t") -> Given:
    """An hourly trigger with a ceiling, whose fire of 10:00 is open."""
    return Given(create(HOURLY), ceiling(amount, per, trigger)).given(TICK, at="10:00:00")


def cost(
    book: Given, amount: int, at: When, *, scheduled: When = "10:00:00", kind: e.ResultKind = "succeeded"
) -> Given:
    """Observe a result with a cost."""
    observed = (result(scheduled, at, book.state.as_of + 1, kind, cost=amount),)
    return book.when(TICK, at=at, observed=observed)


def of_trigger(book: Given) -> Ceiling:
    """The trigger's only ceiling."""
    (found,) = book.trigger().ceilings
    return found


def span(per: e.Period, at: str, zone: str) -> tuple[str, str]:
    """The period around an instant, as text."""
    start, end = period_of(per, parse_instant(at), zones().current.zone(zone))
    return format_instant(start), format_instant(end)


@pytest.mark.parametrize(
    "per,at,zone,start,end",
    [
        ("day", "2026-11-30T10:00:00Z", "UTC", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"),
        ("day", "2026-11-30T00:00:00Z", "UTC", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"),
        ("day", "2026-11-30T23:59:59.999999Z", "UTC", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"),
        # Rome's days of 25 and 23 hours.
        ("day", "2026-10-25T12:00:00Z", "Europe/Rome", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
        ("day", "2027-03-28T12:00:00Z", "Europe/Rome", "2027-03-27T23:00:00Z", "2027-03-28T22:00:00Z"),
        # Weeks begin on Monday, in the zone's own days.
        ("week", "2026-11-29T22:59:59Z", "Europe/Rome", "2026-11-22T23:00:00Z", "2026-11-29T23:00:00Z"),
        ("week", "2026-11-29T23:00:00Z", "Europe/Rome", "2026-11-29T23:00:00Z", "2026-12-06T23:00:00Z"),
        ("week", "2027-01-01T12:00:00Z", "UTC", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"),
        ("month", "2028-02-29T12:00:00Z", "UTC", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"),
        ("month", "2026-12-31T23:30:00Z", "Europe/Rome", "2026-12-31T23:00:00Z", "2027-01-31T23:00:00Z"),
        ("month", "2026-10-15T12:00:00Z", "Europe/Rome", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"),
        # Cairo's clocks go forward at midnight: the day begins at one.
        ("day", "2026-04-24T12:00:00Z", "Africa/Cairo", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"),
        ("day", "2026-04-23T21:59:59Z", "Africa/Cairo", "2026-04-22T22:00:00Z", "2026-04-23T22:00:00Z"),
        # Havana's go back from one to midnight: the day has begun at the first of its two midnights.
        ("day", "2025-11-02T04:30:00Z", "America/Havana", "2025-11-02T04:00:00Z", "2025-11-03T05:00:00Z"),
        ("day", "2025-11-02T05:30:00Z", "America/Havana", "2025-11-02T04:00:00Z", "2025-11-03T05:00:00Z"),
        # The Azores' do the same, an hour from UTC.
        ("day", "2026-10-25T00:30:00Z", "Atlantic/Azores", "2026-10-25T00:00:00Z", "2026-10-26T01:00:00Z"),
        # Samoa had no 30 December 2011.
        ("day", "2011-12-30T09:00:00Z", "Pacific/Apia", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"),
        ("day", "2011-12-30T10:00:00Z", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"),
    ],
)
def test_periods_are_those_of_the_zones_calendar(per: e.Period, at: str, zone: str, start: str, end: str) -> None:
    """Days, weeks from Monday and months, from midnight to midnight of the owner's zone."""
    assert span(per, at, zone) == (start, end)


@pytest.mark.parametrize(
    "zone", ["Europe/Rome", "Africa/Cairo", "America/Havana", "Atlantic/Azores", "America/Asuncion"]
)
def test_periods_follow_each_other_without_gap(zone: str) -> None:
    """Over a year of hours every instant lies in its period, and each period begins where the last one ended."""
    rules, now = zones().current.zone(zone), parse_instant("2025-01-01T12:00:00Z")
    hours: dict[e.Period, int] = {"day": 25, "week": 169, "month": 745}
    for per, longest in hours.items():
        begun, ends = period_of(per, now, rules)
        for at in range(now, now + 366 * 24 * HOUR, 2 * HOUR):
            start, following = period_of(per, at, rules)
            assert start <= at < following <= start + longest * HOUR
            assert (start, following) == (begun, ends) or start == ends
            begun, ends = start, following


def test_a_ceiling_begins_with_the_present_period() -> None:
    """Two entries: the ceiling, with the amount before, and the period in the trigger's zone."""
    book = Given(create(cron("0 * * * *", "Europe/Rome"))).when(ceiling(100), at="09:00:00")
    set_to, begun = book.entries()
    assert set_to == e.CeilingSet(trigger="t", amount=100, per="day")
    assert isinstance(begun, e.SpendPeriodBegun)
    assert (book.short(begun.start), book.short(begun.end)) == ("2026-11-29T23:00:00Z", "23:00:00")
    book.when(ceiling(50), at="09:00:00").then("CeilingSet t")
    (changed,) = book.entries()
    assert changed == e.CeilingSet(trigger="t", amount=50, per="day", before=100)
    assert book.when(ceiling(50), at="09:00:00").result == (), "the same again is no change"


def test_costs_count_from_the_page_that_set_the_ceiling() -> None:
    """What was spent before is nobody's."""
    book = Given(create(HOURLY)).given(TICK, at="10:00:00")
    cost(book, 1_000, "10:00:05", kind="retryable").given(ceiling(100), at="10:00:06")
    assert of_trigger(book).spent == 0
    cost(book, 99, "10:00:07")
    assert (of_trigger(book).spent, book.trigger().suspended_until) == (99, None)


def test_an_exhausted_ceiling_suspends_and_says_until_when() -> None:
    """The entry that follows the cost names amount, period and the instant at which it resumes."""
    book = cost(fired(), 100, "10:00:05")
    book.then("observed t 10:00:00 succeeded", "finished t 10:00:00 succeeded", "TriggerSuspended t")
    suspended = book.entries()[-1]
    assert isinstance(suspended, e.TriggerSuspended)
    assert suspended.until == parse_instant(MIDNIGHT)
    assert suspended.message == (
        "100 of 100 for this day are spent; resumes at 2026-12-01T00:00:00Z, or when the ceiling is raised"
    )
    assert book.next_due() == MIDNIGHT


def test_a_suspended_stretch_is_one_skipped_range() -> None:
    """Nothing fires until the period ends; then the stretch is one entry, cause ceiling, and the schedule goes on."""
    book = cost(fired(), 120, "10:00:05")
    for at in ("11:00:00", "17:00:00", "23:59:59"):
        assert book.when(TICK, at=at).result == ()
    # Midnight is the next period's first instant.
    book.when(TICK, at=MIDNIGHT).then(
        "SpendPeriodBegun t",
        "SuspensionEnded t",
        "skipped t 11:00:00-23:00:00 x13 ceiling",
        f"released t {MIDNIGHT} on-time",
    )
    assert (of_trigger(book).spent, book.trigger().pauses) == (0, ())


def test_a_suspension_ends_where_its_period_did_however_late_that_is_written() -> None:
    """After an outage over the period's end, what came after it meets the policy; what came before it was suspended."""
    book = cost(fired(), 120, "10:00:05")
    book.when(TICK, at="2026-12-01T02:30:00Z").then(
        "SpendPeriodBegun t",
        "SuspensionEnded t",
        "skipped t 11:00:00-23:00:00 x13 ceiling",
        f"expired t {MIDNIGHT}-2026-12-01T01:00:00Z x2 beyond-horizon",
        "released t 2026-12-01T02:00:00Z caught-up",
    )


def test_raising_resumes_at_once() -> None:
    """The command's page ends the suspension; the stretch until then is skipped, the next instant fires."""
    book = cost(fired(), 120, "10:00:05")
    book.when(ceiling(120), at="12:30:00").then("CeilingSet t")
    assert book.trigger().suspended_until is not None, "equal to what is spent is used up"
    book.when(ceiling(121), at="12:30:00").then("CeilingSet t", "SuspensionEnded t")
    ended = book.entries()[-1]
    assert isinstance(ended, e.SuspensionEnded)
    assert ended.cause == "raised"
    book.when(TICK, at="12:30:00").then("skipped t 11:00:00-12:00:00 x2 ceiling")
    book.when(TICK, at="13:00:00").then("released t 13:00:00 on-time")
    assert of_trigger(book).spent == 120, "what is spent stays spent"


LATE = "2026-12-01T03:30:00Z"
"""Half past three: nobody has looked since the period ended at midnight."""


def over_unseen(*commands: SetCeiling) -> Given:
    """Suspended from 10:00:05 until midnight; the night's instants are to be caught up."""
    book = Given(create(cron("0 * * * *", missed="fire-all", horizon=24 * HOUR)), ceiling(100), *commands)
    return cost(book.given(TICK, at="10:00:00"), 120, "10:00:05")


def lines(book: Given) -> list[str]:
    """The last page's entries, those of what was observed left out."""
    found = [book.brief(entry) for entry in book.entries()]
    return [line for line in found if not line.startswith(("observed", "finished"))]


@pytest.mark.parametrize("amount", [50, 121, 1_000, None])
def test_a_command_after_the_periods_end_finds_the_suspension_over(amount: int | None) -> None:
    """Raised, lowered or removed before a scheduler has looked: what came after the period's end is caught up."""
    book = over_unseen().when(ceiling(amount), at=LATE)
    begun = [] if amount is None else ["SpendPeriodBegun t"]
    assert lines(book) == ["CeilingSet t", *begun, "SuspensionEnded t"]
    ended = book.entries()[-1]
    assert isinstance(ended, e.SuspensionEnded)
    assert ended.cause == "period-over"
    book.when(TICK, at=LATE)
    assert lines(book)[:2] == ["skipped t 11:00:00-23:00:00 x13 ceiling", f"released t {MIDNIGHT} caught-up"]
    assert [fire.scheduled for fire in book.trigger().waiting] == [
        parse_instant(MIDNIGHT) + n * HOUR for n in (1, 2, 3)
    ]


def test_what_is_used_up_after_the_periods_end_suspends_from_then_on() -> None:
    """A late cost, or an amount of 0, does not reach back: the night between belongs to no suspension."""
    spent, lowered = over_unseen(ceiling(200, "week")), over_unseen()
    cost(spent, 100, LATE)
    assert lines(spent)[-3:] == ["SpendPeriodBegun t", "SuspensionEnded t", "TriggerSuspended t"]
    lowered.when(ceiling(0), at=LATE)
    assert lines(lowered) == ["CeilingSet t", "SpendPeriodBegun t", "SuspensionEnded t", "TriggerSuspended t"]
    for book in (spent, lowered):
        stretches = [(pause.start, pause.end) for pause in book.trigger().pauses]
        evening, night = parse_instant("2026-11-30T10:00:05Z"), parse_instant(MIDNIGHT) - 1
        assert stretches == [(evening, night), (parse_instant(LATE), None)]


def test_an_amount_of_nothing_suspended_until_it_was_raised() -> None:
    """It was used up again at midnight, whether somebody had looked or not: only the command ends the suspension."""
    book = Given(create(cron("0 * * * *", missed="fire-all", horizon=24 * HOUR)), ceiling(0))
    book.when(ceiling(100), at=LATE).then("CeilingSet t", "SpendPeriodBegun t", "SuspensionEnded t")
    ended = book.entries()[-1]
    assert isinstance(ended, e.SuspensionEnded)
    assert ended.cause == "raised"
    book.when(TICK, at=LATE).then("skipped t 10:00:00-2026-12-01T03:00:00Z x18 ceiling")


def test_another_ceiling_of_nothing_goes_on_suspending() -> None:
    """What a command about the week says of a day that ended unseen: it is used up until the next midnight."""
    book = Given(create(HOURLY), ceiling(0)).when(ceiling(100, "week"), at=LATE)
    assert lines(book) == ["CeilingSet t", "SpendPeriodBegun t", "SpendPeriodBegun t", "TriggerSuspended t"]
    assert book.trigger().suspended_until == parse_instant("2026-12-02T00:00:00Z")


@pytest.mark.parametrize("owner", ["t", None])
@pytest.mark.parametrize("amount", [0, 10])
@pytest.mark.parametrize("changed", [0, 5, 100, None])
def test_stretches_do_not_depend_on_when_somebody_looks(owner: str | None, amount: int, changed: int | None) -> None:
    """Whether a scheduler looked between a period's end and a command or not, the same was suspended."""
    stretches: list[tuple[Pause, ...]] = []
    for looks in ((), (MIDNIGHT,), (MIDNIGHT, "2026-12-01T01:10:00Z")):
        book = Given(create(cron("0 10 30 11 *")), ceiling(10, trigger=owner)).given(TICK, at="10:00:00")
        cost(book, 10, "10:00:05").given(ceiling(amount, trigger=owner), at="10:00:06")
        for at in looks:
            book.given(TICK, at=at)
        book.given(ceiling(changed, trigger=owner), at=LATE).given(TICK, at=LATE)
        stretches.append(book.state.pauses_of(book.trigger()))
    assert stretches[0] == stretches[1] == stretches[2]
    assert stretches[0]


def test_removing_resumes_at_once() -> None:
    """Without a ceiling nothing suspends, and there is none to remove again."""
    book = cost(fired(), 120, "10:00:05").when(ceiling(None), at="12:30:00").then("CeilingSet t", "SuspensionEnded t")
    assert book.trigger().ceilings == ()
    book.when(ceiling(None), at="12:30:00").then_refused(RejectionCode.CEILING_MISSING)


def test_lowering_below_what_is_spent_suspends_at_once() -> None:
    """No cost is needed for it."""
    book = cost(fired(), 60, "10:00:05").when(ceiling(60), at="10:30:00").then("CeilingSet t", "TriggerSuspended t")
    assert book.when(TICK, at="11:00:00").result == ()


def test_an_amount_of_nothing_suspends_from_period_to_period() -> None:
    """Zero is used up before anything is spent, and again in each period that begins."""
    book = Given(create(HOURLY)).when(ceiling(0), at="09:00:00")
    book.then("CeilingSet t", "SpendPeriodBegun t", "TriggerSuspended t")
    book.when(TICK, at=MIDNIGHT).then("SpendPeriodBegun t", "TriggerSuspended t")
    assert book.next_due() == "2026-12-02T00:00:00Z"
    book.given(ceiling(1), at="2026-12-01T10:30:00Z")
    book.when(TICK, at="2026-12-01T10:30:00Z").then("skipped t 10:00:00-2026-12-01T10:00:00Z x25 ceiling")


def test_the_longest_of_several_ceilings_decides() -> None:
    """With day and week used up the trigger resumes with the week; the message names that one."""
    book = Given(create(HOURLY), ceiling(10), ceiling(10, "week")).given(TICK, at="10:00:00")
    cost(book, 10, "10:00:05")
    suspended = book.entries()[-1]
    assert isinstance(suspended, e.TriggerSuspended)
    assert suspended.until == parse_instant("2026-12-07T00:00:00Z")
    assert "for this week" in suspended.message
    book.given(ceiling(100, "week"), at="11:30:00")
    assert book.trigger().suspended_until == parse_instant(MIDNIGHT), "the day's is used up still"


def test_a_suspension_grows_when_a_longer_ceiling_is_used_up() -> None:
    """Suspended for the day, a later cost uses up the week: the entry that says so comes with that cost."""
    book = Given(create(every("1h", overlap="allow")), ceiling(10), ceiling(15, "week"))
    book.given(TICK, at="10:00:00").given(TICK, at="11:00:00")
    cost(book, 10, "11:00:05")
    assert book.trigger().suspended_until == parse_instant(MIDNIGHT)
    cost(book, 10, "11:00:06", scheduled="11:00:00")
    book.then("observed t 11:00:00 succeeded", "finished t 11:00:00 succeeded", "TriggerSuspended t")
    assert book.trigger().suspended_until == parse_instant("2026-12-07T00:00:00Z")
    assert len(book.trigger().pauses) == 1


def test_a_cost_after_the_periods_end_counts_in_the_next() -> None:
    """What a page after midnight observes belongs to the new day, whenever the attempt was made."""
    book = fired(100)
    cost(book, 60, "2026-12-01T00:10:00Z")
    lines = [book.brief(entry) for entry in book.entries()]
    assert "SpendPeriodBegun t" in lines
    assert "TriggerSuspended t" not in lines
    assert (of_trigger(book).spent, book.short(of_trigger(book).start)) == (60, MIDNIGHT)


def test_a_cost_at_the_very_end_exhausts_the_next_period() -> None:
    """Observed exactly at the period's end it is the next period's."""
    book = cost(fired(100), 100, MIDNIGHT)
    assert book.trigger().suspended_until == parse_instant("2026-12-02T00:00:00Z")


def test_costs_of_every_attempt_count_the_late_ones_too() -> None:
    """A failed attempt, a duplicate answer and an answer after the end cost what they say."""
    book = cost(fired(100), 10, "10:00:05", kind="retryable")
    cost(book, 10, "10:00:06", kind="retryable")
    cost(book, 10, "10:00:07")
    cost(book, 10, "10:30:00")
    assert (of_trigger(book).spent, book.state.late_count) == (40, 1)
    cost(book, 60, "10:31:00")
    book.then("observed t 10:00:00 succeeded", "TriggerSuspended t")


def test_what_waits_is_not_released_while_suspended() -> None:
    """Caught-up, queued, by-hand and retried fires wait for the end of the suspension; nothing is lost."""
    book = Given(create(cron("*/10 * * * *", missed="fire-all")), ceiling(10)).given(TICK, at="09:45:00")
    book.given(FireNow(trigger="t", by="someone"), at="09:45:30")
    observed = (started("09:10:00", "09:45:01", 5), result("09:10:00", "09:46:00", 6, "succeeded", cost=10))
    book.when(TICK, at="09:46:00", observed=observed)
    assert book.brief(book.entries()[-1]) == "TriggerSuspended t"
    assert len(book.trigger().waiting) == 4
    book.when(TICK, at=MIDNIGHT)
    assert [line for line in map(book.brief, book.entries()) if line.startswith("released")] == [
        "released t 2026-12-01T00:00:00Z on-time"
    ]
    assert len(book.trigger().waiting) == 4


def test_a_ceiling_is_checked_before_anything_is_released() -> None:
    """Cost and due instant in one page: the instant is not released."""
    book = Given(create(every("1h", overlap="allow")), ceiling(10)).given(TICK, at="10:00:00")
    cost(book, 10, "11:00:00")
    assert not any(isinstance(entry, e.FireReleased) for entry in book.entries())


# Tenants


def test_a_tenants_ceiling_counts_and_suspends_all_its_triggers() -> None:
    """Costs of any trigger add up, in the tenant's zone; while it is used up no trigger of the tenant fires."""
    book = Given(settings=TenantSettings(zone="America/New_York"))
    book.given(create(HOURLY, "a"), create(HOURLY, "b"), ceiling(10, trigger=None)).given(TICK, at="10:00:00")
    records = (
        result("10:00:00", "10:00:04", 5, "succeeded", trigger="a", cost=4),
        result("10:00:00", "10:00:05", 6, "succeeded", trigger="b", cost=6),
    )
    book.when(TICK, at="10:00:06", observed=records)
    suspended = book.entries()[-1]
    assert isinstance(suspended, e.TriggerSuspended)
    assert (suspended.trigger, book.short(suspended.until)) == (None, "2026-12-01T05:00:00Z")
    assert book.when(TICK, at="11:00:00").result == ()
    assert book.next_due("a") == book.next_due("b") == "2026-12-01T05:00:00Z"
    book.when(TICK, at="2026-12-01T05:00:00Z").then(
        "SpendPeriodBegun",
        "SuspensionEnded",
        "skipped a 11:00:00-2026-12-01T04:00:00Z x18 ceiling",
        "released a 2026-12-01T05:00:00Z on-time",
        "skipped b 11:00:00-2026-12-01T04:00:00Z x18 ceiling",
        "released b 2026-12-01T05:00:00Z on-time",
    )


def test_tenant_and_trigger_are_suspended_apart() -> None:
    """The end of one suspension does not end the other; a trigger's stretch is one range still."""
    book = Given(create(HOURLY, "a"), create(HOURLY, "b"), ceiling(5, "week", "a"), ceiling(5, "day", None))
    book.given(TICK, at="10:00:00")
    book.when(TICK, at="10:00:06", observed=(result("10:00:00", "10:00:05", 6, "succeeded", trigger="a", cost=5),))
    assert [book.brief(entry) for entry in book.entries()][2:] == ["TriggerSuspended", "TriggerSuspended a"]
    book.when(TICK, at=MIDNIGHT).then(
        "SpendPeriodBegun",
        "SuspensionEnded",
        "skipped b 11:00:00-23:00:00 x13 ceiling",
        f"skipped b {MIDNIGHT} overlap",
    )
    book.when(ceiling(6, "week", "a"), at="2026-12-01T03:30:00Z").then("CeilingSet a", "SuspensionEnded a")
    book.when(TICK, at="2026-12-01T03:30:00Z")
    assert "skipped a 11:00:00-2026-12-01T03:00:00Z x17 ceiling" in [book.brief(entry) for entry in book.entries()]


def test_a_trigger_created_while_the_tenant_is_suspended_waits_as_well() -> None:
    """It begins suspended, and its instants until then are skipped."""
    book = Given(create(HOURLY, "a"), ceiling(0, trigger=None)).given(create(HOURLY, "b"), at="09:30:00")
    book.when(FireNow(trigger="b", by="someone"), at="09:40:00").then_refused(RejectionCode.TRIGGER_STOPPED)
    assert book.when(TICK, at="10:00:00").result == ()
    book.given(ceiling(None, trigger=None), at="10:30:00").when(TICK, at="10:30:00")
    book.then("skipped a 10:00:00 ceiling", "skipped b 10:00:00 ceiling")


def test_costs_of_a_deleted_trigger_count_for_the_tenant() -> None:
    """Its own ceiling is gone with it, the tenant's is not; another trigger of its name begins without one."""
    book = fired().given(ceiling(50, trigger=None), at="10:00:01").given(DELETE, at="10:00:02")
    cost(book, 30, "10:00:05")
    assert (book.state.ceilings[0].spent, book.trigger().ceilings) == (30, ())
    book.given(create(HOURLY), at="10:00:10")
    assert book.trigger().ceilings == ()


# Beside pauses


def test_a_pause_within_a_suspension() -> None:
    """Paused while suspended: after the suspension the pause holds, and each stretch has its own cause."""
    book = cost(fired(), 100, "10:00:05").given(PAUSE, at="20:30:00")
    book.when(TICK, at=MIDNIGHT).then("SpendPeriodBegun t", "SuspensionEnded t")
    book.given(RESUME, at="2026-12-01T02:30:00Z").when(TICK, at="2026-12-01T02:30:00Z")
    book.then(
        "skipped t 11:00:00-23:00:00 x13 ceiling",
        f"expired t {MIDNIGHT}-2026-12-01T01:00:00Z x2 beyond-horizon",
        "released t 2026-12-01T02:00:00Z caught-up",
    )


def test_a_suspension_within_a_pause() -> None:
    """Suspended while paused: raising does not resume the pause, and the suspended stretch has cause ceiling."""
    book = fired().given(PAUSE, at="10:00:02")
    cost(book, 100, "12:30:00")
    assert book.brief(book.entries()[-1]) == "TriggerSuspended t"
    book.given(ceiling(1_000), at="14:30:00")
    assert book.when(TICK, at="15:00:00").result == ()
    book.given(RESUME, at="15:30:00").when(TICK, at="15:30:00").then(
        "expired t 11:00:00-12:00:00 x2 beyond-horizon",
        "skipped t 13:00:00-14:00:00 x2 ceiling",
        "released t 15:00:00 caught-up",
    )


def test_many_suspensions_do_not_stand_in_the_way_of_a_pause() -> None:
    """A trigger that is rarely due keeps the stretches of its suspensions; it can be paused all the same."""
    book = Given(create(cron("0 0 1 1 *")))
    for _ in range(70):
        book.given(ceiling(0), at="09:30:00").given(ceiling(None), at="09:30:00")
    book.when(PAUSE, at="09:31:00").then("TriggerPaused t")


@pytest.mark.parametrize("owner", ["t", None])
def test_stretches_of_suspensions_are_bounded(owner: str | None) -> None:
    """While a trigger is not due, STOPS_MAX stretches are kept: the oldest are joined, and the newest stay exact."""
    book = Given(create(cron("0 0 1 1 *")))
    begun = [book.start + number * 10 * MINUTE for number in range(STOPS_MAX + 20)]
    for at in begun:
        book.given(ceiling(0, trigger=owner), at=at).given(ceiling(None, trigger=owner), at=at + MINUTE)
    kept = book.state.pauses_of(book.trigger())
    assert (len(kept), kept[0].start, kept[0].end) == (STOPS_MAX, begun[0], begun[20] + MINUTE)
    assert [(pause.start, pause.end) for pause in kept[1:]] == [(at, at + MINUTE) for at in begun[21:]]


def test_a_suspension_that_ends_where_it_began_leaves_nothing() -> None:
    """No release lies in it."""
    book = Given(create(cron("0 0 1 1 *")))
    book.given(ceiling(0), at="09:30:00").given(ceiling(None), at="09:30:00")
    assert book.trigger().pauses == ()


@pytest.mark.parametrize("amount", [-1, AMOUNT_MAX + 1])
def test_amounts_have_bounds(amount: int) -> None:
    """A negative or an absurd amount is refused; an unknown trigger is named."""
    book = Given(create(HOURLY)).when(ceiling(amount), at="09:00:00").then_refused(RejectionCode.VALUE_REFUSED)
    book.when(ceiling(1, trigger="who"), at="09:00:00").then_refused(RejectionCode.TRIGGER_MISSING)


def test_periods_of_many_triggers_end_at_one_midnight() -> None:
    """Each trigger's end is its own entries, cut between triggers or within, and none is lost."""
    book = Given()
    for number in range(8):
        book.given(create(HOURLY, f"t{number}"), ceiling(0, trigger=f"t{number}"), at="09:00:00")
    lines: list[str] = []
    for _ in range(20):
        lines.extend(book.brief(entry) for entry in book.when(TICK, at=MIDNIGHT, entry_limit=3).entries())
    assert sorted(lines) == sorted(
        f"{kind} t{number}" for number in range(8) for kind in ("SpendPeriodBegun", "TriggerSuspended")
    )
