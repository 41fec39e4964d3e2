"""Why an instant is due, what policies make of an outage, and excluded dates: asked on the command line."""

from pathlib import Path

import pytest

from fireledger.domain.instants import DAY, format_instant
from fireledger.runners.json_edge import Json, loads
from tests.integration.control.running import Service

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]


async def test_why_tells_what_the_book_decided(service: Service) -> None:
    """The explanation by the book's own definition, its limits, and the fire that the book has for the instant."""
    await service.create("why", "second", cron="* * * * * *")
    folded = await service.tick("why")
    fired = await service.rows("fires", "list", "why/second", "--limit", "1", "--json")
    at = str(fired[0]["scheduled"])
    assert folded.effective
    answer = (await service.rows("trigger", "why", "why/second", at, "--json"))[0]
    assert (answer["matches"], answer["limits"], answer["version"]) == (True, [], 2)
    assert isinstance(answer["decided"], dict)
    assert (answer["decided"]["state"], answer["decided"]["key"]) == ("fired", fired[0]["key"])
    text = await service.run("trigger", "why", "why/second", at)
    assert (text.status, text.stdout.splitlines()[-1].startswith("the book says: fired (on-time)")) == (0, True)
    early = await service.run("trigger", "why", "why/second", "2020-01-01T00:00:00Z")
    assert "besides, the present definition holds for instants after" in early.stdout
    gone = await service.run("trigger", "why", "why/none", at)
    assert (gone.status, gone.stdout) == (3, "")


async def test_why_names_a_pause(service: Service) -> None:
    """An instant inside a pause that goes on is due by its schedule, and the pause is told."""
    await service.create("whypause", "hourly", cron="0 * * * *")
    await service.ask("trigger.pause", tenant="whypause", trigger="hourly")
    coming = await service.ask("trigger.preview", tenant="whypause", trigger="hourly", count=1)
    assert isinstance(coming["rows"], list)
    assert isinstance(coming["rows"][0], dict)
    at = coming["rows"][0]["scheduled"]
    answer = await service.ask("trigger.why", tenant="whypause", trigger="hourly", instant=at)
    assert (answer["matches"], answer["decided"], answer["state"]) == (True, None, "paused")
    assert isinstance(answer["limits"], list)
    assert [str(limit)[:26] for limit in answer["limits"]] == ["it lies in a pause (paused"]


async def test_policies_are_shown_for_an_outage(service: Service) -> None:
    """The one given, or the last one recorded; none recorded ends with exit status 3."""
    await service.create("sim", "ten", cron="*/10 * * * *", missed="fire-all", cap=2)
    none = await service.run("trigger", "simulate-policy", "sim/ten")
    assert (none.status, none.stdout) == (3, "")
    assert 'no outage of trigger "sim/ten" is recorded' in none.stderr
    outage = "2026-11-30T02:05:00Z..2026-11-30T02:45:00Z"
    given = await service.rows("trigger", "simulate-policy", "sim/ten", "--outage", outage, "--json")
    assert given[0]["recorded"] is False
    fires = {str(policy["policy"]): policy["fired"] for policy in policies(given[0])}
    assert fires == {
        "fire-all": ["2026-11-30T02:30:00Z", "2026-11-30T02:40:00Z"],
        "fire-once-now": ["2026-11-30T02:40:00Z"],
        "skip": [],
    }
    text = await service.run("trigger", "simulate-policy", "sim/ten", "--outage", outage)
    assert "skip: 0 would fire, 4 would not" in text.stdout
    assert "  2026-11-30T02:10:00Z to 2026-11-30T02:20:00Z, 2  dropped (over-cap)" in text.stdout
    backwards = "2026-11-30T02:45:00Z..2026-11-30T02:05:00Z"
    refused = await service.run("trigger", "simulate-policy", "sim/ten", "--outage", backwards)
    assert (refused.status, refused.stdout) == (5, "")


async def test_the_last_outage_recorded_is_found(service: Service) -> None:
    """An instant that was decided too late is an outage to look back at."""
    await service.create("late", "second", cron="* * * * * *", tolerance="0s")
    await service.tick("late")
    answer = (await service.rows("trigger", "simulate-policy", "late/second", "--json"))[0]
    assert answer["recorded"] is True
    listed = await service.rows("fires", "list", "late/second", "--json")
    caught_up = [row["scheduled"] for row in listed if row["lane"] == "catch-up"]
    by_policy = {str(policy["policy"]): policy for policy in policies(answer)}
    assert by_policy["fire-once-now"]["fired"] == caught_up
    assert by_policy["skip"]["fired_count"] == 0


async def test_excluded_dates_on_the_command_line(service: Service, tmp_path: Path) -> None:
    """Created with dates and a calendar, shown, kept by an amendment without them, replaced, and cleared."""
    await service.ask("tenant.create", tenant="holidays")
    days = [format_instant(service.clock.now().latest + n * DAY)[:10] for n in range(1, 5)]
    calendar = tmp_path / "holidays.ics"
    event = f"BEGIN:VEVENT\nDTSTART;VALUE=DATE:{days[1].replace('-', '')}\nEND:VEVENT"
    calendar.write_text(f"BEGIN:VCALENDAR\n{event}\nEND:VCALENDAR\n", encoding="utf-8")
    created = await service.run(
        "trigger", "create", "holidays/daily", "--cron", "0 0 * * *", "--target", "nats:report",
        "--exclude", days[0], "--exclude-calendar", f"@{calendar}", "--json",
    )  # fmt: skip
    assert (created.status, created.stderr) == (0, "")
    assert coming(loads(created.stdout))[0] == days[2]
    await service.run("trigger", "amend", "holidays/daily", "--horizon", "2h")
    shown = (await service.rows("trigger", "show", "holidays/daily", "--json"))[0]
    assert shown["excluded"] == days[:2]
    text = await service.run("trigger", "show", "holidays/daily")
    assert f"{days[0]}, {days[1]}" in text.stdout
    dry = await service.rows("trigger", "amend", "holidays/daily", "--exclude", days[2], "--dry-run", "--json")
    assert isinstance(dry[0]["changes"], list)
    changes = {str(change["change"]) for change in dry[0]["changes"] if isinstance(change, dict)}
    assert changes >= {"appears", "vanishes"}
    replaced = (await service.rows("trigger", "amend", "holidays/daily", "--exclude", days[2], "--json"))[0]
    assert coming(replaced) == [days[0], days[1], days[3]]
    why = (await service.rows("trigger", "why", "holidays/daily", f"{days[2]}T00:00:00Z", "--json"))[0]
    assert (why["matches"], why["excluded"]) == (False, True)
    cleared = (await service.rows("trigger", "amend", "holidays/daily", "--exclude", "none", "--json"))[0]
    assert coming(cleared) == days[:3]
    once = await service.run(
        "trigger", "create", "holidays/once", "--at", f"{days[0]}T09:00", "--target", "nats:report",
        "--exclude", days[0],
    )  # fmt: skip
    assert (once.status, "is never due" in once.stderr) == (5, True)


def policies(answer: dict[str, Json]) -> list[dict[str, Json]]:
    """The policies of an answer."""
    listed = answer["policies"]
    assert isinstance(listed, list)
    return [policy for policy in listed if isinstance(policy, dict)]


def coming(answer: Json) -> list[str]:
    """The dates of the next instants."""
    assert isinstance(answer, dict)
    assert isinstance(answer["next"], list)
    return [str(row["scheduled"])[:10] for row in answer["next"] if isinstance(row, dict)]
