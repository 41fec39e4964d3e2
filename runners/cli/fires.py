"""``fireledger fires``: what fired, what did not, and why."""

import asyncio
from contextlib import suppress

import click

from fireledger.domain.identifiers import check_tenant, check_trigger, parse_fire_key
from fireledger.domain.instants import parse_instant

from ..control.refusals import refused
from ..control.requests import read_bounds
from ..errors import BrokerUnavailable
from ..json_edge import Json
from ..lifecycle import pause
from .asking import Asker, Row, asking, look, rows_of
from .fires_by_hand import cancel_fire, fire_now, release_fire
from .following import RETRY_S, WAIT_S, Patience
from .output import emit_fields, emit_json, emit_table, examples, shortened, shown
from .place import Place, placed

LIMIT_MAX = 200_000
"""Fires one listing may show: all that control keeps."""
PAGE_ROWS = 1_000
GIVE_UP_S = 30.0
"""Without an answer for so long a follow ends."""
MESSAGE_SHOWN_MAX = 60
"""Characters of a message in the listing."""
_COLUMNS = (
    "scheduled", "trigger", "state", "cause", "lane", "over_quota", "lateness_ms", "delay_ms", "outcome", "attempts",
    "retry_at", "cost", "count", "message",
)  # fmt: skip
_SPARE = frozenset(_COLUMNS) - {"scheduled", "trigger", "state", "cause", "outcome"}
"""Left out where they say nothing."""


@click.group(
    epilog=examples(
        "fireledger fires list acme --since 2026-11-30T00:00:00Z",
        "fireledger fires show acme/nightly-report/2026-11-30T02:00:00Z/0",
    )
)
def fires() -> None:
    """List, show and follow fires and non-fires.

    A trigger is due at scheduled instants. Each of them ends as a fire (somebody is called) or as a non-fire with its
    cause, so every instant has an answer. A fire's key is TENANT/TRIGGER/INSTANT/NUMBER: number 0 is the scheduled
    fire, higher ones are fires by hand and backfills.
    """


fires.add_command(fire_now)
fires.add_command(release_fire)
fires.add_command(cancel_fire)


