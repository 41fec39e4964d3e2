"""Backfills: grants, ranges, run numbers, their own lane and rate, and what may happen while one is under way."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.commands import CancelBackfill, CancelFire, ChangeGrant, FireNow, StartBackfill
from fireledger.domain.definition import Definition, TenantSettings
from fireledger.domain.instants import DAY, HOUR, MINUTE, SECOND
from fireledger.domain.limits import BACKFILL_FIRES_MAX, BACKFILL_SPANS_MAX, BACKFILL_WAITING_MAX, LANE_RATE_MAX
from fireledger.domain.page import Quarantine
from fireledger.domain.rejections import Rejection, RejectionCode
from tests.unit.domain.given import (
    DELETE,
    PAUSE,
    RESUME,
    TICK,
    Given,
    When,
    amend,
    create,
    cron,
    every,
    result,
)

HOURLY = cron("0 * * * *", overlap="allow")
UNPACED = TenantSettings(quota_per_second=100_000, catch_up_percent=100)
CANCEL = CancelBackfill(trigger="t", by="someone")


def grant(value: int | None, trigger: str | None = None) -> ChangeGrant:
    """Return the command that grants backfills of so many fires."""
    return ChangeGrant(grant="backfill", trigger=trigger, value=value, holder="owner")


def over(
    start: str, end: str, *, fired: tuple[e.Span, ...] = (), rate: int = LANE_RATE_MAX, label: str = "again"
) -> StartBackfill:
    """Return the command that backfills [start, end) of the trigger."""
    at = Given().instant
    return StartBackfill(
        trigger="t", backfill=label, start=at(start), end=at(end), only_missing=bool(fired), rate_per_second=rate,
        by="someone", fired=fired,
    )  # fmt: skip


def granted(definition: Definition = HOURLY, value: int = 100) -> Given:
    """A trigger that may be backfilled, and a tenant that does not pace it."""
    return Given(create(definition), grant(value), settings=UNPACED)


def fires(book: Given) -> list[tuple[str, int]]:
    """The scheduled instants and run numbers of what the last command decided."""
    return [
        (book.short(entry.scheduled), entry.sequence) for entry in book.entries() if isinstance(entry, e.FireDecided)
    ]


def ended(book: Given) -> list[tuple[str, int]]:
    """How backfills ended in the last command's entries."""
    return [(entry.cause, entry.fired_count) for entry in book.entries() if isinstance(entry, e.BackfillEnded)]


def run_out(book: Given, *, at: When, limit: int = 10_000) -> list[e.BookEntry]:
    """Tick until nothing is left to say."""
    found: list[e.BookEntry] = []
    while book.when(TICK, at=at, entry_limit=limit).result:
        assert len(book.entries()) <= limit
        found.extend(book.entries())
    return found


def test_a_backfill_decides_releases_and_ends() -> None:
    """Each instant takes the next run number, its own scheduled instant and lane; the end says how many fired."""
    book = granted().when(over("05:00:00", "08:00:00"), at="09:10:00").then("BackfillStarted t")
    (began,) = book.entries()
    assert isinstance(began, e.BackfillStarted)
    assert began.grant_holder == "owner", "not who starts it: that stands in the page's command"
    assert book.next_due() == "1970-01-01T00:00:00Z"
    book.when(TICK, at="09:10:00").then(
        "decided t 05:00:00 backfilled",
        "decided t 06:00:00 backfilled",
        "decided t 07:00:00 backfilled",
        "released t 05:00:00 backfilled after waiting",
        "released t 06:00:00 backfilled after waiting",
        "released t 07:00:00 backfilled after waiting",
        "BackfillEnded t",
    )
    assert fires(book) == [("05:00:00", 1), ("06:00:00", 2), ("07:00:00", 3)]
    assert {entry.lane for entry in book.entries() if isinstance(entry, e.FireReleased)} == {"backfill"}
    assert ended(book) == [("complete", 3)]
    assert (book.trigger().backfill, book.trigger().fired_count) == (None, 0)
    assert book.next_due() == "10:00:00"


