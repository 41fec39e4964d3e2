"""What a run came to, or how it failed."""

from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.faults import Fault


@dataclass
class Report:
    """What a run came to. ``digest`` is a hash of every byte that was logged, and when."""

    seed: int
    hours: float
    fires: int = 0
    retries: int = 0
    """Further attempts released."""
    entries: Counter[str] = field(default_factory=Counter[str])
    """Entries that took effect, by kind."""
    reports: int = 0
    """Outcomes that executors reported later."""
    decisions: int = 0
    calls: int = 0
    pages: int = 0
    ineffective: int = 0
    commands: int = 0
    turns: int = 0
    """Fires that were held against another tenant's turn in a lane."""
    faults: Counter[Fault] = field(default_factory=Counter[Fault])
    digest: str = ""
    skipped: int = 0
    """Quiet time that was skipped, microseconds."""
    actions: Counter[str] = field(default_factory=Counter[str])

    @property
    def fault_count(self) -> int:
        """Faults injected."""
        return sum(self.faults.values())


class Failed(AssertionError):
    """A run failed; the message ends with the one line that repeats it."""

    def __init__(self, seed: int, hours: float, cause: BaseException) -> None:
        super().__init__(f"{cause}\nrepeat with: make sim SEED={seed} HOURS={hours:g}")
        self.seed = seed
        self.cause = cause
