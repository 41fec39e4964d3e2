"""Figures that the races measure, shown at the end of the run."""

from collections.abc import Callable

import pytest


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Take a line that is shown at the end of the run, and kept with the test's result."""
    return lambda text: record_property("measured", text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the figures."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    figures = [
        f"{report.nodeid.partition('::')[2]}: {text}"
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, text in report.user_properties
        if name == "measured"
    ]
    if figures:
        terminalreporter.section("measured in races")
        for figure in figures:
            terminalreporter.write_line(figure)
