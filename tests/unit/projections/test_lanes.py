"""The lanes: what each entry and record makes of depths, ages, rates and drains."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.instants import MINUTE, SECOND
from fireledger.domain.page import encode_attempts, encode_page
from fireledger.projections.lanes import Drain, LaneDepth, Lanes, together
from tests.unit.projections.lane_log import T0, attempts_page, book_page, decided, finished, released, started


class Log:
    """Feeds lanes."""

    def __init__(self) -> None:
        self.lanes = Lanes()

    def page(self, *entries: e.BookEntry, at: int = T0, tenant: str = "acme", effective: bool = True) -> None:
        """Take in a book page."""
        self.lanes.apply(book_page(tenant, *entries, at=at, effective=effective), stamped_at=at)

    def starts(self, *records: e.AttemptRecord, at: int) -> None:
        """Take in an attempts page."""
        self.lanes.apply(attempts_page(*records, at=at), stamped_at=at)

    def depth(self, lane: e.Lane, now: int, tenant: str = "acme") -> LaneDepth:
        """The lane's depth; an empty one if it is not mentioned."""
        found = {each.lane: each for each in self.lanes.depths(now, tenant)}
        return found.get(lane, LaneDepth(lane, tenant))


def test_a_fire_leaves_each_stage_as_it_enters_the_next() -> None:
    """Decided it waits, released it can be started, started it is in nobody's way, finished it is forgotten."""
    log = Log()
    log.page(decided(T0 - MINUTE), at=T0)
    assert (log.depth("catch-up", T0).waiting, log.depth("catch-up", T0).waiting_since) == (1, T0 - MINUTE)
    log.page(released(T0 - MINUTE, "catch-up", decides=False), at=T0 + SECOND)
    depth = log.depth("catch-up", T0 + 2 * SECOND)
    assert (depth.waiting, depth.released, depth.released_since) == (0, 1, T0 + SECOND)
    log.starts(started("acme", T0 - MINUTE), at=T0 + 2 * SECOND)
    depth = log.depth("catch-up", T0 + 3 * SECOND)
    assert (depth.depth, depth.releases, depth.starts, len(log.lanes)) == (0, 1, 1, 1)
    log.page(finished(T0 - MINUTE), at=T0 + 4 * SECOND)
    assert len(log.lanes) == 0


def test_a_fire_decided_and_released_at_once_is_as_old_as_its_release() -> None:
    """A scheduler that comes late cannot hide it; over-quota fires are counted within."""
    log = Log()
    log.page(released(T0 - 5 * SECOND), released(T0, over=True), at=T0)
    depth = log.depth("on-time", T0)
    assert (depth.released, depth.over_quota, depth.released_since) == (2, 1, T0 - 5 * SECOND)


def test_a_retry_waits_from_its_instant_on() -> None:
    """Before that it is where it should be; released again it can be started again, and counts as a start again."""
    log = Log()
    log.page(released(T0), at=T0)
    log.starts(started("acme", T0), at=T0)
    log.page(e.RetryScheduled(trigger="t", scheduled=T0, attempt=2, at=T0 + MINUTE), at=T0 + SECOND)
    assert log.depth("on-time", T0 + 30 * SECOND).depth == 0
    late = log.depth("on-time", T0 + 2 * MINUTE)
    assert (late.waiting, late.waiting_since) == (1, T0 + MINUTE)
    log.page(released(T0, attempt=2, decides=False), at=T0 + 2 * MINUTE)
    assert log.depth("on-time", T0 + 2 * MINUTE).released_since == T0 + 2 * MINUTE
    log.starts(started("acme", T0, resend=True), at=T0 + 2 * MINUTE)
    assert log.depth("on-time", T0 + 2 * MINUTE).released == 1
    log.starts(started("acme", T0, attempt=2), at=T0 + 2 * MINUTE)
    assert log.depth("on-time", T0 + 2 * MINUTE).depth == 0


