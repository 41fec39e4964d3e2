"""Rule 4: paced lanes, the tenant's buckets in whole numbers, the page's allowances, and marks above the quota."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.commands import AmendTenant, CancelFire, FireNow
from fireledger.domain.definition import Definition, Retry, TenantSettings
from fireledger.domain.instants import MILLISECOND, MINUTE, SECOND
from fireledger.domain.lanes import TOKEN, Pace
from fireledger.domain.limits import FIRES_OPEN_MAX, WAITING_MAX
from fireledger.domain.state import Bucket
from tests.unit.domain.given import TICK, Given, create, cron, every, result, started

TEN_A_SECOND = TenantSettings(quota_per_second=100, catch_up_percent=10)
UNPACED = TenantSettings(quota_per_second=100_000, catch_up_percent=100)


def behind(
    *, settings: TenantSettings = TEN_A_SECOND, minutes: int = 40, allowances: dict[str, int] | None = None
) -> Given:
    """A trigger of one fire a minute that may overlap, its missed fires just decided, ``minutes`` after the start."""
    book = Given(create(per_minute()), settings=settings)
    return book.when(TICK, at=book.start + minutes * MINUTE + 30 * SECOND, allowances=allowances)


def per_minute() -> Definition:
    """One fire a minute, whatever is missed, overlapping."""
    return cron("* * * * *", missed="fire-all", overlap="allow", tolerance=SECOND)


def released(book: Given) -> list[str]:
    """The short scheduled instants that the last command released."""
    return [book.short(entry.scheduled) for entry in book.entries() if isinstance(entry, e.FireReleased)]


def test_a_catch_up_takes_what_the_bucket_holds_and_waits_for_the_rest() -> None:
    """A burst of one second's worth goes at once, oldest first; the others are decided and wait."""
    book = behind()
    assert released(book) == [f"09:{minute:02}:00" for minute in range(16, 26)]
    assert [fire.scheduled for fire in book.trigger().waiting] == [
        book.instant(f"09:{minute:02}:00") for minute in range(26, 41)
    ]


def test_the_bucket_refills_by_the_microsecond_and_is_looked_at_in_steps() -> None:
    """At ten a second the next two go after 200 ms, and a look before that releases nothing."""
    book = behind()
    at = book.at
    assert book.next_due() == book.short(at + 200 * MILLISECOND)
    assert book.when(TICK, at=at + 200 * MILLISECOND - 1).result == ()
    assert len(released(book.when(TICK, at=at + 200 * MILLISECOND))) == 2
    assert len(released(book.when(TICK, at=at + 10 * SECOND))) == 10, "no more than one second's worth gathers"


def test_a_slow_tenant_releases_one_at_a_time() -> None:
    """Ten percent of one a second is one fire every ten seconds, to the microsecond."""
    book = behind(settings=TenantSettings(quota_per_second=1))
    at = book.at
    assert released(book) == ["09:16:00"]
    assert book.when(TICK, at=at + 10 * SECOND - 1).result == ()
    assert released(book.when(TICK, at=at + 10 * SECOND)) == ["09:17:00"]


def test_fractions_of_a_token_are_carried_over() -> None:
    """At seven a second, whatever the steps are, thirty seconds bring 210 tokens and not one less."""
    pace, start = Pace(7 * 100), 1_000_000
    bucket, taken = Bucket(0, start), 0
    for now in range(start, start + 30 * SECOND + 1, 123_457):
        while pace.tokens(bucket, now):
            bucket, taken = pace.taken(bucket, now), taken + 1
    assert taken == 30 * 7 - 1
    assert pace.tokens(bucket, start + 30 * SECOND) == 1


