"""The entries that end a fire: a released one with an outcome, a waiting one without having been released."""

from . import entries as e
from .state import OpenFire, WaitingFire


def finished(trigger: str, fire: OpenFire, outcome: e.Outcome, cause: str) -> e.FireFinished:
    """The open fire ends at its latest attempt."""
    return e.FireFinished(
        trigger=trigger,
        scheduled=fire.scheduled,
        sequence=fire.sequence,
        outcome=outcome,
        cause=cause,
        attempt=fire.attempt,
    )


def withdrawn(trigger: str, fire: WaitingFire, state: e.Withdrawn, cause: e.UnfiredCause) -> e.FireWithdrawn:
    """The waiting fire does not fire after all."""
    return e.FireWithdrawn(trigger=trigger, scheduled=fire.scheduled, sequence=fire.sequence, state=state, cause=cause)
