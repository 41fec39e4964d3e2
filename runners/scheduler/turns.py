"""Sharing the event loop: long work gives way every few milliseconds, so that leases and reads go on."""

import asyncio
import types
from collections.abc import Generator

TURN_S_MAX = 0.005
"""Longest stretch of deciding or folding before other tasks get their turn."""


@types.coroutine
def give_way() -> Generator[None, None, None]:
    """Let every other task that can run do so once."""
    yield


class Turn:
    """Counts the time since the last turn of the others."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()

    async def share(self) -> None:
        """Give way if this turn has lasted long enough."""
        if self._loop.time() - self._began >= TURN_S_MAX:
            await give_way()
            self._began = self._loop.time()
