"""The shared rates of the paced lanes: never more than the rate, and equal parts for those that wait."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fireledger.domain.entries import FireReleased, Lane
from fireledger.runners.scheduler.pacing import PACE_STEP_S, LanePacer, LaneRate, LaneRates

CATCH_UP: frozenset[Lane] = frozenset({"catch-up"})


def test_a_lane_releases_at_its_rate() -> None:
    """Somebody who asks ten times a second gets what the rate brings, and a step's worth at most beside it."""
    rate = LaneRate(50)
    granted = sum(rate.grant("acme", tick / 10, share=1.0) for tick in range(101))
    assert 500 - 50 * PACE_STEP_S <= granted <= 500 + 50 * PACE_STEP_S + 1


def test_who_asks_seldom_has_its_turn() -> None:
    """A tenant that asks ten times as often as another cannot starve it: every second ask is granted."""
    rate = LaneRate(20)
    got = {"often": 0, "seldom": 0}
    for tick in range(1_000):
        got["often"] += rate.grant("often", tick / 100, share=1.0)
        if tick % 10 == 0:
            got["seldom"] += rate.grant("seldom", tick / 100, share=1.0)
    assert got["seldom"] >= 50


def test_a_lane_below_one_fire_a_second_still_moves() -> None:
    """A small part of a small rate gathers until it makes one fire."""
    rate = LaneRate(1)
    granted = [rate.grant("acme", float(second), share=0.1) for second in range(41)]
    assert 4 <= sum(granted) <= 6


def test_what_a_page_leaves_is_given_back() -> None:
    """Allowances that led to no release are there for the next page."""
    pacer = LanePacer(LaneRates(catch_up=100, backfill=1))
    pacer.grant("acme", CATCH_UP, 0.0, owned_slots=1024)
    first = pacer.grant("acme", CATCH_UP, 1.0, owned_slots=1024)
    released = FireReleased(
        trigger="t", scheduled=1, release=1, definition_page=2, lane="catch-up", cause="caught-up", decides=False
    )
    pacer.settle("acme", first, (released,))
    assert pacer.grant("acme", CATCH_UP, 1.0, owned_slots=1024)["catch-up"] == first["catch-up"] - 1


def test_who_was_refused_comes_before_who_just_comes() -> None:
    """With one token left it goes to the tenant that waited longest."""
    rate = LaneRate(1)
    assert rate.grant("first", 0.0, share=1.0) == 1
    assert rate.grant("second", 0.1, share=1.0) == 0
    assert rate.grant("first", 0.9, share=1.0) == 0
    assert rate.grant("first", 1.05, share=1.0) == 0
    assert rate.grant("second", 1.06, share=1.0) == 1


@given(st.integers(1, 1_000), st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 0.5)), max_size=80))
def test_never_more_than_the_rate(per_second: int, asks: list[tuple[str, float]]) -> None:
    """Whoever asks when: all grants together stay within the rate since the first, and one step's worth."""
    rate, now_s, total = LaneRate(per_second), 0.0, 0
    for tenant, wait_s in asks:
        now_s += wait_s
        total += rate.grant(tenant, now_s, share=1.0)
    assert total <= per_second * now_s + max(1.0, per_second * PACE_STEP_S) + 1e-6


def shares(rate: LaneRate, names: str, round_s: float, seconds: float = 10.0) -> tuple[Counter[str], float]:
    """What each gets that always wants more, asking once in each round in this order; and all in all a second."""
    got, rounds = Counter[str](), round(seconds / round_s)
    for number in range(rounds + round(1 / round_s)):
        for name in names:
            granted = rate.grant(name, number * round_s, share=1.0)
            got[name] += granted if number * round_s >= 1 else 0
        rate.note_round()
    return got, got.total() / seconds


@pytest.mark.parametrize("per_second", [10, 50, 200, 500])
@pytest.mark.parametrize("round_s", [0.001, 0.01, 0.05, 0.1])
@pytest.mark.parametrize("names", ["ab", "abcd", "abcdefghij"])
def test_equal_backlogs_get_equal_parts_of_all_there_is(per_second: int, round_s: float, names: str) -> None:
    """However fast the lane and whoever asks first in a round: equal to a fifth, and nothing of the rate is lost."""
    got, total = shares(LaneRate(per_second), names, round_s)
    assert total >= 0.95 * per_second
    assert all(abs(got[name] * len(names) / got.total() - 1) <= 0.2 for name in names), got


