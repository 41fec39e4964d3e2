"""The books this scheduler owns: their rows in the due calendar, what is due in each, and which must wait.

All instants of waiting are seconds of the event loop's clock, which never steps; due instants are microseconds.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from fireledger.domain.due import AT_ONCE, due_beside_waiting, waiting_due
from fireledger.domain.entries import AttemptRecord, AttemptStarted, BookEntry, ClockNoted, Lane
from fireledger.domain.lanes import lane_ready_at
from fireledger.domain.limits import OBSERVE_WITHIN
from fireledger.domain.state import State, TriggerState
from fireledger.domain.zones import ZoneLibrary

from .calendar import DueCalendar
from .deadlines import Deadlines

OBSERVE_AFTER_S = 0.75 * OBSERVE_WITHIN / 1_000_000
"""An outcome waits this long for something else to become due; the rest of OBSERVE_WITHIN is for the commit."""

_WAITS = ""
"""The row of all that waits in a book; no trigger has this name."""
_BAD_TRIGGER = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What a trigger that cannot be decided may raise; deciding it will find out and quarantine it."""


@dataclass(slots=True)
class OwnedBook:
    """One owned book.

    ``due``: triggers whose row came up and that no page has decided since, with the row's instant. ``waiting``:
    triggers with fires that nothing but the pace of a lane holds back. These may be thousands, and each release moves
    the pace of all of them, so they have one row together.
    """

    tenant: str
    slot: int
    step_noted: int
    due: dict[str, int] = field(default_factory=dict[str, int])
    waiting: set[str] = field(default_factory=set[str])
    complete: bool = False
    ineffective_in_a_row: int = 0


class OwnedBooks:
    """All owned books. A book is a candidate while something is due in it, and may be parked until later."""

    def __init__(self) -> None:
        self.calendar = DueCalendar()
        self._waits = DueCalendar()
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
        self._waits.drop(tenant)
        self._candidates.pop(tenant, None)
        self._parked.discard(tenant)
        self._observe_by.discard(tenant)

    # Rows

    def refresh(self, book: OwnedBook, state: State, triggers: Iterable[str], zones: ZoneLibrary) -> None:
        """Set the rows of these triggers as the state has them, and whether they are among those that wait."""
        for name in triggers:
            trigger = state.triggers.get(name)
            self.calendar.set(state.tenant, name, _due_at(state, trigger, zones))
            if trigger is None or waiting_due(state, trigger) is None:
                book.waiting.discard(name)
            else:
                book.waiting.add(name)

    def rows_of(self, tenant: str, trigger: str, state: State, zones: ZoneLibrary) -> tuple[int | None, int | None]:
        """The trigger's row, and what it should be by the book's state.

        Both are None where there is nothing to compare: the trigger is being decided, or its row depends on more than
        the trigger (a retry's on its lane's pace), so that it moves with others and is set when its turn comes.
        """
        owned, found = self._books.get(tenant), state.triggers.get(trigger)
        if owned is None or not owned.complete or trigger in owned.due or not _is_plain(found):
            return None, None
        if state.ceilings or state.suspended_until is not None:
            return None, None
        return self.calendar.row(tenant, trigger), _due_at(state, found, zones)

    def await_pace(self, book: OwnedBook, state: State, *, not_before: int = 0) -> None:
        """Look at what waits again when the book's own paces let some of it go, and not before ``not_before``."""
        found = (waiting_due(state, state.triggers[name]) for name in book.waiting)
        at = min((each for each in found if each is not None), default=None)
        self._waits.set(book.tenant, _WAITS, None if at is None else max(at, not_before))

    def settle(
        self,
        book: OwnedBook,
        state: State,
        touched: Collection[str],
        zones: ZoneLibrary,
        *,
        not_before: int = 0,
        left: frozenset[str] = frozenset(),
    ) -> None:
        """An effective page was read back: rows of what it touched, and of all that was due, are made anew.

        What waits is not looked at again before ``not_before``. What the page ``left`` unlooked at stays due.
        """
        still_due = {name: at for name, at in book.due.items() if name in left and name not in touched}
        self.refresh(book, state, {*touched, *(name for name in book.due if name not in still_due)}, zones)
        self.await_pace(book, state, not_before=not_before)
        book.due = still_due
        if not still_due:
            self._candidates.pop(book.tenant, None)

    def pull(self, book: OwnedBook, until: int) -> None:
        """Take up the book's rows that are due at or before ``until``, a page's now ahead of this node's clock."""
        book.due.update(self.calendar.pop_tenant(book.tenant, until))

    def next_at(self) -> int | None:
        """The earliest due instant of all books, or None when nothing is to come."""
        rows = [at for at in (self.calendar.next_at(), self._waits.next_at()) if at is not None]
        return min(rows, default=None)

    # Candidates

    def collect(self, earliest: int, now_s: float) -> None:
        """Take up all rows due at ``earliest``, and the books whose outcomes have waited long enough."""
        for at, tenant, trigger in self.calendar.pop_due(earliest):
            self._books[tenant].due[trigger] = at
            self._candidates[tenant] = None
        self._candidates.update(dict.fromkeys(tenant for _, tenant, _ in self._waits.pop_due(earliest)))
        self._candidates.update(dict.fromkeys(self._observe_by.pop_due(now_s)))
        for _ in self._parked.pop_due(now_s):
            pass

    def candidates(self, now_s: float) -> Iterator[OwnedBook]:
        """Yield the books in which something is due and that need not wait: those with the least due first."""
        for tenant in sorted(self._candidates, key=self._due_count):
            book = self._books.get(tenant)
            if book is None or not book.complete:
                continue
            parked_until_s = self._parked.get(tenant)
            if parked_until_s is None or parked_until_s <= now_s:
                yield book

    def _due_count(self, tenant: str) -> int:
        book = self._books.get(tenant)
        return 0 if book is None else len(book.due)

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


