"""Sharing the event loop: long work gives way every few milliseconds, so that leases and reads go on."""

import asyncio
import types
from collections.abc import Generator

TURN_S_MAX = 0.005
"""Longest stretch of deciding or folding before other tasks get their turn."""
_TURNS_TO_SOCKET = 4


@types.coroutine
def give_way() -> Generator[None, None, None]:
    """Let every other task that can run do so once."""
    yield


async def send_off() -> None:
    """Let appends that were just begun reach the socket: the task, the client's buffer, its writer."""
    for _ in range(_TURNS_TO_SOCKET):
        await give_way()


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
