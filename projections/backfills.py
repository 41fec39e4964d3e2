"""The last backfill of each trigger: what became of its fires so far.

Folded from the LEDGER, message after message. Kept are one row for each trigger that had a backfill, and the names of
its fires without an outcome. A page without effect contributes nothing.
"""

from dataclasses import dataclass, field

from fireledger.domain import entries as e
from fireledger.domain.book import Folded
from fireledger.domain.commands import StartBackfill
from fireledger.domain.page import Page, decode_page, is_effective

from .ledger_fold import FoldedAttempts


@dataclass(slots=True)
class BackfillRow:
    """A backfill of the instants in [start, end). Instants in microseconds since the epoch.

    ``began`` and ``ended`` are the broker's timestamps of the pages that say so; ``ended`` and ``cause`` are None while
    it goes on. ``decided``, ``released`` and ``cancelled`` count fires, ``outcomes`` those that ended, by outcome.
    Fires that were released may still be open after its end. ``page`` is the one that began it, ``by`` who asked.
    """

    page: int
    label: str
    start: int
    end: int
    only_missing: bool
    rate_per_second: int
    by: str
    began: int
    ended: int | None = None
    cause: str | None = None
    decided: int = 0
    released: int = 0
    cancelled: int = 0
    outcomes: dict[str, int] = field(default_factory=dict[str, int])
    fires: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Scheduled instant and sequence of those without an outcome."""


class Backfills:
    """The last backfill of each trigger of all tenants."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], BackfillRow] = {}

    def get(self, tenant: str, trigger: str) -> BackfillRow | None:
        """The trigger's last backfill, None if it had none; not to be changed."""
        return self._rows.get((tenant, trigger))

    def apply(self, folded: Folded | FoldedAttempts, *, stamped_at: int) -> None:
        """Take in the next message of the LEDGER as ``LedgerFold.apply`` returned it: each once, in order."""
        if not isinstance(folded, FoldedAttempts) and folded.effective:
            self._fold_page(folded.page, stamped_at)

    def _fold_page(self, page: Page, stamped_at: int) -> None:
        for entry in page.entries:
            match entry:
                case e.FireDecided() | e.FireReleased() | e.FireWithdrawn() | e.FireFinished():
                    row = self._rows.get((page.tenant, entry.trigger))
                    if row is not None:
                        _fold_fire(row, entry)
                case e.BackfillStarted():
                    self._rows[page.tenant, entry.trigger] = _begun(page, entry, stamped_at)
                case e.BackfillEnded():
                    row = self._rows.get((page.tenant, entry.trigger))
                    if row is not None:
                        row.ended, row.cause = stamped_at, entry.cause
                case e.TriggerDeleted():
                    self._rows.pop((page.tenant, entry.trigger), None)
                case e.RollbackRecorded() if entry.origin == "book":
                    self._brought_back(entry)
                case _:
                    pass

    def _brought_back(self, entry: e.RollbackRecorded) -> None:
        """A lost page counts with its original timestamp."""
        page = decode_page(entry.body)
        if is_effective(page.inputs, entry.stamped_at):
            self._fold_page(page, entry.stamped_at)


def _begun(page: Page, entry: e.BackfillStarted, stamped_at: int) -> BackfillRow:
    assert isinstance(page.command, StartBackfill), "it begins by a command"
    return BackfillRow(
        page=page.number,
        label=entry.backfill,
        start=entry.start,
        end=entry.end,
        only_missing=entry.only_missing,
        rate_per_second=entry.rate_per_second,
        by=page.command.by,
        began=stamped_at,
    )


def _fold_fire(row: BackfillRow, entry: e.FireDecided | e.FireReleased | e.FireWithdrawn | e.FireFinished) -> None:
    name = (entry.scheduled, entry.sequence)
    if isinstance(entry, e.FireDecided | e.FireReleased) and entry.cause == "backfilled":
        # A decision after the end, or before the beginning, is of another backfill.
        if row.ended is None and (isinstance(entry, e.FireDecided) or entry.decides):
            row.decided += 1
            row.fires.add(name)
        if isinstance(entry, e.FireReleased) and entry.attempt == 1 and name in row.fires:
            row.released += 1
    elif name in row.fires and isinstance(entry, e.FireWithdrawn):
        row.fires.discard(name)
        row.cancelled += 1
    elif name in row.fires and isinstance(entry, e.FireFinished):
        row.fires.discard(name)
        row.outcomes[entry.outcome] = row.outcomes.get(entry.outcome, 0) + 1
