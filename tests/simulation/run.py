"""``make sim SEED=n [HOURS=h]``: run one seed and tell what happened, or fail with the line that repeats it."""

import sys
import time

from fireledger.domain.instants import HOUR
from tests.simulation.report import Failed, Report
from tests.simulation.world import simulate

SHOWN = ("FireHeld", "FireRequested", "FireWithdrawn", "TriggerSuspended", "BackfillStarted", "BackfillEnded")
"""Kinds of entries that a run tells the number of."""


def lines(report: Report, took_s: float) -> list[str]:
    """The report in words."""
    faults = ", ".join(f"{name} {count}" for name, count in sorted(report.faults.items()))
    kinds = (f"{name} {report.entries[name]}" for name in SHOWN if report.entries[name])
    return [
        f"seed {report.seed}, {report.hours:g} simulated hours in {took_s:.1f} s: every invariant held",
        f"{report.skipped / HOUR:.1f} quiet hours were skipped",
        f"{report.fires} fires and {report.decisions} decisions, {report.calls} calls, {report.commands} commands",
        f"{report.retries} retries, {report.reports} reported outcomes; {', '.join(kinds)}",
        f"{report.pages} pages, {report.ineffective} of them without effect",
        f"{report.turns} fires held against another tenant's turn in their lane",
        f"{report.fault_count} faults injected: {faults or 'none'}",
        f"digest {report.digest}",
    ]


def main(arguments: list[str]) -> int:
    """Run; 0 when everything held, 1 when something did not, 2 for arguments that are no numbers."""
    try:
        seed, hours = int(arguments[0]), float(arguments[1])
    except (IndexError, ValueError):
        print("usage: python -m tests.simulation.run SEED HOURS", file=sys.stderr)
        return 2
    began_s = time.perf_counter()
    try:
        report = simulate(seed, hours)
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    print("\n".join(lines(report, time.perf_counter() - began_s)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
