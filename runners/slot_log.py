"""Writing the records of slots: packed into chained pages, one page in flight per slot.

A page's append decides everything. What a page that lost held is judged again once the winner's page is read: what
is still wanted goes into the next one. The chain's head is always the one read back from the log.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from fireledger.domain.book import Head
from fireledger.domain.entries import AttemptRecord
from fireledger.domain.limits import ATTEMPTS_PAGE_RECORDS_MAX
from fireledger.domain.page import AttemptsPage, PageTooLarge, encode_attempts
from fireledger.projections.ledger_fold import FoldedAttempts

from .clock import Clock
from .errors import BrokerUnavailable
from .identity import new_commit_id
from .jetstream.ledger import Append, Committed, Lost
from .lifecycle import pause
from .logs import get_log

UNKNOWN_PAUSE_S = 0.2
"""Between two rounds of learning what became of pages; each round resends for a long time itself."""
_log = get_log("slot-log")


class Appender(Protocol):
    """The part of the ledger that is used here."""

    async def append_many(self, appends: Sequence[Append]) -> list[Committed | Lost]:
        """Append messages on different subjects."""
        ...


class Waiting(Protocol):
    """Something to be written. Of two that wait, the one with the lower ``rank`` (from 0) goes first."""

    @property
    def rank(self) -> int:
        """Its place among what waits."""
        ...

    @property
    def record(self) -> AttemptRecord:
        """What is written."""
        ...


_W = TypeVar("_W", bound=Waiting)
_Judged_contra = TypeVar("_Judged_contra", bound=Waiting, contravariant=True)


class Desk(Protocol[_Judged_contra]):
    """Whose records are written: says what is still wanted, and hears what is not written."""

    def judge(self, slot: int) -> Callable[[_Judged_contra], bool]:
        """What tells which of a slot's records are to be written, as things stand now."""
        ...

    def epoch_of(self, slot: int) -> int:
        """The lease epoch that a page of the slot names."""
        ...

    def given_back(self, waiting: _Judged_contra) -> None:
        """It is not wanted any more and was not written."""
        ...

    def lost(self) -> None:
        """Another's page holds the place that one of ours was meant for."""
        ...


@dataclass(slots=True)
class Flight(Generic[_W]):
    """A page that was sent, until its outcome is known and read back. ``sent_at`` in monotonic seconds."""

    append: Append
    sent_at: float
    records: list[_W]
    outcome: Committed | Lost | None = None
    read_back: bool = False


@dataclass(slots=True)
class _Outbox(Generic[_W]):
    ranks: dict[int, deque[_W]] = field(default_factory=dict[int, deque[_W]])
    flight: Flight[_W] | None = None

    @property
    def idle(self) -> bool:
        return not (self.ranks or self.flight)

    def put(self, waiting: _W) -> None:
        self.ranks.setdefault(waiting.rank, deque()).append(waiting)

    def put_back(self, records: Sequence[_W]) -> None:
        """To the front, in this order."""
        for waiting in reversed(records):
            self.ranks.setdefault(waiting.rank, deque()).appendleft(waiting)

    def take(self) -> _W | None:
        """The first of the lowest rank."""
        if not self.ranks:
            return None
        rank = min(self.ranks)
        found = self.ranks[rank].popleft()
        if not self.ranks[rank]:
            del self.ranks[rank]
        return found


