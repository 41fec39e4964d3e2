"""After an outage: missed fires come back capped and paced, and what is on time stays on time."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fireledger.domain import entries as e
from fireledger.domain.book import Folded
from fireledger.domain.instants import SECOND
from fireledger.projections.ledger_fold import LedgerFold
from fireledger.runners.clock import realtime
from fireledger.runners.jetstream.reading import scan
from fireledger.runners.jetstream.topology import LEDGER
from tests.integration.others import watching_others
from tests.integration.system.evidence import executors, quantile
from tests.integration.system.system import System
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

INTERVAL_S = 5
LATENESS_P99_MS = 250
"""The promise for the per-second trigger, on a machine that has a core for it."""


@dataclass
class CaughtUp:
    """What the log says of the tenant that was behind: page's now of each catch-up release, and how many by trigger."""

    released_at: list[int] = field(default_factory=list[int])
    by_trigger: Counter[str] = field(default_factory=Counter[str])
    waiting: int = 0
    dropped: int = 0


async def caught_up(system: System, tenant: str) -> CaughtUp:
    """Read the tenant's catch-up fires."""
    found, fold = CaughtUp(), LedgerFold(observing=False)
    connection = await system.connect("replay")
    async for stored in scan(connection, LEDGER):
        folded = fold.apply(stored)
        if not (isinstance(folded, Folded) and folded.effective and folded.page.tenant == tenant):
            continue
        for entry in folded.page.entries:
            match entry:
                case e.FireReleased(lane="catch-up", attempt=1):
                    found.released_at.append(folded.page.inputs.now)
                    found.by_trigger[entry.trigger] += 1
                case e.InstantsResolved(state="dropped"):
                    found.dropped += entry.count
                case _:
                    pass
    found.waiting = sum(len(trigger.waiting) for trigger in fold.book(tenant).state.triggers.values())
    await connection.close()
    return found


def busiest_second(instants: list[int]) -> int:
    """The most of these instants that lie within one second."""
    ascending, first, most = sorted(instants), 0, 0
    for place, at in enumerate(ascending):
        while ascending[first] <= at - SECOND:
            first += 1
        most = max(most, place - first + 1)
    return most


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "triggers,cap,down_s,rate", [(40, 2, 13, 20), pytest.param(500, 12, 60, 100, marks=pytest.mark.long)]
)
async def test_catch_up_is_capped_and_paced(
    tmp_path: Path, measured: Callable[[str], None], triggers: int, cap: int, down_s: int, rate: int
) -> None:
    """At most the cap of each trigger, never above the declared rate, while a per-second trigger stays on time."""
    data = tmp_path / "data"
    async with watching_others() as others, System(data) as system, executors(system) as arrivals:
        target = f"{arrivals.http.url}/ok"
        await system.ask("tenant.create", tenant="behind", quota=f"{10 * rate}/s")
        await system.ask("tenant.create", tenant="calm")
        await system.create_triggers(
            {
                "tenant": "behind",
                "trigger": f"t{number}",
                "every": f"{INTERVAL_S}s",
                "target": target,
                "missed": "fire-all",
                "tolerance": f"{INTERVAL_S}s",
                "cap": cap,
            }
            for number in range(triggers)
        )
        await system.ask("trigger.create", tenant="calm", trigger="second", cron="* * * * * *", target=target)
        await until(lambda: arrivals.count() > triggers, timeout_s=60, what="every trigger fires")
        assert await system.stop() == 0
        down_until = realtime() + down_s * SECOND
        await until(lambda: realtime() >= down_until, timeout_s=down_s + 5, what="the outage is over")
        again = System(data)
        async with again:
            restarted_at = realtime()

            async def drained() -> bool:
                """Whether no catch-up fire waits any more."""
                found = await caught_up(again, "behind")
                return len(found.released_at) >= triggers * (cap - 1) and not found.waiting

            # Each trigger's catch-up fires wait for each other, so the last ones come when their outcomes are observed.
            while not await drained():
                await asyncio.wait_for(_second_passed(), timeout=5)
                assert realtime() - restarted_at < 300 * SECOND, "the lane drains"
            found = await caught_up(again, "behind")
    on_time = [each for each in arrivals.all() if each[0].tenant == "calm" and each[0].scheduled > restarted_at]
    lateness = sorted((arrived_at - key.scheduled) / 1_000 for key, arrived_at in on_time)
    judged = sorted(
        (at - key.scheduled) / 1_000 for key, at in on_time if others.quiet(key.scheduled, key.scheduled + SECOND)
    )
    took_s = (found.released_at[-1] - found.released_at[0]) / SECOND
    measured(
        f"{triggers} triggers, down {down_s} s: {len(found.released_at)} catch-up fires in {took_s:.1f} s "
        f"at a declared rate of {rate}/s (busiest second {busiest_second(found.released_at)}), "
        f"{found.dropped} dropped; {len(lateness)} fires of the per-second trigger meanwhile, lateness p99 "
        f"{quantile(lateness, 0.99):.0f} ms; {len(judged)} while nobody else worked"
    )
    assert max(found.by_trigger.values()) <= cap
    assert len(found.by_trigger) == triggers
    # A second's worth of tokens may have gathered before the first.
    assert busiest_second(found.released_at) <= 2 * rate
    assert len(found.released_at) <= rate * (took_s + 1) + 1
    assert lateness, "the per-second trigger fired meanwhile"
    assert not judged or quantile(judged, 0.99) < LATENESS_P99_MS


async def _second_passed() -> None:
    begun = realtime()
    await until(lambda: realtime() >= begun + SECOND, timeout_s=4, what="a second passes")
