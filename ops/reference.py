"""Writes the reference pages that are made from the code: the entries and the command line.

``python ops/reference.py`` writes them, ``--check`` only says whether they are fresh (exit 1 if not).
"""

import sys
from pathlib import Path
from typing import get_args

import click
import msgspec

from fireledger.domain import commands, entries
from fireledger.domain.definition import Definition, TenantSettings
from fireledger.domain.page import AttemptsPage, Page, PageInputs
from fireledger.runners.cli.main import cli

DOCS = Path(__file__).parent.parent / "docs" / "reference"
HELP_WIDTH = 100


def entries_page() -> str:
    """Every stored type with its topic, meaning and fields, in the order of the code."""
    parts = [
        "# Entries",
        "Every fact that Fireledger stores. Made from the code by `ops/reference.py`.",
        "Instants and durations are integer microseconds. Unknown topics and fields are refused.",
        "Entries are msgpack arrays that begin with their topic; pages, commands and definitions are msgpack maps.",
    ]
    groups: tuple[tuple[str, tuple[type[msgspec.Struct], ...]], ...] = (
        ("Envelopes", (Page, PageInputs, AttemptsPage)),
        ("Entries of a book", get_args(entries.BookEntry)),
        ("Records of attempts", get_args(entries.AttemptRecord)),
        ("Commands", get_args(commands.Command)),
        ("Inside them", (Definition, TenantSettings, entries.MovedInstant)),
    )
    for title, kinds in groups:
        parts.append(f"## {title}")
        parts.extend(_struct(kind) for kind in kinds)
    return "\n\n".join(parts) + "\n"


def _struct(kind: type[msgspec.Struct]) -> str:
    tag = kind.__struct_config__.tag
    title = f"`{tag}`" if isinstance(tag, str) else f"`{kind.__name__}`"
    text = " ".join((kind.__doc__ or "").split()).replace("``", "`")
    lines = [f"### {title}", "", text]
    fields = msgspec.structs.fields(kind)
    if fields:
        lines += ["", "| field | type | default |", "|---|---|---|"]
        lines += [f"| {field.name} | {_type(field.type)} | {_default(field)} |" for field in fields]
    return "\n".join(lines)


def _type(annotation: object) -> str:
    text = annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)
    for noise in ("typing.", "fireledger.domain.definition.", "fireledger.domain.entries.", "fireledger.domain.page."):
        text = text.replace(noise, "")
    for noise in ("fireledger.domain.recurrence.schedule.", "fireledger.domain.commands."):
        text = text.replace(noise, "")
    if text.count("|") > 9:
        return "one of the above"
    return "`" + text.replace("|", "\\|") + "`"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return f"`{value!r}`"


def commands_page() -> str:
    """The help text of every command."""
    parts = ["# Command line", "The help of every command. Made from the code by `ops/reference.py`."]
    parts.extend(_help(cli, "fireledger", None))
    return "\n\n".join(parts) + "\n"


def _help(command: click.Command, name: str, parent: click.Context | None) -> list[str]:
    with click.Context(command, info_name=name, parent=parent, terminal_width=HELP_WIDTH) as context:
        text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        found = [f"## {context.command_path}\n\n```text\n{text}\n```"]
        if isinstance(command, click.Group):
            for child in command.list_commands(context):
                inner = command.get_command(context, child)
                assert inner is not None
                found.extend(_help(inner, child, context))
    return found


def pages() -> dict[Path, str]:
    """Every generated page and what it must say."""
    return {DOCS / "entries.md": entries_page(), DOCS / "command-line.md": commands_page()}


def main() -> int:
    """Write or check the pages."""
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text("utf-8") != text]
    if "--check" not in sys.argv[1:]:
        DOCS.mkdir(parents=True, exist_ok=True)
        for path, text in pages().items():
            path.write_text(text, "utf-8")
        return 0
    for path in stale:
        print(f'"{path.name}" is not fresh; run python ops/reference.py', file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
