"""Fires and non-fires as rows, folded from the LEDGER: what ``fires list``, ``show`` and ``follow`` answer from.

A range of instants that did not fire is one row with its first and last instant and a count. Pages without
effect contribute nothing. Until the history has a store of its own, at most ROWS_MAX rows are kept in memory. Beyond
that the tenant that has the most lets go of those that have not changed for longest, so that a tenant with many fires
pushes out its own only; nothing is lost by that, since the log has them.
"""

from itertools import islice

from fireledger.domain import entries as e
from fireledger.domain.book import Folded
from fireledger.domain.identifiers import FireKey
from fireledger.domain.page import AttemptsPage, Page, decode_attempts, decode_page, is_effective
from fireledger.domain.state import State
from fireledger.domain.zones import ZoneLibrary

from .fire_row import FireQuery, FireRow, rules_of
from .fire_store import FireStore
from .ledger_fold import FoldedAttempts

__all__ = ["FireQuery", "FireRow", "FireRows"]

ROWS_MAX = 200_000
"""Rows kept over all tenants, about 0.7 KB each."""
_CHANGES_PER_MESSAGE = 1 << 20
"""Above the rows that one message can change, so that a mark orders changes within a message too."""


class FireRows:
    """The rows of all tenants, and in which order they changed."""

    def __init__(self, *, rows_max: int = ROWS_MAX) -> None:
        self._mark = 0
        self._store = FireStore(rows_max)
        # The state that each book had before the page that is being folded.
        self._before: dict[str, State] = {}

    def __len__(self) -> int:
        return len(self._store)

    @property
    def position(self) -> int:
        """The newest change of any row: where a follower begins that wants only what comes."""
        return self._mark

    def forgotten_through(self, tenant: str) -> int:
        """The newest change of a row of the tenant that is no longer kept; followers behind it have missed something.

        0 while every row is kept.
        """
        return self._store.forgotten_through(tenant)

    def complete_since(self, tenant: str) -> int | None:
        """Every row of the tenant scheduled at this instant or later is kept; None: every row there is."""
        return self._store.complete_since(tenant)

    def apply(self, folded: Folded | FoldedAttempts, *, sequence: int, stamped_at: int) -> None:
        """Take in the next message of the LEDGER as ``LedgerFold.apply`` returned it: each once, in order."""
        self._mark = max(self._mark, sequence * _CHANGES_PER_MESSAGE)
        if isinstance(folded, FoldedAttempts):
            self._fold_attempts(folded.page, stamped_at)
        else:
            if folded.effective:
                self._fold_page(folded.page, folded.book.state, stamped_at)
            self._before[folded.page.tenant] = folded.book.state
        self._store.shrink()

    def get(self, key: FireKey, zones: ZoneLibrary) -> FireRow | None:
        """The row of a fire, or the range that its instant is one of. Raises UnknownZoneData."""
        exact = self._store.find(key.tenant, (key.scheduled, key.trigger, key.sequence))
        if exact is not None or key.sequence:
            return exact
        ranges = self._store.ranges(key.tenant, key.trigger)
        return next((row for row in ranges if row.covers(key.scheduled, zones)), None)

    def newest(self, query: FireQuery) -> list[FireRow]:
        """The newest rows that match, newest first."""
        return list(islice(self._store.newest(query), query.limit))

    def changed_since(self, tenant: str, trigger: str | None, after: int, *, limit: int) -> list[FireRow]:
        """The oldest ``limit`` rows that changed after the mark ``after``, in the order of their last change."""
        recent: list[FireRow] = []
        for row in self._store.last_changed(tenant):
            if row.changed <= after:
                break
            if trigger is None or row.trigger == trigger:
                recent.append(row)
        recent.reverse()
        return recent[:limit]

    # Book pages

    def _fold_page(self, page: Page, state: State, stamped_at: int) -> None:
        for entry in page.entries:
            self._fold_entry(page.tenant, entry, state, stamped_at)

    def _fold_entry(self, tenant: str, entry: e.BookEntry, state: State, stamped_at: int) -> None:
        match entry:
            case e.FireReleased() if entry.decides:
                self._decided(tenant, entry, stamped_at).released = stamped_at
            case e.FireReleased():
                self._released(tenant, entry, stamped_at)
            case e.FireDecided():
                self._decided(tenant, entry, stamped_at)
            case e.FireRequested():
                self._requested(tenant, entry, stamped_at)
            case e.InstantsResolved():
                self._resolved(tenant, entry, state, stamped_at)
            case e.FireWithdrawn():
                self._withdrawn(tenant, entry)
            case e.FireHeld() | e.HeldFireReleased() | e.RetryScheduled():
                self._interrupted(tenant, entry, stamped_at)
            case e.FireFinished():
                self._finished(tenant, entry, stamped_at)
            case e.RollbackRecorded():
                self._brought_back(entry, state)
            case _:
                return

    def _decided(self, tenant: str, entry: e.FireDecided | e.FireReleased, stamped_at: int) -> FireRow:
        row = FireRow(
            tenant=tenant,
            trigger=entry.trigger,
            scheduled=entry.scheduled,
            sequence=entry.sequence,
            state="fired" if isinstance(entry, e.FireReleased) else "waiting",
            cause=entry.cause,
            version=entry.definition_page,
            decided=stamped_at,
            last=entry.scheduled,
            lane=entry.lane,
            release=entry.release,
            over_quota=entry.over_quota,
        )
        self._put(row)
        return row

    def _requested(self, tenant: str, entry: e.FireRequested, stamped_at: int) -> None:
        self._put(
            FireRow(
                tenant=tenant,
                trigger=entry.trigger,
                scheduled=entry.scheduled,
                sequence=entry.sequence,
                state="waiting",
                cause="by-hand",
                version=entry.definition_page,
                decided=stamped_at,
                last=entry.scheduled,
                lane="on-time",
                release=entry.scheduled,
            )
        )

    def _released(self, tenant: str, entry: e.FireReleased, stamped_at: int) -> None:
        row = self._find(tenant, entry)
        if row is None:
            # Its decision is older than what is kept.
            row = self._decided(tenant, entry, stamped_at)
        row.state, row.retry_at = "fired", None
        row.released = row.released or stamped_at
        if entry.attempt > 1:
            row.attempt, row.result, row.message, row.finished = entry.attempt, None, "", None
        self._put(row)

    def _resolved(self, tenant: str, entry: e.InstantsResolved, state: State, stamped_at: int) -> None:
        if entry.state == "coalesced" and entry.into == entry.first:
            self._merged(tenant, entry)
            return
        trigger = state.triggers.get(entry.trigger)
        row = FireRow(
            tenant=tenant,
            trigger=entry.trigger,
            scheduled=entry.first,
            sequence=0,
            state=entry.state,
            cause=entry.cause,
            version=trigger.definition_page if trigger else 0,
            decided=stamped_at,
            last=entry.last,
            count=entry.count,
            into=entry.into,
            rules=rules_of(self._before.get(tenant), entry.trigger, entry.last) if entry.count > 1 else None,
        )
        self._put(row)

    def _merged(self, tenant: str, entry: e.InstantsResolved) -> None:
        """An instant that new zone data moved onto a decided key: that keeps its row."""
        row = self._store.find(tenant, (entry.first, entry.trigger, 0))
        if row is not None:
            row.merged += entry.count
            self._put(row)

    def _withdrawn(self, tenant: str, entry: e.FireWithdrawn) -> None:
        row = self._find(tenant, entry)
        if row is not None:
            row.state, row.cause = entry.state, entry.cause
            self._put(row)

    def _interrupted(
        self, tenant: str, entry: e.FireHeld | e.HeldFireReleased | e.RetryScheduled, stamped_at: int
    ) -> None:
        """Between two attempts of a fire: a person, or some time, is waited for."""
        row = self._find(tenant, entry)
        if row is None:
            return
        match entry:
            case e.FireHeld():
                row.state, row.outcome, row.message, row.retry_at = "held", "held", entry.message, None
                row.finished = None
            case e.HeldFireReleased():
                row.state, row.outcome, row.retry_at, row.finished = "fired", None, stamped_at, None
            case e.RetryScheduled():
                row.retry_at, row.finished = entry.at, None
        self._put(row)

    def _finished(self, tenant: str, entry: e.FireFinished, stamped_at: int) -> None:
        row = self._find(tenant, entry)
        if row is None:
            return
        if row.finished is None or row.result is None or _ends_by_itself(row, entry):
            row.finished = stamped_at
        row.state, row.retry_at = "fired", None
        row.outcome, row.outcome_cause = entry.outcome, entry.cause
        self._put(row)

    def _brought_back(self, entry: e.RollbackRecorded, state: State) -> None:
        """A lost page counts with its original timestamp."""
        if entry.origin == "attempts":
            self._fold_attempts(decode_attempts(entry.body), entry.stamped_at)
            return
        page = decode_page(entry.body)
        if is_effective(page.inputs, entry.stamped_at):
            self._fold_page(page, state, entry.stamped_at)

    # Attempts pages

    def _fold_attempts(self, page: AttemptsPage, stamped_at: int) -> None:
        for record in page.records:
            row = self._find(record.tenant, record)
            if row is None:
                continue
            match record:
                case e.AttemptStarted():
                    _started(row, record, stamped_at)
                case e.AttemptResult() | e.AttemptReported():
                    _answered(row, record, stamped_at)
            self._put(row)

    # The rows themselves

    def _find(self, tenant: str, entry: e.FireEntry) -> FireRow | None:
        return self._store.find(tenant, (entry.scheduled, entry.trigger, entry.sequence))

    def _put(self, row: FireRow) -> None:
        """Store a row as the one that changed last."""
        self._mark += 1
        row.changed = self._mark
        self._store.put(row)


