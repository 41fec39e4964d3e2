"""Waiting in tests: until a condition holds, or until a stated time is over. The only polling there is.

Prefer an event, a position or a reader that wakes by itself; use this where the thing waited for lives in
another process or has nothing to await.
"""

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

PATIENCE_S = 60.0
"""How long to wait where the time is no promise: long enough for a machine that does much else."""
_POLL_S = 0.01


async def until(condition: Callable[[], bool | Awaitable[bool]], *, what: str, timeout_s: float = PATIENCE_S) -> None:
    """Return once the condition holds. It is asked at once, and then a hundred times a second.

    Give ``timeout_s`` where the time is a promise, or where more than PATIENCE_S may pass by design.

    Raises AssertionError naming ``what`` when it has not held within ``timeout_s``, also when the condition
    itself does not come back. What the condition raises passes through.
    """
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            while not await _holds(condition):
                await _pause()
    except TimeoutError:
        if not limit.expired():
            raise
        raise AssertionError(_late(what, timeout_s)) from None


def until_sync(condition: Callable[[], bool], *, what: str, timeout_s: float = PATIENCE_S) -> None:
    """Do the same where no event loop runs. A condition that does not come back is not interrupted."""
    end = time.perf_counter() + timeout_s
    never = threading.Event()
    while not condition():
        if time.perf_counter() >= end:
            raise AssertionError(_late(what, timeout_s))
        never.wait(_POLL_S)


async def _holds(condition: Callable[[], bool | Awaitable[bool]]) -> bool:
    answer = condition()
    return await answer if inspect.isawaitable(answer) else answer


async def _pause() -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), _POLL_S)


def _late(what: str, timeout_s: float) -> str:
    return f'"{what}" did not happen within {timeout_s:g} s'
