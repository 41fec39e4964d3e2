"""Backfills: granted, previewed, started, followed and cancelled, on the real broker."""

import pytest

from fireledger.domain.instants import HOUR, SECOND, format_instant, parse_instant
from fireledger.runners.errors import ExitStatus
from fireledger.runners.json_edge import Json
from tests.integration.control.observing import attempted, released
from tests.integration.control.running import Service
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

RANGE: dict[str, Json] = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T01:00:00Z"}
"""An hour before any trigger of these tests existed."""


def named(tenant: str) -> dict[str, Json]:
    """The tenant's trigger."""
    return {"tenant": tenant, "trigger": "nightly"}


async def granted(service: Service, tenant: str, fires: int = 1_000, **options: Json) -> None:
    """A trigger every ten minutes, with a grant for backfills."""
    options["cron"] = "*/10 * * * *"
    await service.create(tenant, "nightly", **options)
    await service.ask("backfill.grant", **named(tenant), fires=fires, holder="ann")


def rows_of(answer: dict[str, Json]) -> list[dict[str, Json]]:
    """The rows of an answer."""
    rows = answer["rows"]
    assert isinstance(rows, list)
    return [row for row in rows if isinstance(row, dict)]


async def test_a_preview_says_exactly_what_then_fires(service: Service) -> None:
    """The same instants under the same keys; each in its own lane, with the cause backfilled."""
    await granted(service, "exact", overlap="allow")
    await service.ask("fires.now", **named("exact"), by="ann")
    preview = await service.ask("backfill.preview", **named("exact"), **RANGE)
    assert (preview["count"], preview["granted"], preview["undecided"], preview["next"]) == (6, 1_000, 0, None)
    expected = [(row["scheduled"], row["sequence"]) for row in rows_of(preview)]
    assert expected == [(f"2026-01-01T00:{n}0:00Z", 2 + n) for n in range(6)]
    assert rows_of(preview)[1]["local"] == "2026-01-01T00:10:00+00:00"
    page = service.control.model.book("exact").state.page
    started = await service.ask("backfill.start", **named("exact"), **RANGE, rate=100, label="january", by="ann")
    assert (started["page"], started["count"], started["label"], started["rate_per_second"]) == (
        page + 1,
        6,
        "january",
        100,
    )
    assert started["takes_at_least"] == "1s"
    assert started["sentence"] == "6 fires are released at 10 a second at most: that takes 1s at least."
    assert (await service.ask("trigger.show", **named("exact")))["state"] == "backfilling"
    followed = await service.ask("backfill.status", **named("exact"))
    assert (followed["rate_per_second"], followed["pace_per_second"]) == (100, 10), "the tenant's share is lower"
    state = service.control.model.book("exact").state

    async def all_released() -> bool:
        """Tick until every fire of the backfill is released."""
        await service.tick("exact")
        return (await service.ask("backfill.status", **named("exact")))["released"] == 6

    await until(all_released, what="all fires of the backfill released")
    assert state.page < service.control.model.book("exact").state.page
    listed = rows_of(await service.ask("fires.list", tenant="exact", trigger="nightly", until="2026-06-01T00:00:00Z"))
    fired = [(row["scheduled"], int(str(row["key"]).rpartition("/")[2])) for row in reversed(listed)]
    assert fired == expected
    assert {(row["cause"], row["lane"], row["state"]) for row in listed} == {("backfilled", "backfill", "fired")}


async def test_a_long_preview_comes_in_parts(service: Service) -> None:
    """Asked on from where an answer ended, the parts are the whole; the command line joins them."""
    await service.create("parts", cron="* * * * *")
    day: dict[str, Json] = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
    first = await service.ask("backfill.preview", **named("parts"), **day, count=2_000)
    assert (first["count"], len(rows_of(first))) == (1_440, 1_000)
    rest = await service.ask("backfill.preview", **named("parts"), **day, count=1_000, after=first["next"])
    assert (len(rows_of(rest)), rest["next"]) == (440, None)
    assert rows_of(rest)[-1] == {
        "scheduled": "2026-01-01T23:59:00Z",
        "sequence": 1_440,
        "local": "2026-01-01T23:59:00+00:00",
    }
    bounds = ("--from", str(day["start"]), "--to", str(day["end"]))
    told = await service.run("backfill", "preview", "parts/nightly", *bounds, "-n", "1200", "--json")
    assert (told.status, len(told.stdout.splitlines())) == (0, 1_200)
    assert told.stderr.splitlines()[0] == "1440 instants would fire, 1200 are listed"
    assert "fireledger backfill grant parts/nightly --fires 1440 --holder NAME" in told.stderr


