"""Every error that needs no broker: exact stdout, stderr and exit status, and nothing written."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fireledger.runners.cli.main import cli

TARGET = ("--target", "nats:report")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder's path where there is nothing."""
    return tmp_path / "data"


def invoke(folder: Path, *arguments: str) -> Result:
    """Run a command with that data folder and no other place named."""
    runner = CliRunner(env={"FIRELEDGER_DATA": str(folder), "FIRELEDGER_NATS_URL": None, "FIRELEDGER_CREDS": None})
    return runner.invoke(cli, arguments, prog_name="fireledger")


CREATE = ("trigger", "create", "acme/nightly")

REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "malformed cron": (
        (*CREATE, "--cron", "0 25 * * *", *TARGET),
        'error: "25" is out of range for the hour field (at position 2)\n  0 25 * * *\n    ^^\nhint: write 0 to 23\n',
    ),
    "impossible date": (
        (*CREATE, "--cron", "0 0 30 2 *", *TARGET),
        (
            'error: "0 0 30 2 *" can never match: no month it names has such a day (at position 4)\n'
            "  0 0 30 2 *\n"
            "      ^^\n"
            "hint: check the day-of-month against the months\n"
        ),
    ),
    "impossible local date": (
        (*CREATE, "--at", "2026-02-30T10:00", *TARGET),
        'error: "2026-02-30" is not a date (at position 8)\n  2026-02-30T10:00\n          ^^\nhint: check the day\n',
    ),
    "malformed interval": (
        (*CREATE, "--every", "ten minutes", *TARGET),
        (
            'error: "ten minutes" is not an interval (at position 0)\n'
            "  ten minutes\n"
            "  ^^^^^^^^^^^\n"
            "hint: write it as 30s, 90m, 6h, 1d or PT90M\n"
        ),
    ),
    "malformed anchor": (
        (*CREATE, "--every", "10m", "--anchor", "yesterday", *TARGET),
        'error: --anchor "yesterday" is not an instant\nhint: write it as 2026-11-30T09:00:00Z\n',
    ),
    "anchor without interval": (
        (*CREATE, "--cron", "0 9 * * *", "--anchor", "2026-11-30T09:00:00Z", *TARGET),
        "error: an anchor is given and the schedule is no interval\nhint: give --anchor together with --every\n",
    ),
    "malformed duration": (
        (*CREATE, "--cron", "0 9 * * *", "--jitter", "5", *TARGET),
        'error: --jitter "5" is not a duration\nhint: write it as 90s, 15m, 2h, 1d or PT90S\n',
    ),
    "horizon out of bounds": (
        (*CREATE, "--cron", "0 9 * * *", "--horizon", "25h", *TARGET),
        'error: --horizon "1d1h" is out of bounds\nhint: use 0s to 1d\n',
    ),
    "cap out of bounds": (
        (*CREATE, "--cron", "0 9 * * *", "--cap", "0", *TARGET),
        "error: --cap 0 is out of bounds\nhint: use 1 to 1000\n",
    ),
    "not a number of fires": (
        (*CREATE, "--cron", "0 9 * * *", "--max-fires", "many", *TARGET),
        'error: --max-fires "many" is not a number of fires\nhint: write a number, or "default" for none\n',
    ),
    "bad target": (
        (*CREATE, "--cron", "0 9 * * *", "--target", "ftp://example.com/"),
        (
            'error: --target "ftp://example.com/" is neither an http(s) URL nor nats:NAME\n'
            "hint: write it as https://example.com/run, or nats:NAME for a NATS executor\n"
        ),
    ),
    "oversize payload": (
        (*CREATE, "--cron", "0 9 * * *", "--payload", "x" * 65_537, *TARGET),
        "error: --payload is 65537 bytes; at most 65536\nhint: send a reference to the data instead of the data\n",
    ),
    "absent payload file": (
        (*CREATE, "--cron", "0 9 * * *", "--payload", "@no/such/file", *TARGET),
        'error: payload file "no/such/file" cannot be read: No such file or directory\nhint: name a readable file\n',
    ),
    "bad tenant": (
        ("tenant", "create", "Acme"),
        'error: "Acme" is not a tenant name\nhint: use 1 to 63 of a-z, 0-9 and "-", not beginning with "-"\n',
    ),
    "bad trigger": (
        ("trigger", "show", "acme/nightly report"),
        'error: "nightly report" is not a trigger name\nhint: use 1 to 128 of letters, digits, "_" and "-" (ASCII)\n',
    ),
    "no trigger": (
        ("trigger", "pause", "acme"),
        'error: "acme" names no trigger\nhint: write TENANT/TRIGGER\n',
    ),
    "bad fire key": (
        ("fires", "show", "acme/nightly/today/0"),
        (
            'error: "acme/nightly/today/0" is not a fire key: "today" is not an instant\n'
            "hint: write it as 2026-11-30T09:00:00Z\n"
        ),
    ),
    "bad since": (
        ("fires", "list", "acme", "--since", "2026-13-01T00:00:00Z"),
        (
            'error: --since "2026-13-01T00:00:00Z" is not an instant: month must be in 1..12\n'
            "hint: write it as 2026-11-30T09:00:00Z\n"
        ),
    ),
    "bad until": (
        ("fires", "list", "acme", "--until", "now"),
        'error: --until "now" is not an instant\nhint: write it as 2026-11-30T09:00:00Z\n',
    ),
    "crossed bounds": (
        ("fires", "list", "acme", "--since", "2026-11-30T09:00:01Z", "--until", "2026-11-30T10:00:00+01:00"),
        (
            "error: --since 2026-11-30T09:00:01Z is later than --until 2026-11-30T10:00:00+01:00\n"
            "hint: give the earlier of the two to --since\n"
        ),
    ),
    "malformed horizon": (
        (*CREATE, "--cron", "0 9 * * *", "--horizon", "1h30", *TARGET),
        'error: --horizon "1h30" is not a duration\nhint: write it as 90s, 15m, 2h, 1d or PT90S\n',
    ),
    "malformed tolerance": (
        ("trigger", "amend", "acme/nightly", "--tolerance", "soon"),
        'error: --tolerance "soon" is not a duration\nhint: write it as 90s, 15m, 2h, 1d or PT90S\n',
    ),
    "malformed outcome window": (
        ("trigger", "amend", "acme/nightly", "--outcome-window", "-1m"),
        'error: --outcome-window "-1m" is not a duration\nhint: write it as 90s, 15m, 2h, 1d or PT90S\n',
    ),
    "malformed timeout": (
        ("trigger", "amend", "acme/nightly", "--timeout", "1y"),
        'error: --timeout "1y" is not a duration\nhint: write it as 90s, 15m, 2h, 1d or PT90S\n',
    ),
    "malformed not-before": (
        ("trigger", "amend", "acme/nightly", "--not-before", "2026-11-30"),
        'error: --not-before "2026-11-30" is not an instant\nhint: write it as 2026-11-30T09:00:00Z\n',
    ),
    "malformed not-after": (
        ("trigger", "amend", "acme/nightly", "--not-after", "2026-11-30T25:00:00Z"),
        (
            'error: --not-after "2026-11-30T25:00:00Z" is not an instant: hour must be in 0..23\n'
            "hint: write it as 2026-11-30T09:00:00Z\n"
        ),
    ),
    "malformed preview start": (
        ("trigger", "preview", "--cron", "0 9 * * *", "--from", "tomorrow"),
        'error: --from "tomorrow" is not an instant\nhint: write it as 2026-11-30T09:00:00Z\n',
    ),
    "malformed outage": (
        ("trigger", "simulate-policy", "acme/nightly", "--outage", "2026-11-30T09:00:00Z..later"),
        'error: --outage "later" is not an instant\nhint: write it as 2026-11-30T09:00:00Z\n',
    ),
    "malformed default jitter": (
        ("tenant", "create", "acme", "--default-jitter", "half a minute"),
        'error: --default-jitter "half a minute" is not a duration\nhint: write it as 90s, 15m, 2h, 1d or PT90S\n',
    ),
    "malformed quota": (
        ("tenant", "amend", "acme", "--quota", "many"),
        'error: --quota "many" is not a quota\nhint: write it as 100/s, from 1/s to 100000/s\n',
    ),
    "fragment": (
        (*CREATE, "--cron", "0 9 * * *", "--target", "https://example.com/#top"),
        (
            'error: --target "https://example.com/#top" has a fragment (at position 20)\n'
            "hint: leave out # and what follows it: no server gets to see it; %23 is a plain #\n"
        ),
    ),
    "bad limit": (
        ("fires", "list", "acme", "--limit", "0"),
        "error: --limit 0 is out of bounds\nhint: use 1 to 200000\n",
    ),
    "bad page": (
        ("book", "show", "acme", "--from", "0"),
        "error: --from 0 is no page\nhint: pages are numbered from 1\n",
    ),
    "unknown zone": (
        ("trigger", "preview", "--cron", "0 9 * * *", "--zone", "Europe/Romee"),
        'error: "Europe/Romee" is not a time zone\nhint: did you mean Europe/Rome or Europe/Kirov?\n',
    ),
    "unknown dialect": (
        ("trigger", "preview", "--cron", "0 9 * * *", "--dialect", "apscheduler"),
        ('error: the dialect "apscheduler" is not known\nhint: use unix, quartz, aws or rrule\n'),
    ),
    "too many previewed": (
        ("trigger", "preview", "--cron", "0 9 * * *", "-n", "0"),
        "error: -n 0 is out of bounds\nhint: use 1 to 10000\n",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_value_is_named_with_a_hint(folder: Path, name: str) -> None:
    """Exit status 5, nothing on stdout, the offending part and its place on stderr, and no folder made."""
    arguments, stderr = REFUSED[name]
    result = invoke(folder, *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (5, "", stderr)
    assert not folder.exists()


def test_an_oversize_payload_file_is_not_read_whole(folder: Path, tmp_path: Path) -> None:
    """A file above the bound is refused by name."""
    large = tmp_path / "large.bin"
    large.write_bytes(b"x" * 70_000)
    result = invoke(folder, *CREATE, "--cron", "0 9 * * *", "--payload", f"@{large}", *TARGET)
    assert result.exit_code == 5
    assert result.stderr == (
        f'error: payload file "{large}" has more than 65536 bytes\n'
        "hint: send a reference to the data instead of the data\n"
    )


USAGE: dict[str, tuple[tuple[str, ...], str]] = {
    "no schedule": (
        (*CREATE, *TARGET),
        "error: give exactly one of --cron, --every and --at\nhint: see fireledger trigger create --help\n",
    ),
    "two schedules": (
        (*CREATE, "--cron", "0 9 * * *", "--every", "5m", *TARGET),
        "error: give exactly one of --cron, --every and --at\nhint: see fireledger trigger create --help\n",
    ),
    "no target": (
        (*CREATE, "--cron", "0 9 * * *"),
        "error: missing option '--target'\nhint: see fireledger trigger create --help\n",
    ),
    "unknown option": (
        ("tenant", "list", "--colour"),
        "error: no such option '--colour'\nhint: see fireledger tenant list --help\n",
    ),
    "unknown command": (
        ("tenant", "rename", "acme"),
        "error: no such command 'rename'. Did you mean 'create'?\nhint: see fireledger tenant --help\n",
    ),
    "unknown policy": (
        (*CREATE, "--cron", "0 9 * * *", "--missed", "never", *TARGET),
        (
            "error: invalid value for '--missed': 'never' is not one of 'fire-all', 'fire-once-now', 'skip'\n"
            "hint: see fireledger trigger create --help\n"
        ),
    ),
    "nothing to preview": (
        ("trigger", "preview"),
        "error: give TENANT/TRIGGER, or one of --cron, --every and --at\nhint: see fireledger trigger preview --help\n",
    ),
    "options of another preview": (
        ("trigger", "preview", "acme/nightly", "--zone", "UTC"),
        (
            "error: give --zone with --cron, --every or --at, not with TENANT/TRIGGER\n"
            "hint: see fireledger trigger preview --help\n"
        ),
    ),
    "delete without a terminal": (
        ("trigger", "delete", "acme/nightly"),
        (
            "error: deleting asks for confirmation, and this is no terminal; give --yes\n"
            "hint: see fireledger trigger delete --help\n"
        ),
    ),
    "a place before a command that has its own": (
        ("--data", "elsewhere", "up"),
        'error: give --data, --nats-url and --creds after "up"\nhint: see fireledger --help\n',
    ),
    "unknown option of the root": (
        ("--colour", "tenant", "list"),
        "error: no such option '--colour'\nhint: see fireledger --help\n",
    ),
}


@pytest.mark.parametrize("name", USAGE)
def test_a_wrong_command_line_is_exit_status_2(folder: Path, name: str) -> None:
    """Nothing on stdout, one error and where to look on stderr."""
    arguments, stderr = USAGE[name]
    result = invoke(folder, *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", stderr)


ASKING: tuple[tuple[str, ...], ...] = (
    ("status",),
    ("tenant", "create", "acme"),
    ("tenant", "list", "--json"),
    (*CREATE, "--cron", "0 9 * * *", *TARGET),
    ("trigger", "amend", "acme/nightly", "--jitter", "default"),
    ("trigger", "delete", "acme/nightly", "--yes"),
    ("trigger", "preview", "acme/nightly"),
    ("fires", "list", "acme"),
    ("fires", "follow", "acme/nightly"),
    ("book", "show", "acme"),
)


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_without_a_running_service_every_question_ends_with_6(folder: Path, arguments: tuple[str, ...]) -> None:
    """The folder is named, the hint says how to start, and asking makes no folder."""
    result = invoke(folder, *arguments)
    assert (result.exit_code, result.stdout) == (6, "")
    assert result.stderr == f'error: no fireledger runs in data folder "{folder}"\nhint: start it: fireledger up\n'
    assert not folder.exists()


@pytest.mark.slow
def test_an_unreachable_cluster_is_exit_status_6(folder: Path, tmp_path: Path) -> None:
    """A broker that nobody runs is named with its address."""
    creds = tmp_path / "operator.json"
    creds.write_text('{"user":"operator","password":"x"}')
    result = invoke(folder, "tenant", "list", "--nats-url", "nats://127.0.0.1:9", "--creds", str(creds))
    assert (result.exit_code, result.stdout) == (6, "")
    assert result.stderr.startswith('error: no broker can be reached at "nats://127.0.0.1:9"')
    assert result.stderr.endswith("hint: start it: fireledger up\n")


def test_absent_credentials_are_named(folder: Path) -> None:
    """A cluster without credentials tells which file was looked for."""
    result = invoke(folder, "tenant", "list", "--nats-url", "nats://127.0.0.1:9", "--creds", "no/such.json")
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr == (
        'error: credentials "no/such.json" cannot be read: No such file or directory\n'
        "hint: name a credentials file with --creds, or a data folder with --data\n"
    )


def test_a_folder_of_another_layout_is_refused(folder: Path) -> None:
    """A data folder written by another release is a conflict, and stays as it is."""
    folder.mkdir()
    (folder / "layout.json").write_text('{"version": 99}')
    result = invoke(folder, "tenant", "list")
    assert (result.exit_code, result.stdout) == (4, "")
    assert 'has layout version "99"' in result.stderr
    assert [path.name for path in folder.iterdir()] == ["layout.json"]


@pytest.mark.parametrize(
    "arguments",
    [("trigger", "show", "acme/\x1b[31mx\ny"), ("fires", "list", "acme", "--\x1b[2J"), ("trigger", "\x1b[2J")],
)
def test_what_was_typed_does_not_move_the_cursor(folder: Path, arguments: tuple[str, ...]) -> None:
    """Control characters of an argument are named in the error, not repeated."""
    result = CliRunner(env={"FIRELEDGER_DATA": str(folder)}).invoke(cli, arguments, color=True)
    assert result.exit_code != 0
    assert "\\x1b" in result.stderr
    assert "\x1b" not in result.stderr


def test_an_empty_request_id_is_refused(folder: Path) -> None:
    """An unset variable in a script does not silently become a fresh id."""
    result = invoke(folder, "trigger", "pause", "acme/t", "--request-id", "")
    assert (result.exit_code, result.stdout) == (5, "")
    assert result.stderr == (
        "error: --request-id is empty\nhint: give a name of your choice, or leave the option out\n"
    )
