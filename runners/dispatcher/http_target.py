"""HTTP targets: one POST per attempt, to addresses that were checked. The only egress beside the broker's."""

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from ipaddress import ip_address
from types import TracebackType
from typing import cast
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from fireledger.domain.entries import ResultKind
from fireledger.domain.instants import SECOND, Instant

from ..clock import Clock, ClockHeld
from .calls import (
    OUTCOMES,
    Call,
    CallResult,
    JsonObject,
    Uncallable,
    answer_cost,
    answer_message,
    answer_object,
    call_headers,
    short_message,
    wait_of,
)
from .policy import TargetPolicy

RESPONSE_BYTES_MAX = 64 * 1024
"""Bytes of an answer that are read; a longer one is cut off with its connection, and what it says is ignored."""
RETRY_AFTER_LENGTH_MAX = 64
"""Characters of a Retry-After header: its longest form, a date, has 33."""
ACCEPTED = 202
"""The status that means: taken, and the outcome comes later."""
KEEPALIVE_S = 3.0
"""How long an idle connection is kept: less than the 5 s after which common servers close it under a request."""
NAMES_KEPT_S = 10
"""How long checked addresses of a name are used for new connections."""
RESOLVERS_MAX = 16
"""Names looked up at once; a slow name server holds up others only beyond that."""

_Address = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
_AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, _Address]


class RefusedAddress(OSError):
    """The target's address is not one that may be called; the message names it and why."""


class CheckedResolver(AbstractResolver):
    """Looks names up and gives only addresses that the policy allows: all of them, or none."""

    def __init__(self, policy: TargetPolicy) -> None:
        self._policy = policy
        self._threads = ThreadPoolExecutor(RESOLVERS_MAX, thread_name_prefix="resolver")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Look the host up. Raises RefusedAddress when any of its addresses is refused, OSError when it has none."""
        look_up = partial(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        results: list[ResolveResult] = []
        for kind, _, protocol, _, address in found:
            number = str(address[0])
            check_address(self._policy, host, number)
            results.append(
                ResolveResult(
                    hostname=host, host=number, port=port, family=kind, proto=protocol, flags=socket.AI_NUMERICHOST
                )
            )
        return results

    async def close(self) -> None:
        """Stop looking up."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def check_address(policy: TargetPolicy, host: str, address: str) -> None:
    """Raise RefusedAddress unless the policy allows the address of a host."""
    reason = policy.refusal(address)
    if reason:
        where = f'"{host}"' if host == address else f'"{host}" ({address})'
        raise RefusedAddress(f"target {where} is refused: the address {reason}")


