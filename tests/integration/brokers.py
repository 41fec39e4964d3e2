"""What the tests share that need a real broker: one to reach or to hurt, and a bare connection to it."""

import os
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from nats.aio.client import Client
from nats.aio.subscription import Subscription

from fireledger.runners.broker.credentials import Credentials
from fireledger.runners.broker.folder import DataFolder, FolderLock
from fireledger.runners.broker.process import EmbeddedBroker
from fireledger.runners.errors import BrokerUnavailable
from fireledger.runners.jetstream.connection import Login
from fireledger.runners.json_edge import Json, dumps, loads
from tests.waiting import PATIENCE_S

TENANTS = ("acme", "globex")
"""The tenants whose executors have a user in every test."""


@dataclass(frozen=True)
class RunningBroker:
    """A started broker with everything a test needs to reach or to hurt it."""

    process: EmbeddedBroker
    folder: DataFolder
    lock: FolderLock

    @property
    def url(self) -> str:
        """The address for clients."""
        return self.process.url

    @property
    def pid(self) -> int:
        """The process id of the broker itself."""
        return self.process.pid

    def credentials(self, user: str) -> Credentials:
        """Name and password of a user of the table."""
        return self.process.credentials(user)

    def login(self, user: str) -> Login:
        """Address, name and password of a user of the table."""
        credentials = self.credentials(user)
        return Login(self.url, credentials.user, credentials.password)


def cut_tail(folder: DataFolder, size: int) -> None:
    """Take bytes off the end of the log's newest block, as a power loss would. Its broker must not run."""
    blocks = sorted(folder.store_path.rglob("streams/LEDGER/msgs/*.blk"), key=lambda path: int(path.stem))
    os.truncate(blocks[-1], blocks[-1].stat().st_size - size)


async def answered(probe: Awaitable[bool]) -> bool:
    """What a look at the broker finds; False when the broker does not answer just now."""
    try:
        return await probe
    except BrokerUnavailable:
        return False


class _Listening(Protocol):
    """The part of the library's client that subscribes, without the types it leaves open."""

    async def subscribe(self, subject: str) -> Subscription: ...


async def _subscribe(client: _Listening, subject: str) -> Subscription:
    return await client.subscribe(subject)


@dataclass
class Bare:
    """A bare connection, which may try what ours never would, and what the broker complained about."""

    client: Client
    complaints: list[str] = field(default_factory=list[str])

    async def ask(self, subject: str, body: Json = None) -> Json:
        """Send a request to the streams' interface and return the answer. Raises what the library raises."""
        answer = await self.client.request(subject, b"" if body is None else dumps(body), timeout=PATIENCE_S)
        return loads(answer.data)

    async def listen(self, subject: str) -> Subscription:
        """Subscribe, and return once the broker has dealt with it."""
        subscription = await _subscribe(self.client, subject)
        await self.flush()
        return subscription

    async def flush(self) -> None:
        """Return once the broker has read everything sent before: the library's first ping overtakes some of it."""
        await self.client.flush()
        await self.client.flush()


@asynccontextmanager
async def bare_connection(broker: RunningBroker, user: str) -> AsyncGenerator[Bare]:
    """Connect as ``user`` without any of our own care."""
    complaints: list[str] = []

    async def complain(error: Exception) -> None:
        complaints.append(str(error))

    credentials = broker.credentials(user)
    client = Client()
    options: dict[str, Any] = {
        "user": credentials.user,
        "password": credentials.password,
        "inbox_prefix": credentials.inbox_prefix,
        "allow_reconnect": False,
        "error_cb": complain,
    }
    await client.connect(broker.url, **options)
    try:
        yield Bare(client, complaints)
    finally:
        await client.close()
