"""``fireledger fires``: what fired, what did not, and why."""

import asyncio
from contextlib import suppress
from pathlib import Path

import click

from fireledger.domain.identifiers import check_tenant, check_trigger, parse_fire_key
from fireledger.domain.instants import parse_instant

from ..control.refusals import refused
from ..errors import BrokerUnavailable
from ..json_edge import Json
from ..lifecycle import pause
from .asking import Asker, Row, asking, look, rows_of
from .output import emit_fields, emit_json, emit_table, examples, shown
from .place import Place, place_options

LIMIT_MAX = 200_000
"""Fires one listing may show: all that control keeps."""
PAGE_ROWS = 1_000
FOLLOW_WAIT_S = 5.0
RETRY_S = 0.5
RETRIES_MAX = 60
"""Half a minute without an answer ends a follow."""
_COLUMNS = ("scheduled", "trigger", "state", "cause", "lateness_ms", "delay_ms", "outcome", "attempts", "count")


@click.group()
def fires() -> None:
    """List, show and follow fires and non-fires. Every instant has an answer, and "no" always has a cause."""


@fires.command("list", epilog=examples("fireledger fires list acme/nightly-report --since 2026-11-01T00:00:00Z --json"))
@click.argument("path", metavar="TENANT[/TRIGGER]")
@click.option("--since", metavar="INSTANT", help="Scheduled at this instant or later.")
@click.option("--until", metavar="INSTANT", help="Scheduled before this instant.")
@click.option("--limit", type=int, default=100, show_default=True, help="The newest so many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@place_options
def list_fires(
    *,
    path: str,
    since: str | None,
    until: str | None,
    limit: int,
    as_json: bool,
    data: Path | None,
    nats_url: str | None,
    creds: Path | None,
) -> None:
    """List fires by scheduled instant, the newest last.

    A run of instants that did not fire for one cause is one line with a count.
    """
    if not 1 <= limit <= LIMIT_MAX:
        raise refused(f"--limit {limit} is out of bounds", hint=f"use 1 to {LIMIT_MAX}")
    request: dict[str, Json] = _named(path)
    for name, text in (("since", since), ("until", until)):
        if text is not None:
            parse_instant(text)
            request[name] = text

    async def newest(asker: Asker) -> list[Row]:
        """Ask for rows, newest first, until there are enough."""
        found: list[Row] = []
        before: Json = None
        while len(found) < limit:
            asked = {**request, "before": before, "limit": min(limit - len(found), PAGE_ROWS)}
            answer = await asker.ask("fires.list", asked)
            found.extend(rows_of(answer))
            before = answer.get("next")
            if before is None:
                break
        return found

    rows = asking(Place(data, nats_url, creds), newest)
    rows.reverse()
    if as_json:
        for row in rows:
            emit_json(row)
        return
    emit_table(_COLUMNS, rows, empty="no fires there")


@fires.command("show", epilog=examples("fireledger fires show acme/nightly-report/2026-11-30T02:00:00Z/0"))
@click.argument("key", metavar="FIRE_KEY")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
@place_options
def show_fire(*, key: str, as_json: bool, data: Path | None, nats_url: str | None, creds: Path | None) -> None:
    """Show one fire. An instant inside a run that did not fire shows that run."""
    answer = look(Place(data, nats_url, creds), "fires.show", {"key": str(parse_fire_key(key))})
    if as_json:
        emit_json(answer)
        return
    alone = ("first", "last", "count") if answer.get("count") == 1 else ()
    emit_fields(answer, skip=alone)


@fires.command("follow", epilog=examples("fireledger fires follow acme"))
@click.argument("path", metavar="TENANT[/TRIGGER]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@place_options
def follow_fires(*, path: str, as_json: bool, data: Path | None, nats_url: str | None, creds: Path | None) -> None:
    """Follow fires as they happen: a line each time one is decided, dispatched or finished. Ctrl-C ends it."""
    request = _named(path)

    async def follow(asker: Asker) -> None:
        """Ask for changes, for ever."""
        position = (await asker.ask("fires.follow", request)).get("position")
        while position is not None:
            asked = {**request, "after": position, "wait_s": FOLLOW_WAIT_S}
            answer = await _patiently(asker, asked)
            if answer.get("missed"):
                click.echo("some fires were missed: more happened than control keeps in memory", err=True)
            for row in rows_of(answer):
                emit_json(row) if as_json else click.echo(_line(row))
            position = answer.get("position")

    with suppress(KeyboardInterrupt):
        asking(Place(data, nats_url, creds), follow)


async def _patiently(asker: Asker, request: dict[str, Json]) -> Row:
    """Ask for what happened since; a restart of control or of the broker in between loses nothing."""
    never = asyncio.Event()
    for _ in range(RETRIES_MAX):
        try:
            return await asker.ask("fires.follow", request)
        except BrokerUnavailable:
            await pause(RETRY_S, never)
    return await asker.ask("fires.follow", request)


def _named(path: str) -> dict[str, Json]:
    tenant, slash, trigger = path.partition("/")
    named: dict[str, Json] = {"tenant": check_tenant(tenant)}
    return {**named, "trigger": check_trigger(trigger)} if slash else named


def _line(row: Row) -> str:
    """One change of a fire, in words."""
    lateness = row.get("lateness_ms")
    parts = [
        str(row["scheduled"]),
        f"{row['tenant']}/{row['trigger']}",
        f"{row['state']} ({row['cause']})",
        "" if row.get("count") == 1 else f"{row['count']} instants up to {row['last']}",
        f"{lateness:.1f} ms late" if isinstance(lateness, float) else "",
        _progress(row),
    ]
    return "  ".join(part for part in parts if part)


def _progress(row: Row) -> str:
    """How far a fire has come: its outcome, else what the executor answered, else whether it was called."""
    if row.get("outcome"):
        return shown(row["outcome"])
    if row.get("result"):
        return f"answered: {shown(row['result'])}"
    return "dispatched" if row.get("dispatched") else ""
