"""The executor's side of a NATS target: takes a tenant's work and does each fire once, as far as that can be had.

A fire key is remembered in the tenant's bucket before the work begins and with its answer after it. What an
executor that died in the middle began is done again once its time is over: at least once, and never two at a time.
Work that takes longer than its answer may is answered as accepted, and its outcome reported when it is known.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from fireledger.domain.identifiers import FireKey, MalformedName, check_target_name, check_tenant, parse_fire_key
from fireledger.domain.instants import MILLISECOND, SECOND, Duration
from fireledger.domain.limits import ATTEMPT_TIMEOUT_MAX, MESSAGE_LENGTH_MAX

from .attempt_tokens import TOKEN_HEADER
from .clock import realtime
from .control_client import ControlClient
from .errors import BrokerRefused, BrokerUnavailable, ControlRefused, ExitStatus
from .jetstream.buckets import Bucket
from .jetstream.connection import BrokerConnection
from .jetstream.subscription import Message
from .jetstream.topology import executor_bucket, outcome_subject
from .json_edge import Json
from .lifecycle import Backoff
from .logs import get_log

CONCURRENCY_DEFAULT = 64
"""Fires worked on at once by one executor."""
WAITING_MAX = 4_096
"""Requests that may wait in one executor; beyond it they are dropped, and time out."""
TAKEOVER_MARGIN = Duration(2 * SECOND)
"""A fire whose worker's time is over for this long is taken over; below the dispatcher's resend delay of 5 s."""
CLAIMS_MAX = 3
"""Tries to claim a fire that others claim at the same time."""
DRAIN_S_MAX = 3.0
"""How long a stop waits for work under way."""
REPORT_WITHIN_S = 60.0
"""How long a report is sent again while control or the broker is away."""
REPORT_ANSWER_S = 15.0
"""How long one report waits for its answer: longer than control waits for its record."""
REPORT_RETRY_FIRST_S = 0.1
REPORT_RETRY_MAX_S = 5.0
_log = get_log("executor")

AnswerKind = Literal["succeeded", "retryable", "final", "held", "accepted"]
ReportKind = Literal["succeeded", "failed", "held"]


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a later report of an attempt's outcome needs; may be kept over a restart. The token is secret."""

    key: FireKey
    attempt: int
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Work:
    """One fire to act on. ``timeout_s``: how long its answer is waited for from its arrival on.

    ``ticket`` is for answering "accepted" now and reporting later; None when the service takes no reports.
    """

    key: FireKey
    attempt: int
    lane: str
    content_type: str
    payload: bytes
    timeout_s: float
    ticket: Ticket | None = None

    def __repr__(self) -> str:
        return f"Work({self.key}, attempt {self.attempt}, {len(self.payload)} bytes)"


class Answer(msgspec.Struct, frozen=True):
    """What became of the work. ``retryable``: not now; ``final``: never; ``held``: a person has to look.

    ``accepted``: it goes on, and its outcome is reported later. ``retry_after``: seconds, with ``retryable``.
    """

    result: AnswerKind = "succeeded"
    message: str = ""
    cost: int | None = None
    retry_after: int | None = None


Handler = Callable[[Work], Awaitable[Answer | None]]
"""Does the work; None means succeeded. What it raises is answered as retryable."""