def test_a_bucket_holds_a_seconds_worth_and_never_less_than_nothing() -> None:
    """Never used it is full; it fills up to the burst; more taken than it holds leaves it empty; no time goes back."""
    pace = Pace(300)
    assert pace.tokens(Bucket(0, 0), 5) == 3
    assert pace.refilled(Bucket(0, 10), 10 + 60 * SECOND) == Bucket(3 * TOKEN, 10 + 60 * SECOND)
    assert pace.taken(Bucket(TOKEN // 2, 10), 10) == Bucket(0, 10)
    assert pace.refilled(Bucket(TOKEN, 10), 5) == Bucket(TOKEN, 10)
    assert Pace(1).tokens(Bucket(0, 0), 5) == 1, "the slowest pace has one token"
    assert Pace(1).ready_at(Bucket(0, 10)) == 10 + TOKEN


@pytest.mark.parametrize("allowance,count", [(0, 0), (1, 1), (7, 7), (100, 10), (None, 10)])
def test_a_page_releases_what_it_is_allowed(allowance: int | None, count: int) -> None:
    """The page's share of the lane's rate bounds the page; without one the tenant's bucket alone does."""
    book = behind(allowances={} if allowance is None else {"catch-up": allowance, "backfill": 1_000})
    assert len(released(book)) == count
    assert len(book.trigger().waiting) == 25 - count


def test_tokens_that_a_page_was_not_allowed_to_use_are_kept() -> None:
    """A page without allowance takes nothing from the bucket."""
    book = behind(allowances={"catch-up": 0})
    assert len(released(book.when(TICK, at=book.at))) == 10


def test_triggers_of_a_tenant_share_its_pace_by_the_age_of_what_waits() -> None:
    """The oldest scheduled instants go first, whichever trigger they are of."""
    book = Given(create(per_minute(), "a"), create(cron("30 9 * * *", tolerance=SECOND), "z"))
    book.when(TICK, at="09:40:30", allowances={"catch-up": 0})
    book.when(TICK, at="09:40:30", allowances={"catch-up": 1}).then("released a 09:16:00 caught-up after waiting")
    book.given(*(CancelFire(trigger="a", scheduled=f.scheduled, sequence=0, by="x") for f in book.trigger("a").waiting))
    book.when(TICK, at="09:40:30").then("released z 09:30:00 caught-up after waiting")


def test_an_on_time_fire_is_not_paced() -> None:
    """With the catch-up lane exhausted and held back, what is on time is released at its instant."""
    book = behind(allowances={"catch-up": 0})
    book.when(TICK, at="09:41:00", allowances={"catch-up": 0}).then("released t 09:41:00 on-time")


def test_newly_missed_fires_wait_behind_those_that_wait() -> None:
    """In one trigger a later catch-up fire never overtakes an earlier one, also where overlap is allowed."""
    book = behind(allowances={"catch-up": 0})
    book.when(TICK, at="09:42:30", allowances={"catch-up": 1})
    book.then(
        "released t 09:16:00 caught-up after waiting", "decided t 09:41:00 caught-up", "decided t 09:42:00 caught-up"
    )


def test_a_retry_keeps_its_lane_and_takes_from_its_bucket() -> None:
    """A caught-up fire that failed is tried again in the catch-up lane, and not while that is held back."""
    definition = cron("* * * * *", missed="fire-all", overlap="allow", tolerance=SECOND, retry=Retry(base=SECOND))
    book = Given(create(definition), settings=TenantSettings(quota_per_second=1, catch_up_percent=100))
    book.when(TICK, at="09:01:30").then("released t 09:01:00 caught-up")
    book.when(TICK, at="09:01:31", observed=(result("09:01:00", "09:01:31", 5, "retryable"),))
    assert book.when(TICK, at="09:01:50", allowances={"catch-up": 0}).result == ()
    book.when(TICK, at="09:01:50").then("released t 09:01:00 caught-up attempt 2")
    assert book.state.catch_up == Bucket(0, book.at)


def test_a_lower_quota_shrinks_the_burst_at_once() -> None:
    """Tokens above the new burst are gone; the new rate refills."""
    book = behind(allowances={"catch-up": 0})
    book.given(AmendTenant(settings=TenantSettings(quota_per_second=10)), at=book.at)
    assert len(released(book.when(TICK, at=book.at))) == 1


def test_fires_above_the_quota_are_marked_and_released() -> None:
    """A second's worth is within the quota; the next on-time fires of that second are marked, and fire all the same."""
    book = Given(
        *(create(every("1s", overlap="allow"), f"t{n}") for n in range(5)), settings=TenantSettings(quota_per_second=3)
    )
    book.when(TICK, at="09:00:01")
    assert [entry.over_quota for entry in book.entries() if isinstance(entry, e.FireReleased)] == [False] * 3 + [
        True
    ] * 2
    book.when(TICK, at="09:00:02")
    assert sum(entry.over_quota for entry in book.entries() if isinstance(entry, e.FireReleased)) == 2


def test_a_marked_fire_takes_no_token() -> None:
    """What is above the quota does not keep later fires above it."""
    book = Given(
        *(create(every("1s", overlap="allow"), f"t{n}") for n in range(9)), settings=TenantSettings(quota_per_second=3)
    )
    for second in range(1, 4):
        book.when(TICK, at=book.start + second * SECOND)
        assert sum(not entry.over_quota for entry in book.entries() if isinstance(entry, e.FireReleased)) == 3


def test_open_fires_are_bounded_whatever_the_overlap_rule_says() -> None:
    """With FIRES_OPEN_MAX fires open, catch-up and by-hand fires wait, and on-time ones overlap."""
    definition = every("1s", overlap="allow", missed="fire-all", cap=1_000, tolerance=60 * MINUTE)
    book = Given(create(definition), settings=UNPACED)
    book.given(TICK, at=book.start + (FIRES_OPEN_MAX - 1) * SECOND)
    assert len(book.trigger().open) == FIRES_OPEN_MAX - 1
    book.given(FireNow(trigger="t", by="someone"), at=book.at)
    book.when(TICK, at=book.at + 3 * SECOND)
    last = book.start + (FIRES_OPEN_MAX - 1) * SECOND
    assert [book.brief(entry) for entry in book.entries()] == [
        f"released t {book.short(last + SECOND)} on-time",
        *(f"skipped t {book.short(last + n * SECOND)} overlap" for n in (2, 3)),
    ]
    records = (result(book.start + SECOND, book.at, 5, "succeeded"),)
    book.given(FireNow(trigger="t", by="someone"), at=book.at)
    assert book.when(TICK, at=book.at).result == ()
    book.when(TICK, at=book.at, observed=records)
    assert [book.brief(entry).split()[0] for entry in book.entries()] == ["observed", "finished", "released"]


def test_more_waiting_fires_than_the_bound_are_dropped() -> None:
    """Above WAITING_MAX further missed fires are dropped, by entry, as over the cap."""
    definition = every("1s", missed="fire-all", cap=1_000, overlap="allow", tolerance=SECOND)
    book = Given(create(definition))
    for minutes in (20, 40, 60):
        book.when(TICK, at=book.start + minutes * MINUTE, allowances={"catch-up": 0})
        assert len(book.trigger().waiting) <= WAITING_MAX
    dropped = [entry for entry in book.entries() if isinstance(entry, e.InstantsResolved)]
    assert sum(entry.count for entry in dropped) == 1_198
    assert {(entry.state, entry.cause) for entry in dropped} == {("dropped", "over-cap")}


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_a_cut_page_neither_loses_nor_repeats_tokens(limit: int) -> None:
    """Ticked at one now in pages of a few entries, as many fires are released as in one page."""
    whole, small = behind(), Given(create(per_minute()), settings=TEN_A_SECOND)
    lines: list[str] = []
    while small.when(TICK, at=whole.at, entry_limit=limit).result:
        assert len(small.entries()) <= limit
        lines.extend(small.brief(entry) for entry in small.entries())
    assert sum(line.startswith("released") for line in lines) == 10
    assert small.trigger().waiting == whole.trigger().waiting
    assert small.state.catch_up == whole.state.catch_up


def test_what_starts_late_is_not_released_again() -> None:
    """A released catch-up fire that was started stays one fire of the lane until it ends."""
    book = behind(settings=UNPACED, minutes=2)
    book.when(TICK, at=book.at, observed=(started("09:01:00", book.at, 5),))
    book.then("observed t 09:01:00 started")
