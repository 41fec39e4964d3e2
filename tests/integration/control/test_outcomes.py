"""Outcomes that come later than the answer: from the call's token to the end of the fire, through every runner."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from fireledger.domain import entries as e
from fireledger.domain.identifiers import FireKey, parse_fire_key, slot_of
from fireledger.domain.page import decode_attempts
from fireledger.projections.fire_row import FireQuery, FireRow
from fireledger.runners.attempt_tokens import AttemptTokens
from fireledger.runners.control.control import Control
from fireledger.runners.control.outcome_endpoint import OutcomeOptions
from fireledger.runners.control_client import ControlClient
from fireledger.runners.dispatcher.reporting import Reporting
from fireledger.runners.errors import BrokerUnavailable, ControlRefused
from fireledger.runners.executor import Answer, NatsExecutor, Reported, Ticket, Work, report_outcome
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.reading import scan
from fireledger.runners.json_edge import Json, dumps, loads
from fireledger.runners.logs import configure_logs
from fireledger.runners.outcome_address import outcome_url
from tests.integration.brokers import RunningBroker, bare_connection
from tests.integration.control.running import running_control
from tests.integration.dispatcher.driving import dispatching
from tests.integration.scheduler.harness import scheduling
from tests.simulated_clock import SimulatedClock
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio, pytest.mark.slow]

TOKENS = AttemptTokens(bytes(range(32)))
OPTIONS = OutcomeOptions(tokens=TOKENS, port=0)


@dataclass(frozen=True)
class Told:
    """An answer of the outcome endpoint."""

    status: int
    body: dict[str, Json]

    @property
    def code(self) -> Json:
        """Why it was refused."""
        error = self.body["error"]
        assert isinstance(error, dict)
        return error["code"]


@dataclass
class Executor:
    """An HTTP executor that answers each call as it is told to, and keeps the calls' headers."""

    status: int = 202
    answer: dict[str, Json] = field(default_factory=dict[str, Json])
    calls: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    url: str = ""

    async def take(self, request: web.Request) -> web.Response:
        """Take a call."""
        self.calls.append({name.lower(): value for name, value in request.headers.items()})
        return web.Response(status=self.status, body=dumps(self.answer))


@dataclass
class Whole:
    """Control, scheduler, dispatcher and an HTTP executor at work for tenant acme."""

    broker: RunningBroker
    control: Control
    client: ControlClient
    executor: Executor

    @property
    def url(self) -> str:
        """Where to report over HTTP."""
        assert self.control.outcomes.port
        return outcome_url(self.control.outcomes.port)

    async def fire(self, **options: Json) -> FireKey:
        """Create a trigger that fires once, and wait until control has read its attempt's result."""
        named: dict[str, Json] = {"tenant": "acme", "trigger": "report", "every": "1s", "max_fires": 1}
        await self.client.ask("control.trigger.create", {**named, "target": f"{self.executor.url}/work", **options})
        await self.row_has(lambda row: row.result is not None, what="the attempt's result")
        return self.row().key

    def row(self) -> FireRow:
        """The only fire."""
        (row,) = self.control.model.rows.newest(FireQuery(tenant="acme", limit=10))
        return row

    async def row_has(self, holds: Callable[[FireRow], bool], *, what: str) -> FireRow:
        """Wait until the only fire is as wanted."""
        rows = self.control.model.rows

        def ready() -> bool:
            """There is one, and it is."""
            return any(holds(row) for row in rows.newest(FireQuery(tenant="acme", limit=10)))

        await until(ready, timeout_s=10, what=what)
        return self.row()

    async def finished(self) -> FireRow:
        """The only fire, once it has an outcome."""
        return await self.row_has(lambda row: row.outcome not in (None, "held"), what="the outcome")

    async def post(self, report: dict[str, Json] | bytes) -> Told:
        """Report over HTTP."""
        return await _post(self.url, report)

    async def reports(self) -> list[e.AttemptReported]:
        """Every report in the log."""
        connection = await BrokerConnection.open(self.broker.login("replay"), name="test")
        try:
            found = [
                (stored.subject, record)
                async for stored in scan(connection, "LEDGER")
                if stored.subject.startswith("reports.")
                for record in decode_attempts(stored.body).records
            ]
        finally:
            await connection.close()
        assert all(subject == f"reports.{slot_of(record.tenant)}" for subject, record in found)
        return [record for _, record in found if isinstance(record, e.AttemptReported)]


