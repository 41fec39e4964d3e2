"""Control on a broker of its own for the session: control reads the whole ledger, so it must hold pages only.

Tests use tenants of their own.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from fireledger.runners.broker.folder import DataFolder
from fireledger.runners.broker.process import EmbeddedBroker
from fireledger.runners.jetstream.provisioning import provision
from tests.integration.brokers import TENANTS, RunningBroker
from tests.integration.control.running import Service, running_service


@pytest.fixture(scope="session")
def control_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """One broker for all tests of control."""
    folder = DataFolder.open(tmp_path_factory.mktemp("control") / "data")
    lock = folder.lock()
    running = RunningBroker(EmbeddedBroker(folder, lock, tenants=TENANTS), folder, lock)
    with asyncio.Runner() as runner:
        runner.run(running.process.start())
        runner.run(provision(running.login("admin"), tenants=TENANTS))
        yield running
        runner.run(running.process.stop())
    lock.release()


@pytest_asyncio.fixture
async def service(control_broker: RunningBroker) -> AsyncIterator[Service]:
    """A ready control and a client."""
    async with running_service(control_broker) as running:
        yield running