def test_a_backfill_leaves_the_schedule_alone() -> None:
    """The segment's marks do not move, and the next scheduled instant fires as always."""
    book = granted().given(TICK, at="10:00:00")
    before = book.trigger().segments
    book.given(over("05:00:00", "10:00:00"), at="10:10:00")
    run_out(book, at="10:10:00")
    assert book.trigger().segments == before
    book.when(TICK, at="11:00:00").then("released t 11:00:00 on-time")


def test_the_range_includes_its_start_and_not_its_end() -> None:
    """[start, end): an instant at the end is another range's, and one microsecond more takes it in."""
    book = granted().given(over("05:00:00", "06:00:00"), at="09:10:00").when(TICK, at="09:10:00")
    assert fires(book) == [("05:00:00", 1)]
    book.given(over("05:00:00.000001", "06:00:00.000001"), at="09:11:00").when(TICK, at="09:11:00")
    assert fires(book) == [("06:00:00", 2)]


@pytest.mark.parametrize(
    "start,end,code",
    [
        ("05:00:00", "05:00:00", RejectionCode.VALUE_REFUSED),
        ("06:00:00", "05:00:00", RejectionCode.VALUE_REFUSED),
        ("05:00:01", "06:00:00", RejectionCode.VALUE_REFUSED),
        ("05:00:00", "09:10:00.000001", RejectionCode.VALUE_REFUSED),
        ("1969-12-31T23:59:59Z", "1970-01-02T00:00:00Z", RejectionCode.VALUE_REFUSED),
    ],
)
def test_ranges_that_are_empty_or_in_the_future_are_refused(start: str, end: str, code: RejectionCode) -> None:
    """Nothing to fire, the wrong way round, beyond now or before 1970: refused with a hint."""
    book = granted().when(over(start, end), at="09:10:00").then_refused(code)
    assert isinstance(book.result, Rejection)
    assert book.result.hint


def test_a_range_may_end_now() -> None:
    """The page's now itself is the latest end."""
    granted().when(over("05:00:00", "09:10:00"), at="09:10:00").then("BackfillStarted t")


@pytest.mark.parametrize("rate", [0, -1, LANE_RATE_MAX + 1])
def test_rates_have_bounds(rate: int) -> None:
    """A rate of nothing or above the highest is refused."""
    granted().when(over("05:00:00", "08:00:00", rate=rate), at="09:10:00").then_refused(RejectionCode.VALUE_REFUSED)


def test_a_backfill_needs_a_grant_that_is_large_enough() -> None:
    """Without one, with one too small, and after it was withdrawn: refused, saying how many fires it would make."""
    book = Given(create(HOURLY), settings=UNPACED)
    book.when(over("05:00:00", "08:00:00"), at="09:10:00").then_refused(RejectionCode.GRANT_MISSING)
    assert isinstance(book.result, Rejection)
    assert "3 fires" in book.result.message
    book.given(grant(2), at="09:10:00").when(over("05:00:00", "08:00:00"), at="09:10:00")
    book.then_refused(RejectionCode.GRANT_MISSING)
    book.given(grant(3), at="09:10:00").given(grant(None), at="09:10:00")
    book.when(over("05:00:00", "08:00:00"), at="09:10:00").then_refused(RejectionCode.GRANT_MISSING)
    book.given(grant(3), at="09:10:00").when(over("05:00:00", "08:00:00"), at="09:10:00").then("BackfillStarted t")


def test_more_than_can_be_granted_needs_a_shorter_range() -> None:
    """A hint that could only be refused would be none."""
    book = Given(create(cron("* * * * *")), settings=UNPACED)
    book.when(over("2020-01-01T00:00:00Z", "08:00:00"), at="09:10:00").then_refused(RejectionCode.GRANT_MISSING)
    assert isinstance(book.result, Rejection)
    assert book.result.hint == f"give a shorter range: one backfill can be granted {BACKFILL_FIRES_MAX} fires"


def test_a_triggers_own_grant_comes_before_the_tenants() -> None:
    """Smaller or larger, it is the one that holds for the trigger; withdrawn, the tenant's holds again."""
    book = granted(value=100).given(grant(2, "t"), at="09:10:00")
    book.when(over("05:00:00", "08:00:00"), at="09:10:00").then_refused(RejectionCode.GRANT_MISSING)
    book.given(grant(None, "t"), at="09:10:00").when(over("05:00:00", "08:00:00"), at="09:10:00")
    book.then("BackfillStarted t")


