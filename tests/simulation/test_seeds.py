"""Whole runs from seeds: broken on purpose, then healed, with every invariant checked at each step."""

from collections.abc import Callable

import pytest

from tests.simulation.seeds import SIMULATED, run_seeds

DENSE_BLOCK = 20
DENSE_SEEDS = 40
DENSE_HOURS = 0.03
"""About two simulated minutes dense with faults, and as long again without."""
DAY_BLOCK = 2
DAY_SEEDS = 4
DAY_HOURS = 6.0
"""At an ordinary pace, with about 250 fires and a dozen faults an hour; quiet stretches are skipped."""
LONG_DENSE_BLOCK = 40
LONG_DENSE_SEEDS = 600
LONG_DENSE_HOURS = 0.25
LONG_DAY_BLOCK = 20
LONG_DAY_SEEDS = 300
WHOLE_DAY_BLOCK = 4
WHOLE_DAY_SEEDS = 40
WHOLE_DAY_HOURS = 24.0

Record = Callable[[str, object], None]


def hold(first: int, count: int, hours: float, record_property: Record) -> None:
    """Run a block of seeds; each failure is shown with the line that repeats it."""
    total = run_seeds(range(first, first + count), hours)
    record_property(SIMULATED, f"from seed {first:>6}: {total}")
    assert not total.failures, "\n".join(total.failures)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, DENSE_SEEDS + 1, DENSE_BLOCK))
def test_every_invariant_holds(first: int, record_property: Record) -> None:
    """Nothing early, nothing twice, nothing lost, whatever breaks; and everything drains once nothing does."""
    hold(first, DENSE_BLOCK, DENSE_HOURS, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(20_001, 20_001 + DAY_SEEDS, DAY_BLOCK))
def test_every_invariant_holds_at_an_ordinary_pace(first: int, record_property: Record) -> None:
    """The same over six hours each."""
    hold(first, DAY_BLOCK, DAY_HOURS, record_property)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("first", range(10_001, 10_001 + LONG_DENSE_SEEDS, LONG_DENSE_BLOCK))
def test_every_invariant_holds_for_longer(first: int, record_property: Record) -> None:
    """The dense runs over a quarter of an hour each."""
    hold(first, LONG_DENSE_BLOCK, LONG_DENSE_HOURS, record_property)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("first", range(30_001, 30_001 + LONG_DAY_SEEDS, LONG_DAY_BLOCK))
def test_every_invariant_holds_over_many_seeds(first: int, record_property: Record) -> None:
    """The runs of six hours with many more seeds."""
    hold(first, LONG_DAY_BLOCK, DAY_HOURS, record_property)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("first", range(40_001, 40_001 + WHOLE_DAY_SEEDS, WHOLE_DAY_BLOCK))
def test_every_invariant_holds_over_whole_days(first: int, record_property: Record) -> None:
    """The same over a day each."""
    hold(first, WHOLE_DAY_BLOCK, WHOLE_DAY_HOURS, record_property)
