"""Following a stream for ever: every message once, in order, across restarts of the broker; or a loud stop.

Messages are pulled with raw requests through a consumer that keeps no state worth anything. After a reconnect, a
silence or a message the client dropped, the reader makes a new one behind the last message it received. What was
received is never taken on trust: stream sequences are contiguous (unless filtered), and the message at the position
is still the same one each time the reader starts again.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from ..errors import BrokerUnavailable, LogGap, RolledBack
from ..logs import get_log
from .connection import BrokerConnection
from .consumers import create_consumer, delete_consumer
from .headers import DESCRIPTION, STATUS, STATUS_CONFLICT, STATUS_EXPIRED, parse_delivery
from .leader import Stored, confirmed, fetch, stream_state
from .subscription import Message, Subscription

_log = get_log("reader")

BATCH_MESSAGES = 5_000
"""Messages asked for at once."""
BATCH_BYTES = 16 * 1024 * 1024
"""Bytes asked for at once; above the largest message."""
PULL_EXPIRES_S = 30
"""A request that is not filled ends after this and is made again."""
HEARTBEAT_S = 1
"""While a request waits, the broker says this often that it is there."""
SILENCE_MAX_S = 2.5
"""Without a message or a heartbeat for this long, the consumer counts as lost."""
RETRY_PAUSE_S = 0.05
"""Between two attempts to start again."""

_REQUEST_ENDED = ("message size exceeds maxbytes", "batch completed")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a reader stands: a sequence and the SHA-256 of the body there; ``(0, b"")`` is the beginning.

    An empty hash at another sequence means that it cannot be checked.
    """

    sequence: int
    sha256: bytes


