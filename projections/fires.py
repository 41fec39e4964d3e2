"""Fires and non-fires as rows, folded from the LEDGER: what ``fires list``, ``show`` and ``follow`` answer from.

A range of instants that did not fire is one row with its first and last instant and a count. Pages without
effect contribute nothing. Until the history has a store of its own, the ROWS_MAX most recently changed rows are kept
in memory and older ones are forgotten; nothing is lost by that, since the log has them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest

from fireledger.domain import entries as e
from fireledger.domain.book import Folded
from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import MILLISECOND, Instant
from fireledger.domain.page import AttemptsPage, Page, decode_attempts, decode_page, is_effective
from fireledger.domain.state import State

from .ledger_fold import FoldedAttempts

ROWS_MAX = 200_000
"""Rows kept over all tenants, about 0.7 KB each."""
_CHANGES_PER_MESSAGE = 1 << 20
"""Above the rows that one message can change, so that a mark orders changes within a message too."""

Identity = tuple[str, int, int]
"""Trigger, scheduled instant and sequence: a row's name within its tenant."""


@dataclass(slots=True)
class FireRow:
    """One fire, or one run of instants that did not fire. Instants in microseconds since the epoch.

    ``decided`` and ``released`` are the broker's timestamps of the pages that say so, ``dispatched`` that of the last
    ``started`` record of the first attempt, ``finished`` that of the result, or of the page that closed the outcome
    window. ``state`` is ``decided`` (not released yet), ``fired`` or why it did not fire; ``outcome`` is None until the
    book has one, while ``result`` is what the last attempt gave. ``merged`` counts the local times that new time-zone
    data moved onto this instant after its decision. ``changed`` orders all changes of all rows.
    """

    tenant: str
    trigger: str
    scheduled: int
    sequence: int
    state: str
    cause: str
    version: int
    decided: int
    last: int
    count: int = 1
    lane: str | None = None
    release: int | None = None
    released: int | None = None
    dispatched: int | None = None
    finished: int | None = None
    attempts: int = 0
    duplicates: int = 0
    result: str | None = None
    outcome: str | None = None
    outcome_cause: str | None = None
    message: str = ""
    into: int | None = None
    over_quota: bool = False
    merged: int = 0
    changed: int = 0

    @property
    def identity(self) -> Identity:
        """The row's name within its tenant."""
        return (self.trigger, self.scheduled, self.sequence)

    @property
    def key(self) -> FireKey:
        """The fire's key; of a range, that of its first instant."""
        return FireKey(self.tenant, self.trigger, Instant(self.scheduled), self.sequence)

    @property
    def lateness_ms(self) -> float | None:
        """Milliseconds from the scheduled instant to the dispatch."""
        return None if self.dispatched is None else (self.dispatched - self.scheduled) / MILLISECOND

    @property
    def delay_ms(self) -> float | None:
        """Milliseconds from the release to the dispatch."""
        if self.dispatched is None or self.release is None:
            return None
        return (self.dispatched - self.release) / MILLISECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class FireQuery:
    """Which rows: of a tenant, of one trigger or of all, scheduled in [since, until), newest first.

    ``before`` goes on where an earlier answer ended: rows strictly older than (scheduled, trigger, sequence).
    """

    tenant: str
    trigger: str | None = None
    since: int | None = None
    until: int | None = None
    before: tuple[int, str, int] | None = None
    limit: int

    def matches(self, row: FireRow) -> bool:
        """Whether the row is one of them; a range is if any part of it is."""
        return (
            (self.trigger is None or row.trigger == self.trigger)
            and (self.since is None or row.last >= self.since)
            and (self.until is None or row.scheduled < self.until)
            and (self.before is None or _order(row) < self.before)
        )


def _order(row: FireRow) -> tuple[int, str, int]:
    return (row.scheduled, row.trigger, row.sequence)


