"""The HTTP target against a real server."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from fireledger.domain.identifiers import parse_fire_key
from fireledger.domain.instants import SECOND
from fireledger.runners.dispatcher.calls import Call, CallResult, Uncallable
from fireledger.runners.dispatcher.http_target import CheckedResolver, HttpTarget, RefusedAddress
from fireledger.runners.dispatcher.policy import TargetPolicy
from tests.integration.dispatcher.executors import Recorder
from tests.simulated_clock import SimulatedClock

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


@pytest_asyncio.fixture
async def target() -> AsyncIterator[HttpTarget]:
    """A target that may call this machine."""
    async with HttpTarget(TargetPolicy(allow_loopback=True), connections_max=8, clock=SimulatedClock()) as opened:
        yield opened


def _call(url: str) -> Call:
    return Call(
        key=parse_fire_key("acme/report/2026-11-30T09:00:00Z/0"),
        attempt=1,
        lane="on-time",
        target=url,
        content_type="text/plain",
        payload=b"x",
        timeout_s=5,
    )


@pytest.mark.parametrize(
    "path,kind,code",
    [("/ok", "succeeded", 200), ("/status/202", "accepted", 202), ("/status/404", "final", 404),
     ("/status/500", "retryable", 500), ("/status/503", "retryable", 503), ("/busy", "retryable", 429)],
)  # fmt: skip
async def test_answers_are_told_apart(target: HttpTarget, http: Recorder, path: str, kind: str, code: int) -> None:
    """A real answer's status becomes the result."""
    result = await target.call(_call(http.url + path))
    assert (result.kind, result.code) == (kind, code)


async def test_retry_after_message_and_cost_are_taken(target: HttpTarget, http: Recorder) -> None:
    """What an executor may say arrives, on one line."""
    assert (await target.call(_call(f"{http.url}/busy"))).retry_after == 7 * SECOND
    assert (await target.call(_call(f"{http.url}/status/400"))).message == "as asked 400"
    result = await target.call(_call(f"{http.url}/cost"))
    assert (result.message, result.cost) == ("done", 12)


async def test_a_redirect_is_not_followed(target: HttpTarget, http: Recorder) -> None:
    """It is a final answer; nothing arrives where it points."""
    result = await target.call(_call(f"{http.url}/elsewhere"))
    assert (result.kind, result.code, http.at("/landed")) == ("final", 302, [])


async def test_no_cookie_is_kept(target: HttpTarget, http: Recorder) -> None:
    """A second call carries nothing of the first one's answer."""
    await target.call(_call(f"{http.url}/cookie"))
    await target.call(_call(f"{http.url}/cookie"))
    assert ["cookie" in request.headers for request in http.requests] == [False, False]


async def test_a_long_answer_is_cut_off(target: HttpTarget, http: Recorder) -> None:
    """Its status counts, its text does not."""
    assert await target.call(_call(f"{http.url}/large")) == CallResult(kind="succeeded", code=200)


async def test_nobody_listening_is_retryable(target: HttpTarget) -> None:
    """A refused connection is an answer that may change."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        result = await target.call(_call(f"http://127.0.0.1:{taken.getsockname()[1]}/x"))
    assert result.kind == "retryable"
    assert "cannot be reached" in result.message


@pytest.mark.parametrize(
    "answer,message",
    [
        (b"\x00\xff\xfe\r\n\r\n", "the target's answer is not valid HTTP, or broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", "the target's answer is not valid HTTP, or broke off"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
            "the target's answer is not valid HTTP, or broke off",
        ),
        (b"", "the target closed the connection without an answer"),
    ],
)
async def test_an_answer_that_is_none_is_retryable_and_told_as_what_it_is(
    target: HttpTarget, answer: bytes, message: str
) -> None:
    """The target was reached; its administrator is not sent to look for a network fault."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        result = await target.call(_call(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"))
    assert (result.kind, result.code, result.message) == ("retryable", 0, message)


async def test_a_date_to_come_back_at_counts_from_the_clock_given(target: HttpTarget, http: Recorder) -> None:
    """A Retry-After half a minute ahead is that far off; with a clock ten seconds ahead, ten seconds less."""
    result = await target.call(_call(f"{http.url}/busy-until"))
    assert result.retry_after is not None
    assert 28 * SECOND <= result.retry_after <= 31 * SECOND
    ahead = SimulatedClock(offset=10 * SECOND)
    async with HttpTarget(TargetPolicy(allow_loopback=True), connections_max=8, clock=ahead) as other:
        result = await other.call(_call(f"{http.url}/busy-until"))
        assert result.retry_after is not None
        assert 18 * SECOND <= result.retry_after <= 21 * SECOND
        ahead.held = True
        assert (await other.call(_call(f"{http.url}/busy-until"))).retry_after is None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"])
async def test_loopback_is_refused_unless_allowed(http: Recorder, host: str) -> None:
    """By number, by name and in disguise: final, with the reason, and nothing arrives."""
    async with HttpTarget(TargetPolicy(allow_loopback=False), connections_max=8, clock=SimulatedClock()) as closed:
        result = await closed.call(_call(http.url.replace("127.0.0.1", host) + "/ok"))
    assert (result.kind, http.requests) == ("final", [])
    assert "loopback" in result.message


@pytest.mark.parametrize(
    "url", ["http://10.1.2.3/", "http://169.254.169.254/latest", "http://[fd00::1]/", "http://0.0.0.0/"]
)
async def test_private_addresses_are_refused_always(target: HttpTarget, url: str) -> None:
    """Also where loopback is allowed."""
    result = await target.call(_call(url))
    assert result.kind == "final"
    assert "is refused" in result.message


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0x7f000001", "0177.0.0.1"])
async def test_other_spellings_of_a_number_reach_nothing(http: Recorder, host: str) -> None:
    """An address written as no address should be is not called."""
    async with HttpTarget(TargetPolicy(allow_loopback=False), connections_max=8, clock=SimulatedClock()) as closed:
        try:
            result = await closed.call(_call(http.url.replace("127.0.0.1", host) + "/ok"))
        except Uncallable:
            pass
        else:
            assert result.kind != "succeeded"
    assert http.requests == []


async def test_one_refused_address_refuses_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with a public and a private address is refused whole, so that none can be picked."""

    def look_up(*_: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        return [(socket.AF_INET, 1, 6, "", (address, 80)) for address in ("1.1.1.1", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    resolver = CheckedResolver(TargetPolicy(allow_loopback=True))
    with pytest.raises(RefusedAddress, match=r"10\.0\.0\.1"):
        await resolver.resolve("two.example", 80)
    await resolver.close()


async def test_connections_are_kept_and_reused(target: HttpTarget, http: Recorder) -> None:
    """Twenty calls one after the other need one connection; the pool holds it."""
    for _ in range(20):
        await target.call(_call(f"{http.url}/ok"))
    assert len(http.requests) == 20
    assert http.connections_count == 1


async def test_a_cancelled_call_lets_go(target: HttpTarget, http: Recorder) -> None:
    """Abandoning a call ends it at once and leaves the target usable."""
    calling = asyncio.ensure_future(target.call(_call(f"{http.url}/wait")))
    await asyncio.wait({calling}, timeout=0.1)
    calling.cancel()
    await asyncio.wait({calling}, timeout=1)
    assert calling.cancelled()
    assert (await target.call(_call(f"{http.url}/ok"))).kind == "succeeded"
