"""The dispatcher's runner: reads the log, starts what was released, calls, records, and resends after a crash.

It acts only on entries read back, only for slots it owns, and has no timer but that of attempts: a call's
timeout, and the resend of a start whose result never came.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from hashlib import sha256
from heapq import heappop, heappush
from typing import Protocol

from fireledger.domain.book import BrokenChain, Folded
from fireledger.domain.entries import AttemptStarted
from fireledger.domain.instants import Instant
from fireledger.domain.limits import ATTEMPT_RESEND_DELAY
from fireledger.domain.page import MalformedPage
from fireledger.projections.ledger_fold import LedgerFold

from ..clock import Clock
from ..errors import BrokerUnavailable, LogGap
from ..jetstream.connection import BrokerConnection
from ..jetstream.ledger import Append, Committed, Lost, Stored
from ..json_edge import Jsonable
from ..lifecycle import pause
from ..logs import get_log
from .attempt_log import AttemptLog
from .caller import Caller, place_name, target_name
from .counters import Counters
from .http_target import HttpTarget
from .nats_target import NatsTarget
from .ownership import Ownership
from .places import Places
from .policy import TargetPolicy
from .reporting import Reporting
from .tasks import Start, Task, Tasks

CALLS_PER_TARGET_MAX = 64
"""Calls under way at one host and port, or one tenant's NATS target: what a small service still takes at once."""
CALLS_PER_TENANT_MAX = 256
"""Calls of one tenant under way at all its targets: a quarter of the total, whatever its targets do."""
CALLS_MAX = 1_024
"""Calls under way in total: no one tenant can take more than a quarter. Of these, of a tenant's and of a target's,
``lanes.LANE_SHARES`` are left to over-quota calls (here 512), to those of catch-up (256) and of backfills (128)."""
RESENDS_NAMED_MAX = 5
"""Calls made again at once that the log names; the others it counts."""
DRAIN_CALLS_S = 2.2
"""How long a stop waits for calls under way."""
DRAIN_RECORDS_S = 0.8
"""How long a stop then waits for their results to be written."""
RETRY_PAUSE_S = 0.2
"""Before the log's end is asked for again."""
_log = get_log("dispatcher")


class LogWriter(Protocol):
    """What is used of the ledger."""

    def note_seen(self, sequence: int, digest: bytes = b"") -> None:
        """Tell of a message read elsewhere."""
        ...

    async def last_sequence(self) -> int:
        """Return the stream's last sequence."""
        ...

    async def append_many(self, appends: Sequence[Append]) -> list[Committed | Lost]:
        """Append messages on different subjects."""
        ...


class LogReader(Protocol):
    """What is used of a reader that begins at the log's first message."""

    def batches(self) -> AsyncGenerator[list[Stored], None]:
        """Yield what arrives."""
        ...

    async def close(self) -> None:
        """End it."""
        ...


