"""What answers say of a trigger's standing: its state, ceilings, backfill, and what happens when an attempt fails."""

from collections.abc import Iterable

from fireledger.domain.definition import Definition
from fireledger.domain.instants import format_duration, format_instant
from fireledger.domain.state import Ceiling, Grant, State, TriggerState
from fireledger.projections.book_text import factor_text

from ..json_edge import Jsonable

_PERIODS = ("day", "week", "month")


def state_of(state: State, trigger: TriggerState) -> str:
    """``active``, ``paused``, ``quarantined``, ``suspended`` by a ceiling, or ``backfilling`` besides being active."""
    if trigger.quarantine is not None:
        return "quarantined"
    if trigger.paused:
        return "paused"
    if suspended_until(state, trigger) is not None:
        return "suspended"
    return "active" if trigger.backfill is None else "backfilling"


def suspended_until(state: State, trigger: TriggerState) -> int | None:
    """Until when a ceiling of the trigger or of its tenant suspends it; None: none does."""
    return max((end for end in (state.suspended_until, trigger.suspended_until) if end is not None), default=None)


def standing_answer(state: State, trigger: TriggerState, now: int) -> dict[str, Jsonable]:
    """What policies make of a trigger at present."""
    until = suspended_until(state, trigger)
    granted = state.granted("backfill", trigger.name)
    return {
        "suspended_until": None if until is None else format_instant(until),
        "ceilings": ceilings_answer(trigger.ceilings, now),
        "backfill": None if trigger.backfill is None else trigger.backfill.label,
        "backfill_grant": None if granted is None else granted.value,
        "held": sum(fire.held for fire in trigger.open),
        "retrying": sum(fire.retry_at is not None for fire in trigger.open),
    }


def tenant_standing_answer(state: State, now: int) -> dict[str, Jsonable]:
    """What policies make of a tenant at present."""
    return {
        "suspended_until": None if state.suspended_until is None else format_instant(state.suspended_until),
        "ceilings": ceilings_answer(state.ceilings, now),
        "grants": [_grant_answer(grant) for grant in state.grants],
        "late_outcomes": state.late_count,
    }


def ceilings_answer(ceilings: Iterable[Ceiling], now: int) -> list[Jsonable]:
    """Spend ceilings, the shortest period first: what is spent of which amount until when, and whether it suspends."""
    return [_ceiling_answer(ceiling, now) for ceiling in sorted(ceilings, key=lambda each: _PERIODS.index(each.per))]


def _ceiling_answer(ceiling: Ceiling, now: int) -> dict[str, Jsonable]:
    # A period that is over counts as long as nobody has begun the next one; only then is anything spent in that.
    over = now >= ceiling.end
    spent = ceiling.later if over else ceiling.spent
    return {
        "per": ceiling.per,
        "amount": ceiling.amount,
        "spent": spent,
        "period_start": None if over else format_instant(ceiling.start),
        "period_end": None if over else format_instant(ceiling.end),
        "exhausted": spent >= ceiling.amount,
        "resumes_at": format_instant(ceiling.end) if not over and ceiling.exhausted else None,
    }


def _grant_answer(grant: Grant) -> dict[str, Jsonable]:
    return {"grant": grant.grant, "trigger": grant.trigger, "value": grant.value, "holder": grant.holder}


def failure_words(definition: Definition) -> str:
    """What happens when an attempt fails and may be tried again, as a part of a sentence."""
    retry = definition.retry
    if retry.attempts == 1:
        return "a fire whose attempt fails is not tried again"
    waits = f"after {format_duration(retry.base)}"
    if retry.attempts > 2 and retry.factor > 100 and retry.cap > retry.base:
        cap = format_duration(retry.cap)
        waits += f", each wait {factor_text(retry.factor)} times the one before and at most {cap}"
    return f"an attempt that fails is made again {waits}, up to {retry.attempts} attempts of a fire in all"
