"""The HTTP side of the outcome endpoint, without anything behind it."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from fireledger.runners.control import outcome_server as module
from fireledger.runners.control.outcome_requests import REPORT_BYTES_MAX
from fireledger.runners.control.outcome_server import OutcomeServer
from fireledger.runners.outcome_address import outcome_url
from tests.waiting import until

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def _serving(taken: list[bytes], *, status: int = 200, port: int = 0) -> AsyncGenerator[OutcomeServer]:
    async def take(body: bytes) -> tuple[int, bytes]:
        taken.append(body)
        return status, b"{}"

    server = OutcomeServer(take, too_large=b'"too large"', port=port)
    assert await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def _raw(port: int, request: bytes) -> bytes:
    """What a request of one's own making is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.readline(), 5)
    finally:
        writer.close()


async def test_it_listens_on_the_loopback_interface_and_takes_posts_at_one_path() -> None:
    """Other methods and paths are told so, and reach nobody."""
    taken: list[bytes] = []
    async with _serving(taken) as server, aiohttp.ClientSession() as session:
        url = outcome_url(server.port)
        assert url == f"http://127.0.0.1:{server.port}/v1/outcomes"
        async with session.post(url, data=b"report") as response:
            assert (response.status, response.content_type) == (200, "application/json")
        async with session.get(url) as response:
            assert response.status == 405
        async with session.post(url + "/more", data=b"x") as response:
            assert response.status == 404
    assert taken == [b"report"]


async def test_not_now_says_when_to_come_again() -> None:
    """503 carries a Retry-After."""
    async with (
        _serving([], status=503) as server,
        aiohttp.ClientSession() as session,
        session.post(outcome_url(server.port), data=b"report") as response,
    ):
        assert (response.status, response.headers["Retry-After"]) == (503, "1")


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_is_bounded_however_it_comes(chunked: bool) -> None:
    """At the bound it is taken; one byte more, announced or not, is refused and reaches nobody."""
    taken: list[bytes] = []
    async with _serving(taken) as server, aiohttp.ClientSession() as session:
        for size, status in ((REPORT_BYTES_MAX, 200), (REPORT_BYTES_MAX + 1, 413)):
            async with session.post(outcome_url(server.port), data=b"x" * size, chunked=chunked or None) as response:
                assert response.status == status
    assert [len(body) for body in taken] == [REPORT_BYTES_MAX]


async def test_a_body_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is told, and nothing is taken."""
    monkeypatch.setattr(module, "BODY_WITHIN_S", 0.05)
    taken: list[bytes] = []
    request = b"POST /v1/outcomes HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"
    async with _serving(taken) as server:
        assert b" 408 " in await _raw(server.port, request)
    assert taken == []


@pytest.mark.parametrize("request_", [b"\x00\xff\r\n\r\n", b"POST /v1/outcomes HTTP/1.1\r\nbroken\r\n\r\n"])
async def test_what_is_not_http_is_told_so(request_: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """It is answered with 400, no log quotes it, and the server goes on."""
    taken: list[bytes] = []
    async with _serving(taken) as server, aiohttp.ClientSession() as session:
        assert b" 400 " in await _raw(server.port, request_)
        async with session.post(outcome_url(server.port), data=b"report") as response:
            assert response.status == 200
    assert caplog.records == []


async def test_a_port_that_is_taken_is_tried_until_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first try says so; once the other one has gone, it listens there."""
    monkeypatch.setattr(module, "LISTEN_RETRY_S", 0.01)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = int(other.getsockname()[1])

        async def take(_body: bytes) -> tuple[int, bytes]:
            return 200, b"{}"

        server = OutcomeServer(take, too_large=b"", port=port)
        assert not await server.start()
        trying = asyncio.ensure_future(server.keep_trying())
        done, _ = await asyncio.wait({trying}, timeout=0.1)
        assert not done
    await until(trying.done, timeout_s=5, what="it listens")
    assert server.port == port
    await server.stop()
    await server.stop()
