"""A clock for tests in one process: real time plus an offset, with an epsilon and steps of the test's choosing."""

import asyncio

from fireledger.domain.instants import MILLISECOND, Duration, Instant
from fireledger.runners.clock import ClockHeld, MachineTime, Reading, wait_until

CHUNK_S = 0.02
"""Waits look at the clock this often, so that a moved offset shows at once."""


class SimulatedClock:
    """Set ``offset``, ``epsilon`` (microseconds) and ``held`` at any time; waits notice within 20 ms."""

    def __init__(self, *, offset: int = 0, epsilon: Duration = MILLISECOND) -> None:
        self.offset = offset
        self.epsilon: int = epsilon
        self.held = False
        self._step = 0
        self._machine = MachineTime()
        # Wall time is read once: a step of the machine's own clock cannot disturb a test.
        self._base_ns = self._machine.realtime_ns() - self._machine.boottime_ns()

    def now(self) -> Reading:
        """Read the clock. Raises ClockHeld while ``held``."""
        if self.held:
            raise ClockHeld("the simulated clock is held", hint="clear held")
        middle = (self._base_ns + self._machine.boottime_ns()) // 1_000 + self.offset
        return Reading(Instant(middle - self.epsilon), Instant(middle + self.epsilon), "simulated", self._step)

    def monotonic(self) -> float:
        """Seconds of the machine's steady clock."""
        return self._machine.boottime_ns() / 1_000_000_000

    async def sleep_until(self, instant: Instant, wake: asyncio.Event | None = None) -> bool:
        """Wait until ``earliest`` has reached ``instant`` (True) or ``wake`` was set first (False)."""
        return await wait_until(self, instant, wake, chunk_s=CHUNK_S)

    def take_step(self) -> int:
        """Return the accepted step and clear it."""
        step, self._step = self._step, 0
        return step

    def step(self, by: int) -> None:
        """Step by some microseconds, accepted: readings carry it until it is taken."""
        self.offset += by
        self._step += by
