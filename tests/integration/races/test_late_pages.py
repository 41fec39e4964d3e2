"""A late page does nothing: it loses its place, or stays in the chain without effect and is reported."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from fireledger.domain.identifiers import slot_of
from fireledger.domain.instants import SECOND
from fireledger.domain.limits import STAMP_LATE_MAX
from fireledger.runners.clock import realtime
from fireledger.runners.errors import ExitStatus
from fireledger.runners.jetstream.ledger import Append, Committed, Ledger, Lost
from fireledger.runners.json_edge import Json, loads
from tests.integration.brokers import RunningBroker
from tests.integration.control.running import TARGET, running_service
from tests.integration.ledger.books import frozen
from tests.integration.races.processes import credentials, module, running
from tests.integration.scheduler.harness import Desk, Read, opened_desk, scheduling
from tests.unit.dispatcher.owning import Owned
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

LONG_S = 60
LATE_S = STAMP_LATE_MAX // SECOND + 1
"""Long enough for a page to be late."""


async def elapsed(since: int, seconds: int) -> None:
    """Wait until so many seconds are over since an instant."""
    end = since + seconds * SECOND
    await until(lambda: realtime() >= end, timeout_s=seconds + PATIENCE_S, what=f"{seconds} s pass")


def pages_of(desk: Desk, tenant: str) -> list[Read]:
    """A book's pages in order."""
    return [read for read in desk.pages if read.folded.page.tenant == tenant]


async def decided_since(desk: Desk, tenant: str, instant: int, what: str) -> None:
    """Wait until an instant after this one is decided."""
    await until(lambda: max((at for _, at in desk.decided(tenant)), default=0) > instant, what=f"{tenant}: {what}")


@pytest.mark.timeout(150)
@pytest.mark.parametrize("frozen_s", [LATE_S, pytest.param(LONG_S, marks=pytest.mark.long)])
async def test_an_owner_frozen_with_pages_in_hand_does_nothing(
    broker: RunningBroker, frozen_s: int, measured: Callable[[str], None]
) -> None:
    """Woken, its page for a book that another took over is refused; its page for an orphaned book has no effect."""
    taken_over = Owned(without=set(range(1024)) - {slot_of("globex")})
    arguments = ("scheduler", broker.url, credentials(broker, "scheduler"), "frozen", "freeze")
    async with opened_desk(broker) as desk, running_service(broker) as service:
        for tenant in ("acme", "globex"):
            await desk.create(tenant, "t")
        async with module("tests.integration.races.owning_everything", *arguments) as owner:
            await owner.until_logged("pages-in-hand")
            await owner.until_frozen()
            since = realtime()
            async with scheduling(broker.login("scheduler"), "heir", ownership=taken_over):
                await elapsed(since, frozen_s)
                before = {tenant: len(pages_of(desk, tenant)) for tenant in ("acme", "globex")}
                owner.wake()
                woken_at = realtime()
                await owner.until_logged("page-ineffective")
                for tenant in ("acme", "globex"):
                    await decided_since(desk, tenant, woken_at, "goes on")
                status = await service.ask("status")
                shown = await service.ask("book.show", tenant="acme")
            assert await owner.interrupt() == 0
        for tenant in ("acme", "globex"):
            desk.check_exactly_once(tenant)
            desk.check_never_early(tenant)
    late = [read for read in desk.pages if not read.folded.effective]
    assert [(read.folded.page.tenant, read.folded.page.inputs.owner) for read in late] == [("acme", "frozen")]
    (page,) = late
    assert page is pages_of(desk, "acme")[before["acme"]], "it stands in the chain where it was meant to"
    stamped_at, latest = page.folded.book.head.stamped_at, page.folded.page.inputs.latest
    assert page.folded.page.entries, "it would have decided something"
    assert stamped_at > latest + STAMP_LATE_MAX
    stale = [r for r in pages_of(desk, "globex") if r.folded.page.inputs.owner == "frozen" and decided_before(r, since)]
    assert stale == [], "its page for the other book was refused"
    rows = shown["rows"]
    assert isinstance(rows, list)
    assert [row["page"] for row in rows if isinstance(row, dict) and row["effective"] is False] == [
        page.folded.page.number
    ]
    assert status["ineffective_pages"] == 1
    measured(
        f"frozen {frozen_s} s with 2 pages in hand: one stamped {(stamped_at - latest) / SECOND:.1f} s after its "
        f"latest instant and without effect, one refused; {before['globex']} pages by its heir meanwhile"
    )


