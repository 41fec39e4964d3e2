"""What an outage would do to a trigger under each missed-fire policy: the very decision, on a copy of the state."""

from dataclasses import dataclass
from typing import get_args

from msgspec.structs import replace

from .definition import Missed
from .entries import BookEntry, FireDecided, FireReleased, InstantsResolved
from .inputs import Inputs
from .page import PageInputs
from .state import State, TriggerState, segment_of
from .tick import tick
from .zones import ZoneLibrary

POLICIES: tuple[Missed, ...] = get_args(Missed)


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """What one policy makes of an outage: the decision's entries about the trigger, in order."""

    policy: Missed
    entries: tuple[BookEntry, ...]

    @property
    def fired(self) -> tuple[int, ...]:
        """The scheduled instants that fire, at once or when what they wait for is over."""
        return tuple(entry.scheduled for entry in self.entries if isinstance(entry, FireReleased | FireDecided))

    @property
    def unfired(self) -> tuple[InstantsResolved, ...]:
        """The stretches that do not fire, with their causes."""
        return tuple(entry for entry in self.entries if isinstance(entry, InstantsResolved))


def outage_outcomes(
    state: State, trigger: TriggerState, zones: ZoneLibrary, *, start: int, end: int
) -> tuple[PolicyOutcome, ...]:
    """What each policy would do if nothing were decided in (start, end] and the scheduler came back at ``end``.

    The trigger's present definition and the book's time-zone data hold; nothing is open, paused or used up. Raises
    ValueError unless ``start`` lies before ``end``.
    """
    if start >= end:
        raise ValueError("the outage must begin before it ends")
    return tuple(_outcome(state, trigger, zones, policy, (start, end)) for policy in POLICIES)


def _outcome(
    state: State, trigger: TriggerState, zones: ZoneLibrary, policy: Missed, outage: tuple[int, int]
) -> PolicyOutcome:
    start, end = outage
    definition = replace(trigger.definition, missed=policy, max_fires=None)
    segment = segment_of(definition, start, state.zone_sha256)
    alone = replace(
        trigger, definition=definition, segments=(segment,), pauses=(), quarantine=None, deleted=False, fired_count=0,
        open=(), waiting=(),
    )  # fmt: skip
    # Adoptions inside the outage would be known by its end; the present data stands for the whole of it.
    data = tuple(replace(adoption, at=0) for adoption in state.adoptions[-1:])
    before = replace(state, triggers={trigger.name: alone}, now=start, adoptions=data)
    recorded = PageInputs(now=end, earliest=end, latest=end, clock_source="what-if", as_of=state.as_of, owner="what-if")
    inputs = Inputs(recorded=recorded, zones=zones, due=frozenset({trigger.name}))
    return PolicyOutcome(policy, tick(before, inputs))
