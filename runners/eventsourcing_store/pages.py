"""A stretch of a whole stream, read at once: one request, as many answers as there are messages."""

from contextlib import aclosing

import msgspec

from ..errors import LogGap
from ..jetstream.connection import BrokerConnection, Reply
from ..jetstream.headers import SEQUENCE, STATUS, SUBJECT, TIME_STAMP, parse_time
from ..jetstream.leader import Stored, fetch

STRETCH_MESSAGES_MAX = 1_000
STRETCH_BYTES_MAX = 8 * 1024 * 1024
"""Messages and bytes asked for at once."""
ANSWER_TIMEOUT_S = 5.0
"""How long the broker may take for each message."""

_HINT = "a message is missing from the broker's store; compare it with the copy before going on"


async def read_stretch(connection: BrokerConnection, stream: str, *, after: int, count: int) -> list[Stored]:
    """Return the messages behind the sequence ``after``, at least one and up to ``count``, without a hole.

    There must be one. They may come from a replica; one it does not have yet comes from the leader. Raises LogGap,
    BrokerUnavailable, BrokerRefused.
    """
    request = {"seq": after + 1, "batch": min(count, STRETCH_MESSAGES_MAX), "max_bytes": STRETCH_BYTES_MAX}
    subject = f"$JS.API.DIRECT.GET.{stream}"
    replies = connection.ask_many(subject, msgspec.json.encode(request), timeout_s=ANSWER_TIMEOUT_S)
    found: list[Stored] = []
    async with aclosing(replies):
        async for reply in replies:
            if STATUS in reply.headers:
                break
            found.append(_stored(reply))
    if not found:
        fetched = await fetch(connection, stream, {"seq": after + 1})
        found = [] if fetched is None else [fetched.stored]
    if [stored.sequence for stored in found] != list(range(after + 1, after + 1 + max(len(found), 1))):
        raise LogGap(f'the stream "{stream}" does not go on at sequence {after + 1} without a hole', hint=_HINT)
    return found


def _stored(reply: Reply) -> Stored:
    headers = reply.headers
    return Stored(int(headers[SEQUENCE]), headers[SUBJECT], parse_time(headers[TIME_STAMP]), reply.payload)