def test_grants_are_entries_with_the_value_before() -> None:
    """Every change says what it was; the same again is none; a bound and an unknown trigger are refused."""
    book = granted(value=7).when(grant(9), at="09:10:00").then("GrantChanged")
    assert book.entries() == (e.GrantChanged(grant="backfill", trigger=None, value=9, before=7, holder="owner"),)
    assert book.when(grant(9), at="09:10:00").result == ()
    for value in (0, -1, BACKFILL_FIRES_MAX + 1):
        book.when(grant(value), at="09:10:00").then_refused(RejectionCode.VALUE_REFUSED)
    book.when(grant(5, "who"), at="09:10:00").then_refused(RejectionCode.TRIGGER_MISSING)
    quota = ChangeGrant(grant="quota", trigger=None, value=5, holder="owner")
    book.when(quota, at="09:10:00").then_refused(RejectionCode.NOT_SUPPORTED)


def test_a_grant_ends_with_its_trigger() -> None:
    """Another trigger of the same name has to be granted anew."""
    book = granted(value=1).given(grant(100, "t"), at="09:10:00").given(DELETE, at="09:10:00")
    book.given(create(HOURLY), at="09:11:00").when(over("05:00:00", "08:00:00"), at="09:12:00")
    book.then_refused(RejectionCode.GRANT_MISSING)
    assert [each.trigger for each in book.state.grants] == [None]


def test_a_grant_withdrawn_later_does_not_stop_what_began() -> None:
    """It was asked for when the backfill began."""
    book = granted().given(over("05:00:00", "08:00:00"), at="09:10:00").given(grant(None), at="09:10:00")
    run_out(book, at="09:10:00")
    assert book.trigger().backfill is None


def test_only_missing_leaves_fired_stretches_out() -> None:
    """Instants in the given stretches do not fire, those between and around them do; the count knows it."""
    at = Given().instant
    spans = (e.Span(at("05:00:00"), at("06:00:00")), e.Span(at("08:00:00"), at("08:00:00")))
    book = granted(value=2).given(over("04:00:00", "09:00:00", fired=spans), at="09:10:00").when(TICK, at="09:10:00")
    assert fires(book) == [("04:00:00", 1), ("07:00:00", 2)]
    everything = (e.Span(at("04:00:00"), at("08:00:00")),)
    book.when(over("04:00:00", "09:00:00", fired=everything), at="09:10:00").then_refused(RejectionCode.VALUE_REFUSED)


@pytest.mark.parametrize("spans", [((5, 4),), ((4, 5), (5, 6)), ((6, 7), (4, 5))])
def test_stretches_that_do_not_ascend_are_refused(spans: tuple[tuple[int, int], ...]) -> None:
    """Turned round, touching or out of order."""
    start = Given().instant("00:00:00")
    fired = tuple(e.Span(start + first * HOUR, start + last * HOUR) for first, last in spans)
    granted().when(over("01:00:00", "09:00:00", fired=fired), at="09:10:00").then_refused(RejectionCode.VALUE_REFUSED)


def test_too_many_stretches_are_refused() -> None:
    """More than BACKFILL_SPANS_MAX."""
    spans = tuple(e.Span(place * 10, place * 10 + 1) for place in range(BACKFILL_SPANS_MAX + 1))
    granted().when(over("01:00:00", "09:00:00", fired=spans), at="09:10:00").then_refused(RejectionCode.VALUE_REFUSED)


def test_one_backfill_of_a_trigger_at_a_time() -> None:
    """A second is refused until the first has ended."""
    book = granted().given(over("05:00:00", "08:00:00"), at="09:10:00")
    book.when(over("05:00:00", "08:00:00"), at="09:10:00").then_refused(RejectionCode.BACKFILL_RUNNING)
    run_out(book, at="09:10:00")
    book.when(over("05:00:00", "08:00:00"), at="09:10:00").then("BackfillStarted t")


@pytest.mark.parametrize("label,by", [("", "x"), ("x" * 65, "x"), ("ok", ""), ("ok", "two\nlines")])
def test_label_and_name_are_one_line(label: str, by: str) -> None:
    """Empty, too long or not printable is refused."""
    command = over("05:00:00", "08:00:00", label=label)
    command = StartBackfill(
        trigger="t", backfill=label, start=command.start, end=command.end, only_missing=False, rate_per_second=1, by=by
    )
    granted().when(command, at="09:10:00").then_refused(RejectionCode.VALUE_REFUSED)


