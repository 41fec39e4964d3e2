"""Logs: constant actions with fields, for people or machines, and never a payload."""

import asyncio
import logging
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

from fireledger.runners.errors import ExitStatus
from fireledger.runners.json_edge import Json, loads
from fireledger.runners.logs import WITHHELD, configure_logs, get_log

SECRET = "tell-nobody"


class Terminal(StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@dataclass
class Definition:
    """An object whose representation shows its payload."""

    payload: str


def lines(stream: StringIO) -> list[dict[str, Json]]:
    """The JSON lines written so far."""
    read = [loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in read if isinstance(line, dict)]


def test_a_line_has_action_runner_level_instant_and_fields() -> None:
    """Off a terminal a line is one JSON object, its fixed keys first."""
    stream = StringIO()
    configure_logs("scheduler", stream=stream)
    get_log("leases").info("partition-gained", partition=7, folder=Path("/x"), status=ExitStatus.OK, both=(1, None))
    (line,) = lines(stream)
    assert list(line)[:5] == ["at", "level", "runner", "log", "action"]
    assert str(line.pop("at")).endswith("Z")
    assert line == {
        "level": "info",
        "runner": "scheduler",
        "log": "leases",
        "action": "partition-gained",
        "partition": 7,
        "folder": "/x",
        "status": "0",
        "both": [1, None],
    }


@pytest.mark.parametrize("name", ["at", "level", "action", "event", "log", "runner", "self", "name", "method_name"])
def test_no_field_name_breaks_a_line(name: str) -> None:
    """Whatever a field is called, the line is written, with its value and all keys of its own."""
    stream = StringIO()
    configure_logs("scheduler", stream=stream)
    get_log("scheduler").warning("something-changed", **{name: 4})
    (line,) = lines(stream)
    assert list(line)[:5] == ["at", "level", "runner", "log", "action"]
    assert (line["level"], line["action"]) == ("warning", "something-changed")
    assert line.get(f"{name}_", line.get(name)) == 4


def test_lines_below_the_level_are_dropped() -> None:
    """At warning, information is dropped and errors are kept; an unknown level is refused."""
    stream = StringIO()
    configure_logs("control", level="warning", stream=stream)
    log = get_log("x")
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    assert [line["action"] for line in lines(stream)] == ["c", "d"]
    with pytest.raises(KeyError):
        configure_logs("control", level="loud", stream=stream)


@pytest.mark.parametrize("stream", [StringIO(), Terminal()])
def test_payloads_and_secrets_never_appear(stream: StringIO) -> None:
    """Named fields at any depth, bytes, and objects that would print themselves show nothing, on either renderer."""
    configure_logs("dispatcher", stream=stream)
    get_log("x").info(
        "attempt-made",
        payload=SECRET,
        nats_password=SECRET,
        Credentials=SECRET,
        body=SECRET.encode(),
        definition=Definition(SECRET),
        nested={"trigger": [{"payload": SECRET}], "deep": {"a": {"b": {"c": {"d": SECRET}}}}},
        payload_bytes=11,
    )
    text = stream.getvalue()
    assert SECRET not in text
    assert WITHHELD in text
    assert "<11 bytes>" in text
    assert "<Definition>" in text
    assert "withheld" in text


def test_withheld_fields_are_named() -> None:
    """A line says which of its fields it withheld."""
    stream = StringIO()
    configure_logs("dispatcher", stream=stream)
    get_log("x").info("attempt-made", payload=SECRET, key="acme/a")
    (line,) = lines(stream)
    assert (line["payload"], line["withheld"], line["key"]) == (WITHHELD, ["payload"], "acme/a")


@pytest.mark.parametrize("stream", [StringIO(), Terminal()])
def test_a_traceback_shows_no_local_variables(stream: StringIO) -> None:
    """An exception is logged with its traceback and without the values of variables."""
    configure_logs("dispatcher", stream=stream)
    payload = SECRET[:4] + SECRET[4:]
    try:
        payload.index("x")
    except ValueError as error:
        get_log("x").error("failed", exc_info=error)
    assert "ValueError" in stream.getvalue()
    assert "test_logs.py" in stream.getvalue()
    assert SECRET not in stream.getvalue()


def test_a_person_gets_readable_lines() -> None:
    """On a terminal a line is not JSON and shows action and fields."""
    stream = Terminal()
    configure_logs("up", stream=stream)
    get_log("broker").warning("broker-restarted", attempt=2)
    assert not stream.getvalue().startswith("{")
    assert "broker-restarted" in stream.getvalue()


def test_a_reader_that_left_stops_nothing() -> None:
    """A log line that nobody can read any more is dropped without an error."""

    class Gone(StringIO):
        def write(self, text: str, /) -> int:
            raise BrokenPipeError(text)

    configure_logs("up", stream=Gone())
    get_log("x").error("failed")


def test_without_a_stream_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """The default stream is stderr, and stdout stays clean."""
    configure_logs("up")
    get_log("x").info("started")
    captured = capsys.readouterr()
    assert (captured.out, '"action":"started"' in captured.err) == ("", True)


def test_warnings_of_libraries_become_lines() -> None:
    """What a library logs at warning or above arrives as library-message; below that it does not."""
    stream = StringIO()
    configure_logs("up", stream=stream)
    logging.getLogger(asyncio.__name__).warning("slow %s", "callback")
    logging.getLogger(asyncio.__name__).info("nothing")
    (line,) = lines(stream)
    assert (line["action"], line["log"], line["text"]) == ("library-message", "asyncio", "slow callback")
