"""A process's first connection to the broker, which may not be there yet."""

import asyncio

from .errors import BrokerUnavailable
from .jetstream.connection import BrokerConnection, Login
from .lifecycle import Backoff, pause, unless_stopped
from .logs import get_log

RETRY_FIRST_S = 0.1
RETRY_MAX_S = 2.0
"""Waits between attempts: doubling between these."""
CONNECT_TIMEOUT_S = 2.0
"""How long one attempt may take before the log says that the broker is not there."""

_log = get_log("runner")


async def join_broker(login: Login, name: str, stop: asyncio.Event) -> BrokerConnection | None:
    """Connect, however long the broker takes to come up; None once stopped. Raises BrokerRefused."""
    backoff = Backoff(RETRY_FIRST_S, RETRY_MAX_S)
    while not stop.is_set():
        try:
            return await unless_stopped(
                stop, BrokerConnection.open(login, name=name, connect_timeout_s=CONNECT_TIMEOUT_S)
            )
        except BrokerUnavailable as error:
            wait_s = backoff.next_s()
            _log.warning("broker-unavailable", reason=error.message, retry_in_s=wait_s)
            await pause(wait_s, stop)
    return None
