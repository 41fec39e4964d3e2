"""The client library's connection, changed where it would keep, hide or give up what we must know about.

Written against nats-py 2.16; the integration tests of the ledger hold these changes in place.
"""

import asyncio
from collections.abc import Callable

from nats import errors
from nats.aio.client import Client, Srv

_DELIVERED = b"$JS.ACK."

Deliver = Callable[[str, str, bytes], None]
"""Takes a delivered message: its subject, its reply subject (which tells its position) and its body."""


class UnbufferedClient(Client):
    """A client that forgets unsent bytes when its connection is lost, and never gives up.

    - The library drops nothing of its outbound list on a disconnect: a publish handed over just before would be
      written after the reconnect, perhaps much later. Here list and socket are dropped at once.
    - It leaves the socket of each failed attempt to reconnect open. Here it is dropped before the next.
    - It closes itself for good on protocol errors of the broker. Here it reconnects.
    - It takes each message through a queue, a task and a header parser. Messages of a consumer, which need none of
      it and come by the ten thousand, may be taken straight from the socket.
    """

    def __init__(self, on_lost: Callable[[], None]) -> None:
        """Call ``on_lost`` each time a connection is lost, before the first attempt to reconnect."""
        super().__init__()
        self._on_lost = on_lost
        self._taps: dict[str, Deliver] = {}

    def tap(self, subject: str, deliver: Deliver) -> None:
        """Hand messages that a consumer delivers to the subscription on ``subject`` to ``deliver``, as they come."""
        self._taps[subject] = deliver

    def untap(self, subject: str) -> None:
        """End what ``tap`` began."""
        self._taps.pop(subject, None)

    def drop_socket(self) -> None:
        """Forget unsent bytes, the socket's own buffer included."""
        self._pending = []
        self._pending_data_size = 0
        for name in ("_io_writer", "_bare_io_writer"):
            writer = getattr(self._transport, name, None)
            if isinstance(writer, asyncio.StreamWriter):
                writer.transport.abort()

    async def _attempt_reconnect(self) -> None:
        self.drop_socket()
        self._on_lost()
        await super()._attempt_reconnect()

    async def _connect_to_server(self, s: Srv) -> None:
        # A broker that takes connections and stays silent would collect one more at each attempt.
        self.drop_socket()
        await super()._connect_to_server(s)

    async def _process_err(self, err_msg: str) -> None:
        if "permissions violation" in err_msg.lower():
            await super()._process_err(err_msg)
        else:
            error = errors.Error(f"nats: {err_msg}")
            await self._error_cb(error)
            await self._process_op_err(error)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        subscription = self._subs.get(sid) if reply.startswith(_DELIVERED) else None
        deliver = None if subscription is None else self._taps.get(subscription.subject)
        if deliver is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            deliver(subject.decode(), reply.decode(), data)
