"""Connections and writers for the tests of the ledger, closed at the end of each test."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.ledger import Ledger
from tests.integration.brokers import RunningBroker
from tests.integration.ledger.books import Connect


@pytest_asyncio.fixture
async def connect(broker: RunningBroker) -> AsyncIterator[Connect]:
    """Connect to the test's broker as often as needed."""
    opened: list[BrokerConnection] = []

    async def one(user: str) -> BrokerConnection:
        """Connect once."""
        opened.append(await BrokerConnection.open(broker.login(user), name=f"test-{user}"))
        return opened[-1]

    yield one
    await asyncio.gather(*(connection.close() for connection in opened))


@pytest_asyncio.fixture
async def connection(connect: Connect) -> BrokerConnection:
    """The scheduler's connection."""
    return await connect("scheduler")


@pytest_asyncio.fixture
async def ledger(connection: BrokerConnection) -> Ledger:
    """A writer with the scheduler's rights."""
    return Ledger(connection)
