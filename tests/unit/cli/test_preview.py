"""``trigger preview`` of a schedule: needs nothing that runs, and prints what the contract says."""

from click.testing import CliRunner, Result

from fireledger.runners.cli.main import cli
from fireledger.runners.json_edge import loads


def preview(*arguments: str) -> Result:
    """Preview a schedule."""
    return CliRunner().invoke(cli, ["trigger", "preview", *arguments], prog_name="fireledger")


def test_json_has_one_object_a_line() -> None:
    """Scheduled, release and local, strictly after --from, the local time with its numeric offset."""
    result = preview(
        "--cron", "0 9 * * *", "--zone", "Europe/Rome", "--from", "2026-10-24T07:00:00Z", "-n", "2", "--json"
    )
    assert result.exit_code == 0
    assert [loads(line) for line in result.stdout.splitlines()] == [
        {"scheduled": at, "release": at, "local": local}
        for at, local in (
            ("2026-10-25T08:00:00Z", "2026-10-25T09:00:00+01:00"),
            ("2026-10-26T08:00:00Z", "2026-10-26T09:00:00+01:00"),
        )
    ]


def test_text_is_an_aligned_table() -> None:
    """Headings and columns line up."""
    result = preview("--cron", "30 2 * * *", "--zone", "Europe/Rome", "--from", "2026-03-28T00:00:00Z", "-n", "2")
    assert result.stdout == (
        "SCHEDULED             RELEASE               LOCAL\n"
        "2026-03-28T01:30:00Z  2026-03-28T01:30:00Z  2026-03-28T02:30:00+01:00\n"
        "2026-03-29T01:30:00Z  2026-03-29T01:30:00Z  2026-03-29T03:30:00+02:00\n"
    )
    assert (result.exit_code, result.stderr) == (0, "")


def test_declared_rules_are_followed() -> None:
    """--gap and --fold change what happens in the hours that are missing or repeated."""
    arguments = ("--cron", "30 2 * * *", "--zone", "Europe/Rome", "-n", "2", "--json")
    skipped = preview(*arguments, "--from", "2026-03-28T12:00:00Z", "--gap", "skip")
    assert '"scheduled":"2026-03-30T00:30:00Z"' in skipped.stdout.splitlines()[0]
    both = preview(*arguments, "--from", "2026-10-24T12:00:00Z", "--fold", "both")
    assert [line[14:34] for line in both.stdout.splitlines()] == ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]


def test_an_interval_hangs_on_from_unless_anchored() -> None:
    """Without an anchor the grid goes through --from; with one it extends both ways."""
    start = ("--from", "2026-01-01T00:10:00Z", "-n", "1", "--json")
    assert '"2026-01-01T01:40:00Z"' in preview("--every", "90m", *start).stdout
    anchored = preview("--every", "90m", "--anchor", "2026-06-01T00:00:00Z", *start)
    assert '"2026-01-01T01:30:00Z"' in anchored.stdout


def test_a_wholly_past_schedule_previews_as_empty() -> None:
    """Possible but over: no output, exit status 0."""
    result = preview("--at", "2020-01-01T10:00", "--from", "2026-01-01T00:00:00Z", "--json")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert preview("--at", "2020-01-01T10:00").exit_code == 0


def test_an_impossible_schedule_is_refused() -> None:
    """What no rule or year makes due is refused, and the reason named; exit status 5."""
    result = preview("--at", "2026-03-29T02:30", "--zone", "Europe/Rome", "--gap", "skip")
    assert (result.exit_code, result.stdout) == (5, "")
    assert "the clock in Europe/Rome passes over every local time that it names" in result.stderr


def test_an_interval_takes_no_rule_for_local_times() -> None:
    """--gap with --every says nothing, so it is refused rather than passed over."""
    result = preview("--every", "90m", "--gap", "skip")
    assert (result.exit_code, result.stdout) == (5, "")
    assert "an interval" in result.stderr
    assert "hint: leave --gap out, or give --cron" in result.stderr


def test_an_odd_character_is_shown_as_itself() -> None:
    """A character that can be shown is, one that cannot is named by its number, and the mark points at it."""
    assert 'the character "\u2013" (U+2013) does not belong' in preview("--cron", "0 9 * * 1\u20135").stderr
    lines = preview("--cron", "0 9\n* * *").stderr.splitlines()
    assert lines[0] == "error: the character U+000A does not belong in a cron expression (at position 3)"
    assert lines[1:3] == ["  0 9 * * *", "     ^"]


def test_a_huge_text_is_not_repeated_whole() -> None:
    """The part that is read is shown, whatever was given."""
    result = preview("--cron", "9" * 100_000)
    assert result.exit_code == 5
    assert len(result.stderr) < 1_000