_ENDING = frozenset({"succeeded", "retryable", "final", "timeout"})
"""Results after which nothing more comes from that attempt."""
_ENDING_NO_WAIT = frozenset({"retryable", "timeout", "accepted"})
"""Results that change nothing of a fire that waits for its next attempt or for a person."""


def _ends_by_itself(row: FireRow, entry: e.FireFinished) -> bool:
    """Whether the page ends the fire, and no answer does, even if one came just before the page."""
    if entry.cause == "trigger deleted":
        return row.retry_at is not None
    return entry.cause in ("outcome window over", "cancelled")


def _started(row: FireRow, record: e.AttemptStarted, stamped_at: int) -> None:
    row.attempts = max(row.attempts, record.attempt)
    row.duplicates += record.resend
    if record.attempt == 1:
        row.dispatched = stamped_at


def _answered(row: FireRow, record: e.AttemptResult | e.AttemptReported, stamped_at: int) -> None:
    """What comes after the outcome, or of an attempt before the present one, is in the log: only its cost is added.

    The same for what is said again of an attempt that another one, or a person, is to follow.
    """
    if record.cost is not None:
        row.cost = (row.cost or 0) + record.cost
    if (row.outcome is not None and row.outcome != "held") or record.attempt < max(row.attempt, row.attempts):
        return
    if record.result in _ENDING_NO_WAIT and (row.outcome == "held" or row.retry_at is not None):
        return
    row.result, row.message = record.result, record.message
    if record.result in _ENDING:
        row.finished = stamped_at
