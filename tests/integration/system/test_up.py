"""``fireledger up``: how it begins, what it says, how it ends, and what it does when something else ends."""

import signal
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fireledger.domain.instants import SECOND, parse_duration
from fireledger.runners.clock import realtime
from fireledger.runners.json_edge import Json
from tests.integration.others import watching_others
from tests.integration.system.evidence import Arrivals, executors, read_log
from tests.integration.system.system import RUNNERS, STOP_S, System, all_gone, end, marked_processes, run
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

AT_ONCE_S = 2.0
"""How soon nothing is left after a second interrupt, on an idle machine."""
ORPHANED_S = 6.0
"""How soon nothing is left after a kill -9 of ``up``, on an idle machine: its runners drain first."""


def every_second(http_url: str, path: str = "ok", **options: Json) -> dict[str, Json]:
    """A trigger that fires each second."""
    target = f"{http_url}/{path}"
    named: dict[str, Json] = {"tenant": "acme", "trigger": "tick", "cron": "* * * * * *", "target": target}
    return {**named, "overlap": "allow", **options}


async def some_arrive(arrivals: Arrivals, *, more: int = 2) -> None:
    """Wait until some more fires have arrived."""
    before = arrivals.count()
    await until(lambda: arrivals.count() >= before + more, what="fires arrive")


async def test_one_line_one_owner_one_interrupt(tmp_path: Path, measured: Callable[[str], None]) -> None:
    """It says one line, keeps a second one off its folder, and one interrupt stops all of it with status 0."""
    async with watching_others() as others, System(tmp_path / "data") as system:
        assert system.ready.data == str(tmp_path / "data")
        assert system.ready.clock
        assert 0 < parse_duration(system.ready.epsilon) <= 100_000
        second = await run("up", "--data", str(system.data))
        assert (second.status, second.stdout) == (4, "")
        assert second.stderr.startswith(f'error: data folder "{system.data}" is in use by process {system.pid}')
        assert "\nhint: " in second.stderr
        status = await system.cli("status")
        assert (status.status, status.stdout.splitlines()[0]) == (0, "ready")
        interrupted_at = realtime()
        assert await system.stop() == 0
        measured(f"one interrupt, all stopped after {(realtime() - interrupted_at) / SECOND:.2f} s")
        assert others.within(interrupted_at, STOP_S)
        await all_gone(system.mark)
        assert len(system.stdout) == 1
        assert {str(line["runner"]) for line in system.logs} >= {"up", *RUNNERS}
        assert system.noise == [], "every line of the log is JSON"
    after = await run("status", data=system.data)
    assert after.status == 6
    assert "no fireledger runs" in after.stderr


async def test_an_interrupt_waits_for_calls_and_a_second_does_not(
    tmp_path: Path, measured: Callable[[str], None]
) -> None:
    """One interrupt lets a call end and records its result; a second, with a call under way, ends all at once."""
    async with System(tmp_path / "data") as system:
        await system.ask("tenant.create", tenant="acme")
        async with executors(system) as arrivals:
            await system.ask("trigger.create", **every_second(arrivals.http.url, "slow?ms=1200", max_fires=1))
            await some_arrive(arrivals, more=1)
            assert await system.stop() == 0
    async with watching_others() as others, System(system.data) as system, executors(system) as arrivals:
        log = await read_log(system)
        assert (log.started.total(), log.results.total(), log.resends.total()) == (1, 1, 0)
        await system.ask("trigger.create", **every_second(arrivals.http.url, "slow?ms=20000", trigger="slow"))
        await some_arrive(arrivals, more=1)
        system.interrupt()
        await until(lambda: bool(system.logged("stopping", runner="dispatcher")), what="it drains")
        assert not system.ended
        interrupted_at = realtime()
        system.interrupt()
        assert await system.wait(PATIENCE_S) == 128 + signal.SIGINT
        await all_gone(system.mark)
        measured(f"second interrupt, nothing left after {(realtime() - interrupted_at) / SECOND:.2f} s")
        assert others.within(interrupted_at, AT_ONCE_S)


