"""Spend ceilings: periods in the owner's zone, what is used up, and the suspensions that follow (DESIGN section 5).

A cost counts in the period of the page that observes it, from the page on that set the ceiling.
"""

from calendar import monthrange
from collections.abc import Iterable, Iterator
from datetime import date, timedelta

from . import entries as e
from .instants import DAY, SECOND, Instant, format_instant, to_datetime
from .state import Ceiling
from .zones import ZoneRules

_EPOCH = date(1970, 1, 1)


def period_of(per: e.Period, now: int, zone: ZoneRules) -> tuple[Instant, Instant]:
    """The period [start, end) of the zone's calendar that holds ``now``: weeks begin on Monday (ISO 8601).

    An hour before midnight that the clock shows once more belongs to the period that had begun.
    """
    today = to_datetime(now + zone.utc_offset_at(now) * SECOND).date()
    first = _first_day(per, today)
    following = _day_after(per, first)
    if _begin(following, zone) <= now:
        first, following = following, _day_after(per, following)
    return _begin(first, zone), _begin(following, zone)


def _first_day(per: e.Period, day: date) -> date:
    match per:
        case "day":
            return day
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)


def _day_after(per: e.Period, first: date) -> date:
    days = {"day": 1, "week": 7, "month": monthrange(first.year, first.month)[1]}[per]
    return first + timedelta(days=days)


def _begin(day: date, zone: ZoneRules) -> Instant:
    """The first instant of a local day; where midnight is missing, the end of the gap."""
    midnight = (day - _EPOCH).days * DAY
    found = zone.local_to_instants(midnight)
    if found:
        return found[0]
    gap = zone.gap_at(midnight)
    assert gap is not None, "a local time exists or lies in a gap"
    return Instant(gap.at_s * SECOND)


def suspension_end(ceilings: Iterable[Ceiling]) -> int | None:
    """Until when the exhausted ceilings suspend; None: none is exhausted."""
    return max((ceiling.end for ceiling in ceilings if ceiling.exhausted), default=None)


def ceiling_entries(
    trigger: str | None,
    ceilings: tuple[Ceiling, ...],
    suspended_until: int | None,
    now: int,
    zone: ZoneRules,
    *,
    before: tuple[Ceiling, ...] | None = None,
) -> Iterator[e.SpendPeriodBegun | e.TriggerSuspended | e.SuspensionEnded]:
    """What follows at ``now`` from the ceilings of a trigger, or (None) of the tenant: periods, suspensions, ends.

    A period that is over gives way to the present one only when somebody asks: after costs, to end a suspension, or
    when its ceiling is set (``before``: those that stood until then).
    """
    if before is None:
        before = ceilings
    present: list[Ceiling] = []
    for ceiling in ceilings:
        if ceiling.end <= now and (ceiling.later or ceiling.exhausted or ceiling not in before):
            start, end = period_of(ceiling.per, now, zone)
            yield e.SpendPeriodBegun(trigger=trigger, per=ceiling.per, start=start, end=end)
            present.append(begun(ceiling, start, end))
        else:
            present.append(ceiling)
    if suspended_until is not None and suspended_until <= now and _ends_with_its_period(before):
        yield e.SuspensionEnded(trigger=trigger, cause="period-over")
        suspended_until = None
    until = suspension_end(present)
    if until is None:
        if suspended_until is not None:
            yield e.SuspensionEnded(trigger=trigger, cause="raised")
    elif until != suspended_until:
        yield e.TriggerSuspended(trigger=trigger, until=until, message=_suspension_message(present, until))


def _ends_with_its_period(ceilings: Iterable[Ceiling]) -> bool:
    """Whether a suspension ended when its period did, however late somebody looks and whatever was spent since.

    Not so where an amount is 0: that one was used up again as soon as the next period began.
    """
    return all(ceiling.amount for ceiling in ceilings)


def begun(ceiling: Ceiling, start: int, end: int) -> Ceiling:
    """The ceiling in its next period, with what was spent since the last one ended."""
    return Ceiling(per=ceiling.per, amount=ceiling.amount, start=start, end=end, spent=ceiling.later)


def charged(ceilings: tuple[Ceiling, ...], cost: int, now: int) -> tuple[Ceiling, ...]:
    """The ceilings after a cost that a page of this ``now`` observes."""
    return tuple(_charged(ceiling, cost, now) for ceiling in ceilings)


def _charged(ceiling: Ceiling, cost: int, now: int) -> Ceiling:
    over = now >= ceiling.end
    return Ceiling(
        per=ceiling.per,
        amount=ceiling.amount,
        start=ceiling.start,
        end=ceiling.end,
        spent=ceiling.spent + (0 if over else cost),
        later=ceiling.later + (cost if over else 0),
    )


def _suspension_message(ceilings: list[Ceiling], until: int) -> str:
    """What the entry of a suspension says: what is used up, and when the trigger or tenant goes on."""
    used = next(ceiling for ceiling in ceilings if ceiling.exhausted and ceiling.end == until)
    return (
        f"{used.spent} of {used.amount} for this {used.per} are spent; "
        f"resumes at {format_instant(until)}, or when the ceiling is raised"
    )
