"""Two schedulers as processes share the partitions; when one is killed the other soon has them all."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fireledger.domain.instants import SECOND
from fireledger.domain.limits import PARTITION_COUNT_DEFAULT
from fireledger.runners.broker.credentials import credentials_path
from fireledger.runners.broker.folder import DataFolder
from fireledger.runners.clock import realtime
from fireledger.runners.json_edge import Json, loads
from tests.integration.brokers import answered
from tests.integration.others import watching_others
from tests.integration.system.evidence import Span, executors, per_second, read_log
from tests.integration.system.system import FIRELEDGER, System, environment
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

TENANTS = tuple(f"tenant-{number}" for number in range(12))
"""So many that each of two schedulers has some."""
TRIGGERS_EACH = 2
BEGINS_IN_S = 8
"""Time for the triggers to be made in: many times what it takes on an idle machine."""
SECONDS = 12
TAKEOVER_S = 10.0
"""The promise for an idle machine: a killed scheduler's partitions are another's within this time."""


class Second:
    """A scheduler beside that of ``up``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.owned: list[int] = []
        """How many partitions it held, change by change."""

    async def read(self) -> None:
        """Take in its log."""
        assert self.process.stderr is not None
        while text := await self.process.stderr.readline():
            line = loads(text)
            if isinstance(line, dict) and line.get("action") == "leases-changed":
                self.owned.append(_number(line["owned"]))


def _number(value: Json) -> int:
    assert isinstance(value, int)
    return value


@asynccontextmanager
async def second_scheduler(system: System) -> AsyncGenerator[Second, None]:
    """One more scheduler on the same broker, by the command that anybody would use."""
    creds = credentials_path(DataFolder(system.data).credentials_path, "scheduler")
    process = await asyncio.create_subprocess_exec(
        *FIRELEDGER,
        *("run", "scheduler", "--nats-url", system.ready.broker, "--creds", str(creds), "--clock-bound", "10ms"),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment(system.mark),
    )
    second = Second(process)
    reading = asyncio.create_task(second.read())
    try:
        yield second
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


def owned_by_up(system: System) -> int:
    """How many partitions the scheduler of ``up`` holds, as it last said."""
    changes = system.logged("leases-changed", runner="scheduler")
    return _number(changes[-1]["owned"]) if changes else 0


@pytest.mark.timeout(180)
async def test_a_killed_schedulers_partitions_are_taken_over(tmp_path: Path, measured: Callable[[str], None]) -> None:
    """Both decide their share; the survivor holds everything within 10 s and every instant has one record."""
    async with watching_others() as others, System(tmp_path / "data") as system:
        for tenant in TENANTS:
            await system.ask("tenant.create", tenant=tenant)
        async with executors(system) as arrivals:
            async with second_scheduler(system) as second:

                def share() -> bool:
                    """Whether both hold a good part."""
                    fair = PARTITION_COUNT_DEFAULT // 2
                    return bool(second.owned) and abs(second.owned[-1] - fair) <= 2 and owned_by_up(system) <= fair + 2

                await until(share, what="they share the partitions")
                # Only now, so that the instants last until both have decided some and one of them is gone.
                span = Span.of(SECONDS, begins_in_s=BEGINS_IN_S)
                triggers, owed = per_second(TENANTS, TRIGGERS_EACH, span, (f"{arrivals.http.url}/ok",))
                await system.create_triggers(triggers)
                assert span.left_s > SECONDS - 1, "the triggers were made before the span began"

                async def both_decide() -> bool:
                    """Whether both have written into a book."""
                    return len((await read_log(system)).schedulers) == 2

                await until(lambda: answered(both_decide()), what="both decide")
                second.process.kill()
                killed_at = realtime()
                await until(
                    lambda: owned_by_up(system) == PARTITION_COUNT_DEFAULT, what="the survivor holds every partition"
                )
                took_s = (realtime() - killed_at) / SECOND
                measured(f"a killed scheduler's partitions taken over after {took_s:.1f} s")
                assert others.within(killed_at, TAKEOVER_S)

            async def decided() -> bool:
                """Whether every instant is decided and concluded."""
                log = await read_log(system)
                return len(log.decisions) >= len(owed) and len(log.finished) >= len(log.released)

            await until(
                lambda: answered(decided()), timeout_s=span.left_s + PATIENCE_S, what="every instant is decided"
            )
        log = await read_log(system)
        assert set(log.decisions) == owed
        assert set(log.decisions.values()) == {1}
        assert arrivals.per_key() == log.released
        assert await system.stop() == 0
