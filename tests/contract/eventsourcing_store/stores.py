"""What the store's tests share: a broker driven from synchronous tests, and factories with streams of their own."""

import asyncio
import itertools
import os
import signal
from collections.abc import Callable, Coroutine, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from eventsourcing.persistence import ApplicationRecorder, InfrastructureFactory, StoredEvent
from eventsourcing.utils import Environment

from fireledger.runners.broker.credentials import credentials_path
from fireledger.runners.broker.folder import DataFolder
from fireledger.runners.broker.process import EmbeddedBroker
from fireledger.runners.eventsourcing_store import JetStreamFactory
from fireledger.runners.jetstream.connection import Login
from fireledger.runners.jetstream.provisioning import provision
from tests.waiting import until_sync

MODULE = "fireledger.runners.eventsourcing_store"
_numbers = itertools.count(1)


class Broker:
    """A broker whose process lives on a loop of its own, so that synchronous tests can stop and start it."""

    def __init__(self, process: EmbeddedBroker, run: Callable[[Coroutine[None, None, object]], object]) -> None:
        self._process = process
        self._run = run

    @property
    def url(self) -> str:
        """The address for clients."""
        return self._process.url

    def credentials_file(self, user: str = "store") -> str:
        """The path of a user's credentials."""
        return str(credentials_path(self._process.folder.credentials_path, user))

    def login(self, user: str = "store") -> Login:
        """A user's login."""
        credentials = self._process.credentials(user)
        return Login(self.url, credentials.user, credentials.password)

    def provision(self) -> None:
        """Make the streams of the product."""
        self._run(provision(self.login("admin")))

    def kill_and_restart(self) -> None:
        """Kill the broker as kill -9 does, and start it again."""
        os.kill(self._process.pid, signal.SIGKILL)
        self._run(self._process.restart())

    @contextmanager
    def frozen(self) -> Generator[None, None, None]:
        """Freeze the broker: it takes bytes into its sockets and answers nothing."""
        pid = self._process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            until_sync(lambda: _is_stopped(pid), what="the broker is frozen")
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


def _is_stopped(pid: int) -> bool:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return all(task.joinpath("stat").read_text("ascii").rpartition(")")[2].split()[0] == "T" for task in tasks)


@contextmanager
def running_broker(path: Path) -> Generator[Broker, None, None]:
    """Run a broker over a fresh data folder."""
    folder = DataFolder.open(path)
    lock = folder.lock()
    process = EmbeddedBroker(folder, lock)
    with asyncio.Runner() as runner:
        runner.run(process.start())
        yield Broker(process, runner.run)
        runner.run(process.stop())
    lock.release()


class Store:
    """Factories for one test, with a prefix that no other test has."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.prefix = f"t{next(_numbers)}"
        self._stack = ExitStack()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def env(self, **more: str) -> dict[str, str]:
        """The variables of a store in this test's streams."""
        return {
            "PERSISTENCE_MODULE": MODULE,
            "NATS_URL": self.broker.url,
            "NATS_CREDS": self.broker.credentials_file(),
            "JETSTREAM_PREFIX": self.prefix,
            **more,
        }

    def factory(self, name: str = "", **more: str) -> JetStreamFactory:
        """A factory for the application ``name``, else for one that this test has not had yet."""
        environment = Environment(name or f"app{next(_numbers)}", self.env(**more))
        made = InfrastructureFactory.construct(environment)
        assert isinstance(made, JetStreamFactory)
        self._stack.callback(made.close)
        return made

    def recorder(self, name: str = "", **more: str) -> ApplicationRecorder:
        """An application recorder, with nothing remembered."""
        return self.factory(name, **more).application_recorder()


def event(originator: str, version: int, topic: str = "topic", state: bytes = b"state") -> StoredEvent:
    """A stored event."""
    return StoredEvent(originator, version, topic, state)


def events(originator: str, versions: range, topic: str = "topic") -> list[StoredEvent]:
    """Consecutive events of one originator."""
    return [event(originator, version, topic, f"state {version}".encode()) for version in versions]
