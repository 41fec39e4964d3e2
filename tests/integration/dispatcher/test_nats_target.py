"""NATS targets and the executor's side of them, through the real broker and its rights."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal

import pytest

from fireledger.domain.identifiers import parse_fire_key
from fireledger.domain.instants import MILLISECOND, SECOND, Duration
from fireledger.runners.clock import realtime
from fireledger.runners.dispatcher.calls import Call, CallResult
from fireledger.runners.dispatcher.nats_target import NatsTarget
from fireledger.runners.executor import Answer, Handler, Memory, NatsExecutor, Work, bucket_key
from fireledger.runners.jetstream.buckets import Bucket
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.subscription import Message
from fireledger.runners.jetstream.topology import executor_bucket
from fireledger.runners.json_edge import dumps
from tests.integration.brokers import RunningBroker
from tests.integration.dispatcher.driving import BookWriter, dispatching, every_second, records, results
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

Connect = Callable[[str], Awaitable[BrokerConnection]]
KEY = parse_fire_key("acme/report/2026-11-30T09:00:00Z/0")


@asynccontextmanager
async def _serving(
    connection: BrokerConnection, handler: Handler, *, concurrency: int = 8
) -> AsyncGenerator[NatsExecutor]:
    executor = NatsExecutor(connection, "acme", "report", handler, concurrency=concurrency)
    stop = asyncio.Event()
    running = asyncio.ensure_future(executor.run(stop))
    # Subscribing and flushing are two messages on this connection; a second flush comes after both.
    await asyncio.wait({running}, timeout=0.02)
    await connection.flush()
    try:
        yield executor
    finally:
        stop.set()
        await running


def _call(*, attempt: int = 1, timeout_s: float = 5.0, sequence: int = 0, tenant: str = "acme") -> Call:
    return Call(
        key=parse_fire_key(f"{tenant}/report/2026-11-30T09:00:00Z/{sequence}"),
        attempt=attempt,
        lane="on-time",
        target="nats:report",
        content_type="text/plain",
        payload=b"hello",
        timeout_s=timeout_s,
    )


@pytest.mark.slow
async def test_a_released_fire_reaches_its_nats_executor_once(
    broker: RunningBroker, book: BookWriter, connect: Connect, scheduler: BrokerConnection
) -> None:
    """From the book to the handler, with key, attempt, lane and payload, and its answer back into the log."""
    works: list[Work] = []

    async def handle(work: Work) -> Answer:
        works.append(work)
        return Answer("held", "ask the owner", 3)

    async with _serving(await connect("executor-acme"), handle), dispatching(broker) as running:
        (key,) = await book.open({"report": every_second("nats:report")}, seconds=1)
        await until(lambda: running.dispatcher.snapshot()["open"] == 0 and bool(works), what="the work")
    (work,) = works
    assert (str(work.key), work.attempt, work.lane, work.content_type) == (key, 1, "on-time", "text/plain")
    assert (work.payload, 0 < work.timeout_s <= 5) == (b"hello", True)
    (record,) = results(await records(scheduler))
    assert (record.result, record.message, record.cost) == ("held", "ask the owner", 3)


@pytest.mark.slow
async def test_a_nats_executor_that_is_silent_times_out(
    broker: RunningBroker, book: BookWriter, connect: Connect, scheduler: BrokerConnection
) -> None:
    """The attempt ends as a timeout at started + timeout."""

    async def silent(message: Message) -> None:
        await asyncio.Event().wait()

    executor = await connect("executor-acme")
    await executor.subscribe("work.acme.report", silent)
    await executor.flush()
    async with dispatching(broker) as running:
        await book.open({"report": every_second("nats:report", timeout=Duration(300 * MILLISECOND))}, seconds=1)
        await until(lambda: running.dispatcher.counters.results["timeout"] == 1, what="the timeout")
    (record,) = results(await records(scheduler))
    assert record.result == "timeout"
    assert record.took <= 400 * MILLISECOND


async def test_nobody_listening_is_retryable(connect: Connect) -> None:
    """Also for a tenant that has no executors at all."""
    target = NatsTarget(await connect("dispatcher"))
    for tenant in ("acme", "initech"):
        result = await target.call(_call(tenant=tenant))
        assert (result.kind, "nobody answers" in result.message) == ("retryable", True)


async def test_a_key_that_is_done_gets_the_same_answer_without_running_again(connect: Connect) -> None:
    """The second request, whatever its attempt, runs nothing and is counted."""
    ran: list[int] = []

    async def handle(work: Work) -> Answer:
        ran.append(work.attempt)
        return Answer("succeeded", f"run {len(ran)}", 5)

    target = NatsTarget(await connect("dispatcher"))
    async with _serving(await connect("executor-acme"), handle) as executor:
        first = await target.call(_call())
        again = await target.call(_call())
        later = await target.call(_call(attempt=2))
        other = await target.call(_call(sequence=1))
    assert first == again == later == CallResult(kind="succeeded", message="run 1", cost=5)
    assert other.message == "run 2"
    assert (ran, executor.served_count, executor.duplicates_count) == ([1, 1], 2, 2)


@pytest.mark.parametrize("kind", ["held", "accepted"])
async def test_what_was_held_or_accepted_runs_again_for_a_later_attempt_only(
    connect: Connect, kind: Literal["held", "accepted"]
) -> None:
    """The same attempt sent again gets its answer; a person who lets the fire go on gets the work done."""
    ran: list[int] = []

    async def handle(work: Work) -> Answer:
        ran.append(work.attempt)
        return Answer(kind if work.attempt == 1 else "succeeded")

    target = NatsTarget(await connect("dispatcher"))
    async with _serving(await connect("executor-acme"), handle):
        kinds = [(await target.call(_call(attempt=attempt))).kind for attempt in (1, 1, 2, 2, 1)]
    assert kinds == [kind, kind, "succeeded", "succeeded", "succeeded"]
    assert ran == [1, 2]


async def test_a_retryable_answer_says_when(connect: Connect) -> None:
    """Its whole seconds arrive as the wait."""

    async def handle(work: Work) -> Answer:
        return Answer("retryable", retry_after=7)

    target = NatsTarget(await connect("dispatcher"))
    async with _serving(await connect("executor-acme"), handle):
        assert (await target.call(_call())).retry_after == 7 * SECOND


async def test_two_executors_do_a_key_once_between_them(connect: Connect) -> None:
    """They share the work; the same key sent ten times at once runs once, the others are told so."""
    ran: list[str] = []
    go_on = asyncio.Event()

    async def handle(work: Work) -> None:
        ran.append(str(work.key))
        await go_on.wait()

    target = NatsTarget(await connect("dispatcher"))
    async with (
        _serving(await connect("executor-acme"), handle) as one,
        _serving(await connect("executor-acme"), handle) as two,
    ):
        calls = [asyncio.ensure_future(target.call(_call())) for _ in range(10)]
        await until(lambda: sum(call.done() for call in calls) == 9, what="nine answers")
        go_on.set()
        answers = await asyncio.gather(*calls)
    assert len(ran) == 1
    assert sorted(answer.kind for answer in answers) == ["retryable"] * 9 + ["succeeded"]
    assert one.duplicates_count + two.duplicates_count == 9


async def test_after_a_retryable_answer_the_next_attempt_runs(connect: Connect) -> None:
    """Also when the handler raised; what it raised is not told."""
    outcomes: list[Answer | Exception] = [Answer("retryable", "busy"), ValueError("secret"), Answer()]

    async def handle(work: Work) -> Answer:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    target = NatsTarget(await connect("dispatcher"))
    async with _serving(await connect("executor-acme"), handle):
        answers = [await target.call(_call(attempt=attempt)) for attempt in (1, 2, 3)]
    assert [answer.kind for answer in answers] == ["retryable", "retryable", "succeeded"]
    assert answers[1].message == "the handler failed: ValueError"


async def test_what_a_dead_executor_began_is_taken_over_after_its_time(connect: Connect) -> None:
    """Within its time the key is not touched; two seconds after it the work is done."""
    connection = await connect("executor-acme")
    bucket = Bucket(connection, executor_bucket("acme"))

    async def handle(work: Work) -> None:
        return None

    target = NatsTarget(await connect("dispatcher"))
    async with _serving(connection, handle) as executor:
        revision = 0
        for over_for_s, kind in ((1.0, "retryable"), (2.5, "succeeded")):
            left = Memory("running", until=realtime() - int(over_for_s * 1_000_000))
            revision = (
                await bucket.put_if(bucket_key(KEY), dumps({"state": left.state, "until": left.until}), revision) or 0
            )
            assert (await target.call(_call())).kind == kind
    assert executor.served_count == 1


async def test_work_that_takes_too_long_is_cancelled_and_may_run_again(connect: Connect) -> None:
    """The handler is not left running beyond the time its answer is waited for."""
    cancelled: list[bool] = []

    async def handle(work: Work) -> None:
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.1 if len(cancelled) else 60)
        except TimeoutError:
            return
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    target = NatsTarget(await connect("dispatcher"))
    async with _serving(await connect("executor-acme"), handle):
        assert (await target.call(_call(timeout_s=0.2))).kind == "retryable"
        assert cancelled == [True]
        assert (await target.call(_call(attempt=2))).kind == "succeeded"


async def test_work_of_another_tenant_or_without_a_key_is_final(connect: Connect) -> None:
    """Nothing is run for it."""

    async def handle(work: Work) -> None:
        raise AssertionError("must not run")

    dispatcher = await connect("dispatcher")
    async with _serving(await connect("executor-acme"), handle) as executor:
        for key in ("", "globex/report/2026-11-30T09:00:00Z/0", "acme/report/2026-11-30T09:00:00+00:00/0"):
            reply = await dispatcher.request("work.acme.report", b"x", timeout_s=2, headers={"Idempotency-Key": key})
            assert b'"final"' in reply.payload
    assert executor.served_count == 0


async def test_calls_are_pipelined(connect: Connect) -> None:
    """Fifty calls are under way at once over one connection."""
    waiting: list[Work] = []
    all_there = asyncio.Event()

    async def handle(work: Work) -> None:
        waiting.append(work)
        if len(waiting) == 50:
            all_there.set()
        await all_there.wait()

    target = NatsTarget(await connect("dispatcher"))
    async with _serving(await connect("executor-acme"), handle, concurrency=50):
        answers = await asyncio.gather(*(target.call(_call(sequence=n)) for n in range(50)))
    assert {answer.kind for answer in answers} == {"succeeded"}
