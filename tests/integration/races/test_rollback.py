"""The broker's store lost its tail: whoever saw more stops, also when the sequences are in use again."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fireledger.runners.broker.folder import DataFolder
from fireledger.runners.errors import ExitStatus
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.ledger import Ledger
from fireledger.runners.jetstream.topology import LEDGER
from tests.integration.brokers import RunningBroker, answered, cut_tail
from tests.integration.races.processes import RUNNERS, WITHIN_S, running
from tests.integration.scheduler.harness import opened_desk
from tests.integration.system.system import System, end
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

CUT_BYTES = 3_000
"""Several pages."""
BOOKS = tuple(f"t{number}" for number in range(4))
STRANGERS = 40
"""Books of others that fill the sequences again."""
STOPPED = {"RolledBack", "LogGap"}


def flip_bit(folder: DataFolder, size: int) -> None:
    """Change one bit that far from the end of the newest block, as a failing disk would."""
    blocks = sorted(Path(folder.store_path).rglob(f"streams/{LEDGER}/msgs/*.blk"), key=lambda path: int(path.stem))
    body = bytearray(blocks[-1].read_bytes())
    body[-size] ^= 1
    blocks[-1].write_bytes(body)


async def last_sequence(broker: RunningBroker) -> int:
    """Where the log ends now."""
    connection = await BrokerConnection.open(broker.login("control"), name="look")
    try:
        return await Ledger(connection).last_sequence()
    finally:
        await connection.close()


@pytest.mark.parametrize(
    "damage,refill",
    [(cut_tail, False), (cut_tail, True), (flip_bit, True)],
    ids=["cut", "cut-sequences-reused", "bit-flipped-sequences-reused"],
)
async def test_runners_stop_at_a_lost_tail(
    broker: RunningBroker,
    damage: Callable[[DataFolder, int], None],
    refill: bool,
    measured: Callable[[str], None],
) -> None:
    """Scheduler, dispatcher and control had read what is gone: each ends with a clear error and writes no more."""
    async with AsyncExitStack() as stack:
        async with opened_desk(broker) as desk:
            await asyncio.gather(*(desk.create(tenant, "t") for tenant in BOOKS))
            runners = {kind: await stack.enter_async_context(running(broker, kind)) for kind in RUNNERS}
            await asyncio.gather(*(runner.until_logged(RUNNERS[kind]) for kind, runner in runners.items()))
            await until(lambda: all(len(desk.decided(t)) >= 2 for t in BOOKS), what="decisions")
            await asyncio.gather(*(runner.freeze() for runner in runners.values()))
        before = await last_sequence(broker)
        os.kill(broker.pid, signal.SIGKILL)
        await broker.process.wait()
        damage(broker.folder, CUT_BYTES)
        await broker.process.restart()
        after = await last_sequence(broker)
        assert after < before, "the broker starts as if nothing had happened, and has less"
        if refill:
            async with opened_desk(broker) as desk:
                await asyncio.gather(*(desk.create(f"stranger-{number}") for number in range(STRANGERS)))
        end_at = await last_sequence(broker)
        assert (end_at > before) is refill
        for runner in runners.values():
            runner.wake()
        statuses = {kind: await runner.status(WITHIN_S) for kind, runner in runners.items()}
        assert await last_sequence(broker) == end_at, "nothing was written by those who saw more"
    kinds = {kind: {str(line["kind"]) for line in runner.logged("failed")} for kind, runner in runners.items()}
    assert statuses == dict.fromkeys(RUNNERS, ExitStatus.CONFLICT)
    assert all(found and found <= STOPPED for found in kinds.values()), kinds
    assert [runner.noise for runner in runners.values()] == [[], [], []]
    said = {str(line["message"]) for runner in runners.values() for line in runner.logged("failed")}
    measured(f"{before} messages, {after} after the damage, {end_at} when they looked: {kinds}; {sorted(said)}")


async def test_up_stops_at_a_lost_tail(tmp_path: Path, measured: Callable[[str], None]) -> None:
    """The supervisor does not start afresh a runner that found the log rolled back: everything stops, loudly."""
    async with System(tmp_path / "data") as system:
        await system.ask("tenant.create", tenant="acme")
        for number in range(4):
            await system.ask("trigger.create", tenant="acme", trigger=f"t{number}", every="1s", target="nats:nobody")
        connection = await system.connect("control")
        ledger, began = Ledger(connection), await Ledger(connection).last_sequence()

        async def grown() -> bool:
            """Whether some pages were decided."""
            return await ledger.last_sequence() > began + 10

        await until(lambda: answered(grown()), what="decisions")
        broker = system.pid_of("broker")
        os.kill(system.pid, signal.SIGSTOP)
        try:
            end(broker)
            cut_tail(DataFolder(system.data), CUT_BYTES)
        finally:
            os.kill(system.pid, signal.SIGCONT)
        status = await system.wait(PATIENCE_S)
        stopped = [line for line in system.logged("failed") if line.get("kind") in STOPPED]
        starts = {kind: len(system.logged("runner-started", runner=kind)) for kind in RUNNERS}
    assert status == ExitStatus.CONFLICT
    assert stopped
    assert starts == dict.fromkeys(RUNNERS, 1), "nobody was started again"
    measured(f"ended with {status}; {[line['message'] for line in stopped]}")


async def test_up_refuses_a_folder_whose_log_lost_its_tail_while_nothing_ran(tmp_path: Path) -> None:
    """The data folder remembers how far the log had come, so a shortened log is refused at the start, with status 4."""
    async with System(tmp_path / "data") as system:
        await system.ask("tenant.create", tenant="acme")
        await system.ask("trigger.create", tenant="acme", trigger="t", every="1s", target="nats:nobody")
        path = system.data / "high-water.json"
        await until(path.exists, what="the high-water mark")
        noted = path.read_text("utf-8")
        await until(lambda: path.read_text("utf-8") != noted, what="a later mark")
    cut_tail(DataFolder(system.data), CUT_BYTES)
    again = System(tmp_path / "data")
    await again.start()
    status = await again.wait(PATIENCE_S)
    await again.close()
    assert status == ExitStatus.CONFLICT
    assert any("sequence" in line for line in again.noise), again.noise