class PullReader:
    """A reader of one stream. Use ``batches`` once, and ``close`` at the end."""

    def __init__(
        self,
        connection: BrokerConnection,
        *,
        stream: str = "LEDGER",
        after: Checkpoint,
        subjects: Sequence[str] = (),
        batch: int = BATCH_MESSAGES,
        max_bytes: int = BATCH_BYTES,
    ) -> None:
        """Read what follows ``after``, of all subjects or of those that match ``subjects``.

        At most about twice ``batch`` messages and ``max_bytes`` bytes are held at once, one half by the caller.
        """
        self.position = after.sequence
        """Sequence of the last message handed out (or passed over at the start)."""
        self.start_count = 0
        """Consumers made so far: one, and one more for each time it had to be made again."""
        self._connection = connection
        self._stream = stream
        self._subjects = tuple(subjects)
        self._batch = batch
        self._max_bytes = max_bytes
        self._received = after
        self._last: Stored | None = None
        self._buffer: list[Stored] = []
        self._buffer_bytes = 0
        self._consumer = ""
        self._delivered = 0
        self._requested = 0
        self._asking = False
        self._lost = True
        self._failure: LogGap | None = None
        self._closed = False
        self._heard_at = 0.0
        self._wake = asyncio.Event()
        self._inbox = ""
        self._subscription: Subscription | None = None
        self._forget_callback = connection.on_reconnect(self._on_reconnect)

    async def batches(self) -> AsyncGenerator[list[Stored], None]:
        """Yield what has arrived, as soon as something has, until the reader is closed.

        Waits through the broker's absence. Raises LogGap at a missing message, RolledBack when the log no longer
        holds what was read, and BrokerRefused when the broker refuses to be read.
        """
        try:
            while not self._closed:
                if self._buffer:
                    batch, self._buffer, self._buffer_bytes = self._buffer, [], 0
                    await self._ask()
                    self.position = batch[-1].sequence
                    yield batch
                elif self._failure is not None:
                    raise self._failure
                elif self._lost:
                    await self._start()
                else:
                    await self._ask()
                    await self._wait()
        finally:
            await self.close()

    async def close(self) -> None:
        """End the reader: ``batches`` stops, the consumer is removed. Safe to call again."""
        if self._closed:
            return
        self._closed = True
        self._wake.set()
        self._forget_callback()
        if self._subscription is not None:
            self._connection.forget_deliveries(f"{self._inbox}.*")
            await self._subscription.unsubscribe()
        if self._consumer:
            await delete_consumer(self._connection, self._stream, self._consumer)

    # Starting, and starting again

    async def _start(self) -> None:
        try:
            if self._subscription is None:
                self._inbox = self._connection.new_inbox()
                self._subscription = await self._connection.subscribe_deliveries(
                    f"{self._inbox}.*", self._on_delivery, self._on_message
                )
            # What the earlier consumer still delivers meanwhile lies behind the position and comes again.
            self._lost, self._consumer = False, ""
            start = await self._check_position()
            self._consumer, self._delivered, self._asking = self._connection.new_token(), 0, False
            await create_consumer(
                self._connection, self._stream, self._consumer, start_sequence=start, subjects=self._subjects
            )
            self.start_count += 1
        except BrokerUnavailable as error:
            self._lost = True
            _log.debug("reader-waits", stream=self._stream, position=self.position, text=error.message)
            await self._connection.pause(RETRY_PAUSE_S)

    async def _check_position(self) -> int:
        """Compare the log with what was read, and return the sequence to go on from."""
        if self._last is not None:
            self._received = Checkpoint(self._last.sequence, sha256(self._last.body).digest())
        finding = await confirmed(self._connection, self._find_rollback)
        if finding:
            raise RolledBack(
                f'the stream "{self._stream}" is rolled back: {finding}',
                hint="messages that were read are missing from the broker's store; recover them from the copy",
            )
        first = (await stream_state(self._connection, self._stream)).first_sequence
        if self._received.sequence == 0 and first > 1:
            self._received = Checkpoint(first - 1, b"")
        if first > self._received.sequence + 1:
            raise LogGap(
                f'the stream "{self._stream}" begins at {first}, after the position {self._received.sequence}',
                hint="the log was trimmed; start from a snapshot above that sequence",
            )
        return self._received.sequence + 1

    async def _find_rollback(self) -> str:
        sequence, digest = self._received.sequence, self._received.sha256
        state = await stream_state(self._connection, self._stream)
        if state.last_sequence < sequence:
            return f"its last sequence is {state.last_sequence}, but {sequence} was read before"
        if sequence >= max(state.first_sequence, 1) and digest:
            found = await fetch(self._connection, self._stream, {"seq": sequence})
            if found is None or sha256(found.stored.body).digest() != digest:
                return f"sequence {sequence} no longer holds the message that was read there"
        return ""

    @property
    def _reply_subject(self) -> str:
        """Where this consumer's messages go; statuses for an earlier consumer's requests are not ours."""
        return f"{self._inbox}.{self._consumer}"

    def _on_reconnect(self) -> None:
        self._lost = True
        self._wake.set()

    # Asking and waiting

    async def _ask(self) -> None:
        """Ask for the next messages when no request is open and at most half a batch is held."""
        if self._asking or self._lost:
            return
        if len(self._buffer) > self._batch // 2 or self._buffer_bytes > self._max_bytes // 2:
            return
        request = {
            "batch": self._batch,
            "max_bytes": self._max_bytes,
            "expires": PULL_EXPIRES_S * 1_000_000_000,
            "idle_heartbeat": HEARTBEAT_S * 1_000_000_000,
        }
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        self._requested, self._asking, self._heard_at = self._batch, True, _now()
        try:
            await self._connection.publish(subject, msgspec.json.encode(request), reply=self._reply_subject)
        except BrokerUnavailable:
            self._lost = True

    async def _wait(self) -> None:
        """Wait for something to happen; too long a silence means that the consumer is lost."""
        if self._lost or self._buffer or self._failure is not None:
            return
        if not self._connection.connected:
            await self._connection.wait_connected(RETRY_PAUSE_S)
            return
        began = _now()
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(max(began, self._heard_at) + SILENCE_MAX_S):
                await self._wake.wait()
                return
        if self._heard_at <= began:
            _log.warning("reader-lost-consumer", stream=self._stream, position=self.position)
            self._lost = True

    # Receiving

    def _on_delivery(self, subject: str, reply: str, body: bytes) -> None:
        try:
            consumer, sequence, delivered, stamped_at = parse_delivery(reply)
        except ValueError as error:
            self._stop(LogGap(str(error), hint="this release cannot read what the broker sends; check its version"))
            return
        if consumer != self._consumer or self._lost or self._failure is not None:
            return
        if delivered != self._delivered + 1:
            # A message on the way was dropped; the log has it.
            self._on_reconnect()
            return
        previous = self._received.sequence if self._last is None else self._last.sequence
        if sequence <= previous or (not self._subjects and sequence != previous + 1):
            self._fail(sequence, previous)
            return
        self._delivered = delivered
        self._last = Stored(sequence, subject, stamped_at, body)
        self._buffer.append(self._last)
        self._buffer_bytes += len(body)
        self._heard_at = _now()
        self._requested -= 1
        if self._requested == 0:
            self._asking = False
        self._wake.set()

    def _fail(self, sequence: int, previous: int) -> None:
        _log.error("reader-gap", stream=self._stream, previous=previous, sequence=sequence)
        message = f'the stream "{self._stream}" goes from sequence {previous} to {sequence}'
        hint = "a message is missing or repeated in the broker's store; compare it with the copy before going on"
        self._stop(LogGap(message, hint=hint))

    def _stop(self, failure: LogGap) -> None:
        """Hand out what came before, then raise."""
        self._failure = self._failure or failure
        self._wake.set()

    async def _on_message(self, message: Message) -> None:
        """Take a status: a heartbeat, the end of a request, the end of the consumer."""
        if message.subject != self._reply_subject or STATUS not in message.headers:
            return
        status, description = message.headers[STATUS], message.headers.get(DESCRIPTION, "")
        self._heard_at = _now()
        if status == STATUS_EXPIRED or (status == STATUS_CONFLICT and description.lower() in _REQUEST_ENDED):
            self._asking = False
            self._wake.set()
        elif not status.startswith("1"):
            # Consumer deleted, leadership changed, server going away, nobody there.
            self._on_reconnect()


def _now() -> float:
    return asyncio.get_running_loop().time()
