"""``fireledger tz``: the time-zone databases that books go by."""

import base64
import zlib
from pathlib import Path

import click

from fireledger.domain.identifiers import check_tenant
from fireledger.domain.zones import ZoneDatabase

from ..errors import ControlRefused, ExitStatus
from ..json_edge import Json
from ..zone_files import ZoneFilesUnusable, read_zone_files
from .asking import COMMAND_ANSWER_S, Asker, Row, asking, look, rows_of
from .output import emit_json, emit_table, examples, shown
from .place import Place, place_options

INSTANTS_SHOWN = 5
"""Moved instants of a trigger that are printed; with --json up to INSTANTS_ASKED."""
INSTANTS_ASKED = 1_000
MOVED_SHOWN = 10
"""Moved triggers of a tenant that are printed."""


@click.group()
def tz() -> None:
    """Time-zone databases: which are in use, what another one would move, and adopting it."""


@tz.command("status", epilog=examples("fireledger tz status"))
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
@place_options
def zone_status(*, as_json: bool, data: Path | None, nats_url: str | None, creds: Path | None) -> None:
    """Show the stored databases and how many tenants go by each."""
    answer = look(Place(data, nats_url, creds), "tz.status", {})
    if as_json:
        emit_json(answer)
        return
    packaged, current = answer.get("packaged"), answer.get("current")
    if isinstance(packaged, dict) and isinstance(current, dict):
        click.echo(f"packaged with this release: {packaged['version']} ({str(packaged['sha256'])[:16]})")
        click.echo(f"new tenants get: {current['version']} ({str(current['sha256'])[:16]})")
    emit_table(("version", "sha256", "tenants"), rows_of(answer), empty="no database is stored")
    if answer.get("behind"):
        click.echo(f"{answer['behind']} tenants with zoned triggers go by another one than new tenants get", err=True)
        click.echo(f"hint: fireledger tz diff --to {_version(current)}", err=True)


@tz.command(
    "diff",
    epilog=examples(
        "fireledger tz diff --to 2026g",
        "fireledger tz diff --to ./tzdata-2026.7-py2.py3-none-any.whl --tenant acme --json",
    ),
)
@click.option("--to", required=True, metavar="VERSION|PATH", help="A stored version, or a tzdata folder or wheel.")
@click.option("--tenant", help="Only this tenant's triggers.  [all tenants]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, a trigger, a line, with up to 1000 instants.")
@place_options
def zone_diff(
    *, to: str, tenant: str | None, as_json: bool, data: Path | None, nats_url: str | None, creds: Path | None
) -> None:
    """List the triggers and their instants in the next 400 days that another database would move.

    A local time of a fixed-time schedule moves; of an interval-like schedule instants vanish and appear. Nothing is
    stored and nothing changes.
    """
    request = _named(to) | ({} if tenant is None else {"tenant": check_tenant(tenant)})
    request["instants"] = INSTANTS_ASKED if as_json else INSTANTS_SHOWN

    async def compare(asker: Asker) -> int:
        """Ask for triggers until there are no more, and print each."""
        count = 0
        async for row in asker.rows("tz.diff", request):
            count += 1
            emit_json(row) if as_json else _tell_changes(row)
        return count

    if not asking(Place(data, nats_url, creds), compare) and not as_json:
        click.echo("nothing would move in the next 400 days", err=True)


@tz.command(
    "adopt",
    epilog=examples("fireledger tz adopt --to 2026g", "fireledger tz adopt --to ./zoneinfo --tenant acme --yes"),
)
@click.option("--to", required=True, metavar="VERSION|PATH", help="A stored version, or a tzdata folder or wheel.")
@click.option("--tenant", help="Only in this tenant's book.  [every book with zoned triggers]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, a tenant, a line.")
@place_options
def zone_adopt(
    *,
    to: str,
    tenant: str | None,
    yes: bool,
    as_json: bool,
    data: Path | None,
    nats_url: str | None,
    creds: Path | None,
) -> None:
    """Store a database and adopt it: from then on local times are resolved with it, and what moved is recorded.

    Doing it again changes nothing. Local times that were decided are never owed again.
    """
    request = _named(to) | ({"everyone": True} if tenant is None else {"tenant": check_tenant(tenant)})
    if not yes:
        where = "every book with zoned triggers" if tenant is None else f"the book of {tenant}"
        click.confirm(f"Adopt time-zone database {to} in {where}?", abort=True, err=True)

    async def adopt(asker: Asker) -> bool:
        """Ask until all books are done, and print each."""
        whole, asked = True, request
        following: Json = ""
        while following is not None:
            answer = await asker.ask("tz.adopt", asked, timeout_s=COMMAND_ANSWER_S)
            for row in rows_of(answer):
                whole = whole and row.get("error") is None
                emit_json(row) if as_json else _tell_adopted(row, answer)
            following = answer.get("next")
            asked = {**request, "after": following}
        return whole

    if not asking(Place(data, nats_url, creds), adopt):
        raise ControlRefused(
            "adoption-incomplete",
            "some books did not adopt the database",
            hint="mend what is named above, then give the command again",
            exit_status=ExitStatus.CONFLICT,
        )


def _named(to: str) -> dict[str, Json]:
    """What control is asked for: a stored version, or the compressed bytes of the database at a path."""
    path = Path(to)
    if not path.exists():
        if "/" in to or to.endswith((".whl", ".zip")):
            raise ZoneFilesUnusable(f'"{to}" does not exist', hint="give a folder such as tzdata/zoneinfo, or a wheel")
        return {"to": to}
    database = read_zone_files(path)
    return {"packed": _compressed(database)}


def _compressed(database: ZoneDatabase) -> str:
    return base64.b64encode(zlib.compress(database.pack(), 9)).decode()


def _tell_changes(row: Row) -> None:
    click.echo(f"{row['tenant']}/{row['trigger']}  {row['schedule']}  {row['zone']}  {shown(row['count'])} instants")
    if row.get("error") is not None:
        click.echo(f"  {row['error']}")
    instants = row.get("instants")
    listed = [each for each in instants if isinstance(each, dict)] if isinstance(instants, list) else []
    for each in listed:
        click.echo(f"  {_change(each)}")
    count = row.get("count")
    if isinstance(count, int) and count > len(listed):
        click.echo(f"  and {count - len(listed)} more")


def _change(row: Row) -> str:
    match row["change"]:
        case "moves":
            return f"moves     {row['old']} ({row['old_local']}) to {row['new']} ({row['new_local']})"
        case "vanishes":
            return f"vanishes  {row['old']} ({row['old_local']})"
        case _:
            return f"appears   {row['new']} ({row['new_local']})"


def _tell_adopted(row: Row, answer: Row) -> None:
    version = shown(answer.get("version"))
    if row.get("error") is not None:
        click.echo(f"{row['tenant']}: not adopted: {row['error']}")
        return
    if not row.get("changed"):
        click.echo(f"{row['tenant']}: goes by {version} already")
        return
    click.echo(f"{row['tenant']}: adopted {version} in page {row['page']}; triggers that move: {row['moved_count']}")
    moved = row.get("moved")
    listed = [each for each in moved if isinstance(each, dict)] if isinstance(moved, list) else []
    for each in listed[:MOVED_SHOWN]:
        click.echo(f"  {each['trigger']}  next {shown(each['old'])} becomes {shown(each['new'])}")
    count = row.get("moved_count")
    if isinstance(count, int) and count > MOVED_SHOWN:
        click.echo(f"  and {count - MOVED_SHOWN} more")


def _version(database: Json) -> str:
    return str(database["version"]) if isinstance(database, dict) else "VERSION"
