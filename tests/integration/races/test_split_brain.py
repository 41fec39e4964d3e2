"""Two schedulers that both believe they own everything, alone and against a tenant that amends as fast as it can."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from fireledger.domain.commands import AmendTrigger
from fireledger.domain.instants import SECOND, Instant
from fireledger.runners.clock import realtime
from fireledger.runners.errors import ControlRefused
from tests.integration.brokers import RunningBroker
from tests.integration.control.running import Service, running_service
from tests.integration.others import Others, watching_others
from tests.integration.races.processes import credentials, module
from tests.integration.scheduler.harness import Desk, opened_desk, percentile
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

AMENDER = "amender"
PAGES_LATE_MS = 100
"""The promise: a tenant that amends in a tight loop moves the others' lateness by no more. Judged by what was due
while no stranger worked."""
AMENDMENTS_PER_S_MIN = 5
SETTLE_S = 1
"""Before anything is measured, and until the last of it is read."""


@dataclass(frozen=True)
class Size:
    """How much, for how long: tenants with triggers each, and the seconds of each of the two phases.

    ``share``: the quantile of lateness that is judged.
    """

    tenants: int
    triggers: int
    phase_s: int
    share: float


# A few seconds beside other tests are too little to judge by the slowest pages.
SHORT = Size(tenants=20, triggers=10, phase_s=4, share=0.5)
LONG = Size(tenants=25, triggers=20, phase_s=30, share=0.99)


@dataclass
class Amender:
    """Amends one trigger over and over, each time as soon as the last amendment is acknowledged."""

    service: Service
    acknowledged: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])

    async def run(self, stop: asyncio.Event) -> None:
        """Go on until told to stop. A refusal because other writers were quicker is counted."""
        number = 0
        while not stop.is_set():
            number += 1
            try:
                await self.service.ask(
                    "trigger.amend", tenant=AMENDER, trigger="t0", outcome_window=f"{60 + number % 2}s"
                )
                self.acknowledged += 1
            except ControlRefused as error:
                self.refused[error.code] += 1


async def passed(seconds: int) -> Instant:
    """Let whole seconds pass; the present instant."""
    end = realtime() + seconds * SECOND
    await until(lambda: realtime() >= end, timeout_s=seconds + PATIENCE_S, what=f"{seconds} s pass")
    return realtime()


def lateness(desk: Desk, tenants: list[str], begin: int, end: int, while_quiet: Others | None = None) -> list[int]:
    """Broker timestamp of the deciding page minus release, for releases in [begin, end), sorted; microseconds.

    Only of those that were due while nobody else worked, if wanted.
    """
    return sorted(
        read.folded.book.head.stamped_at - entry.release
        for tenant in tenants
        for read, entry in desk.released(tenant)
        if begin <= entry.release < end
        and (while_quiet is None or while_quiet.quiet(entry.release, entry.release + SECOND))
    )


@pytest.mark.timeout(240)
@pytest.mark.parametrize("size", [SHORT, pytest.param(LONG, marks=pytest.mark.long)], ids=["short", "long"])
async def test_split_brain_is_harmless(broker: RunningBroker, size: Size, measured: Callable[[str], None]) -> None:
    """Two owners of everything decide each instant once; a tenant that amends in a tight loop delays nobody."""
    owner = ("tests.integration.races.owning_everything", "scheduler", broker.url, credentials(broker, "scheduler"))
    others = [f"t{number}" for number in range(size.tenants - 1)]
    async with opened_desk(broker) as desk, running_service(broker) as service, watching_others() as strangers:
        names = [f"t{number}" for number in range(size.triggers)]
        await asyncio.gather(*(desk.create(tenant, *names) for tenant in (AMENDER, *others)))
        async with module(*owner, "one") as one, module(*owner, "two") as two:
            both = (one, two)
            await asyncio.gather(*(each.until_logged("log-folded") for each in both))
            begun = await passed(SETTLE_S)
            alone = await passed(size.phase_s)
            amender, stop = Amender(service), asyncio.Event()
            amending = asyncio.create_task(amender.run(stop))
            ended = await passed(size.phase_s)
            stop.set()
            await amending
            await passed(SETTLE_S)
            await asyncio.gather(*(each.interrupt() for each in both))
        counts = [each.logged("owner-ended")[-1] for each in both]
        decided = 0
        for tenant in (AMENDER, *others):
            decided += desk.check_exactly_once(tenant)
            desk.check_never_early(tenant)
        assert not [read for read in desk.pages if not read.folded.effective]
        before, during = lateness(desk, others, begun, alone), lateness(desk, others, alone, ended)
    met = sum(int(str(count["conflicts"])) for count in counts)
    per_s = amender.acknowledged / size.phase_s
    measured(
        f"{decided} instants decided once by {size.tenants * size.triggers} triggers; {met} conflicts, pages "
        f"{[count['committed'] for count in counts]}; {per_s:.0f} amendments/s (refused {dict(amender.refused)}); "
        f"others' lateness p50/p99 {percentile(before, 0.5):.0f}/{percentile(before, 0.99):.0f} ms alone, "
        f"{percentile(during, 0.5):.0f}/{percentile(during, 0.99):.0f} ms beside the amender"
    )
    assert met > 0, "they met"
    assert all(int(str(count["committed"])) > 0 for count in counts), "both decided"
    assert set(amender.refused) <= {"tenant-busy"}
    assert per_s > AMENDMENTS_PER_S_MIN, "the amender makes progress"
    assert len(during) > len(others) * size.triggers
    quiet = [lateness(desk, others, *span, strangers) for span in ((begun, alone), (alone, ended))]
    if all(len(found) >= len(others) * size.triggers for found in quiet):
        assert percentile(quiet[1], size.share) <= percentile(quiet[0], size.share) + PAGES_LATE_MS
    amendments = [read for read in desk.pages if isinstance(read.folded.page.command, AmendTrigger)]
    assert len(amendments) >= amender.acknowledged
