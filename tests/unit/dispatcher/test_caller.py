"""A call is bounded in time, and what goes wrong with it stays its own."""

import asyncio

import pytest

from fireledger.domain.definition import Sealed
from fireledger.domain.entries import AttemptResult
from fireledger.domain.instants import MILLISECOND, SECOND
from fireledger.runners.attempt_tokens import REPORT_TO_HEADER, TOKEN_HEADER, AttemptTokens
from fireledger.runners.dispatcher.caller import Caller, target_name
from fireledger.runners.dispatcher.calls import Call, CallResult, Uncallable
from fireledger.runners.dispatcher.reporting import Reporting
from fireledger.runners.dispatcher.tasks import Task
from tests.simulated_clock import SimulatedClock
from tests.unit.dispatcher.samples import task_of

pytestmark = pytest.mark.asyncio


class _Target:
    """Answers at once, or raises, or hangs; remembers the calls."""

    def __init__(self, error: Exception | None = None, *, hangs: bool = False) -> None:
        self.calls: list[Call] = []
        self.cancelled = False
        self._error = error
        self._hangs = hangs

    async def call(self, call: Call) -> CallResult:
        self.calls.append(call)
        if self._hangs:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled = True
        if self._error is not None:
            raise self._error
        return CallResult(kind="succeeded", code=204, cost=1, message="ok")


class _Bench:
    def __init__(self, target: _Target, *, ahead: int = 0) -> None:
        self.clock = SimulatedClock(offset=ahead)
        self.target = target
        self.caller = Caller(clock=self.clock, http=_Target(), nats=target)

    async def attempt(self, task: Task, *, ago: int = 0, sent_ago: int = 0, resend: bool = False) -> AttemptResult:
        """Call a task that the broker stamped ``ago`` and that was sent ``sent_ago``."""
        task.started_at = self.clock.now().latest - ago
        sent_at = self.clock.monotonic() - sent_ago / SECOND
        return await self.caller.attempt(task, sent_at=sent_at, resend=resend)


async def test_the_result_record_names_the_attempt() -> None:
    """Key, attempt, result, code, cost and message are in the record; the time taken is measured."""
    bench = _Bench(_Target())
    record = await bench.attempt(task_of(number=3))
    assert (record.fire, record.attempt) == (task_of(number=3).key, 1)
    assert (record.result, record.code, record.cost, record.message) == ("succeeded", 204, 1, "ok")
    assert 0 <= record.took < SECOND


async def test_a_call_is_abandoned_at_started_plus_timeout() -> None:
    """Of a timeout of 200 ms, 150 are gone: the call is cancelled after the rest."""
    bench = _Bench(_Target(hangs=True))
    record = await bench.attempt(task_of(timeout=200 * MILLISECOND), ago=150 * MILLISECOND, sent_ago=150 * MILLISECOND)
    assert (record.result, bench.target.cancelled) == ("timeout", True)
    assert 0 < bench.target.calls[0].timeout_s <= 0.05


@pytest.mark.parametrize("resend,result", [(False, "retryable"), (True, "timeout")])
async def test_a_call_is_never_begun_after_started_plus_timeout(resend: bool, result: str) -> None:
    """A first start that was not sent did nothing; what became of a resend's predecessor is not known."""
    bench = _Bench(_Target())
    record = await bench.attempt(task_of(), ago=6 * SECOND, sent_ago=6 * SECOND, resend=resend)
    assert (record.result, bench.target.calls) == (result, [])


async def test_a_page_that_took_long_to_be_written_leaves_the_whole_timeout() -> None:
    """Sent a minute ago, through a broker's absence, and stamped just now: there is time."""
    bench = _Bench(_Target())
    assert (await bench.attempt(task_of(), sent_ago=60 * SECOND)).result == "succeeded"


async def test_a_clock_apart_from_the_brokers_does_not_end_calls() -> None:
    """By this clock the start is long over, but it was sent just now."""
    bench = _Bench(_Target())
    assert (await bench.attempt(task_of(), ago=60 * SECOND)).result == "succeeded"


async def test_the_time_left_is_never_more_than_the_timeout() -> None:
    """Also when the broker's clock is ahead of ours."""
    bench = _Bench(_Target())
    await bench.attempt(task_of(), ago=-60 * SECOND)
    assert bench.target.calls[0].timeout_s <= 5


async def test_a_held_clock_leaves_the_steady_one() -> None:
    """The call is made, bounded from when its start was sent."""
    bench = _Bench(_Target())
    task = task_of()
    task.started_at = bench.clock.now().latest
    bench.clock.held = True
    record = await bench.caller.attempt(task, sent_at=bench.clock.monotonic() - 1, resend=False)
    assert record.result == "succeeded"
    assert bench.target.calls[0].timeout_s <= 4


@pytest.mark.parametrize(
    "error,result", [(Uncallable("no such thing"), "final"), (ZeroDivisionError("secret"), "retryable")]
)
async def test_what_a_call_raises_is_its_result(error: Exception, result: str) -> None:
    """A call that cannot be made is final; an unexpected error is retryable, and its text is not kept."""
    record = await _Bench(_Target(error)).attempt(task_of())
    assert record.result == result
    assert "secret" not in record.message


async def test_a_payload_sealed_with_an_unknown_scheme_is_final() -> None:
    """It cannot be opened by this release, so nothing is called."""
    import msgspec

    bench, task = _Bench(_Target()), task_of()
    task.definition = msgspec.structs.replace(task.definition, payload=Sealed(9, b"x"))
    assert (await bench.attempt(task)).result == "final"
    assert bench.target.calls == []


async def test_targets_are_told_apart_by_tenant_or_host() -> None:
    """The same NATS name of two tenants is two targets; an HTTP target is its host and port."""
    assert target_name(task_of("acme")) == "work.acme.report"
    assert target_name(task_of("globex")) == "work.globex.report"
    assert target_name(task_of(target="https://a.example/x")) == "a.example:443"


async def test_a_call_carries_its_attempts_token() -> None:
    """With a report key, each call has its own token, and where reports go for its kind of target."""
    tokens = AttemptTokens(bytes(32))
    target = _Target()
    caller = Caller(
        clock=SimulatedClock(), http=target, nats=target, reporting=Reporting(tokens, "http://127.0.0.1:9/v1/outcomes")
    )
    where = {"nats:report": "outcomes.acme", "http://127.0.0.1/x": "http://127.0.0.1:9/v1/outcomes"}
    for name, address in where.items():
        task = task_of(target=name)
        task.started_at = SimulatedClock().now().latest
        await caller.attempt(task, sent_at=SimulatedClock().monotonic(), resend=False)
        token = tokens.mint(task.key, 1)
        assert target.calls[-1].report_headers == {TOKEN_HEADER: token, REPORT_TO_HEADER: address}


async def test_without_a_report_key_a_call_carries_no_token() -> None:
    """Nothing pretends that a report would be taken."""
    bench = _Bench(_Target())
    await bench.attempt(task_of())
    assert bench.target.calls[0].report_headers == {}
