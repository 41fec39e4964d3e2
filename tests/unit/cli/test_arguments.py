"""What holds for the arguments of every command: UTF-8, options that stand once, files that are files."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from fireledger.runners.cli.arguments import check_text
from fireledger.runners.cli.main import cli
from fireledger.runners.cli.usage import HintedUsageError
from tests.unit.cli.command_tree import ALL, words_of

BROKEN = "caf\udce9"
"""What Python makes of the bytes ``caf\\xe9`` on a command line."""


SINGLE = [
    (path, option)
    for path, command in ALL.items()
    for option in command.params
    if isinstance(option, click.Option) and not (option.multiple or option.is_flag or option.count)
]
"""Every option of every command that takes one value."""


def invoke(*arguments: str, folder: Path | None = None) -> Result:
    """Run a command with no place but a folder where nothing runs."""
    environment = {"FIRELEDGER_DATA": str(folder or "nowhere"), "FIRELEDGER_NATS_URL": None, "FIRELEDGER_CREDS": None}
    return CliRunner(env=environment).invoke(cli, arguments, prog_name="fireledger")


def check_told(result: Result, message: str) -> None:
    """A wrong command line: status 2, one error and a hint on stderr, nothing on stdout."""
    assert (result.exit_code, result.stdout) == (2, "")
    error, hint = result.stderr.splitlines()
    assert error == f"error: {message}"
    assert hint.startswith("hint: ")


@pytest.mark.parametrize("path", ALL, ids=words_of)
def test_an_argument_that_is_not_utf_8_is_named(path: tuple[str, ...]) -> None:
    """Whatever the command, as an argument and as an option's value, also in one with the option's name."""
    place = len(path) + 1
    check_told(invoke(*path, BROKEN), f'argument {place} is not UTF-8: "caf\\xe9"')
    for option in ALL[path].params:
        if isinstance(option, click.Option) and not option.is_flag:
            check_told(invoke(*path, option.opts[0], BROKEN), f'argument {place + 1} is not UTF-8: "caf\\xe9"')
            joined = f"{option.opts[-1]}={BROKEN}"
            shown = f'"{option.opts[-1]}=caf\\xe9"'
            check_told(invoke(*path, joined), f"argument {place} is not UTF-8: {shown}")


def test_the_real_bytes_of_a_command_line_are_refused(tmp_path: Path) -> None:
    """In a process of its own, with bytes that are not UTF-8, there is no traceback."""
    ended = subprocess.run(
        [os.fsencode(sys.executable), b"-m", b"fireledger.runners.cli.main", b"tenant", b"create", b"caf\xe9"],
        capture_output=True,
        env={**os.environ, "FIRELEDGER_DATA": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr.startswith(b'error: argument 3 is not UTF-8: "caf\\xe9"\nhint: ')


def test_a_variable_that_stands_for_an_option_is_looked_at_too() -> None:
    """The environment's data folder, address and credentials file are named when they are not UTF-8."""
    for name in ("FIRELEDGER_DATA", "FIRELEDGER_NATS_URL", "FIRELEDGER_CREDS"):
        with pytest.raises(HintedUsageError, match=name):
            check_text([], {name: BROKEN})
    check_text(["ünïcödé", "日本", ""], {"FIRELEDGER_DATA": "/srv/données", "OTHER": BROKEN})


@pytest.mark.parametrize("path, option", SINGLE, ids=[words_of((*path, each.opts[0])) for path, each in SINGLE])
def test_an_option_that_takes_one_value_stands_once(path: tuple[str, ...], option: click.Option) -> None:
    """A second value is refused, not silently taken for the first, in either spelling, of every option there is."""
    name = option.opts[0]
    for second in ([name, "b"], [f"{option.opts[-1]}=b"] if option.opts[-1].startswith("--") else [f"{name}b"]):
        check_told(invoke(*path, name, "a", *second), f"option '{option.opts[0]}' is given more than once")


def test_what_may_be_repeated_still_may(tmp_path: Path) -> None:
    """A flag, an option that collects, and the same option before and after the command."""
    assert invoke("tenant", "list", "--json", "--json", folder=tmp_path).exit_code == 6
    dates = ("--exclude", "2026-12-25", "--exclude", "2026-12-26")
    assert invoke("trigger", "preview", "--every", "1h", "--from", "2026-12-24T22:00:00Z", "-n", "2", *dates).stdout
    assert invoke("--data", str(tmp_path), "tenant", "list", "--data", str(tmp_path)).exit_code == 6


def test_a_repeat_is_seen_before_anything_else_is_done(tmp_path: Path) -> None:
    """No file is read and nobody is asked."""
    payload = ("--payload", f"@{tmp_path}/absent", "--payload", "x")
    result = invoke("trigger", "create", "acme/t", "--cron", "@daily", "--target", "nats:x", *payload)
    check_told(result, "option '--payload' is given more than once")


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def _folder(folder: Path) -> Path:
    return folder


def _device(folder: Path) -> Path:
    del folder
    return Path("/dev/zero")


@pytest.mark.parametrize("make", [_pipe, _folder, _device], ids=["pipe", "folder", "device"])
@pytest.mark.parametrize("option, what", [("--payload", "payload file"), ("--exclude-calendar", "calendar")])
def test_only_a_regular_file_is_read(tmp_path: Path, make: Callable[[Path], Path], option: str, what: str) -> None:
    """A pipe that nobody writes to, a folder and a device are refused at once, by name."""
    path = make(tmp_path)
    result = invoke(
        "trigger", "create", "acme/t", "--cron", "@daily", "--target", "nats:x", option, f"@{path}", folder=tmp_path
    )
    assert (result.exit_code, result.stdout) == (5, "")
    assert result.stderr == (
        f'error: {what} "{path}" is not a regular file\nhint: write what it gives into a file, and name that\n'
    )


def test_a_calendar_that_is_too_large_is_refused_by_name(tmp_path: Path) -> None:
    """It is not read whole."""
    large = tmp_path / "large.ics"
    large.write_bytes(b"x" * 600_000)
    result = invoke("trigger", "preview", "--cron", "@daily", "--exclude-calendar", f"@{large}")
    assert result.exit_code == 5
    assert result.stderr.startswith(f'error: calendar "{large}" has more than 524288 bytes\nhint: ')


ASKING = [
    ("status",),
    ("tenant", "list"),
    ("trigger", "show", "acme/t"),
    ("fires", "follow", "acme"),
    ("book", "show", "a"),
]


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_an_address_alone_is_a_wrong_command_line(arguments: tuple[str, ...]) -> None:
    """Said after the command, before it, or by the environment: the credentials are missing, and nobody is asked."""
    url = ("--nats-url", "nats://127.0.0.1:9")
    runner = CliRunner(env=dict.fromkeys(("FIRELEDGER_DATA", "FIRELEDGER_NATS_URL", "FIRELEDGER_CREDS")))
    for given in ((*arguments, *url), (*url, *arguments)):
        check_told(runner.invoke(cli, given, prog_name="fireledger"), "--nats-url is given without --creds")
    environment = {"FIRELEDGER_NATS_URL": url[1]}
    result = runner.invoke(cli, arguments, prog_name="fireledger", env=environment)
    check_told(result, "--nats-url is given without --creds")


def test_an_address_with_a_data_folder_takes_that_folders_credentials(tmp_path: Path) -> None:
    """Their file is looked for there."""
    result = invoke("status", "--nats-url", "nats://127.0.0.1:9", "--data", str(tmp_path))
    assert result.exit_code == 4
    assert f'"{tmp_path}' in result.stderr
