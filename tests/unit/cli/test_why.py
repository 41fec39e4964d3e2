"""``trigger why`` of a schedule, and the options that exclude dates: they need nothing that runs."""

from pathlib import Path

from click.testing import CliRunner, Result

from fireledger.runners.cli.main import cli
from fireledger.runners.json_edge import loads

CALENDAR = """BEGIN:VCALENDAR
BEGIN:VEVENT
DTSTART;VALUE=DATE:20261225
DURATION:P2D
END:VEVENT
END:VCALENDAR
"""


def run(*arguments: str) -> Result:
    """Run a command about triggers."""
    return CliRunner().invoke(cli, ["trigger", *arguments], prog_name="fireledger")


def test_why_tells_every_field_and_the_rules() -> None:
    """Text: the summary, the fields, the change of the clock, and the neighbours."""
    result = run("why", "--cron", "30 2 * * *", "--zone", "Europe/Rome", "2026-03-29T01:30:00Z")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "2026-03-29T01:30:00Z is Sunday 2026-03-29 03:30:00 in Europe/Rome: due, "
        '2026-03-29 02:30:00 does not exist and the gap rule "shift" moves it here'
    )
    assert "  no  hour          3       allowed: 2" in lines
    assert lines[-2:] == ["previous: 2026-03-28T01:30:00Z", "next: 2026-03-30T00:30:00Z"]


def test_why_as_json_has_every_part() -> None:
    """One object; declared rules and excluded dates count."""
    result = run("why", "--cron", "30 2 * * *", "--gap", "skip", "--exclude", "2026-03-30", "--json",
                 "--zone", "Europe/Rome", "2026-03-29T01:30:00Z")  # fmt: skip
    answer = loads(result.stdout)
    assert isinstance(answer, dict)
    assert (answer["matches"], answer["excluded"], answer["next"]) == (False, False, "2026-03-31T00:30:00Z")
    assert list(answer) == [
        "instant", "zone", "local", "matches", "summary", "fields", "day_rule", "clock_change", "excluded",
        "previous", "next",
    ]  # fmt: skip
    interval = run("why", "--every", "90m", "--anchor", "2026-01-01T00:00:00Z", "2026-01-01T05:00:00Z")
    assert "the remainder is 30m and must be 0s" in interval.stdout


def test_why_needs_a_schedule_or_a_trigger_and_an_instant() -> None:
    """Anything else is a wrong command line; a malformed instant is refused."""
    assert run("why", "2026-01-01T05:00:00Z").exit_code == 2
    assert run("why", "--cron", "* * * * *").exit_code == 2
    assert run("why", "acme/t", "2026-01-01T05:00:00Z", "--zone", "UTC").exit_code == 2
    assert run("why", "--cron", "* * * * *", "soon").exit_code == 5
    assert run("why", "--cron", "* * * * *", "2300-01-01T00:00:00Z").exit_code == 5


def test_a_preview_leaves_out_excluded_dates(tmp_path: Path) -> None:
    """Dates and a calendar together."""
    path = tmp_path / "holidays.ics"
    path.write_text(CALENDAR, encoding="utf-8")
    result = run("preview", "--cron", "0 9 * * *", "--from", "2026-12-23T12:00:00Z", "-n", "2", "--json",
                 "--exclude", "2026-12-24", "--exclude-calendar", f"@{path}")  # fmt: skip
    rows = [loads(line) for line in result.stdout.splitlines()]
    assert [row["local"][:10] for row in rows if isinstance(row, dict) and isinstance(row["local"], str)] == [
        "2026-12-27",
        "2026-12-28",
    ]


def test_bad_exclusions_are_refused_with_their_place(tmp_path: Path) -> None:
    """A text that is no date is pointed at; a calendar's line is named; none stands alone; a file must be there."""
    base = ("preview", "--cron", "0 9 * * *")
    bad = run(*base, "--exclude", "2026-13-01")
    assert (bad.exit_code, bad.stdout) == (5, "")
    assert bad.stderr.splitlines()[1:3] == ["  2026-13-01", "       ^^"]
    path = tmp_path / "timed.ics"
    path.write_text(CALENDAR.replace("20261225", "20261225T090000"), encoding="utf-8")
    timed = run(*base, "--exclude-calendar", f"@{path}")
    assert (timed.exit_code, "line 3 of the calendar" in timed.stderr) == (5, True)
    assert run(*base, "--exclude", "none", "--exclude", "2026-12-25").exit_code == 2
    assert run(*base, "--exclude-calendar", f"@{tmp_path}/missing.ics").exit_code == 5


def test_an_outage_needs_both_ends() -> None:
    """What is no FROM..TO is a wrong command line, before anything is asked."""
    assert run("simulate-policy", "acme/t", "--outage", "2026-01-01T05:00:00Z").exit_code == 2
