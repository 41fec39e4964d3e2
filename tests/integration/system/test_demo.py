"""``fireledger up --demo`` as a person sees it: on a terminal, with both executors, once and once more."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fireledger.runners.identity import new_request_id
from fireledger.runners.json_edge import Json, loads
from tests.integration.system.system import FIRELEDGER, System, all_gone, environment, run
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

COLUMNS = 110
LINES = 30
FIRES_WITHIN_S = 90
"""The promise for a fresh machine: both executors are fired at this soon after the start."""
_FIRE = re.compile(
    r"^(?P<trigger>\S+) +(?P<scheduled>\d\d:\d\d:\d\d) +(?P<decided>\d\d:\d\d:\d\d\.\d{3}) +"
    r"(?P<dispatched>\d\d:\d\d:\d\d\.\d{3}) +(?P<late>[\d,]+) +(?P<delay>[\d,]+) +on-time +succeeded$"
)


async def demo_rows(data: Path, mark: str) -> list[dict[str, Json]]:
    """The demo's fires, as the command line lists them."""
    listed = await run("fires", "list", "demo", "--json", data=data, mark=mark)
    rows = [loads(line) for line in listed.stdout.splitlines()]
    return [row for row in rows if isinstance(row, dict)]


def succeeded_targets(rows: list[dict[str, Json]]) -> set[str]:
    """The kinds of executors that had a success, told by the demo's trigger names."""
    kinds = {"every-2-seconds": "nats", "every-5-seconds": "http"}
    return {kinds[str(row["trigger"])] for row in rows if row["result"] == "succeeded" and row["trigger"] in kinds}


@asynccontextmanager
async def terminal(tmp_path: Path, mark: str, *command: str) -> AsyncGenerator["Terminal", None]:
    """A terminal multiplexer with one window that runs the command; gone in the end."""
    shown = Terminal(str(tmp_path / "tmux"))
    await shown.do(
        *("new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES)), *command, environ=environment(mark) | {"TERM": ""}
    )
    try:
        yield shown
    finally:
        # Closing a terminal ends what runs in it.
        await shown.do("kill-server")
        await all_gone(mark, within_s=8)


class Terminal:
    """Looks at the window and types into it."""

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path

    async def do(self, *arguments: str, environ: dict[str, str] | None = None) -> str:
        """Run one of the multiplexer's commands and return what it prints."""
        process = await asyncio.create_subprocess_exec(
            *("tmux", "-f", os.devnull, "-u", "-S", self._socket_path, *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environ,
        )
        stdout, _ = await process.communicate()
        return stdout.decode()

    async def lines(self) -> list[str]:
        """What the window shows."""
        return [line.rstrip() for line in (await self.do("capture-pane", "-p")).splitlines()]


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed, and nothing else here is a terminal")
async def test_the_view_is_readable_and_the_logs_stay_out_of_it(tmp_path: Path) -> None:
    """Each fire is one whole line with its instants, lateness and outcome; logs are in a file; Ctrl-C ends it all."""
    data, mark = tmp_path / "data", f"demo-{new_request_id()}"
    command = (sys.executable, *FIRELEDGER[1:], "up", "--demo", "--data", str(data))
    async with terminal(tmp_path, mark, *command) as screen:

        async def shows_both() -> bool:
            """Whether fires at both executors are on the screen."""
            fires = [match["trigger"] for match in map(_FIRE.match, await screen.lines()) if match]
            return {"every-2-seconds", "every-5-seconds"} <= set(fires)

        await until(shows_both, timeout_s=FIRES_WITHIN_S, what="fires at both executors")
        lines = await screen.lines()
        text = "\n".join(lines)
        assert "Fireledger on nats://127.0.0.1:" in text
        assert re.search(r"succeeded \d+ .*delay p50 \d+ ms, p99 ", text), text
        header = "trigger +scheduled +decided +dispatched +late ms +delay ms +state +outcome"
        assert any(re.match(header, line) for line in lines), text
        assert re.search(rf"logs: {re.escape(str(data))[:20]}", text), text
        assert "runner-started" not in text
        assert "runner-started" in (data / "up.log").read_text()
        assert succeeded_targets(await demo_rows(data, "looking")) == {"http", "nats"}
        await screen.do("send-keys", "C-c")
        await all_gone(mark, within_s=5)


async def test_the_demo_runs_twice_on_one_folder(tmp_path: Path) -> None:
    """A second run fires the same triggers again, and creates nothing anew; off a terminal there is no view."""
    created: list[int] = []
    for _ in range(2):
        async with System(tmp_path / "data", "--demo") as system:
            before = {str(row["key"]) for row in await demo_rows(system.data, system.mark)}

            async def fired(before: set[str] = before, system: System = system) -> bool:
                """Whether both executors had a success that is new."""
                rows = await demo_rows(system.data, system.mark)
                return succeeded_targets([row for row in rows if row["key"] not in before]) == {"http", "nats"}

            await until(fired, timeout_s=FIRES_WITHIN_S, what="both executors succeed")
            created.append(len(system.logged("demo-created")))
            assert await system.stop() == 0
            assert len(system.stdout) == 1
            assert system.noise == []
    assert created == [6, 0]