class Memory(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered of a fire key.

    ``running`` until ``until`` (microseconds), ``done`` with the answer to ``attempt``, or ``open``: it may be done
    again.
    """

    state: Literal["running", "done", "open"]
    until: int = 0
    answer: Answer | None = None
    attempt: int = 0

    def answer_to(self, attempt: int) -> Answer | None:
        """The answer that the attempt gets without the work being done again.

        What was held or accepted has a later attempt only because a person let it go on, so that one is done.
        """
        answer = self.answer
        if answer is not None and answer.result in ("held", "accepted") and attempt > self.attempt:
            return None
        return answer


@dataclass(frozen=True, slots=True)
class Reported:
    """A report is recorded. ``repeated``: it was before; ``late``: the fire had ended, so nothing changes."""

    repeated: bool
    late: bool


async def report_outcome(
    connection: BrokerConnection,
    ticket: Ticket,
    outcome: ReportKind,
    *,
    message: str = "",
    cost: int | None = None,
    within_s: float = REPORT_WITHIN_S,
) -> Reported:
    """Report what became of an attempt that was answered as accepted or held, and return once it is recorded.

    ``connection`` is that of the tenant's executor user. The report is sent again until it is answered; repeating it
    is harmless. Raises ControlRefused when it is refused for good, BrokerUnavailable when ``within_s`` is over.
    """
    report: dict[str, Json] = {
        "key": str(ticket.key), "attempt": ticket.attempt, "token": ticket.token,
        "outcome": outcome, "cost": cost, "message": message[:MESSAGE_LENGTH_MAX],
    }  # fmt: skip
    client, backoff = ControlClient(connection), Backoff(REPORT_RETRY_FIRST_S, REPORT_RETRY_MAX_S)
    loop = asyncio.get_running_loop()
    ends = loop.time() + within_s
    while True:
        try:
            answer = await client.ask(outcome_subject(ticket.key.tenant), report, timeout_s=REPORT_ANSWER_S)
        except ControlRefused as error:
            if error.exit_status is not ExitStatus.UNAVAILABLE or loop.time() > ends:
                raise
        except BrokerUnavailable:
            if loop.time() > ends:
                raise
        else:
            told = answer if isinstance(answer, dict) else {}
            return Reported(repeated=told.get("repeated") is True, late=told.get("late") is True)
        await connection.pause(backoff.next_s())


class NatsExecutor:
    """Serves one NATS target. Several executors of one target share its work.

    A key that is done gets the recorded answer without running ``handler`` again. A key that another is working on
    gets *retryable*. After a retryable answer, the next attempt runs; after one of held or accepted too.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        tenant: str,
        name: str,
        handler: Handler,
        *,
        concurrency: int = CONCURRENCY_DEFAULT,
    ) -> None:
        """``connection`` is that of the tenant's executor user. Raises MalformedName for a bad tenant or name."""
        self.served_count = 0
        """Times the handler ran."""
        self.duplicates_count = 0
        """Requests whose key was done, or being worked on, already."""
        self._connection = connection
        self._subject = f"work.{check_tenant(tenant)}.{check_target_name(name)}"
        self._queue = name
        self._tenant = tenant
        self._handler = handler
        self._bucket = Bucket(connection, executor_bucket(tenant))
        self._places = asyncio.Semaphore(concurrency)
        self._working: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, then finish what is under way. Raises BrokerUnavailable if it cannot listen."""
        subscription = await self._connection.subscribe(
            self._subject, self._receive, queue=self._queue, pending_max=WAITING_MAX
        )
        try:
            await self._connection.flush()
            await stop.wait()
            await subscription.unsubscribe()
            if self._working:
                await asyncio.wait(set(self._working), timeout=DRAIN_S_MAX)
        finally:
            await subscription.unsubscribe()
            for task in self._working:
                task.cancel()

    async def report(
        self, ticket: Ticket, outcome: ReportKind, *, message: str = "", cost: int | None = None
    ) -> Reported:
        """Report what became of work that was answered as accepted or held; see ``report_outcome``."""
        return await report_outcome(self._connection, ticket, outcome, message=message, cost=cost)

    async def _receive(self, message: Message) -> None:
        """Begin work when there is a place; until then the next message waits."""
        await self._places.acquire()
        task = asyncio.ensure_future(self._serve(message))
        self._working.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._working.discard(task)
        self._places.release()
        if not task.cancelled() and task.exception() is not None:
            _log.error("work-failed-unexpectedly", exc_info=task.exception())

    async def _serve(self, message: Message) -> None:
        try:
            work = _read_work(message, self._tenant)
        except MalformedName as error:
            answer = Answer("final", str(error)[:MESSAGE_LENGTH_MAX])
        else:
            answer = await self._answer(work)
        if message.reply:
            try:
                await self._connection.publish(message.reply, msgspec.json.encode(answer))
            except (BrokerUnavailable, BrokerRefused) as error:
                _log.warning("answer-not-sent", text=error.message)

    async def _answer(self, work: Work) -> Answer:
        until = realtime() + round(work.timeout_s * SECOND)
        try:
            claim = await self._claim(work, until)
        except BrokerUnavailable as error:
            return Answer("retryable", f"the executor's memory cannot be reached: {error.message}"[:MESSAGE_LENGTH_MAX])
        if isinstance(claim, Answer):
            self.duplicates_count += 1
            return claim
        answer = await self._handled(work, until)
        done = Memory("done", answer=answer, attempt=work.attempt)
        if answer.result == "retryable":
            done = Memory("open")
        try:
            if await self._bucket.put_if(bucket_key(work.key), msgspec.json.encode(done), claim) is None:
                _log.warning("work-taken-over", key=str(work.key))
        except BrokerUnavailable as error:
            _log.warning("answer-not-remembered", key=str(work.key), text=error.message)
        return answer

    async def _claim(self, work: Work, until: int) -> int | Answer:
        """Remember that work begins; the claim's revision, or the answer of whoever was first."""
        key, running = bucket_key(work.key), msgspec.json.encode(Memory("running", until=until))
        revision = 0
        for _ in range(CLAIMS_MAX):
            claimed = await self._bucket.put_if(key, running, revision)
            if claimed is not None:
                return claimed
            entry = await self._bucket.get(key)
            if entry is None:
                revision = 0
                continue
            memory = msgspec.json.decode(entry.value, type=Memory)
            answer = memory.answer_to(work.attempt)
            if answer is not None:
                return answer
            if memory.state == "running" and realtime() < memory.until + TAKEOVER_MARGIN:
                break
            revision = entry.revision
        return Answer("retryable", "this fire is being worked on")

    async def _handled(self, work: Work, until: int) -> Answer:
        """Run the handler for as long as its answer is waited for."""
        left_s = (until - realtime()) / SECOND
        if left_s <= 0:
            return Answer("retryable", "the work arrived too late")
        self.served_count += 1
        handling = asyncio.ensure_future(self._handler(work))
        try:
            await asyncio.wait({handling}, timeout=left_s)
            if not handling.done():
                return Answer("retryable", "the work took too long")
        finally:
            handling.cancel()
        error = None if handling.cancelled() else handling.exception()
        if handling.cancelled() or error is not None:
            _log.error("handler-failed", key=str(work.key), exc_info=error)
            return Answer("retryable", f"the handler failed: {type(error).__name__}")
        return handling.result() or Answer()