def decided_before(read: Read, instant: int) -> bool:
    """Whether the page's clock was read before the instant."""
    return read.folded.page.inputs.latest <= instant


@pytest.mark.timeout(150)
@pytest.mark.parametrize("frozen_s", [7, pytest.param(LONG_S, marks=pytest.mark.long)])
async def test_a_frozen_scheduler_wakes_to_harmlessness(
    broker: RunningBroker, frozen_s: int, measured: Callable[[str], None]
) -> None:
    """A real scheduler frozen while instants pass: another takes over, and nothing is decided twice or early after."""
    tenants = [f"t{number}" for number in range(12)]
    async with opened_desk(broker) as desk:
        await asyncio.gather(*(desk.create(tenant, "t") for tenant in tenants))
        async with running(broker, "scheduler") as first:
            await asyncio.gather(*(decided_since(desk, tenant, 0, "is decided") for tenant in tenants))
            await first.freeze()
            since = realtime()
            async with running(broker, "scheduler") as second:
                await second.until_logged("log-folded")
                await asyncio.gather(*(decided_since(desk, tenant, since, "is taken over") for tenant in tenants))
                taken_over_s = (realtime() - since) / SECOND
                await elapsed(since, frozen_s)
                first.wake()
                woken_at = realtime()
                await elapsed(woken_at, 1)
                await asyncio.gather(*(decided_since(desk, tenant, woken_at, "goes on") for tenant in tenants))
                assert await second.interrupt() == 0
            assert await first.interrupt() == 0
        instants = 0
        for tenant in tenants:
            instants += desk.check_exactly_once(tenant)
            desk.check_never_early(tenant)
    ineffective = [read for read in desk.pages if not read.folded.effective]
    assert len({read.folded.page.inputs.owner for read in desk.pages}) == 3, "the desk and both schedulers wrote"
    measured(
        f"frozen {frozen_s} s, all books taken over after {taken_over_s:.1f} s; {instants} instants decided once, "
        f"{len(ineffective)} late pages without effect"
    )


def field_of(answer: Json, name: str) -> Json:
    """A field of an object."""
    assert isinstance(answer, dict)
    return answer[name]


class FreezesBroker:
    """Stands before appends: freezes the broker, once, just before the first page that follows another is sent."""

    def __init__(self, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.frozen = asyncio.Event()
        self.outage = ExitStack()
        append_page = Ledger.append

        async def append(ledger: Ledger, append: Append) -> Committed | Lost:
            """Freeze once, then append."""
            if append.expected_sequence and not self.frozen.is_set():
                self.outage.enter_context(frozen(broker))
                self.frozen.set()
            return await append_page(ledger, append)

        monkeypatch.setattr(Ledger, "append", append)


@pytest.mark.parametrize("outage_s", [LATE_S, pytest.param(25, marks=pytest.mark.long)])
async def test_a_command_buffered_across_an_outage_does_nothing(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, outage_s: int, measured: Callable[[str], None]
) -> None:
    """Its page lands late: in the chain, without effect, shown by status; its caller was told that nothing is known."""
    command = ("trigger", "create", "acme/t", "--every", "1h", "--target", TARGET, "--request-id", "once")
    async with running_service(broker) as service:
        await service.ask("tenant.create", tenant="acme")
        freezer = FreezesBroker(broker, monkeypatch)
        with freezer.outage:
            calling = asyncio.create_task(service.run(*command))
            await asyncio.wait_for(freezer.frozen.wait(), PATIENCE_S)
            since = realtime()
            await elapsed(since, outage_s)
        told = await calling
        assert told.status == ExitStatus.UNAVAILABLE
        assert "is not known" in told.stderr
        assert "--request-id once" in told.stderr
        await until(lambda: service.control.model.book("acme").head.number == 2, what="the late page")
        head = service.control.model.book("acme").head
        status = await service.run("status", "--json")
        assert field_of(loads(status.stdout), "ineffective_pages") == 1
        assert [row["effective"] for row in await service.rows("book", "show", "acme", "--json")] == [True, False]
        assert await service.rows("trigger", "list", "acme", "--json") == []
        again = await service.run(*command)
        assert (again.status, again.stderr) == (0, "")
        pages = await service.rows("book", "show", "acme", "--json")
        assert [row["effective"] for row in pages] == [True, False, True], "carried out once"
        assert len(await service.rows("trigger", "list", "acme", "--json")) == 1
    measured(
        f"a command sent into an outage of {outage_s} s was stored {(head.stamped_at - since) / SECOND:.1f} s later, "
        f"once and without effect; its caller was told: {told.stderr.strip()!r}"
    )
