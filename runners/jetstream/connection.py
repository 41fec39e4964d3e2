"""One connection of one broker user: requests, publishes and subscriptions that buffer nothing across a reconnect.

Only this package imports ``nats``. A message handed over here is written to the broker now or refused now: a page
that lies in a client's buffer while the broker is away, and lands when nobody waits for it any more, is what this
module exists to prevent.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from nats import errors
from nats.aio.msg import Msg
from nats.nuid import NUID

from ..errors import BrokerRefused, BrokerUnavailable
from ..logs import get_log
from .client import Deliver, UnbufferedClient
from .headers import STATUS, STATUS_NO_RESPONDERS, header_block_size
from .subscription import PENDING_MESSAGES_MAX, Message, Subscription, start_subscription

_log = get_log("broker-connection")

RECONNECT_WAIT_S = 0.1
"""Between two attempts to reconnect: short, so that work goes on within a second of the broker's return."""
ATTEMPT_TIMEOUT_S = 2.0
"""How long one attempt to connect may take."""
PING_INTERVAL_S = 2.0
PINGS_UNANSWERED_MAX = 2
"""A broker silent for about (PINGS_UNANSWERED_MAX + 1) * PING_INTERVAL_S counts as lost."""
OUTBOUND_BYTES_MAX = 64 * 1024 * 1024
"""Bytes waiting for the socket; beyond it a publish is refused. Room for a few full batches."""
CLOSE_TIMEOUT_S = 2.0
"""How long closing may take before the socket is simply dropped."""
REPLIES_MAX = 4_096
"""Replies to one request that may wait to be taken."""
NOBODY_S_MAX = 2.0
"""How long a request that may be repeated is sent again while nobody listens: a reload of the broker takes less."""
NOBODY_PAUSE_S = 0.02
"""Between two such requests."""