async def _post(url: str, report: dict[str, Json] | bytes) -> Told:
    body = report if isinstance(report, bytes) else dumps(report)
    async with aiohttp.ClientSession() as session, session.post(url, data=body) as response:
        answer = loads(await response.read())
        assert isinstance(answer, dict)
        return Told(response.status, answer)


@asynccontextmanager
async def _serving(executor: Executor) -> AsyncGenerator[None]:
    application = web.Application()
    application.router.add_post("/work", executor.take)
    server = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await server.setup()
    await web.TCPSite(server, "127.0.0.1", 0).start()
    executor.url = f"http://127.0.0.1:{server.addresses[0][1]}"
    try:
        yield
    finally:
        await server.cleanup()


@pytest_asyncio.fixture
async def whole(broker: RunningBroker) -> AsyncIterator[Whole]:
    """Everything at work, and the tenant created."""
    clock, executor = SimulatedClock(), Executor()
    async with _serving(executor), running_control(broker, clock, outcomes=OPTIONS) as control:
        assert control.outcomes.port
        reporting = Reporting(TOKENS, outcome_url(control.outcomes.port))
        operator = await BrokerConnection.open(broker.login("operator"), name="client")
        try:
            client = ControlClient(operator)
            await client.ask("control.tenant.create", {"tenant": "acme"})
            async with scheduling(broker.login("scheduler")), dispatching(broker, reporting=reporting):
                yield Whole(broker, control, client, executor)
        finally:
            await operator.close()


def _report(key: FireKey, outcome: str = "succeeded", **more: Json) -> dict[str, Json]:
    return {"key": str(key), "attempt": 1, "token": TOKENS.mint(key, 1), "outcome": outcome, **more}


_REPEATED: dict[str, Json] = {"repeated": True, "late": False}
_RECORDED: dict[str, Json] = {"repeated": False, "late": False}
_LATE: dict[str, Json] = {"repeated": False, "late": True}


async def test_an_accepted_call_succeeds_when_its_report_comes(whole: Whole) -> None:
    """202, then a report with what the call carried: the fire succeeds, with cost and message, after one call."""
    key = await whole.fire()
    assert (whole.row().result, whole.row().outcome) == ("accepted", None)
    (call,) = whole.executor.calls
    report: dict[str, Json] = {
        "key": call["idempotency-key"],
        "attempt": int(call["fireledger-attempt"]),
        "token": call["fireledger-attempt-token"],
        "outcome": "succeeded",
        "cost": 12,
        "message": "all done",
    }
    assert call["fireledger-report-to"] == whole.url
    assert await whole.post(report) == Told(200, {"ok": True, "value": _RECORDED})
    row = await whole.finished()
    assert (row.key, row.outcome, row.cost, row.message) == (key, "succeeded", 12, "all done")
    assert len(whole.executor.calls) == 1


async def test_a_reported_failure_is_final(whole: Whole) -> None:
    """No further attempt is made."""
    key = await whole.fire()
    assert (await whole.post(_report(key, "failed", message="no such account"))).status == 200
    row = await whole.finished()
    assert (row.outcome, row.message, row.attempts, row.retry_at) == ("failed", "no such account", 1, None)


async def test_a_report_that_is_repeated_is_recorded_once(whole: Whole) -> None:
    """Ten at a time and one after the end: each is answered, the log has one; another outcome is recorded as late."""
    key = await whole.fire()
    told = await asyncio.gather(*(whole.post(_report(key, cost=3)) for _ in range(10)))
    assert {each.status for each in told} == {200}
    assert (await whole.finished()).cost == 3
    assert await whole.post(_report(key, cost=3)) == Told(200, {"ok": True, "value": _REPEATED})
    assert len(await whole.reports()) == 1
    assert await whole.post(_report(key, "failed")) == Told(200, {"ok": True, "value": _LATE})
    assert [record.result for record in await whole.reports()] == ["succeeded", "final"]
    assert (await whole.finished()).outcome == "succeeded"


async def test_a_held_fire_succeeds_when_that_is_reported(whole: Whole) -> None:
    """Held by report, then succeeded by report, of the same attempt."""
    key = await whole.fire()
    assert (await whole.post(_report(key, "held", message="needs approval"))).status == 200
    row = await whole.row_has(lambda row: row.state == "held", what="the fire is held")
    assert row.message == "needs approval"
    assert (await whole.post(_report(key, cost=5))).body["value"] == _RECORDED
    row = await whole.finished()
    assert (row.outcome, row.cost, row.attempts) == ("succeeded", 5, 1)


