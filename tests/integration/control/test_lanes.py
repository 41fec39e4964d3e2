"""The lanes as control tells of them, drains that are declared, and what status makes of a lane that is behind."""

import pytest

from fireledger.domain.instants import HOUR, MINUTE, SECOND, format_instant, parse_instant
from fireledger.runners.errors import ExitStatus
from fireledger.runners.json_edge import Json
from tests.integration.brokers import RunningBroker
from tests.integration.control.running import Service, running_service

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


def rows_of(answer: dict[str, Json]) -> dict[tuple[Json, Json], dict[str, Json]]:
    """The rows of an answer by lane and tenant."""
    rows = answer["rows"]
    assert isinstance(rows, list)
    return {(row["lane"], row["tenant"]): row for row in rows if isinstance(row, dict)}


async def waiting_fire(service: Service, tenant: str) -> None:
    """A fire of the tenant that is released, and one that waits for it."""
    await service.create(tenant)
    await service.ask("fires.now", tenant=tenant, trigger="nightly", by="ann")
    await service.tick(tenant)
    await service.ask("fires.now", tenant=tenant, trigger="nightly", by="ann")


async def test_lanes_are_shown_for_all_and_for_the_worst(service: Service) -> None:
    """Depth, age and rate of each; the worst tenants by name; one tenant's lanes when it is named."""
    await waiting_fire(service, "deep")
    shown = rows_of(await service.ask("lanes.show", worst=1_000))
    mine, together = shown["on-time", "deep"], shown["on-time", None]
    assert (mine["waiting"], mine["released"], mine["starts_per_minute"], mine["ends"]) == (1, 1, 0, None)
    assert isinstance(mine["waiting_age_s"], float)
    assert isinstance(together["waiting"], int)
    assert together["waiting"] >= 1
    assert [lane for lane, tenant in shown if tenant is None] == ["on-time", "catch-up", "backfill"]
    only = rows_of(await service.ask("lanes.show", tenant="deep"))
    assert list(only) == [("on-time", "deep"), ("catch-up", "deep"), ("backfill", "deep")]
    assert rows_of(await service.ask("lanes.show", worst=0)).keys() == {
        (lane, None) for lane in ("on-time", "catch-up", "backfill")
    }


async def test_bad_questions_are_refused(service: Service) -> None:
    """Out of bounds, or of nobody."""
    bounds = await service.refusal("lanes.show", worst=1_001)
    assert (bounds.exit_status, bounds.hint) == (ExitStatus.REFUSED, "use 0 to 1000 tenants")
    assert (await service.refusal("lanes.show", tenant="nobody")).code == "tenant-missing"
    drain: dict[str, Json] = {"lane": "backfill", "until": "8d", "why": "x"}
    assert (await service.refusal("lanes.declare-drain", **drain)).message == '--until "8d" is out of bounds'
    assert (await service.refusal("lanes.declare-drain", **{**drain, "until": "1h", "why": ""})).exit_status == 5
    assert (await service.refusal("lanes.declare-drain", **{**drain, "lane": "slow"})).code == "request-malformed"


async def test_a_drain_is_declared_in_every_book(broker: RunningBroker) -> None:
    """Each open book gets the entry, in as many answers as it takes; the same again changes no book."""
    async with running_service(broker) as service:
        for number in range(52):
            await service.ask("tenant.create", tenant=f"drain-{number:02d}")
        told = await service.run("lanes", "declare-drain", "backfill", "--until", "2h", "--why", "moving house")
        assert told.status == 0
        assert told.stderr == "50 books so far\n"
        until = told.stdout.partition("until ")[2].partition(": ")[0]
        assert told.stdout.endswith(": 52 books changed, 0 not\n")
        drain = service.control.model.lanes.drain("drain-51", "backfill", service.clock.now().latest)
        assert drain is not None
        assert (format_instant(drain.until), drain.why) == (until, "moving house")
        assert abs(parse_instant(until) - service.clock.now().earliest - 2 * HOUR) < MINUTE
        repeated = await service.ask("lanes.declare-drain", lane="backfill", until=until, why="moving house")
        rows = repeated["rows"]
        assert isinstance(rows, list)
        assert all(isinstance(row, dict) and row["changed"] is False for row in rows)
        assert service.control.model.book("drain-00").state.page == 2


async def test_status_tells_of_a_lane_that_is_behind_unless_that_was_declared(broker: RunningBroker) -> None:
    """On-time fires that nobody starts for a minute are a problem; a drain of that lane silences it and no other."""
    async with running_service(broker) as service:
        await waiting_fire(service, "behind")
        assert "lane-behind" not in await problems(service)
        right = service.clock.offset
        await service.ask("lanes.declare-drain", lane="catch-up", until="1h", why="another lane")
        service.clock.offset = right + 90 * SECOND
        assert "lane-behind" in await problems(service)
        service.clock.offset = right
        await service.ask("lanes.declare-drain", lane="on-time", until="1h", why="executors are moved")
        service.clock.offset = right + 90 * SECOND
        assert "lane-behind" not in await problems(service)
        service.clock.offset = right + 2 * HOUR
        assert "lane-behind" in await problems(service)
        service.clock.offset = right


async def problems(service: Service) -> dict[Json, Json]:
    """What status complains about: hints by code."""
    details = (await service.ask("status"))["details"]
    assert isinstance(details, list)
    return {each["code"]: each["hint"] for each in details if isinstance(each, dict)}


async def test_the_command_line_prints_a_table(service: Service) -> None:
    """A row a lane; with --json an object a lane."""
    await waiting_fire(service, "table")
    told = await service.run("lanes", "--tenant", "table")
    assert (told.status, told.stderr) == (0, "")
    heading, on_time, *_ = told.stdout.splitlines()
    assert heading.split()[:3] == ["LANE", "TENANT", "WAITING"]
    assert on_time.split()[:3] == ["on-time", "table", "1"]
    rows = await service.rows("lanes", "--json", "--worst", "0")
    assert [row["lane"] for row in rows] == ["on-time", "catch-up", "backfill"]
