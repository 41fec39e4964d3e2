"""The virtual loop: time passes at once, in order, and a stuck system is noticed."""

import asyncio
import time

import pytest

from fireledger.runners.lifecycle import pause
from tests.simulation.broker import wait
from tests.simulation.virtual_time import Stuck, run_virtually


async def a_day_in_minutes() -> float:
    """Wait 1,440 times for a minute."""
    for _ in range(24 * 60):
        await pause(60, asyncio.Event())
    return asyncio.get_running_loop().time()


def test_a_day_takes_a_moment() -> None:
    """A day of waits is over in far less than a second, and the loop's clock shows the day."""
    began_s = time.perf_counter()
    assert run_virtually(a_day_in_minutes()) == pytest.approx(86_400)
    assert time.perf_counter() - began_s < 2


def test_waits_end_in_order() -> None:
    """Whatever order they began in."""

    async def main() -> list[int]:
        """Three waits at once."""
        ended: list[int] = []

        async def one(number: int, seconds: float) -> None:
            """One of them."""
            await wait(seconds)
            ended.append(number)

        await asyncio.gather(one(1, 30), one(2, 10), one(3, 20))
        return ended

    assert run_virtually(main()) == [2, 3, 1]


def test_a_stuck_system_is_noticed() -> None:
    """When everybody waits for what nobody will do, the run ends."""

    async def main() -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match="every task waits"):
        run_virtually(main())


def test_a_spinning_task_is_noticed() -> None:
    """Turns without time passing do not go on for ever."""

    async def main() -> None:
        """Give way for ever."""
        never = asyncio.Event()
        while not never.is_set():
            await pause(0, never)

    with pytest.raises(Stuck, match="spins"):
        run_virtually(main())
