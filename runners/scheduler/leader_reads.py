"""Asking the stream's leader how far the log goes: what an outcome window's end needs before it may say *unknown*."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ..clock import Clock, ClockHeld
from ..errors import BrokerUnavailable
from ..jetstream.ledger import Ledger
from ..lifecycle import pause

RETRY_S = 0.2
"""Before the leader is asked again when it did not answer or the clock is held."""


@dataclass(frozen=True, slots=True)
class LeaderRead:
    """At ``at`` or later (our clock's earliest, microseconds) the log ended at ``sequence``, which is folded."""

    at: int
    sequence: int


class FoldPosition:
    """How far this process has folded the log; others wait for it to advance."""

    def __init__(self) -> None:
        self.value = 0
        self._advanced = asyncio.Event()

    def advance(self, sequence: int) -> None:
        """The log is folded up to ``sequence``."""
        self.value = sequence
        self._advanced.set()
        self._advanced = asyncio.Event()

    async def reached(self, sequence: int) -> None:
        """Return once the log is folded up to ``sequence``."""
        while self.value < sequence:
            await self._advanced.wait()


class LeaderReads:
    """At most one question at a time, for however many books wait for its answer."""

    def __init__(
        self, ledger: Ledger, clock: Clock, position: FoldPosition, *, answered: Callable[[str], None]
    ) -> None:
        """``answered`` is called with each waiting book's tenant."""
        self.latest = LeaderRead(0, 0)
        self.count = 0
        self._ledger = ledger
        self._clock = clock
        self._position = position
        self._answered = answered
        self._waiting: set[str] = set()
        self._asked = asyncio.Event()
        self._never = asyncio.Event()

    def ask_for(self, tenant: str) -> None:
        """Ask the leader soon; the tenant is told when ``latest`` is an answer to a question put after now."""
        self._waiting.add(tenant)
        self._asked.set()

    async def run(self) -> None:
        """Answer for ever. Raises RolledBack when the log is shorter than it was, and BrokerRefused."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            waiting, self._waiting = self._waiting, set()
            self.latest = await self._read()
            self.count += 1
            for tenant in waiting:
                self._answered(tenant)

    async def _read(self) -> LeaderRead:
        while True:
            try:
                at = self._clock.now().earliest
                sequence = await self._ledger.last_sequence()
            except (BrokerUnavailable, ClockHeld):
                await pause(RETRY_S, self._never)
            else:
                await self._position.reached(sequence)
                return LeaderRead(at, sequence)
