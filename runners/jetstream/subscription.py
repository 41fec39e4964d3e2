"""A subscription on a connection: messages one after the other, a bounded number of them waiting."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from nats import errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as LibrarySubscription

PENDING_MESSAGES_MAX = 65_536
"""Messages that may wait for one subscription's handler."""
PENDING_BYTES_MAX = 256 * 1024 * 1024
"""Bytes that may wait for one subscription's handler: above what a reader asks for at once."""


@dataclass(frozen=True, slots=True)
class Message:
    """A received message; ``reply`` is empty when nobody waits for an answer."""

    subject: str
    reply: str
    payload: bytes
    headers: Mapping[str, str]


class Subscription:
    """A running subscription."""

    def __init__(self, subscription: LibrarySubscription) -> None:
        """Wrap the library's subscription."""
        self._subscription = subscription

    @property
    def pending_count(self) -> int:
        """Messages received that wait for the handler."""
        return self._subscription.pending_msgs

    async def unsubscribe(self) -> None:
        """End it; what waits is forgotten. Safe to call again and while the connection is lost."""
        with suppress(errors.Error):
            await self._subscription.unsubscribe()


class Subscribing(Protocol):
    """The part of the library's client that subscribes, with the types it leaves open."""

    async def subscribe(
        self,
        subject: str,
        queue: str = "",
        cb: Callable[[Msg], Awaitable[None]] | None = None,
        *,
        pending_msgs_limit: int = PENDING_MESSAGES_MAX,
        pending_bytes_limit: int = PENDING_BYTES_MAX,
    ) -> LibrarySubscription:
        """Subscribe."""
        ...


async def start_subscription(
    client: Subscribing,
    subject: str,
    deliver: Callable[[Msg], Awaitable[None]],
    *,
    queue: str = "",
    pending_max: int = PENDING_MESSAGES_MAX,
) -> Subscription:
    """Subscribe, within this package. Raises the library's errors."""
    return Subscription(
        await client.subscribe(
            subject, queue, deliver, pending_msgs_limit=pending_max, pending_bytes_limit=PENDING_BYTES_MAX
        )
    )
