"""Writing the attempts of slots: records packed into chained pages, one page in flight per slot.

A page's append decides everything. Whoever loses it has made no attempt: what the winner's page left undone goes
into the next page. The chain's head is always the one read back from the log.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fireledger.domain.book import Head
from fireledger.domain.entries import AttemptRecord, AttemptResult, AttemptStarted
from fireledger.domain.limits import ATTEMPTS_PAGE_RECORDS_MAX
from fireledger.domain.page import AttemptsPage, PageTooLarge, encode_attempts
from fireledger.projections.ledger_fold import FoldedAttempts

from ..clock import Clock
from ..errors import BrokerUnavailable
from ..identity import new_commit_id
from ..jetstream.ledger import Append, Committed, Lost
from ..lifecycle import pause
from ..logs import get_log
from .counters import Counters
from .ownership import Ownership
from .tasks import Start

UNKNOWN_PAUSE_S = 0.2
"""Between two rounds of learning what became of pages; each round resends for a long time itself."""
_log = get_log("attempt-log")


class Appender(Protocol):
    """The part of the ledger that is used here."""

    async def append_many(self, appends: Sequence[Append]) -> list[Committed | Lost]:
        """Append messages on different subjects."""
        ...


def attempts_subject(slot: int) -> str:
    """The subject of a slot's attempts."""
    return f"attempts.{slot}"


@dataclass(slots=True)
class Flight:
    """A page that was sent, until its outcome is known and read back."""

    append: Append
    sent_at: float
    starts: list[Start]
    results: list[AttemptResult]
    outcome: Committed | Lost | None = None
    read_back: bool = False


@dataclass(slots=True)
class _Outbox:
    starts: deque[Start] = field(default_factory=deque[Start])
    results: deque[AttemptResult] = field(default_factory=deque[AttemptResult])
    flight: Flight | None = None

    @property
    def idle(self) -> bool:
        return not (self.starts or self.results or self.flight)