async def test_held_again_after_a_person_let_it_go_on_is_late(whole: Whole) -> None:
    """While the pause keeps the next attempt back: recorded, answered as late, counted, and not held again."""
    key = await whole.fire()
    assert (await whole.post(_report(key, "held", message="needs approval"))).body["value"] == _RECORDED
    await whole.row_has(lambda row: row.state == "held", what="the fire is held")
    # Asked again while it is held: that changes nothing, and is not too late.
    assert (await whole.post(_report(key, "held", message="still there?"))).body["value"] == _RECORDED
    await whole.client.ask("control.trigger.pause", {"tenant": "acme", "trigger": key.trigger})
    await whole.client.ask("control.fires.release", {"tenant": "acme", "key": str(key), "by": "someone"})
    assert await whole.post(_report(key, "held", message="hello?")) == Told(200, {"ok": True, "value": _LATE})
    await until(lambda: whole.control.model.book("acme").state.late_count == 1, timeout_s=10, what="it is observed")
    (fire,) = whole.control.model.book("acme").state.triggers[key.trigger].open
    assert (fire.held, fire.let_go, fire.attempt) == (False, True, 1)
    assert (whole.row().state, whole.row().attempts) == ("fired", 1)


async def test_a_report_after_unknown_is_recorded_and_changes_nothing(whole: Whole) -> None:
    """The outcome window ends the fire; what comes then is answered as late, and its cost counts."""
    key = await whole.fire(outcome_window="1s")
    assert (await whole.finished()).outcome == "unknown"
    assert await whole.post(_report(key, cost=7)) == Told(200, {"ok": True, "value": _LATE})
    await until(lambda: whole.control.model.book("acme").state.late_count == 1, timeout_s=10, what="it is observed")
    row = await whole.row_has(lambda row: row.cost == 7, what="its cost")
    assert row.outcome == "unknown"


async def test_what_is_not_right_is_refused_and_not_recorded(whole: Whole) -> None:
    """A wrong token, another attempt's, one of another key, a fire that is not there, too much, nothing at all."""
    key = await whole.fire()
    strange, ours = AttemptTokens(bytes(32)), TOKENS
    absent = parse_fire_key("acme/report/2020-01-01T00:00:00Z/0")
    nobody = parse_fire_key("nobody/report/2020-01-01T00:00:00Z/0")
    refusals: list[tuple[dict[str, Json] | bytes, int, str]] = [
        ({**_report(key), "token": ours.mint(key, 1)[:-1] + "_"}, 403, "token-refused"),
        ({**_report(key), "token": ""}, 403, "token-refused"),
        ({**_report(key), "token": strange.mint(key, 1)}, 403, "token-refused"),
        ({**_report(key), "attempt": 2}, 403, "token-refused"),
        ({**_report(key), "attempt": 2, "token": ours.mint(key, 2)}, 409, "attempt-not-released"),
        (_report(absent), 404, "fire-missing"),
        (_report(nobody), 404, "fire-missing"),
        ({**_report(key), "payload": "x"}, 400, "report-malformed"),
        (_report(key, "unknown"), 400, "report-malformed"),
        (b"", 400, "report-malformed"),
        (_report(key, message="x" * 16_384), 413, "report-too-large"),
    ]
    for report, status, code in refusals:
        told = await whole.post(report)
        assert (told.status, told.code) == (status, code)
    assert await whole.reports() == []
    assert whole.row().outcome is None


async def test_whoever_guesses_tokens_does_not_fill_the_log(whole: Whole, capfd: pytest.CaptureFixture[str]) -> None:
    """The first refusal is told; the next ones are counted until some time has passed."""
    # Another test of this process may have sent the logs elsewhere.
    configure_logs("control")
    key = await whole.fire()
    capfd.readouterr()
    for number in range(20):
        told = await whole.post({**_report(key), "token": f"guess {number}"})
        assert (told.status, told.code) == (403, "token-refused")
    lines = [line for line in capfd.readouterr().err.splitlines() if "tokens-refused" in line]
    assert len(lines) == 1
    assert '"count":1' in lines[0]
    assert "guess" not in lines[0]


async def test_an_attempt_is_not_reported_in_endless_ways(whole: Whole) -> None:
    """After ten different reports further ones are refused; a repetition is still answered."""
    key = await whole.fire()
    for number in range(10):
        assert (await whole.post(_report(key, cost=number))).status == 200
    told = await whole.post(_report(key, cost=99))
    assert (told.status, told.code) == (409, "too-many-reports")
    assert (await whole.post(_report(key, cost=4))).status == 200
    assert len(await whole.reports()) == 10


