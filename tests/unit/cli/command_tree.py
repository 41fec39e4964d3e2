"""Every command of the command line, as a tree walked once."""

from collections.abc import Iterator

import click

from fireledger.runners.cli.main import cli

Path = tuple[str, ...]
"""A command's words, the root's being none."""


def commands(command: click.Command, path: Path = ()) -> Iterator[tuple[Path, click.Command]]:
    """Every command from here on, groups and the root included."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, (*path, name))


ALL = dict(commands(cli))


def words_of(path: Path) -> str:
    """A test's name for a command."""
    return " ".join(path) or "fireledger"