class HttpTarget:
    """Calls over HTTP with pooled connections. An asynchronous context manager; one event loop."""

    def __init__(self, policy: TargetPolicy, *, connections_max: int, clock: Clock) -> None:
        """``connections_max`` bounds open connections; callers bound them per target.

        ``clock`` tells how far off the date in an answer is.
        """
        self._policy = policy
        self._connections_max = connections_max
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "HttpTarget":
        connector = aiohttp.TCPConnector(
            limit=self._connections_max,
            resolver=CheckedResolver(self._policy),
            ttl_dns_cache=NAMES_KEPT_S,
            keepalive_timeout=KEEPALIVE_S,
            socket_factory=self._checked_socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            headers={"User-Agent": "fireledger", "Accept-Encoding": "identity"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(self, call: Call) -> CallResult:
        """POST the payload once: no redirect is followed, no cookie kept, at most RESPONSE_BYTES_MAX are read."""
        assert self._session is not None, "the target is not open"
        headers = call_headers(call)
        try:
            self._check_literal(call.target)
            async with self._session.post(
                call.target, data=call.payload, headers=headers, allow_redirects=False
            ) as response:
                body, retry_after = await _body(response), response.headers.get("Retry-After", "")
                return read_response(response.status, retry_after, body, now=self._now())
        except aiohttp.InvalidURL as error:
            raise Uncallable(f"the target's URL cannot be called: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            refused = next((each for each in _causes(error) if isinstance(each, RefusedAddress)), None)
            if refused is not None:
                return CallResult(kind="final", message=short_message(str(refused)))
            return CallResult(kind="retryable", message=short_message(_description(error)))

    def _now(self) -> Instant | None:
        try:
            return self._clock.now().earliest
        except ClockHeld:
            return None

    def _check_literal(self, url: str) -> None:
        """Refuse an address written into the URL: the resolver is not asked about those."""
        host = urlsplit(url).hostname or ""
        try:
            ip_address(host)
        except ValueError:
            return
        check_address(self._policy, host, host)

    def _checked_socket(self, info: _AddressInfo) -> socket.socket:
        """The last word, whatever led here: the very address that is about to be connected to."""
        address = str(info[4][0])
        check_address(self._policy, address, address)
        return socket.socket(info[0], info[1], info[2])


async def _body(response: aiohttp.ClientResponse) -> bytes:
    read = bytearray()
    async for chunk in response.content.iter_any():
        read += chunk
        if len(read) > RESPONSE_BYTES_MAX:
            response.close()
            return b""
    return bytes(read)


def read_response(status: int, retry_after: str, body: bytes, *, now: Instant | None = None) -> CallResult:
    """What a response means: 2xx succeeded, 429 and 5xx retryable, everything else final.

    202 is accepted. The ``outcome`` in the body of a 2xx answer overrides that. ``now`` is what a date in Retry-After
    counts from (None: such a date is ignored).
    """
    answer = answer_object(body)
    kind = _kind_of(status)
    message = answer_message(answer)
    if kind in ("succeeded", "accepted"):
        told = _told_outcome(answer)
        kind = told or kind
        if told is None and "outcome" in answer:
            message = short_message(f"the status counts: the outcome is none of {', '.join(OUTCOMES)}. {message}")
    elif not message:
        message = f"the target answered {status}"
    return CallResult(
        kind=kind,
        code=status,
        retry_after=parse_retry_after(retry_after, now=now) if kind == "retryable" else None,
        cost=answer_cost(answer),
        message=message,
    )


def _kind_of(status: int) -> ResultKind:
    if 200 <= status < 300:
        return "accepted" if status == ACCEPTED else "succeeded"
    return "retryable" if status == 429 or status >= 500 else "final"


def _told_outcome(answer: JsonObject) -> ResultKind | None:
    told = answer.get("outcome")
    return OUTCOMES.get(told) if isinstance(told, str) else None


def parse_retry_after(text: str, *, now: Instant | None = None) -> int | None:
    """A Retry-After header, in seconds or as a date, as bounded microseconds from ``now`` on.

    None for a date that is over, one without ``now``, and for nonsense.
    """
    text = text.strip()
    if not text.isascii() or len(text) > RETRY_AFTER_LENGTH_MAX:
        return None
    if text.isdecimal():
        return wait_of(int(text))
    if now is None:
        return None
    try:
        date = parsedate_to_datetime(text)
        at = int((date.replace(tzinfo=UTC) if date.tzinfo is None else date).timestamp())
    except (ValueError, OverflowError):
        return None
    return wait_of(-(-(at * SECOND - now) // SECOND))


def endpoint(url: str) -> str:
    """Host and port of a URL: what calls are bounded by."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return "malformed"
    return f"{parts.hostname}:{port}"


def _description(error: BaseException) -> str:
    """An error without what it may quote of the request: its kind, and the system's text for it."""
    if isinstance(error, aiohttp.ClientResponseError | aiohttp.ClientPayloadError):
        return "the target's answer is not valid HTTP, or broke off"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the target closed the connection without an answer"
    inner = getattr(error, "os_error", None) or error
    text = inner.strerror if isinstance(inner, OSError) and inner.strerror else type(error).__name__
    return f"the target cannot be reached: {text}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it, members of groups included."""
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            waiting += list(cast("BaseExceptionGroup[BaseException]", each).exceptions)
        waiting += [cause for cause in (each.__cause__, each.__context__) if cause is not None]