def _due_at(state: State, trigger: TriggerState | None, zones: ZoneLibrary) -> int | None:
    """When something beside waiting fires is due in the trigger."""
    if trigger is None:
        return None
    try:
        return due_beside_waiting(state, trigger, zones)
    except _BAD_TRIGGER:
        return AT_ONCE


def first_due(book: OwnedBook, state: State, limit: int) -> frozenset[str]:
    """The due triggers that a page which looks at ``limit`` of them may look at.

    The order is that of the decision (``domain.tick``): by the row's instant, then by name. Triggers whose row depends
    on more than themselves are all among them, and so is everything while a ceiling of the tenant may change all rows.
    """
    if len(book.due) <= limit or state.ceilings or state.suspended_until is not None:
        return frozenset(book.due)
    plain = [(at, name) for name, at in book.due.items() if _is_plain(state.triggers.get(name))]
    if len(plain) <= limit:
        return frozenset(book.due)
    later = {name for _, name in sorted(plain)[limit:]}
    return frozenset(name for name in book.due if name not in later)


def _is_plain(trigger: TriggerState | None) -> bool:
    """Whether nothing but the trigger's own schedule and outcome windows decides when it is due."""
    return trigger is not None and not (
        trigger.waiting
        or trigger.ceilings
        or trigger.suspended_until is not None
        or trigger.backfill is not None
        or any(fire.retry_at is not None for fire in trigger.open)
    )


def paced_lanes(book: OwnedBook, state: State, now: int) -> frozenset[Lane]:
    """The paced lanes of which a fire waits that the book's own paces let go at ``now``."""
    found = set[Lane]()
    for name in book.waiting:
        trigger = state.triggers[name]
        lanes: set[Lane] = {fire.lane for fire in trigger.waiting}
        for lane in lanes - found:
            if lane != "on-time" and lane_ready_at(state, trigger, lane) <= now:
                found.add(lane)
    return frozenset(found)


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
