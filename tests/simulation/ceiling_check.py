"""Entries about spend ceilings held against what was spent."""

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.page import Page
from tests.simulation.book_model import BookModel
from tests.simulation.invariants import require
from tests.simulation.spending import Spending

CeilingEntry = e.CeilingSet | e.SpendPeriodBegun | e.TriggerSuspended | e.SuspensionEnded


def ceiling_entry(book: BookModel, entry: CeilingEntry, page: Page) -> None:
    """Check and note an entry. Raises Violation."""
    now = page.inputs.now
    match entry:
        case e.CeilingSet():
            _set(book, entry)
        case e.SpendPeriodBegun():
            spending = book.spending[entry.trigger, entry.per]
            found = (entry.start, entry.end)
            wanted = book.period(entry.trigger, entry.per, now)
            require(found == wanted, "ceiling", f"{_name(book, entry.trigger)}: period {found}, not {wanted}")
            require(spending.end <= now, "ceiling", f"{_name(book, entry.trigger)}: the period is not over at {now}")
            spending.begin(*found)
        case e.TriggerSuspended():
            _suspended(book, entry, page)
        case e.SuspensionEnded():
            _ended(book, entry, page)


def checked_ceilings(book: BookModel, owner: str | None, now: int) -> None:
    """After a tick that looked at it: suspended exactly while something is used up. Raises Violation."""
    name = _name(book, owner)
    for per, spending in book.spends(owner):
        stale = spending.end <= now and (spending.later > 0 or spending.exhausted)
        require(not stale, "ceiling", f"{name}: the {per} is over and none follows")
    until, found = used_up(book, owner, now), book.suspended(owner)
    require(until == found, "suspension-exact", f"{name} is suspended until {found}, used up until {until}")


def used_up(book: BookModel, owner: str | None, now: int) -> int | None:
    """Until when a ceiling of the owner is used up; None: none is."""
    return max((each.end for _, each in book.spends(owner) if each.exhausted and each.end > now), default=None)


def _used_up_by_nothing(book: BookModel, owner: str | None, page: Page) -> bool:
    """Whether a ceiling of the owner had an amount of 0 before this page: such a one suspends period after period."""
    before: dict[e.Period, int | None] = {per: spending.amount for per, spending in book.spends(owner)}
    for entry in page.entries:
        if isinstance(entry, e.CeilingSet) and entry.trigger == owner:
            before[entry.per] = entry.before
    return 0 in before.values()


def _name(book: BookModel, owner: str | None) -> str:
    return f"tenant {book.tenant}" if owner is None else f"{book.tenant}/{owner}"


def _set(book: BookModel, entry: e.CeilingSet) -> None:
    name = (entry.trigger, entry.per)
    known = book.spending.get(name)
    before = None if known is None else known.amount
    require(before == entry.before, "ceiling", f"{_name(book, entry.trigger)}: {entry}, it was {before}")
    if entry.amount is None:
        del book.spending[name]
    elif known is None:
        book.spending[name] = Spending(entry.amount)
    else:
        known.amount = entry.amount


def _suspended(book: BookModel, entry: e.TriggerSuspended, page: Page) -> None:
    now = page.inputs.now
    until, before = used_up(book, entry.trigger, now), book.suspended(entry.trigger)
    name = _name(book, entry.trigger)
    require(entry.until == until, "suspension-exact", f"{name}: {entry}, used up until {until}")
    over = before is not None and before <= now and not _used_up_by_nothing(book, entry.trigger, page)
    require(not over, "suspension-exact", f"{name}: {entry}, the last one was over at {before}")
    if entry.trigger is None:
        if before is None:
            decided = [
                span.after if span.decided is None else span.decided.at
                for trigger in book.triggers.values()
                for span in trigger.spans
            ]
            # Only new zone data could move something into the earlier ones.
            kept = [each for each in book.suspensions if each[1] is None or (decided and each[1] > min(decided))]
            book.suspensions[:] = [*kept, (now, None, "suspended")]
        book.suspended_until = entry.until
        return
    trigger = book.triggers[entry.trigger]
    if before is None:
        trigger.pauses.append((now, None, "suspended"))
    trigger.suspended_until = entry.until


def _ended(book: BookModel, entry: e.SuspensionEnded, page: Page) -> None:
    now, name = page.inputs.now, _name(book, entry.trigger)
    until, left = book.suspended(entry.trigger), used_up(book, entry.trigger, page.inputs.now)
    require(until is not None, "suspension-exact", f"{name} goes on and was not suspended")
    assert until is not None
    over = now >= until and not _used_up_by_nothing(book, entry.trigger, page)
    # What was used up after the period's end suspends anew, by an entry that follows.
    require(over or left is None, "suspension-exact", f"{name} goes on, used up until {left}")
    raised = isinstance(page.command, c.SetCeiling)
    require(raised or over, "suspension-exact", f"{name} goes on at {now}, before {until}")
    require(entry.cause == ("period-over" if over else "raised"), "suspension-exact", f"{name}: {entry}")
    end = until - 1 if over else now
    stretches = book.suspensions if entry.trigger is None else book.triggers[entry.trigger].pauses
    stretches[:] = [
        (begun, max(begun, end), kind) if over is None and kind == "suspended" else (begun, over, kind)
        for begun, over, kind in stretches
    ]
    if entry.trigger is None:
        book.suspended_until = None
    else:
        book.triggers[entry.trigger].suspended_until = None