class FireRows:
    """The rows of all tenants, and in which order they changed."""

    def __init__(self, *, rows_max: int = ROWS_MAX) -> None:
        self.forgotten_through = 0
        """The newest change of a row that is no longer kept; followers behind it have missed something."""
        self._rows_max = rows_max
        self._mark = 0
        # Both in the order of the last change, oldest first.
        self._all: dict[tuple[str, Identity], FireRow] = {}
        self._tenants: dict[str, dict[Identity, FireRow]] = {}

    def __len__(self) -> int:
        return len(self._all)

    @property
    def position(self) -> int:
        """The newest change of any row: where a follower begins that wants only what comes."""
        return self._mark

    def apply(self, folded: Folded | FoldedAttempts, *, sequence: int, stamped_at: int) -> None:
        """Take in the next message of the LEDGER as ``LedgerFold.apply`` returned it: each once, in order."""
        self._mark = max(self._mark, sequence * _CHANGES_PER_MESSAGE)
        if isinstance(folded, FoldedAttempts):
            self._fold_attempts(folded.page, stamped_at)
        elif folded.effective:
            self._fold_page(folded.page, folded.book.state, stamped_at)
        self._forget_oldest()

    def get(self, key: FireKey) -> FireRow | None:
        """The row of a fire, or the range that its instant lies in."""
        rows = self._tenants.get(key.tenant, {})
        exact = rows.get((key.trigger, key.scheduled, key.sequence))
        if exact is not None or key.sequence:
            return exact
        ranges = (row for row in rows.values() if row.count > 1 and row.trigger == key.trigger)
        return next((row for row in ranges if row.scheduled <= key.scheduled <= row.last), None)

    def newest(self, query: FireQuery) -> list[FireRow]:
        """The newest rows that match, newest first."""
        rows = self._tenants.get(query.tenant, {}).values()
        return nlargest(query.limit, (row for row in rows if query.matches(row)), key=_order)

    def changed_since(self, tenant: str, trigger: str | None, after: int, *, limit: int) -> list[FireRow]:
        """The oldest ``limit`` rows that changed after the mark ``after``, in the order of their last change."""
        recent: list[FireRow] = []
        for row in reversed(self._tenants.get(tenant, {}).values()):
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
            case e.InstantsResolved():
                self._resolved(tenant, entry, state, stamped_at)
            case e.FireWithdrawn():
                self._withdrawn(tenant, entry)
            case e.FireHeld():
                self._held(tenant, entry)
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
            state="fired" if isinstance(entry, e.FireReleased) else "decided",
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

    def _released(self, tenant: str, entry: e.FireReleased, stamped_at: int) -> None:
        row = self._find(tenant, entry)
        if row is None:
            # Its decision is older than what is kept.
            row = self._decided(tenant, entry, stamped_at)
        row.state = "fired"
        row.released = row.released or stamped_at
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
        )
        self._put(row)

    def _merged(self, tenant: str, entry: e.InstantsResolved) -> None:
        """An instant that new zone data moved onto a decided key: that keeps its row."""
        row = self._tenants.get(tenant, {}).get((entry.trigger, entry.first, 0))
        if row is not None:
            row.merged += entry.count
            self._put(row)

    def _withdrawn(self, tenant: str, entry: e.FireWithdrawn) -> None:
        row = self._find(tenant, entry)
        if row is not None:
            row.state, row.cause = entry.state, entry.cause
            self._put(row)

    def _held(self, tenant: str, entry: e.FireHeld) -> None:
        row = self._find(tenant, entry)
        if row is not None:
            row.outcome, row.message = "held", entry.message
            self._put(row)

    def _finished(self, tenant: str, entry: e.FireFinished, stamped_at: int) -> None:
        row = self._find(tenant, entry)
        if row is None:
            return
        row.outcome, row.outcome_cause = entry.outcome, entry.cause
        if row.finished is None or row.result is None:
            row.finished = stamped_at
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
        return self._tenants.get(tenant, {}).get((entry.trigger, entry.scheduled, entry.sequence))

    def _put(self, row: FireRow) -> None:
        """Store a row as the one that changed last."""
        self._mark += 1
        row.changed = self._mark
        rows = self._tenants.setdefault(row.tenant, {})
        rows.pop(row.identity, None)
        rows[row.identity] = row
        name = (row.tenant, row.identity)
        self._all.pop(name, None)
        self._all[name] = row

    def _forget_oldest(self) -> None:
        for tenant, identity in self._excess():
            row = self._all.pop((tenant, identity))
            self.forgotten_through = row.changed
            rows = self._tenants[tenant]
            del rows[identity]
            if not rows:
                del self._tenants[tenant]

    def _excess(self) -> Iterator[tuple[str, Identity]]:
        excess = len(self._all) - self._rows_max
        oldest = iter(self._all)
        yield from [next(oldest) for _ in range(excess)]


_ENDING = frozenset({"succeeded", "retryable", "final", "timeout"})
"""Results after which nothing more comes from that attempt."""


def _started(row: FireRow, record: e.AttemptStarted, stamped_at: int) -> None:
    row.attempts = max(row.attempts, record.attempt)
    row.duplicates += record.resend
    if record.attempt == 1:
        row.dispatched = stamped_at


def _answered(row: FireRow, record: e.AttemptResult | e.AttemptReported, stamped_at: int) -> None:
    """What comes after the outcome is in the log, and changes nothing here."""
    if row.outcome is not None and row.outcome != "held":
        return
    row.result, row.message = record.result, record.message
    if record.result in _ENDING:
        row.finished = stamped_at