async def test_a_fire_held_in_many_ways_can_still_be_ended(whole: Whole) -> None:
    """However often an attempt is reported as held, one place is left for its outcome."""
    key = await whole.fire()
    statuses = [
        (await whole.post(_report(key, outcome="held", message=f"ask {number}"))).status for number in range(10)
    ]
    assert statuses == [200] * 9 + [409]
    assert (await whole.post(_report(key))).status == 200


async def test_a_fire_held_in_many_ways_at_once_can_still_be_ended(whole: Whole) -> None:
    """Reports on their way to the log count as well."""
    key = await whole.fire()
    told = await asyncio.gather(*(whole.post(_report(key, outcome="held", message=f"ask {n}")) for n in range(30)))
    assert sorted(each.status for each in told) == [200] * 9 + [409] * 21
    assert (await whole.post(_report(key))).status == 200
    assert len(await whole.reports()) == 10


async def test_without_a_report_key_reports_are_refused(broker: RunningBroker) -> None:
    """The refusal says what is missing."""
    key = parse_fire_key("acme/report/2020-01-01T00:00:00Z/0")
    async with running_control(broker, SimulatedClock(), outcomes=OutcomeOptions(port=0)) as control:
        assert control.outcomes.port
        told = await _post(outcome_url(control.outcomes.port), _report(key))
    assert (told.status, told.code) == (403, "report-key-missing")
    assert "--report-key" in str(told.body)


async def test_a_report_outlives_a_restart_of_control(broker: RunningBroker) -> None:
    """What one control recorded, the next answers as a repetition; on the same port, which clients remember."""
    async with running_control(broker, SimulatedClock(), outcomes=OPTIONS) as control:
        port = control.outcomes.port
        assert port
        operator = await BrokerConnection.open(broker.login("operator"), name="client")
        whole = Whole(broker, control, ControlClient(operator), Executor())
        await whole.client.ask("control.tenant.create", {"tenant": "acme"})
        async with (
            _serving(whole.executor),
            scheduling(broker.login("scheduler")),
            dispatching(broker, reporting=Reporting(TOKENS, outcome_url(port))),
        ):
            key = await whole.fire()
            assert (await whole.post(_report(key))).body["value"] == _RECORDED
    again = OutcomeOptions(tokens=TOKENS, port=port)
    async with running_control(broker, SimulatedClock(), outcomes=again) as control:
        whole.control = control
        assert (await whole.post(_report(key))).body["value"] == _REPEATED
        assert len(await whole.reports()) == 1
    await operator.close()


async def test_two_controls_record_a_report_once_between_them(whole: Whole) -> None:
    """The same ten reports given to both at once are ten records, and every one is answered."""
    key = await whole.fire()
    async with running_control(whole.broker, SimulatedClock(), outcomes=OPTIONS) as control:
        other = Whole(whole.broker, control, whole.client, whole.executor)
        reports = [_report(key, cost=number) for number in range(10)]
        told = await asyncio.gather(*(each.post(report) for report in reports for each in (whole, other)))
    assert [each.status for each in told] == [200] * 20
    assert sorted(record.cost or 0 for record in await whole.reports()) == list(range(10))


async def test_a_broker_that_dies_costs_no_report(whole: Whole) -> None:
    """Reports under way when it is killed are answered once it is back, or can be sent again; each is there once."""
    key = await whole.fire()
    reports = [_report(key, cost=number) for number in range(10)]
    posts = [asyncio.ensure_future(whole.post(report)) for report in reports]
    os.kill(whole.broker.pid, signal.SIGKILL)
    await whole.broker.process.restart()
    await asyncio.gather(*posts)

    async def all_taken() -> bool:
        """Every report is answered with success, sent again where needed."""
        return {(await whole.post(report)).status for report in reports} == {200}

    await until(all_taken, timeout_s=20, what="every report is taken")
    assert sorted(record.cost or 0 for record in await whole.reports()) == list(range(10))


# Over the broker


@asynccontextmanager
async def _working(broker: RunningBroker, answers: list[Answer], works: list[Work]) -> AsyncGenerator[NatsExecutor]:
    connection = await BrokerConnection.open(broker.login("executor-acme"), name="executor")

    async def handle(work: Work) -> Answer:
        works.append(work)
        return answers[len(works) - 1]

    executor = NatsExecutor(connection, "acme", "report", handle)
    stop = asyncio.Event()
    running = asyncio.ensure_future(executor.run(stop))
    try:
        yield executor
    finally:
        stop.set()
        await running
        await connection.close()


