"""The page about schedules: every example on it gives what it says, every text is read, every refusal is one."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fireledger.runners.cli.main import cli

PAGE = (Path(__file__).parents[3] / "docs" / "schedules.md").read_text("utf-8")
EXAMPLES = re.findall(r"^\$ fireledger (.*)\n((?:(?!\$ |```).*\n)+)", PAGE, re.MULTILINE)


def first_column(heading: str) -> list[tuple[str, str]]:
    """The code in the text columns of the section's table, with the option beside it."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    found: list[tuple[str, str]] = []
    option = "--cron"
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if not cells or "`" not in line:
            continue
        if len(cells) == 3:
            option = cells[0].strip("`") or option
        found += [(option, text) for text in re.findall(r"`([^`]+)`", cells[-2])]
    return found


def run(*arguments: str) -> Result:
    """Run a command."""
    return CliRunner().invoke(cli, list(arguments), prog_name="fireledger")


@pytest.mark.parametrize("command,output", EXAMPLES)
def test_an_example_gives_what_it_says(command: str, output: str) -> None:
    """The command prints exactly what stands below it."""
    result = run(*shlex.split(command))
    assert result.stdout + result.stderr == output


@pytest.mark.parametrize("option,text", first_column("What can be written"))
def test_a_text_is_read(option: str, text: str) -> None:
    """What the table of texts shows is read, by the dialect it belongs to."""
    dialect = ("--dialect", "quartz") if "?" in text and "(" not in text else ()
    result = run("trigger", "preview", option, text, *dialect, "-n", "1")
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("option,text", first_column("What is refused"))
def test_a_text_is_refused(option: str, text: str) -> None:
    """What the table of refusals shows is refused with a hint."""
    result = run("trigger", "preview", option, text)
    assert (result.exit_code, result.stdout) == (5, "")
    assert "hint: " in result.stderr


def test_the_page_has_examples() -> None:
    """The texts above were found."""
    assert len(EXAMPLES) > 5
    assert len(first_column("What can be written")) > 15
    assert len(first_column("What is refused")) > 9
