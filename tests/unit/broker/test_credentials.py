"""Credentials: made once, kept private, never shown."""

import stat
from pathlib import Path

import pytest

from fireledger.runners.broker.credentials import (
    Credentials,
    credentials_path,
    ensure_credentials,
    ensure_report_key,
    load_credentials,
    load_report_key,
)
from fireledger.runners.errors import FolderUnusable


def test_credentials_are_made_once_and_kept(tmp_path: Path) -> None:
    """The same folder gives the same passwords; every user has another, of at least 32 bytes."""
    folder = tmp_path / "credentials"
    made = ensure_credentials(folder, ["control", "scheduler"])
    assert ensure_credentials(folder, ["scheduler", "control"]) == made
    passwords = {credentials.password for credentials in made.values()}
    assert len(passwords) == 2
    assert all(len(password) >= 64 for password in passwords)
    path = credentials_path(folder, "control")
    assert load_credentials(path) == made["control"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_password_is_not_shown() -> None:
    """Neither repr nor str of credentials has it."""
    credentials = Credentials("control", "secret-word")
    assert "secret-word" not in f"{credentials!r} {credentials}"
    assert credentials.inbox_prefix == "_INBOX_control"


@pytest.mark.parametrize("text", ["not json", "[]", '{"user":"control"}', '{"user":1,"password":"x"}'])
def test_a_malformed_file_is_refused_without_its_content(tmp_path: Path, text: str) -> None:
    """The error names the file and nothing from inside."""
    path = tmp_path / "control.json"
    path.write_text(text)
    with pytest.raises(FolderUnusable, match=r"control\.json") as refused:
        load_credentials(path)
    assert refused.value.hint


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    """The error says what to name instead."""
    with pytest.raises(FolderUnusable, match="cannot be read") as refused:
        load_credentials(tmp_path / "absent.json")
    assert "--creds" in refused.value.hint


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    """A file in the place of the credentials folder is told."""
    (tmp_path / "credentials").write_text("")
    with pytest.raises(FolderUnusable, match="cannot be made"):
        ensure_credentials(tmp_path / "credentials", ["control"])


def test_a_report_key_is_made_once_and_kept(tmp_path: Path) -> None:
    """32 bytes that nobody else may read; another folder has another."""
    path, other = tmp_path / "report-key", tmp_path / "other"
    ensure_report_key(path)
    ensure_report_key(other)
    key = load_report_key(path)
    ensure_report_key(path)
    assert load_report_key(path) == key
    assert len(key) == 32
    assert key != load_report_key(other)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"abc", b"g" * 64, b"0" * 63, b"0" * 66, b"\xff" * 64, b"0 " * 32])
def test_a_malformed_report_key_is_refused_without_its_content(tmp_path: Path, content: bytes) -> None:
    """Also by what would make one: a key that is lost is not replaced in silence."""
    path = tmp_path / "report-key"
    path.write_bytes(content)
    for use in (load_report_key, ensure_report_key):
        with pytest.raises(FolderUnusable, match="report-key") as refused:
            use(path)
        assert "--report-key" in refused.value.hint
        assert len(content) < 3 or content.decode("latin-1") not in f"{refused.value} {refused.value.hint}"
    assert path.read_bytes() == content


def test_an_absent_report_key_is_refused(tmp_path: Path) -> None:
    """The error says how to make one."""
    with pytest.raises(FolderUnusable, match="cannot be read") as refused:
        load_report_key(tmp_path / "absent")
    assert "openssl" in refused.value.hint