def _ticket(work: Work) -> Ticket:
    assert work.ticket is not None
    return work.ticket


async def test_a_nats_executor_accepts_and_reports_later(whole: Whole) -> None:
    """With the ticket that the work came with; the same report again is a repetition."""
    works: list[Work] = []
    async with _working(whole.broker, [Answer("accepted", "queued")], works) as executor:
        key = await whole.fire(target="nats:report")
        assert whole.row().result == "accepted"
        ticket = _ticket(works[0])
        assert (ticket.key, ticket.attempt) == (key, 1)
        assert await executor.report(ticket, "succeeded", cost=4, message="done") == Reported(False, False)
        assert await executor.report(ticket, "succeeded", cost=4, message="done") == Reported(True, False)
    row = await whole.finished()
    assert (row.outcome, row.cost, row.message) == ("succeeded", 4, "done")


async def test_a_held_fire_that_a_person_lets_go_is_worked_on_again(whole: Whole) -> None:
    """The executor's memory of the held attempt does not answer for the next one."""
    works: list[Work] = []
    async with _working(whole.broker, [Answer("held", "ask"), Answer(cost=9)], works):
        key = await whole.fire(target="nats:report")
        await whole.row_has(lambda row: row.state == "held", what="the fire is held")
        await whole.client.ask("control.fires.release", {"tenant": "acme", "key": str(key), "by": "operator"})
        row = await whole.finished()
    assert [work.attempt for work in works] == [1, 2]
    assert (row.outcome, row.cost, row.attempts) == ("succeeded", 9, 2)


async def test_an_executor_reports_for_its_own_tenant_only(whole: Whole) -> None:
    """With a good token it is refused by control; on the other tenant's subject by the broker."""
    key = await whole.fire()
    ticket = Ticket(key, 1, TOKENS.mint(key, 1))
    async with bare_connection(whole.broker, "executor-globex") as globex:
        answer = await globex.ask("outcomes.globex", _report(key))
        assert isinstance(answer, dict)
        assert Told(0, answer).code == "token-refused"
        await globex.client.publish("outcomes.acme", dumps(_report(key)))
        await globex.flush()
        await until(lambda: bool(globex.complaints), timeout_s=5, what="the broker's refusal")
        assert "outcomes.acme" in globex.complaints[0]
    assert await whole.reports() == []
    connection = await BrokerConnection.open(whole.broker.login("executor-acme"), name="executor")
    with pytest.raises(ControlRefused) as refused:
        await report_outcome(connection, Ticket(key, 2, ticket.token), "succeeded")
    assert refused.value.code == "token-refused"
    assert await report_outcome(connection, ticket, "succeeded") == Reported(False, False)
    await connection.close()


async def test_a_report_waits_for_control_to_come_back(broker: RunningBroker) -> None:
    """Without control it is sent again until one is there, or the time is over."""
    key = parse_fire_key("acme/report/2020-01-01T00:00:00Z/0")
    ticket = Ticket(key, 1, TOKENS.mint(key, 1))
    connection = await BrokerConnection.open(broker.login("executor-acme"), name="executor")
    with pytest.raises(BrokerUnavailable):
        await report_outcome(connection, ticket, "succeeded", within_s=0.3)
    reporting = asyncio.ensure_future(report_outcome(connection, ticket, "succeeded"))
    async with running_control(broker, SimulatedClock(), outcomes=OPTIONS):
        with pytest.raises(ControlRefused) as refused:
            await asyncio.wait_for(reporting, 10)
    assert refused.value.code == "fire-missing"
    await connection.close()


async def test_a_tenant_that_comes_later_reports_too(broker: RunningBroker) -> None:
    """Its executors' user is added while control runs: their reports arrive, and those of the others still do."""
    async with running_control(broker, SimulatedClock(), outcomes=OPTIONS):
        await broker.process.add_executor("initech")
        for tenant in ("initech", "acme"):
            key = parse_fire_key(f"{tenant}/report/2020-01-01T00:00:00Z/0")
            connection = await BrokerConnection.open(broker.login(f"executor-{tenant}"), name="executor")
            with pytest.raises(ControlRefused) as refused:
                await report_outcome(connection, Ticket(key, 1, TOKENS.mint(key, 1)), "succeeded", within_s=5)
            assert refused.value.code == "fire-missing"
            await connection.close()
