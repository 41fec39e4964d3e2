"""The executor's side of a NATS target: takes a tenant's work and does each fire once, as far as that can be had.

A fire key is remembered in the tenant's bucket before the work begins and with its answer after it. What an
executor that died in the middle began is done again once its time is over: at least once, and never two at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

import msgspec

from fireledger.domain.identifiers import FireKey, MalformedName, check_target_name, check_tenant, parse_fire_key
from fireledger.domain.instants import MILLISECOND, SECOND, Duration
from fireledger.domain.limits import ATTEMPT_TIMEOUT_MAX, MESSAGE_LENGTH_MAX

from .clock import realtime
from .errors import BrokerRefused, BrokerUnavailable
from .jetstream.buckets import Bucket
from .jetstream.connection import BrokerConnection
from .jetstream.subscription import Message
from .jetstream.topology import executor_bucket
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
_log = get_log("executor")

AnswerKind = Literal["succeeded", "retryable", "final", "held"]


@dataclass(frozen=True, slots=True)
class Work:
    """One fire to act on. ``timeout_s``: how long its answer is waited for from its arrival on."""

    key: FireKey
    attempt: int
    lane: str
    content_type: str
    payload: bytes
    timeout_s: float

    def __repr__(self) -> str:
        return f"Work({self.key}, attempt {self.attempt}, {len(self.payload)} bytes)"


class Answer(msgspec.Struct, frozen=True):
    """What became of the work. ``retryable``: not now; ``final``: never; ``held``: a person has to look."""

    result: AnswerKind = "succeeded"
    message: str = ""
    cost: int | None = None


Handler = Callable[[Work], Awaitable[Answer | None]]
"""Does the work; None means succeeded. What it raises is answered as retryable."""


class Memory(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered of a fire key.

    ``running`` until ``until`` (microseconds), ``done`` with the answer, or ``open``: it may be done again.
    """

    state: Literal["running", "done", "open"]
    until: int = 0
    answer: Answer | None = None


class NatsExecutor:
    """Serves one NATS target. Several executors of one target share its work.

    A key that is done gets the recorded answer without running ``handler`` again. A key that another is working on
    gets *retryable*. After a retryable answer, the next attempt runs.
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
        done = Memory("open") if answer.result == "retryable" else Memory("done", answer=answer)
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
            if memory.answer is not None:
                return memory.answer
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
    attempt, timeout_ms = headers.get("fireledger-attempt", ""), headers.get("fireledger-timeout-ms", "")
    longest_ms = ATTEMPT_TIMEOUT_MAX // MILLISECOND
    return Work(
        key=key,
        attempt=int(attempt[:9]) if attempt.isascii() and attempt.isdecimal() else 1,
        lane=headers.get("fireledger-lane", ""),
        content_type=headers.get("content-type", ""),
        payload=message.payload,
        timeout_s=min(
            int(timeout_ms[:9]) if timeout_ms.isascii() and timeout_ms.isdecimal() else longest_ms, longest_ms
        )
        / 1_000,
    )
