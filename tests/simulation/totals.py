"""What many runs came to together: told by each test of a block of seeds, and added up at the end of a test run."""

from collections.abc import Iterable

import msgspec

SIMULATED = "simulated"
"""The property under which a test tells its total, as JSON."""


class Total(msgspec.Struct):
    """Runs of ``hours`` simulated hours each; ``failures`` holds the text of each that failed."""

    hours: float
    runs: int = 0
    fires: int = 0
    pages: int = 0
    ineffective: int = 0
    turns: int = 0
    faults: int = 0
    cpu_s: float = 0.0
    failures: list[str] = []

    def __str__(self) -> str:
        return (
            f"{self.runs} seeds of {self.hours:g} hours in {self.cpu_s:.0f} s of CPU: {self.fires} fires,"
            f" {self.pages} pages, {self.ineffective} of them without effect, {self.faults} faults injected,"
            f" {self.turns} fires held against another tenant's turn, {len(self.failures)} violations"
        )

    def add(self, other: "Total") -> None:
        """Count another total of runs as long as these."""
        assert self.hours == other.hours, "runs of one length are added up"
        self.runs += other.runs
        self.fires += other.fires
        self.pages += other.pages
        self.ineffective += other.ineffective
        self.turns += other.turns
        self.faults += other.faults
        self.cpu_s += other.cpu_s
        self.failures.extend(other.failures)


def together(told: Iterable[str]) -> list[Total]:
    """The totals of all tests, one for each length of runs, the shortest first."""
    found: dict[float, Total] = {}
    for text in told:
        total = msgspec.json.decode(text, type=Total)
        found.setdefault(total.hours, Total(total.hours)).add(total)
    return [found[hours] for hours in sorted(found)]