class Dispatcher:
    """Makes attempts until told to stop.

    ``connection`` carries the calls to NATS targets; it may be the ledger's. ``reader_factory`` gives a reader of
    the whole log from its beginning. ``ready`` is set once the log was read up to its end at the start.
    """

    def __init__(
        self,
        *,
        connection: BrokerConnection,
        ledger: LogWriter,
        reader_factory: Callable[[], LogReader],
        clock: Clock,
        ownership: Ownership,
        policy: TargetPolicy,
        runner_id: str,
        reporting: Reporting | None = None,
        calls_per_target_max: int = CALLS_PER_TARGET_MAX,
    ) -> None:
        """``reporting`` is what calls carry for a later report of their outcome (None: nothing)."""
        self.ready = asyncio.Event()
        self.counters = Counters()
        self._ledger = ledger
        self._reader_factory = reader_factory
        self._clock = clock
        self._ownership = ownership
        self._fold = LedgerFold(observing=False)
        self._tasks = Tasks()
        self._http = HttpTarget(policy, connections_max=CALLS_MAX, clock=clock)
        self._caller = Caller(clock=clock, http=self._http, nats=NatsTarget(connection), reporting=reporting)
        self._places = Places[Start](
            per_target=calls_per_target_max,
            per_owner=CALLS_PER_TENANT_MAX,
            total=CALLS_MAX,
            granted=self._place_granted,
        )
        self._log = AttemptLog(
            ledger=ledger,
            head=self._fold.attempts_head,
            ownership=ownership,
            runner_id=runner_id,
            clock=clock,
            counters=self.counters,
            given_back=self._start_given_back,
        )
        self._calls: set[asyncio.Task[None]] = set()
        self._overdue: list[tuple[int, int, Task]] = []
        self._watch_number = 0
        self._lapsed: set[int] = set()
        self._overdue_wake = asyncio.Event()
        self._advanced = asyncio.Event()
        self._acting = False

    def snapshot(self) -> dict[str, Jsonable]:
        """What it has done since its start and has in hand now, for ``status``; numbers only."""
        return {
            "position": self._fold.position,
            "ready": self.ready.is_set(),
            "open": self._tasks.open_count,
            "waiting": self._places.waiting_count,
            "calling": len(self._calls),
            "started": self.counters.started,
            "results": dict(self.counters.results),
            "duplicates": dict(self.counters.duplicates),
            "lanes": {
                name: {"places": places, "waiting": waiting}
                for name, (places, waiting) in self._places.counts().items()
            },
            "lost_appends": self.counters.lost_appends,
            "pages": self.counters.pages,
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Dispatch until ``stop``; then start nothing more, await calls for a few seconds, write their results.

        Raises, in an exception group, RolledBack, LogGap and BrokerRefused when the log cannot be trusted.
        """
        reader = self._reader_factory()
        self._ownership.on_change(self._ownership_changed)
        try:
            async with self._http, asyncio.TaskGroup() as group:
                self._group = group
                services = [
                    group.create_task(self._read(reader)),
                    group.create_task(self._log.run(group)),
                    group.create_task(self._watch_overdue()),
                    group.create_task(self._begin()),
                ]
                await stop.wait()
                await self._drain()
                self._log.abandon()
                for task in (*services, *self._calls):
                    task.cancel()
        finally:
            await reader.close()

    # Reading

    async def _read(self, reader: LogReader) -> None:
        async with aclosing(reader.batches()) as batches:
            async for batch in batches:
                released: list[Task] = []
                for stored in batch:
                    released += self._apply(stored)
                self._ledger.note_seen(batch[-1].sequence, sha256(batch[-1].body).digest())
                # What another process started within the same batch is watched, not sent again beside it.
                self._offer([task for task in released if task.started_at is None])
                self._retake_lapsed()
                self._log.wake()
                self._advanced.set()

    def _apply(self, stored: Stored) -> list[Task]:
        """Fold one message; the tasks it released."""
        try:
            folded = self._fold.apply(stored)
        except (BrokenChain, MalformedPage) as error:
            raise LogGap(f"the log cannot be folded: {error}", hint="compare it with the copy") from error
        if isinstance(folded, Folded):
            return self._tasks.apply_book(folded)
        for record, task in self._tasks.apply_attempts(folded):
            if task is not None and isinstance(record, AttemptStarted):
                self._watch(task)
        begun = self._log.read_back(folded)
        if begun is not None:
            for start in begun.starts:
                self._begin_call(start, begun.sent_at)
        return []

    async def _begin(self) -> None:
        """Read up to the log's end, then take up everything that is open."""
        await self._read_to_the_end()
        self._acting = True
        self._ownership_changed()
        self.ready.set()
        _log.info("dispatcher-ready", position=self._fold.position, open=self._tasks.open_count)

    async def _read_to_the_end(self) -> None:
        """Wait until everything was read that the log held when this was called."""
        last: int | None = None
        while last is None:
            try:
                last = await self._ledger.last_sequence()
            except BrokerUnavailable:
                await pause(RETRY_PAUSE_S, asyncio.Event())
        while self._fold.position < last:
            self._advanced.clear()
            await self._advanced.wait()

    # Starting

    def _offer(self, tasks: Sequence[Task]) -> None:
        """Ask for places for tasks of owned slots; the others are taken up when their slot is gained."""
        for task in tasks:
            if not self._acting or task.closed or task.busy:
                continue
            if not self._ownership.owns_slot(task.slot):
                self._lapsed.add(task.slot)
                continue
            task.busy = True
            self._places.ask(place_name(task), Start(task, task.started_at), owner=task.key.tenant, lane=task.rank)

    def _place_granted(self, start: Start) -> None:
        if self._acting and start.needed:
            self._log.start(start)
        else:
            self._start_given_back(start)

    def _start_given_back(self, start: Start) -> None:
        """The start was not made: the slot is lost, another dispatcher was first, or the fire is over."""
        task = start.task
        self._release(task)
        if task.started_at is not None:
            self._watch(task)
        if not task.closed:
            self._lapsed.add(task.slot)

    def _release(self, task: Task) -> None:
        task.busy = False
        self._places.free(place_name(task), lane=task.rank)

    def _ownership_changed(self) -> None:
        self._lapsed.clear()
        for slot in self._tasks.slots():
            self._take_up(slot)
        self._log.wake()

    def _retake_lapsed(self) -> None:
        """Take slots up again whose ownership was in doubt for a moment."""
        for slot in [slot for slot in self._lapsed if self._ownership.owns_slot(slot)]:
            self._lapsed.discard(slot)
            self._take_up(slot)

    def _take_up(self, slot: int) -> None:
        if not self._ownership.owns_slot(slot):
            return
        tasks = self._tasks.of_slot(slot)
        self._offer([task for task in tasks if task.started_at is None])
        for task in tasks:
            if task.started_at is not None:
                self._watch(task)

    # Calling

    def _begin_call(self, start: Start, sent_at: float) -> None:
        """Call, now that the start was read back; never for a fire that is over."""
        if start.task.closed:
            self._release(start.task)
            return
        calling = self._group.create_task(self._call(start, sent_at))
        self._calls.add(calling)
        calling.add_done_callback(self._calls.discard)

    async def _call(self, start: Start, sent_at: float) -> None:
        task = start.task
        if start.resend:
            self.counters.duplicate(target_name(task))
        try:
            result = await self._caller.attempt(task, sent_at=sent_at, resend=start.resend)
        finally:
            self._places.free(place_name(task), lane=task.rank)
        self.counters.results[result.result] += 1
        self._log.finish(task.slot, result)

    # Starts without a result

    def _watch(self, task: Task) -> None:
        """Send again what another process started, unless its result comes in time."""
        if task.busy or task.closed or task.watched_at == task.started_at or not self._acting:
            return
        task.watched_at = task.started_at
        self._watch_number += 1
        heappush(self._overdue, (_overdue_at(task), self._watch_number, task))
        self._overdue_wake.set()

    async def _watch_overdue(self) -> None:
        while True:
            self._overdue_wake.clear()
            if not self._overdue:
                await self._overdue_wake.wait()
                continue
            due = self._overdue[0][0]
            if await self._clock.sleep_until(Instant(due), self._overdue_wake):
                await self._resend(self._take_overdue(due))

    def _take_overdue(self, due: int) -> list[Task]:
        """What has been silent for too long."""
        taken: list[Task] = []
        while self._overdue and self._overdue[0][0] <= due:
            at, _, task = heappop(self._overdue)
            if task.watched_at is None or at != _overdue_at(task):
                # Started once more since.
                continue
            task.watched_at = None
            taken.append(task)
        return taken

    async def _resend(self, tasks: list[Task]) -> None:
        silent = [task for task in tasks if not (task.closed or task.busy)]
        if not silent:
            return
        before = {id(task): task.started_at for task in silent}
        # A process that slept may not have read yet that the result came, or that the fire is over.
        await self._read_to_the_end()
        still = [task for task in silent if task.started_at == before[id(task)] and not task.closed]
        if still:
            named = [f"{task.key} attempt {task.attempt}" for task in still[:RESENDS_NAMED_MAX]]
            _log.warning("attempts-sent-again", count=len(still), first=named)
        self._offer(still)

    # Stopping

    async def _drain(self) -> None:
        self._acting = False
        for start in self._places.take_waiting():
            start.task.busy = False
        self._log.stop_starting()
        try:
            async with asyncio.timeout(DRAIN_CALLS_S):
                await self._settle()
        except TimeoutError:
            _log.warning("calls-abandoned", count=len(self._calls))
            for calling in self._calls:
                calling.cancel()
            await self._write_results()

    async def _settle(self) -> None:
        """Wait for calls under way, those included whose start is just being written, and for their results."""
        while self._calls or not self._log.idle:
            if self._calls:
                await asyncio.wait(set(self._calls))
            await self._log.flushed()

    async def _write_results(self) -> None:
        try:
            async with asyncio.timeout(DRAIN_RECORDS_S):
                await self._log.flushed()
        except TimeoutError:
            _log.warning("results-not-written")


def _overdue_at(task: Task) -> int:
    assert task.started_at is not None, "only a started task can be overdue"
    return task.started_at + task.definition.timeout + ATTEMPT_RESEND_DELAY
