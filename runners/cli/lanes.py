"""``fireledger lanes``: how far each lane is behind, how fast it drains, and declaring that this is expected."""

from typing import get_args

import click

from fireledger.domain.entries import Lane
from fireledger.domain.identifiers import check_tenant

from ..control.policy_options import check_reason, check_worst
from ..control.policy_requests import WORST_DEFAULT
from ..errors import ControlRefused, ExitStatus
from ..json_edge import Json
from .asking import COMMAND_ANSWER_S, Asker, Row, asking, look, merged, rows_of
from .output import NOTHING, emit_json, emit_table, examples, shown
from .place import Place, placed

_COLUMNS = (
    "lane", "tenant", "waiting", "stopped", "age", "released", "undispatched", "over_quota", "starts_per_minute",
    "drain_per_s", "ends", "declared",
)  # fmt: skip
_SPARE = frozenset({"stopped", "over_quota", "ends", "declared"})
"""Left out where they say nothing."""
ALL = "(all)"
"""What stands for all tenants together."""


@click.group(
    invoke_without_command=True,
    short_help="Show how far each lane is behind, and say so.",
    epilog=examples(
        "fireledger lanes", "fireledger lanes --tenant acme --json", "fireledger lanes declare-drain --help"
    ),
)
@click.option("--tenant", help="Only this tenant's lanes.")
@click.option("--worst", type=int, default=WORST_DEFAULT, show_default=True, metavar="N", help="The N worst tenants.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, a lane, a line.")
@placed
def lanes(*, tenant: str | None, worst: int, as_json: bool, place: Place) -> None:
    """Show what waits in each lane, of all tenants together and of the worst ones.

    WAITING fires are decided and not released, AGE is for how long the oldest has been due. STOPPED ones of them go on
    only with their trigger: it is paused, suspended or in quarantine, or has open fires in the way; trigger show tells.
    RELEASED ones are not started, UNDISPATCHED is for how long the oldest has been so. Rates are those of the last
    minute; ENDS is when the rest is gone if it goes on like that. A backfill has up to 1,000 fires in its lane at a
    time: backfill status tells about all. A column that would say nothing is left out.
    """
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        context.obj = merged(place)
        return
    request: dict[str, Json] = {"worst": check_worst(worst)}
    if tenant is not None:
        request["tenant"] = check_tenant(tenant)
    rows = rows_of(look(place, "lanes.show", request))
    if as_json:
        for row in rows:
            emit_json(row)
        return
    emit_table(_COLUMNS, [_line(row) for row in rows], empty="no lanes", spare=_SPARE)


def _line(row: Row) -> Row:
    drain = row.get("drain")
    return {
        **row,
        "tenant": row.get("tenant") or ALL,
        "age": _seconds(row.get("waiting_age_s")),
        "undispatched": _seconds(row.get("released_age_s")),
        "ends": row.get("ends") if row.get("waiting") or row.get("released") else None,
        "declared": _drain(drain) if isinstance(drain, dict) else None,
    }


def _seconds(value: Json) -> str:
    return f"{value:.1f} s" if isinstance(value, int | float) else NOTHING


def _drain(drain: Row) -> str:
    tenants = f" in {drain['tenants']} books" if "tenants" in drain else ""
    return f"until {drain['until']}{tenants}: {shown(drain['why'])}"


@lanes.command(
    "declare-drain",
    epilog=examples(
        'fireledger lanes declare-drain catch-up --until 2h --why "catching up after the move"',
        'fireledger lanes declare-drain backfill --until 2026-12-01T06:00:00Z --why "invoices of 2025 again"',
    ),
)
@click.argument("lane", type=click.Choice(get_args(Lane)))
@click.option("--until", required=True, metavar="INSTANT|DURATION", help="Until when it is behind: at most 7d.")
@click.option("--why", required=True, metavar="TEXT", help="The reason, on one line.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, a tenant, a line.")
@placed
def declare_drain(*, lane: str, until: str, why: str, as_json: bool, place: Place) -> None:
    """Note in every tenant's book that a lane is expected to be behind: status is silent about this lane until then.

    Giving it again changes nothing where the same is noted already. A lane comes first in importance: on-time,
    catch-up or backfill.
    """
    check_reason(why)
    request: Row = {"lane": lane, "until": until, "why": why}

    async def declare(asker: Asker) -> tuple[list[Row], Json]:
        """Ask until all books are done, and tell how far it is."""
        rows: list[Row] = []
        asked = request
        following: Json = ""
        ends: Json = None
        while following is not None:
            answer = await asker.ask("lanes.declare-drain", asked, timeout_s=COMMAND_ANSWER_S)
            rows.extend(rows_of(answer))
            ends, following = answer.get("until"), answer.get("next")
            # From the first answer on an instant: a duration would be another instant each time.
            asked = {**request, "until": ends, "after": following}
            if following is not None:
                click.echo(f"{len(rows)} books so far", err=True)
        return rows, ends

    rows, ends = asking(place, declare)
    for row in rows:
        if as_json:
            emit_json(row)
        elif row.get("error") is not None:
            click.echo(f"{row['tenant']}: not declared: {shown(row['error'])}", err=True)
    _tell_declared(rows, lane, shown(ends), as_json=as_json)


def _tell_declared(rows: list[Row], lane: str, ends: str, *, as_json: bool) -> None:
    failed = sum(row.get("error") is not None for row in rows)
    changed = sum(row.get("changed") is True for row in rows)
    done = f"lane {lane} is declared to be behind until {ends}: {changed} books changed, {len(rows) - changed} not"
    click.echo(done, err=as_json)
    if failed:
        raise ControlRefused(
            "declaration-incomplete",
            f"{failed} books did not take the declaration",
            hint="mend what is named above, then give the command again",
            exit_status=ExitStatus.CONFLICT,
        )
