"""The HTTP executor answers as its paths say, counts duplicates and remembers arrivals, on a real socket."""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from fireledger.runners.clock import realtime
from fireledger.runners.demo import http_executor
from fireledger.runners.demo.http_executor import HttpExecutor
from fireledger.runners.json_edge import Json, loads

KEY = "acme/a/2026-11-30T09:00:00Z/0"
Scenario = Callable[[HttpExecutor, aiohttp.ClientSession], Awaitable[None]]


def play(scenario: Scenario, **options: int) -> HttpExecutor:
    """Run a scenario against a started executor."""

    async def run() -> HttpExecutor:
        executor = HttpExecutor(**options)
        await executor.start()
        try:
            async with aiohttp.ClientSession() as session:
                await scenario(executor, session)
        finally:
            await executor.stop()
        return executor

    return asyncio.run(run())


async def post(session: aiohttp.ClientSession, url: str, key: str = KEY) -> tuple[int, Json]:
    """Fire once at a path."""
    headers = {"Idempotency-Key": key, "ce-time": "2026-11-30T09:00:00Z"}
    async with session.post(url, headers=headers, data=b"payload") as answer:
        return answer.status, loads(await answer.read())


def test_a_fire_is_accepted_and_remembered() -> None:
    """A POST gets 200 and is remembered with key, arrival instant, ce-time and path."""
    before = realtime()

    async def scenario(executor: HttpExecutor, session: aiohttp.ClientSession) -> None:
        assert executor.url.startswith("http://127.0.0.1:")
        assert await post(session, f"{executor.url}/ok") == (200, {"ok": True})

    (arrival,) = play(scenario).arrivals
    assert (arrival.key, arrival.ce_time, arrival.path) == (KEY, "2026-11-30T09:00:00Z", "/ok")
    assert before <= arrival.arrived_at <= realtime()


def test_repeated_keys_are_counted() -> None:
    """The second fire under one key is a duplicate; another key and no key are not."""

    async def scenario(executor: HttpExecutor, session: aiohttp.ClientSession) -> None:
        for key in (KEY, KEY, "other", "", ""):
            await post(session, f"{executor.url}/ok", key)

    executor = play(scenario)
    assert (executor.requests_count, executor.duplicates_count) == (5, 1)


@pytest.mark.parametrize("status", [204, 404, 429, 503])
def test_a_path_can_choose_the_status(status: int) -> None:
    """/fail/STATUS answers that status."""

    async def scenario(executor: HttpExecutor, session: aiohttp.ClientSession) -> None:
        async with session.post(f"{executor.url}/fail/{status}") as answer:
            assert answer.status == status

    assert play(scenario).requests_count == 1


def test_a_slow_answer_is_late_and_ends_with_the_server() -> None:
    """/slow?ms= answers after its time; a stop ends the wait; a malformed time gets 400."""

    async def scenario(executor: HttpExecutor, session: aiohttp.ClientSession) -> None:
        before = realtime()
        assert await post(session, f"{executor.url}/slow?ms=20") == (200, {"ok": True})
        assert realtime() - before >= 20_000
        assert (await post(session, f"{executor.url}/slow?ms=x"))[0] == 400
        arrived = executor.requests_count
        waiting = asyncio.ensure_future(post(session, f"{executor.url}/slow?ms=60000"))
        async with asyncio.timeout(5):
            while executor.requests_count == arrived:
                await post(session, f"{executor.url}/ok")
                arrived += 1
            await executor.stop()
            assert (await waiting)[0] == 200

    play(scenario)


def test_other_methods_are_refused() -> None:
    """Only POST is a fire."""

    async def scenario(executor: HttpExecutor, session: aiohttp.ClientSession) -> None:
        async with session.get(f"{executor.url}/ok") as answer:
            assert answer.status == 405

    assert play(scenario).requests_count == 0


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and arrivals beyond their bounds push out the oldest."""
    monkeypatch.setattr(http_executor, "KEYS_REMEMBERED_MAX", 2)

    async def scenario(executor: HttpExecutor, session: aiohttp.ClientSession) -> None:
        for key in ("a", "b", "c", "a"):
            await post(session, f"{executor.url}/ok", key)

    executor = play(scenario, arrivals_max=3)
    assert [arrival.key for arrival in executor.arrivals] == ["b", "c", "a"]
    assert executor.duplicates_count == 0


def test_it_is_a_runner_that_can_start_and_stop_again() -> None:
    """It serves until told to stop, starts and stops twice without harm, and refuses a taken port."""

    async def scenario() -> None:
        executor, stop = HttpExecutor(), asyncio.Event()
        await executor.start()
        await executor.start()
        port = int(executor.url.rsplit(":", 1)[1])
        with pytest.raises(OSError, match="in use"):
            await HttpExecutor(port=port).start()
        running = asyncio.ensure_future(executor.run(stop))
        async with aiohttp.ClientSession() as session:
            assert (await post(session, f"{executor.url}/ok"))[0] == 200
        stop.set()
        await running
        await executor.stop()
        await executor.start()
        assert executor.url.endswith(f":{port}")
        await executor.stop()

    asyncio.run(scenario())
