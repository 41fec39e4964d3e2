"""``fireledger up --demo`` as a person sees it: on a terminal, with both executors, once and once more."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

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
async def terminal(mark: str, *command: str) -> AsyncGenerator["Terminal", None]:
    """A terminal multiplexer with one window that runs the command; gone in the end."""
    # A socket's path has at most about 100 characters, and a test's own folder can be deeper than that.
    with TemporaryDirectory(prefix="fl-") as folder:
        shown = Terminal(f"{folder}/tmux")
        await shown.do(
            *("new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES)),
            *command,
            # A width in the environment, as a test's worker has one, would win over the window's own.
            environ={**environment(mark), "TERM": "", "COLUMNS": str(COLUMNS), "LINES": str(LINES)},
        )
        try:
            yield shown
        finally:
            # Closing a terminal ends what runs in it.
            await shown.do("kill-server")
            await all_gone(mark)


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


async def look_at_the_view(data: Path) -> None:
    """Run on a terminal until fires at both executors are on the screen; then press Ctrl-C."""
    mark = f"demo-{new_request_id()}"
    async with terminal(mark, *FIRELEDGER, "up", "--demo", "--data", str(data)) as screen:

        async def shows_both() -> bool:
            """Whether fires at both executors are on the screen."""
            fires = [match["trigger"] for match in map(_FIRE.match, await screen.lines()) if match]
            return {"every-2-seconds", "every-5-seconds"} <= set(fires)

        try:
            await until(shows_both, timeout_s=FIRES_WITHIN_S, what="fires at both executors")
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *await screen.lines()])) from error
        text = "\n".join(await screen.lines())
        assert "Fireledger on nats://127.0.0.1:" in text
        assert re.search(r"succeeded \d+ .*delay p50 [\d,]+ ms, p99 ", text), text
        header = "^trigger +scheduled +decided +dispatched +late ms +delay ms +state +outcome$"
        assert re.search(header, text, re.MULTILINE), text
        assert str(data / "up.log") in text.replace("\n", ""), text
        assert "runner-started" not in text
        assert "runner-started" in (data / "up.log").read_text()
        assert succeeded_targets(await demo_rows(data, "looking")) == {"http", "nats"}
        await screen.do("send-keys", "C-c")
        await all_gone(mark)


async def run_off_a_terminal(data: Path) -> int:
    """Run until both executors have a success that is new; how much of the demo was created."""
    async with System(data, "--demo") as system:
        before = {str(row["key"]) for row in await demo_rows(system.data, system.mark)}

        async def fired() -> bool:
            """Whether both executors had a success that is new."""
            rows = await demo_rows(system.data, system.mark)
            return succeeded_targets([row for row in rows if row["key"] not in before]) == {"http", "nats"}

        await until(fired, timeout_s=FIRES_WITHIN_S, what="both executors succeed")
        rows = await demo_rows(system.data, system.mark)
        versions = {str(row["version"]) for row in rows if row["trigger"] == "every-5-seconds"}
        assert len(versions) == 1, "no start changes the address that fires still to be retried are pinned to"
        assert await system.stop() == 0
        assert len(system.stdout) == 1
        assert system.noise == []
        return len(system.logged("demo-created"))


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed, and nothing else here is a terminal")
async def test_the_demo_shows_its_fires_and_runs_twice(tmp_path: Path) -> None:
    """Each fire is one whole line, logs stay out of the view, Ctrl-C ends it; a second run goes on with the first's."""
    await look_at_the_view(tmp_path / "data")
    assert await run_off_a_terminal(tmp_path / "data") == 0


@pytest.mark.skipif(shutil.which("tmux") is not None, reason="tmux is installed: the same is seen on a terminal")
async def test_the_demo_runs_twice(tmp_path: Path) -> None:
    """Both executors are fired at, also when it runs a second time, which creates nothing anew."""
    assert await run_off_a_terminal(tmp_path / "data") > 0
    assert await run_off_a_terminal(tmp_path / "data") == 0