def test_local_times_of_a_day_with_a_repeated_hour() -> None:
    """An interval-like schedule has both passes of the fold; excluded dates and bounds are left out as ever."""
    book = Given(create(cron("30 * * * *", "Europe/Rome", overlap="allow")), grant(100), settings=UNPACED)
    book.given(over("2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"), at="09:10:00").when(TICK, at="09:10:00")
    assert fires(book) == [("2026-10-25T00:30:00Z", 1), ("2026-10-25T01:30:00Z", 2)]
    fixed = Given(create(cron("30 2 * * *", "Europe/Rome", overlap="allow")), grant(100), settings=UNPACED)
    fixed.given(over("2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z"), at="09:10:00").when(TICK, at="09:10:00")
    assert fires(fixed) == [("2026-10-25T00:30:00Z", 1), ("2026-10-26T01:30:00Z", 2)]


def test_excluded_dates_and_bounds_are_left_out() -> None:
    """The definition's own limits hold for a backfill as well."""
    day = Given().instant("2026-11-27T00:00:00Z") // DAY
    bounded = cron("0 12 * * *", overlap="allow", excluded=(day,), not_before=Given().instant("2026-11-26T12:00:00Z"))
    book = granted(bounded).given(over("2026-11-24T00:00:00Z", "2026-11-30T00:00:00Z"), at="09:10:00")
    book.when(TICK, at="09:10:00")
    assert [short for short, _ in fires(book)] == [f"2026-11-{number}T12:00:00Z" for number in (26, 28, 29)]


def test_a_maximum_of_fires_counts_the_schedules_own_only() -> None:
    """A trigger that is done can be backfilled, and a backfill uses nothing of the maximum up."""
    book = granted(cron("0 * * * *", overlap="allow", max_fires=1)).given(TICK, at="10:00:00")
    book.given(over("05:00:00", "08:00:00"), at="10:10:00").when(TICK, at="10:10:00")
    assert ended(book) == [("complete", 3)]
    assert book.trigger().fired_count == 1


def test_run_numbers_are_never_used_again() -> None:
    """By hand, backfilled, cancelled, deleted and created again: each takes the next number."""
    book = granted().given(FireNow(trigger="t", by="someone"), at="09:10:00")
    book.given(over("05:00:00", "07:00:00"), at="09:10:00").when(TICK, at="09:10:00", allowances={"backfill": 0})
    assert fires(book) == [("05:00:00", 2), ("06:00:00", 3)]
    book.given(CANCEL, at="09:11:00").given(DELETE, at="09:11:00").given(create(HOURLY), at="09:12:00")
    book.given(over("05:00:00", "06:00:00"), at="09:13:00").when(TICK, at="09:13:00")
    assert fires(book) == [("05:00:00", 4)]


def test_the_backfills_own_rate_paces_it() -> None:
    """At two a second two go at once, then two more each second; the schedule is not held up."""
    book = granted(every("1m", overlap="allow")).given(over("08:00:00", "08:10:00", rate=2), at="09:00:30")
    counts: list[int] = []
    for second in range(30, 36):
        book.when(TICK, at=f"09:00:{second}")
        counts.append(sum(isinstance(entry, e.FireReleased) for entry in book.entries()))
    assert counts == [2, 2, 2, 2, 2, 0]
    book.when(TICK, at="09:01:00").then("released t 09:01:00 on-time")


def test_the_tenants_pace_bounds_a_backfill() -> None:
    """Ten percent of a quota of ten is one a second, however high the backfill's own rate is."""
    book = Given(create(HOURLY), grant(100), settings=TenantSettings(quota_per_second=10))
    book.given(over("05:00:00", "08:00:00"), at="09:10:00").when(TICK, at="09:10:00")
    assert sum(isinstance(entry, e.FireReleased) for entry in book.entries()) == 1
    assert book.when(TICK, at="09:10:00.999999").result == ()
    book.when(TICK, at="09:10:01").then("released t 06:00:00 backfilled after waiting")


