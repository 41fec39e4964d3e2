"""Kill -9 at random moments: nothing acknowledged is lost, nothing decided twice, every released fire attempted."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from fireledger.domain.instants import MILLISECOND
from fireledger.runners.clock import realtime
from fireledger.runners.demo.http_executor import Arrival
from fireledger.runners.errors import ExitStatus, OperationalError
from fireledger.runners.json_edge import Json
from fireledger.runners.lifecycle import pause
from tests.integration.brokers import answered
from tests.integration.system.evidence import NATS_TARGET, Arrivals, Log, Span, executors, per_second, read_log
from tests.integration.system.system import RUNNERS, System
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

SEED_VARIABLE = "KILL_SEED"
TENANTS = ("acme", "globex", "initech")
TRIGGERS_EACH = 8
KILLABLE = (*RUNNERS, "broker")
KILL_EVERY_S = (1.0, 3.0)
SETTLE_S = 45
"""A killed dispatcher's calls are made again 5 s after their timeout; a restart may wait out its back-off before."""
CALL_TIMEOUT_S = 1
RETRY_BASE = "1s"
"""A call over the broker that the broker's end cut off is an attempt that failed; the next one must not take long."""
SLOW_MS = 400
"""Half of the HTTP calls take this long, so that kills meet calls under way."""
COMMAND_EVERY_S = 0.2
ASK_TIMEOUT_S = 3.0


@dataclass
class Commander:
    """Gives one command after the other, each under a request id, until it is acknowledged or the test is over."""

    system: System
    acknowledged: list[str] = field(default_factory=list[str])
    repeated: int = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Create paused triggers."""
        number = 0
        while not await pause(COMMAND_EVERY_S, stop):
            number += 1
            await self._create(f"command-{number}", stop)

    async def _create(self, name: str, stop: asyncio.Event) -> None:
        request: dict[str, Json] = {"tenant": TENANTS[0], "trigger": name, "request_id": name, "paused": True}
        request |= {"cron": "0 0 1 1 *", "target": "nats:nobody"}
        while not stop.is_set():
            try:
                await self.system.client.ask("control.trigger.create", request, timeout_s=ASK_TIMEOUT_S)
            except OperationalError as error:
                if error.exit_status is not ExitStatus.UNAVAILABLE:
                    raise
            else:
                self.acknowledged.append(name)
                return
            self.repeated += 1
            await pause(COMMAND_EVERY_S, stop)


async def kill_for(system: System, random: Random, seconds: float) -> Counter[str]:
    """Kill something now and then; what was killed how often."""
    killed: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    end_at, never = loop.time() + seconds, asyncio.Event()
    while loop.time() < end_at:
        await pause(random.uniform(*KILL_EVERY_S), never)
        name = random.choice(KILLABLE)
        if system.kill(name):
            killed[name] += 1
    return killed


async def kill_in_the_middle_of_a_call(system: System, arrivals: Arrivals) -> None:
    """Kill the dispatcher while a slow call is under way, which chance alone seldom does."""

    def called() -> bool:
        """Whether a slow call has arrived and cannot be over."""
        return any(realtime() - each.arrived_at < SLOW_MS * MILLISECOND // 4 for each in slow_calls(arrivals))

    await until(called, what="a slow call is under way")
    assert system.kill("dispatcher")


def slow_calls(arrivals: Arrivals) -> list[Arrival]:
    """The slow calls that arrived so far."""
    return [each for each in tuple(arrivals.http.arrivals) if each.path == "/slow"]


def check(log: Log, arrivals: Arrivals, owed: set[object]) -> None:
    """What must hold whoever was killed when."""
    assert set(log.decisions) == owed, "every instant has a record"
    assert set(log.decisions.values()) == {1}, "no instant was decided twice"
    for attempts in log.attempts.values():
        assert attempts == list(range(1, len(attempts) + 1)), "no attempt was released twice"
    assert set(log.started) == set(log.released) == set(log.finished), "every released fire was attempted and ended"
    assert set(log.finished.values()) == {1}
    arrived = arrivals.per_key()
    assert set(arrived) <= set(log.started), "nothing arrived that was not started"
    assert arrivals.early() == []
    for key, starts in log.started.items():
        assert starts == log.released[key] + log.resends[key], "an attempt's second start says that it is a resend"
        assert arrived[key] <= starts, "nobody was called without a record before it"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seconds", [10, pytest.param(60, marks=pytest.mark.long)])
async def test_killed_at_random_moments(tmp_path: Path, measured: Callable[[str], None], seconds: int) -> None:
    """Scheduler, dispatcher, control and broker are killed: the log and the executors still agree."""
    seed = int(os.environ.get(SEED_VARIABLE) or int.from_bytes(os.urandom(4)))
    measured(f"{SEED_VARIABLE}={seed}")
    async with System(tmp_path / "data") as system:
        await system.create_tenants(*TENANTS)
        async with executors(system, *TENANTS) as arrivals:
            span = Span.of(seconds, begins_in_s=5)
            waits: dict[str, Json] = {"timeout": f"{CALL_TIMEOUT_S}s", "retry_base": RETRY_BASE}
            url = arrivals.http.url
            targets = (NATS_TARGET, f"{url}/ok", NATS_TARGET, f"{url}/slow?ms={SLOW_MS}")
            triggers, owed = per_second(TENANTS, TRIGGERS_EACH, span, targets, **waits)
            await system.create_triggers(triggers)
            assert span.left_s > seconds - 1, "the triggers were made before the span began"
            commander, stop = Commander(system), asyncio.Event()
            commanding = asyncio.create_task(commander.run(stop))
            await kill_in_the_middle_of_a_call(system, arrivals)
            killed = await kill_for(system, Random(seed), span.left_s)
            stop.set()
            await commanding
            await until(system.is_ready, timeout_s=SETTLE_S, what="everything is ready again")

            async def concluded() -> bool:
                """Whether everything is decided and every fire ended."""
                log = await read_log(system)
                return len(log.decisions) >= len(owed) and len(log.finished) >= len(log.released)

            await until(lambda: answered(concluded()), timeout_s=SETTLE_S, what="every fire is concluded")
        log = await read_log(system)
        check(log, arrivals, set(owed))
        there = log.fold.book(TENANTS[0]).state.triggers
        assert set(commander.acknowledged) <= set(there), "every acknowledged command is in the book"
        duplicates = sum(executor.duplicates_count for executor in arrivals.nats) + arrivals.http.duplicates_count
        measured(
            f"killed {dict(killed)}; {len(log.released)} of {len(owed)} instants fired, the rest has its cause; "
            f"{log.resends.total()} resends and {log.retries_count} retries recorded, {duplicates} duplicates arrived; "
            f"{len(commander.acknowledged)} commands acknowledged, {commander.repeated} repeated"
        )
        assert 1 <= duplicates <= log.resends.total() + log.retries_count
        assert await system.stop() == 0
