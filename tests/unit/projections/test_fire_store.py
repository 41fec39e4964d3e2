"""Where the fire rows are kept: the bound, the tenants' shares, and the newest without a search."""

from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest

from fireledger.domain.instants import MINUTE, SECOND
from fireledger.projections.fire_row import FireQuery, FireRow
from fireledger.projections.fire_store import FireStore
from fireledger.projections.ordered_keys import BLOCK_MAX, Key, OrderedKeys

T0 = 1_800_000_000 * SECOND


def row(tenant: str, scheduled: int, *, trigger: str = "t", count: int = 1, step: int = SECOND) -> FireRow:
    """One fire, or a range of instants a step apart."""
    return FireRow(
        tenant=tenant,
        trigger=trigger,
        scheduled=scheduled,
        sequence=0,
        state="fired" if count == 1 else "expired",
        cause="on-time",
        version=1,
        decided=scheduled,
        last=scheduled + (count - 1) * step,
        count=count,
    )


class Filled:
    """A store with rows put in by tenant, numbered as their changes are."""

    def __init__(self, rows_max: int) -> None:
        self.store = FireStore(rows_max)
        self.change = 0

    def put(self, each: FireRow) -> None:
        """Put one row in, and come down to the bound."""
        self.change += 1
        each.changed = self.change
        self.store.put(each)
        self.store.shrink()

    def kept(self, tenant: str) -> list[int]:
        """The seconds of the rows that a tenant has, newest first."""
        query = FireQuery(tenant=tenant, limit=10**6)
        return [(each.scheduled - T0) // SECOND for each in self.store.newest(query)]


def test_a_noisy_tenant_pushes_out_its_own_rows_only() -> None:
    """However many fires one tenant has, the others keep theirs, and the bound holds."""
    filled = Filled(rows_max=100)
    for n in range(20):
        filled.put(row("quiet", T0 + n * SECOND))
    for n in range(5_000):
        filled.put(row("noisy", T0 + n * SECOND))
        assert len(filled.store) <= 100
    assert filled.kept("quiet") == list(range(19, -1, -1))
    assert filled.kept("noisy") == list(range(4_999, 4_919, -1))
    assert (filled.store.complete_since("quiet"), filled.store.forgotten_through("quiet")) == (None, 0)
    assert filled.store.complete_since("noisy") == T0 + 4_920 * SECOND


def test_tenants_that_all_want_more_end_with_equal_shares() -> None:
    """Three tenants that fill the store one after the other hold a third each, of their newest."""
    filled = Filled(rows_max=90)
    for tenant in ("a", "b", "c"):
        for n in range(500):
            filled.put(row(tenant, T0 + n * SECOND))
    assert [len(filled.kept(tenant)) for tenant in ("a", "b", "c")] == [30, 30, 30]
    assert all(filled.kept(tenant)[0] == 499 for tenant in ("a", "b", "c"))


def test_more_tenants_than_rows_are_bounded_too() -> None:
    """With a row each, somebody's has to go."""
    filled = Filled(rows_max=5)
    for n in range(12):
        filled.put(row(f"t{n}", T0))
    assert len(filled.store) == 5
    assert sum(len(filled.kept(f"t{n}")) for n in range(12)) == 5


def test_what_changed_last_goes_last() -> None:
    """A row that changes again is kept longer than one that does not."""
    filled = Filled(rows_max=3)
    first = row("a", T0)
    filled.put(first)
    for n in (1, 2):
        filled.put(row("a", T0 + n * SECOND))
    filled.put(first)
    filled.put(row("a", T0 + 3 * SECOND))
    assert filled.kept("a") == [3, 2, 0]
    assert filled.store.find("a", (T0 + SECOND, "t", 0)) is None


def matches(each: FireRow, query: FireQuery) -> bool:
    """What a query means, by looking at a row."""
    return (
        each.tenant == query.tenant
        and (query.trigger is None or each.trigger == query.trigger)
        and (query.since is None or each.last >= query.since)
        and (query.until is None or each.scheduled < query.until)
        and (query.before is None or each.identity < query.before)
    )


def test_the_newest_rows_are_those_that_a_search_finds() -> None:
    """Over random rows, ranges, evictions and queries the index gives what a look at every row gives."""
    random = Random(20)
    for _ in range(60):
        filled = Filled(rows_max=random.choice([40, 300]))
        for _ in range(400):
            count = random.choice([1, 1, 1, 30])
            at = T0 + random.randrange(600) * SECOND
            filled.put(row(random.choice("ab"), at, trigger=random.choice("xyz"), count=count))
        held = [each for tenant in "ab" for each in filled.store.last_changed(tenant)]
        assert len(held) == len(filled.store)
        for _ in range(20):
            before = (T0 + random.randrange(600) * SECOND, random.choice("xyz"), random.randrange(2))
            query = FireQuery(
                tenant=random.choice("abc"),
                trigger=random.choice([None, "x", "y", "w"]),
                since=random.choice([None, T0 + random.randrange(600) * SECOND]),
                until=random.choice([None, T0 + random.randrange(600) * SECOND]),
                before=random.choice([None, before]),
                limit=1_000,
            )
            expected = sorted((each for each in held if matches(each, query)), key=identity, reverse=True)
            assert list(filled.store.newest(query)) == expected


def identity(each: FireRow) -> Key:
    """A row's place."""
    return each.identity


def test_ordered_keys_are_a_sorted_set() -> None:
    """Adding and removing in any order leaves the keys ascending, from any place downwards."""
    random, keys, model = Random(7), OrderedKeys(), set[Key]()
    for _ in range(6 * BLOCK_MAX):
        key = (random.randrange(900), random.choice("ab"), random.randrange(3))
        if key in model:
            keys.remove(key)
            model.remove(key)
        else:
            keys.add(key)
            model.add(key)
    for before in (None, (0, "", 0), (450, "b", 1), (450, "", 0), (10**6, "", 0)):
        expected = sorted((key for key in model if before is None or key < before), reverse=True)
        assert list(keys.descending(before)) == expected
    for key in sorted(model, key=hash):
        keys.remove(key)
    assert not keys
    assert list(keys.descending(None)) == []


def test_the_newest_are_found_without_looking_at_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rows, a few newest of all triggers, of one, and before a place, are all whose keys are looked at."""
    filled = Filled(rows_max=10_000)
    for n in range(5_000):
        filled.put(row("a", T0 + n * SECOND, trigger="odd" if n % 2 else "even"))
    looked_at: list[int] = []
    original = OrderedKeys.descending

    def noting(keys: OrderedKeys, before: Key | None) -> Iterator[Key]:
        for key in original(keys, before):
            looked_at.append((key[0] - T0) // SECOND)
            yield key

    monkeypatch.setattr(OrderedKeys, "descending", noting)
    before = (T0 + 1_000 * SECOND, "", 0)
    for query in (
        FireQuery(tenant="a", limit=3),
        FireQuery(tenant="a", trigger="even", limit=3),
        FireQuery(tenant="a", before=before, limit=3),
    ):
        assert len(list(islice(filled.store.newest(query), query.limit))) == 3
    assert looked_at == [4_999, 4_998, 4_997, 4_998, 4_996, 4_994, 999, 998, 997]


def test_a_range_that_reaches_into_the_bounds_is_listed_after_what_lies_in_them() -> None:
    """It began earlier than all of them, so it comes last, and a later page of the list goes on behind it."""
    filled = Filled(rows_max=100)
    filled.put(row("a", T0, count=61))
    filled.put(row("a", T0 + 2 * MINUTE))
    since = T0 + MINUTE
    found = list(filled.store.newest(FireQuery(tenant="a", since=since, limit=10)))
    assert [each.scheduled for each in found] == [T0 + 2 * MINUTE, T0]
    again = FireQuery(tenant="a", since=since, before=found[0].identity, limit=10)
    assert list(filled.store.newest(again)) == found[1:]