async def test_a_killed_up_takes_everything_along_and_a_new_one_goes_on(
    tmp_path: Path, measured: Callable[[str], None]
) -> None:
    """After a kill -9 of ``up`` nothing is left; a new one on the same folder fires the old triggers."""
    async with watching_others() as others, System(tmp_path / "data") as first:
        await first.ask("tenant.create", tenant="acme")
        async with executors(first) as arrivals:
            await first.ask("trigger.create", **every_second(arrivals.http.url))
            await some_arrive(arrivals)
            assert set(RUNNERS) <= {str(line["runner"]) for line in first.logged("runner-started")}
            assert len(marked_processes(first.mark)) >= len(RUNNERS) + 3
            killed_at = realtime()
            end(first.pid)
            await all_gone(first.mark)
            measured(f"kill -9 of up, nothing left after {(realtime() - killed_at) / SECOND:.2f} s")
            assert others.within(killed_at, ORPHANED_S)
            async with System(first.data) as again:
                await some_arrive(arrivals)
                shown = await again.cli("trigger", "show", "acme/tick")
                assert shown.status == 0, shown
                assert await again.stop() == 0


async def test_what_dies_is_started_again_with_growing_waits(tmp_path: Path) -> None:
    """A runner that keeps ending waits longer each time; a broker whose port is taken comes back once it is free."""
    async with System(tmp_path / "data") as system:
        for _ in range(3):
            await kill_and_see_it_back(system, "scheduler")
        waits = [line["restart_in_s"] for line in system.logged("runner-ended", runner="scheduler")]
        assert waits == [0.2, 0.4, 0.8]
        await until(system.is_ready, what="it is ready again")
        async with port_taken_from_broker(system):
            await until(lambda: bool(system.logged("broker-restart-failed")), what="a failed restart")
        await until(lambda: bool(system.logged("broker-restarted")), what="the broker is back")
        await until(system.is_ready, what="it is ready again")
        assert await system.stop() == 0


async def kill_and_see_it_back(system: System, runner: str) -> None:
    """Kill a runner and wait for the next one's start."""
    pid = system.kill(runner)
    assert pid
    await until(lambda: system.pid_of(runner) != pid, what="it is started again")


@asynccontextmanager
async def port_taken_from_broker(system: System) -> AsyncGenerator[None, None]:
    """Kill the broker and listen on its port in its place."""
    port = int(system.ready.broker.rpartition(":")[2])
    system.kill("broker")
    with socket.socket() as taker:
        taker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def took() -> bool:
            """Whether the port was free, and is ours."""
            try:
                taker.bind(("127.0.0.1", port))
            except OSError:
                return False
            taker.listen()
            return True

        await until(took, what="the port is taken")
        yield


async def test_an_outcome_is_reported_over_http_also_after_a_restart(tmp_path: Path) -> None:
    """What is accepted succeeds when its executor reports, to the same address as before the restart."""
    addresses: list[str] = []
    logged: list[str] = []
    for start in range(2):
        async with System(tmp_path / "data") as system, executors(system) as arrivals:
            addresses.append(system.stdout[0].rpartition("outcomes=")[2].strip())
            if not start:
                await system.ask("tenant.create", tenant="acme")
            named = every_second(arrivals.http.url, "later?ms=100", trigger=f"later-{start}", max_fires=1)
            await system.ask("trigger.create", **named)

            async def reported(system: System = system, trigger: str = f"later-{start}") -> bool:
                """The fire has the outcome that its executor reported."""
                answer = await system.ask("fires.list", tenant="acme", trigger=trigger)
                rows = answer["rows"]
                assert isinstance(rows, list)
                return [row.get("outcome") for row in rows if isinstance(row, dict)] == ["succeeded"]

            await until(reported, timeout_s=20, what="the reported outcome")
            assert arrivals.http.requests_count == 1, "it was called once"
        logged += [str(line) for line in system.logs]
    assert addresses[0] == addresses[1]
    assert addresses[0].startswith("http://127.0.0.1:")
    assert (tmp_path / "data" / "report-key").stat().st_mode & 0o777 == 0o600
    key = (tmp_path / "data" / "report-key").read_text("utf-8").strip()
    assert logged
    assert not [line for line in logged if key in line]
