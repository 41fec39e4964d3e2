"""Who should hold which partition: lapses, even shares, hand-over, generations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fireledger.domain.limits import SLOT_COUNT
from fireledger.runners.errors import SettingsDiffer
from fireledger.runners.lease_plan import (
    EXPIRY_S,
    RENEWAL_S,
    SILENT_SURELY_EXPIRIES,
    Claim,
    Heartbeat,
    Held,
    Peer,
    View,
    Watch,
    partition_of,
    plan,
    read_lease,
)


def _peer(name: str, revision: int, *, expires_at: int = 0, epsilon: int = 0) -> Peer:
    heartbeat = Heartbeat(
        runner=name,
        counter=1,
        active=True,
        reason="",
        epsilon=epsilon,
        expires_at=expires_at,
        generation=1,
        partition_count=8,
    )
    return Peer(heartbeat, revision)


def _claim(runner: str, *, epoch: int = 1, generation: int = 1, successor: str = "") -> Held:
    return Held(Claim(runner=runner, epoch=epoch, generation=generation, epsilon=0, successor=successor), 1)


def _view(me: str, active: tuple[str, ...], claims: dict[int, Held], *, count: int = 8, generation: int = 1) -> View:
    return View(me=me, active=active, generation=generation, partition_count=count, claims=claims)


def test_void_claims_are_written_again_and_hold_nothing_before() -> None:
    """Others still count them to this runner, so all are claimed again, however many make a fair share."""
    claims = {n: _claim("a") for n in range(8)}
    view = View(
        me="a", active=("a", "b"), generation=1, partition_count=8, claims=claims, void=dict.fromkeys(range(6), 1)
    )
    assert view.mine() == {6, 7}
    todo = plan(view, oldest_first=[6, 7], routine=False)
    assert todo.take == list(range(6))
    rewritten = View(
        me="a", active=("a", "b"), generation=1, partition_count=8, claims=claims, void=dict.fromkeys(range(8), 0)
    )
    assert rewritten.mine() == set(range(8))


@pytest.mark.parametrize("count", [1, 3, 60, 256, 1000, 1024])
def test_partitions_are_contiguous_and_cover_all_slots(count: int) -> None:
    """Every slot is in one partition; partitions are ranges in order; sizes differ by one at most."""
    partitions = [partition_of(slot, count) for slot in range(SLOT_COUNT)]
    assert partitions == sorted(partitions)
    assert set(partitions) == set(range(count))
    sizes = [partitions.count(n) for n in range(count)]
    assert max(sizes) - min(sizes) <= 1


def test_a_heartbeat_lapses_by_standing_still() -> None:
    """Silence is counted on the own steady clock from when a revision was first seen, and ends with a new one."""
    watch = Watch()
    for second in range(4):
        watch.look({"two": _peer("two", 7)}, float(second))
    assert not watch.lapsed(_peer("two", 7), EXPIRY_S - 0.1, earliest=10)
    assert watch.lapsed(_peer("two", 7), EXPIRY_S, earliest=10)
    watch.look({"two": _peer("two", 8)}, 4.0)
    assert not watch.lapsed(_peer("two", 8), EXPIRY_S, earliest=10)


def test_a_wall_clock_alone_takes_nothing_and_keeps_nothing_for_long() -> None:
    """An expiry passed on the wall does not count without silence; one that lies ahead only delays."""
    watch = Watch()
    ahead = _peer("two", 7, expires_at=1_000, epsilon=50)
    watch.look({"two": ahead}, 0.0)
    assert not watch.lapsed(ahead, 1.0, earliest=10**15)
    assert not watch.lapsed(ahead, EXPIRY_S + 1, earliest=1_050)
    assert watch.lapsed(ahead, EXPIRY_S + 1, earliest=1_051)
    assert watch.lapsed(ahead, SILENT_SURELY_EXPIRIES * EXPIRY_S, earliest=0)


def test_after_a_pause_in_watching_everybody_is_watched_afresh() -> None:
    """Nobody could renew through an outage, so an outage proves nobody dead."""
    watch = Watch()
    watch.look({"two": _peer("two", 7)}, 0.0)
    watch.look({"two": _peer("two", 7)}, 2 * RENEWAL_S + EXPIRY_S)
    assert not watch.lapsed(_peer("two", 7), 2 * RENEWAL_S + EXPIRY_S, earliest=10)


def test_free_partitions_are_taken_up_to_the_share() -> None:
    """Unclaimed ones and those of runners that are gone are free; two runners reach for different ones."""
    claims = {0: _claim("gone"), 1: _claim("gone")}
    one = plan(_view("one", ("one", "two"), claims), oldest_first=(), routine=False)
    two = plan(_view("two", ("one", "two"), claims), oldest_first=(), routine=False)
    assert (len(one.take), len(two.take)) == (4, 4)
    assert not set(one.take) & set(two.take)


def test_an_offer_is_taken_by_its_successor_alone() -> None:
    """The named runner takes it at once; an offer to somebody gone is withdrawn by the holder."""
    claims = {n: _claim("one") for n in range(8)} | {3: _claim("one", successor="two")}
    assert plan(_view("two", ("one", "two"), claims), oldest_first=(), routine=False).take == [3]
    holder = plan(_view("one", ("one", "two"), claims), oldest_first=range(8), routine=False)
    assert (holder.withdraw, sorted(holder.offer)) == ([], [0, 1, 2])
    alone = plan(_view("one", ("one",), claims), oldest_first=range(8), routine=False)
    assert (alone.withdraw, alone.offer) == ([3], {})


def test_routine_gives_the_longest_held_to_the_next_runner() -> None:
    """One partition goes to the next runner in order, the last one's to the first."""
    claims = {n: _claim("one" if n < 4 else "two") for n in range(8)}
    one = plan(_view("one", ("one", "two"), claims), oldest_first=(2, 0, 1, 3), routine=True)
    two = plan(_view("two", ("one", "two"), claims), oldest_first=range(4, 8), routine=True)
    assert (one.offer, two.offer) == ({2: "two"}, {4: "one"})
    assert plan(_view("one", ("one",), claims), oldest_first=range(4), routine=True).offer == {}


