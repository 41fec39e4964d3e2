"""The control runner: follows the ledger and answers requests on ``control.<noun>.<verb>``.

Several may run side by side; each request goes to one of them. An outage of all of them delays no fire.
"""

import asyncio
from contextlib import suppress
from functools import partial

from fireledger.domain.zones import ZoneLibrary

from ..clock import Clock
from ..dispatcher.policy import TargetPolicy
from ..errors import BrokerRefused, BrokerUnavailable, OperationalError
from ..jetstream.buckets import Bucket
from ..jetstream.connection import BrokerConnection
from ..jetstream.ledger import Ledger
from ..jetstream.reader import PullReader
from ..jetstream.subscription import Message
from ..json_edge import Json, Jsonable, dumps
from ..known_zones import KnownZones
from ..lifecycle import unless_stopped
from ..logs import get_log
from ..zone_store import load_zones
from .answers import Answer, Handler
from .command_handlers import CommandHandlers
from .commands import CommandWriter
from .explain_handlers import ExplainHandlers
from .model import Model
from .outcome_endpoint import OutcomeEndpoint, OutcomeOptions
from .outcome_reports import OutcomeReports
from .policy_handlers import PolicyHandlers
from .read_handlers import ReadHandlers
from .refusals import (
    CONTROL_BUSY,
    REQUEST_MALFORMED,
    failure_answer,
    from_value_error,
    refused,
    unavailable,
    unexpected,
)
from .requests import StatusRequest, read_json, read_request
from .status import Status
from .zone_handlers import ZoneHandlers

QUEUE = "control"
REQUESTS_AT_ONCE_MAX = 512
"""Requests that are worked on at the same time; further ones are told to come again."""
PENDING_MAX = 4_096
"""Requests that may wait to be looked at."""
SUBSCRIBED_S = 1.0
"""How long the broker may take to confirm the subscription before it is asked again."""
DRAIN_S_MAX = 2.0
"""How long requests under way may take once control stops."""
FOLD_SLICE = 200
"""Messages folded before other work gets its turn."""

_log = get_log("control")


