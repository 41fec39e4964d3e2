"""Reading up to the end as it is now: one subject, or a stretch of a stream."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from fireledger.domain.instants import format_instant

from ..errors import LogGap, RolledBack
from .connection import BrokerConnection, Reply
from .headers import SEQUENCE, STATUS, SUBJECT, TIME_STAMP, parse_time
from .leader import Fetched, Stored, fetch, fetch_last, fetch_next, stream_state
from .reader import Checkpoint, PullReader

SUBJECT_BATCH_MESSAGES = 1_000
SUBJECT_BATCH_BYTES = 8 * 1024 * 1024
"""Messages and bytes of one subject that are asked for at once."""
ANSWER_TIMEOUT_S = 5.0
"""How long the broker may take for each message of an answer."""


async def read_subject(
    connection: BrokerConnection, stream: str, subject: str, *, from_sequence: int = 1
) -> AsyncGenerator[Stored, None]:
    """Yield the messages on one exact subject from ``from_sequence`` up to its head, as the leader has it at the call.

    The messages may come from a replica; those it does not have yet come from the leader. Raises LogGap when they
    come out of order, RolledBack when the head is gone, BrokerUnavailable, BrokerRefused.
    """
    head = await fetch_last(connection, stream, subject)
    target = 0 if head is None else head.stored.sequence
    position = max(from_sequence, 1) - 1
    while position < target:
        found = await _batch_after(connection, stream, subject, position)
        if not found or found[0].sequence > target:
            found = [await _from_leader(connection, stream, subject, position)]
        for stored in found:
            if stored.sequence > target:
                return
            if stored.sequence <= position:
                raise LogGap(f'"{subject}" goes from sequence {position} to {stored.sequence}', hint=_GAP_HINT)
            position = stored.sequence
            yield stored


_GAP_HINT = "messages are missing or repeated in the broker's store; compare it with the copy"


async def _from_leader(connection: BrokerConnection, stream: str, subject: str, position: int) -> Stored:
    fetched = await fetch_next(connection, stream, subject, position + 1)
    if fetched is None:
        raise RolledBack(f'"{subject}" ends at sequence {position}, but its head was seen after that', hint=_GAP_HINT)
    return fetched.stored


async def _batch_after(connection: BrokerConnection, stream: str, subject: str, position: int) -> list[Stored]:
    request = {
        "seq": position + 1,
        "next_by_subj": subject,
        "batch": SUBJECT_BATCH_MESSAGES,
        "max_bytes": SUBJECT_BATCH_BYTES,
    }
    replies = connection.ask_many(
        f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(request), timeout_s=ANSWER_TIMEOUT_S
    )
    found: list[Stored] = []
    async with aclosing(replies):
        async for reply in replies:
            if STATUS in reply.headers:
                break
            found.append(_stored(reply))
    return found


def _stored(reply: Reply) -> Stored:
    headers = reply.headers
    return Stored(int(headers[SEQUENCE]), headers[SUBJECT], parse_time(headers[TIME_STAMP]), reply.payload)


async def scan(
    connection: BrokerConnection,
    stream: str,
    *,
    from_sequence: int | None = None,
    from_instant: int | None = None,
    until_sequence: int | None = None,
    subjects: Sequence[str] = (),
) -> AsyncGenerator[Stored, None]:
    """Yield a stretch of a stream, of all subjects or of those that match ``subjects``, in order.

    It begins at ``from_sequence`` and at the first message stamped at ``from_instant`` (microseconds) or later, and
    ends at ``until_sequence`` (inclusive) and at the last message the leader has at the call. Waits through the
    broker's absence. Raises what PullReader raises.
    """
    target = await _target(connection, stream, subjects)
    if until_sequence is not None and not subjects:
        target = min(target, until_sequence)
    start = max(from_sequence or 1, (await stream_state(connection, stream)).first_sequence)
    if from_instant is not None:
        first = await fetch(connection, stream, {"start_time": format_instant(from_instant)})
        start = target + 1 if first is None else max(start, first.stored.sequence)
    end = target if until_sequence is None else min(target, until_sequence)
    if start > end:
        return
    reader = PullReader(connection, stream=stream, after=Checkpoint(start - 1, b""), subjects=subjects)
    async with aclosing(reader.batches()) as batches:
        async for batch in batches:
            for stored in batch:
                if stored.sequence <= end:
                    yield stored
            if batch[-1].sequence >= end:
                return


async def _target(connection: BrokerConnection, stream: str, subjects: Sequence[str]) -> int:
    """The last sequence to wait for: of the stream, or of the subjects asked for."""
    if not subjects:
        return (await stream_state(connection, stream)).last_sequence
    heads = [await fetch_last(connection, stream, subject) for subject in subjects]
    return max((head.stored.sequence for head in heads if isinstance(head, Fetched)), default=0)
