"""The HTTP side of the outcome endpoint: ``POST /v1/outcomes`` on the loopback interface."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from ..lifecycle import pause
from ..logs import get_log
from ..outcome_address import HOST, PATH, outcome_url
from .outcome_requests import REPORT_BYTES_MAX

BODY_WITHIN_S = 5.0
"""How long a report may take to arrive."""
KEEPALIVE_S = 15.0
"""How long an idle connection is kept."""
LISTEN_RETRY_S = 1.0
"""Before a port that was taken is tried again."""
STOP_S_MAX = 0.3
"""How long a stop waits for reports under way."""

Take = Callable[[bytes], Awaitable[tuple[int, bytes]]]
"""Takes a report's body; status and body of the answer."""
_log = get_log("outcomes")
_QUIET = logging.getLogger("outcomes-by-http")
"""For the library, whose complaints about a malformed request quote it: heard by nobody."""
_QUIET.disabled = True


class OutcomeServer:
    """Listens for reports."""

    def __init__(self, take: Take, *, too_large: bytes, port: int) -> None:
        """``too_large`` is the answer to a body above REPORT_BYTES_MAX; port 0 is a free one."""
        self.port = port
        """The port it listens on; 0 before it does if it may choose."""
        self._take = take
        self._too_large = too_large
        self._runner: web.AppRunner | None = None

    async def start(self) -> bool:
        """Listen; False when the port is taken."""
        application = web.Application(client_max_size=REPORT_BYTES_MAX)
        application.router.add_post(PATH, self._post)
        runner = web.AppRunner(
            application, access_log=None, logger=_QUIET, shutdown_timeout=STOP_S_MAX, keepalive_timeout=KEEPALIVE_S
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, self.port).start()
        except OSError as error:
            _log.error("outcome-port-taken", port=self.port, reason=error.strerror)
            await runner.cleanup()
            return False
        self._runner = runner
        self.port = int(runner.addresses[0][1])
        _log.info("outcomes-by-http", url=outcome_url(self.port))
        return True

    async def keep_trying(self) -> None:
        """Try to listen until it works."""
        while not await self.start():
            await pause(LISTEN_RETRY_S, asyncio.Event())

    async def stop(self) -> None:
        """Stop listening. Safe to call again."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _post(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(BODY_WITHIN_S):
                body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _response(413, self._too_large)
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        return _response(*await self._take(body))


def _response(status: int, body: bytes) -> web.Response:
    headers = {"Retry-After": "1"} if status == 503 else None
    return web.Response(status=status, body=body, headers=headers, content_type="application/json")
