"""Reads: fires, books, previews, lists in pages, following, and the status."""

import asyncio

import msgspec
import pytest

from fireledger.domain.entries import AttemptResult, AttemptStarted, FireReleased
from fireledger.domain.instants import SECOND, format_instant
from fireledger.runners.control import read_handlers
from fireledger.runners.errors import ExitStatus
from fireledger.runners.jetstream.buckets import Bucket
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.json_edge import Json
from fireledger.runners.lease_plan import Heartbeat, LeaseKind
from tests.integration.brokers import RunningBroker
from tests.integration.control.running import Service, running_service

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


def rows_of(answer: dict[str, Json]) -> list[dict[str, Json]]:
    """An answer's rows."""
    rows = answer["rows"]
    assert isinstance(rows, list)
    return [row for row in rows if isinstance(row, dict)]


def released_in(entries: tuple[object, ...]) -> FireReleased:
    """The page's first released fire."""
    return next(entry for entry in entries if isinstance(entry, FireReleased))


async def test_a_fire_is_listed_shown_and_followed(service: Service) -> None:
    """From the page that decides it to its result, each read tells the same, and a follower hears of each change."""
    await service.create("fires", "second", cron="* * * * * *")
    start = await service.ask("fires.follow", tenant="fires")
    waiting = asyncio.create_task(
        service.ask("fires.follow", tenant="fires", after=start["position"], wait_s=5.0), name="follower"
    )
    folded = await service.tick("fires")
    heard = await waiting
    assert [row["state"] for row in rows_of(heard)][:1] == ["fired"]
    fire = released_in(folded.page.entries)
    at = fire.scheduled
    await service.attempt(
        "fires",
        AttemptStarted(tenant="fires", trigger="second", scheduled=at, attempt=1, definition_page=2, timeout=1),
        AttemptResult(tenant="fires", trigger="second", scheduled=at, attempt=1, result="succeeded"),
    )
    shown = await service.ask("fires.show", key=str(fire.key("fires")))
    assert (shown["state"], shown["lane"], shown["attempts"], shown["result"]) == ("fired", "on-time", 1, "succeeded")
    assert isinstance(shown["lateness_ms"], float)
    assert shown["version"] == 2
    changed = await service.ask("fires.follow", tenant="fires", trigger="second", after=heard["position"], wait_s=5.0)
    assert [row["key"] for row in rows_of(changed)] == [shown["key"]]
    listed = await service.ask("fires.list", tenant="fires", until=shown["scheduled"])
    assert rows_of(listed) == []
    listed = await service.ask("fires.list", tenant="fires", since=shown["scheduled"], limit=50)
    assert shown in rows_of(listed)
    missing = await service.refusal("fires.show", key="fires/second/2020-01-01T00:00:00Z/0")
    assert (missing.code, missing.exit_status) == ("fire-missing", ExitStatus.NOT_FOUND)


async def test_a_follow_without_news_ends_at_its_time(service: Service) -> None:
    """A long poll comes back empty with the position to go on from."""
    await service.ask("tenant.create", tenant="quiet")
    start = await service.ask("fires.follow", tenant="quiet")
    answer = await service.ask("fires.follow", tenant="quiet", after=start["position"], wait_s=0.05)
    assert (rows_of(answer), answer["missed"]) == ([], False)
    assert answer["position"] == start["position"]


async def test_lists_come_in_pages_and_lose_nothing(service: Service) -> None:
    """Going on with an answer's next gives every trigger once, by name."""
    await service.ask("tenant.create", tenant="many")
    await asyncio.gather(*(service.create("many", f"t{n:02}", every="1h") for n in range(25)))
    found: list[Json] = []
    after: Json = ""
    while after is not None:
        answer = await service.ask("trigger.list", tenant="many", after=after, limit=10)
        found.extend(row["trigger"] for row in rows_of(answer))
        after = answer["next"]
    assert found == [f"t{n:02}" for n in range(25)]
    await service.ask("tenant.create", tenant="many-more")
    tenants = await service.ask("tenant.list", limit=1)
    assert (len(rows_of(tenants)), isinstance(tenants["next"], str)) == (1, True)