@dataclass(frozen=True)
class Login:
    """Where a broker is and as whom to log in. The password never shows in ``repr``."""

    url: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back to a request; a status message has its number in ``headers["Status"]``."""

    payload: bytes
    headers: Mapping[str, str]


class NobodyListens(BrokerUnavailable):
    """A request reached nobody at the moment the broker looked, so nothing was done."""


class _Replies:
    """The replies to one request, in order, up to REPLIES_MAX of them, or the error that ends them."""

    __slots__ = ("_arrived", "_error", "_items", "subject")

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self._items: list[Reply] = []
        self._error: BrokerUnavailable | BrokerRefused | None = None
        self._arrived = asyncio.Event()

    def put(self, reply: Reply) -> None:
        if len(self._items) >= REPLIES_MAX:
            self.fail(BrokerUnavailable(f'too many answers on "{self.subject}" at once', hint="ask for fewer"))
            return
        self._items.append(reply)
        self._arrived.set()

    def fail(self, error: BrokerUnavailable | BrokerRefused) -> None:
        self._error = self._error or error
        self._arrived.set()

    async def take(self, timeout_s: float) -> list[Reply]:
        """Return what has arrived, at least one. Raises the error, or BrokerUnavailable after ``timeout_s``."""
        if not self._arrived.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    await self._arrived.wait()
            except TimeoutError:
                message = f'the broker did not answer on "{self.subject}" within {timeout_s:.3g} s'
                raise BrokerUnavailable(message, hint=_HINT) from None
        self._arrived.clear()
        taken, self._items = self._items, []
        if not taken and self._error is not None:
            raise self._error
        if self._error is not None:
            self._arrived.set()
        return taken


_HINT = "check that the broker runs and can be reached: fireledger status"


class BrokerConnection:
    """One user's connection. It reconnects for ever; while it is lost every request and publish fails at once.

    ``generation`` grows by one at each reconnect: what was cached about the log before then is void.
    """

    def __init__(self, login: Login) -> None:
        """Use ``open``; a connection made here is not connected."""
        self.generation = 0
        self.slow_consumer_count = 0
        """Messages dropped because a subscriber was slow."""
        self.permission_error_count = 0
        """Requests the broker refused for missing rights."""
        self.error_count = 0
        """Other errors that the client library reported."""
        self._login = login
        self._last_error = ""
        self._refusal: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._client = UnbufferedClient(self._lost)
        self._ready = False
        self._closing = False
        self._state_changed = asyncio.Event()
        self._waiting: dict[str, _Replies] = {}
        self._request_number = 0
        self._nuid = NUID()
        self.inbox_prefix = f"_INBOX_{login.user}"
        self._replies_prefix = f"{self.new_inbox()}."
        self._reconnect_callbacks: list[Callable[[], None]] = []

    @classmethod
    async def open(cls, login: Login, *, name: str, connect_timeout_s: float = 5.0) -> "BrokerConnection":
        """Connect, trying until ``connect_timeout_s`` is over.

        Raises BrokerUnavailable when no broker answers in time, and BrokerRefused when it refuses the login.
        """
        connection = cls(login)
        try:
            await connection._connect(name, connect_timeout_s)
        except (BrokerUnavailable, BrokerRefused, asyncio.CancelledError):
            await connection.close()
            raise
        return connection

    async def _connect(self, name: str, timeout_s: float) -> None:
        # The library takes fractions of a second, though its annotations say whole ones.
        options: dict[str, Any] = {
            "name": name,
            "user": self._login.user,
            "password": self._login.password,
            "inbox_prefix": self.inbox_prefix,
            "error_cb": self._on_error,
            "reconnected_cb": self._on_reconnected,
            "connect_timeout": ATTEMPT_TIMEOUT_S,
            "reconnect_time_wait": RECONNECT_WAIT_S,
            "max_reconnect_attempts": -1,
            "ping_interval": PING_INTERVAL_S,
            "max_outstanding_pings": PINGS_UNANSWERED_MAX,
            "pending_size": 0,
        }
        connecting = asyncio.ensure_future(self._client.connect(self._login.url, **options))
        try:
            waited: set[asyncio.Future[Any]] = {connecting, self._refusal}
            await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if self._refusal.done():
                hint = "check the user and its password; they belong to one data folder or cluster"
                raise BrokerRefused(f'the broker at "{self._login.url}" refused user "{self._login.user}"', hint=hint)
            if not connecting.done():
                because = f": {self._last_error}" if self._last_error else ""
                raise BrokerUnavailable(f'no broker can be reached at "{self._login.url}"{because}', hint=_HINT)
            await connecting
        finally:
            connecting.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(connecting, return_exceptions=True)
        await start_subscription(self._client, f"{self._replies_prefix}*", self._on_reply)
        self._set_ready(True)

    @property
    def connected(self) -> bool:
        """Whether a message handed over now would be written to the broker."""
        return self._ready and self._client.is_connected

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called: it will never be connected again."""
        return self._closing

    @property
    def login(self) -> Login:
        """Where and as whom it is connected."""
        return self._login

    @property
    def unsent_bytes(self) -> int:
        """Bytes handed over that the socket has not taken; forgotten when the connection is lost."""
        return self._client.pending_data_size

    @property
    def payload_bytes_max(self) -> int:
        """The broker's limit for one message, headers included."""
        return self._client.max_payload

    def new_inbox(self) -> str:
        """Return a fresh subject below this user's own inbox."""
        return f"{self.inbox_prefix}.{self.new_token()}"

    def new_token(self) -> str:
        """Return a fresh name of 22 letters and digits, for inboxes, consumers and batches."""
        return self._nuid.next().decode()

    def on_reconnect(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after every reconnect, ``generation`` already grown. Returns what removes the callback."""
        self._reconnect_callbacks.append(callback)

        def remove() -> None:
            if callback in self._reconnect_callbacks:
                self._reconnect_callbacks.remove(callback)

        return remove

    async def request(
        self, subject: str, payload: bytes, *, timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send a request and return its first reply.

        Raises BrokerUnavailable when there is none in time, nobody listens, or the connection is lost (whether the
        request arrived is then unknown), and BrokerRefused when the user has no right to send it.
        """
        async with self._expecting(subject) as (inbox, replies):
            await self.publish(subject, payload, reply=inbox, headers=headers)
            return (await replies.take(timeout_s))[0]

    async def ask(
        self, subject: str, payload: bytes, *, timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send a request that may be carried out more than once, and return its first reply.

        While nobody listens it is sent again, until ``timeout_s`` or NOBODY_S_MAX is over: a broker that reads its
        configuration again, as it does for each new tenant, has no listeners for some milliseconds. Raises what
        ``request`` raises.
        """
        end, patient_until = _now() + timeout_s, _patient_until(timeout_s)
        while True:
            try:
                return await self.request(subject, payload, timeout_s=end - _now(), headers=headers)
            except NobodyListens:
                if not await self._may_listen_now(patient_until):
                    raise

    async def ask_many(self, subject: str, payload: bytes, *, timeout_s: float) -> AsyncGenerator[Reply, None]:
        """Send a request as ``ask`` does, and yield its replies until the caller stops; each may take ``timeout_s``.

        Raises what ``request`` raises.
        """
        patient_until = _patient_until(timeout_s)
        while not self._closing:
            async with self._expecting(subject) as (inbox, replies):
                await self.publish(subject, payload, reply=inbox)
                try:
                    while not self._closing:
                        for reply in await replies.take(timeout_s):
                            yield reply
                except NobodyListens:
                    if not await self._may_listen_now(patient_until):
                        raise

    async def _may_listen_now(self, patient_until: float) -> bool:
        """Wait before a request is sent again; False when it is too late for that."""
        if _now() + NOBODY_PAUSE_S >= patient_until:
            return False
        await self.pause(NOBODY_PAUSE_S)
        return True

    def _expecting(self, subject: str) -> "_Expecting":
        self._request_number += 1
        return _Expecting(self._waiting, self._replies_prefix, str(self._request_number), subject)

    async def publish(
        self, subject: str, payload: bytes, *, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """Hand a message over for writing; nothing says that it arrived.

        Raises BrokerUnavailable while the connection is lost or too much waits for the socket, and BrokerRefused
        for a message above the broker's limit or a malformed subject.
        """
        if not self.connected:
            raise BrokerUnavailable(f'the connection to "{self._login.url}" is lost', hint=_HINT)
        size = len(payload) + (header_block_size(headers) if headers else 0)
        if size > self._client.max_payload:
            message = f'a message of {size} bytes for "{subject}" is above the broker\'s {self._client.max_payload}'
            raise BrokerRefused(message, hint="raise max_payload in the broker's settings")
        if self.unsent_bytes > OUTBOUND_BYTES_MAX:
            raise BrokerUnavailable(f'the broker at "{self._login.url}" takes no more data', hint=_HINT)
        try:
            await self._client.publish(subject, payload, reply, dict(headers) if headers else None)
        except (errors.BadSubjectError, errors.BadHeaderError) as error:
            raise BrokerRefused(f'"{subject}" or one of its headers is malformed', hint="this is a defect") from error
        except (errors.Error, OSError) as error:
            raise BrokerUnavailable(f'"{subject}" cannot be sent: {error}', hint=_HINT) from error

    async def subscribe(
        self,
        subject: str,
        handler: Callable[[Message], Awaitable[None]],
        *,
        queue: str = "",
        pending_max: int = PENDING_MESSAGES_MAX,
    ) -> Subscription:
        """Call ``handler`` for each message, one after the other, also after reconnects.

        At most ``pending_max`` messages wait for it; more are dropped, counted and logged. What the handler raises
        is logged and does not end the subscription.
        """

        async def deliver(message: Msg) -> None:
            """Hand over in our own type."""
            await handler(Message(message.subject, message.reply, message.data, message.headers or {}))

        try:
            return await start_subscription(self._client, subject, deliver, queue=queue, pending_max=pending_max)
        except errors.Error as error:
            raise BrokerUnavailable(f'"{subject}" cannot be subscribed to: {error}', hint=_HINT) from error

    async def subscribe_deliveries(
        self, subject: str, deliver: Deliver, handler: Callable[[Message], Awaitable[None]]
    ) -> Subscription:
        """Call ``deliver`` at once for each message a consumer sends to ``subject``, ``handler`` for statuses.

        Nothing waits in between, so nothing is dropped; the caller bounds what it asks for. ``deliver`` must be quick
        and must not raise.
        """
        self._client.tap(subject, deliver)
        return await self.subscribe(subject, handler)

    def forget_deliveries(self, subject: str) -> None:
        """End what ``subscribe_deliveries`` began, before unsubscribing."""
        self._client.untap(subject)

    async def flush(self, *, timeout_s: float = 5.0) -> None:
        """Return when the broker has read everything handed over before. Raises BrokerUnavailable."""
        try:
            # The library's ping overtakes what its writer still holds back, a subscription for instance. The writer
            # has run before the first answer is here, so everything lies before the second ping.
            async with asyncio.timeout(timeout_s):
                await self._client.flush()
                await self._client.flush()
        except (TimeoutError, errors.Error, OSError) as error:
            raise BrokerUnavailable(f'the broker at "{self._login.url}" does not answer', hint=_HINT) from error

    async def wait_connected(self, timeout_s: float) -> bool:
        """Return as soon as the connection stands, or after ``timeout_s``; whether it stands."""
        end = asyncio.get_running_loop().time() + timeout_s
        while not self.connected and not self._closing:
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                break
            await self.pause(left)
        return self.connected

    async def pause(self, seconds: float) -> None:
        """Let time pass: ``seconds``, or less when the connection is lost, restored or closed."""
        self._state_changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._state_changed.wait()

    async def close(self) -> None:
        """Close within about CLOSE_TIMEOUT_S; waiting requests fail. Safe to call again."""
        if self._closing:
            return
        self._closing = True
        self._fail_waiting(BrokerUnavailable("the connection was closed"))
        self._set_ready(False)
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._client.close()
        except (TimeoutError, errors.Error, OSError):
            self._client.drop_socket()

    def _lost(self) -> None:
        if self._ready:
            _log.warning("broker-connection-lost", url=self._login.url, user=self._login.user)
        self._set_ready(False)
        self._fail_waiting(BrokerUnavailable(f'the connection to "{self._login.url}" was lost', hint=_HINT))

    async def _on_reconnected(self) -> None:
        if self._closing:
            return
        self.generation += 1
        self._set_ready(True)
        _log.info("broker-reconnected", url=self._login.url, user=self._login.user, generation=self.generation)
        for callback in tuple(self._reconnect_callbacks):
            callback()

    def _set_ready(self, ready: bool) -> None:
        self._ready = ready
        self._state_changed.set()

    def _fail_waiting(self, error: BrokerUnavailable) -> None:
        for replies in self._waiting.values():
            replies.fail(error)

    async def _on_reply(self, message: Msg) -> None:
        replies = self._waiting.get(message.subject[len(self._replies_prefix) :])
        if replies is None:
            return
        headers = message.headers or {}
        if headers.get(STATUS) == STATUS_NO_RESPONDERS and not message.data:
            replies.fail(NobodyListens(f'nobody answers on "{replies.subject}"', hint=_HINT))
        else:
            replies.put(Reply(message.data, headers))

    async def _on_error(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if isinstance(error, errors.SlowConsumerError):
            self.slow_consumer_count += 1
            _log.warning("broker-messages-dropped", subject=error.subject, count=self.slow_consumer_count)
        elif "permissions violation" in text:
            self.permission_error_count += 1
            _log.error("broker-permission-denied", user=self._login.user, text=text)
            self._deny(text)
        else:
            self.error_count += 1
            self._last_error = text
            if "authorization violation" in text.lower() and not self._refusal.done() and not self._ready:
                self._refusal.set_result(text)
            _log.debug("broker-client-error", kind=type(error).__name__, text=text)

    def _deny(self, text: str) -> None:
        """Fail the requests a permission error speaks of; the library hands its text over in lower case."""
        for replies in self._waiting.values():
            if f'publish to "{replies.subject.lower()}"' in text:
                message = f'user "{self._login.user}" has no right to publish on "{replies.subject}"'
                hint = "each runner has its own broker user with the rights of its kind; check the login"
                replies.fail(BrokerRefused(message, hint=hint))


class _Expecting:
    """Keeps a request's replies registered while a block runs; gives the reply subject and the replies."""

    __slots__ = ("_replies", "_reply_subject", "_token", "_waiting")

    def __init__(self, waiting: dict[str, _Replies], prefix: str, token: str, subject: str) -> None:
        self._waiting = waiting
        self._token = token
        self._reply_subject = prefix + token
        self._replies = _Replies(subject)

    async def __aenter__(self) -> tuple[str, _Replies]:
        self._waiting[self._token] = self._replies
        return self._reply_subject, self._replies

    async def __aexit__(self, *_: object) -> None:
        del self._waiting[self._token]


def _now() -> float:
    return asyncio.get_running_loop().time()


def _patient_until(timeout_s: float) -> float:
    return _now() + min(timeout_s, NOBODY_S_MAX)
