"""The waiting helpers that all other tests lean on."""

import asyncio
import threading

import pytest

from tests.waiting import until, until_sync


@pytest.mark.asyncio
async def test_until_returns_when_the_condition_comes_true() -> None:
    """A plain and an awaitable condition are both waited for, also when another task makes them true."""
    happened = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, happened.set)

    async def asked() -> bool:
        return happened.is_set()

    await until(happened.is_set, timeout_s=5, what="the event")
    await until(asked, timeout_s=0, what="the event")


@pytest.mark.asyncio
async def test_until_names_what_did_not_happen() -> None:
    """The failure names the thing waited for and the time, also when the condition hangs."""

    async def hangs() -> bool:
        return await asyncio.Event().wait()

    with pytest.raises(AssertionError, match=r'"the fire" did not happen within 0\.02 s'):
        await until(lambda: False, timeout_s=0.02, what="the fire")
    with pytest.raises(AssertionError, match='"the fire"'):
        await until(hangs, timeout_s=0.02, what="the fire")


@pytest.mark.asyncio
async def test_until_lets_the_conditions_own_errors_through() -> None:
    """A timeout raised by the condition itself is not taken for the end of the wait."""

    def fails() -> bool:
        raise TimeoutError("of the condition")

    with pytest.raises(TimeoutError, match="of the condition"):
        await until(fails, timeout_s=5, what="the fire")


def test_until_sync_returns_or_names_what_did_not_happen() -> None:
    """Without an event loop the same holds."""
    happened = threading.Event()
    timer = threading.Timer(0.02, happened.set)
    timer.start()
    until_sync(happened.is_set, timeout_s=5, what="the event")
    timer.join()
    with pytest.raises(AssertionError, match=r'"the fire" did not happen within 0\.02 s'):
        until_sync(lambda: False, timeout_s=0.02, what="the fire")
