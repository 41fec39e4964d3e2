"""One machine's Fireledger: locks the data folder, runs broker and runners, keeps them up, stops them in order."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..broker.credentials import ensure_report_key
from ..broker.folder import DataFolder
from ..broker.process import EmbeddedBroker
from ..control_client import ControlClient
from ..errors import OperationalError
from ..jetstream.connection import BrokerConnection, Login
from ..jetstream.provisioning import provision, verify_accounts
from ..jetstream.topology import UserName
from ..json_edge import Json
from ..lifecycle import Backoff, pause, unless_stopped
from ..logs import get_log
from ..outcome_address import outcome_url
from .child import RESTART_FIRST_S, RESTART_MAX_S, STABLE_S, Child, ChildCommand, runner_command
from .high_water import HighWater
from .kept_port import choose_port
from .log_output import log_output

RUNNERS_STOP_WITHIN_S = 3.5
"""Runners drain in this time; with the broker's clean stop after it, ``up`` ends in under 5 seconds."""
READY_POLL_S = 0.1
TENANTS_POLL_S = 1.0
"""How soon a new tenant's executors get their user."""
EXECUTORS_AT_ONCE_MAX = 20
"""Users added between two looks at the tenants: each is a reload of the broker."""
EXECUTOR_TENANTS_MAX = 200
"""Tenants whose executors get a user of an embedded broker: each costs an account and a bucket."""
READY_WITHIN_S = 60.0
"""How long ``up`` waits for every runner to be ready before it says that something is wrong."""

