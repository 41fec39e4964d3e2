"""The commands about lanes, fires by hand, backfills and ceilings: what they refuse without a broker."""

import getpass
from pathlib import Path

import pytest

from tests.unit.cli.test_failures import invoke

CREATE = ("trigger", "create", "acme/t", "--every", "1h", "--target", "nats:x")
RANGE = ("--from", "2026-11-01T00:00:00Z", "--to", "2026-11-02T00:00:00Z")
KEY = "acme/t/2026-11-30T02:00:00Z/0"

REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "attempts": ((*CREATE, "--max-attempts", "0"), "--max-attempts 0 is out of bounds"),
    "base": ((*CREATE, "--retry-base", "1"), '--retry-base "1" is not a duration'),
    "factor": ((*CREATE, "--retry-factor", "0.5"), "--retry-factor 0.5 is out of bounds"),
    "cap": ((*CREATE, "--retry-cap", "2d"), '--retry-cap "2d" is out of bounds'),
    "amended factor": (("trigger", "amend", "acme/t", "--retry-factor", "x"), '--retry-factor "x" is not a factor'),
    "share": (("tenant", "amend", "acme", "--catch-up-share", "0%"), "--catch-up-share 0% is out of bounds"),
    "tenant": (("lanes", "--tenant", "Acme"), '"Acme" is not a tenant name'),
    "worst": (("lanes", "--worst", "5000"), "--worst 5000 is out of bounds"),
    "reason": (("lanes", "declare-drain", "on-time", "--until", "1h", "--why", "x" * 201), "--why has 201 characters"),
    "trigger": (("fires", "now", "acme"), '"acme" names no trigger'),
    "who": (("fires", "now", "acme/t", "--by", "x" * 65), "--by has 65 characters"),
    "key": (("fires", "release", "acme/t"), '"acme/t" is not a fire key'),
    "who cancels": (("fires", "cancel", KEY, "--by", ""), "--by is empty"),
    "amount": (("tenant", "ceiling", "acme", "--per", "day", "--amount", "-1"), "--amount -1 is out of bounds"),
    "large amount": (
        ("trigger", "ceiling", "acme/t", "--per", "day", "--amount", str(10**15 + 1)),
        f"--amount {10**15 + 1} is out of bounds",
    ),
    "from": (
        ("backfill", "preview", "acme/t", "--from", "monday", "--to", "2026-11-02T00:00:00Z"),
        '--from "monday" is not an instant',
    ),
    "crossed": (
        ("backfill", "start", "acme/t", "--from", "2026-11-02T00:00:00Z", "--to", "2026-11-01T00:00:00Z"),
        "--from 2026-11-02T00:00:00Z is not earlier than --to 2026-11-01T00:00:00Z",
    ),
    "listed": (("backfill", "preview", "acme/t", *RANGE, "-n", "10001"), "-n 10001 is out of bounds"),
    "rate": (("backfill", "start", "acme/t", *RANGE, "--rate", "0"), "--rate 0 is out of bounds"),
    "label": (("backfill", "start", "acme/t", *RANGE, "--label", "x" * 65), "--label has 65 characters"),
    "fires": (("backfill", "grant", "acme", "--fires", "-5", "--holder", "ann"), "--fires -5 is out of bounds"),
    "holder": (("backfill", "grant", "acme/t", "--fires", "5", "--holder", " "), "--holder is empty"),
}
"""Arguments and the message."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_value_is_named_with_a_hint(tmp_path: Path, name: str) -> None:
    """Before anything is sent: one error, one hint, status 5."""
    arguments, message = REFUSED[name]
    result = invoke(tmp_path / "data", *arguments)
    assert (result.exit_code, result.stdout) == (5, "")
    error, hint = result.stderr.splitlines()
    assert error == f"error: {message}"
    assert hint.startswith("hint: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("lanes", "declare-drain", "slow", "--until", "1h", "--why", "x"),
        ("lanes", "declare-drain", "on-time", "--why", "x"),
        ("tenant", "ceiling", "acme", "--per", "year", "--amount", "1"),
        ("tenant", "ceiling", "acme", "--per", "day"),
        ("trigger", "ceiling", "acme/t", "--per", "day", "--amount", "1", "--remove"),
        ("backfill", "start", "acme/t", "--from", "2026-11-01T00:00:00Z"),
        ("backfill", "grant", "acme", "--fires", "some", "--holder", "ann"),
    ],
)
def test_a_wrong_command_line_is_exit_status_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """What is missing, unknown or contradicts itself is told with where to look."""
    result = invoke(tmp_path / "data", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "hint: see fireledger " in result.stderr


def test_who_does_it_is_this_systems_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system names none, a name has to be given."""

    def nobody() -> str:
        """The system knows no name."""
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    result = invoke(tmp_path / "data", "fires", "now", "acme/t")
    assert result.exit_code == 2
    assert "missing option '--by'" in result.stderr
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    assert invoke(tmp_path / "data", "fires", "now", "acme/t").exit_code == 6
