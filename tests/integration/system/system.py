"""A whole Fireledger in real processes, started by ``fireledger up``: what a test needs to ask it and to hurt it."""

import asyncio
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from fireledger.runners.broker.credentials import credentials_path, load_credentials
from fireledger.runners.broker.folder import DataFolder
from fireledger.runners.control_client import ControlClient
from fireledger.runners.errors import OperationalError
from fireledger.runners.identity import new_request_id
from fireledger.runners.jetstream.connection import BrokerConnection, Login
from fireledger.runners.jetstream.topology import executor_user
from fireledger.runners.json_edge import Json, MalformedJson, loads
from tests.waiting import PATIENCE_S, until

FIRELEDGER = (sys.executable, "-m", "fireledger.runners.cli.main")
RUNNERS = ("control", "scheduler", "dispatcher")
READY_S = 90
"""A start takes about two seconds on an idle machine."""
STOP_S = 5.0
"""The promise for an idle machine: one interrupt drains and stops everything in less."""
LOG_LINES_MAX = 100_000
COMMANDS_AT_ONCE = 16
_MARK = "FIRELEDGER_TEST_MARK"
_READY = re.compile(r'ready data=(\S+) broker=(nats://127\.0\.0\.1:\d+) clock="([^"]+)" epsilon=(\S+) outcomes=\S+')


@dataclass(frozen=True)
class Ended:
    """How a process ended and what it said."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Ready:
    """The ready line."""

    data: str
    broker: str
    clock: str
    epsilon: str


def environment(mark: str, data: Path | None = None) -> dict[str, str]:
    """This process's environment, without its own settings of Fireledger, and with a mark that children inherit."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FIRELEDGER_")}
    if data is not None:
        kept["FIRELEDGER_DATA"] = str(data)
    return {**kept, _MARK: mark}


async def run(*arguments: str, data: Path | None = None, mark: str = "command", timeout_s: float = PATIENCE_S) -> Ended:
    """Run ``fireledger`` with these arguments to its end."""
    process = await asyncio.create_subprocess_exec(
        *FIRELEDGER,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(mark, data),
    )
    try:
        async with asyncio.timeout(timeout_s):
            stdout, stderr = await process.communicate()
    except TimeoutError:
        process.kill()
        raise
    return Ended(process.returncode or 0, stdout.decode(), stderr.decode())


def marked_processes(mark: str) -> list[int]:
    """Process ids of everything that was started, directly or not, with that mark."""
    wanted = f"{_MARK}={mark}".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if wanted in variables:
                found.append(int(entry.name))
    return found