class SlotLog(Generic[_W]):
    """The writer of the pages of all slots under one first subject token, such as ``attempts``.

    The one who adds bounds what waits.
    """

    def __init__(
        self,
        token: str,
        *,
        desk: Desk[_W],
        ledger: Appender,
        head: Callable[[str], Head],
        runner_id: str,
        clock: Clock,
    ) -> None:
        """``head`` gives a subject's head as read from the log."""
        self._token = token
        self._desk = desk
        self._ledger = ledger
        self._head = head
        self._runner_id = runner_id
        self._clock = clock
        self._outboxes: dict[int, _Outbox[_W]] = {}
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._appending: set[asyncio.Task[None]] = set()

    def add(self, slot: int, waiting: _W) -> None:
        """Queue a record; it is read back, or given back."""
        self._outbox(slot).put(waiting)
        self._wake.set()

    def wake(self) -> None:
        """Look again at what can be written: pages were read, or things changed that the desk judges by."""
        self._wake.set()

    def reconsider(self) -> None:
        """Give back at once what waits and is not wanted any more."""
        for slot, outbox in list(self._outboxes.items()):
            wanted = self._desk.judge(slot)
            waiting = list(_drained(outbox))
            outbox.put_back([each for each in waiting if wanted(each)])
            for each in waiting:
                if not wanted(each):
                    self._desk.given_back(each)
        self._wake.set()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is in flight."""
        return not self._outboxes

    def abandon(self) -> None:
        """Stop sending. What is in flight may be written or not; the log tells whoever reads it."""
        for appending in self._appending:
            appending.cancel()

    async def flushed(self) -> None:
        """Wait until ``idle``."""
        while self._outboxes:
            self._changed.clear()
            await self._changed.wait()

    def read_back(self, folded: FoldedAttempts) -> Flight[_W] | None:
        """Note a page that was read, which the head shows already; what it held, if it is our own."""
        outbox = self._outboxes.get(folded.page.slot)
        flight = outbox.flight if outbox is not None else None
        if flight is None or flight.append.subject != folded.subject:
            return None
        if flight.append.commit_id != folded.page.commit_id:
            self._wake.set()
            return None
        flight.read_back = True
        self._land(folded.page.slot)
        return flight

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Write pages until cancelled; appends run in ``group``."""
        while True:
            await self._wake.wait()
            # What the same turn of the loop makes ready shares the page, and the batch.
            self._wake.clear()
            slots = [slot for slot, outbox in self._outboxes.items() if outbox.flight is None or self._lost(outbox)]
            for slot in slots:
                self._land(slot)
            flights = [flight for slot in slots if (flight := self._take_off(slot)) is not None]
            if flights:
                appending = group.create_task(self._append(flights))
                self._appending.add(appending)
                appending.add_done_callback(self._appending.discard)

    # Sending

    def _outbox(self, slot: int) -> _Outbox[_W]:
        return self._outboxes.setdefault(slot, _Outbox())

    def _take_off(self, slot: int) -> Flight[_W] | None:
        outbox = self._outboxes.get(slot)
        if outbox is None or outbox.flight is not None:
            return None
        records = self._next_records(slot, outbox)
        if records:
            outbox.flight = self._packed(slot, records, outbox)
        else:
            self._tidy(slot)
        return outbox.flight

    def _next_records(self, slot: int, outbox: _Outbox[_W]) -> list[_W]:
        wanted = self._desk.judge(slot)
        chosen: list[_W] = []
        while len(chosen) < ATTEMPTS_PAGE_RECORDS_MAX and (waiting := outbox.take()) is not None:
            if wanted(waiting):
                chosen.append(waiting)
            else:
                self._desk.given_back(waiting)
        return chosen

    def _packed(self, slot: int, records: list[_W], outbox: _Outbox[_W]) -> Flight[_W]:
        """The next page with as many of the records as fit; the rest goes back to the front."""
        try:
            return Flight(self._page(slot, records), self._clock.monotonic(), records)
        except PageTooLarge:
            half = (len(records) + 1) // 2
            outbox.put_back(records[half:])
            return self._packed(slot, records[:half], outbox)

    def _page(self, slot: int, records: list[_W]) -> Append:
        subject = f"{self._token}.{slot}"
        head = self._head(subject)
        page = AttemptsPage(
            slot=slot,
            number=head.number + 1,
            commit_id=new_commit_id(),
            previous_sha256=head.sha256,
            previous_stamped_at=head.stamped_at,
            owner=self._runner_id,
            epoch=self._desk.epoch_of(slot),
            records=tuple(waiting.record for waiting in records),
        )
        return Append(subject, encode_attempts(page), page.commit_id, head.sequence)

    async def _append(self, flights: list[Flight[_W]]) -> None:
        """Append until the outcome of every page is known."""
        appends = [flight.append for flight in flights]
        outcomes: list[Committed | Lost] | None = None
        while outcomes is None:
            try:
                outcomes = await self._ledger.append_many(appends)
            except BrokerUnavailable as error:
                _log.warning("pages-outcome-unknown", log=self._token, pages=len(appends), text=error.message)
                await pause(UNKNOWN_PAUSE_S, asyncio.Event())
        for flight, outcome in zip(flights, outcomes, strict=True):
            flight.outcome = outcome
            if isinstance(outcome, Lost):
                self._desk.lost()
                _log.info("page-lost", subject=flight.append.subject)
            self._land(int(flight.append.subject.partition(".")[2]))

    # Landing

    def _lost(self, outbox: _Outbox[_W]) -> bool:
        """Whether the page in flight lost and the page that won was read."""
        flight = outbox.flight
        if flight is None or not isinstance(flight.outcome, Lost):
            return False
        assert not flight.read_back, f"a lost page of {flight.append.subject} was read back"
        return self._head(flight.append.subject).sequence > flight.append.expected_sequence

    def _land(self, slot: int) -> None:
        """End the flight if its outcome is known and what holds its position was read."""
        outbox = self._outboxes.get(slot)
        flight = outbox.flight if outbox is not None else None
        if outbox is None or flight is None:
            return
        if self._lost(outbox):
            outbox.put_back(flight.records)
        elif not (flight.read_back and isinstance(flight.outcome, Committed)):
            return
        outbox.flight = None
        self._tidy(slot)
        self._wake.set()

    def _tidy(self, slot: int) -> None:
        outbox = self._outboxes.get(slot)
        if outbox is not None and outbox.idle:
            del self._outboxes[slot]
            self._changed.set()


def _drained(outbox: _Outbox[_W]) -> list[_W]:
    found: list[_W] = []
    while (waiting := outbox.take()) is not None:
        found.append(waiting)
    return found