@fires.command(
    "list",
    short_help="List fires and non-fires, oldest first.",
    epilog=examples(
        "fireledger fires list acme                            the newest 100 of all triggers",
        "fireledger fires list acme/nightly-report --since 2026-11-01T00:00:00Z --until 2026-12-01T00:00:00Z --json",
    ),
)
@click.argument("path", metavar="TENANT[/TRIGGER]")
@click.option("--since", metavar="INSTANT", help="Scheduled at this instant or later: 2026-11-30T09:00:00Z.")
@click.option("--until", metavar="INSTANT", help="Scheduled before this instant, which must not be before --since.")
@click.option("--limit", type=int, metavar="N", default=100, show_default=True, help="At most so many, the newest.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@placed
def list_fires(
    *,
    path: str,
    since: str | None,
    until: str | None,
    limit: int,
    as_json: bool,
    place: Place,
) -> None:
    """List the fires and non-fires of TENANT, or of one of its triggers, by scheduled instant, the newest last.

    STATE is "fired", "waiting" for its release, "held" for a person, or why the instant did not fire: skipped,
    coalesced (into another one), dropped, expired, cancelled; CAUSE says by which rule. LATENESS is from the scheduled
    instant to the call, DELAY from the release (the scheduled instant plus jitter) to the call. OUTCOME is what the
    executor made of it, empty while it is open. Many instants that did not fire for one cause are one line with a
    COUNT. A column that would say nothing is left out, and long messages are cut: fires show has them whole.
    """
    if not 1 <= limit <= LIMIT_MAX:
        raise refused(f"--limit {limit} is out of bounds", hint=f"use 1 to {LIMIT_MAX}")
    read_bounds(since, until)
    bounds = {name: text for name, text in (("since", since), ("until", until)) if text is not None}
    request: Row = {**_named(path), **bounds}
    rows, complete_since = asking(place, lambda asker: _newest(asker, request, limit))
    for row in rows if as_json else ():
        emit_json(row)
    if not as_json:
        emit_table(_COLUMNS, table_lines(rows), empty="no fires there", spare=_SPARE)
    if isinstance(complete_since, str) and (since is None or parse_instant(since) < parse_instant(complete_since)):
        click.echo(
            f"of fires scheduled before {complete_since} not all are listed: control keeps the newest only; "
            f"every one is in the book: fireledger book show {request['tenant']}",
            err=True,
        )


def table_lines(rows: list[Row]) -> list[Row]:
    """Rows for the table: without a delay where it is the lateness everywhere, and without a count of one."""
    same = all(row.get("delay_ms") == row.get("lateness_ms") for row in rows)
    return [
        {
            **row,
            "delay_ms": None if same else row.get("delay_ms"),
            "count": None if row.get("count") == 1 else row.get("count"),
            "message": shortened(shown(row["message"]), MESSAGE_SHOWN_MAX) if row.get("message") else None,
        }
        for row in rows
    ]


async def _newest(asker: Asker, request: Row, limit: int) -> tuple[list[Row], Json]:
    """The newest rows, oldest first; and since when they are complete, if the list ends where control's memory does."""
    found: list[Row] = []
    before: Json = None
    while len(found) < limit:
        asked = {**request, "before": before, "limit": min(limit - len(found), PAGE_ROWS)}
        answer = await asker.ask("fires.list", asked)
        found.extend(rows_of(answer))
        before = answer.get("next")
        if before is None:
            return found[::-1], answer.get("complete_since")
    return found[::-1], None


@fires.command(
    "show",
    short_help="Show one fire, or why an instant did not fire.",
    epilog=examples("fireledger fires show acme/nightly-report/2026-11-30T02:00:00Z/0"),
)
@click.argument("key", metavar="FIRE_KEY")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
@placed
def show_fire(*, key: str, as_json: bool, place: Place) -> None:
    """Show one fire, or why an instant did not fire.

    FIRE_KEY is TENANT/TRIGGER/INSTANT/NUMBER, number 0 for the scheduled fire. Of an instant that did not fire
    together with others, all of them are shown as one: first, last and count. An instant that the trigger never had
    is exit status 3.
    """
    answer = look(place, "fires.show", {"key": str(parse_fire_key(key))})
    if as_json:
        emit_json(answer)
        return
    alone = ("first", "last", "count") if answer.get("count") == 1 else ()
    emit_fields(answer, skip=alone)


@fires.command(
    "follow",
    short_help="Print fires as they happen.",
    epilog=examples(
        "fireledger fires follow acme",
        "fireledger fires follow acme/nightly-report --json",
    ),
)
@click.argument("path", metavar="TENANT[/TRIGGER]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@placed
def follow_fires(*, path: str, as_json: bool, place: Place) -> None:
    """Print fires as they happen: a line each time one is decided, dispatched or finished. Ctrl-C ends it.

    It begins with what happens from now on; for what was before, see fires list. Restarts of control in between are
    waited out, up to half a minute, and nothing is missed by them.
    """
    request = _named(path)

    async def follow(asker: Asker) -> None:
        """Ask for changes, for ever."""
        patience = Patience()
        position = (await asker.ask("fires.follow", request)).get("position")
        while position is not None:
            asked = {**request, "after": position, "wait_s": WAIT_S}
            answer = await _patiently(asker, asked, patience)
            if answer.get("missed"):
                click.echo(
                    f"some fires were missed: control did not keep all; list them: fireledger fires list {path}",
                    err=True,
                )
            for row in rows_of(answer):
                emit_json(row) if as_json else click.echo(_line(row))
            position = answer.get("position")

    with suppress(KeyboardInterrupt):
        asking(place, follow)


async def _patiently(asker: Asker, request: dict[str, Json], patience: Patience) -> Row:
    """Ask for what happened since; a restart of control or of the broker in between loses nothing."""
    never, loop = asyncio.Event(), asyncio.get_running_loop()
    give_up_at = loop.time() + GIVE_UP_S
    while True:
        try:
            answer = await asker.ask("fires.follow", request, timeout_s=patience.timeout_s)
        except BrokerUnavailable as error:
            if loop.time() >= give_up_at:
                raise
            patience.failed(error)
            await pause(RETRY_S, never)
        else:
            patience.answered()
            return answer


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
    """How far a fire has come: its outcome, when it is tried again, what was answered, whether it was called."""
    if row.get("outcome"):
        return shown(row["outcome"])
    if row.get("retry_at"):
        return f"again at {row['retry_at']}"
    if row.get("result"):
        return f"answered: {shown(row['result'])}"
    return "dispatched" if row.get("dispatched") else ""
