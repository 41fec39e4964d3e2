"""Whole runs from seeds: broken on purpose, then healed, with every invariant checked at each step."""

from collections.abc import Callable
from typing import cast

import pytest

from tests.simulation.seeds import SIMULATED, run_seeds_aside

DENSE_BLOCK = 20
DENSE_SEEDS = 40
DENSE_HOURS = 0.03
"""About two simulated minutes dense with faults, and as long again without."""
DAY_BLOCK = 10
DAY_SEEDS = 300
DAY_HOURS = 6.0
"""At an ordinary pace, with about 250 fires and a dozen faults an hour; quiet stretches are skipped."""
LONG_DENSE_BLOCK = 40
LONG_DENSE_SEEDS = 600
LONG_DENSE_HOURS = 0.25
WHOLE_DAY_BLOCK = 20
WHOLE_DAY_HOURS = 24.0
"""How many there are of these, ``--whole-days`` says (tests/conftest.py)."""

Record = Callable[[str, object], None]


def hold(first: int, count: int, hours: float, record_property: Record) -> None:
    """Run a block of seeds; each failure is shown with the line that repeats it."""
    total = run_seeds_aside(first, count, hours)
    record_property(SIMULATED, f"from seed {first:>6}: {total}")
    assert not total.failures, "\n".join(total.failures)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1, DENSE_SEEDS + 1, DENSE_BLOCK))
def test_every_invariant_holds(first: int, record_property: Record) -> None:
    """Nothing early, nothing twice, nothing lost, whatever breaks; and everything drains once nothing does."""
    hold(first, DENSE_BLOCK, DENSE_HOURS, record_property)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("first", range(30_001, 30_001 + DAY_SEEDS, DAY_BLOCK))
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
@pytest.mark.timeout(7_200)
def test_every_invariant_holds_over_whole_days(whole_days: tuple[int, int], record_property: Record) -> None:
    """The same over a day each."""
    first, count = whole_days
    hold(first, count, WHOLE_DAY_HOURS, record_property)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each block of whole days."""
    if "whole_days" in metafunc.fixturenames:
        last = 40_001 + cast("int", metafunc.config.getoption("--whole-days"))
        blocks = [(first, min(WHOLE_DAY_BLOCK, last - first)) for first in range(40_001, last, WHOLE_DAY_BLOCK)]
        metafunc.parametrize("whole_days", blocks, ids=[str(first) for first, _ in blocks])
