"""Many seeds, one after the other, and what they came to together."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.faults import Fault
from tests.simulation.world import Failed, simulate

SIMULATED = "simulated"
"""The property under which a test tells what it simulated."""


@dataclass
class Total:
    """What many runs came to; ``failures`` holds the text of each that failed."""

    runs: int = 0
    hours: float = 0.0
    fires: int = 0
    ineffective: int = 0
    faults: Counter[Fault] = field(default_factory=Counter[Fault])
    failures: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        return (
            f"{self.runs} seeds, {self.hours:.1f} simulated hours, {self.fires} fires,"
            f" {self.faults.total()} faults injected, {self.ineffective} pages without effect"
        )


def run_seeds(seeds: Iterable[int], hours: float) -> Total:
    """Run each seed for so many simulated hours."""
    total = Total()
    for seed in seeds:
        total.runs += 1
        total.hours += hours
        try:
            report = simulate(seed, hours)
        except Failed as failed:
            total.failures.append(str(failed))
        else:
            total.fires += report.fires
            total.ineffective += report.ineffective
            total.faults.update(report.faults)
    return total
