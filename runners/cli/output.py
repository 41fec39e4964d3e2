"""What goes to stdout: JSON, one object a line, or plain aligned text."""

from collections.abc import Iterable, Mapping, Sequence

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


def emit_table(columns: Sequence[str], rows: Iterable[Row], *, empty: str) -> None:
    """Rows under headings, aligned; ``empty`` goes to stderr when there are none."""
    lines = [[shown(row.get(column)) for column in columns] for row in rows]
    if not lines:
        click.echo(empty, err=True)
        return
    table = [[column.replace("_", " ").upper() for column in columns], *lines]
    widths = [max(len(line[place]) for line in table) for place in range(len(columns))]
    for line in table:
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def emit_fields(row: Row, *, skip: Iterable[str] = ()) -> None:
    """One object, a field a line, without what is absent."""
    left_out = set(skip)
    fields = [(name, value) for name, value in row.items() if name not in left_out and value is not None]
    width = max((len(name) for name, _ in fields), default=0)
    for name, value in fields:
        click.echo(f"{name.replace('_', ' ').ljust(width)}  {shown(value)}")


def shown(value: Json) -> str:
    """A value as text on one line."""
    match value:
        case None | "":
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.1f}"
        case str():
            return _on_one_line(value)
        case int():
            return str(value)
        case list():
            return ", ".join(shown(item) for item in value) or NOTHING
        case dict():
            return " ".join(f"{name}={shown(item)}" for name, item in value.items() if item is not None)


def _on_one_line(text: str) -> str:
    """Control characters, of whatever origin, do not reach a terminal."""
    return (
        text if text.isprintable() else "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)
    )
