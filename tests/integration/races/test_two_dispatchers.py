"""Two dispatchers that both believe they own everything."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from fireledger.domain.commands import Tick
from fireledger.domain.identifiers import slot_of
from fireledger.domain.instants import SECOND
from fireledger.domain.limits import SLOT_COUNT
from fireledger.runners.clock import realtime
from fireledger.runners.executor import NatsExecutor, Work
from fireledger.runners.jetstream.connection import BrokerConnection
from tests.integration.brokers import TENANTS, RunningBroker
from tests.integration.dispatcher.driving import BookWriter, dispatching, every_second, records, results, started
from tests.integration.dispatcher.executors import recorder
from tests.integration.races.processes import credentials, module
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

Connect = Callable[[str], Awaitable[BrokerConnection]]
HTTP_TENANTS = tuple(f"web-{number}" for number in range(18))
TRIGGERS_EACH = 9
SECONDS = 3
"""Seconds, and so pages of each book, that release fires."""


@pytest_asyncio.fixture
async def connect(broker: RunningBroker) -> AsyncGenerator[Connect, None]:
    """Connect to the test's broker as often as needed."""
    opened: list[BrokerConnection] = []

    async def one(user: str) -> BrokerConnection:
        """Connect once."""
        opened.append(await BrokerConnection.open(broker.login(user), name=f"test-{user}"))
        return opened[-1]

    yield one
    await asyncio.gather(*(connection.close() for connection in opened))


@asynccontextmanager
async def nats_executors(connect: Connect) -> AsyncGenerator[tuple[list[str], list[NatsExecutor]], None]:
    """An executor for each tenant that has one: the keys that arrived, and who counts duplicates."""
    arrived: list[str] = []

    async def handle(work: Work) -> None:
        """Remember the key."""
        arrived.append(str(work.key))

    stop = asyncio.Event()
    executors = [NatsExecutor(await connect(f"executor-{tenant}"), tenant, "report", handle) for tenant in TENANTS]
    running = [asyncio.create_task(executor.run(stop)) for executor in executors]
    await asyncio.wait(running, timeout=0.05)
    try:
        yield arrived, executors
    finally:
        stop.set()
        await asyncio.gather(*running)


async def release(books: list[BookWriter], http_url: str) -> Counter[str]:
    """Define the triggers, then release what is due, second after second in all books at once; the keys."""
    half = len(HTTP_TENANTS)
    http = {f"t{number}": every_second(f"{http_url}/ok") for number in range(TRIGGERS_EACH)}
    nats = {f"t{number}": every_second("nats:report") for number in range(TRIGGERS_EACH)}
    opened = (book.open(http if place < half else nats, seconds=1) for place, book in enumerate(books))
    keys = Counter(key for found in await asyncio.gather(*opened) for key in found)
    for _ in range(SECONDS - 1):
        due = realtime() // SECOND * SECOND + SECOND

        def is_due(instant: int = due) -> bool:
            """Whether the next second has begun."""
            return realtime() >= instant

        await until(is_due, what="the next second")
        ticked = await asyncio.gather(*(book.write(Tick(), realtime()) for book in books))
        keys.update(key for book, entries in zip(books, ticked, strict=True) for key in book.released(entries))
    return keys


async def test_two_dispatchers_make_no_attempt_twice(
    broker: RunningBroker, connect: Connect, measured: Callable[[str], None]
) -> None:
    """500 fires of 20 tenants over HTTP and NATS, raced by two owners of everything: each is called exactly once."""
    scheduler = await connect("scheduler")
    books = [BookWriter(scheduler, tenant) for tenant in (*HTTP_TENANTS, *TENANTS)]
    async with (
        recorder() as http,
        nats_executors(connect) as (arrived, executors),
        dispatching(broker) as one,
        dispatching(broker) as two,
    ):
        keys = await release(books, http.url)
        both = (one.dispatcher, two.dispatcher)
        await until(
            lambda: (
                len(http.requests) + len(arrived) >= len(keys) and all(each.snapshot()["open"] == 0 for each in both)
            ),
            what="every fire is called and answered",
        )
        lost = sum(each.counters.lost_appends for each in both)
        begun = [each.counters.started for each in both]
        resent = [each.snapshot()["duplicates"] for each in both]
    assert len(keys) >= 500
    assert set(keys.values()) == {1}
    calls = Counter(request.headers["ce-id"] for request in http.requests) + Counter(arrived)
    assert calls == keys, "each fire arrived once"
    assert sum(executor.duplicates_count for executor in executors) == 0
    found = await records(scheduler)
    assert Counter(str(record.fire) for record in started(found)) == keys
    assert Counter(str(record.fire) for record in results(found)) == keys
    assert resent == [{}, {}]
    assert lost > 0, "they met"
    assert sum(begun) == len(keys)
    slots = len({slot_of(tenant) for tenant in (*HTTP_TENANTS, *TENANTS)})
    measured(f"{len(keys)} fires in {slots} slots, {lost} appends lost, {begun} attempts begun by the two")


async def test_a_dispatcher_that_was_frozen_sends_nothing_again(broker: RunningBroker, connect: Connect) -> None:
    """Woken, it reads releases and another's starts at once, with the calls still under way: it calls nobody."""
    owner = ("tests.integration.races.owning_everything", "dispatcher", broker.url, credentials(broker, "dispatcher"))
    scheduler = await connect("scheduler")
    # Few enough for one read of the socket to bring releases and starts together.
    books = [BookWriter(scheduler, tenant) for tenant in HTTP_TENANTS[:4]]
    async with recorder() as http, module(*owner, "frozen") as frozen, dispatching(broker) as other:
        await frozen.until_logged("dispatcher-ready")
        await frozen.freeze()
        triggers = {"t": every_second(f"{http.url}/wait")}
        opened = await asyncio.gather(*(book.open(triggers, seconds=1) for book in books))
        keys = Counter(key for found in opened for key in found)
        await until(lambda: len(http.requests) >= len(keys), what="every call is under way")
        # From here on only the woken one may start anything: once it has called, it has read all the rest.
        other.ownership.change(set(range(SLOT_COUNT)))
        frozen.wake()
        late = BookWriter(scheduler, "late")
        keys.update(await late.open({"t": every_second(f"{http.url}/ok")}, seconds=1))
        await until(lambda: len(http.at("/ok")) >= 1, what="the late fire")
        http.go_on.set()
        await until(lambda: other.dispatcher.snapshot()["open"] == 0, what="every call is answered")
        assert await frozen.interrupt() == 0
        (did,) = frozen.logged("owner-ended")
    assert Counter(request.headers["ce-id"] for request in http.requests) == keys
    found = await records(scheduler)
    assert Counter(str(record.fire) for record in started(found)) == keys
    assert Counter(str(record.fire) for record in results(found)) == keys
    assert (did["started"], did["duplicates"]) == (keys.total() - len(http.at("/wait")), {})
