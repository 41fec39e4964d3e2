"""Reads answered by the stream's leader: the only reads that a decision about a position may rest on."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from ..errors import BrokerRefused, BrokerUnavailable
from .connection import BrokerConnection
from .headers import parse_header_block, parse_time

READ_TIMEOUT_S = 2.0
"""How long one read may take before it counts as unanswered."""
CONFIRMATIONS = 3
CONFIRMATION_PAUSE_S = 0.2
"""A sign of lost messages is read again this often: in a cluster a deposed leader answers for a moment."""

_NO_MESSAGE = 10037
_NO_RIGHTS = "check that the streams are set up and that this login is the runner's own"
# Not ready, no quorum, stream not yet loaded: the same request may succeed later.
_TRANSIENT = frozenset({10004, 10005, 10008, 10009, 10059, 10118, 10167})


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Stored:
    """A message in the log: its stream sequence, subject, broker instant (integer microseconds) and body."""

    sequence: int
    subject: str
    stamped_at: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Fetched:
    """A stored message with its headers."""

    stored: Stored
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StreamState:
    """First and last sequence of a stream; an empty stream has first = last + 1."""

    first_sequence: int
    last_sequence: int


class ApiError(msgspec.Struct, frozen=True):
    """An error as the broker's interface reports it; ``err_code`` identifies it."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class _Answer(msgspec.Struct, frozen=True):
    error: ApiError | None = None


class _RawMessage(msgspec.Struct, frozen=True):
    subject: str
    seq: int
    time: str
    data: bytes = b""
    hdrs: bytes = b""


class _MessageAnswer(_Answer, frozen=True):
    message: _RawMessage | None = None


class _RawState(msgspec.Struct, frozen=True):
    first_seq: int
    last_seq: int


class _InfoAnswer(_Answer, frozen=True):
    state: _RawState | None = None


async def fetch(connection: BrokerConnection, stream: str, query: Mapping[str, int | str]) -> Fetched | None:
    """Return the message the leader finds, or None when it has none.

    ``query`` is ``{"seq": n}``, ``{"last_by_subj": s}`` or ``{"seq": n, "next_by_subj": s}``. Raises
    BrokerUnavailable and BrokerRefused.
    """
    payload = await call(connection, f"STREAM.MSG.GET.{stream}", query)
    answer = decode(payload, _MessageAnswer)
    if answer.error is not None and answer.error.err_code == _NO_MESSAGE:
        return None
    raise_error(answer.error, stream)
    raw = answer.message
    if raw is None:
        raise BrokerUnavailable(f'the broker answered a read of "{stream}" with neither message nor error')
    return Fetched(Stored(raw.seq, raw.subject, parse_time(raw.time), raw.data), parse_header_block(raw.hdrs))


async def fetch_last(connection: BrokerConnection, stream: str, subject: str) -> Fetched | None:
    """Return the newest message on a subject, or None."""
    return await fetch(connection, stream, {"last_by_subj": subject})


async def fetch_next(connection: BrokerConnection, stream: str, subject: str, sequence: int) -> Fetched | None:
    """Return the first message on a subject at ``sequence`` or after it, or None."""
    return await fetch(connection, stream, {"seq": max(sequence, 1), "next_by_subj": subject})


async def stream_state(connection: BrokerConnection, stream: str) -> StreamState:
    """Return the stream's first and last sequence. Raises BrokerUnavailable and BrokerRefused."""
    answer = decode(await call(connection, f"STREAM.INFO.{stream}", {}), _InfoAnswer)
    raise_error(answer.error, stream)
    if answer.state is None:
        raise BrokerUnavailable(f'the broker answered about "{stream}" with neither state nor error')
    return StreamState(answer.state.first_seq, answer.state.last_seq)


async def call(connection: BrokerConnection, operation: str, body: Mapping[str, object]) -> bytes:
    """Send a request to the broker's interface and return the answer's bytes."""
    payload = msgspec.json.encode(body) if body else b""
    return (await connection.ask(f"$JS.API.{operation}", payload, timeout_s=READ_TIMEOUT_S)).payload


def decode(payload: bytes, kind: type[_T]) -> _T:
    """Read an answer. Raises BrokerUnavailable for one that cannot be read."""
    try:
        return msgspec.json.decode(payload, type=kind)
    except msgspec.MsgspecError as error:
        raise BrokerUnavailable(f"the broker's answer cannot be read: {error}") from error


def raise_error(error: ApiError | None, stream: str) -> None:
    """Raise what an error of the interface means; return when there is none."""
    if error is None:
        return
    message = f'the broker refused a request on "{stream}": {error.description} ({error.err_code})'
    if error.err_code in _TRANSIENT or error.code == 503:
        raise BrokerUnavailable(message, hint=_NO_RIGHTS)
    raise BrokerRefused(message, hint=_NO_RIGHTS)


async def confirmed(connection: BrokerConnection, find: Callable[[], Awaitable[str]]) -> str:
    """Ask again CONFIRMATIONS times; return the finding if it holds each time, else an empty text."""
    finding = await find()
    for _ in range(CONFIRMATIONS):
        if not finding:
            break
        await connection.pause(CONFIRMATION_PAUSE_S)
        finding = await find()
    return finding