@pytest.mark.parametrize("per_second", [50, 500])
def test_what_one_does_not_want_is_the_others(per_second: int) -> None:
    """Beside a tenant that releases one fire a second, another gets the rest of the rate."""
    rate, got = LaneRate(per_second), Counter[str]()
    for tick in range(1_000):
        if tick % 100 == 0:
            granted = rate.grant("few", tick / 100, share=1.0)
            rate.give_back("few", granted - 1)
            got["few"] += 1
        got["many"] += rate.grant("many", tick / 100, share=1.0)
        rate.note_round()
    assert got["few"] == 10
    assert got["many"] >= 0.95 * (per_second - 1) * 10


@pytest.mark.parametrize("round_s", [0.001, 0.01, 0.05])
def test_many_that_ask_now_and_then_leave_the_rest_to_one_with_a_backlog(round_s: float) -> None:
    """A hundred tenants with a fire a second each, all of it used, do not keep what they do not come for."""
    rate, got, rounds = LaneRate(200), Counter[str](), round(10 / round_s)
    for number in range(rounds):
        now_s = number * round_s
        for seldom in range(100):
            if int(now_s - seldom / 100) > int(now_s - round_s - seldom / 100) and now_s > 1:
                granted = rate.grant(f"seldom-{seldom}", now_s, share=1.0)
                rate.give_back(f"seldom-{seldom}", max(0, granted - 1))
                got["seldom"] += min(granted, 1)
        if number % max(1, round(0.05 / round_s)) == 0:
            got["many"] += rate.grant("many", now_s, share=1.0)
        rate.note_round()
    assert got["seldom"] >= 0.8 * 900, got
    assert got["many"] >= 0.85 * (2_000 - 900), got


def test_slots_that_come_count_from_the_next_look_on() -> None:
    """Somebody else may have counted them until now: what they would have brought since the last look is nobody's."""
    rate = LaneRate(100)
    assert rate.grant("acme", 0.0, share=0.1) == 1
    assert rate.grant("acme", 1.0, share=1.0) == 2
    assert rate.grant("acme", 1.5, share=1.0) == 20


def test_slow_rounds_starve_nobody() -> None:
    """Of two tenants that ask once in each round, in the same order, both are served, however long it takes."""
    for round_s in (0.5, 1.2, 5.0):
        rate, got = LaneRate(20), {"first": 0, "second": 0}
        for number in range(40):
            for place, tenant in enumerate(got):
                got[tenant] += rate.grant(tenant, number * round_s + place / 1_000, share=1.0)
            rate.note_round()
        assert min(got.values()) >= sum(got.values()) / 5 > 0, (round_s, got)


def test_a_place_outlives_a_standstill() -> None:
    """Who was refused before a scheduler could not decide for a while comes first when it goes on."""
    rate = LaneRate(1)
    assert rate.grant("first", 0.0, share=1.0) == 1
    assert rate.grant("second", 0.1, share=1.0) == 0
    rate.note_round()
    rate.note_round()
    assert rate.grant("first", 12.0, share=1.0) == 0
    assert rate.grant("second", 12.0, share=1.0) == 1


def test_who_does_not_come_again_is_waited_for_no_longer() -> None:
    """A tenant that was refused and stays away for a second of rounds holds nobody up."""
    rate = LaneRate(1)
    assert rate.grant("first", 0.0, share=1.0) == 1
    assert rate.grant("gone", 0.1, share=1.0) == 0
    granted: list[int] = []
    for tick in range(1, 20):
        rate.note_round()
        granted.append(rate.grant("first", 0.1 + tick / 10, share=1.0))
    assert sum(granted[:9]) == 0
    assert sum(granted) == 1


def test_what_is_held_back_keeps_its_place() -> None:
    """While a lane is shed, its tenants line up and are granted nothing; then they go in that order."""
    pacer = LanePacer(LaneRates(catch_up=1, backfill=1))
    for tenant in ("first", "second"):
        assert pacer.grant(tenant, CATCH_UP, 0.0, owned_slots=1024, shedding_level=2)["catch-up"] == 0
    assert pacer.grant("second", CATCH_UP, 0.5, owned_slots=1024)["catch-up"] == 0
    assert pacer.grant("first", CATCH_UP, 0.5, owned_slots=1024)["catch-up"] == 1
    assert pacer.grant("third", CATCH_UP, 0.5, owned_slots=1024, shedding_level=1)["catch-up"] == 0
