"""Connections for the dispatcher's tests, and the executor that listens over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest_asyncio

from fireledger.runners.jetstream.connection import BrokerConnection
from tests.integration.brokers import RunningBroker
from tests.integration.dispatcher.driving import BookWriter
from tests.integration.dispatcher.executors import Recorder, recorder

Connect = Callable[[str], Awaitable[BrokerConnection]]


@pytest_asyncio.fixture
async def connect(broker: RunningBroker) -> AsyncIterator[Connect]:
    """Connect to the test's broker as often as needed."""
    opened: list[BrokerConnection] = []

    async def one(user: str) -> BrokerConnection:
        opened.append(await BrokerConnection.open(broker.login(user), name=f"test-{user}"))
        return opened[-1]

    yield one
    await asyncio.gather(*(connection.close() for connection in opened))


@pytest_asyncio.fixture
async def scheduler(connect: Connect) -> BrokerConnection:
    """The scheduler's connection: writes books, reads everything."""
    return await connect("scheduler")


@pytest_asyncio.fixture
async def book(scheduler: BrokerConnection) -> BookWriter:
    """The book of tenant acme."""
    return BookWriter(scheduler)


@pytest_asyncio.fixture
async def http() -> AsyncIterator[Recorder]:
    """A recording HTTP executor."""
    async with recorder() as recording:
        yield recording
