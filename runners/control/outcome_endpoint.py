"""The outcome endpoint: takes executors' reports over the broker and over HTTP, and answers both alike."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from ..attempt_tokens import AttemptTokens
from ..errors import BrokerRefused, BrokerUnavailable, ControlRefused, ExitStatus, OperationalError
from ..jetstream.connection import BrokerConnection
from ..jetstream.subscription import Message
from ..jetstream.topology import outcome_subject
from ..json_edge import Jsonable, dumps
from ..logs import get_log
from .outcome_reports import OutcomeReports
from .outcome_requests import REPORT_KEY_MISSING, REPORT_TOO_LARGE, TOKEN_REFUSED, too_large
from .outcome_server import OutcomeServer
from .refusals import CONTROL_BUSY, failure_answer, unavailable, unexpected

QUEUE = "control"
REPORTS_AT_ONCE_MAX = 1_024
"""Reports that are worked on at the same time; further ones are told to come again."""
PENDING_MAX = 4_096
"""Reports over the broker that may wait to be looked at."""
DRAIN_S_MAX = 0.3
"""How long reports under way may take once control stops."""

_log = get_log("outcomes")
_STATUSES = {
    ExitStatus.NOT_FOUND: 404,
    ExitStatus.CONFLICT: 409,
    ExitStatus.REFUSED: 400,
    ExitStatus.UNAVAILABLE: 503,
}
_STATUSES_BY_CODE = {REPORT_TOO_LARGE: 413, TOKEN_REFUSED: 403, REPORT_KEY_MISSING: 403}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeOptions:
    """How control takes reports. ``tokens`` of None: not at all; ``port`` of None: over the broker only."""

    tokens: AttemptTokens | None = field(default=None, repr=False)
    port: int | None = None


class OutcomeEndpoint:
    """Serves while ``serving``."""

    def __init__(self, *, connection: BrokerConnection, reports: OutcomeReports, port: int | None) -> None:
        self._connection = connection
        self._reports = reports
        self._server = (
            None if port is None else OutcomeServer(self.answer, too_large=_failure(too_large())[1], port=port)
        )
        self._working: set[asyncio.Task[None]] = set()
        self._under_way = 0

    @property
    def port(self) -> int | None:
        """Where it listens over HTTP."""
        return None if self._server is None else self._server.port

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None, None]:
        """Take reports inside the block; those under way at its end are given DRAIN_S_MAX.

        Raises, in an exception group, RolledBack and BrokerRefused when the log cannot be written any more.
        """
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._reports.run(group))]
            if self._server is not None and not await self._server.start():
                tasks.append(group.create_task(self._server.keep_trying()))
            subscription = await self._connection.subscribe(
                outcome_subject("*"), self._on_message, queue=QUEUE, pending_max=PENDING_MAX
            )
            try:
                yield
                await subscription.unsubscribe()
                if self._working:
                    await asyncio.wait(self._working, timeout=DRAIN_S_MAX)
            finally:
                await subscription.unsubscribe()
                if self._server is not None:
                    await self._server.stop()
                self._reports.abandon()
                for task in (*tasks, *self._working):
                    task.cancel()

    async def answer(self, body: bytes, tenant: str | None = None) -> tuple[int, bytes]:
        """Record a report; the HTTP status and the body of the answer. ``tenant``: whose executors' user sent it."""
        if self._under_way >= REPORTS_AT_ONCE_MAX:
            return _failure(unavailable(CONTROL_BUSY, "control is busy with other reports", hint="try again later"))
        self._under_way += 1
        work = asyncio.ensure_future(self._reports.take(body, tenant=tenant))
        try:
            await asyncio.wait({work})
        finally:
            work.cancel()
            self._under_way -= 1
        error = work.exception()
        if isinstance(error, OperationalError):
            return _failure(error)
        if error is not None:
            _log.error("report-failed-unexpectedly", error=error, exc_info=error)
            return _failure(unexpected())
        recorded = work.result()
        return 200, dumps({"ok": True, "value": {"repeated": recorded.repeated, "late": recorded.late}})

    async def _on_message(self, message: Message) -> None:
        if message.reply:
            task = asyncio.create_task(self._answer_message(message), name=message.subject)
            self._working.add(task)
            task.add_done_callback(self._working.discard)

    async def _answer_message(self, message: Message) -> None:
        _, body = await self.answer(message.payload, message.subject.partition(".")[2])
        # Whoever reported learns from the silence, and reports again.
        with suppress(BrokerUnavailable, BrokerRefused):
            await self._connection.publish(message.reply, body)


def _failure(error: OperationalError) -> tuple[int, bytes]:
    code = error.code if isinstance(error, ControlRefused) else ""
    answer: Jsonable = failure_answer(error)
    return _STATUSES_BY_CODE.get(code) or _STATUSES.get(error.exit_status, 500), dumps(answer)
