"""Many seeds, one after the other.

``python -m tests.simulation.seeds FIRST COUNT HOURS`` runs them at the lowest priority and prints their total as JSON:
so a block of seeds takes only the time that tests leave which wait for real instants.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterable

import msgspec

from tests.simulation.report import Failed
from tests.simulation.totals import Total
from tests.simulation.world import simulate
from tests.tidy.sources import ROOT

NICE = 19
"""The lowest priority."""


def run_seeds(seeds: Iterable[int], hours: float) -> Total:
    """Run each seed for so many simulated hours."""
    total, began_s = Total(hours), time.process_time()
    for seed in seeds:
        total.runs += 1
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


def main(arguments: list[str]) -> None:
    """Run the seeds that the arguments say, and print their total."""
    first, count, hours = int(arguments[0]), int(arguments[1]), float(arguments[2])
    os.nice(NICE)
    sys.stdout.buffer.write(msgspec.json.encode(run_seeds(range(first, first + count), hours)))


if __name__ == "__main__":
    main(sys.argv[1:])