def bucket_key(key: FireKey) -> str:
    """The fire key as a key of the tenant's bucket, which can hold no colon: trigger, microseconds, sequence."""
    return f"{key.trigger}/{int(key.scheduled)}/{key.sequence}"


def _read_work(message: Message, tenant: str) -> Work:
    headers = {name.lower(): value for name, value in message.headers.items()}
    key = parse_fire_key(headers.get("idempotency-key", ""))
    if key.tenant != tenant:
        raise MalformedName(f'fire "{key}" is not of tenant "{tenant}"')
    told, timeout_ms = headers.get("fireledger-attempt", ""), headers.get("fireledger-timeout-ms", "")
    longest_ms = ATTEMPT_TIMEOUT_MAX // MILLISECOND
    attempt = int(told[:9]) if told.isascii() and told.isdecimal() else 1
    token = headers.get(TOKEN_HEADER, "")
    return Work(
        key=key,
        attempt=attempt,
        lane=headers.get("fireledger-lane", ""),
        content_type=headers.get("content-type", ""),
        payload=message.payload,
        timeout_s=min(
            int(timeout_ms[:9]) if timeout_ms.isascii() and timeout_ms.isdecimal() else longest_ms, longest_ms
        )
        / 1_000,
        ticket=Ticket(key, attempt, token) if token else None,
    )
