"""From a released entry to the executor and back into the log."""

import asyncio
import os
import signal
from collections import Counter

import pytest

from fireledger.domain.commands import CreateTrigger, Tick
from fireledger.domain.entries import FireFinished, FireReleased
from fireledger.domain.identifiers import parse_fire_key, slot_of
from fireledger.domain.instants import MILLISECOND, SECOND, Duration, Instant, format_instant
from fireledger.domain.page import PageInputs
from fireledger.runners.clock import realtime
from fireledger.runners.dispatcher import dispatcher as module
from fireledger.runners.dispatcher.lanes import LANE_NAMES, lane_limit
from fireledger.runners.jetstream.connection import BrokerConnection
from tests.integration.brokers import RunningBroker
from tests.integration.dispatcher.driving import (
    BookWriter,
    dispatching,
    every_second,
    records,
    results,
    start_dispatcher,
    started,
)
from tests.integration.dispatcher.executors import Recorder
from tests.unit.dispatcher.owning import Owned
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

SHORT = Duration(500 * MILLISECOND)


async def test_a_released_fire_reaches_its_http_executor_once(
    broker: RunningBroker, book: BookWriter, http: Recorder, scheduler: BrokerConnection
) -> None:
    """One POST with every header that is promised, a started record before it and a result after it."""
    async with dispatching(broker) as running:
        (key,) = await book.open({"report": every_second(f"{http.url}/ok?x=1")}, seconds=1)
        await until(lambda: running.dispatcher.snapshot()["open"] == 0 and bool(http.requests), what="fire")
    (request,) = http.requests
    fire = parse_fire_key(key)
    expected = {
        "ce-specversion": "1.0",
        "ce-id": key,
        "ce-source": "/fireledger/acme",
        "ce-type": "fireledger.fire.v1",
        "ce-subject": "report",
        "ce-time": format_instant(fire.scheduled),
        "idempotency-key": key,
        "content-type": "text/plain",
        "fireledger-attempt": "1",
        "fireledger-lane": "on-time",
    }
    assert {name: request.headers.get(name) for name in expected} == expected
    assert request.body == b"hello"
    assert 0 < int(request.headers["fireledger-timeout-ms"]) <= 5_000
    found = await records(scheduler)
    assert [(record.fire, record.attempt, record.resend) for record in started(found)] == [(fire, 1, False)]
    assert [(record.fire, record.result, record.code) for record in results(found)] == [(fire, "succeeded", 200)]


async def test_two_dispatchers_that_own_everything_make_no_attempt_twice(
    broker: RunningBroker, book: BookWriter, http: Recorder, scheduler: BrokerConnection
) -> None:
    """300 fires raced by two dispatchers: each arrives once, is started once and has one result; appends were lost."""
    async with dispatching(broker) as one, dispatching(broker) as two:
        keys = await book.open({f"t{n:03d}": every_second(f"{http.url}/ok") for n in range(100)}, seconds=3)
        assert len(keys) >= 300
        both = (one.dispatcher, two.dispatcher)
        await until(
            lambda: len(http.requests) >= len(keys) and all(each.snapshot()["open"] == 0 for each in both),
            what="300 fires",
        )
        lost = sum(each.counters.lost_appends for each in both)
    assert Counter(request.headers["ce-id"] for request in http.requests) == Counter(keys)
    found = await records(scheduler)
    assert Counter(str(record.fire) for record in started(found)) == Counter(keys)
    assert Counter(str(record.fire) for record in results(found)) == Counter(keys)
    assert lost > 0


async def test_a_start_whose_dispatcher_died_is_sent_again_once_and_says_so(
    broker: RunningBroker, book: BookWriter, http: Recorder, scheduler: BrokerConnection
) -> None:
    """The same attempt goes out again 5 s after its timeout, once, marked as a resend and counted as a duplicate."""
    first = await start_dispatcher(broker)
    (key,) = await book.open({"report": every_second(f"{http.url}/wait", timeout=SHORT)}, seconds=1)
    await until(lambda: len(http.requests) == 1, what="the first call")
    await first.kill()
    await first.connection.close()
    http.go_on.set()
    async with dispatching(broker) as second:
        await until(lambda: second.dispatcher.snapshot()["open"] == 0, what="the resend")
        assert second.dispatcher.snapshot()["duplicates"] == {http.url.removeprefix("http://"): 1}
    assert [request.headers["ce-id"] for request in http.requests] == [key, key]
    found = await records(scheduler)
    assert [(record.attempt, record.resend) for record in started(found)] == [(1, False), (1, True)]
    assert [record.result for record in results(found)] == ["succeeded"]


