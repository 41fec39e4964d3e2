"""A real broker for integration tests: started, provisioned, stopped; in a folder of its own.

``broker`` is fresh for each test (about 0.15 s). ``shared_broker`` is one for the session, for tests that stop nothing,
alter nothing and use tenants of their own. ``measured`` takes figures that are shown at the end of the run.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from fireledger.runners.broker.folder import DataFolder, FolderLock
from fireledger.runners.broker.process import EmbeddedBroker
from fireledger.runners.jetstream.provisioning import provision
from tests.integration.brokers import TENANTS, RunningBroker


@pytest.fixture
def broker_folder(tmp_path: Path) -> DataFolder:
    """A fresh data folder that nobody has locked."""
    return DataFolder.open(tmp_path / "data")


@pytest.fixture
def broker_lock(broker_folder: DataFolder) -> Iterator[FolderLock]:
    """The lock of the fresh folder, held for the test."""
    lock = broker_folder.lock()
    yield lock
    lock.release()


@pytest_asyncio.fixture
async def bare_broker(broker_folder: DataFolder, broker_lock: FolderLock) -> AsyncIterator[RunningBroker]:
    """A started broker without any stream."""
    process = EmbeddedBroker(broker_folder, broker_lock, tenants=TENANTS)
    await process.start()
    yield RunningBroker(process, broker_folder, broker_lock)
    await process.stop()


@pytest_asyncio.fixture
async def broker(bare_broker: RunningBroker) -> RunningBroker:
    """A started broker with every stream and bucket of the table."""
    await provision(bare_broker.login("admin"), tenants=TENANTS)
    return bare_broker


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """One broker for the whole session, with every stream and bucket of the table."""
    folder = DataFolder.open(tmp_path_factory.mktemp("broker") / "data")
    lock = folder.lock()
    running = RunningBroker(EmbeddedBroker(folder, lock, tenants=TENANTS), folder, lock)
    # A loop of its own: the broker's process outlives the loop of any one test.
    with asyncio.Runner() as runner:
        runner.run(running.process.start())
        runner.run(provision(running.login("admin"), tenants=TENANTS))
        yield running
        runner.run(running.process.stop())
    lock.release()


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Take a line that is shown at the end of the run, and kept with the test's result."""
    return lambda text: record_property("measured", text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the figures."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    figures = [
        f"{report.nodeid.partition('::')[2]}: {text}"
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, text in report.user_properties
        if name == "measured"
    ]
    if figures:
        terminalreporter.section("measured")
        for figure in figures:
            terminalreporter.write_line(figure)
