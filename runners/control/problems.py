"""What status complains about: each problem with a stable code, in words, and with what to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass

from fireledger.domain.instants import HOUR, MILLISECOND, SECOND, format_duration, format_instant
from fireledger.domain.limits import FIRES_OPEN_MAX

from ..runner_state import Blocked, RunnerState
from .model import LatePage

LATE_PAGE_SHOWN = HOUR
"""A page without effect is a problem for this long; its book shows it for ever."""
ONE_BY_ONE_MAX = 10
"""Problems of one kind that are told one by one; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem; ``code`` is a contract."""

    code: str
    message: str
    hint: str


class Problems:
    """All problems that were found; ``ready`` while none of them keeps the service from doing its work."""

    def __init__(self) -> None:
        self.ready = True
        self.listed: list[Problem] = []

    def hinder(self, code: str, message: str, hint: str) -> None:
        """Something without which nothing fires, or nobody is answered, is missing."""
        self.ready = False
        self.note(code, message, hint)

    def note(self, code: str, message: str, hint: str) -> None:
        """A person has to look at something; the rest goes on."""
        self.listed.append(Problem(code, message, hint))

    def note_each(self, code: str, found: Sequence[tuple[str, str]], *, rest: str) -> None:
        """Several of one kind, as pairs of message and hint; ``rest`` is said of those that are only counted."""
        for message, hint in found[:ONE_BY_ONE_MAX]:
            self.note(code, message, hint)
        left = len(found) - ONE_BY_ONE_MAX
        if left > 0:
            self.note(code, f"{left} more {rest}", "see all: fireledger status --json")


def note_quarantined(quarantined: Sequence[tuple[str, str | None]], problems: Problems) -> None:
    """Triggers that could not be decided and are left out until somebody mends them, with the cause."""
    found = [
        (
            f'trigger "{name}" is in quarantine and does not fire: {cause}',
            f"look, then amend it: fireledger trigger show {name}",
        )
        for name, cause in quarantined
    ]
    problems.note_each("trigger-quarantined", found, rest="triggers are in quarantine")


def note_full(full: Sequence[str], problems: Problems) -> None:
    """Triggers with as many fires without an outcome as there may be."""
    found = [
        (
            f'trigger "{name}" has {FIRES_OPEN_MAX} fires without an outcome, so no further one is released',
            f"see what they wait for: fireledger fires list {name}; held ones wait for fires release or fires cancel",
        )
        for name in full
    ]
    problems.note_each("trigger-full", found, rest="triggers have as many fires without an outcome")


def note_late_pages(late: Sequence[LatePage], problems: Problems) -> None:
    """Pages that the broker stamped outside their writer's bounds, so that they took no effect."""
    if not late:
        return
    newest = late[-1]
    late_by, early_by = (format_duration(us // MILLISECOND * MILLISECOND) for us in (newest.late_us, newest.early_us))
    how = f"{late_by} too late" if newest.late_us else f"{early_by} too early"
    at = newest.stamped_at // SECOND * SECOND
    count = "a page" if len(late) == 1 else f"{len(late)} pages"
    problems.note(
        "page-ineffective",
        f"{count} took no effect within the last {format_duration(LATE_PAGE_SHOWN)}, the newest in the book of "
        f'"{newest.tenant}", written by {newest.owner} and stamped {how}, at {format_instant(at)}',
        f"find out why {newest.owner} stood still or had a wrong clock; the page: "
        f"fireledger book show {newest.tenant} --from {newest.number}",
    )


def note_states(states: Sequence[RunnerState], problems: Problems) -> None:
    """What living runners say that they cannot get done."""
    for state in sorted(states, key=lambda state: state.runner):
        if state.waiting_since is not None:
            since = format_instant(state.waiting_since // SECOND * SECOND)
            problems.note(
                "calls-saturated",
                f"{state.calls_waiting} fires wait for their call at {state.runner}, without a break since {since}; "
                f"{state.calls_under_way} calls are under way",
                "some target is slower than what it is sent: fireledger fires list TENANT shows which fires wait; "
                "make it faster, or let it fire less often",
            )
        diverged = state.figures.get("rows_diverged", 0)
        if diverged:
            rows = "a row of the due calendar" if diverged == 1 else f"{diverged} rows of the due calendar"
            problems.note(
                "due-rows-diverged",
                f"{rows} at {state.runner} differed from the log and was made anew, so something may have been late",
                f"this is a defect: the log of {state.runner} names the triggers (due-row-diverged); "
                "restart it to make all rows anew",
            )
        blocked = [_blocked(each, state.runner) for each in state.blocked]
        problems.note_each("book-blocked", blocked, rest=f"books are blocked at {state.runner}")


_BLOCKED_HINTS = {
    "clock-behind-book": "compare the machine's clock with a right one; it goes on once the clock has caught up",
    "zone-data-missing": "see which time-zone database is missing: fireledger tz status",
}


def _blocked(blocked: Blocked, runner: str) -> tuple[str, str]:
    hint = _BLOCKED_HINTS.get(blocked.reason, f"see the log of {runner}")
    return f'nothing is decided in the book of "{blocked.tenant}": {blocked.reason} ({runner})', hint
