"""One attempt's call from its committed start to its result: bounded in time, whatever the target does."""

import asyncio

from fireledger.domain.checks import NATS_PREFIX
from fireledger.domain.definition import open_plain
from fireledger.domain.entries import AttemptResult
from fireledger.domain.instants import SECOND

from ..clock import Clock, ClockHeld
from ..logs import get_log
from .calls import Call, CallResult, Target, Uncallable, short_message
from .http_target import endpoint
from .nats_target import work_subject
from .reporting import Reporting
from .tasks import Task

CANCEL_S_MAX = 1.0
"""Longest wait for a call that was abandoned to let go."""
_log = get_log("caller")


def target_name(task: Task) -> str:
    """What a task's calls are counted by: ``host:port``, or a tenant's subject."""
    if task.target.startswith(NATS_PREFIX):
        return work_subject(task.key.tenant, task.target.removeprefix(NATS_PREFIX))
    return endpoint(task.target)


def place_name(task: Task) -> str:
    """What a task's calls are bounded by: one tenant's calls at one target, so that no tenant fills another's."""
    return f"{task.key.tenant} {target_name(task)}"


class Caller:
    """Makes calls over the targets of both kinds."""

    def __init__(self, *, clock: Clock, http: Target, nats: Target, reporting: Reporting | None = None) -> None:
        self._clock = clock
        self._http = http
        self._nats = nats
        self._reporting = reporting

    async def attempt(self, task: Task, *, sent_at: float, resend: bool) -> AttemptResult:
        """Call the task's target once and return the result record.

        ``sent_at`` is the monotonic second before which its started page cannot have been stamped. Past the
        timeout after that stamp the call is abandoned, or never begun.
        """
        began = self._clock.monotonic()
        left_s = self._left_s(task, sent_at)
        if left_s <= 0:
            # A first start that was never sent did nothing for sure; of a resend's predecessor nobody knows.
            result = CallResult(kind="timeout" if resend else "retryable", message="not sent: out of time")
        else:
            result = await self._bounded(task, left_s)
        return _record(task, result, round((self._clock.monotonic() - began) * SECOND))

    def _left_s(self, task: Task, sent_at: float) -> float:
        """Seconds until the timeout after the start is surely not over yet.

        By the clock's latest, since the broker stamped the start; or by the steady clock, since the page was sent,
        which was before. Each is safe by itself, so the longer one counts: the first after a long append, the second
        when this clock and the broker's differ or ours is held.
        """
        assert task.started_at is not None, "a call needs its start read back"
        timeout_s = task.definition.timeout / SECOND
        steady = sent_at + timeout_s - self._clock.monotonic()
        try:
            stamped = (task.started_at + task.definition.timeout - self._clock.now().latest) / SECOND
        except ClockHeld:
            stamped = steady
        return min(timeout_s, max(stamped, steady))

    async def _bounded(self, task: Task, left_s: float) -> CallResult:
        """Call, and stop waiting after ``left_s``. What goes wrong with one call stays a result of that call."""
        calling = asyncio.ensure_future(self._call(task, left_s))
        try:
            await asyncio.wait({calling}, timeout=left_s)
            if not calling.done():
                calling.cancel()
                await asyncio.wait({calling}, timeout=CANCEL_S_MAX)
                return CallResult(kind="timeout", message="no answer within the timeout")
        finally:
            calling.cancel()
        error = None if calling.cancelled() else calling.exception()
        if isinstance(error, Uncallable):
            return CallResult(kind="final", message=short_message(str(error)))
        if error is not None:
            _log.error("call-failed-unexpectedly", key=str(task.key), target=target_name(task), exc_info=error)
            return CallResult(kind="retryable", message=f"the call failed: {type(error).__name__}")
        return calling.result()

    async def _call(self, task: Task, left_s: float) -> CallResult:
        definition = task.definition
        try:
            payload = open_plain(definition.payload)
        except ValueError as error:
            raise Uncallable(str(error)) from error
        reporting = self._reporting
        call = Call(
            key=task.key,
            attempt=task.attempt,
            lane=task.lane,
            target=definition.target,
            content_type=definition.content_type,
            payload=payload,
            timeout_s=left_s,
            report_headers=reporting.headers(task.key, task.attempt, task.target) if reporting is not None else {},
        )
        target = self._nats if definition.target.startswith(NATS_PREFIX) else self._http
        return await target.call(call)


def _record(task: Task, result: CallResult, took: int) -> AttemptResult:
    return AttemptResult(
        tenant=task.key.tenant,
        trigger=task.key.trigger,
        scheduled=task.key.scheduled,
        sequence=task.key.sequence,
        attempt=task.attempt,
        result=result.kind,
        code=result.code,
        took=took,
        retry_after=result.retry_after,
        cost=result.cost,
        message=result.message,
    )
