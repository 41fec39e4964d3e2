"""When a lane counts as behind: for what only the runners keep from being started, where no drain is declared."""

import pytest
from msgspec.structs import replace

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.book import Book
from fireledger.domain.definition import Overlap
from fireledger.domain.instants import HOUR, MINUTE, SECOND
from fireledger.domain.limits import FIRES_OPEN_MAX
from fireledger.projections.lanes import Lanes
from fireledger.runners.control.lane_health import AGE_MAX, note_lanes, stopped_count
from fireledger.runners.control.problems import Problems
from tests.unit.domain.given import Given, create, cron
from tests.unit.projections.lane_log import book_page, decided, released


def problems(given: Given, *entries: e.BookEntry, at: int, now: int) -> list[str]:
    """What is noted at ``now`` when these entries of trigger t were stamped at ``at``."""
    lanes, found = Lanes(), Problems()
    lanes.apply(book_page("acme", *entries, at=at), stamped_at=at)
    note_lanes(lanes, {"acme": given.book}, now, found)
    assert found.ready, "a lane that is behind hinders nothing else"
    assert {problem.code for problem in found.listed} <= {"lane-behind"}
    return [problem.message for problem in found.listed]


@pytest.fixture
def given() -> Given:
    """A book with a trigger that nothing stops."""
    return Given(create(cron("* * * * *")))


def test_a_released_fire_may_be_a_minute_old(given: Given) -> None:
    """Up to the bound nothing is said; beyond it the lane, the tenant and both ages are."""
    t0 = given.start
    assert problems(given, released(t0), at=t0, now=t0 + 60 * SECOND) == []
    assert problems(given, released(t0), at=t0, now=t0 + 61 * SECOND) == [
        'the oldest undispatched fire of the on-time lane, of tenant "acme", is 1m1s old; 1m is too old'
    ]


@pytest.mark.parametrize("lane", ["catch-up", "backfill"])
def test_a_paced_lane_has_a_bound_of_its_own(given: Given, lane: e.Lane) -> None:
    """Waiting for release counts there as well."""
    t0, limit = given.start, AGE_MAX[lane]
    assert problems(given, decided(t0, lane), at=t0, now=t0 + limit) == []
    (problem,) = problems(given, decided(t0, lane), at=t0, now=t0 + limit + SECOND)
    assert f"of the {lane} lane" in problem


def test_a_fire_that_waits_for_its_trigger_is_not_late_by_the_lane(given: Given) -> None:
    """Paused, or another fire open: nobody keeps it back but the trigger itself."""
    t0 = given.start
    assert len(problems(given, decided(t0), at=t0, now=t0 + HOUR)) == 1
    given.given(c.PauseTrigger(trigger="t"), at="09:00:30")
    assert problems(given, decided(t0), at=t0, now=t0 + HOUR) == []


@pytest.mark.parametrize("overlap,count", [("skip", 0), ("allow", 1)])
def test_an_open_fire_blocks_unless_fires_may_overlap(overlap: Overlap, count: int) -> None:
    """With ``allow`` nothing is waited for."""
    given = Given(create(cron("* * * * *", overlap=overlap)))
    given.given(c.Tick(), at="09:01:00")
    assert len(given.trigger().open) == 1
    t0 = given.start
    assert len(problems(given, decided(t0), at=t0, now=t0 + HOUR)) == count


def full_book(given: Given) -> Book:
    """The book with as many open fires of its trigger as there may be."""
    trigger = replace(given.trigger(), open=given.trigger().open * FIRES_OPEN_MAX)
    return Book(given.book.tenant, replace(given.state, triggers={"t": trigger}), given.book.head)


def test_the_bound_of_open_fires_blocks_even_where_they_may_overlap() -> None:
    """It is the executor's silence that keeps the lane, and the fires that wait for it are counted as stopped."""
    given = Given(create(cron("* * * * *", overlap="allow")))
    given.given(c.Tick(), at="09:01:00")
    t0, lanes, found = given.start, Lanes(), Problems()
    lanes.apply(book_page("acme", decided(t0), at=t0), stamped_at=t0)
    full = full_book(given)
    note_lanes(lanes, {"acme": full}, t0 + HOUR, found)
    assert found.listed == []
    assert stopped_count(lanes, {"acme": full}, "catch-up", "acme", t0 + HOUR) == 1
    assert stopped_count(lanes, {"acme": given.book}, "catch-up", "acme", t0 + HOUR) == 0
    assert stopped_count(lanes, {}, "catch-up", "acme", t0 + HOUR) == 0


def test_a_retry_that_nobody_releases_is_late_whatever_is_open() -> None:
    """Its own fire is the open one."""
    given = Given(create(cron("* * * * *")))
    given.given(c.Tick(), at="09:01:00")
    t0 = given.start
    retry = e.RetryScheduled(trigger="t", scheduled=t0, attempt=2, at=t0 + MINUTE)
    assert problems(given, released(t0), retry, at=t0, now=t0 + 2 * MINUTE) == []
    assert len(problems(given, released(t0), retry, at=t0, now=t0 + 3 * MINUTE)) == 1


def test_a_declared_drain_silences_its_own_lane(given: Given) -> None:
    """Until it is over, and no other lane."""
    t0 = given.start
    drain = e.DrainDeclared(lane="on-time", until=t0 + HOUR, why="moving")
    assert problems(given, released(t0), drain, at=t0, now=t0 + 30 * MINUTE) == []
    assert len(problems(given, released(t0), drain, decided(t0), at=t0, now=t0 + 30 * MINUTE)) == 1
    assert len(problems(given, released(t0), drain, at=t0, now=t0 + HOUR)) == 1
