"""Logs: one constant ``action`` and its fields a line, on stderr. The only module that imports structlog.

Lines are for people on a terminal and JSON otherwise. What could hold a tenant's payload or a secret
never gets into a line: fields by those names are withheld, bytes become their length, and objects
their type's name.
"""

import logging
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import PurePath
from typing import Protocol, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor

from .json_edge import Jsonable, dumps_text

WITHHELD_WORDS = frozenset({"payload", "password", "credentials", "creds", "secret", "token"})
"""A field whose name's last word is one of these shows no value."""
WITHHELD = "[withheld]"
FIELD_DEPTH_MAX = 4
"""Nesting of a field's value that is shown."""
FIELD_ITEMS_MAX = 50
"""Items of a list or mapping in one field that are shown."""
_OWN_KEYS = frozenset({"at", "level", "action", "event"})
FIELD_TEXT_MAX = 2_000
"""Characters of one text that are shown; a traceback is exempt."""


class Log(Protocol):
    """A named log. ``action`` is a constant in kebab-case, values are fields; ``exc_info`` takes an exception."""

    def debug(self, action: str, /, **fields: object) -> None:
        """Detail for whoever builds the system."""
        ...

    def info(self, action: str, /, **fields: object) -> None:
        """Something normal happened."""
        ...

    def warning(self, action: str, /, **fields: object) -> None:
        """Something to look at some day."""
        ...

    def error(self, action: str, /, **fields: object) -> None:
        """Somebody must act now."""
        ...


class _NamedLog:
    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, action: str, /, **fields: object) -> None:
        self._write(logging.DEBUG, action, fields)

    def info(self, action: str, /, **fields: object) -> None:
        self._write(logging.INFO, action, fields)

    def warning(self, action: str, /, **fields: object) -> None:
        self._write(logging.WARNING, action, fields)

    def error(self, action: str, /, **fields: object) -> None:
        self._write(logging.ERROR, action, fields)

    def _write(self, level: int, action: str, fields: dict[str, object]) -> None:
        if not structlog.is_configured():
            configure_logs("fireledger")
        logger: structlog.typing.FilteringBoundLogger = structlog.get_logger()
        # Nobody reads stderr any more when whoever started this process is gone; it must still drain.
        with suppress(BrokenPipeError):
            # Not as arguments: a field may have the name of one.
            logger.log(level, action, fields={"log": self._name, **fields})


def _spread(_logger: object, _method: str, line: EventDict) -> EventDict:
    """Put the fields beside the line's own keys; one that would take such a key's place gets a name beside it."""
    fields = cast("dict[str, object]", line.pop("fields"))
    return {**line, **{f"{name}_" if name in _OWN_KEYS else name: value for name, value in fields.items()}}


class _LibraryHandler(logging.Handler):
    """Carries what libraries say through the standard logging module into the same lines."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        fields: dict[str, object] = {"text": record.getMessage()}
        if error is not None:
            fields["exc_info"] = error
        write = get_log(record.name)
        (write.error if record.levelno >= logging.ERROR else write.warning)("library-message", **fields)


def get_log(name: str) -> Log:
    """Return the log of a module or concern; safe at import, before ``configure_logs``."""
    return _NamedLog(name)


def configure_logs(runner: str, *, level: str = "info", stream: TextIO | None = None) -> None:
    """Send this process's logs to ``stream`` (stderr by default): human on a terminal, JSON lines otherwise.

    ``runner`` is on every line. ``level`` is debug, info, warning or error; raises KeyError for another.
    Warnings of libraries arrive too, as ``library-message``.
    """
    threshold = {"debug": 10, "info": 20, "warning": 30, "error": 40}[level]

    def name_runner(_logger: object, _method: str, fields: EventDict) -> EventDict:
        return {"runner": runner, **fields}

    processors: list[Processor] = [
        _spread,
        name_runner,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.EventRenamer("action"),
        withhold,
        *_renderers(human=(stream or sys.stderr).isatty()),
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        # Looked up at each line: whoever redirects stderr later means the logs too.
        logger_factory=lambda *_: structlog.WriteLogger(stream or sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_LibraryHandler()], level=max(threshold, logging.WARNING), force=True)


def _renderers(*, human: bool) -> list[Processor]:
    if human:
        # The plain formatter: the rich one prints local variables, and with them payloads.
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(exception_formatter=plain, event_key="action", timestamp_key="at")]
    return [structlog.processors.format_exc_info, _json_line]


def _json_line(_logger: object, _method: str, fields: EventDict) -> str:
    first = ("at", "level", "runner", "log", "action")
    ordered = {key: fields[key] for key in first if key in fields}
    line: Mapping[str, Jsonable] = {**ordered, **fields}
    return dumps_text(line)


def withhold(_logger: object, _method: str, fields: EventDict) -> EventDict:
    """Replace whatever a log line must not show, and name those fields in ``withheld``."""
    shown: EventDict = {}
    names: list[str] = []
    for name, value in fields.items():
        shown[name] = value if name == "exc_info" else _shown(name, value, names, FIELD_DEPTH_MAX)
    if names:
        shown["withheld"] = sorted(set(names))
    return shown


def _shown(name: str, value: object, names: list[str], depth: int) -> Jsonable:
    if name.lower().replace("-", "_").rsplit("_", 1)[-1] in WITHHELD_WORDS:
        names.append(name)
        return WITHHELD
    if isinstance(value, Mapping):
        if depth == 0:
            return "{…}"
        few = list(cast("Mapping[object, object]", value).items())[:FIELD_ITEMS_MAX]
        return {str(key): _shown(str(key), item, names, depth - 1) for key, item in few}
    if isinstance(value, (list, tuple, set, frozenset)):
        if depth == 0:
            return "[…]"
        members = list(cast("Iterable[object]", value))
        return [_shown("", item, names, depth - 1) for item in members[:FIELD_ITEMS_MAX]]
    return _scalar(value)


def _scalar(value: object) -> Jsonable:
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, int):
        return value if abs(value) < 2**63 else str(value)
    if isinstance(value, (bytes, bytearray)):
        return f"<{len(value)} bytes>"
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"[:FIELD_TEXT_MAX]
    if isinstance(value, (str, PurePath)):
        return str(value)[:FIELD_TEXT_MAX]
    return f"<{type(value).__name__}>"