@pytest.mark.parametrize("allowance,count", [(0, 0), (1, 1), (2, 2)])
def test_a_page_releases_what_it_is_allowed(allowance: int, count: int) -> None:
    """The page's share of the lane's rate bounds it; catch-up has a share of its own."""
    book = granted().given(over("05:00:00", "08:00:00"), at="09:10:00")
    book.when(TICK, at="09:10:00", allowances={"backfill": allowance, "catch-up": 1_000})
    assert sum(isinstance(entry, e.FireReleased) for entry in book.entries()) == count
    assert ended(book) == []


def test_fires_of_a_backfill_wait_for_each_other() -> None:
    """Unless overlap is allowed one is open at a time, and an on-time fire goes ahead of those that wait."""
    book = granted(cron("0 * * * *")).given(over("05:00:00", "08:00:00"), at="09:10:00").given(TICK, at="09:10:00")
    assert len(book.trigger().open) == 1
    book.when(TICK, at="10:00:00").then("decided t 10:00:00 on-time")
    done = result("05:00:00", "10:00:04", 5, "succeeded", run=1)
    book.when(TICK, at="10:00:05", observed=(done,))
    assert book.brief(book.entries()[-1]) == "released t 10:00:00 on-time after waiting"
    book.when(TICK, at="10:00:10", observed=(result("10:00:00", "10:00:09", 6, "succeeded"),))
    assert book.brief(book.entries()[-1]) == "released t 06:00:00 backfilled after waiting"


def test_caught_up_fires_go_ahead_of_backfilled_ones() -> None:
    """Order of release: on time, by hand, caught up, backfilled."""
    book = granted(cron("0 * * * *", missed="fire-all", horizon=5 * HOUR))
    book.when(TICK, at="12:30:00", allowances={"catch-up": 0})
    book.given(over("05:00:00", "08:00:00"), at="12:30:00").given(TICK, at="12:30:00")
    book.given(FireNow(trigger="t", by="someone"), at="12:30:10")
    released: list[str] = ["10:00:00"]
    for number in range(5):
        (fire,) = book.trigger().open
        done = result(fire.scheduled, book.at, 5 + number, "succeeded", run=fire.sequence)
        book.when(TICK, at=book.at + SECOND, observed=(done,))
        released.extend(book.short(f.scheduled) for f in book.entries() if isinstance(f, e.FireReleased))
    assert released == ["10:00:00", "12:30:10", "11:00:00", "12:00:00", "05:00:00", "06:00:00"]


def test_a_pause_holds_a_backfill_and_resume_lets_it_go_on() -> None:
    """Nothing is decided or released in between; it ends complete with the exact count."""
    book = granted().given(over("05:00:00", "08:00:00", rate=1), at="09:10:00").given(TICK, at="09:10:00")
    book.given(PAUSE, at="09:10:01")
    assert book.when(TICK, at="09:20:00").result == ()
    assert book.next_due() is None
    book.given(RESUME, at="09:30:00")
    counts: list[tuple[str, int]] = []
    for second in range(3):
        book.when(TICK, at=f"09:30:0{second}")
        counts.extend(ended(book))
    assert counts == [("complete", 3)]


def test_a_paused_trigger_may_be_given_a_backfill() -> None:
    """It begins, and waits for the resume."""
    book = granted().given(PAUSE, at="09:05:00").given(over("05:00:00", "08:00:00"), at="09:10:00")
    assert book.when(TICK, at="09:10:00").result == ()
    book.given(RESUME, at="09:20:00").when(TICK, at="09:20:00")
    assert ended(book) == [("complete", 3)]


def test_cancelling_withdraws_what_is_not_released() -> None:
    """What is open goes on; the end counts what was released; there is nothing to cancel twice."""
    book = granted().given(over("05:00:00", "08:00:00", rate=1), at="09:10:00").given(TICK, at="09:10:00")
    book.when(CANCEL, at="09:10:00").then(
        "withdrawn t 06:00:00 cancelled by-person", "withdrawn t 07:00:00 cancelled by-person", "BackfillEnded t"
    )
    assert ended(book) == [("cancelled", 1)]
    assert len(book.trigger().open) == 1
    book.when(CANCEL, at="09:10:00").then_refused(RejectionCode.BACKFILL_MISSING)
    assert book.when(TICK, at="09:30:00").result == ()


