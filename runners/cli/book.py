"""``fireledger book``: the pages of a tenant's book, readable."""

from collections.abc import Iterator

import click

from fireledger.domain.identifiers import check_tenant

from ..control.refusals import refused
from ..json_edge import Json
from .asking import Asker, Row, asking, rows_of
from .output import emit_json, examples, shown
from .place import Place, placed


@click.group(epilog=examples("fireledger book show acme --from 17"))
def book() -> None:
    """Look at a tenant's book: the chain of pages that everything follows from.

    Each page holds what was written at once, by a command or by a scheduler's decision: its entries.
    """


@book.command(
    "show",
    short_help="Show the pages of a tenant's book.",
    epilog=examples(
        "fireledger book show acme                             from the first page on",
        "fireledger book show acme --from 17 --json",
    ),
)
@click.argument("tenant")
@click.option(
    "--from",
    "first",
    type=int,
    default=1,
    show_default=True,
    metavar="PAGE",
    help="The first page shown; later ones follow.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, a page, a line.")
@placed
def show_book(*, tenant: str, first: int, as_json: bool, place: Place) -> None:
    """Show the pages of TENANT's book with their entries. Payloads are not shown.

    Of each page: its number, its now (the instant at which it decides), the command, who wrote it and who asked for
    it, when the broker stamped it, and its hash, which the next page repeats. A page that was stamped too far from its
    writer's clock stands in the book and has no effect. A page beyond the last one is exit status 3.
    """
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

    asking(place, show)


def _join(held: Row, rest: Row) -> None:
    """A large page comes in several answers."""
    entries, more = held["entries"], rest["entries"]
    if isinstance(entries, list) and isinstance(more, list):
        entries.extend(more)


def _emit(page: Row, *, as_json: bool) -> None:
    if as_json:
        emit_json({name: value for name, value in page.items() if name != "first_entry"})
        return
    for line in page_lines(page):
        click.echo(line)


def page_lines(page: Row) -> Iterator[str]:
    """A page as people read it: where and when, its stamp and hash, then an entry a line."""
    effect = "" if page["effective"] else "  NO EFFECT: stamped outside its writer's bounds"
    asked = f", asked by {shown(page['asked_by'])}" if page.get("asked_by") else ""
    yield f"page {page['page']}  {page['now']}  {page['command']}  by {page['owner']}{asked}{effect}"
    yield f"  stamped {page['stamped_at']}  sequence {page['sequence']}  sha256 {str(page['sha256'])[:16]}…"
    entries = page["entries"]
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict):
            fields = {name: value for name, value in entry.items() if name != "topic"}
            yield f"  {entry['topic']}  {shown(fields)}"