class AttemptLog:
    """The writer of all slots' attempts pages.

    What waits is bounded by the places for calls: a start holds one until it is given back, a result needed one.
    """

    def __init__(
        self,
        *,
        ledger: Appender,
        head: Callable[[str], Head],
        ownership: Ownership,
        runner_id: str,
        clock: Clock,
        counters: Counters,
        given_back: Callable[[Start], None],
    ) -> None:
        """``head`` gives a subject's head as read from the log; ``given_back`` gets each start that is not made."""
        self._ledger = ledger
        self._head = head
        self._ownership = ownership
        self._runner_id = runner_id
        self._clock = clock
        self._counters = counters
        self._given_back = given_back
        self._outboxes: dict[int, _Outbox] = {}
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._starting = True
        self._appending: set[asyncio.Task[None]] = set()

    def start(self, start: Start) -> None:
        """Queue a started record; it is read back, or the start is given back."""
        self._outbox(start.task.slot).starts.append(start)
        self._wake.set()

    def finish(self, slot: int, result: AttemptResult) -> None:
        """Queue a result; it is written whoever owns the slot by then, since it is a fact."""
        self._outbox(slot).results.append(result)
        self._wake.set()

    def wake(self) -> None:
        """Look again at what can be written: pages were read, or slots gained or lost."""
        self._wake.set()

    def stop_starting(self) -> None:
        """Give back every start that is not under way, and take no more."""
        self._starting = False
        for outbox in list(self._outboxes.values()):
            self._give_back(outbox.starts)
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

    def read_back(self, folded: FoldedAttempts) -> Flight | None:
        """Note a page that was read, which the head shows already; what it held, if it is our own."""
        outbox = self._outboxes.get(folded.page.slot)
        flight = outbox.flight if outbox is not None else None
        if flight is None or flight.append.subject != folded.subject:
            return None
        if flight.append.commit_id != folded.page.commit_id:
            self._wake.set()
            return None
        flight.read_back = True
        self._counters.pages += 1
        self._counters.started += len(flight.starts)
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

    def _outbox(self, slot: int) -> _Outbox:
        return self._outboxes.setdefault(slot, _Outbox())

    def _take_off(self, slot: int) -> Flight | None:
        outbox = self._outboxes.get(slot)
        if outbox is None or outbox.flight is not None:
            return None
        if not self._starting or not self._ownership.owns_slot(slot):
            self._give_back(outbox.starts)
        starts = self._next_starts(outbox)
        results = _taken(outbox.results, ATTEMPTS_PAGE_RECORDS_MAX - len(starts))
        if starts or results:
            outbox.flight = self._packed(slot, starts, results, outbox)
        else:
            self._tidy(slot)
        return outbox.flight

    def _next_starts(self, outbox: _Outbox) -> list[Start]:
        chosen: list[Start] = []
        while outbox.starts and len(chosen) < ATTEMPTS_PAGE_RECORDS_MAX:
            start = outbox.starts.popleft()
            if start.needed:
                chosen.append(start)
            else:
                self._given_back(start)
        return chosen

    def _packed(self, slot: int, starts: list[Start], results: list[AttemptResult], outbox: _Outbox) -> Flight:
        """The next page with as many of the records as fit; the rest goes back to the front."""
        try:
            page = self._page(slot, [*_records(starts), *results])
            return Flight(page, self._clock.monotonic(), starts, results)
        except PageTooLarge:
            half = (len(starts) + 1) // 2, (len(results) + 1) // 2
            outbox.starts.extendleft(reversed(starts[half[0] :]))
            outbox.results.extendleft(reversed(results[half[1] :]))
            return self._packed(slot, starts[: half[0]], results[: half[1]], outbox)

    def _page(self, slot: int, records: list[AttemptRecord]) -> Append:
        subject = attempts_subject(slot)
        head = self._head(subject)
        page = AttemptsPage(
            slot=slot,
            number=head.number + 1,
            commit_id=new_commit_id(),
            previous_sha256=head.sha256,
            previous_stamped_at=head.stamped_at,
            owner=self._runner_id,
            epoch=self._ownership.epoch_of(slot),
            records=tuple(records),
        )
        return Append(subject, encode_attempts(page), page.commit_id, head.sequence)

    async def _append(self, flights: list[Flight]) -> None:
        """Append until the outcome of every page is known."""
        appends = [flight.append for flight in flights]
        outcomes: list[Committed | Lost] | None = None
        while outcomes is None:
            try:
                outcomes = await self._ledger.append_many(appends)
            except BrokerUnavailable as error:
                _log.warning("attempts-outcome-unknown", pages=len(appends), text=error.message)
                await pause(UNKNOWN_PAUSE_S, asyncio.Event())
        for flight, outcome in zip(flights, outcomes, strict=True):
            flight.outcome = outcome
            if isinstance(outcome, Lost):
                self._counters.lost_appends += 1
                _log.info("attempts-page-lost", subject=flight.append.subject)
            self._land(int(flight.append.subject.partition(".")[2]))

    # Landing

    def _lost(self, outbox: _Outbox) -> bool:
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
            outbox.starts.extendleft(reversed(flight.starts))
            outbox.results.extendleft(reversed(flight.results))
        elif not (flight.read_back and isinstance(flight.outcome, Committed)):
            return
        outbox.flight = None
        self._tidy(slot)
        self._wake.set()

    def _give_back(self, starts: deque[Start]) -> None:
        while starts:
            self._given_back(starts.popleft())

    def _tidy(self, slot: int) -> None:
        outbox = self._outboxes.get(slot)
        if outbox is not None and outbox.idle:
            del self._outboxes[slot]
            self._changed.set()


def _records(starts: list[Start]) -> Iterator[AttemptStarted]:
    for start in starts:
        task = start.task
        yield AttemptStarted(
            tenant=task.key.tenant,
            trigger=task.key.trigger,
            scheduled=task.key.scheduled,
            sequence=task.key.sequence,
            attempt=task.attempt,
            definition_page=task.definition_page,
            timeout=task.definition.timeout,
            resend=start.resend,
        )


def _taken(results: deque[AttemptResult], at_most: int) -> list[AttemptResult]:
    return [results.popleft() for _ in range(min(at_most, len(results)))]
