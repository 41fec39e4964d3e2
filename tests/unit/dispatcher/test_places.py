"""Places for calls, handed out by lane and in turn."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from fireledger.runners.dispatcher.lanes import LANE_NAMES, LANE_SHARES, lane_limit, rank_of
from fireledger.runners.dispatcher.places import Places

BACKFILL = len(LANE_NAMES) - 1


def test_a_target_never_has_more_than_its_places() -> None:
    """A target's further items wait; each freed place goes to the one that has waited longest."""
    granted: list[str] = []
    places = Places[str](per_target=2, total=10, granted=granted.append)
    for item in "abcd":
        places.ask("slow", item)
    assert (granted, places.waiting_count) == (["a", "b"], 2)
    places.free("slow")
    places.free("slow")
    assert (granted, places.waiting_count, places.used_count) == (["a", "b", "c", "d"], 0, 2)


def test_a_full_target_does_not_hold_up_another() -> None:
    """Items for another target pass those that wait for a full one."""
    granted: list[str] = []
    places = Places[str](per_target=1, total=10, granted=granted.append)
    for item in ("s1", "s2", "s3"):
        places.ask("slow", item)
    places.ask("quick", "q1")
    assert granted == ["s1", "q1"]


def test_targets_take_turns_for_the_last_places() -> None:
    """When places in total are short, targets are served one after the other, not the busiest first."""
    granted: list[str] = []
    places = Places[str](per_target=5, total=1, granted=granted.append)
    for item in ("a1", "a2", "a3"):
        places.ask("a", item)
    places.ask("b", "b1")
    places.free("a")
    places.free("a")
    assert granted == ["a1", "a2", "b1"]
    places.free("b")
    assert granted == ["a1", "a2", "b1", "a3"]


def test_items_that_free_their_place_at_once_do_not_nest() -> None:
    """Thousands of granted items that need no place any more are passed over in one go."""

    def pass_over(item: int) -> None:
        granted.append(item)
        if item:
            places.free("t")

    granted: list[int] = []
    places = Places[int](per_target=1, total=1, granted=pass_over)
    for item in range(5_000):
        places.ask("t", item)
    places.free("t")
    assert len(granted) == 5_000
    assert places.used_count == 0


def test_what_waits_can_be_taken_out() -> None:
    """After that, freeing a place grants nothing."""
    granted: list[str] = []
    places = Places[str](per_target=1, total=1, granted=granted.append)
    for item in "abc":
        places.ask("t", item)
    assert places.take_waiting() == ["b", "c"]
    places.free("t")
    assert granted == ["a"]


def test_an_owner_never_takes_more_than_its_share() -> None:
    """One owner's many slow targets leave the others their places; a place given back goes to its next target."""
    granted: list[str] = []
    places = Places[str](per_target=2, per_owner=3, total=8, granted=granted.append)
    for target in ("a1", "a2", "a3"):
        for number in range(2):
            places.ask(target, f"{target}-{number}", owner="a")
    assert len(granted) == 3
    places.ask("b1", "b1-0", owner="b")
    assert granted[-1] == "b1-0"
    places.free(granted[0].partition("-")[0])
    assert len(granted) == 5
    for target in [name.partition("-")[0] for name in granted[1:3]] + ["b1"]:
        places.free(target)
    assert len(granted) == 7
    assert places.waiting_count == 0


def test_the_lanes_shares_are_the_published_ones() -> None:
    """Of 1,024 places all are for on-time calls, 512 for over-quota ones, 256 for catch-up, 128 for backfills."""
    assert [lane_limit(1_024, rank) for rank in range(len(LANE_NAMES))] == [1_024, 512, 256, 128]
    assert lane_limit(1, BACKFILL) == 1


def test_only_on_time_fires_are_over_quota() -> None:
    """A retry of a catch-up fire keeps its lane, whatever its mark."""
    assert [LANE_NAMES[rank_of(lane, over_quota=True)] for lane in ("on-time", "catch-up", "backfill")] == [
        "over-quota",
        "catch-up",
        "backfill",
    ]
    assert LANE_NAMES[rank_of("on-time", over_quota=False)] == "on-time"


def test_a_freed_place_goes_to_the_first_lane() -> None:
    """Whoever has waited longest in a later lane comes after who has just come to an earlier one."""
    granted: list[str] = []
    places = Places[str](per_target=8, total=1, granted=granted.append)
    places.ask("t", "first")
    for lane in reversed(range(len(LANE_NAMES))):
        places.ask("t", LANE_NAMES[lane], lane=lane)
    for _ in LANE_NAMES:
        places.free("t", lane=0 if granted[-1] == "first" else LANE_NAMES.index(granted[-1]))
    assert granted == ["first", *LANE_NAMES]