class Control:
    """The control runner."""

    def __init__(
        self,
        *,
        connection: BrokerConnection,
        ledger: Ledger,
        reader: PullReader,
        clock: Clock,
        zones: ZoneLibrary,
        runner_id: str,
        allow_loopback: bool,
        outcomes: OutcomeOptions | None = None,
    ) -> None:
        """``reader`` reads the whole LEDGER from its beginning; ``allow_loopback`` allows targets on this machine.

        ``outcomes`` is how executors' reports are taken (None: not at all).
        """
        self.ready = asyncio.Event()
        """Set once the ledger is folded up to its end as it was at the start, and requests are answered."""
        self.model = Model()
        """What is known; for looking only."""
        self._connection = connection
        self._ledger = ledger
        self._reader = reader
        known = KnownZones(zones, partial(load_zones, connection))
        writer = CommandWriter(ledger=ledger, model=self.model, clock=clock, zones=known, runner_id=runner_id)
        commands = CommandHandlers(writer, known, TargetPolicy(allow_loopback=allow_loopback))
        self._reads = ReadHandlers(connection=connection, writer=writer, model=self.model, zones=known)
        leases = Bucket(connection, "leases")
        self._status = Status(ledger=ledger, leases=leases, clock=clock, model=self.model, runner_id=runner_id)
        explains = ExplainHandlers(writer=writer, model=self.model, zones=known)
        adopts = ZoneHandlers(connection=connection, writer=writer, model=self.model, zones=known)
        policies = PolicyHandlers(writer=writer, model=self.model, clock=clock, zones=known)
        self._handlers = {
            **_handlers(commands, self._reads, explains, adopts, self._answer_status),
            **policies.by_subject(),
        }
        options = outcomes or OutcomeOptions()
        reports = OutcomeReports(
            ledger=ledger, model=self.model, zones=known, clock=clock, runner_id=runner_id, tokens=options.tokens
        )
        self.outcomes = OutcomeEndpoint(connection=connection, reports=reports, port=options.port)
        """Where executors report; for looking only."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the ledger and answer until ``stop`` is set; then finish what is under way.

        Waits through the broker's absence. Raises LogGap and RolledBack when the ledger cannot be read on, and
        BrokerRefused; in an exception group when reports can no longer be written.
        """
        reading = asyncio.create_task(self._follow(), name="control-reader")
        serving = asyncio.create_task(self._serve(stop), name="control-requests")
        try:
            await asyncio.wait({reading, serving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.ready.clear()
            for task in (reading, serving):
                if not task.done():
                    task.cancel()
            await asyncio.wait({reading, serving})
            await self._reader.close()
        for task in (reading, serving):
            if not task.cancelled():
                task.result()

    async def _follow(self) -> None:
        async for batch in self._reader.batches():
            for start in range(0, len(batch), FOLD_SLICE):
                self.model.apply(batch[start : start + FOLD_SLICE])
                # Requests and heartbeats get their turn while a long log is folded.
                await self._connection.pause(0)
            self._ledger.note_seen(batch[-1].sequence)

    async def _serve(self, stop: asyncio.Event) -> None:
        stopping = asyncio.ensure_future(stop.wait())
        folding = asyncio.ensure_future(self._wait_folded())
        try:
            await asyncio.wait({stopping, folding}, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                return
            folding.result()
            self.model.live = True
            async with self.outcomes.serving():
                await self._answer_requests(stop)
        finally:
            stopping.cancel()
            folding.cancel()
            for task in self._tasks:
                task.cancel()

    async def _answer_requests(self, stop: asyncio.Event) -> None:
        subscription = await self._connection.subscribe(
            "control.>", self._on_request, queue=QUEUE, pending_max=PENDING_MAX
        )
        if await unless_stopped(stop, self._wait_subscribed()):
            self.ready.set()
            _log.info("control-ready", position=self.model.position, books=len(self.model.books))
            await stop.wait()
        await subscription.unsubscribe()
        self._reads.stopping.set()
        self.model.wake()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=DRAIN_S_MAX)

    async def _wait_folded(self) -> None:
        """Wait until the end of the log as it is now has been folded."""
        last: int | None = None
        while last is None:
            try:
                last = await self._ledger.last_sequence()
            except BrokerUnavailable:
                await self._connection.wait_connected(1.0)
                await self._connection.pause(0.1)
        target = last
        while not await self.model.wait_until(lambda: self.model.position >= target, 10.0):
            _log.info("control-folding", position=self.model.position, last=target)

    async def _wait_subscribed(self) -> bool:
        """Wait until the broker knows of the subscription; a request that comes earlier finds nobody."""
        while True:
            try:
                await self._connection.flush(timeout_s=SUBSCRIBED_S)
            except BrokerUnavailable:
                # After a reconnect the library subscribes again.
                await self._connection.wait_connected(1.0)
                await self._connection.pause(0.1)
            else:
                return True

    # Requests

    async def _on_request(self, message: Message) -> None:
        if not message.reply:
            return
        if len(self._tasks) >= REQUESTS_AT_ONCE_MAX:
            error = unavailable(CONTROL_BUSY, "control is busy with other requests", hint="try again later")
            await self._reply(message, failure_answer(error))
            return
        task = asyncio.create_task(self._answer(message), name=message.subject)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)

    async def _answer(self, message: Message) -> None:
        work = asyncio.ensure_future(self._handle(message.subject, message.payload))
        try:
            await asyncio.wait({work})
        finally:
            work.cancel()
        error = work.exception()
        if error is None:
            answer: dict[str, Jsonable] = {"ok": True, "value": work.result()}
        elif isinstance(error, OperationalError):
            answer = failure_answer(error)
        else:
            _log.error("request-failed-unexpectedly", subject=message.subject, error=error, exc_info=error)
            answer = failure_answer(unexpected())
        await self._reply(message, answer)

    async def _handle(self, subject: str, payload: bytes) -> Answer:
        handler = self._handlers.get(subject)
        if handler is None:
            raise refused(
                f'control does not know "{subject[:80]}"', hint="use one release for both", code=REQUEST_MALFORMED
            )
        try:
            return await handler(read_json(payload))
        except ValueError as error:
            raise from_value_error(error) from error

    async def _answer_status(self, content: dict[str, Json]) -> Answer:
        read_request(content, StatusRequest)
        return await self._status.collect()

    async def _reply(self, message: Message, answer: dict[str, Jsonable]) -> None:
        # Whoever asked learns from the silence, and asks again.
        with suppress(BrokerUnavailable, BrokerRefused):
            await self._connection.publish(message.reply, dumps(answer))


def _handlers(
    commands: CommandHandlers, reads: ReadHandlers, explains: ExplainHandlers, zones: ZoneHandlers, status: Handler
) -> dict[str, Handler]:
    """What answers which subject."""
    return {
        "control.tenant.create": commands.create_tenant,
        "control.tenant.amend": commands.amend_tenant,
        "control.tenant.show": reads.show_tenant,
        "control.tenant.list": reads.list_tenants,
        "control.trigger.create": commands.create_trigger,
        "control.trigger.amend": commands.amend_trigger,
        "control.trigger.pause": commands.pause_trigger,
        "control.trigger.resume": commands.resume_trigger,
        "control.trigger.delete": commands.delete_trigger,
        "control.trigger.show": reads.show_trigger,
        "control.trigger.list": reads.list_triggers,
        "control.trigger.preview": reads.preview_trigger,
        "control.trigger.why": explains.why,
        "control.trigger.simulate-policy": explains.simulate_policy,
        "control.fires.list": reads.list_fires,
        "control.fires.show": reads.show_fire,
        "control.fires.follow": reads.follow_fires,
        "control.book.show": reads.show_book,
        "control.tz.status": zones.status,
        "control.tz.diff": zones.diff,
        "control.tz.adopt": zones.adopt,
        "control.status": status,
    }
