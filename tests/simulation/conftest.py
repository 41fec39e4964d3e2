"""At the end of a test run: what was simulated, and what went wrong on purpose."""

from collections.abc import Iterable

import pytest

from tests.simulation.seeds import SIMULATED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line for each test that simulated seeds."""
    reports: Iterable[pytest.TestReport] = terminalreporter.getreports("passed")
    lines = sorted(str(text) for report in reports for name, text in report.user_properties if name == SIMULATED)
    if lines:
        terminalreporter.write_sep("-", "simulation")
        for line in lines:
            terminalreporter.write_line(line)
