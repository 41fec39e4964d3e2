"""What control knows: the LEDGER folded, in memory, and who waits for it to move on."""

import asyncio
from array import array
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from fireledger.domain.book import Book, BrokenChain, Folded, Head
from fireledger.domain.commands import DeleteTrigger
from fireledger.domain.entries import TriggerDeleted
from fireledger.domain.page import MalformedPage, Page
from fireledger.projections.backfills import Backfills
from fireledger.projections.fires import FireRows
from fireledger.projections.lanes import Lanes
from fireledger.projections.ledger_fold import FoldedAttempts, LedgerFold

from ..errors import LogGap
from ..jetstream.leader import Stored
from ..logs import get_log

LATE_PAGES_KEPT_MAX = 100
"""Pages without effect that are remembered; each book counts all of its own."""
_log = get_log("control")


@dataclass(slots=True)
class OwnPage:
    """A page of ours on its way: what became of it, once it was read back."""

    folded: Folded | None = None
    sequence: int = 0
    stamped_at: int = 0


@dataclass(frozen=True, slots=True)
class LatePage:
    """A page without effect: whose, where in the book, and how far from its writer's bounds the broker stamped it."""

    tenant: str
    number: int
    owner: str
    stamped_at: int
    early_us: int
    late_us: int


class Model:
    """Books and fire rows up to ``position``; one sequence number a page besides, to find pages again."""

    def __init__(self) -> None:
        self.rows = FireRows()
        self.lanes = Lanes()
        self.backfills = Backfills()
        self.live = False
        """Whether the past is folded: from then on pages without effect are reported as they come."""
        self.late_pages: deque[LatePage] = deque(maxlen=LATE_PAGES_KEPT_MAX)
        """The newest pages without effect."""
        self._fold = LedgerFold(observing=False)
        self._page_sequences: dict[str, array[int]] = {}
        self._deleted_by: dict[tuple[str, str], int] = {}
        """The page that deleted a name's trigger last."""
        self._own: dict[str, OwnPage] = {}
        self._moved = asyncio.Event()
        self._attempts_heard: list[Callable[[FoldedAttempts], None]] = []

    @property
    def position(self) -> int:
        """The LEDGER sequence folded last."""
        return self._fold.position

    @property
    def books(self) -> dict[str, Book]:
        """Every book; not to be changed."""
        return self._fold.books

    def book(self, tenant: str) -> Book:
        """The tenant's book, empty if nothing was written yet."""
        return self._fold.book(tenant)

    def attempts_head(self, subject: str) -> Head:
        """The head of an attempts or reports chain."""
        return self._fold.attempts_head(subject)

    def on_attempts(self, heard: Callable[[FoldedAttempts], None]) -> None:
        """Call with each attempts and reports page as it is folded, the books as they stand at it."""
        self._attempts_heard.append(heard)

    def sequence_of(self, tenant: str, page: int) -> int | None:
        """The LEDGER sequence of a page, None when the book has no such page."""
        sequences = self._page_sequences.get(tenant)
        return sequences[page - 1] if sequences is not None and 1 <= page <= len(sequences) else None

    def deleted_since(self, tenant: str, trigger: str, page: int) -> bool:
        """Whether this page or a later one deleted the trigger; another may have its name by now."""
        return self._deleted_by.get((tenant, trigger), 0) >= page

    def apply(self, messages: Iterable[Stored]) -> None:
        """Fold the next messages of the LEDGER and wake whoever waits. Raises LogGap at the first that does not fit."""
        for stored in messages:
            try:
                folded = self._fold.apply(stored)
            except (BrokenChain, MalformedPage) as error:
                raise LogGap(
                    f"the ledger cannot be read on: {error}", hint="compare the broker's store with the copy"
                ) from error
            self.rows.apply(folded, sequence=stored.sequence, stamped_at=stored.stamped_at)
            self.lanes.apply(folded, stamped_at=stored.stamped_at)
            self.backfills.apply(folded, stamped_at=stored.stamped_at)
            if isinstance(folded, FoldedAttempts):
                for heard in self._attempts_heard:
                    heard(folded)
            else:
                self._note_page(folded, stored)
        self.wake()

    def wake(self) -> None:
        """Let whoever waits look again."""
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _note_page(self, folded: Folded, stored: Stored) -> None:
        page = folded.page
        self._page_sequences.setdefault(page.tenant, array("q")).append(stored.sequence)
        own = self._own.get(page.commit_id)
        if own is not None:
            own.folded, own.sequence, own.stamped_at = folded, stored.sequence, stored.stamped_at
        if not folded.effective:
            self._note_late(page, stored, own=own is not None)
        elif isinstance(page.command, DeleteTrigger):
            deleted = (entry for entry in page.entries if isinstance(entry, TriggerDeleted))
            self._deleted_by.update(((page.tenant, entry.trigger), page.number) for entry in deleted)

    def _note_late(self, page: Page, stored: Stored, *, own: bool) -> None:
        late = LatePage(
            tenant=page.tenant,
            number=page.number,
            owner=page.inputs.owner,
            stamped_at=stored.stamped_at,
            early_us=max(0, page.inputs.earliest - stored.stamped_at),
            late_us=max(0, stored.stamped_at - page.inputs.latest),
        )
        self.late_pages.append(late)
        if self.live:
            _log.warning(
                "page-ineffective",
                tenant=late.tenant,
                page=late.number,
                owner=late.owner,
                sequence=stored.sequence,
                early_us=late.early_us,
                late_us=late.late_us,
                own=own,
            )

    @contextmanager
    def watching(self, commit_id: str) -> Generator[OwnPage, None, None]:
        """Note what becomes of the page with this commit id, from before it is sent."""
        own = self._own.setdefault(commit_id, OwnPage())
        try:
            yield own
        finally:
            del self._own[commit_id]

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for the fold to make the condition true; whether it is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not condition():
                    await self._moved.wait()
        return condition()
