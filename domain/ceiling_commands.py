"""Setting spend ceilings, and granting what authorship alone does not allow."""

from collections.abc import Iterator

from msgspec.structs import replace

from . import commands as c
from . import entries as e
from .by_hand import refuse_text
from .ceilings import ceiling_entries
from .inputs import Inputs
from .limits import AMOUNT_MAX, BACKFILL_FIRES_MAX, NAME_LENGTH_MAX
from .rejections import Rejection, RejectionCode, no_trigger
from .state import Ceiling, State, TriggerState
from .zones import ZoneRules


def set_ceiling(state: State, command: c.SetCeiling, inputs: Inputs) -> tuple[e.BookEntry, ...] | Rejection:
    """Set, change or remove a ceiling; what is used up by now suspends, what is raised above it goes on at once."""
    assert state.settings is not None, "commands are decided for tenants that exist"
    trigger: TriggerState | None = None
    if command.trigger is not None:
        trigger = state.live(command.trigger)
        if trigger is None:
            return no_trigger(state.tenant, command.trigger)
    before = state.ceilings if trigger is None else trigger.ceilings
    refused = _refuse_amount(state.tenant, command, before)
    if refused is not None:
        return refused
    known = _ceiling_of(before, command.per)
    if known is not None and known.amount == command.amount:
        return ()
    zone = inputs.zones.database(state.zone_sha256).zone(
        state.settings.zone if trigger is None else trigger.definition.zone
    )
    suspended_until = state.suspended_until if trigger is None else trigger.suspended_until
    return tuple(_changed(command, before, suspended_until, inputs.recorded.now, zone))


def _changed(
    command: c.SetCeiling, before: tuple[Ceiling, ...], suspended_until: int | None, now: int, zone: ZoneRules
) -> Iterator[e.BookEntry]:
    known = _ceiling_of(before, command.per)
    yield e.CeilingSet(
        trigger=command.trigger,
        amount=command.amount,
        per=command.per,
        before=None if known is None else known.amount,
    )
    after = tuple(ceiling for ceiling in before if ceiling is not known)
    if command.amount is not None:
        changed = Ceiling(per=command.per, amount=command.amount)
        after = (*after, changed if known is None else replace(known, amount=command.amount))
    yield from ceiling_entries(command.trigger, after, suspended_until, now, zone, before=before)


def _ceiling_of(ceilings: tuple[Ceiling, ...], per: e.Period) -> Ceiling | None:
    return next((ceiling for ceiling in ceilings if ceiling.per == per), None)


def _refuse_amount(tenant: str, command: c.SetCeiling, before: tuple[Ceiling, ...]) -> Rejection | None:
    if command.amount is None:
        if _ceiling_of(before, command.per) is not None:
            return None
        shown = f"tenant show {tenant}" if command.trigger is None else f"trigger show {tenant}/{command.trigger}"
        return Rejection(
            RejectionCode.CEILING_MISSING,
            f"there is no ceiling per {command.per}",
            f"see which there are: fireledger {shown}",
        )
    if 0 <= command.amount <= AMOUNT_MAX:
        return None
    return Rejection(
        RejectionCode.VALUE_REFUSED,
        f"an amount of {command.amount} is out of bounds",
        f"give a whole number from 0 to {AMOUNT_MAX}",
    )


def change_grant(state: State, command: c.ChangeGrant) -> tuple[e.BookEntry, ...] | Rejection:
    """Give, change or withdraw a grant; the entry keeps the value before."""
    if command.grant != "backfill":
        return Rejection(
            RejectionCode.NOT_SUPPORTED,
            f'"{command.grant}" cannot be granted yet',
            "grant backfill, or amend the tenant",
        )
    if command.trigger is not None and state.live(command.trigger) is None:
        return no_trigger(state.tenant, command.trigger)
    refused = refuse_text(command.holder, "the holder's name", NAME_LENGTH_MAX)
    if refused is not None:
        return refused
    if command.value is not None and not 1 <= command.value <= BACKFILL_FIRES_MAX:
        return Rejection(
            RejectionCode.VALUE_REFUSED,
            f"a grant of {command.value} fires is out of bounds",
            f"give a whole number from 1 to {BACKFILL_FIRES_MAX}",
        )
    known = next((g for g in state.grants if (g.grant, g.trigger) == (command.grant, command.trigger)), None)
    before = None if known is None else known.value
    if before == command.value and (known is None or known.holder == command.holder):
        return ()
    changed = e.GrantChanged(
        grant=command.grant, trigger=command.trigger, value=command.value, before=before, holder=command.holder
    )
    return (changed,)
