"""Many seeds, one after the other, and what they came to together."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.faults import Fault
from tests.simulation.report import Failed
from tests.simulation.world import simulate

SIMULATED = "simulated"
"""The property under which a test tells what it simulated."""


@dataclass
class Total:
    """What many runs came to; ``failures`` holds the text of each that failed."""

    runs: int = 0
    hours: float = 0.0
    fires: int = 0
    pages: int = 0
    ineffective: int = 0
    turns: int = 0
    cpu_s: float = 0.0
    faults: Counter[Fault] = field(default_factory=Counter[Fault])
    failures: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        return (
            f"{self.runs} seeds, {self.hours:.1f} simulated hours in {self.cpu_s:.1f} s of CPU: {self.fires} fires,"
            f" {self.pages} pages, {self.ineffective} of them without effect, {self.faults.total()} faults injected,"
            f" {self.turns} fires held against another tenant's turn"
        )


def run_seeds(seeds: Iterable[int], hours: float) -> Total:
    """Run each seed for so many simulated hours."""
    total = Total()
    began_s = time.process_time()
    for seed in seeds:
        total.runs += 1
        total.hours += hours
        try:
            report = simulate(seed, hours)
        except Failed as failed:
            total.failures.append(str(failed))
        else:
            total.fires += report.fires
            total.pages += report.pages
            total.ineffective += report.ineffective
            total.turns += report.turns
            total.faults.update(report.faults)
    total.cpu_s = time.process_time() - began_s
    return total
