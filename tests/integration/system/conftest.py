"""Figures that the tests of the whole system measure, shown at the end of the run."""

from collections.abc import Callable

import pytest

_FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Take a line that is shown at the end of the run, whether tests pass or not."""
    figures = request.config.stash.setdefault(_FIGURES, [])
    name = request.node.name

    def note(text: str) -> None:
        """Keep the line, with the test's name."""
        figures.append(f"{name}: {text}")

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the figures."""
    figures = config.stash.setdefault(_FIGURES, [])
    if figures:
        terminalreporter.section("measured")
        for figure in figures:
            terminalreporter.write_line(figure)
