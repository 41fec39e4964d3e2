"""Ports that a data folder keeps: the same at each start, as long as it can be."""

import socket
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fireledger.runners.supervisor.kept_port import choose_port


@contextmanager
def _taken() -> Generator[int]:
    """A port that somebody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


def test_a_port_is_chosen_once(tmp_path: Path) -> None:
    """The second start has that of the first; the file is private."""
    path = tmp_path / "outcomes.json"
    port = choose_port(path)
    assert port > 0
    assert choose_port(path) == port
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_wanted_port_is_kept_for_later_starts(tmp_path: Path) -> None:
    """It wins over the kept one and takes its place, whether it is free now or not."""
    path = tmp_path / "outcomes.json"
    with _taken() as port:
        assert choose_port(path, wanted=port) == port
    assert choose_port(path) == port


def test_a_port_that_was_taken_meanwhile_is_given_up(tmp_path: Path) -> None:
    """Another is chosen and kept from then on."""
    path = tmp_path / "outcomes.json"
    with _taken() as taken:
        choose_port(path, wanted=taken)
        other = choose_port(path)
        assert other != taken
    assert choose_port(path) == other


@pytest.mark.parametrize("content", [b"", b"[]", b'{"port": 0}', b'{"port": 70000}', b'{"port": "1"}', b"\xff"])
def test_a_file_that_says_nothing_is_replaced(tmp_path: Path, content: bytes) -> None:
    """A port is chosen as at the first start."""
    path = tmp_path / "outcomes.json"
    path.write_bytes(content)
    port = choose_port(path)
    assert choose_port(path) == port


def test_ports_can_be_left_alone(tmp_path: Path) -> None:
    """A free port that others count on is passed over."""
    free = choose_port(tmp_path / "one")
    chosen = {choose_port(tmp_path / str(n), leave_alone=frozenset({free})) for n in range(20)}
    assert free not in chosen


def test_a_kept_port_that_another_now_counts_on_is_given_up(tmp_path: Path) -> None:
    """Two ports of one folder are never the same, whatever was kept."""
    path = tmp_path / "outcomes.json"
    kept = choose_port(path)
    assert choose_port(path, leave_alone=frozenset({kept})) != kept