_log = get_log("supervisor")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What ``up`` was asked for. ``runner_options`` are passed to every runner as they are, others to theirs only.

    ``logs_to_file``: everybody's logs go to a file in the data folder instead of stderr, from the lock to the end.
    ``extra`` gives further processes; it is told which ports are taken.
    ``overdue`` is called when the runners take too long to be ready.
    """

    data: Path
    port: int = 0
    outcome_port: int | None = None
    tenants: tuple[str, ...] = ()
    runner_options: tuple[str, ...] = ()
    scheduler_options: tuple[str, ...] = ()
    logs_to_file: bool = False
    extra: Callable[[EmbeddedBroker, frozenset[int]], Awaitable[list[ChildCommand]]] | None = None
    overdue: Callable[[], None] | None = None


@dataclass(slots=True)
class Running:
    """What is running: handed to the callback that ``up`` calls when everything is ready."""

    broker: EmbeddedBroker
    children: dict[str, Child]
    operator: ControlClient
    outcome_url: str
    """Where executors report outcomes over HTTP."""
    ready: asyncio.Event = field(default_factory=asyncio.Event)


class Supervisor:
    """Runs one machine's Fireledger."""

    def __init__(self, options: UpOptions, on_ready: Callable[[Running], Awaitable[None]]) -> None:
        self._options = options
        self._on_ready = on_ready

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop``. Raises FolderInUse, FolderUnusable, BrokerUnavailable, SettingsDiffer at start.

        A failure of the supervisor itself sets ``stop``, and is raised once everything has ended in order; so does
        RunnerGaveUp, when a runner found that the log lost what it had read.
        """
        folder = DataFolder.open(self._options.data)
        lock = folder.lock()
        try:
            with log_output(folder.path, to_file=self._options.logs_to_file) as output:
                broker = EmbeddedBroker(folder, lock, port=self._options.port, tenants=self._options.tenants)
                await broker.start()
                try:
                    await self._run_on(broker, output, stop)
                finally:
                    await broker.stop()
        finally:
            lock.release()

    async def _run_on(self, broker: EmbeddedBroker, output: int, stop: asyncio.Event) -> None:
        await provision(login_of(broker, UserName.ADMIN), tenants=broker.tenants)
        await verify_accounts(login_of(broker, UserName.SYSTEM), tenants=broker.tenants)
        watcher = await BrokerConnection.open(login_of(broker, UserName.REPLAY), name="high-water")
        try:
            high_water = HighWater(broker.folder.path, watcher)
            await high_water.check()
            await self._run_runners(broker, output, high_water, stop)
        finally:
            await watcher.close()

    async def _run_runners(
        self, broker: EmbeddedBroker, output: int, high_water: HighWater, stop: asyncio.Event
    ) -> None:
        folder = broker.folder
        ensure_report_key(folder.report_key_path)
        alone = frozenset({broker.port})
        port = choose_port(folder.outcome_port_path, wanted=self._options.outcome_port, leave_alone=alone)
        url, key = outcome_url(port), ("--report-key", str(folder.report_key_path))
        commands = [
            self._runner(broker, "control", *key, "--outcome-port", str(port)),
            self._runner(broker, "scheduler", *self._options.scheduler_options),
            self._runner(broker, "dispatcher", *key, "--report-url", url),
        ]
        if self._options.extra is not None:
            commands.extend(await self._options.extra(broker, alone | {port}))
        children = {command.name: Child(command, output=output) for command in commands}
        operator = await BrokerConnection.open(login_of(broker, UserName.OPERATOR), name="supervisor")
        running = Running(broker, children, ControlClient(operator), url)
        parts = [child.run(stop, stop_within_s=RUNNERS_STOP_WITHIN_S) for child in children.values()]
        parts += [self._keep_broker(broker, stop), self._announce(running, stop), self._admit_executors(running, stop)]
        parts.append(high_water.keep(stop))
        try:
            await _all_until_stopped(parts, stop)
        finally:
            await operator.close()

    def _runner(self, broker: EmbeddedBroker, kind: str, *options: str) -> ChildCommand:
        credentials = broker.folder.credentials_path / f"{kind}.json"
        address = ("--nats-url", broker.url, "--creds", str(credentials), "--local")
        return runner_command(kind, *address, *options, *self._options.runner_options)

    async def _announce(self, running: Running, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        overdue_at = loop.time() + READY_WITHIN_S
        while not await self._is_ready(running):
            if loop.time() > overdue_at:
                _log.error("not-ready", after_s=READY_WITHIN_S, hint="see what the runners logged above")
                overdue_at = loop.time() + READY_WITHIN_S
                if self._options.overdue is not None:
                    self._options.overdue()
            if await pause(READY_POLL_S, stop):
                return
        running.ready.set()
        await self._on_ready(running)

    async def _is_ready(self, running: Running) -> bool:
        try:
            status = await running.operator.ask("control.status", {}, timeout_s=2.0)
        except OperationalError:
            return False
        return isinstance(status, dict) and status.get("ready") is True

    async def _admit_executors(self, running: Running, stop: asyncio.Event) -> None:
        """Give each new tenant's executors a broker user and their deduplication bucket."""
        if await unless_stopped(stop, running.ready.wait()) is None:
            return
        while not await pause(TENANTS_POLL_S, stop):
            try:
                answer = await running.operator.ask("control.tenant.list", {}, timeout_s=5.0)
                for tenant in sorted(set(_names(answer)) - set(running.broker.tenants))[:EXECUTORS_AT_ONCE_MAX]:
                    await self._admit(running.broker, tenant)
            except OperationalError as error:
                _log.warning("executor-users-waiting", reason=error.message)

    async def _admit(self, broker: EmbeddedBroker, tenant: str) -> None:
        if len(broker.tenants) >= EXECUTOR_TENANTS_MAX:
            return
        await broker.add_executor(tenant)
        await provision(login_of(broker, UserName.ADMIN), tenants=broker.tenants)
        _log.info("executor-user-added", tenant=tenant)

    async def _keep_broker(self, broker: EmbeddedBroker, stop: asyncio.Event) -> None:
        backoff, loop = Backoff(RESTART_FIRST_S, RESTART_MAX_S), asyncio.get_running_loop()
        while not stop.is_set():
            started_at = loop.time()
            status = await unless_stopped(stop, broker.wait())
            if status is None:
                return
            if loop.time() - started_at > STABLE_S:
                backoff.reset()
            _log.error("broker-ended", status=status)
            await self._restart_broker(broker, backoff, stop)

    async def _restart_broker(self, broker: EmbeddedBroker, backoff: Backoff, stop: asyncio.Event) -> None:
        """Try until it runs again: its port may be taken for a moment, its disk full for longer."""
        while not await pause(backoff.next_s(), stop):
            try:
                if await unless_stopped(stop, broker.restart()) is None:
                    return
            except OperationalError as error:
                _log.error("broker-restart-failed", reason=error.message, hint=error.hint)
                continue
            _log.info("broker-restarted", pid=broker.pid)
            return


async def _all_until_stopped(parts: Sequence[Coroutine[None, None, None]], stop: asyncio.Event) -> None:
    """Run the parts until all have ended. What fails ends the whole, but in order: the others get time to drain."""

    def on_end(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            stop.set()

    tasks = [asyncio.create_task(part) for part in parts]
    for task in tasks:
        task.add_done_callback(on_end)
    failures = [ended for ended in await asyncio.gather(*tasks, return_exceptions=True) if ended is not None]
    if failures:
        raise failures[0]


def _names(answer: Json) -> list[str]:
    rows = answer.get("rows") if isinstance(answer, dict) else None
    names = [row.get("tenant") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [name for name in names if isinstance(name, str)]


def login_of(broker: EmbeddedBroker, user: str) -> Login:
    """The login of one of the embedded broker's users."""
    credentials = broker.credentials(user)
    return Login(broker.url, credentials.user, credentials.password)
