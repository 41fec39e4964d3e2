"""Help for a newcomer: every command has an example of itself, and every example can be copied."""

import shlex
from contextlib import suppress

import click
import pytest
from click.testing import CliRunner

from fireledger.runners.cli.main import cli
from tests.unit.cli.command_tree import ALL, Path, words_of

LEAVES = [path for path, command in ALL.items() if not isinstance(command, click.Group)]


def help_of(path: Path) -> str:
    """What ``--help`` prints."""
    result = CliRunner().invoke(cli, [*path, "--help"], prog_name="fireledger", terminal_width=100)
    assert result.exit_code == 0
    return result.stdout


def examples_of(path: Path) -> list[list[str]]:
    """The examples' command lines, split as a shell does, without the words that explain them."""
    lines = help_of(path).partition("Examples:\n")[2].splitlines()
    return [shlex.split(line.strip().split("   ")[0]) for line in lines if line.startswith("    fireledger ")]


@pytest.mark.parametrize("path", LEAVES, ids=words_of)
def test_every_command_has_an_example_of_itself(path: Path) -> None:
    """One that begins with the command's own name."""
    assert any(example[1 : 1 + len(path)] == list(path) for example in examples_of(path))


@pytest.mark.parametrize("path", ALL, ids=words_of)
def test_every_example_parses(path: Path) -> None:
    """Each names a command there is, with its options and arguments, so that it can be copied."""
    for example in examples_of(path):
        command: click.Command = cli
        parent, name, words = click.Context(cli), "fireledger", example[1:]
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            parent = click.Context(command, parent=parent, info_name=name)
            name, words = words[0], words[1:]
            found = command.get_command(parent, name)
            assert found is not None, example
            command = found
        # Raises UsageError for what it does not take; --help ends it.
        with suppress(click.exceptions.Exit):
            command.make_context(name, list(words), parent=parent)


@pytest.mark.parametrize("group", ["", "fires", "tenant", "book", "status", "run"])
def test_a_group_explains_itself(group: str) -> None:
    """It has examples of its own, too."""
    assert examples_of(tuple(group.split())), group
