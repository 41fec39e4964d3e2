"""``fireledger tenant``: tenants and their settings."""

from collections.abc import Callable, Mapping

import click

from fireledger.domain.definition import TenantSettings
from fireledger.domain.identifiers import check_tenant

from ..control.definitions import new_settings
from ..control.requests import TenantOptions, read_request
from ..json_edge import Json
from .asking import Row, give, look, look_at_rows
from .ceiling import tenant_ceiling
from .output import emit_fields, emit_json, emit_table, examples
from .place import Place, placed


@click.group(epilog=examples("fireledger tenant create acme --zone Europe/Rome", "fireledger tenant show acme"))
def tenant() -> None:
    """Create, change and look at tenants.

    A tenant owns triggers and has a book of its own, in which everything about them is written.
    """


tenant.add_command(tenant_ceiling)


def _settings_options(command: Callable[..., None]) -> Callable[..., None]:
    options = (
        click.argument("tenant"),
        click.option("--zone", help="Time zone of triggers that declare none, such as Europe/Rome.  [UTC]"),
        click.option("--quota", metavar="N/s", help="On-time fires a second, such as 100/s.  [100/s]"),
        click.option("--default-jitter", metavar="DURATION", help="Jitter window of triggers without one.  [0s]"),
        click.option("--catch-up-share", metavar="N%", help="Of the quota, for catch-up; backfill has as much.  [10%]"),
        click.option(
            "--request-id",
            metavar="ID",
            help="A name of your choice for this command: given again under it within 24 hours, it is done once.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object."),
        placed,
    )
    for option in reversed(options):
        command = option(command)
    return command


@tenant.command(
    "create",
    short_help="Create a tenant.",
    epilog=examples("fireledger tenant create acme --zone Europe/Rome --quota 200/s"),
)
@_settings_options
def create_tenant(*, tenant: str, request_id: str | None, as_json: bool, place: Place, **settings: str | None) -> None:
    """Create TENANT, a name of 1 to 63 of a-z, 0-9 and "-". In brackets is what holds without an option."""
    _tell(give(place, "tenant.create", _request(tenant, settings), request_id), "created", as_json=as_json)


@tenant.command(
    "amend",
    short_help="Change a tenant's settings.",
    epilog=examples("fireledger tenant amend acme --default-jitter 30s"),
)
@_settings_options
def amend_tenant(*, tenant: str, request_id: str | None, as_json: bool, place: Place, **settings: str | None) -> None:
    """Change the settings of TENANT that are given and keep the rest: what stands in brackets is for create.

    Triggers that exist keep their zone. Another default jitter holds for instants from now on.
    """
    _tell(give(place, "tenant.amend", _request(tenant, settings), request_id), "amended", as_json=as_json)


@tenant.command(
    "show",
    short_help="Show a tenant's settings and its book's place.",
    epilog=examples("fireledger tenant show acme --json"),
)
@click.argument("tenant")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
@placed
def show_tenant(*, tenant: str, as_json: bool, place: Place) -> None:
    """Show TENANT's settings and where its book stands: its last page, and that page's now."""
    answer = look(place, "tenant.show", {"tenant": check_tenant(tenant)})
    emit_json(answer) if as_json else emit_fields(answer)


@tenant.command("list", epilog=examples("fireledger tenant list"))
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object a line.")
@placed
def list_tenants(*, as_json: bool, place: Place) -> None:
    """List all tenants."""
    rows = look_at_rows(place, "tenant.list", {})
    if as_json:
        for row in rows:
            emit_json(row)
        return
    emit_table(("tenant", "zone", "quota_per_second", "default_jitter", "triggers", "page"), rows, empty="no tenants")


def _request(tenant: str, settings: Mapping[str, str | None]) -> dict[str, Json]:
    """The request, checked as far as that needs no book: control checks everything again."""
    given = {name: value for name, value in settings.items() if value is not None}
    request: dict[str, Json] = {"tenant": check_tenant(tenant), **given}
    new_settings(read_request(request, TenantOptions), TenantSettings())
    return request


def _tell(answer: Row, verb: str, *, as_json: bool) -> None:
    if as_json:
        emit_json(answer)
        return
    done = verb if answer.get("changed") else "unchanged"
    click.echo(
        f"tenant {answer['tenant']} {done}: zone {answer['zone']}, quota {answer['quota_per_second']}/s, "
        f"default jitter {answer['default_jitter']}, catch-up share {answer['catch_up_share']}"
    )