def test_a_held_fire_waits_once_a_person_lets_it_go_on() -> None:
    """Held it is nobody's to start; from the release by hand on it waits for the scheduler."""
    log = Log()
    log.page(released(T0), at=T0)
    log.starts(started("acme", T0), at=T0)
    log.page(e.FireHeld(trigger="t", scheduled=T0, attempt=1), at=T0 + SECOND)
    assert log.depth("on-time", T0 + MINUTE).depth == 0
    log.page(e.HeldFireReleased(trigger="t", scheduled=T0, by="ann"), at=T0 + MINUTE)
    depth = log.depth("on-time", T0 + MINUTE)
    assert (depth.waiting, depth.waiting_since) == (1, T0 + MINUTE)


def test_a_fire_held_while_its_retry_waits_is_nobodys_to_start() -> None:
    """An executor may ask for a person after an attempt that failed: no lane is behind because of it."""
    log = Log()
    log.page(released(T0), at=T0)
    log.starts(started("acme", T0), at=T0)
    log.page(e.RetryScheduled(trigger="t", scheduled=T0, attempt=2, at=T0 + MINUTE), at=T0 + SECOND)
    log.page(e.FireHeld(trigger="t", scheduled=T0, attempt=1), at=T0 + 2 * SECOND)
    assert log.depth("on-time", T0 + 2 * MINUTE).depth == 0


def test_a_fire_by_hand_waits_in_the_on_time_lane_and_one_withdrawn_is_gone() -> None:
    """A person's fire is due when it was asked for."""
    log = Log()
    log.page(e.FireRequested(trigger="t", scheduled=T0, sequence=1, definition_page=2, by="ann"), at=T0)
    assert log.depth("on-time", T0).waiting_since == T0
    log.page(e.FireWithdrawn(trigger="t", scheduled=T0, sequence=1, state="cancelled", cause="by-person"), at=T0)
    assert (log.depth("on-time", T0).depth, len(log.lanes)) == (0, 0)


def test_a_backfilled_fire_is_as_old_as_its_decision() -> None:
    """Its own instant is long over."""
    log = Log()
    log.page(decided(T0 - 1_000 * MINUTE, "backfill", sequence=4), at=T0)
    assert log.depth("backfill", T0 + SECOND).waiting_since == T0


def test_rates_are_those_of_the_last_minute() -> None:
    """What is older does not count; a drain that has just begun is not measured over less than ten seconds."""
    log = Log()
    log.page(*(released(T0 + n) for n in range(40)), at=T0)
    log.starts(*(started("acme", T0 + n) for n in range(20)), at=T0)
    depth = log.depth("on-time", T0 + SECOND)
    assert (depth.releases, depth.starts, depth.drain_rate) == (40, 20, 2.0)
    assert depth.ends_at(T0 + SECOND) == T0 + 11 * SECOND
    assert log.depth("on-time", T0 + 40 * SECOND).drain_rate == 0.5
    later = log.depth("on-time", T0 + MINUTE)
    assert (later.released, later.starts, later.drain_rate, later.ends_at(T0)) == (20, 0, 0.0, None)


def test_an_empty_lane_ends_now() -> None:
    """Nothing has to drain."""
    assert LaneDepth("on-time", "acme").ends_at(T0) == T0


def test_tenants_are_counted_apart_and_together() -> None:
    """Each has its own lanes; together counts are summed and the oldest of all counts."""
    log = Log()
    log.page(decided(T0), at=T0)
    log.page(decided(T0 - SECOND), released(T0), at=T0, tenant="zeta")
    assert log.depth("catch-up", T0).waiting == 1
    on_time, catch_up, backfill = together(log.lanes.depths(T0))
    assert (catch_up.waiting, catch_up.waiting_since, catch_up.tenant) == (2, T0 - SECOND, None)
    assert (on_time.released, backfill.depth, backfill.waiting_since) == (1, 0, None)