async def test_a_large_page_comes_in_pieces_that_fit_together(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a small bound on an answer the entries of one page arrive over several answers, each once."""
    await service.create("pieces", cron="* * * * * *", overlap="allow")
    await service.tick("pieces")
    whole = rows_of(await service.ask("book.show", tenant="pieces"))
    monkeypatch.setattr(read_handlers, "ANSWER_BYTES_MAX", 1_500)
    entries: dict[Json, list[Json]] = {}
    place: Json = {"page": 1, "entry": 0}
    while isinstance(place, dict):
        answer = await service.ask("book.show", tenant="pieces", **place)
        for row in rows_of(answer):
            assert isinstance(row["entries"], list)
            entries.setdefault(row["page"], []).extend(row["entries"])
        place = answer["next"]
    assert entries == {row["page"]: row["entries"] for row in whole}


async def test_a_book_shows_no_payload(service: Service) -> None:
    """Of a payload only its size is told."""
    await service.create("secret", payload="the password is swordfish")
    answer = await service.ask("book.show", tenant="secret", page=2)
    assert "swordfish" not in str(answer)
    assert "25 bytes" in str(answer)


async def test_reads_need_no_certain_clock(service: Service) -> None:
    """With an uncertain or a held clock triggers are still shown, listed and previewed."""
    await service.create("clockless")
    named: dict[str, Json] = {"tenant": "clockless", "trigger": "nightly"}
    service.clock.epsilon = 150_000
    assert (await service.ask("trigger.show", **named))["state"] == "active"
    service.clock.held = True
    assert len(rows_of(await service.ask("trigger.list", tenant="clockless"))) == 1
    assert len(rows_of(await service.ask("trigger.preview", **named, count=2))) == 2
    refused = await service.refusal("trigger.pause", **named)
    assert (refused.code, refused.exit_status) == ("clock-held", ExitStatus.UNAVAILABLE)
    status = await service.ask("status")
    assert "the simulated clock is held" in str(status["problems"])


async def test_a_preview_of_a_trigger_knows_its_limits(service: Service) -> None:
    """Jitter, not-after and the number of fires left count; a paused trigger says what that means."""
    await service.create("limits", cron="0 * * * *", max_fires=3, jitter="10m", paused=True)
    answer = await service.ask("trigger.preview", tenant="limits", trigger="nightly", count=10)
    rows = rows_of(answer)
    assert (len(rows), answer["state"], answer["next"]) == (3, "paused", None)
    assert all(row.keys() == {"scheduled", "release", "local"} for row in rows)
    assert all(row["release"] != row["scheduled"] for row in rows)
    after = str(rows[1]["scheduled"])
    rest = await service.ask("trigger.preview", tenant="limits", trigger="nightly", after=after, count=10)
    assert rows_of(rest) == rows[2:]
    notes = answer["notes"]
    assert isinstance(notes, list)
    assert [str(note).split(":")[0].split(" since")[0] for note in notes] == [
        "the trigger is paused",
        "3 left of --max-fires 3",
    ]


async def test_a_preview_goes_by_the_book(service: Service) -> None:
    """What is decided, and what lies before the trigger's beginning, does not come again; nor what is owed already."""
    await service.create("bybook", cron="*/2 * * * * *")
    now = service.clock.now().earliest
    past = format_instant(now - now % SECOND - 3_600 * SECOND)
    answer = await service.ask("trigger.preview", tenant="bybook", trigger="nightly", after=past, count=3)
    assert all(str(row["scheduled"]) > format_instant(now) for row in rows_of(answer))
    text = await service.run("trigger", "preview", "bybook/nightly", "--from", "2030-01-01T00:00:00Z", "-n", "1")
    assert text.stdout.splitlines()[1].startswith("2030-01-01T00:00:02Z")


async def heartbeat(connection: BrokerConnection, kind: LeaseKind, expires_at: int) -> None:
    """Write the heartbeat of a runner of this kind."""
    beat = Heartbeat(
        runner=f"{kind}-test",
        counter=1,
        active=True,
        reason="",
        epsilon=1_000,
        expires_at=expires_at,
        generation=1,
        partition_count=256,
    )
    bucket = Bucket(connection, "leases")
    key = f"{kind}.runner.{kind}-test"
    known = await bucket.get(key)
    assert await bucket.put_if(key, msgspec.json.encode(beat), known.revision if known else 0) is not None


async def test_status_is_ready_only_with_every_runner(broker: RunningBroker) -> None:
    """A missing or lapsed scheduler or dispatcher is a problem; with both active and fresh everything is ready."""
    async with running_service(broker) as service:
        status = await service.ask("status")
        assert (status["ready"], status["problems"]) == (False, ["no scheduler is active", "no dispatcher is active"])
        kinds: tuple[LeaseKind, ...] = ("scheduler", "dispatcher")
        connections = [await BrokerConnection.open(broker.login(kind), name=kind) for kind in kinds]
        for kind, connection in zip(kinds, connections, strict=True):
            await heartbeat(connection, kind, service.clock.now().latest + 60 * SECOND)
        ready = await service.ask("status")
        assert (ready["ready"], ready["problems"]) == (True, [])
        await heartbeat(connections[0], "scheduler", service.clock.now().earliest - SECOND)
        lapsed = await service.ask("status")
        assert (lapsed["ready"], lapsed["problems"]) == (False, ["no scheduler is active"])
        for connection in connections:
            await connection.close()


async def test_status_tells_of_a_clock_behind_a_book(service: Service) -> None:
    """A book whose now is ahead of the clock decides nothing, and status says so."""
    await service.ask("tenant.create", tenant="ahead")
    right = service.clock.offset
    service.clock.offset = right - 60 * SECOND
    status = await service.ask("status")
    assert "ahead" in str(status["books_ahead"])
    service.clock.offset = right


async def test_stopping_answers_followers_at_once(control_broker: RunningBroker) -> None:
    """A follower in a long poll gets an empty answer when control stops, long before its time."""
    async with running_service(control_broker) as service:
        await service.ask("tenant.create", tenant="leaving")
        start = await service.ask("fires.follow", tenant="leaving")
        ask = service.ask("fires.follow", tenant="leaving", after=start["position"], wait_s=10.0)
        waiting = asyncio.create_task(ask)
        await service.ask("tenant.show", tenant="leaving")
        service.control.model.wake()
        stopping = asyncio.get_running_loop().time()
        service.stop.set()
        answer = await asyncio.wait_for(waiting, 30)
        assert rows_of(answer) == []
        assert asyncio.get_running_loop().time() - stopping < 8, "long before its time"
