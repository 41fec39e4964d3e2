"""Status with problems: quarantine, pages without effect, blocked books, calls that wait; on a broker of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from fireledger.domain.book import next_page
from fireledger.domain.commands import Tick
from fireledger.domain.decide import decide
from fireledger.domain.identifiers import slot_of
from fireledger.domain.inputs import Inputs
from fireledger.domain.instants import HOUR, SECOND
from fireledger.domain.page import PageInputs, Quarantine, encode_page
from fireledger.domain.rejections import Rejection
from fireledger.runners.control.problems import LATE_PAGE_SHOWN
from fireledger.runners.jetstream.buckets import Bucket
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.ledger import Append, Committed, Ledger
from fireledger.runners.json_edge import Json
from fireledger.runners.lease_plan import LeaseKind
from fireledger.runners.runner_state import WAITING_LONG_S, Blocked, Seen, StateReport
from tests.integration.brokers import RunningBroker
from tests.integration.control.running import ZONES, Service, running_service
from tests.integration.control.test_reads import heartbeat

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


@pytest_asyncio.fixture
async def service(broker: RunningBroker) -> AsyncIterator[Service]:
    """A control on a fresh broker, where a scheduler and a dispatcher beat."""
    async with running_service(broker) as running:
        for kind in ("scheduler", "dispatcher"):
            running.writers[kind] = await BrokerConnection.open(broker.login(kind), name=kind)
        await heartbeat(running.writers["scheduler"], "scheduler", running.clock.now().latest + 60 * SECOND)
        await heartbeat(running.writers["dispatcher"], "dispatcher", running.clock.now().latest + 60 * SECOND)
        yield running


async def details(service: Service) -> list[dict[str, Json]]:
    """The problems that status tells of a service that is ready nevertheless."""
    answer = await service.ask("status")
    found = answer["details"]
    assert isinstance(found, list)
    rows = [row for row in found if isinstance(row, dict)]
    assert answer["ready"] is True
    assert answer["problems"] == [row["problem"] for row in rows]
    assert all(row["hint"] for row in rows)
    return rows


async def write(
    service: Service, tenant: str, *, stamped_late: int = 0, quarantine: tuple[Quarantine, ...] = ()
) -> None:
    """Write a scheduler's page, as if its clock were so much behind."""
    book, reading = service.control.model.book(tenant), service.clock.now()
    inputs = PageInputs(
        now=max(reading.earliest - stamped_late, book.state.now),
        earliest=reading.earliest - stamped_late,
        latest=reading.latest - stamped_late,
        clock_source=reading.source,
        as_of=book.state.as_of,
        owner="scheduler-test",
        quarantine=quarantine,
    )
    entries = decide(book.state, Tick(), Inputs(inputs, ZONES))
    assert not isinstance(entries, Rejection)
    page = next_page(book, commit_id=f"{tenant}-{book.head.number}", inputs=inputs, command=Tick(), entries=entries)
    subject = f"book.{slot_of(tenant)}.{tenant}"
    append = Append(subject, encode_page(page), page.commit_id, book.head.sequence)
    outcome = await Ledger(service.writers["scheduler"]).append(append)
    assert isinstance(outcome, Committed)
    model = service.control.model
    assert await model.wait_until(lambda: model.position >= outcome.sequence, 5.0)


async def test_a_ready_service_without_problems_ends_with_0(service: Service) -> None:
    """Nothing is complained about, and the command says so."""
    assert await details(service) == []
    ended = await service.run("status")
    assert (ended.status, ended.stdout.splitlines()[0], ended.stderr) == (0, "ready", "")


async def test_a_trigger_in_quarantine_is_a_problem_with_its_name(service: Service) -> None:
    """The command shows it with a hint and ends with 6, although all runners are there; deleting it ends that."""
    await service.create("acme", "bad", every="1s")
    await write(service, "acme", quarantine=(Quarantine(trigger="bad", cause="ValueError: no"),))
    (problem,) = await details(service)
    assert problem == {
        "code": "trigger-quarantined",
        "problem": 'trigger "acme/bad" is in quarantine and does not fire: ValueError: no',
        "hint": "look, then amend it: fireledger trigger show acme/bad",
    }
    ended = await service.run("status")
    assert ended.status == 6
    assert ended.stdout.splitlines()[:3] == [
        "ready, with a problem",
        f"  {problem['problem']}",
        f"    hint: {problem['hint']}",
    ]
    await service.ask("trigger.delete", tenant="acme", trigger="bad")
    assert await details(service) == []


