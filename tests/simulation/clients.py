"""A simulated broker's log, reader and bucket as the runners know them: each on one process's link.

They keep the promises of the adapters in ``runners/jetstream``, and are held to the same contract tests.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TypeVar

from fireledger.runners.errors import BrokerUnavailable, RolledBack
from fireledger.runners.jetstream.buckets import Entry
from fireledger.runners.jetstream.leader import Stored
from fireledger.runners.jetstream.ledger import Append, Committed, Lost
from tests.simulation.broker import Link, wait

_T = TypeVar("_T")

ANSWER_TIMEOUT_S = 5.0
DEADLINE_S = 30.0
READ_TIMEOUT_S = 2.0
RESEND_S_FIRST = 0.005
RESEND_S_MAX = 0.2
PLAIN_APPENDS_MAX = 10


class SimulatedLedger:
    """What ``runners.jetstream.ledger.Ledger`` is to its callers, on a simulated link."""

    def __init__(self, link: Link, *, deadline_s: float = DEADLINE_S) -> None:
        self.highest_seen = 0
        self._link = link
        self._broker = link.broker
        self._deadline_s = deadline_s
        self._anchor: Stored | None = None
        """The message with the highest sequence seen."""

    def note_seen(self, sequence: int, digest: bytes = b"") -> None:
        """Tell of a message read elsewhere."""
        del digest
        if sequence > self.highest_seen:
            self.highest_seen = sequence
            self._anchor = self._broker.log[sequence - 1] if sequence <= len(self._broker.log) else self._anchor

    def _verified(self, act: Callable[[], _T]) -> Callable[[], _T]:
        """Do it, unless the log no longer holds what was seen."""

        def verified() -> _T:
            """Compare, and do it. Raises RolledBack."""
            anchor, log = self._anchor, self._broker.log
            if anchor is not None and (len(log) < anchor.sequence or log[anchor.sequence - 1] is not anchor):
                raise RolledBack(f"the log is rolled back: message {anchor.sequence} is another or gone")
            return act()

        return verified

    async def head(self, subject: str) -> Stored | None:
        """Return the newest message on a subject. Raises BrokerUnavailable, RolledBack."""
        return await self._link.ask(self._verified(lambda: self._broker.head(subject)), READ_TIMEOUT_S)

    async def last_sequence(self) -> int:
        """Return the log's last sequence. Raises BrokerUnavailable, RolledBack."""
        last = await self._link.ask(self._verified(self._broker.last_sequence), READ_TIMEOUT_S)
        self.note_seen(last)
        return last

    async def append(self, append: Append) -> Committed | Lost:
        """Append one message; resend it until its outcome is certain. Raises BrokerUnavailable at the deadline."""
        self._broker.note_sent(append.commit_id)
        (outcome,) = await self._until_certain(lambda: [self._broker.store(append)])
        self.note_seen(_sequence(outcome))
        return outcome

    async def append_many(self, appends: Sequence[Append]) -> list[Committed | Lost]:
        """Append messages on different subjects, each by itself or all at once; outcomes in order."""
        if len({append.subject for append in appends}) < len(appends):
            raise ValueError("a subject occurs twice in one call; its messages depend on each other")
        if len(appends) > PLAIN_APPENDS_MAX:
            for append in appends:
                self._broker.note_sent(append.commit_id)
            # Losers are taken out of a batch and the rest goes in together: as if stored one after the other at once.
            outcomes = await self._until_certain(lambda: [self._broker.store(append) for append in appends])
            for outcome in outcomes:
                self.note_seen(_sequence(outcome))
            return outcomes
        if len(appends) == 1:
            return [await self.append(appends[0])]
        found = await asyncio.gather(*(self.append(append) for append in appends), return_exceptions=True)
        good: list[Committed | Lost] = []
        for each in found:
            if isinstance(each, BaseException):
                raise each
            good.append(each)
        return good

    async def _until_certain(self, act: Callable[[], list[Committed | Lost]]) -> list[Committed | Lost]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._deadline_s
        pause_s = RESEND_S_FIRST
        while (left_s := deadline - loop.time()) > 0:
            try:
                return await self._link.ask(self._verified(act), min(left_s, ANSWER_TIMEOUT_S))
            except BrokerUnavailable:
                await wait(min(pause_s, max(0.0, deadline - loop.time())))
                pause_s = min(pause_s * 2, RESEND_S_MAX)
        raise BrokerUnavailable("the outcome of the append is unknown", hint="send the same again to learn it")


