"""The command line as a contract: the commands there are, their help, and that reads take --json."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from fireledger.runners.cli.fires import table_lines
from fireledger.runners.cli.main import cli
from fireledger.runners.cli.output import emit_fields, emit_table, shown
from fireledger.runners.json_edge import Json

CONTRACT: dict[str, str] = {
    "status": "--json",
    "tenant create": "--zone --quota --default-jitter --catch-up-share",
    "tenant amend": "--zone --quota --default-jitter --catch-up-share",
    "tenant ceiling": "--per --amount --remove --request-id",
    "tenant show": "--json",
    "tenant list": "--json",
    "trigger create": (
        "--cron --every --anchor --at --zone --dialect --target --payload --jitter --missed --cap --horizon "
        "--tolerance --overlap --outcome-window --timeout --gap --fold --not-before --not-after --max-fires --paused "
        "--exclude --exclude-calendar --max-attempts --retry-base --retry-factor --retry-cap "
        "--request-id"
    ),
    "trigger amend": (
        "--dry-run --cron --every --anchor --at --zone --target --payload --jitter --exclude --max-attempts "
        "--request-id"
    ),
    "trigger ceiling": "--per --amount --remove --request-id",
    "trigger pause": "--request-id",
    "trigger resume": "--on-resume --request-id",
    "trigger delete": "--yes --request-id",
    "trigger show": "--json",
    "trigger list": "--json",
    "trigger preview": (
        "--cron --every --anchor --at --zone --dialect --gap --fold --exclude --exclude-calendar -n --from --json"
    ),
    "trigger why": "--cron --every --anchor --at --zone --gap --fold --exclude --exclude-calendar --json",
    "trigger simulate-policy": "--outage --json",
    "fires list": "--since --until --limit --json",
    "fires show": "--json",
    "fires follow": "--json",
    "fires now": "--by --request-id",
    "fires release": "--by --request-id",
    "fires cancel": "--by --request-id",
    "lanes": "--tenant --worst --json",
    "lanes declare-drain": "--until --why --json",
    "backfill preview": "--from --to --only-missing -n --json",
    "backfill start": "--from --to --only-missing --rate --label --by --request-id",
    "backfill cancel": "--by --request-id",
    "backfill status": "--json",
    "backfill grant": "--fires --holder --request-id",
    "book show": "--from --json",
    "tz status": "--json",
    "tz diff": "--to --tenant --json",
    "tz adopt": "--to --tenant --yes --json",
}
"""Each command with the options that the contract names."""


def leaves(command: click.Command, context: click.Context, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command below a group, but for those that start runners."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    if path and command.invoke_without_command:
        yield path, command
    for name in command.list_commands(context):
        if name not in ("up", "run"):
            found = command.get_command(context, name)
            assert found is not None
            yield from leaves(found, context, f"{path} {name}".strip())


COMMANDS = dict(leaves(cli, click.Context(cli)))


def test_the_contracts_commands_are_there() -> None:
    """No command is missing and none is extra."""
    assert COMMANDS.keys() == CONTRACT.keys()


@pytest.mark.parametrize("path", CONTRACT)
def test_a_command_has_its_options_and_an_example(path: str) -> None:
    """The options of the contract, where control is, a JSON form, and help with an example worth copying."""
    options = {name for parameter in COMMANDS[path].params for name in parameter.opts}
    assert {*CONTRACT[path].split(), "--data", "--nats-url", "--creds", "--json"} <= options
    result = CliRunner().invoke(cli, [*path.split(), "--help"], prog_name="fireledger")
    assert result.exit_code == 0
    assert f"  fireledger {path}" in result.stdout.partition("Examples:")[2]


def test_a_table_lines_up_and_an_empty_one_speaks_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns are as wide as their widest cell; absent values are a dash."""
    emit_table(("name", "cap_ms"), [{"name": "a", "cap_ms": None}, {"name": "longer", "cap_ms": 1.25}], empty="none")
    assert capsys.readouterr().out == "NAME    CAP MS\na       -\nlonger  1.2\n"
    emit_table(("name",), [], empty="none")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "none\n")


def test_a_spare_column_that_says_nothing_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing, "no" and 0 in every row; one row that says something keeps it."""
    rows: list[dict[str, Json]] = [{"name": "a", "late": False, "cost": 0}, {"name": "b", "late": None, "cost": 3}]
    emit_table(("name", "late", "cost", "why"), rows, empty="none", spare={"late", "cost"})
    assert capsys.readouterr().out == "NAME  COST  WHY\na     0     -\nb     3     -\n"


@pytest.mark.parametrize(
    "value,text",
    [
        ({"message": "two words", "state": "fired"}, 'message="two words" state=fired'),
        ({"message": 'a "b"\\'}, 'message="a \\"b\\"\\\\"'),
        ({"message": "x=1"}, 'message="x=1"'),
        ({"span": {"first": 1, "last": 2}, "more": None}, "span=(first=1 last=2)"),
        ({"spans": [{"first": 1}, {"first": 2}], "names": ["a", "b c"]}, 'spans=[first=1, first=2] names=[a, "b c"]'),
        ({"message": "red\x1b [31m"}, 'message="red\\x1b [31m"'),
        ({}, "-"),
    ],
)
def test_each_field_of_an_object_is_seen_to_end(value: dict[str, Json], text: str) -> None:
    """Texts with spaces and marks stand in quotes, objects and lists within in brackets."""
    assert shown(value) == text


def test_the_listing_of_fires_says_no_more_than_there_is() -> None:
    """No delay that is the lateness, no count of one; a long message is cut."""
    row: dict[str, Json] = {"lateness_ms": 12.5, "delay_ms": 12.5, "count": 1, "message": "m" * 100}
    (line,) = table_lines([row])
    assert (line["delay_ms"], line["count"], line["message"]) == (None, None, "m" * 59 + "…")
    jittered: dict[str, Json] = {"lateness_ms": 1_012.5, "delay_ms": 12.5, "count": 7, "message": ""}
    both = table_lines([row, jittered])
    assert [(each["delay_ms"], each["count"], each["message"] is None) for each in both] == [
        (12.5, None, False),
        (12.5, 7, True),
    ]


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """An executor's message cannot move the cursor."""
    emit_fields({"message": "red\x1b[31m\nline"})
    assert capsys.readouterr().out == "message  red\\x1b[31m\\x0aline\n"
