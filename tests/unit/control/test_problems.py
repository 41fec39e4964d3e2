"""What status complains about: each kind of problem in words, with a code and something to do."""

import pytest

from fireledger.domain.instants import MILLISECOND, SECOND
from fireledger.runners.control.model import LatePage
from fireledger.runners.control.problems import (
    ONE_BY_ONE_MAX,
    Problems,
    note_full,
    note_late_pages,
    note_quarantined,
    note_states,
)
from fireledger.runners.runner_state import Blocked, RunnerState

T0 = 1_800_000_000 * SECOND


def late(number: int = 17, *, late_us: int = 12_300 * MILLISECOND, early_us: int = 0) -> LatePage:
    """A page that took no effect."""
    return LatePage("acme", number, "scheduler-1", stamped_at=T0, early_us=early_us, late_us=late_us)


def test_what_a_person_has_to_look_at_leaves_the_service_ready() -> None:
    """Only what keeps fires from being made takes readiness away; both are problems."""
    problems = Problems()
    problems.note("one", "something is odd", "look")
    assert problems.ready
    problems.hinder("two", "something is missing", "bring it")
    assert not problems.ready
    assert [problem.code for problem in problems.listed] == ["one", "two"]


def test_each_quarantined_trigger_is_named_with_its_cause_up_to_a_number() -> None:
    """The rest is counted, and the hint names the trigger itself."""
    problems = Problems()
    note_quarantined([(f"acme/t{n}", "ValueError: no") for n in range(ONE_BY_ONE_MAX + 3)], problems)
    first, *_, last = problems.listed
    assert first.message == 'trigger "acme/t0" is in quarantine and does not fire: ValueError: no'
    assert first.hint == "look, then amend it: fireledger trigger show acme/t0"
    assert (len(problems.listed), last.message) == (ONE_BY_ONE_MAX + 1, "3 more triggers are in quarantine")
    assert {problem.code for problem in problems.listed} == {"trigger-quarantined"}
    assert problems.ready


def test_a_trigger_that_can_release_nothing_more_is_named() -> None:
    """With the number of fires it waits for, and what a person can do about held ones."""
    problems = Problems()
    note_full([], problems)
    assert problems.listed == []
    note_full(["acme/t"], problems)
    (problem,) = problems.listed
    assert problem.message.startswith('trigger "acme/t" has 2000 fires without an outcome')
    assert "fireledger fires list acme/t" in problem.hint
    assert (problem.code, problems.ready) == ("trigger-full", True)


def test_late_pages_are_one_problem_that_tells_of_the_newest() -> None:
    """How many, whose, where, and by how much; nothing when there is none."""
    problems = Problems()
    note_late_pages([], problems)
    assert problems.listed == []
    note_late_pages([late(3), late(late_us=0, early_us=150 * MILLISECOND)], problems)
    (problem,) = problems.listed
    assert problem.message == (
        '2 pages took no effect within the last 1h, the newest in the book of "acme", written by scheduler-1 and '
        "stamped 150ms too early, at 2027-01-15T08:00:00Z"
    )
    assert problem.hint.endswith("fireledger book show acme --from 17")
    note_late_pages([late()], problems)
    assert problems.listed[-1].message.startswith("a page took no effect")
    assert "stamped 12s300ms too late" in problems.listed[-1].message


def test_calls_that_wait_for_long_are_a_problem() -> None:
    """With how many, since when, and at which dispatcher."""
    problems = Problems()
    state = RunnerState(runner="dispatcher-1", calls_waiting=40, calls_under_way=64, waiting_since=T0 + 7)
    note_states([state, RunnerState(runner="dispatcher-2")], problems)
    (problem,) = problems.listed
    assert problem.code == "calls-saturated"
    assert problem.message == (
        "40 fires wait for their call at dispatcher-1, without a break since 2027-01-15T08:00:00Z; "
        "64 calls are under way"
    )
    assert problem.hint


@pytest.mark.parametrize("count,words", [(1, "a row of the due calendar at"), (3, "3 rows of the due calendar at")])
def test_rows_that_differed_from_the_log_are_a_problem(count: int, words: str) -> None:
    """Which triggers they were is in the runner's log."""
    problems = Problems()
    states = [RunnerState(runner="scheduler-1", figures={"rows_diverged": count}), RunnerState(runner="scheduler-2")]
    note_states(states, problems)
    (problem,) = problems.listed
    assert (problem.code, problems.ready) == ("due-rows-diverged", True)
    assert problem.message.startswith(f"{words} scheduler-1 ")
    assert "due-row-diverged" in problem.hint


def test_each_blocked_book_is_named_with_its_reason() -> None:
    """A known reason has advice of its own, any other one points at the runner's log."""
    problems = Problems()
    blocked = (Blocked("acme", "clock-behind-book"), Blocked("globex", "something-new"))
    note_states([RunnerState(runner="scheduler-1", blocked=blocked)], problems)
    first, second = problems.listed
    assert first.message == 'nothing is decided in the book of "acme": clock-behind-book (scheduler-1)'
    assert "clock" in first.hint
    assert (second.code, second.hint) == ("book-blocked", "see the log of scheduler-1")
