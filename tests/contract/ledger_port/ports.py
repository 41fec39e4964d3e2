"""The log, its reader and the bucket as their callers know them, and what the contract is run on."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Protocol

from fireledger.runners.broker.folder import DataFolder
from fireledger.runners.broker.process import EmbeddedBroker
from fireledger.runners.clock import realtime
from fireledger.runners.jetstream.buckets import Bucket, Entry
from fireledger.runners.jetstream.connection import BrokerConnection, Login
from fireledger.runners.jetstream.leader import Stored
from fireledger.runners.jetstream.ledger import Append, Committed, Ledger, Lost
from fireledger.runners.jetstream.provisioning import provision
from fireledger.runners.jetstream.reader import Checkpoint, PullReader
from tests.integration.brokers import cut_tail
from tests.simulation.broker import Link, SimulatedBroker
from tests.simulation.clients import SimulatedBucket, SimulatedLedger, SimulatedReader
from tests.waiting import PATIENCE_S


class LedgerPort(Protocol):
    """The writer."""

    def note_seen(self, sequence: int, digest: bytes = b"") -> None:
        """Tell of a message read elsewhere."""
        ...

    async def head(self, subject: str) -> Stored | None:
        """The newest message on a subject."""
        ...

    async def last_sequence(self) -> int:
        """The log's last sequence."""
        ...

    async def append(self, append: Append) -> Committed | Lost:
        """Append one."""
        ...

    async def append_many(self, appends: Sequence[Append]) -> list[Committed | Lost]:
        """Append several."""
        ...


class ReaderPort(Protocol):
    """The reader."""

    def batches(self) -> AsyncGenerator[list[Stored], None]:
        """What arrives."""
        ...

    async def close(self) -> None:
        """End it."""
        ...


class BucketPort(Protocol):
    """The bucket."""

    async def get(self, key: str) -> Entry | None:
        """A key's entry."""
        ...

    async def put_if(self, key: str, value: bytes, revision: int) -> int | None:
        """Set a key."""
        ...

    async def delete_if(self, key: str, revision: int) -> bool:
        """Delete a key."""
        ...

    async def entries(self, prefix: str = "") -> list[Entry]:
        """List keys."""
        ...


class Ports(Protocol):
    """A broker to run the contract on; each call gives a process of its own."""

    async def ledger(self) -> LedgerPort:
        """A writer."""
        ...

    async def reader(self, after: int = 0) -> ReaderPort:
        """A reader of what follows a sequence."""
        ...

    async def bucket(self) -> BucketPort:
        """The bucket of leases."""
        ...

    async def lose_tail(self) -> None:
        """Have the broker come back without its newest messages, of which there are at least ten."""
        ...


class SimulatedPorts:
    """The broker of the simulation, on an ordinary event loop."""

    def __init__(self) -> None:
        self._broker = SimulatedBroker(realtime)
        self._random = Random(1)

    async def ledger(self) -> LedgerPort:
        """A writer on a link of its own."""
        return SimulatedLedger(Link(self._broker, self._random))

    async def reader(self, after: int = 0) -> ReaderPort:
        """A reader on a link of its own."""
        return SimulatedReader(Link(self._broker, self._random), after=after)

    async def bucket(self) -> BucketPort:
        """The bucket, on a link of its own."""
        return SimulatedBucket(Link(self._broker, self._random))

    async def lose_tail(self) -> None:
        """Lose five."""
        self._broker.lose_tail(5)


class RealPorts:
    """A real broker."""

    def __init__(self, process: EmbeddedBroker) -> None:
        self._process = process
        self._login = _login(process, "scheduler")
        self._opened: list[BrokerConnection] = []

    async def _connection(self) -> BrokerConnection:
        self._opened.append(await BrokerConnection.open(self._login, name="contract"))
        return self._opened[-1]

    async def ledger(self) -> LedgerPort:
        """A writer on a connection of its own."""
        return Ledger(await self._connection())

    async def reader(self, after: int = 0) -> ReaderPort:
        """A reader on a connection of its own."""
        return PullReader(await self._connection(), after=Checkpoint(after, b""))

    async def bucket(self) -> BucketPort:
        """The bucket, on a connection of its own."""
        return Bucket(await self._connection(), "leases")

    async def lose_tail(self) -> None:
        """Kill it, cut its store, start it again, and wait until all are connected."""
        os.kill(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        cut_tail(self._process.folder, 1_000)
        await self._process.restart()
        assert all(await asyncio.gather(*(each.wait_connected(PATIENCE_S) for each in self._opened)))

    async def close(self) -> None:
        """Close every connection."""
        await asyncio.gather(*(connection.close() for connection in self._opened))


@asynccontextmanager
async def real_ports(path: Path) -> AsyncGenerator[Ports, None]:
    """A broker of the test's own, provisioned."""
    folder = DataFolder.open(path)
    lock = folder.lock()
    process = EmbeddedBroker(folder, lock, tenants=())
    await process.start()
    try:
        await provision(_login(process, "admin"), tenants=())
        ports = RealPorts(process)
        yield ports
        await ports.close()
    finally:
        await process.stop()
        lock.release()


def _login(process: EmbeddedBroker, user: str) -> Login:
    credentials = process.credentials(user)
    return Login(process.url, credentials.user, credentials.password)
