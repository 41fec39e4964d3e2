"""The options of ``trigger create`` and ``trigger amend``, and the request they make."""

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import click

from fireledger.domain.identifiers import parse_trigger_path
from fireledger.domain.limits import PAYLOAD_BYTES_MAX

from ..control.refusals import refused
from ..json_edge import Json
from .files import read_file

_Command = TypeVar("_Command", bound=Callable[..., None])
DEFAULT = "default"
"""The word that takes an option back to its default, where the default is no value of its own."""
_RESETTABLE = frozenset({"jitter", "tolerance", "not_before", "not_after", "max_fires"})


def schedule_options(command: _Command) -> _Command:
    """What says when: shared with ``trigger preview``."""
    return _with(
        command,
        click.option(
            "--cron",
            metavar="EXPR",
            help='Cron, 5 fields or 6 with leading seconds: "0 9 * * 1-5"; or cron(...), rate(...), at(...), RRULE:...',
        ),
        click.option("--every", metavar="DURATION", help="An interval of real time: 30s, 90m, 1d."),
        click.option("--at", metavar="LOCAL", help="Once, at a local date and time: 2026-12-24T18:00."),
        click.option("--anchor", metavar="INSTANT", help="An instant that the interval's grid goes through."),
        click.option("--zone", help="Time zone of the schedule.  [the tenant's, else UTC]"),
        click.option(
            "--dialect", help="How --cron is read: unix, quartz, aws or rrule.  [unix, or as the text itself shows]"
        ),
        click.option(
            "--gap",
            type=click.Choice(["shift", "skip", "next-valid"]),
            help="A local time that does not exist: moved on, left out, or at the gap's end.  [by schedule]",
        ),
        click.option(
            "--fold",
            type=click.Choice(["first", "second", "both"]),
            help="A local time that happens twice: which pass counts.  [by schedule]",
        ),
    )


def definition_options(command: _Command) -> _Command:
    """What says where to, and what happens when something goes wrong."""
    return _with(
        command,
        click.option("--target", metavar="URL|nats:NAME", help="Who is called: an http(s) URL or a NATS executor."),
        click.option("--payload", metavar="TEXT|@FILE", help="The body of each call, at most 64 KiB.  [empty]"),
        click.option("--jitter", metavar="DURATION", help="Spread releases over this window.  [the tenant's]"),
        click.option(
            "--missed",
            type=click.Choice(["fire-all", "fire-once-now", "skip"]),
            help="Instants missed in an outage.  [fire-once-now]",
        ),
        click.option("--cap", type=int, metavar="N", help="With fire-all: the newest N fire.  [25]"),
        click.option("--horizon", metavar="DURATION", help="Older instants expire.  [1h]"),
        click.option("--tolerance", metavar="DURATION", help="How late is still on time.  [gap to the next, 5s-60s]"),
        click.option(
            "--overlap",
            type=click.Choice(["skip", "queue", "allow"]),
            help="A fire that is due while one is open.  [skip]",
        ),
        click.option("--outcome-window", metavar="DURATION", help="Without an outcome for so long: unknown.  [15m]"),
        click.option("--timeout", metavar="DURATION", help="How long one call may take.  [30s]"),
        click.option("--not-before", metavar="INSTANT", help="No instant before this one."),
        click.option("--not-after", metavar="INSTANT", help="No instant after this one."),
        click.option("--max-fires", metavar="N", help="After so many fires it is over."),
        click.option("--max-attempts", type=int, metavar="N", help="Attempts of one fire, the first included.  [5]"),
        click.option("--retry-base", metavar="DURATION", help="The wait before the second attempt.  [1m]"),
        click.option("--retry-factor", metavar="X", help="Each further wait is so many times longer.  [2]"),
        click.option("--retry-cap", metavar="DURATION", help="No wait is longer, a Retry-After included.  [1h]"),
    )


def command_options(command: _Command) -> _Command:
    """What every command about a trigger takes."""
    return _with(
        command,
        click.option("--request-id", help="Makes giving the same command again harmless for 24 hours."),
        click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object."),
    )


def _with(command: _Command, *options: Callable[[_Command], _Command]) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command


def trigger_named(path: str) -> dict[str, Json]:
    """The fields of a request that name a trigger. Raises MalformedName."""
    tenant, trigger = parse_trigger_path(path)
    return {"tenant": tenant, "trigger": trigger}


def given_options(options: Mapping[str, str | int | None]) -> dict[str, Json]:
    """The fields of a request for the options that were given. Raises ControlRefused."""
    given: dict[str, Json] = {}
    for name, value in options.items():
        if value is None:
            continue
        if name == "payload":
            given["payload_base64"] = base64.b64encode(read_payload(str(value))).decode()
        elif name in _RESETTABLE and value == DEFAULT:
            given[name] = None
        else:
            given[name] = _count(value) if name == "max_fires" else value
    return given


def read_payload(text: str) -> bytes:
    """The payload: the text itself, or a file's content for ``@FILE``. Raises ControlRefused."""
    if not text.startswith("@"):
        return text.encode()
    return read_file(
        Path(text[1:]),
        what="payload file",
        bytes_max=PAYLOAD_BYTES_MAX,
        too_large_hint="send a reference to the data instead of the data",
    )


def _count(value: str | int) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise refused(
            f'--max-fires "{text[:40]}" is not a number of fires', hint='write a number, or "default" for none'
        )
    return int(text)