async def test_a_fire_that_is_over_is_not_sent_again(
    broker: RunningBroker, book: BookWriter, http: Recorder, scheduler: BrokerConnection
) -> None:
    """A start without result whose fire has finished meanwhile stays silent, while another one is sent again."""
    first = await start_dispatcher(broker)
    keys = await book.open(
        {name: every_second(f"{http.url}/wait", timeout=SHORT) for name in ("over", "open")}, seconds=1
    )
    await until(lambda: len(http.requests) == 2, what="the first calls")
    await first.kill()
    await first.connection.close()
    http.go_on.set()
    over = next(parse_fire_key(key) for key in keys if "/over/" in key)
    finished = FireFinished(
        trigger="over", scheduled=over.scheduled, outcome="unknown", cause="outcome window over", attempt=1
    )
    now = realtime()
    await book.append(Tick(), _inputs(book, now), (finished,))
    async with dispatching(broker) as second:
        await until(lambda: second.dispatcher.snapshot()["open"] == 0, what="the resend")
    assert [request.headers["ce-subject"] for request in http.requests[2:]] == ["open"]


async def test_a_page_without_effect_is_not_dispatched(
    broker: RunningBroker, book: BookWriter, http: Recorder, scheduler: BrokerConnection
) -> None:
    """A release in a page that the broker stamped too late leads to no call and no record."""
    await book.open({"report": every_second(f"{http.url}/ok")}, seconds=0)
    late = Instant(realtime() - 60 * SECOND)
    released = FireReleased(
        trigger="report", scheduled=late, release=late, definition_page=2, lane="on-time", cause="on-time"
    )
    await book.append(Tick(), _inputs(book, late), (released,))
    async with dispatching(broker) as running:
        key = (await _tick_when_due(book))[0]
        await until(lambda: bool(http.requests) and running.dispatcher.snapshot()["open"] == 0, what="a call")
    assert format_instant(late) not in {request.headers["ce-time"] for request in http.requests}
    assert key in {request.headers["ce-id"] for request in http.requests}
    assert late not in {record.scheduled for record in started(await records(scheduler))}


async def test_a_slot_that_is_not_owned_waits_for_its_owner(
    broker: RunningBroker, book: BookWriter, http: Recorder, scheduler: BrokerConnection
) -> None:
    """Nothing is started without ownership; what was released is started when the slot is gained."""
    slot = slot_of("acme")
    async with dispatching(broker, ownership=Owned(without={slot})) as running:
        (key,) = await book.open({"report": every_second(f"{http.url}/ok")}, seconds=1)
        await until(lambda: running.dispatcher.snapshot()["open"] == 1, what="the release read")
        assert http.requests == []
        assert started(await records(scheduler)) == []
        running.ownership.change(set())
        await until(lambda: running.dispatcher.snapshot()["open"] == 0, what="the attempt")
    assert [request.headers["ce-id"] for request in http.requests] == [key]


async def test_a_killed_broker_costs_no_fire_and_makes_none_twice(
    broker: RunningBroker, http: Recorder, scheduler: BrokerConnection
) -> None:
    """Killed with -9 in the middle of 600 fires of ten tenants and restarted: each fire arrives exactly once."""
    books = [BookWriter(scheduler, f"tenant-{n}") for n in range(10)]
    definitions = {f"t{n:02d}": every_second(f"{http.url}/ok", timeout=30 * SECOND) for n in range(20)}
    keys = [key for each in books for key in await each.open(definitions, seconds=3)]
    async with dispatching(broker) as running:
        await until(lambda: len(http.requests) >= 50, what="some calls")
        os.kill(broker.pid, signal.SIGKILL)
        assert len(http.requests) < len(keys), "the broker died in the middle"
        await broker.process.restart()
        await until(lambda: running.dispatcher.snapshot()["open"] == 0, what="the rest")
    arrived = Counter(request.headers["ce-id"] for request in http.requests)
    assert arrived == Counter(keys)
    await scheduler.wait_connected(5)
    found = await records(scheduler)
    assert Counter(str(record.fire) for record in started(found)) == arrived
    assert Counter(str(record.fire) for record in results(found)) == arrived


