"""What holds for every test: interrupts, the order of the kinds, how many examples a property test tries."""

import signal
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import settings

from tests.simulation.totals import SIMULATED, together

_ROOT = Path(__file__).parent
QUARTER_DAYS, WHOLE_DAYS = 300, 5_000
_ORDER = ("tidy", "unit", "golden", "property", "contract", "simulation", "integration")

# No deadline per example: how long one takes says more about the machine than about the code.
# Every day the same examples, so that a failure is about the change at hand; the thorough run draws new ones.
settings.register_profile("everyday", deadline=None, max_examples=100, print_blob=True, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=1_000, print_blob=True)
settings.load_profile("everyday")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How many seeds the simulation runs."""
    quarters = "simulated quarters of a day, a seed each (default: %(default)s)"
    parser.addoption("--quarter-days", type=int, default=QUARTER_DAYS, metavar="N", help=quarters)
    wholes = "simulated days, a seed each, among the long tests (default: %(default)s)"
    parser.addoption("--whole-days", type=int, default=WHOLE_DAYS, metavar="N", help=wholes)


def pytest_configure() -> None:
    """Have interrupts work in whatever the tests start: a run in a script's background hands down that they do not."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _rank(item: pytest.Item) -> int:
    parts = item.path.relative_to(_ROOT).parts if item.path.is_relative_to(_ROOT) else ()
    return _ORDER.index(parts[0]) if parts and parts[0] in _ORDER else len(_ORDER)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the quick kinds first; within a kind the shuffled order stays as it is."""
    items.sort(key=_rank)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what was simulated. Here, since the process that reports need not have collected the simulation."""
    reports: Iterable[pytest.TestReport] = (
        *terminalreporter.getreports("passed"),
        *terminalreporter.getreports("failed"),
    )
    told = [str(text) for report in reports for name, text in report.user_properties if name == SIMULATED]
    if told:
        terminalreporter.write_sep("-", "simulation")
        for total in together(told):
            terminalreporter.write_line(str(total))
