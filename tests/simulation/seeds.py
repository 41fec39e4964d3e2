"""Many seeds, one after the other, and what they came to together.

``python -m tests.simulation.seeds FIRST COUNT HOURS`` runs them at the lowest priority and prints the total as JSON:
so a block of seeds takes only the time that tests leave which wait for real instants.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterable

import msgspec

from tests.simulation.report import Failed
from tests.simulation.world import simulate
from tests.tidy.sources import ROOT

SIMULATED = "simulated"
"""The property under which a test tells what it simulated."""
NICE = 19


class Total(msgspec.Struct):
    """What many runs came to; ``failures`` holds the text of each that failed."""

    runs: int = 0
    hours: float = 0.0
    fires: int = 0
    pages: int = 0
    ineffective: int = 0
    turns: int = 0
    faults: int = 0
    cpu_s: float = 0.0
    failures: list[str] = []

    def __str__(self) -> str:
        return (
            f"{self.runs} seeds, {self.hours:.1f} simulated hours in {self.cpu_s:.1f} s of CPU: {self.fires} fires,"
            f" {self.pages} pages, {self.ineffective} of them without effect, {self.faults} faults injected,"
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
            total.faults += report.fault_count
    total.cpu_s = time.process_time() - began_s
    return total


def run_seeds_aside(first: int, count: int, hours: float) -> Total:
    """Run so many seeds in a process of the lowest priority. Raises CalledProcessError when it ends in another way."""
    command = [sys.executable, "-m", "tests.simulation.seeds", str(first), str(count), str(hours)]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(told.stdout, type=Total)


if __name__ == "__main__":
    os.nice(NICE)
    total = run_seeds(range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])), float(sys.argv[3]))
    sys.stdout.buffer.write(msgspec.json.encode(total))