def test_a_lane_leaves_places_to_the_others() -> None:
    """Backfills take an eighth of a target's, a tenant's and all places; an on-time call then starts at once."""
    granted: list[str] = []
    places = Places[str](per_target=16, per_owner=32, total=64, granted=granted.append)
    for number in range(50):
        places.ask(f"a{number % 3}", f"a{number}", owner="a", lane=BACKFILL)
    assert len(granted) == 4, "an eighth of the tenant's 32"
    for number in range(50):
        places.ask("b", f"b{number}", owner="b", lane=BACKFILL)
    assert len(granted) == 6, "an eighth of the target's 16"
    for owner in "cdef":
        places.ask(owner, owner, owner=owner, lane=BACKFILL)
    assert granted[6:] == ["c", "d"], "an eighth of all 64"
    places.ask("a0", "on time", owner="a")
    assert granted[-1] == "on time"
    assert places.counts()["backfill"] == (8, 50 - 4 + 50 - 2 + 2)


def test_tenants_of_a_lane_take_turns() -> None:
    """A backlog of a hundred is passed by the other tenant's only one after at most one more call."""
    granted: list[str] = []
    places = Places[str](per_target=4, total=1, granted=granted.append)
    for number in range(100):
        places.ask(f"a{number % 10}", f"a{number}", owner="a")
    places.ask("b", "b", owner="b")
    places.free("a0")
    places.free(f"a{granted[-1].removeprefix('a')[-1]}")
    assert granted[2] == "b"


@dataclass
class _Model:
    """What the bounds are checked against, kept beside the places by its own counts."""

    per_target: int
    per_owner: int
    total: int
    under_way: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    waiting: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])

    def granted(self, item: tuple[str, int]) -> None:
        """A place was handed out; no bound is broken by it, and no earlier lane's call could have had it."""
        for lane in range(item[1]):
            assert not any(self._fits(each) for each in +self.waiting if each[1] == lane), "an earlier lane waits"
        self.waiting[item] -= 1
        self.under_way.append(item)
        assert not self._over_bound(self.under_way)

    def idle_while_somebody_could_go(self) -> bool:
        """Whether a call waits that could start without breaking a bound."""
        return any(self._fits(item) for item in +self.waiting)

    def _fits(self, item: tuple[str, int]) -> bool:
        return not self._over_bound([*self.under_way, item])

    def _over_bound(self, items: list[tuple[str, int]]) -> bool:
        counts: Counter[tuple[str, int]] = Counter()
        for target, lane in items:
            for name in ("", target[0], target):
                counts[name, -1] += 1
                counts[name, lane] += 1
        limits = (self.total, self.per_owner, self.per_target)
        return any(
            count > (limit := limits[len(name)]) or (lane >= 0 and count > max(1, limit // LANE_SHARES[lane]))
            for (name, lane), count in counts.items()
        )


_CALLS = st.tuples(st.sampled_from(["a0", "a1", "b0", "b1", "c0"]), st.integers(0, BACKFILL))


@given(
    st.lists(st.one_of(_CALLS, st.integers(0, 30)), max_size=80),
    st.integers(1, 8),
    st.integers(1, 12),
    st.integers(1, 16),
)
def test_no_bound_is_broken_and_no_place_is_idle(
    steps: list[tuple[str, int] | int], per_target: int, per_owner: int, total: int
) -> None:
    """Whatever comes and goes: bounds hold, the first lane that can go goes, and who can go is under way."""
    model = _Model(per_target, per_owner, total)
    places = Places[tuple[str, int]](per_target=per_target, per_owner=per_owner, total=total, granted=model.granted)
    for step in steps:
        if isinstance(step, tuple):
            model.waiting[step] += 1
            places.ask(step[0], step, owner=step[0][0], lane=step[1])
        elif model.under_way:
            target, lane = model.under_way.pop(step % len(model.under_way))
            places.free(target, lane=lane)
        assert not model.idle_while_somebody_could_go()
    assert places.used_count == len(model.under_way)
    assert places.waiting_count == model.waiting.total()
    while model.under_way:
        target, lane = model.under_way.pop(0)
        places.free(target, lane=lane)
    assert (places.used_count, places.waiting_count, model.waiting.total()) == (0, 0, 0)


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=60), st.integers(1, 4))
def test_no_tenant_of_a_lane_starves(backlog: list[str], total: int) -> None:
    """Between two calls of a tenant that waits, every other tenant of the lane has at most one turn more than it."""
    granted: list[str] = []
    places = Places[str](per_target=total, total=total, granted=granted.append)
    for _ in range(total):
        places.ask("z", "z", owner="z")
    for owner in backlog:
        places.ask(owner, owner, owner=owner)
    left = Counter(backlog)
    for freed in range(len(backlog)):
        places.free(granted[freed])
        now = granted[-1]
        turns = Counter(granted[total:])
        left[now] -= 1
        assert all(turns[other] >= turns[now] - 1 for other, count in left.items() if count), "somebody was passed by"
