"""The audit of the due calendar: row after row is made anew from the log and compared with the one that is kept.

A row is lost or wrong by a defect only. It is reported, loudly and for as long as the process lives; and it is made
anew, since a schedule must not end with its row.
"""

from collections.abc import Iterator
from itertools import islice

from fireledger.projections.ledger_fold import LedgerFold

from ..logs import get_log
from .books import OwnedBooks
from .zone_watch import ZoneWatch

AUDIT_PERIOD_S = 60.0
"""How soon every row is looked at again, unless there are more than ROWS_PER_SECOND_MAX allow."""
ROWS_PER_SECOND_MAX = 500
"""One costs about 6 us on the machine of docs/performance.md, so this is a third of a hundredth of a core."""
ROWS_AT_ONCE_MAX = 100
"""Rows that one round looks at."""
_log = get_log("scheduler")


class RowAudit:
    """Walks over all rows of a scheduler's books. Seconds are those of the event loop."""

    def __init__(self, books: OwnedBooks, fold: LedgerFold, zones: ZoneWatch) -> None:
        self.diverged_count = 0
        """Rows that differed from the log since the process began."""
        self._books = books
        self._fold = fold
        self._zones = zones
        self._left: Iterator[tuple[str, str]] = iter(())
        self._begins_at_s = 0.0
        self._looked_at_s = 0.0

    def go_on(self, now_s: float) -> None:
        """Look at the next rows; an overdue one that was lost is due from here on."""
        room = min(ROWS_AT_ONCE_MAX, int((now_s - self._looked_at_s) * ROWS_PER_SECOND_MAX))
        if room <= 0:
            return
        self._looked_at_s = now_s
        looked_at = 0
        for tenant, trigger in islice(self._left, room):
            looked_at += 1
            self._look(tenant, trigger)
        if looked_at < room and now_s >= self._begins_at_s:
            self._begins_at_s = now_s + AUDIT_PERIOD_S
            self._left = self._all()

    def _all(self) -> Iterator[tuple[str, str]]:
        for tenant in self._books.tenants():
            for trigger in tuple(self._fold.book(tenant).state.triggers):
                yield tenant, trigger

    def _look(self, tenant: str, trigger: str) -> None:
        state = self._fold.book(tenant).state
        kept, right = self._books.rows_of(tenant, trigger, state, self._zones.library)
        if kept != right:
            self.diverged_count += 1
            _log.error("due-row-diverged", tenant=tenant, trigger=trigger, row=kept, right=right)
            self._books.calendar.set(tenant, trigger, right)