class SimulatedReader:
    """What ``PullReader`` is to its callers: every message once and in order, some time after it was stored."""

    def __init__(self, link: Link, *, after: int = 0) -> None:
        self.position = after
        self._link = link
        self._frontier = after
        self._scheduled = False
        self._wake = asyncio.Event()
        self._closed = False
        self._newest: Stored | None = None
        link.on_cut(self.stop)
        link.broker.on_store.append(self._on_store)
        link.broker.on_loss.append(self._expect)
        if link.broker.last_sequence() > after:
            self._expect()

    async def batches(self) -> AsyncGenerator[list[Stored], None]:
        """Yield what has arrived, until the reader is closed. Raises RolledBack."""
        while not self._closed:
            self._wake.clear()
            if self._rolled_back:
                raise RolledBack(f"the log is rolled back: message {self.position} is another or gone")
            if self._frontier > self.position:
                batch = self._link.broker.log[self.position : self._frontier]
                self.position, self._newest = self._frontier, batch[-1]
                yield batch
            else:
                await self._wake.wait()

    async def close(self) -> None:
        """End the reader."""
        self.stop()

    def stop(self) -> None:
        """End the reader at once."""
        if not self._closed:
            self._closed = True
            self._link.broker.on_store.remove(self._on_store)
            self._link.broker.on_loss.remove(self._expect)
            self._wake.set()

    def _on_store(self, stored: Stored) -> None:
        del stored
        self._expect()

    def _expect(self) -> None:
        """One delivery is on its way at a time; it brings all that is stored when it arrives."""
        if self._scheduled or self._closed:
            return
        self._scheduled = True
        delay_s = self._link.delay_s()
        if self._link.trouble.read_delay_s:
            delay_s += self._link.random.uniform(0.0, 1.0) * self._link.trouble.read_delay_s
        self._link.later(delay_s, self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        if self._closed:
            return
        if not self._link.broker.up:
            self._expect()
            return
        self._frontier = self._link.broker.last_sequence()
        self._wake.set()

    @property
    def _rolled_back(self) -> bool:
        newest, log = self._newest, self._link.broker.log
        return newest is not None and (len(log) < newest.sequence or log[newest.sequence - 1] is not newest)


class SimulatedBucket:
    """What ``Bucket`` is to its callers."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._broker = link.broker

    async def get(self, key: str) -> Entry | None:
        """Return a key's entry, or None. Raises BrokerUnavailable."""
        return await self._link.ask(lambda: self._broker.get(key), READ_TIMEOUT_S)

    async def put_if(self, key: str, value: bytes, revision: int) -> int | None:
        """Set a key if its revision is still this one; None when lost. Raises BrokerUnavailable when unknown."""
        return await self._link.ask(lambda: self._broker.put_if(key, value, revision), READ_TIMEOUT_S)

    async def delete_if(self, key: str, revision: int) -> bool:
        """Delete a key if its revision is still this one. Raises BrokerUnavailable when unknown."""
        return await self._link.ask(lambda: self._broker.delete_if(key, revision), READ_TIMEOUT_S)

    async def entries(self, prefix: str = "") -> list[Entry]:
        """Return the entries whose keys begin with ``prefix``. Raises BrokerUnavailable."""
        return await self._link.ask(lambda: self._broker.entries(prefix), READ_TIMEOUT_S)


def _sequence(outcome: Committed | Lost) -> int:
    if isinstance(outcome, Committed):
        return outcome.sequence
    return 0 if outcome.rival is None else outcome.rival.sequence
