"""``fireledger book``: the pages of a tenant's book, readable."""

from pathlib import Path

import click

from fireledger.domain.identifiers import check_tenant

from ..control.refusals import refused
from ..json_edge import Json
from .asking import Asker, Row, asking, rows_of
from .output import emit_json, examples, shown
from .place import Place, place_options


@click.group()
def book() -> None:
    """Look at books: the chain of pages that everything follows from."""


@book.command("show", epilog=examples("fireledger book show acme --from 17"))
@click.argument("tenant")
@click.option("--from", "first", type=int, default=1, show_default=True, metavar="PAGE", help="The first page shown.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, a page, a line.")
@place_options
def show_book(
    *, tenant: str, first: int, as_json: bool, data: Path | None, nats_url: str | None, creds: Path | None
) -> None:
    """Show the pages of TENANT's book with their entries, pages without effect too. Payloads are not shown."""
    check_tenant(tenant)
    if first < 1:
        raise refused(f"--from {first} is no page", hint="pages are numbered from 1")

    async def show(asker: Asker) -> None:
        """Ask for pages until there are no more, and print each as soon as it is whole."""
        held: Row | None = None
        place: Json = {"page": first, "entry": 0}
        while isinstance(place, dict):
            answer = await asker.ask("book.show", {"tenant": tenant, **place})
            for row in rows_of(answer):
                if held is not None and held["page"] == row["page"]:
                    _join(held, row)
                    continue
                if held is not None:
                    _emit(held, as_json=as_json)
                held = row
            place = answer.get("next")
        if held is not None:
            _emit(held, as_json=as_json)
        elif not as_json:
            click.echo(f"the book of {tenant} has no page {first}", err=True)

    asking(Place(data, nats_url, creds), show)


def _join(held: Row, rest: Row) -> None:
    """A large page comes in several answers."""
    entries, more = held["entries"], rest["entries"]
    if isinstance(entries, list) and isinstance(more, list):
        entries.extend(more)


def _emit(page: Row, *, as_json: bool) -> None:
    if as_json:
        emit_json({name: value for name, value in page.items() if name != "first_entry"})
        return
    effect = "" if page["effective"] else "  NO EFFECT: stamped outside its writer's bounds"
    click.echo(f"page {page['page']}  {page['now']}  {page['command']}  by {page['owner']}{effect}")
    click.echo(f"  stamped {page['stamped_at']}  sequence {page['sequence']}  sha256 {str(page['sha256'])[:16]}…")
    entries = page["entries"]
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict):
            fields = {name: value for name, value in entry.items() if name != "topic"}
            click.echo(f"  {entry['topic']}  {shown(fields)}")
