"""What goes to stdout: JSON, one object a line, or plain aligned text."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import click

from ..json_edge import Json, dumps_text

Row = Mapping[str, Json]
NOTHING = "-"
"""What stands for an absent value."""


def examples(*lines: str) -> str:
    """Examples at the end of a command's help, each on a line of its own."""
    # The backspace keeps click from joining the lines.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def emit_json(row: Row) -> None:
    """One object on one line."""
    click.echo(dumps_text(row))


def emit_table(columns: Sequence[str], rows: Iterable[Row], *, empty: str, spare: Collection[str] = ()) -> None:
    """Rows under headings, aligned; ``empty`` goes to stderr when there are none.

    A column of ``spare`` is left out when no row says anything there: each has nothing, "no" or 0.
    """
    found = list(rows)
    if not found:
        click.echo(empty, err=True)
        return
    told = [column for column in columns if column not in spare or any(row.get(column) for row in found)]
    table = [[column.replace("_", " ").upper() for column in told]]
    table += [[shown(row.get(column)) for column in told] for row in found]
    widths = [max(len(line[place]) for line in table) for place in range(len(told))]
    for line in table:
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def emit_fields(row: Row, *, skip: Iterable[str] = ()) -> None:
    """One object, a field a line, without what is absent."""
    left_out = set(skip)
    fields = [(name, value) for name, value in row.items() if name not in left_out and value is not None]
    width = max((len(name) for name, _ in fields), default=0)
    for name, value in fields:
        click.echo(f"{name.replace('_', ' ').ljust(width)}  {shown(value)}")


def told_again(answer: Row) -> str:
    """What to add to the line about a command that an earlier request with its id had carried out."""
    return " (this request was carried out before)" if answer.get("repeated") else ""


def shortened(text: str, longest: int) -> str:
    """A text of at most ``longest`` characters, with an ellipsis for what is cut off."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def shown(value: Json) -> str:
    """A value as text on one line. Of an object's fields, a text that could be taken for several stands in quotes."""
    match value:
        case None | "":
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.1f}"
        case str():
            return on_one_line(value)
        case int():
            return str(value)
        case list():
            return ", ".join(shown(item) for item in value) or NOTHING
        case dict():
            return " ".join(f"{name}={_field(item)}" for name, item in value.items() if item is not None) or NOTHING


def _field(value: Json) -> str:
    """A value after its name and "=", so that it is seen where it ends."""
    match value:
        case str() if value and (" " in value or any(each in value for each in '"=,')):
            return '"' + on_one_line(value.replace("\\", "\\\\").replace('"', '\\"')) + '"'
        case dict():
            return f"({shown(value)})"
        case list():
            return f"[{', '.join(shown(item) if isinstance(item, dict) else _field(item) for item in value)}]"
        case _:
            return shown(value)


def on_one_line(text: str) -> str:
    """The text without control characters: of whatever origin, they do not reach a terminal."""
    return (
        text if text.isprintable() else "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)
    )
