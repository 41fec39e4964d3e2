"""Never early, always recorded: many triggers that fire each second, at executors in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.brokers import answered
from tests.integration.others import watching_others
from tests.integration.system.evidence import NATS_TARGET, Span, executors, per_second, quantile, read_log
from tests.integration.system.system import System
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

TENANTS = ("acme", "globex", "initech", "umbra")
TRIGGERS_EACH = 50
SETTLE_S = 60
BEGINS_IN_S = 8
"""Time for the triggers to be made in: several times what it takes on an idle machine."""
LATENESS_P99_MS = 250
"""The promise for an idle machine, so only what was due while nobody else worked is judged by it."""


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seconds", [10, pytest.param(60, marks=pytest.mark.long)])
async def test_two_hundred_triggers_fire_each_second(
    tmp_path: Path, measured: Callable[[str], None], seconds: int
) -> None:
    """Every instant has one record and one arrival, none before its time; when nobody else works, none is late."""
    async with watching_others() as others, System(tmp_path / "data") as system:
        await system.create_tenants(*TENANTS)
        async with executors(system, *TENANTS) as arrivals:
            span = Span.of(seconds, begins_in_s=BEGINS_IN_S)
            triggers, owed = per_second(TENANTS, TRIGGERS_EACH, span, (NATS_TARGET, f"{arrivals.http.url}/ok"))
            await system.create_triggers(triggers)
            assert span.left_s > seconds - 1, "the triggers were made before the span began"
            made_s = BEGINS_IN_S + seconds - span.left_s
            await until(
                lambda: arrivals.count() >= len(owed), timeout_s=span.left_s + SETTLE_S, what="every fire arrives"
            )

            others.look()

            async def concluded() -> bool:
                """Whether every fire has its outcome in the book."""
                return (await read_log(system)).finished.total() >= len(owed)

            await until(lambda: answered(concluded()), timeout_s=SETTLE_S, what="every fire is concluded")
        log = await read_log(system)
        assert set(log.decisions) == owed
        assert set(log.decisions.values()) == {1}
        assert log.released == log.decisions == log.started == log.finished
        assert arrivals.per_key() == log.released
        assert arrivals.early() == []
        assert sum(executor.duplicates_count for executor in arrivals.nats) == 0
        assert log.resends.total() == log.ineffective == 0
        lateness, judged = arrivals.lateness_ms(), arrivals.lateness_ms(while_quiet=others)
        p50, p99 = quantile(lateness, 0.5), quantile(lateness, 0.99)
        measured(
            f"{len(lateness)} fires, lateness p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {lateness[-1]:.1f} ms; "
            f"{len(judged)} of them due while nobody else worked, with a p99 of "
            f"{quantile(judged, 0.99) if judged else 0:.1f} ms; made in {made_s:.1f} s"
        )
        assert not judged or quantile(judged, 0.99) < LATENESS_P99_MS
        assert await system.stop() == 0
