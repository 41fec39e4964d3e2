"""Key-value buckets with exact compare-and-set, on raw publishes and leader reads.

A revision is the stream sequence of a key's newest message. The client library's own buckets are not used: they
show deletion markers as entries, and a create after one fails.
"""

from dataclasses import dataclass

import msgspec

from ..errors import BrokerRefused, BrokerUnavailable
from .connection import BrokerConnection
from .headers import (
    COMMIT_ID,
    EXPECTED_SUBJECT_SEQUENCE,
    KV_OPERATION,
    MARKER_REASON,
    SEQUENCE,
    STATUS,
    STATUS_END,
    STATUS_NOT_FOUND,
    SUBJECT,
    TIME_STAMP,
    parse_time,
)
from .leader import ApiError, Fetched, decode, fetch_last, raise_error

WRITE_TIMEOUT_S = 2.0
"""How long one write may go unanswered."""
WRITES_MAX = 4
"""Sends of one write before its outcome is reported as unknown."""
RETRY_PAUSE_S = 0.02
"""Between two sends after an answer that decided nothing."""
KEYS_MAX = 1_024
"""Keys that one listing may return: the broker's own limit."""

_CONFLICTS = frozenset({10071, 10164})
_DELETE = "DEL"


@dataclass(frozen=True, slots=True)
class Entry:
    """A key's value, its revision, and when the broker stored it (microseconds)."""

    key: str
    value: bytes
    revision: int
    stamped_at: int


class _Ack(msgspec.Struct, frozen=True):
    seq: int = 0
    error: ApiError | None = None


class Bucket:
    """One bucket. Keys consist of letters, digits and ``-/_=.``, dots separating their parts."""

    def __init__(self, connection: BrokerConnection, name: str) -> None:
        """Use the bucket ``name``, which exists already."""
        self._connection = connection
        self._stream = f"KV_{name}"
        self._prefix = f"$KV.{name}."

    async def get(self, key: str) -> Entry | None:
        """Return a key's entry as the stream's leader has it, or None. Raises BrokerUnavailable, BrokerRefused."""
        fetched = await fetch_last(self._connection, self._stream, self._prefix + key)
        return None if fetched is None or _is_marker(fetched) else self._entry(fetched)

    async def put_if(self, key: str, value: bytes, revision: int) -> int | None:
        """Set a key if its revision is still ``revision`` (0: it must not exist). The new revision, or None when lost.

        Raises BrokerUnavailable when the outcome is unknown, and BrokerRefused.
        """
        return await self._write(key, value, revision, {})

    async def delete_if(self, key: str, revision: int) -> bool:
        """Delete a key if its revision is still ``revision``. Whether it was deleted.

        Raises BrokerUnavailable when the outcome is unknown, and BrokerRefused.
        """
        return await self._write(key, b"", revision, {KV_OPERATION: _DELETE}) is not None

    async def entries(self, prefix: str = "") -> list[Entry]:
        """Return the entries whose keys begin with ``prefix``, in no order; at most KEYS_MAX.

        Read in one request that a replica may answer: in a cluster it may lag a moment behind. Raises
        BrokerUnavailable, and BrokerRefused when there are too many.
        """
        parts = prefix.rpartition(".")[0]
        request = {"multi_last": [f"{self._prefix}{parts}{'.' if parts else ''}>"], "batch": KEYS_MAX}
        found: list[Entry] = []
        replies = self._connection.ask_many(
            f"$JS.API.DIRECT.GET.{self._stream}", msgspec.json.encode(request), timeout_s=WRITE_TIMEOUT_S
        )
        async for reply in replies:
            headers = reply.headers
            if STATUS in headers:
                self._check_end(headers[STATUS], prefix)
                break
            key = headers[SUBJECT][len(self._prefix) :]
            if key.startswith(prefix) and KV_OPERATION not in headers and MARKER_REASON not in headers:
                found.append(Entry(key, reply.payload, int(headers[SEQUENCE]), parse_time(headers[TIME_STAMP])))
        await replies.aclose()
        return found

    def _check_end(self, status: str, prefix: str) -> None:
        if status not in (STATUS_END, STATUS_NOT_FOUND):
            message = f'the keys "{prefix}" of "{self._stream}" cannot be listed (status {status})'
            raise BrokerRefused(message, hint=f"list at most {KEYS_MAX} keys at once")

    async def _write(self, key: str, value: bytes, revision: int, headers: dict[str, str]) -> int | None:
        """Send the same write until its outcome is certain, WRITES_MAX times at most."""
        subject, commit_id = self._prefix + key, self._connection.new_token()
        expected, doubt = revision, ""
        for _ in range(WRITES_MAX):
            sent = {**headers, COMMIT_ID: commit_id, EXPECTED_SUBJECT_SEQUENCE: str(expected)}
            try:
                ack = await self._send(subject, value, sent)
                if ack.error is None:
                    return ack.seq
                if ack.error.err_code not in _CONFLICTS:
                    raise_error(ack.error, self._stream)
                last = await fetch_last(self._connection, self._stream, subject)
            except BrokerUnavailable as error:
                doubt = error.message
                await self._connection.wait_connected(WRITE_TIMEOUT_S)
                continue
            if last is not None and last.headers.get(COMMIT_ID) == commit_id:
                return last.stored.sequence
            current = 0 if last is None else last.stored.sequence
            if revision == 0 and last is not None and _is_marker(last) and current > expected:
                # A deleted key does not exist; its marker's sequence is what the broker expects.
                expected = current
            elif current != expected:
                return None
            doubt = "the broker gave no definite answer"
            await self._connection.pause(RETRY_PAUSE_S)
        raise BrokerUnavailable(f'the outcome of writing "{key}" is unknown: {doubt}', hint="read it and decide again")

    async def _send(self, subject: str, value: bytes, headers: dict[str, str]) -> _Ack:
        reply = await self._connection.ask(subject, value, timeout_s=WRITE_TIMEOUT_S, headers=headers)
        return decode(reply.payload, _Ack)

    def _entry(self, fetched: Fetched) -> Entry:
        stored = fetched.stored
        return Entry(stored.subject[len(self._prefix) :], stored.body, stored.sequence, stored.stamped_at)


def _is_marker(fetched: Fetched) -> bool:
    return KV_OPERATION in fetched.headers or MARKER_REASON in fetched.headers
