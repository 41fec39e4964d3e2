"""Runners as real processes on a test's broker, and what it takes to freeze, wake and read them."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from fireledger.runners.broker.credentials import credentials_path
from fireledger.runners.json_edge import Json, MalformedJson, loads
from tests.integration.brokers import RunningBroker
from tests.waiting import PATIENCE_S, until

RUNNERS = {"scheduler": "log-folded", "dispatcher": "dispatcher-ready", "control": "control-ready"}
"""Each kind of runner, and what it logs once it has read the log."""
ROOT = Path(__file__).parents[3]
WITHIN_S = PATIENCE_S
"""A runner is up in about a second on an idle machine, and has drained in less."""


class Runner:
    """One process, with the lines it logged so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.logs: list[dict[str, Json]] = []
        self.noise: list[str] = []
        """What it said that is not JSON, such as a traceback."""
        self._process = process

    async def read(self) -> None:
        """Take in its log until it ends."""
        assert self._process.stderr is not None
        while text := await self._process.stderr.readline():
            try:
                line = loads(text)
            except MalformedJson:
                self.noise.append(text.decode())
                continue
            if isinstance(line, dict):
                self.logs.append(line)

    def logged(self, action: str, **fields: Json) -> list[dict[str, Json]]:
        """The log lines with that action and those fields."""
        wanted = {"action": action, **fields}
        return [line for line in self.logs if wanted.items() <= line.items()]

    async def until_logged(self, action: str, *, timeout_s: float = WITHIN_S) -> None:
        """Wait for a log line. Fails at once when the process ends without it."""
        await until(lambda: bool(self.logged(action)) or self.ended, timeout_s=timeout_s, what=f"{action} is logged")
        assert self.logged(action), (self.logs, self.noise)

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.returncode is not None

    async def status(self, within_s: float) -> int:
        """Wait for its end; the exit status."""
        async with asyncio.timeout(within_s):
            return await self._process.wait()

    async def until_frozen(self, *, timeout_s: float = WITHIN_S) -> None:
        """Wait until every thread of it is stopped."""
        await until(self._is_frozen, timeout_s=timeout_s, what="the process is frozen")

    async def freeze(self) -> None:
        """Stop it without ending it."""
        self._process.send_signal(signal.SIGSTOP)
        await self.until_frozen()

    def wake(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    async def interrupt(self, *, within_s: float = WITHIN_S) -> int:
        """Tell it to stop, as Ctrl-C would; the exit status. Fails when it has ended already."""
        assert not self.ended, (self._process.returncode, self.logs, self.noise)
        self._process.send_signal(signal.SIGINT)
        return await self.status(within_s)

    def kill(self) -> None:
        """End it if it still runs."""
        with suppress(ProcessLookupError):
            self._process.kill()

    def _is_frozen(self) -> bool:
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/stat")
        return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in threads)


@asynccontextmanager
async def module(*arguments: str) -> AsyncGenerator[Runner, None]:
    """A Python module in a process of its own, killed at the end of the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *arguments,
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("FIRELEDGER_")},
    )
    runner = Runner(process)
    reading = asyncio.create_task(runner.read())
    try:
        yield runner
    finally:
        runner.kill()
        await process.wait()
        await reading


def credentials(broker: RunningBroker, user: str) -> str:
    """The path of a user's credentials file."""
    return str(credentials_path(broker.folder.credentials_path, user))


@asynccontextmanager
async def running(broker: RunningBroker, kind: str) -> AsyncGenerator[Runner, None]:
    """A runner as anybody would start it beside the broker, on this machine's clock."""
    options = ("--nats-url", broker.url, "--creds", credentials(broker, kind), "--local", "--clock-bound", "10ms")
    async with module("fireledger.runners.cli.main", "run", kind, *options) as runner:
        yield runner