def end(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process that may have ended already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


async def all_gone(mark: str) -> None:
    """Wait until nothing with the mark is left; kill what is, and fail."""
    try:
        await until(lambda: not marked_processes(mark), what="every process is gone")
    finally:
        for pid in marked_processes(mark):
            end(pid)


class System:
    """``fireledger up`` on a data folder. As a context manager it is ready inside, and nothing is left after it."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.mark = f"{data}-{new_request_id()}"
        self.logs: deque[dict[str, Json]] = deque(maxlen=LOG_LINES_MAX)
        """What was logged so far, by ``up`` and by its runners."""
        self.noise: list[str] = []
        """Lines on stderr that are not JSON."""
        self.stdout: list[str] = []
        """Lines on stdout so far."""
        self._options = options
        self._process: asyncio.subprocess.Process | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        self._client: ControlClient | None = None

    # Life

    async def __aenter__(self) -> "System":
        """Start and wait until it says that it is ready."""
        async with AsyncExitStack() as unless_ready:
            unless_ready.push_async_callback(self.close)
            await self.start()
            await until(lambda: bool(self.stdout) or self.ended, timeout_s=READY_S, what="the ready line")
            assert not self.ended, list(self.logs) + self.noise
            self._client = ControlClient(await self.connect("operator"))
            unless_ready.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop if it still runs; nothing may be left."""
        await self.close()

    async def start(self) -> None:
        """Start without waiting."""
        process = await asyncio.create_subprocess_exec(
            *FIRELEDGER,
            "up",
            "--data",
            str(self.data),
            *self._options,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(self.mark),
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._readers = [
            asyncio.create_task(self._read(process.stdout, self.stdout.append)),
            asyncio.create_task(self._read(process.stderr, self._note)),
        ]

    async def stop(self, *, within_s: float = PATIENCE_S) -> int:
        """Interrupt once and return the exit status."""
        self.interrupt()
        return await self.wait(within_s)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        end(self.pid, signal.SIGINT)

    async def wait(self, within_s: float) -> int:
        """Wait for ``up`` to end and return its exit status."""
        assert self._process is not None
        async with asyncio.timeout(within_s):
            return await self._process.wait()

    async def close(self) -> None:
        """Stop if it still runs, and make sure that nothing is left."""
        await self._stack.aclose()
        if self._process is not None and not self.ended:
            self.interrupt()
            try:
                await self.wait(PATIENCE_S)
            except TimeoutError:
                self._process.kill()
        await all_gone(self.mark)
        await asyncio.gather(*self._readers)

    async def _read(self, stream: asyncio.StreamReader, take: Callable[[str], None]) -> None:
        while line := await stream.readline():
            take(line.decode().rstrip("\n"))

    def _note(self, line: str) -> None:
        try:
            content = loads(line)
        except MalformedJson:
            self.noise.append(line)
            return
        if isinstance(content, dict):
            self.logs.append(content)

    # What runs

    @property
    def ready(self) -> Ready:
        """What the ready line says."""
        match = _READY.fullmatch(self.stdout[0])
        assert match is not None, self.stdout
        return Ready(*match.groups())

    @property
    def pid(self) -> int:
        """The process id of ``up``."""
        assert self._process is not None
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether ``up`` has ended."""
        return self._process is not None and self._process.returncode is not None

    def logged(self, action: str, **fields: Json) -> list[dict[str, Json]]:
        """The log lines with that action and those fields."""
        wanted = {"action": action, **fields}
        return [line for line in tuple(self.logs) if wanted.items() <= line.items()]

    def pid_of(self, runner: str) -> int:
        """The process id of a runner, as last logged; the broker's from its address."""
        if runner == "broker":
            address = DataFolder(self.data).read_address()
            return 0 if address is None else address.pid
        pid = self.logged("runner-started", runner=runner)[-1]["pid"]
        assert isinstance(pid, int)
        return pid

    def kill(self, runner: str) -> int:
        """Kill a runner or the broker with -9; the process id, 0 when it is not running now."""
        pid = self.pid_of(runner)
        if not pid or not is_running(pid):
            return 0
        end(pid)
        return pid

    # Asking

    @property
    def client(self) -> ControlClient:
        """Asks control as the operator."""
        assert self._client is not None
        return self._client

    def login(self, user: str) -> Login:
        """The login of a user of the data folder's broker."""
        folder = DataFolder(self.data)
        credentials = load_credentials(credentials_path(folder.credentials_path, user))
        return Login(self.ready.broker, credentials.user, credentials.password)

    async def connect(self, user: str) -> BrokerConnection:
        """A connection that is closed with the system."""
        connection = await BrokerConnection.open(self.login(user), name=f"test-{user}")
        self._stack.push_async_callback(connection.close)
        return connection

    async def cli(self, *arguments: str) -> Ended:
        """Run a command against this system."""
        return await run(*arguments, data=self.data, mark=self.mark)

    async def ask(self, subject: str, **request: Json) -> dict[str, Json]:
        """Ask control for one object."""
        answer = await self.client.ask(f"control.{subject}", request)
        assert isinstance(answer, dict)
        return answer

    async def create_tenants(self, *tenants: str) -> None:
        """Create tenants and wait until their executors may log in."""
        for tenant in tenants:
            await self.ask("tenant.create", tenant=tenant)
        added = {executor_user(tenant): tenant for tenant in tenants}
        await until(
            lambda: all(self.logged("executor-user-added", tenant=tenant) for tenant in added.values()),
            what="the tenants' executors have users",
        )

    async def create_triggers(self, triggers: Iterable[Mapping[str, Json]]) -> None:
        """Create many triggers, several at a time."""
        places = asyncio.Semaphore(COMMANDS_AT_ONCE)

        async def create(options: Mapping[str, Json]) -> None:
            """Create one when there is a place."""
            async with places:
                await self.client.ask("control.trigger.create", options)

        async with asyncio.TaskGroup() as group:
            for options in triggers:
                group.create_task(create(options))

    async def is_ready(self) -> bool:
        """Whether control says that everything is ready."""
        try:
            return (await self.ask("status"))["ready"] is True
        except OperationalError:
            return False


def is_running(pid: int) -> bool:
    """Whether a process exists and is not merely waiting to be collected."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