def test_a_cancelled_single_fire_is_not_counted() -> None:
    """One fire of the backfill cancelled while it waits: the backfill ends complete with those that fired."""
    book = granted().given(over("05:00:00", "08:00:00", rate=1), at="09:10:00").given(TICK, at="09:10:00")
    fire = book.trigger().waiting[0]
    book.given(CancelFire(trigger="t", scheduled=fire.scheduled, sequence=fire.sequence, by="x"), at="09:10:00")
    book.when(TICK, at="09:10:05")
    assert ended(book) == [("complete", 2)]


def test_deleting_the_trigger_ends_its_backfill() -> None:
    """Waiting fires are cancelled, the backfill ends cancelled, and nothing of it is left."""
    book = granted().given(over("05:00:00", "08:00:00", rate=1), at="09:10:00").given(TICK, at="09:10:00")
    book.when(DELETE, at="09:10:00").then(
        "withdrawn t 06:00:00 cancelled deleted",
        "withdrawn t 07:00:00 cancelled deleted",
        "BackfillEnded t",
        "TriggerDeleted t",
    )
    assert (book.trigger().waiting, book.trigger().backfill) == ((), None)


def test_an_amendment_keeps_the_range_and_brings_the_new_page() -> None:
    """The instants stay those of the schedule it began with; what is decided afterwards goes where the new one says."""
    minutely = every("1m", overlap="allow")
    book = granted(minutely, 10_000).given(over("2026-11-29T00:00:00Z", "2026-11-29T20:00:00Z"), at="09:00:30")
    book.when(TICK, at="09:00:30", allowances={"backfill": 0})
    assert len(book.trigger().waiting) == BACKFILL_WAITING_MAX
    book.given(amend(cron("0 0 1 1 *", overlap="allow", target="nats:other")), at="09:00:31")
    page = book.state.page
    entries = run_out(book, at="09:00:31")
    decided = [entry for entry in entries if isinstance(entry, e.FireDecided)]
    assert len(decided) == 1_200 - BACKFILL_WAITING_MAX
    assert {entry.definition_page for entry in decided} == {page}
    assert decided[-1].scheduled == book.instant("2026-11-29T19:59:00Z")
    assert [entry.fired_count for entry in entries if isinstance(entry, e.BackfillEnded)] == [1_200]


@pytest.mark.parametrize("limit", [1, 2, 5, 13])
def test_small_pages_decide_the_same_backfill(limit: int) -> None:
    """Cut at a few entries, run numbers follow each other and the end counts all."""
    book = granted().given(over("2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z"), at="09:10:00")
    entries = run_out(book, at="09:10:00", limit=limit)
    assert [entry.sequence for entry in entries if isinstance(entry, e.FireDecided)] == [*range(1, 25)]
    released = [entry for entry in entries if isinstance(entry, e.FireReleased)]
    assert [entry.sequence for entry in released] == [*range(1, 25)]
    assert [entry.fired_count for entry in entries if isinstance(entry, e.BackfillEnded)] == [24]


def test_a_large_backfill_is_decided_ahead_by_a_bound_only() -> None:
    """Of a million instants a thousand wait; the next are decided when half of them are released."""
    book = granted(every("1s", overlap="allow", anchor="2026-11-01T00:00:00Z"), BACKFILL_FIRES_MAX)
    start = book.start - 1_000_000 * SECOND
    command = StartBackfill(
        trigger="t", backfill="b", start=start, end=book.start, only_missing=False, rate_per_second=1_000, by="x"
    )
    book.given(command, at="09:00:00").when(TICK, at="09:00:00", allowances={"backfill": 0})
    assert len(fires(book)) == BACKFILL_WAITING_MAX
    assert book.when(TICK, at="09:00:00", allowances={"backfill": 0}).result == ()
    book.when(TICK, at="09:00:00", allowances={"backfill": 499})
    assert fires(book) == []
    book.when(TICK, at="09:00:00", allowances={"backfill": 1})
    assert len(fires(book)) == BACKFILL_WAITING_MAX // 2
    assert book.trigger().next_run_number == 1_501