def test_a_runner_that_takes_no_part_does_nothing() -> None:
    """With an unusable clock a runner neither takes nor gives."""
    idle = plan(_view("one", ("two",), {}), oldest_first=(), routine=True)
    assert (idle.take, idle.offer, idle.withdraw) == ([], {}, [])


def test_claims_of_an_older_generation_are_free() -> None:
    """A new number of partitions begins with nobody holding any."""
    claims = {n: _claim("one", generation=1) for n in range(8)}
    assert len(plan(_view("one", ("one",), claims, generation=2), oldest_first=(), routine=False).take) == 8


def test_a_lease_of_another_release_is_refused() -> None:
    """A value that this release cannot read stops the runner instead of being taken for free."""
    with pytest.raises(SettingsDiffer, match=r'the lease "scheduler\.partition\.3" cannot be read'):
        read_lease("scheduler.partition.3", b'{"topic":"lease.claim.v9"}', Claim)


@given(count=st.integers(1, 40), runners=st.integers(1, 5), routine=st.booleans(), data=st.data())
def test_shares_become_even(count: int, runners: int, routine: bool, data: st.DataObject) -> None:
    """From any claims, in rounds of plans that are carried out one runner after the other, shares become even."""
    names = tuple(f"r{n}" for n in range(runners))
    holders = data.draw(st.lists(st.sampled_from([*names, "gone"]), min_size=count, max_size=count))
    claims = {n: _claim(holder) for n, holder in enumerate(holders)}
    for round_number in range(count + 8):
        for me in names:
            view = _view(me, names, dict(claims), count=count)
            todo = plan(view, oldest_first=sorted(view.mine()), routine=routine and round_number == 0)
            for n in todo.take:
                claims[n] = _claim(me, epoch=claims[n].claim.epoch + 1)
            for n, successor in todo.offer.items():
                claims[n] = _claim(me, epoch=claims[n].claim.epoch, successor=successor)
    shares = [sum(held.claim.runner == name for held in claims.values()) for name in names]
    assert sum(shares) == count
    assert max(shares) - min(shares) <= 1
    assert not any(held.claim.successor for held in claims.values())
