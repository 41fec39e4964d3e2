"""A target that is slower than what it is sent: status complains while fires wait for their call, and stops after."""

import asyncio
from pathlib import Path

import pytest

from fireledger.runners.dispatcher.dispatcher import CALLS_PER_TARGET_MAX
from fireledger.runners.runner_state import LOOK_EVERY_S, TELL_EVERY_S, WAITING_LONG_S
from tests.integration.system.evidence import executors
from tests.integration.system.system import System
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

SLOW_S = 2 * WAITING_LONG_S


async def test_status_complains_while_fires_wait_for_their_call(tmp_path: Path) -> None:
    """All places of a target are taken by slow calls; the rest waits for long, and that is a problem with a hint."""
    async with System(tmp_path / "data") as system:
        await system.create_tenants("acme")
        async with executors(system) as arrivals:
            target = f"{arrivals.http.url}/slow?ms={SLOW_S * 1_000}"
            names = [f"t{n}" for n in range(CALLS_PER_TARGET_MAX + 16)]
            await system.create_triggers(
                {"tenant": "acme", "trigger": name, "cron": "* * * * * *", "target": target} for name in names
            )

            async def complaint() -> str:
                """What status says about it."""
                problems = (await system.ask("status"))["problems"]
                assert isinstance(problems, list)
                return next((str(each) for each in problems if "wait for their call" in str(each)), "")

            async def complains() -> bool:
                """Whether it says anything."""
                return bool(await complaint())

            within_s = WAITING_LONG_S + 2 * LOOK_EVERY_S + 5
            await until(complains, timeout_s=within_s, what="status complains")
            assert f"{CALLS_PER_TARGET_MAX} calls are under way" in await complaint()
            ended = await system.cli("status")
            assert (ended.status, ended.stdout.splitlines()[0]) == (6, "ready, with a problem")
            async with asyncio.TaskGroup() as group:
                for name in names:
                    group.create_task(system.ask("trigger.delete", tenant="acme", trigger=name))

            async def over() -> bool:
                """Whether it stopped."""
                return not await complaint()

            await until(over, timeout_s=2 * SLOW_S + TELL_EVERY_S, what="nothing waits any more")
