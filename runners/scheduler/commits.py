"""Committing drafted pages: a bounded number of appends under way, each repeated until its outcome is certain."""

import asyncio
from collections.abc import Callable, Sequence

from ..errors import BrokerUnavailable
from ..jetstream.ledger import Append, Ledger
from ..lifecycle import pause
from ..logs import get_log

COMMITS_AT_ONCE_MAX = 8
"""Groups of pages under way: while all are busy, what becomes due gathers into the next, larger group."""
UNKNOWN_PAUSE_S = 0.1
"""Before an append whose outcome stayed unknown for the writer's whole deadline is sent again."""

_log = get_log("scheduler")


class Commits:
    """Appends groups of pages in the background. What became of a page is learnt by reading it back."""

    def __init__(self, ledger: Ledger, *, in_flight: Callable[[Append], bool], done: Callable[[], None]) -> None:
        """``in_flight`` tells whether a page's position is still open; ``done`` is called when a group ends."""
        self.unknown_count = 0
        """Times a group's outcome was unknown and the same bytes were sent again."""
        self._ledger = ledger
        self._in_flight = in_flight
        self._done = done
        self._running: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()

    @property
    def room(self) -> bool:
        """Whether another group may be started."""
        return len(self._running) < COMMITS_AT_ONCE_MAX

    def start(self, tasks: asyncio.TaskGroup, appends: Sequence[Append]) -> None:
        """Append these pages, of different books, in a task of the group. An error that is final ends the group."""
        task = tasks.create_task(self._commit(appends))
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def drain(self, timeout_s: float) -> None:
        """Wait for what is under way, then give up what still has no outcome."""
        self._stop.set()
        if self._running:
            await asyncio.wait(self._running, timeout=timeout_s)
        for task in tuple(self._running):
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._done()

    async def _commit(self, appends: Sequence[Append]) -> None:
        pending = list(appends)
        while pending:
            try:
                await self._ledger.append_many(pending)
            except BrokerUnavailable as error:
                self.unknown_count += 1
                _log.warning("commit-outcome-unknown", pages=len(pending), message=error.message)
                if await pause(UNKNOWN_PAUSE_S, self._stop):
                    return
                pending = [append for append in pending if self._in_flight(append)]
            else:
                return