def test_a_drain_is_known_until_it_is_over() -> None:
    """It holds for one lane of one tenant; a later one takes its place."""
    log = Log()
    log.page(e.DrainDeclared(lane="backfill", until=T0 + MINUTE, why="moving"), at=T0)
    log.page(e.DrainDeclared(lane="backfill", until=T0 + 2 * MINUTE, why="still"), at=T0)
    assert log.lanes.drain("acme", "backfill", T0) == Drain(T0 + 2 * MINUTE, "still")
    assert log.lanes.drain("acme", "catch-up", T0) is None
    assert log.lanes.drain("zeta", "backfill", T0) is None
    assert log.lanes.drains("backfill", T0) == [("acme", Drain(T0 + 2 * MINUTE, "still"))]
    assert log.lanes.drain("acme", "backfill", T0 + 2 * MINUTE) is None


def test_a_page_without_effect_counts_nothing() -> None:
    """It is in the chain and changes nothing."""
    log = Log()
    log.page(decided(T0), at=T0, effective=False)
    assert (log.lanes.depths(T0), len(log.lanes)) == ([], 0)


def test_the_oldest_counts_only_what_the_runners_keep_from_starting() -> None:
    """Released fires always; waiting ones if asked for."""
    log = Log()
    log.page(decided(T0 - MINUTE), decided(T0 - SECOND, trigger="u"), at=T0)
    assert log.lanes.oldest("acme", "catch-up", T0, lambda _trigger, _stage: True) == T0 - MINUTE
    assert log.lanes.oldest("acme", "catch-up", T0, lambda trigger, _stage: trigger == "u") == T0 - SECOND
    assert log.lanes.oldest("acme", "catch-up", T0, lambda _trigger, _stage: False) is None
    log.page(released(T0 - MINUTE, "catch-up", decides=False), at=T0)
    assert log.lanes.oldest("acme", "catch-up", T0, lambda _trigger, _stage: False) == T0


def test_what_its_trigger_keeps_is_counted_and_does_not_count_for_the_end() -> None:
    """Waiting fires only: a released one is nobody's to keep. A lane with nothing else has no end."""
    log = Log()
    log.page(decided(T0 - MINUTE), decided(T0, trigger="u"), released(T0, "catch-up", trigger="v"), at=T0)
    assert log.lanes.stopped("acme", "catch-up", T0, lambda trigger, _stage: trigger == "u") == 1
    assert log.lanes.stopped("acme", "catch-up", T0, lambda _trigger, _stage: False) == 2
    assert log.lanes.stopped("acme", "on-time", T0, lambda _trigger, _stage: False) == 0
    assert log.lanes.stopped("nobody", "catch-up", T0, lambda _trigger, _stage: False) == 0
    draining = LaneDepth("catch-up", "acme", waiting=4, drain_rate=2.0)
    assert [draining.ends_at(T0, stopped=count) for count in (0, 2, 4)] == [T0 + 2 * SECOND, T0 + SECOND, None]


@pytest.mark.parametrize("origin", ["book", "attempts"])
def test_a_page_brought_back_counts_once(origin: str) -> None:
    """A lost page of a book or of attempts is folded from the entry that brings it back."""
    log = Log()
    if origin == "book":
        body = encode_page(book_page("acme", released(T0), at=T0).page)
        log.page(e.RollbackRecorded(origin="book", body=body, stamped_at=T0, surviving_sequence=1), at=T0 + SECOND)
        assert log.depth("on-time", T0 + SECOND).released == 1
        return
    log.page(released(T0), at=T0)
    body = encode_attempts(attempts_page(started("acme", T0), at=T0).page)
    log.page(e.RollbackRecorded(origin="attempts", body=body, stamped_at=T0, surviving_sequence=1), at=T0 + SECOND)
    assert log.depth("on-time", T0 + SECOND).released == 0
