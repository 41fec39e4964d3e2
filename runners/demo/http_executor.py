"""A small HTTP executor on the loopback interface, for the demo and for tests.

It accepts every fire, counts the ones it has seen before by ``Idempotency-Key``, and remembers when
each arrived. Paths choose its behaviour: ``/fail/503`` answers that status, ``/slow?ms=250`` answers
late, ``/later?ms=250`` accepts at once and reports its success late, anything else answers at once.
"""

import asyncio
from collections import OrderedDict, deque
from typing import NamedTuple

from aiohttp import ClientError, ClientSession, ClientTimeout, web

from fireledger.domain.instants import Instant

from ..attempt_tokens import REPORT_TO_HEADER, TOKEN_HEADER
from ..clock import realtime
from ..json_edge import Json, dumps
from ..lifecycle import Backoff, pause
from ..logs import get_log

KEYS_REMEMBERED_MAX = 10_000
"""Keys remembered for counting duplicates; the least recently seen is forgotten first."""
ARRIVALS_MAX = 200_000
"""Arrivals remembered: 200 triggers a second for more than a quarter of an hour."""
SLOW_MS_MAX = 600_000
"""Longest answer a caller can ask for."""
BODY_BYTES_MAX = 1024 * 1024
STOP_S_MAX = 0.5
"""How long a stop waits for calls under way."""
REPORTS_MAX = 1_000
"""Reports under way; what would be reported later beyond that is answered as too much."""
REPORT_TIMEOUT_S = 15.0
REPORT_RETRY_FIRST_S = 0.1
REPORT_RETRY_MAX_S = 2.0
"""A report is sent again until it is answered, after waits that double from the first to the last of these."""
REPORTED_COST = 1
_log = get_log("demo-http")


class Arrival(NamedTuple):
    """One request: its idempotency key, the raw wall clock at arrival, its ``ce-time`` and its path."""

    key: str
    arrived_at: Instant
    ce_time: str
    path: str


class HttpExecutor:
    """The server. ``start`` and ``stop`` may each be called again without harm."""

    def __init__(self, *, port: int = 0, arrivals_max: int = ARRIVALS_MAX) -> None:
        self.arrivals: deque[Arrival] = deque(maxlen=arrivals_max)
        self.requests_count = 0
        self.duplicates_count = 0
        self._port = port
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._stopping = asyncio.Event()
        self._server: web.AppRunner | None = None
        self._reports: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Return the base address without a trailing slash, such as ``http://127.0.0.1:8080``; valid once started."""
        assert self._server is not None, "the executor has not been started"
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Listen on 127.0.0.1, on a free port unless one was given. Raises OSError when it is taken."""
        if self._server is not None:
            return
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        application.router.add_post("/fail/{status:[2-5][0-9][0-9]}", self._fail)
        application.router.add_post("/slow", self._slow)
        application.router.add_post("/later", self._later)
        application.router.add_post("/{path:.*}", self._ok)
        server = web.AppRunner(application, access_log=None, shutdown_timeout=STOP_S_MAX)
        await server.setup()
        self._stopping.clear()
        try:
            await web.TCPSite(server, "127.0.0.1", self._port).start()
        except OSError:
            await server.cleanup()
            raise
        self._server = server
        self._port = int(server.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening and end slow answers. The arrivals stay."""
        self._stopping.set()
        server, self._server = self._server, None
        for reporting in self._reports:
            reporting.cancel()
        if server is not None:
            await server.cleanup()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set."""
        await self.start()
        try:
            await stop.wait()
        finally:
            await self.stop()

    async def _ok(self, request: web.Request) -> web.Response:
        await self._note(request)
        return _answer(200)

    async def _fail(self, request: web.Request) -> web.Response:
        await self._note(request)
        return _answer(int(request.match_info["status"]))

    async def _slow(self, request: web.Request) -> web.Response:
        await self._note(request)
        wait_s = _wait_s(request)
        if wait_s is None:
            return _answer(400)
        await pause(wait_s, self._stopping)
        return _answer(200)

    async def _later(self, request: web.Request) -> web.Response:
        await self._note(request)
        wait_s, where = _wait_s(request), request.headers.get(REPORT_TO_HEADER, "")
        if wait_s is None or not where:
            return _answer(400)
        if len(self._reports) >= REPORTS_MAX:
            return _answer(503)
        attempt = request.headers.get("fireledger-attempt", "")
        report: dict[str, Json] = {
            "key": request.headers.get("Idempotency-Key", ""),
            "attempt": int(attempt[:9]) if attempt.isascii() and attempt.isdecimal() else 1,
            "token": request.headers.get(TOKEN_HEADER, ""),
            "outcome": "succeeded",
            "cost": REPORTED_COST,
        }
        reporting = asyncio.create_task(self._report(where, dumps(report), wait_s))
        self._reports.add(reporting)
        reporting.add_done_callback(self._reports.discard)
        return _answer(202)

    async def _report(self, where: str, report: bytes, wait_s: float) -> None:
        """Report after a while, again until it is answered with anything but "not now"."""
        backoff, status = Backoff(REPORT_RETRY_FIRST_S, REPORT_RETRY_MAX_S), 0
        async with ClientSession(timeout=ClientTimeout(total=REPORT_TIMEOUT_S)) as session:
            while not status and not await pause(wait_s, self._stopping):
                wait_s = backoff.next_s()
                try:
                    async with session.post(where, data=report) as response:
                        status = 0 if response.status == 503 else response.status
                except (ClientError, TimeoutError, OSError) as error:
                    _log.info("report-not-taken", kind=type(error).__name__)
        if status not in (0, 200):
            _log.warning("report-refused", status=status)

    async def _note(self, request: web.Request) -> None:
        arrived_at = realtime()
        key = request.headers.get("Idempotency-Key", "")
        self.arrivals.append(Arrival(key, arrived_at, request.headers.get("ce-time", ""), request.path))
        self.requests_count += 1
        if key:
            self.duplicates_count += key in self._seen
            self._seen[key] = None
            self._seen.move_to_end(key)
            if len(self._seen) > KEYS_REMEMBERED_MAX:
                self._seen.popitem(last=False)
        await request.read()


def _wait_s(request: web.Request) -> float | None:
    """The seconds that ``ms`` of the query asks for; None when it is no number in bounds."""
    text = request.query.get("ms", "1000")
    if not (text.isascii() and text.isdecimal() and int(text[:9]) <= SLOW_MS_MAX):
        return None
    return int(text) / 1_000


def _answer(status: int) -> web.Response:
    body = dumps({"ok": 200 <= status < 300})
    return web.Response(body=body, status=status, content_type="application/json")
