"""Places for calls, handed out in turn."""

from fireledger.runners.dispatcher.places import Places


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
