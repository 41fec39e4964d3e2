"""The books this scheduler owns: their rows in the due calendar, what is due in each, and which must wait.

All instants of waiting are seconds of the event loop's clock, which never steps; due instants are microseconds.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fireledger.domain.due import AT_ONCE, next_due
from fireledger.domain.entries import AttemptRecord, AttemptStarted, BookEntry, ClockNoted
from fireledger.domain.limits import OBSERVE_WITHIN
from fireledger.domain.state import State
from fireledger.domain.zones import ZoneLibrary

from .calendar import DueCalendar
from .deadlines import Deadlines

OBSERVE_AFTER_S = 0.75 * OBSERVE_WITHIN / 1_000_000
"""An outcome waits this long for something else to become due; the rest of OBSERVE_WITHIN is for the commit."""

_BAD_TRIGGER = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What a trigger that cannot be decided may raise; deciding it will find out and quarantine it."""


@dataclass(slots=True)
class OwnedBook:
    """One owned book. ``due``: triggers whose row came up and that no page has decided since."""

    tenant: str
    slot: int
    step_noted: int
    due: set[str] = field(default_factory=set[str])
    complete: bool = False
    ineffective_in_a_row: int = 0


class OwnedBooks:
    """All owned books. A book is a candidate while something is due in it, and may be parked until later."""

    def __init__(self) -> None:
        self.calendar = DueCalendar()
        self._books: dict[str, OwnedBook] = {}
        self._candidates: dict[str, None] = {}
        self._parked = Deadlines()
        self._observe_by = Deadlines()

    def __len__(self) -> int:
        """How many books are owned."""
        return len(self._books)

    def get(self, tenant: str) -> OwnedBook | None:
        """The book, if it is owned."""
        return self._books.get(tenant)

    def tenants(self) -> tuple[str, ...]:
        """The tenants of all owned books."""
        return tuple(self._books)

    def adopt(self, book: OwnedBook) -> None:
        """Own a book. It is left alone until its rows are there and ``complete`` is set."""
        self._books[book.tenant] = book

    def drop(self, tenant: str) -> None:
        """Own the book no longer."""
        self._books.pop(tenant, None)
        self.calendar.drop(tenant)
        self._candidates.pop(tenant, None)
        self._parked.discard(tenant)
        self._observe_by.discard(tenant)

    # Rows

    def refresh(self, state: State, triggers: Iterable[str], zones: ZoneLibrary) -> None:
        """Set the rows of these triggers as the state has them."""
        for name in triggers:
            self.calendar.set(state.tenant, name, _due_at(state, name, zones))

    def settle(self, book: OwnedBook, state: State, touched: Iterable[str], zones: ZoneLibrary) -> None:
        """An effective page was read back: rows of what it touched, and of all that was due, are made anew."""
        self.refresh(state, {*touched, *book.due}, zones)
        book.due.clear()
        self._candidates.pop(book.tenant, None)

    def pull(self, book: OwnedBook, until: int) -> None:
        """Take up the book's rows that are due at or before ``until``, a page's now ahead of this node's clock."""
        book.due.update(self.calendar.pop_tenant(book.tenant, until))

    # Candidates

    def collect(self, earliest: int, now_s: float) -> None:
        """Take up all rows due at ``earliest``, and the books whose outcomes have waited long enough."""
        for tenant, trigger in self.calendar.pop_due(earliest):
            self._books[tenant].due.add(trigger)
            self._candidates[tenant] = None
        self._candidates.update(dict.fromkeys(self._observe_by.pop_due(now_s)))
        for _ in self._parked.pop_due(now_s):
            pass

    def candidates(self, now_s: float) -> Iterator[OwnedBook]:
        """Yield the books in which something is due and that need not wait; longest due first."""
        for tenant in tuple(self._candidates):
            book = self._books.get(tenant)
            if book is None or not book.complete:
                continue
            parked_until_s = self._parked.get(tenant)
            if parked_until_s is None or parked_until_s <= now_s:
                yield book

    def park(self, tenant: str, until_s: float) -> None:
        """Leave the book alone until then, or until it is unparked."""
        self._parked.set(tenant, until_s)

    def unpark(self, tenant: str) -> None:
        """The book may be decided at once."""
        self._parked.discard(tenant)

    # Observations

    def observe_by(self, tenant: str, at_s: float) -> None:
        """Outcomes of the book wait to be observed: give it a page by then, unless it is due for one earlier."""
        earlier = self._observe_by.get(tenant)
        if tenant not in self._candidates and (earlier is None or at_s < earlier):
            self._observe_by.set(tenant, at_s)

    def observed(self, tenant: str) -> None:
        """Nothing waits to be observed any more."""
        self._observe_by.discard(tenant)

    def next_s(self) -> float | None:
        """When, on the loop's clock, a parked book may go on or an outcome has waited long enough."""
        waits = [at for at in (self._parked.next_s(), self._observe_by.next_s()) if at is not None]
        return min(waits, default=None)


def _due_at(state: State, name: str, zones: ZoneLibrary) -> int | None:
    trigger = state.triggers.get(name)
    if trigger is None:
        return None
    try:
        return next_due(state, trigger, zones)
    except _BAD_TRIGGER:
        return AT_ONCE


def is_awaited(record: AttemptRecord, state: State) -> bool:
    """Whether an attempt's record may let other fires of its trigger go: an outcome for which some wait."""
    trigger = None if isinstance(record, AttemptStarted) else state.triggers.get(record.trigger)
    return trigger is not None and bool(trigger.waiting)


def touched(entries: tuple[BookEntry, ...], state: State) -> set[str]:
    """The triggers whose rows a page's entries may have changed."""
    names: set[str] = set()
    for entry in entries:
        if isinstance(entry, ClockNoted):
            continue
        name = getattr(entry, "trigger", None)
        if name is None:
            # About the tenant, its zone data or the whole book: any row may have moved.
            return set(state.triggers)
        names.add(name)
    return names
