"""Never early, always recorded: many triggers that fire each second, at executors in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.system.evidence import Span, executors, per_second, quantile, read_log
from tests.integration.system.system import System
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

TENANTS = ("acme", "globex", "initech", "umbra")
TRIGGERS_EACH = 50
SETTLE_S = 20
LATENESS_P99_MS = 250


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seconds", [10, pytest.param(60, marks=pytest.mark.long)])
async def test_two_hundred_triggers_fire_each_second(
    tmp_path: Path, measured: Callable[[str], None], seconds: int
) -> None:
    """Every instant has one record and one arrival, none before its time, and the lateness stays low."""
    async with System(tmp_path / "data") as system:
        await system.create_tenants(*TENANTS)
        async with executors(system, *TENANTS) as arrivals:
            span = Span.of(seconds, begins_in_s=6)
            triggers, owed = per_second(TENANTS, TRIGGERS_EACH, span, arrivals.http.url)
            await system.create_triggers(triggers)
            assert span.left_s > seconds - 1, "the triggers were made before the span began"
            await until(
                lambda: arrivals.count() >= len(owed), timeout_s=span.left_s + SETTLE_S, what="every fire arrives"
            )

            async def concluded() -> bool:
                """Whether every fire has its outcome in the book."""
                return (await read_log(system)).finished.total() >= len(owed)

            await until(concluded, timeout_s=SETTLE_S, what="every fire is concluded")
        log = await read_log(system)
        assert set(log.decisions) == owed
        assert set(log.decisions.values()) == {1}
        assert log.released == log.decisions == log.started == log.finished
        assert arrivals.per_key() == log.released
        assert arrivals.early() == []
        assert sum(executor.duplicates_count for executor in arrivals.nats) == 0
        assert log.resends.total() == log.ineffective == 0
        lateness = arrivals.lateness_ms()
        p50, p99 = quantile(lateness, 0.5), quantile(lateness, 0.99)
        measured(f"{len(lateness)} fires, lateness p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {lateness[-1]:.1f} ms")
        assert p99 < LATENESS_P99_MS
        assert await system.stop() == 0