async def test_a_stop_awaits_calls_under_way_and_writes_their_results(
    broker: RunningBroker, book: BookWriter, http: Recorder, scheduler: BrokerConnection
) -> None:
    """A call that answers while the dispatcher drains has its result in the log when it has stopped."""
    running = await start_dispatcher(broker)
    await book.open({"report": every_second(f"{http.url}/wait")}, seconds=1)
    await until(lambda: len(http.requests) == 1, what="the call")
    ending = asyncio.ensure_future(running.end())
    done, _ = await asyncio.wait({ending}, timeout=0.2)
    assert not done
    http.go_on.set()
    await asyncio.wait_for(ending, 30)
    await running.connection.close()
    assert [record.result for record in results(await records(scheduler))] == ["succeeded"]


async def test_a_stop_does_not_wait_for_ever(
    broker: RunningBroker,
    book: BookWriter,
    http: Recorder,
    scheduler: BrokerConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call that does not answer is abandoned without a result, so that it will be sent again."""
    monkeypatch.setattr(module, "DRAIN_CALLS_S", 0.3)
    running = await start_dispatcher(broker)
    await book.open({"report": every_second(f"{http.url}/wait")}, seconds=1)
    await until(lambda: len(http.requests) == 1, what="the call")
    await asyncio.wait_for(running.end(), 30)
    await running.connection.close()
    assert results(await records(scheduler)) == []


async def test_a_slow_target_holds_up_nobody_else(broker: RunningBroker, book: BookWriter, http: Recorder) -> None:
    """With every place at one target taken by calls that hang, another target's fires arrive at once."""
    async with dispatching(broker) as running:
        slow = {f"slow{n:03d}": every_second(f"{http.url}/wait") for n in range(60)}
        keys = await book.open(slow, seconds=2)
        await until(lambda: len(http.at("/wait")) == module.CALLS_PER_TARGET_MAX, what="a full target")
        assert running.dispatcher.snapshot()["waiting"] == len(keys) - module.CALLS_PER_TARGET_MAX
        other = http.url.replace("127.0.0.1", "localhost")
        assert other != http.url
        await book.write(CreateTrigger(trigger="quick", definition=every_second(f"{other}/ok")), realtime())
        await _tick_when_due(book)
        await until(lambda: len(http.at("/ok")) >= 1, what="the other target")
        http.go_on.set()
        await until(lambda: running.dispatcher.snapshot()["open"] == 0, what="the rest")


async def test_a_backfill_leaves_places_to_on_time_fires(
    broker: RunningBroker, book: BookWriter, http: Recorder
) -> None:
    """Thirty calls of a backfill that hang take an eighth of their target's places; an on-time fire passes them."""
    async with dispatching(broker) as running:
        await book.open({"report": every_second(f"{http.url}/wait")}, seconds=0)
        now = realtime()
        released = [
            FireReleased(
                trigger="report", scheduled=Instant(now - n * SECOND), sequence=n + 1, release=now, definition_page=2,
                lane="backfill", cause="backfilled",
            )
            for n in range(30)
        ]  # fmt: skip
        await book.append(Tick(), _inputs(book, now), tuple(released))
        share = lane_limit(module.CALLS_PER_TARGET_MAX, LANE_NAMES.index("backfill"))
        await until(lambda: len(http.requests) == share, what="the backfill's share")
        assert running.dispatcher.snapshot()["lanes"] == {
            **{name: {"places": 0, "waiting": 0} for name in LANE_NAMES},
            "backfill": {"places": share, "waiting": 30 - share},
        }
        # More than one when a second has passed since the book was opened.
        keys = await _tick_when_due(book)
        await until(lambda: len(http.requests) == share + len(keys), what="the on-time fires")
        last = [(request.headers["ce-id"], request.headers["fireledger-lane"]) for request in http.requests[share:]]
        assert sorted(last) == [(key, "on-time") for key in sorted(keys)]
        http.go_on.set()
        await until(lambda: running.dispatcher.snapshot()["open"] == 0, what="the rest")
    lanes = Counter(request.headers["fireledger-lane"] for request in http.requests)
    assert lanes == {"on-time": len(keys), "backfill": 30}


async def _tick_when_due(book: BookWriter) -> list[str]:
    """Decide once the next second has begun; the released keys."""
    due = realtime() // SECOND * SECOND + SECOND
    await until(lambda: realtime() >= due, what="the next second")
    return book.released(await book.write(Tick(), realtime()))


def _inputs(book: BookWriter, at: Instant) -> PageInputs:
    return PageInputs(
        now=max(at, book.book.state.now),
        earliest=at,
        latest=Instant(at + 10 * MILLISECOND),
        clock_source="test",
        as_of=book.book.state.as_of,
        owner="test",
    )