async def test_a_page_without_effect_is_a_problem_for_an_hour(service: Service) -> None:
    """It names the writer and the page; an hour later only the count is left."""
    await service.create("acme", "t", every="1s")
    await write(service, "acme", stamped_late=62 * SECOND)
    (problem,) = await details(service)
    assert problem["code"] == "page-ineffective"
    assert "written by scheduler-test and stamped 1m" in str(problem["problem"])
    assert str(problem["hint"]).endswith("fireledger book show acme --from 3")
    service.clock.offset += LATE_PAGE_SHOWN
    answer = await service.ask("status")
    assert "page-ineffective" not in str(answer["details"])
    assert answer["ineffective_pages"] == 1


Report = Callable[[LeaseKind, Seen], Awaitable[StateReport]]


@pytest_asyncio.fixture
async def report(service: Service) -> AsyncIterator[Report]:
    """Makes reports of the beating runners, with the rights of those."""
    async with AsyncExitStack() as stack:

        async def make(kind: LeaseKind, seen: Seen) -> StateReport:
            connection = await BrokerConnection.open(service.broker.login(kind), name="report")
            stack.push_async_callback(connection.close)
            bucket = Bucket(connection, "leases")
            return StateReport(bucket, service.clock, kind=kind, runner_id=f"{kind}-test", look=lambda: seen)

        yield make


async def test_a_blocked_book_is_a_problem_until_it_goes_on(service: Service, report: Report) -> None:
    """What the scheduler says counts while it beats, and goes away with the reason."""
    blocked = await report("scheduler", Seen(blocked=(Blocked("acme", "zone-data-missing"),)))
    await blocked.turn()
    (problem,) = await details(service)
    assert problem["code"] == "book-blocked"
    assert problem["problem"] == 'nothing is decided in the book of "acme": zone-data-missing (scheduler-test)'
    stop = asyncio.Event()
    running = asyncio.create_task(blocked.run(stop))
    stop.set()
    await asyncio.wait_for(running, 5)
    assert await details(service) == []


async def test_calls_that_wait_for_long_are_a_problem(service: Service, report: Report) -> None:
    """A burst is none; waiting without a break is, and a dispatcher that is gone tells nothing any more."""
    waiting = await report("dispatcher", Seen(calls_waiting=40, calls_under_way=64))
    await waiting.turn()
    assert await details(service) == []
    service.clock.offset += WAITING_LONG_S * SECOND
    await waiting.turn()
    (problem,) = await details(service)
    assert problem["code"] == "calls-saturated"
    assert str(problem["problem"]).startswith("40 fires wait for their call at dispatcher-test, without a break since ")
    service.clock.offset += HOUR
    answer = await service.ask("status")
    assert answer["problems"] == ["no scheduler is active", "no dispatcher is active"]


async def test_bursts_one_after_the_other_are_not_told(service: Service) -> None:
    """Whoever waits a moment now and a moment later has not waited for long, and nothing is written about it."""
    seen = [Seen(calls_waiting=1)]
    bucket = Bucket(service.writers["dispatcher"], "leases")
    report = StateReport(bucket, service.clock, kind="dispatcher", runner_id="dispatcher-test", look=lambda: seen[0])
    for calls in (1, 0, 1, 0, 1):
        seen[0] = Seen(calls_waiting=calls)
        await report.turn()
        service.clock.offset += (WAITING_LONG_S - 1) * SECOND
    assert await bucket.entries("dispatcher.state.") == []


async def test_what_a_killed_runner_said_is_forgotten(service: Service, report: Report) -> None:
    """The next one that starts deletes the states of runners that beat no more, and of no others."""
    blocked = await report("scheduler", Seen(blocked=(Blocked("acme", "zone-data-missing"),)))
    await blocked.turn()
    bucket = Bucket(service.writers["scheduler"], "leases")
    assert await bucket.put_if("scheduler.state.scheduler-gone", b"{}", 0) is not None
    other = StateReport(bucket, service.clock, kind="scheduler", runner_id="scheduler-new", look=Seen)
    stop = asyncio.Event()
    stop.set()
    await asyncio.wait_for(other.run(stop), 5)
    assert [entry.key for entry in await bucket.entries("scheduler.state.")] == ["scheduler.state.scheduler-test"]


async def test_a_runners_figures_are_in_the_status(service: Service, report: Report) -> None:
    """The first figures are told at once, and what changes soon after is told later; they are no problem."""
    figures = {"searches": 7}
    reporting = await report("scheduler", Seen(figures=figures))
    await reporting.turn()
    figures["searches"] = 8
    await reporting.turn()
    answer = await service.ask("status")
    runners = answer["runners"]
    assert isinstance(runners, list)
    told = {str(each["runner"]): each["figures"] for each in runners if isinstance(each, dict)}
    assert told["scheduler-test"] == {"searches": 7}
    assert await details(service) == []