def test_a_retry_of_an_ended_backfill_stays_in_its_lane() -> None:
    """The backfill is over when all is released; what failed is tried again, paced and shed as before."""
    book = granted().given(over("05:00:00", "06:00:00"), at="09:10:00").given(TICK, at="09:10:00")
    book.when(TICK, at="09:10:05", observed=(result("05:00:00", "09:10:04", 5, "retryable", run=1),))
    assert book.when(TICK, at="09:20:00", shedding_level=1).result == ()
    assert book.when(TICK, at="09:20:00", allowances={"backfill": 0}).result == ()
    book.when(TICK, at="09:20:00").then("released t 05:00:00 backfilled attempt 2")
    assert book.at - book.instant("09:10:00") == 10 * MINUTE


def test_a_trigger_in_quarantine_cannot_be_backfilled() -> None:
    """Its instants may be what nobody can look at; known already or found by the writer of this very page."""
    book = granted().when(over("05:00:00", "08:00:00"), at="09:10:00", quarantine=(Quarantine("t", "broken"),))
    book.then_refused(RejectionCode.TRIGGER_STOPPED)
    book.when(TICK, at="09:10:00", quarantine=(Quarantine("t", "broken"),))
    book.when(over("05:00:00", "08:00:00"), at="09:10:00").then_refused(RejectionCode.TRIGGER_STOPPED)


def test_unknown_triggers_are_named() -> None:
    """Neither started nor cancelled."""
    book = Given()
    book.when(over("05:00:00", "08:00:00"), at="09:10:00").then_refused(RejectionCode.TRIGGER_MISSING)
    book.when(CANCEL, at="09:10:00").then_refused(RejectionCode.TRIGGER_MISSING)


def left_out(book: Given) -> list[tuple[str, str]]:
    """The stretches that the last command's backfill leaves out."""
    started = next(entry for entry in book.entries() if isinstance(entry, e.BackfillStarted))
    return [(book.short(span.first), book.short(span.last)) for span in started.fired]


def test_instants_that_are_not_decided_yet_are_left_to_the_schedule() -> None:
    """Due and undecided when the backfill starts: the lanes fire them, once."""
    book = granted().given(TICK, at="10:00:00").when(over("09:00:00", "12:30:00"), at="12:30:00")
    assert left_out(book) == [("11:00:00", "12:29:59.999999")]
    run_out(book, at="12:30:00")
    fired = [(fire.scheduled, fire.sequence) for fire in book.trigger().open]
    assert sorted(fired) == [
        (book.instant("09:00:00"), 1), (book.instant("10:00:00"), 0), (book.instant("10:00:00"), 2),
        (book.instant("12:00:00"), 0),
    ]  # fmt: skip
    assert all(scheduled < book.instant("11:00:00") for scheduled, sequence in fired if sequence)


def test_a_range_of_undecided_instants_alone_is_refused() -> None:
    """Nothing is left for the backfill, also while a pause keeps them undecided."""
    book = granted().given(PAUSE, at="09:30:00")
    book.when(over("09:30:00", "12:30:00"), at="12:30:00").then_refused(RejectionCode.VALUE_REFUSED)
    book.given(RESUME, at="12:31:00").given(TICK, at="12:31:00")
    book.when(over("09:30:00", "12:30:00"), at="12:32:00").then("BackfillStarted t")
    assert left_out(book) == []


def test_a_closed_schedule_keeps_its_undecided_instants_too() -> None:
    """Up to an amendment the old schedule's undecided stretch is left out, and what the new one owes."""
    book = granted().given(amend(cron("30 * * * *", overlap="allow")), at="11:10:00")
    book.when(over("08:00:00", "11:20:00"), at="11:20:00")
    assert left_out(book) == [("10:00:00", "11:10:00")]


def test_a_trigger_that_made_all_its_fires_may_be_backfilled() -> None:
    """What its maximum leaves undecided is never decided, unless a waiting fire gives its place back."""
    done = granted(cron("0 * * * *", overlap="allow", max_fires=1)).given(TICK, at="10:00:00")
    assert left_out(done.when(over("11:00:00", "13:00:00"), at="13:00:00")) == []
    once = cron("0 * * * *", missed="fire-all", tolerance=MINUTE, max_fires=1)
    waits = granted(once).when(TICK, at="10:10:00", allowances={"catch-up": 0})
    waits.when(over("11:00:00", "13:00:00"), at="13:00:00").then_refused(RejectionCode.VALUE_REFUSED)
