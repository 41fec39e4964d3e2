"""A tenant that floods is slow for itself only."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fireledger.domain.instants import SECOND, Instant, format_instant
from fireledger.runners.clock import realtime
from tests.integration.others import watching_others
from tests.integration.system.evidence import Arrivals, Span, executors, per_second, quantile
from tests.integration.system.system import System
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

CALM_TRIGGERS = 10
BEFORE_S = 6
MOVED_MS = 100
"""The promise: another tenant's flood does not move the on-time p99 by more."""


def p99_ms(arrivals: Arrivals, first: int, last: int) -> float:
    """The calm tenant's lateness p99 over the instants in [first, last)."""
    calm = [each for each in arrivals.all() if each[0].tenant == "calm" and first <= each[0].scheduled < last]
    return quantile(sorted((arrived_at - key.scheduled) / 1_000 for key, arrived_at in calm), 0.99)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flood,after_s", [(300, 5), pytest.param(10_000, 45, marks=pytest.mark.long)])
async def test_a_flood_does_not_move_another_tenant(
    tmp_path: Path, measured: Callable[[str], None], flood: int, after_s: int
) -> None:
    """With ten thousand fires due at once and a quota of 100/s, the others' on-time lateness stays what it was."""
    data = tmp_path / "data"
    async with watching_others() as others, System(data) as system, executors(system) as arrivals:
        target = f"{arrivals.http.url}/ok"
        await system.ask("tenant.create", tenant="flood", quota="100/s")
        await system.ask("tenant.create", tenant="calm")
        # The grid of an interval extends both ways; with a day between, the anchor is the only instant that is near.
        at = realtime() // SECOND * SECOND + (flood // 40 + 4 + BEFORE_S) * SECOND
        await system.create_triggers(
            {
                "tenant": "flood",
                "trigger": f"f{number}",
                "every": "1d",
                "target": target,
                "anchor": format_instant(Instant(at)),
            }
            for number in range(flood)
        )
        created_with_s = (at - realtime()) / SECOND
        assert created_with_s > BEFORE_S + 1, "the flood was prepared before it was due"
        span = Span(Instant(at - BEFORE_S * SECOND), Instant(at + after_s * SECOND))
        triggers, owed = per_second(("calm",), CALM_TRIGGERS, span, (target,))
        await system.create_triggers(triggers)
        expected = len(owed) + flood
        await until(
            lambda: arrivals.count() >= expected, timeout_s=created_with_s + after_s + 60, what="every fire arrives"
        )
    before, after = p99_ms(arrivals, span.first, at), p99_ms(arrivals, at, span.last)
    last = max(arrived_at for key, arrived_at in arrivals.all() if key.tenant == "flood")
    measured(
        f"{flood} fires due at once were called within {(last - at) / SECOND:.1f} s; the other tenant's lateness p99 "
        f"was {before:.0f} ms before and {after:.0f} ms from then on"
    )
    assert arrivals.early() == []
    assert after - before < MOVED_MS or not others.quiet(span.first, last)