async def test_only_missing_leaves_out_what_fired_and_what_is_still_undecided(service: Service) -> None:
    """Instants before the trigger existed are missing; those that fired, wait or are not decided yet are not."""
    anchor = format_instant((service.clock.now().earliest // SECOND) * SECOND)
    await service.create("gaps", every="1s", anchor=anchor, overlap="allow")
    await service.ask("backfill.grant", tenant="gaps", fires=100, holder="ann")

    async def fired() -> bool:
        """Tick until two instants have fired."""
        await service.tick("gaps")
        return len(rows_of(await service.ask("fires.list", tenant="gaps"))) >= 2

    await until(fired, what="two fires")
    have = {str(row["scheduled"]) for row in rows_of(await service.ask("fires.list", tenant="gaps"))}
    begin = parse_instant(min(have))
    await until(lambda: service.clock.now().earliest > begin + 4 * SECOND, what="undecided instants")
    asked: dict[str, Json] = {
        **named("gaps"),
        "start": format_instant(begin - 3 * SECOND),
        "end": format_instant(begin + 4 * SECOND),
    }
    everything = await service.ask("backfill.preview", **asked)
    missing = await service.ask("backfill.preview", **asked, only_missing=True)
    undecided = missing["undecided"]
    assert (everything["count"], undecided) == (3 + len(have), 4 - len(have))
    assert [row["scheduled"] for row in rows_of(missing)] == [format_instant(begin - n * SECOND) for n in (3, 2, 1)]
    await service.ask("backfill.start", **asked, only_missing=True, by="ann")
    await service.tick("gaps")
    keys = [str(row["key"]) for row in rows_of(await service.ask("fires.list", tenant="gaps"))]
    backfilled = [key for key in keys if not key.endswith("/0")]
    assert sorted(key.split("/")[2] for key in backfilled) == [format_instant(begin - n * SECOND) for n in (3, 2, 1)]


async def test_a_backfill_is_followed_to_its_end(service: Service) -> None:
    """Decided, released, ended by outcome and left; one at a time without ``allow``; then it is complete."""
    await granted(service, "follow")
    hour = {**RANGE, "end": "2026-01-01T00:20:00Z"}
    started = await service.ask("backfill.start", **named("follow"), **hour, by="ann", request_id="b")
    assert started["label"] == "2026-01-01T00:00:00Z/2026-01-01T00:20:00Z"
    assert "each once no other fire of the trigger is open" in str(started["sentence"])
    again = await service.ask("backfill.start", **named("follow"), **hour, by="ann", request_id="b")
    assert (again["page"], again["repeated"], again["count"]) == (started["page"], True, 2)
    running = await service.refusal("backfill.start", **named("follow"), **hour, by="ann")
    assert (running.code, running.exit_status) == ("backfill-running", ExitStatus.CONFLICT)

    async def one_open() -> bool:
        """Tick until a fire is open."""
        await service.tick("follow")
        return bool(service.control.model.book("follow").state.triggers["nightly"].open)

    await until(one_open, what="an open fire")
    status = await service.ask("backfill.status", **named("follow"))
    assert (status["state"], status["released"], status["open"], status["left"]) == ("running", 1, 1, 1)
    assert status["ends"] is not None
    first = released(service, "follow", "nightly")
    await attempted(service, "follow", first, "succeeded")
    second = released(service, "follow", "nightly")
    assert second.scheduled > first.scheduled
    await attempted(service, "follow", second, "final")
    ended = await service.ask("backfill.status", **named("follow"))
    if ended["state"] == "running":
        await service.tick("follow")
        ended = await service.ask("backfill.status", **named("follow"))
    assert (ended["state"], ended["released"], ended["succeeded"], ended["failed"]) == ("complete", 2, 1, 1)
    assert (ended["left"], ended["open"], ended["ends"]) == (0, 0, None)
    assert (await service.ask("trigger.show", **named("follow")))["state"] == "active"


async def test_a_backfill_is_cancelled(service: Service) -> None:
    """What waits is cancelled, what is released goes on; cancelling again finds nothing."""
    await granted(service, "stop")
    await service.ask("backfill.start", **named("stop"), **RANGE, by="ann")
    await service.tick("stop")
    ended = await service.ask("backfill.cancel", **named("stop"), by="bob")
    status = await service.ask("backfill.status", **named("stop"))
    assert (status["state"], status["left"]) == ("cancelled", 0)
    assert (ended["released"], ended["cancelled"]) == (status["released"], status["cancelled"])
    assert status["released"] == 1
    gone = await service.refusal("backfill.cancel", **named("stop"), by="bob")
    assert (gone.code, gone.exit_status) == ("backfill-missing", ExitStatus.NOT_FOUND)


async def test_a_backfill_needs_a_grant_that_is_large_enough(service: Service) -> None:
    """Of the trigger, else of the tenant; withdrawn it holds no more. Who has it stands in the book."""
    await service.create("grants", cron="*/10 * * * *")
    start: dict[str, Json] = {**named("grants"), **RANGE, "by": "ann"}
    none = await service.refusal("backfill.start", **start)
    assert (none.code, none.exit_status) == ("grant-missing", ExitStatus.REFUSED)
    assert "fireledger backfill grant grants/nightly --fires 6" in none.hint
    await service.ask("backfill.grant", tenant="grants", fires=100, holder="ann")
    small = await service.ask("backfill.grant", **named("grants"), fires=5, holder="bob")
    assert (small["fires"], small["changed"]) == (5, True)
    assert (await service.ask("backfill.grant", **named("grants"), fires=5, holder="bob"))["changed"] is False
    assert (await service.refusal("backfill.start", **start)).code == "grant-missing"
    assert (await service.ask("trigger.show", **named("grants")))["backfill_grant"] == 5
    own = ("backfill", "grant", "grants/nightly", "--fires", "0", "--holder", "bob")
    told = await service.run(*own)
    words = "no grant of its own; the tenant's still allows backfills of 100 fires at most"
    assert told.stdout.startswith(f"grants/nightly: {words}, holder bob, page ")
    again = await service.ask("backfill.grant", **named("grants"), fires=0, holder="bob")
    assert (again["fires"], again["granted"], again["changed"]) == (None, 100, False)
    assert (await service.ask("trigger.show", **named("grants")))["backfill_grant"] == 100
    tenant = await service.ask("tenant.show", tenant="grants")
    assert tenant["grants"] == [{"grant": "backfill", "trigger": None, "value": 100, "holder": "ann"}]
    assert (await service.ask("backfill.start", **start))["count"] == 6


async def test_what_cannot_be_backfilled_is_refused(service: Service) -> None:
    """The future, an empty range, nothing to fire, and who never had one."""
    await granted(service, "no-backfill")
    soon = format_instant(service.clock.now().latest // SECOND * SECOND + HOUR)
    future = await service.refusal("backfill.start", **named("no-backfill"), start=RANGE["start"], end=soon, by="ann")
    assert (future.message, future.exit_status) == (f"--to {soon} lies in the future", ExitStatus.REFUSED)
    assert future.hint.endswith("what comes later fires by itself")
    crossed = await service.refusal("backfill.preview", **named("no-backfill"), start=RANGE["end"], end=RANGE["start"])
    assert crossed.hint == "give the earlier of the two to --from"
    between: dict[str, Json] = {"start": "2026-01-01T00:01:00Z", "end": "2026-01-01T00:02:00Z"}
    nothing = await service.refusal("backfill.start", **named("no-backfill"), **between, by="ann")
    assert "has nothing to backfill" in nothing.message
    never = await service.refusal("backfill.status", **named("no-backfill"))
    assert (never.code, never.exit_status) == ("backfill-missing", ExitStatus.NOT_FOUND)
    for subject in ("backfill.status", "backfill.cancel", "backfill.preview", "backfill.start"):
        given: dict[str, Json] = {"by": "ann"} if subject in ("backfill.cancel", "backfill.start") else {}
        given |= RANGE if subject in ("backfill.preview", "backfill.start") else {}
        missing = await service.refusal(subject, tenant="no-backfill", trigger="none", **given)
        assert (missing.code, missing.exit_status) == ("trigger-missing", ExitStatus.NOT_FOUND)


async def test_the_command_line_goes_all_the_way(service: Service) -> None:
    """Grant, start, status and cancel in words, each with what comes next."""
    await service.create("cli-b", cron="*/10 * * * *")
    grant = await service.run("backfill", "grant", "cli-b", "--fires", "6", "--holder", "ann")
    assert grant.stdout == "cli-b: backfills of 6 fires at most, holder ann, page 3\n"
    bounds = ("--from", str(RANGE["start"]), "--to", str(RANGE["end"]))
    preview = await service.run("backfill", "preview", "cli-b/nightly", *bounds, "-n", "1")
    assert preview.stdout.splitlines()[1].split()[:2] == ["2026-01-01T00:00:00Z", "1"]
    assert preview.stdout.splitlines()[2] == "6 instants would fire, 1 are listed"
    assert preview.stderr == ""
    single = await service.run("backfill", "preview", "cli-b/nightly", *bounds[:3], "2026-01-01T00:00:01Z")
    assert single.stdout.splitlines()[-1] == "1 instant would fire"
    nothing = await service.run(
        "backfill", "preview", "cli-b/nightly", "--from", "2026-01-01T00:00:01Z", "--to", "2026-01-01T00:00:02Z"
    )
    assert (nothing.stdout, nothing.stderr) == ("0 instants would fire\n", "nothing is listed\n")
    years = await service.run("backfill", "preview", "cli-b/nightly", "--from", "1980-01-01T00:00:00Z", *bounds[2:])
    assert years.stderr == ("granted is 6 fires: give a shorter range, one backfill can be granted 1000000 fires\n")
    start = await service.run("backfill", "start", "cli-b/nightly", *bounds, "--label", "jan", "--by", "ann")
    assert start.stdout.splitlines()[0] == "backfill jan of cli-b/nightly started, page 4"
    (status,) = await service.rows("backfill", "status", "cli-b/nightly", "--json")
    assert (status["label"], status["left"], status["by"]) == ("jan", 6, "ann")
    cancel = await service.run("backfill", "cancel", "cli-b/nightly", "--by", "ann")
    assert cancel.stdout.splitlines()[0] == (
        "backfill jan of cli-b/nightly cancelled, page 5: 0 fires were released, 0 cancelled"
    )
