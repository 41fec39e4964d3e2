"""The simulation finds bugs: they are planted by patching functions, and each is found within 200 seeds."""

import pytest

from tests.simulation.invariants import Invariant, Violation
from tests.simulation.planted import PLANTS
from tests.simulation.report import Failed
from tests.simulation.world import simulate

SEEDS_MAX = 200
PACES = {"dense": 0.03, "ordinary": 2.0, "whole-day": 24.0}
"""The hours of a run at each pace: quiet stretches are skipped from the second on, and must hide nothing."""
RARE = {("cap-off-by-one", "ordinary"), ("raised-late", "dense"), ("raised-late", "ordinary")}
"""Several instants missed at once may not come in 200 ordinary runs of two hours, nor the end of a period."""
COSTLY = {(name, "dense") for name in ("ceiling-ignored", "late-pages-act", "let-go-forgotten", "name-revives")}
"""Dense runs seldom do what these need; in ordinary ones they are found at once."""
FOUND_BY: dict[str, set[Invariant]] = {
    "jitter-early": {"never-early"},
    "late-pages-act": {"late-page-harmless", "observed-complete", "answer-true"},
    "pause-ignored": {"pause-exact"},
    "overlap-ignored": {"overlap"},
    "resend-unguarded": {"resend-guard"},
    "cap-off-by-one": {"cap"},
    "retry-early": {"retry-instant"},
    "pace-ignored": {"pace"},
    "ceiling-ignored": {"suspension-exact", "ceiling"},
    "held-retried": {"held-untouched"},
    "let-go-forgotten": {"outcome-true"},
    "name-revives": {"retry-instant", "outcome-true", "cancelled-on-delete"},
    "raised-late": {"suspension-exact"},
    "token-unchecked": {"report-checked"},
    "quota-unmarked": {"quota-marks"},
    "backfill-skips-one": {"backfill-exact"},
    "first-comes-first": {"fair"},
}
"""Which invariants a bug may break first."""


def first_failure(name: str, hours: float) -> Failed | None:
    """The first of the seeds that fails with the bug planted."""
    for seed in range(1, SEEDS_MAX + 1):
        try:
            with PLANTS[name]():
                simulate(seed, hours)
        except Failed as failed:
            return failed
    return None


CASES = [
    pytest.param(name, pace, marks=pytest.mark.long if (name, pace) in COSTLY else pytest.mark.slow)
    for pace in ("dense", "ordinary")
    for name in PLANTS
    if (name, pace) not in RARE
]
CASES.append(pytest.param("raised-late", "whole-day", marks=pytest.mark.long))


@pytest.mark.parametrize("name,pace", CASES)
def test_a_planted_bug_is_found(name: str, pace: str) -> None:
    """Within 200 seeds an invariant that speaks of this very bug is broken; the failure names seed and command."""
    failed = first_failure(name, PACES[pace])
    assert failed is not None, f"{SEEDS_MAX} seeds did not find {name}"
    assert isinstance(failed.cause, Violation), failed
    assert failed.cause.invariant in FOUND_BY[name], failed
    assert str(failed).endswith(f"repeat with: make sim SEED={failed.seed} HOURS={PACES[pace]:g}")


def test_every_planted_bug_says_what_finds_it() -> None:
    """The table above covers all of them."""
    assert FOUND_BY.keys() == PLANTS.keys()
