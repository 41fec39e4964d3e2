"""An HTTP executor for tests that remembers whole requests and answers as their path says."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import formatdate

from aiohttp import web

from fireledger.domain.instants import SECOND
from fireledger.runners.clock import realtime


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Recorder:
    """A started server: its address, what arrived, and the event that lets ``/wait`` answer."""

    url: str = ""
    requests: list[Request] = field(default_factory=list[Request])
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    peers: set[object] = field(default_factory=set[object])

    @property
    def connections_count(self) -> int:
        """How many connections the requests came over."""
        return len(self.peers)

    def at(self, path: str) -> list[Request]:
        """What arrived at a path."""
        return [request for request in self.requests if request.path == path]

    async def answer(self, request: web.Request) -> web.Response:
        """Answer as the path says."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        assert request.transport is not None
        self.peers.add(request.transport.get_extra_info("peername"))
        self.requests.append(Request(request.path, headers, await request.read()))
        match request.path.strip("/").split("/"):
            case ["status", code]:
                return web.json_response({"message": f"as\nasked {code}"}, status=int(code))
            case ["busy"]:
                return web.Response(status=429, headers={"Retry-After": "7"})
            case ["busy-until"]:
                date = formatdate(realtime() // SECOND + 30, usegmt=True)
                return web.Response(status=503, headers={"Retry-After": date})
            case ["elsewhere"]:
                return web.Response(status=302, headers={"Location": "/landed"})
            case ["cookie"]:
                return web.Response(headers={"Set-Cookie": "seen=1"})
            case ["large"]:
                return web.Response(body=b"{" + b" " * 1_000_000 + b'"message": "too far"}')
            case ["cost"]:
                return web.json_response({"message": "done", "cost": 12})
            case ["wait"]:
                await self.go_on.wait()
                return web.Response()
            case _:
                return web.Response()


@asynccontextmanager
async def recorder() -> AsyncGenerator[Recorder]:
    """A server on the loopback interface for a block."""
    recording = Recorder()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", recording.answer)
    server = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await server.setup()
    await web.TCPSite(server, "127.0.0.1", 0).start()
    recording.url = f"http://127.0.0.1:{server.addresses[0][1]}"
    try:
        yield recording
    finally:
        recording.go_on.set()
        await server.cleanup()
