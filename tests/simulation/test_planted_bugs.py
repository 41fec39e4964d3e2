"""The simulation finds bugs: six are planted by patching functions, and each is found within 200 seeds."""

import pytest

from tests.simulation.invariants import Invariant, Violation
from tests.simulation.planted import PLANTS
from tests.simulation.world import Failed, simulate

SEEDS_MAX = 200
HOURS = 0.03
FOUND_BY: dict[str, set[Invariant]] = {
    "jitter-early": {"never-early"},
    "late-pages-act": {"late-page-harmless", "observed-complete"},
    "pause-ignored": {"pause-exact"},
    "overlap-ignored": {"overlap"},
    "resend-unguarded": {"resend-guard"},
    "cap-off-by-one": {"cap"},
}
"""Which invariants a bug may break first."""


def first_failure(name: str) -> Failed | None:
    """The first of the seeds that fails with the bug planted."""
    for seed in range(1, SEEDS_MAX + 1):
        try:
            with PLANTS[name]():
                simulate(seed, HOURS)
        except Failed as failed:
            return failed
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    """Within 200 seeds an invariant that speaks of this very bug is broken; the failure names seed and command."""
    failed = first_failure(name)
    assert failed is not None, f"{SEEDS_MAX} seeds did not find {name}"
    assert isinstance(failed.cause, Violation), failed
    assert failed.cause.invariant in FOUND_BY[name], failed
    assert str(failed).endswith(f"repeat with: make sim SEED={failed.seed} HOURS={HOURS:g}")


def test_every_planted_bug_says_what_finds_it() -> None:
    """The table above covers all of them, and there are six."""
    assert FOUND_BY.keys() == PLANTS.keys()
    assert len(PLANTS) == 6
