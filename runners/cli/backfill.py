"""``fireledger backfill``: firing a range of past instants again, or for the first time, beside the fires they had."""

from collections.abc import Callable
from typing import TypeVar

import click

from fireledger.domain.identifiers import check_tenant
from fireledger.domain.limits import BACKFILL_FIRES_MAX

from ..control.policy_options import check_count, check_fires, check_name, check_rate, read_range
from ..control.policy_requests import PREVIEW_DEFAULT
from ..json_edge import Json
from .asking import Asker, Row, asking, give, look, rows_of
from .by_option import by_option
from .output import emit_fields, emit_json, emit_table, examples, shown, told_again
from .place import Place, placed
from .trigger_options import command_options, trigger_named

_RANGE = "--from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z"
_Command = TypeVar("_Command", bound=Callable[..., None])


@click.group(short_help="Fire past instants of a trigger.")
def backfill() -> None:
    """Fire past instants of a trigger, at a rate and in a lane of their own. Somebody has to grant it first."""


def _range_options(command: _Command) -> _Command:
    options: tuple[Callable[[_Command], _Command], ...] = (
        click.argument("path", metavar="TENANT/TRIGGER"),
        click.option("--from", "start", required=True, metavar="INSTANT", help="Instants at this one or later."),
        click.option("--to", "end", required=True, metavar="INSTANT", help="Instants before this one; not after now."),
        click.option("--only-missing", is_flag=True, help="Leave out the instants that have fired."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@backfill.command("preview", epilog=examples(f"fireledger backfill preview acme/nightly-report {_RANGE} --json"))
@_range_options
@click.option("-n", "count", type=int, default=PREVIEW_DEFAULT, show_default=True, help="How many are listed.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: scheduled, sequence, local.")
@placed
def preview_backfill(
    *,
    path: str,
    start: str,
    end: str,
    only_missing: bool,
    count: int,
    as_json: bool,
    place: Place,
) -> None:
    """Tell how many fires a backfill would make, and list the first. Nothing is written.

    The instants are those of the trigger's present definition. SEQUENCE is what each would get if it began now.
    """
    check_count(count)
    request = _range(path, start, end, only_missing=only_missing)

    async def preview(asker: Asker) -> tuple[Row, list[Row]]:
        """Ask for instants until there are enough or no more."""
        answer = await asker.ask("backfill.preview", {**request, "count": count})
        found = rows_of(answer)
        following = answer.get("next")
        while following is not None and len(found) < count:
            asked = {**request, "count": count - len(found), "after": following}
            more = await asker.ask("backfill.preview", asked)
            found.extend(rows_of(more))
            following = more.get("next")
        return answer, found

    answer, rows = asking(place, preview)
    for row in rows if as_json else ():
        emit_json(row)
    if not as_json:
        emit_table(("scheduled", "sequence", "local"), rows, empty="nothing is listed")
    listed = "" if len(rows) == answer.get("count") else f", {len(rows)} are listed"
    # With --json stdout holds instants only.
    instants = "1 instant" if answer.get("count") == 1 else f"{shown(answer.get('count'))} instants"
    click.echo(f"{instants} would fire{listed}", err=as_json)
    _tell_obstacles(answer)


def _tell_obstacles(answer: Row) -> None:
    """What keeps the backfill from being started as it is previewed."""
    count, granted = answer.get("count"), answer.get("granted")
    if answer.get("undecided"):
        click.echo(f"{answer['undecided']} instants of the range are not decided yet: left to the schedule", err=True)
    if not isinstance(count, int) or count <= (granted if isinstance(granted, int) else 0):
        return
    given = "nothing" if granted is None else f"{shown(granted)} fires"
    path = f"{answer['tenant']}/{answer['trigger']}"
    grant = f"fireledger backfill grant {path} --fires {count} --holder NAME"
    shorter = f"give a shorter range, one backfill can be granted {BACKFILL_FIRES_MAX} fires"
    click.echo(f"granted is {given}: {grant if count <= BACKFILL_FIRES_MAX else shorter}", err=True)


@backfill.command(
    "start",
    epilog=examples(
        f"fireledger backfill start acme/nightly-report {_RANGE} --only-missing",
        f"fireledger backfill start acme/nightly-report {_RANGE} --rate 5 --label november",
    ),
)
@_range_options
@click.option("--rate", type=int, metavar="N", help="Fires a second, at most.  [the tenant's catch-up share]")
@click.option("--label", help="What it is called in the book.  [the range]")
@by_option
@command_options
@placed
def start_backfill(
    *,
    path: str,
    start: str,
    end: str,
    only_missing: bool,
    rate: int | None,
    label: str | None,
    by: str,
    request_id: str | None,
    as_json: bool,
    place: Place,
) -> None:
    """Fire the instants of a range, each under the trigger's next run number. One backfill of a trigger at a time."""
    given: dict[str, Json] = {} if rate is None else {"rate": check_rate(rate)}
    if label is not None:
        given["label"] = check_name("--label", label)
    request = {**_range(path, start, end, only_missing=only_missing), **given, "by": check_name("--by", by)}
    answer = give(place, "backfill.start", request, request_id)
    if as_json:
        emit_json(answer)
        return
    click.echo(
        f"backfill {shown(answer['label'])} of {path} started{told_again(answer)}, page {shown(answer.get('page'))}"
    )
    click.echo(str(answer["sentence"]))
    click.echo(f"see how far it is: fireledger backfill status {path}", err=True)


@backfill.command("cancel", epilog=examples("fireledger backfill cancel acme/nightly-report"))
@click.argument("path", metavar="TENANT/TRIGGER")
@by_option
@command_options
@placed
def cancel_backfill(
    *,
    path: str,
    by: str,
    request_id: str | None,
    as_json: bool,
    place: Place,
) -> None:
    """End a backfill: what of it is not released is cancelled, the rest goes on to its outcome."""
    request: dict[str, Json] = {**trigger_named(path), "by": check_name("--by", by)}
    answer = give(place, "backfill.cancel", request, request_id)
    if as_json:
        emit_json(answer)
        return
    click.echo(
        f"backfill {shown(answer.get('label'))} of {path} cancelled{told_again(answer)}, "
        f"page {shown(answer.get('page'))}: "
        f"{shown(answer.get('released'))} fires were released, {shown(answer.get('cancelled'))} cancelled"
    )
    click.echo(shown(answer.get("sentence")))


@backfill.command("status", epilog=examples("fireledger backfill status acme/nightly-report --json"))
@click.argument("path", metavar="TENANT/TRIGGER")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
@placed
def backfill_status(*, path: str, as_json: bool, place: Place) -> None:
    """Show how far the trigger's last backfill has come: what is released, how it ended, and what is left."""
    answer = look(place, "backfill.status", trigger_named(path))
    emit_json(answer) if as_json else emit_fields(answer)


@backfill.command(
    "grant",
    epilog=examples(
        "fireledger backfill grant acme/nightly-report --fires 500 --holder ann",
        "fireledger backfill grant acme --fires 0 --holder ann",
    ),
)
@click.argument("path", metavar="TENANT[/TRIGGER]")
@click.option("--fires", type=int, required=True, metavar="N", help="At most so many in one backfill; 0 withdraws it.")
@click.option("--holder", required=True, metavar="NAME", help="Whom it is granted to, for the book.")
@command_options
@placed
def grant_backfill(
    *,
    path: str,
    fires: int,
    holder: str,
    request_id: str | None,
    as_json: bool,
    place: Place,
) -> None:
    """Grant backfills of a trigger, or of all triggers of a tenant. Without a grant there are none."""
    tenant, slash, _ = path.partition("/")
    named: dict[str, Json] = trigger_named(path) if slash else {"tenant": check_tenant(tenant)}
    request: dict[str, Json] = {**named, "fires": check_fires(fires), "holder": check_name("--holder", holder)}
    answer = give(place, "backfill.grant", request, request_id)
    if as_json:
        emit_json(answer)
        return
    what = _granted(answer)
    page = f", page {answer['page']}" if answer.get("changed") else ", as it was"
    click.echo(f"{path}: {what}, holder {shown(answer['holder'])}{page}{told_again(answer)}")


def _granted(answer: dict[str, Json]) -> str:
    if answer.get("fires") is not None:
        return f"backfills of {answer['fires']} fires at most"
    granted = answer.get("granted")
    if granted is None:
        return "no backfill is granted"
    if answer.get("trigger") is not None and answer.get("granted_to") == "tenant":
        return f"no grant of its own; the tenant's still allows backfills of {granted} fires at most"
    return f"the grant was withdrawn; since then backfills of {granted} fires at most are granted"


def _range(path: str, start: str, end: str, *, only_missing: bool) -> dict[str, Json]:
    """The fields of a request about a range. Raises ControlRefused, MalformedName."""
    read_range(start, end)
    return {**trigger_named(path), "start": start, "end": end, "only_missing": only_missing}
