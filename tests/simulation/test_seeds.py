"""Whole runs from seeds: broken on purpose, then healed, with every invariant checked at each step."""

from collections.abc import Callable

import pytest

from tests.simulation.seeds import SIMULATED, run_seeds

BLOCK = 40
SEEDS = 160
HOURS = 0.03
"""The default run: as many seeds, each about two simulated minutes dense with faults and as long again without."""
LONG_SEEDS = 600
LONG_HOURS = 0.25
DAY_SEEDS = 8
DAY_HOURS = 6.0

Record = Callable[[str, object], None]


def hold(first: int, count: int, hours: float, record_property: Record) -> None:
    """Run a block of seeds; each failure is shown with the line that repeats it."""
    total = run_seeds(range(first, first + count), hours)
    record_property(SIMULATED, f"from seed {first}: {total}")
    assert not total.failures, "\n".join(total.failures)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, SEEDS + 1, BLOCK))
def test_every_invariant_holds(first: int, record_property: Record) -> None:
    """Nothing early, nothing twice, nothing lost, whatever breaks; and everything drains once nothing does."""
    hold(first, BLOCK, HOURS, record_property)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("first", range(10_001, 10_001 + LONG_SEEDS, BLOCK))
def test_every_invariant_holds_for_longer(first: int, record_property: Record) -> None:
    """The same over a quarter of an hour each."""
    hold(first, BLOCK, LONG_HOURS, record_property)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("first", range(20_001, 20_001 + DAY_SEEDS, 2))
def test_every_invariant_holds_at_an_ordinary_pace(first: int, record_property: Record) -> None:
    """The same over six hours each, with 250 scheduled instants and a dozen faults an hour."""
    hold(first, 2, DAY_HOURS, record_property)
