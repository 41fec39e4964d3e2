"""``fireledger tenant``: tenants and their settings."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from fireledger.domain.identifiers import check_tenant

from ..json_edge import Json
from .asking import Row, give, look, look_at_rows
from .output import emit_fields, emit_json, emit_table, examples
from .place import Place, place_options

_Command = TypeVar("_Command", bound=Callable[..., None])


@click.group()
def tenant() -> None:
    """Create, change and look at tenants. Each has a book of its own."""


def _settings_options(command: _Command) -> _Command:
    options = (
        click.argument("tenant"),
        click.option("--zone", help="Time zone of triggers that declare none, such as Europe/Rome.  [UTC]"),
        click.option("--quota", metavar="N/s", help="On-time fires a second, such as 100/s.  [100/s]"),
        click.option("--default-jitter", metavar="DURATION", help="Jitter window of triggers without one.  [0s]"),
        click.option("--request-id", help="Makes giving the same command again harmless for 24 hours."),
        click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object."),
        place_options,
    )
    for option in reversed(options):
        command = option(command)
    return command


@tenant.command("create", epilog=examples("fireledger tenant create acme --zone Europe/Rome --quota 200/s"))
@_settings_options
def create_tenant(
    *,
    tenant: str,
    zone: str | None,
    quota: str | None,
    default_jitter: str | None,
    request_id: str | None,
    as_json: bool,
    data: Path | None,
    nats_url: str | None,
    creds: Path | None,
) -> None:
    """Create TENANT: 1 to 63 of a-z, 0-9 and "-"."""
    request = _settings(tenant, zone, quota, default_jitter)
    answer = give(Place(data, nats_url, creds), "tenant.create", request, request_id)
    _tell(answer, "created", as_json=as_json)


@tenant.command("amend", epilog=examples("fireledger tenant amend acme --default-jitter 30s"))
@_settings_options
def amend_tenant(
    *,
    tenant: str,
    zone: str | None,
    quota: str | None,
    default_jitter: str | None,
    request_id: str | None,
    as_json: bool,
    data: Path | None,
    nats_url: str | None,
    creds: Path | None,
) -> None:
    """Change the settings of TENANT that are given. Triggers that exist keep their zone."""
    request = _settings(tenant, zone, quota, default_jitter)
    answer = give(Place(data, nats_url, creds), "tenant.amend", request, request_id)
    _tell(answer, "amended", as_json=as_json)


@tenant.command("show", epilog=examples("fireledger tenant show acme --json"))
@click.argument("tenant")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
@place_options
def show_tenant(*, tenant: str, as_json: bool, data: Path | None, nats_url: str | None, creds: Path | None) -> None:
    """Show TENANT's settings and where its book stands."""
    answer = look(Place(data, nats_url, creds), "tenant.show", {"tenant": check_tenant(tenant)})
    emit_json(answer) if as_json else emit_fields(answer)


@tenant.command("list", epilog=examples("fireledger tenant list"))
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object a line.")
@place_options
def list_tenants(*, as_json: bool, data: Path | None, nats_url: str | None, creds: Path | None) -> None:
    """List all tenants."""
    rows = look_at_rows(Place(data, nats_url, creds), "tenant.list", {})
    if as_json:
        for row in rows:
            emit_json(row)
        return
    emit_table(("tenant", "zone", "quota_per_second", "default_jitter", "triggers", "page"), rows, empty="no tenants")


def _settings(tenant: str, zone: str | None, quota: str | None, default_jitter: str | None) -> dict[str, Json]:
    given: dict[str, Json] = {"tenant": check_tenant(tenant)}
    options = {"zone": zone, "quota": quota, "default_jitter": default_jitter}
    return given | {name: value for name, value in options.items() if value is not None}


def _tell(answer: Row, verb: str, *, as_json: bool) -> None:
    if as_json:
        emit_json(answer)
        return
    done = verb if answer.get("changed") else "unchanged"
    click.echo(
        f"tenant {answer['tenant']} {done}: zone {answer['zone']}, quota {answer['quota_per_second']}/s, "
        f"default jitter {answer['default_jitter']}"
    )
