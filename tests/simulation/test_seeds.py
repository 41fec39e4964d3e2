"""Whole runs from seeds: broken on purpose, then healed, with every invariant checked at each step."""

from collections.abc import Callable
from typing import cast

import msgspec
import pytest

from tests.simulation.seeds import run_seeds_aside
from tests.simulation.totals import SIMULATED

DENSE_BLOCK = 20
DENSE_SEEDS = 40
DENSE_HOURS = 0.03
"""About two simulated minutes dense with faults, and as long again without."""
QUARTER_DAYS_FROM = 30_001
QUARTER_DAY_BLOCK = 10
QUARTER_DAY_HOURS = 6.0
"""At an ordinary pace, with about 250 fires and a dozen faults an hour; quiet stretches are skipped."""
LONG_DENSE_BLOCK = 40
LONG_DENSE_SEEDS = 600
LONG_DENSE_HOURS = 0.25
WHOLE_DAYS_FROM = 40_001
WHOLE_DAY_BLOCK = 20
WHOLE_DAY_HOURS = 24.0

Record = Callable[[str, object], None]


def hold(first: int, count: int, hours: float, record_property: Record) -> None:
    """Run a block of seeds; each failure is shown with the line that repeats it."""
    total = run_seeds_aside(first, count, hours)
    record_property(SIMULATED, msgspec.json.encode(total).decode())
    assert not total.failures, "\n".join(total.failures)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1, DENSE_SEEDS + 1, DENSE_BLOCK))
def test_every_invariant_holds(first: int, record_property: Record) -> None:
    """Nothing early, nothing twice, nothing lost, whatever breaks; and everything drains once nothing does."""
    hold(first, DENSE_BLOCK, DENSE_HOURS, record_property)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_every_invariant_holds_at_an_ordinary_pace(quarter_days: tuple[int, int], record_property: Record) -> None:
    """The same over six hours each; ``--quarter-days`` says how many."""
    hold(*quarter_days, QUARTER_DAY_HOURS, record_property)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("first", range(10_001, 10_001 + LONG_DENSE_SEEDS, LONG_DENSE_BLOCK))
def test_every_invariant_holds_for_longer(first: int, record_property: Record) -> None:
    """The dense runs over a quarter of an hour each."""
    hold(first, LONG_DENSE_BLOCK, LONG_DENSE_HOURS, record_property)


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_every_invariant_holds_over_whole_days(whole_days: tuple[int, int], record_property: Record) -> None:
    """The same over a day each; ``--whole-days`` says how many."""
    hold(*whole_days, WHOLE_DAY_HOURS, record_property)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each block of seeds that the options ask for."""
    _blocks(metafunc, "quarter_days", QUARTER_DAYS_FROM, QUARTER_DAY_BLOCK)
    _blocks(metafunc, "whole_days", WHOLE_DAYS_FROM, WHOLE_DAY_BLOCK)


def _blocks(metafunc: pytest.Metafunc, name: str, start: int, block: int) -> None:
    if name in metafunc.fixturenames:
        end = start + cast("int", metafunc.config.getoption(name))
        blocks = [(first, min(block, end - first)) for first in range(start, end, block)]
        metafunc.parametrize(name, blocks, ids=[str(first) for first, _ in blocks])
