"""``fireledger tenant ceiling`` and ``trigger ceiling``: the most that may be spent in a day, a week or a month."""

from collections.abc import Callable
from typing import get_args

import click

from fireledger.domain.entries import Period
from fireledger.domain.identifiers import check_tenant

from ..control.policy_options import check_amount
from ..json_edge import Json
from .asking import Row, give
from .output import emit_json, emit_table, examples, told_again
from .place import Place, placed
from .trigger_options import command_options, trigger_named

_Body = Callable[..., None]


def _ceiling_options(command: _Body) -> _Body:
    options: tuple[Callable[[_Body], _Body], ...] = (
        click.option("--per", required=True, type=click.Choice(get_args(Period)), help="The period, in its own zone."),
        click.option("--amount", type=int, metavar="N", help="The most that may be spent, in the executor's units."),
        click.option("--remove", is_flag=True, help="Take the ceiling of this period away."),
        command_options,
        placed,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command("ceiling", epilog=examples("fireledger tenant ceiling acme --per month --amount 100000"))
@click.argument("tenant")
@_ceiling_options
def tenant_ceiling(
    *,
    tenant: str,
    per: str,
    amount: int | None,
    remove: bool,
    request_id: str | None,
    as_json: bool,
    place: Place,
) -> None:
    """Set the most that TENANT may spend in a period; once it is spent, nothing of it fires until the next begins.

    Costs are what executors report, counted from when the ceiling was set. Raising a ceiling resumes at once.
    """
    request = {"tenant": check_tenant(tenant), **_change(per, amount, remove=remove)}
    answer = give(place, "tenant.ceiling", request, request_id)
    _tell(answer, f"tenant {tenant}", as_json=as_json)


@click.command("ceiling", epilog=examples("fireledger trigger ceiling acme/nightly-report --per day --amount 500"))
@click.argument("path", metavar="TENANT/TRIGGER")
@_ceiling_options
def trigger_ceiling(
    *,
    path: str,
    per: str,
    amount: int | None,
    remove: bool,
    request_id: str | None,
    as_json: bool,
    place: Place,
) -> None:
    """Set the most that a trigger may spend in a period; once it is spent, it does not fire until the next begins.

    Costs are what executors report, counted from when the ceiling was set. Raising a ceiling resumes at once.
    """
    request = {**trigger_named(path), **_change(per, amount, remove=remove)}
    answer = give(place, "trigger.ceiling", request, request_id)
    _tell(answer, f"trigger {path}", as_json=as_json)


def _change(per: str, amount: int | None, *, remove: bool) -> dict[str, Json]:
    if (amount is None) != remove:
        raise click.UsageError("give either --amount or --remove")
    return {"per": per, "amount": None if amount is None else check_amount(amount)}


def _tell(answer: Row, what: str, *, as_json: bool) -> None:
    if as_json:
        emit_json(answer)
        return
    done = "removed" if answer.get("amount") is None else f"is {answer['amount']}"
    page = f", page {answer['page']}" if answer.get("changed") else ", as it was"
    click.echo(f"{what}: the ceiling per {answer['per']} {done}{page}{told_again(answer)}")
    click.echo(str(answer["sentence"]))
    rows = answer.get("ceilings")
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    emit_table(("per", "amount", "spent", "period_end", "resumes_at"), found, empty="there is no ceiling now")
