"""Following across a control that is killed: asked again within two seconds, nothing lost and nothing twice."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fireledger.runners.cli.following import ANSWER_S_MIN, RETRY_S
from fireledger.runners.json_edge import Json, loads
from tests.integration.system.evidence import executors
from tests.integration.system.system import FIRELEDGER, System, environment
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

AGAIN_WITHIN_S = ANSWER_S_MIN + RETRY_S + 1.0
"""The longest wait for an answer that never comes, the pause before asking again, and a second for a busy machine."""
KILLS = 3
Row = dict[str, Json]


@asynccontextmanager
async def following(system: System, tenant: str) -> AsyncGenerator[list[Row], None]:
    """The rows that the command prints, as they come; an interrupt ends it with exit status 0."""
    process = await asyncio.create_subprocess_exec(
        *(*FIRELEDGER, "fires", "follow", tenant, "--json"),
        stdout=asyncio.subprocess.PIPE,
        env=environment(system.mark, system.data),
    )
    rows: list[Row] = []

    async def read() -> None:
        """Take each line."""
        assert process.stdout is not None
        async for line in process.stdout:
            row = loads(line)
            assert isinstance(row, dict)
            rows.append(row)

    reading = asyncio.create_task(read())
    try:
        yield rows
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 10) == 0
        await reading
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def killed_and_back(system: System) -> None:
    """Kill control, and wait until its successor answers."""
    ready = len(system.logged("control-ready"))
    assert system.kill("control")
    await until(lambda: len(system.logged("control-ready")) > ready, timeout_s=20, what="control is back")


async def test_a_follower_goes_on_where_it_was(tmp_path: Path, measured: Callable[[str], None]) -> None:
    """Its question dies with control, three times; each time it hears again soon after control is back."""
    waits: list[float] = []
    async with System(tmp_path / "data") as system:
        await system.create_tenants("acme")
        async with executors(system) as arrivals, following(system, "acme") as rows:
            named: Row = {"tenant": "acme", "trigger": "second"}
            await system.ask("trigger.create", **named, cron="* * * * * *", target=f"{arrivals.http.url}/ok")
            await heard_after(rows, 2, within_s=20)
            for _ in range(KILLS):
                await killed_and_back(system)
                waits.append(await heard_after(rows, len(rows), within_s=AGAIN_WITHIN_S))
            await system.ask("trigger.pause", **named)
            await until(lambda: all_ended(rows), timeout_s=30, what="every fire ended")
        listed = await system.ask("fires.list", tenant="acme", limit=1_000)
    lines = [str(row) for row in rows]
    assert len(lines) == len(set(lines)), "no change is shown twice"
    last = {str(row["key"]): row for row in rows}
    found = listed["rows"]
    assert isinstance(found, list)
    there = {str(row["key"]): row for row in found if isinstance(row, dict)}
    first = min(last)
    assert last == {key: row for key, row in there.items() if key >= first}, "every fire was shown, up to its end"
    measured(f"a follower heard again {', '.join(f'{wait:.2f}' for wait in waits)} s after control was back")


async def heard_after(rows: list[Row], count: int, *, within_s: float) -> float:
    """Wait for more rows than so many; for how long, in seconds."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await until(lambda: len(rows) > count, timeout_s=within_s, what="the follower hears")
    return loop.time() - began


def all_ended(rows: list[Row]) -> bool:
    """Whether the last that was heard of every fire is its end."""
    last = {str(row["key"]): row for row in rows}
    return all(row["state"] != "fired" or row["outcome"] for row in last.values())
