"""A scheduler's tick: everything that is due in one book at one instant (DESIGN section 5, rules 1 to 7)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from . import entries as e
from .ceilings import ceiling_entries
from .conclusions import conclusions
from .due import due_beside_waiting, waiting_due
from .evolve import fold_entries
from .inputs import Inputs
from .lanes import Allowances
from .limits import CAUSE_LENGTH_MAX
from .page import Quarantine
from .state import State, TriggerState
from .trigger_decision import TriggerDecision

_P = ParamSpec("_P")
_T = TypeVar("_T")


class UndecidableTrigger(Exception):
    """Deciding this trigger failed; the writer names it in the next try's quarantine input."""

    def __init__(self, trigger: str, cause: str) -> None:
        super().__init__(f'trigger "{trigger}" cannot be decided: {cause}')
        self.trigger = trigger
        self.cause = cause

    def quarantine(self) -> Quarantine:
        """The input with which the same decision can be tried again."""
        return Quarantine(self.trigger, self.cause[:CAUSE_LENGTH_MAX])


def guarded(trigger: str, decided: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call ``decided``; raise UndecidableTrigger with the trigger's name for whatever it raises."""
    try:
        return decided(*args, **kwargs)
    except Exception as error:
        raise UndecidableTrigger(trigger, f"{type(error).__name__}: {error}") from error


def tick(state: State, inputs: Inputs) -> tuple[e.BookEntry, ...]:
    """The entries of one tick: what was observed, what follows from it, and what is due, oldest due first.

    Raises UndecidableTrigger when one trigger's decision fails, and UnknownZoneData when the book's
    time-zone database is not loaded; nothing is decided then.
    """
    recorded = inputs.recorded
    limit = recorded.entry_limit
    assert 2 * len(inputs.observed) <= limit, "observed entries need room for what follows from them"
    # Looked up before any trigger is: data that this node has not loaded is no reason to quarantine.
    inputs.zones.database(state.zone_sha256)
    entries: list[e.BookEntry] = list(inputs.observed)
    if recorded.step:
        entries.append(e.ClockNoted(step=recorded.step, source=recorded.clock_source))
    state = fold_entries(state, inputs.observed, recorded.now)
    following = _following(state, inputs)
    entries.extend(following)
    state = fold_entries(state, following, recorded.now)
    allowances = Allowances(state, recorded.now, recorded.allowances, recorded.shedding_level)
    looked_at = 0
    for due in _due_in_order(state, inputs, allowances):
        trigger = due.trigger
        looked_at += not due.only_waits
        if looked_at > recorded.trigger_limit and not due.only_waits:
            continue
        if due.only_waits and not allowances.allow_any(trigger.waiting):
            continue
        decision = TriggerDecision(state, trigger, inputs, allowances)
        guarded(trigger.name, decision.run)
        # What is observed and follows from it stands in the page in any case.
        room = max(0, limit - len(entries))
        if len(decision.entries) > room:
            entries.extend(decision.entries[: decision.cut(room)])
            break
        entries.extend(decision.entries)
    return tuple(entries)


def _following(state: State, inputs: Inputs) -> list[e.BookEntry]:
    """What follows for the whole book before any trigger is looked at: outcomes, the tenant's ceilings, quarantines."""
    assert state.settings is not None, "ticks are decided for tenants that exist"
    recorded = inputs.recorded
    found: list[e.BookEntry] = [*conclusions(state, inputs.observed)]
    if state.ceilings:
        zone = inputs.zones.database(state.zone_sha256).zone(state.settings.zone)
        found.extend(ceiling_entries(None, state.ceilings, state.suspended_until, recorded.now, zone))
    quarantined = {item.trigger: item.cause for item in recorded.quarantine}
    for name in sorted(quarantined):
        trigger = state.live(name)
        if trigger is not None and trigger.quarantine is None:
            found.append(e.TriggerQuarantined(trigger=name, cause=quarantined[name]))
    return found


@dataclass(frozen=True, slots=True)
class _Due:
    """A trigger in which something is due; ``only_waits``: nothing but waiting fires."""

    at: int
    oldest: int
    trigger: TriggerState
    only_waits: bool

    def order(self) -> tuple[int, int, str]:
        """The longest due first, and of those the one whose waiting fire is the oldest."""
        return self.at, self.oldest, self.trigger.name


def _due_in_order(state: State, inputs: Inputs, allowances: Allowances) -> list[_Due]:
    """The triggers in which something is due, in the order in which they are decided."""
    now = inputs.recorded.now
    observed = {entry.trigger for entry in inputs.observed}
    quarantined = {item.trigger for item in inputs.recorded.quarantine}
    names = set(state.triggers) if inputs.due is None else inputs.due | observed
    found: list[_Due] = []
    for name in names - quarantined:
        trigger = state.triggers.get(name)
        if trigger is None:
            continue
        others = guarded(name, due_beside_waiting, state, trigger, inputs.zones)
        ats = [at for at in (others, waiting_due(state, trigger)) if at is not None and at <= now]
        if ats:
            found.append(_Due(min(ats), _oldest(trigger, now), trigger, only_waits=others is None or others > now))
    if inputs.due is not None:
        found.extend(_only_waiting(state, inputs.waiting - names - quarantined, now, allowances))
    return sorted(found, key=_Due.order)


def _only_waiting(state: State, names: frozenset[str], now: int, allowances: Allowances) -> Iterator[_Due]:
    """Triggers in which nothing else is due, as the writer knows: looking for that would cost far more.

    What is not allowed before anything is released is not allowed later either.
    """
    for name in names:
        trigger = state.triggers.get(name)
        if trigger is None or not allowances.allow_any(trigger.waiting):
            continue
        at = waiting_due(state, trigger)
        if at is not None and at <= now:
            yield _Due(at, _oldest(trigger, now), trigger, only_waits=True)


def _oldest(trigger: TriggerState, now: int) -> int:
    return min((fire.scheduled for fire in trigger.waiting), default=now)
