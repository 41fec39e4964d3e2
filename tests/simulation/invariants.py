"""What must hold at every step of every run, by name. docs/testing.md lists the same."""

from typing import Literal, get_args

Invariant = Literal[
    "never-early",
    "one-state",
    "nothing-lost",
    "policy",
    "horizon",
    "cap",
    "overlap",
    "pause-exact",
    "quarantine",
    "cancelled-on-delete",
    "release-first",
    "started-first",
    "resend-guard",
    "chain-intact",
    "now-forward",
    "observed-complete",
    "outcome-true",
    "retry-instant",
    "attempts-in-order",
    "held-untouched",
    "report-checked",
    "pace",
    "fair",
    "quota-marks",
    "shedding",
    "ceiling",
    "suspension-exact",
    "backfill-exact",
    "run-number",
    "maximum",
    "late-page-harmless",
    "answer-true",
    "same-fold",
    "rolled-back",
    "due-rows",
    "drains",
]

INVARIANTS: tuple[Invariant, ...] = get_args(Invariant)


class Violation(AssertionError):
    """An invariant does not hold; the message says which, when and how."""

    def __init__(self, invariant: Invariant, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant: Invariant = invariant


def require(condition: bool, invariant: Invariant, what: str) -> None:
    """Raise Violation unless the condition holds."""
    if not condition:
        raise Violation(invariant, what)
