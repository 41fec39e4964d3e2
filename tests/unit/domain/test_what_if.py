"""What an outage would do under each policy."""

import pytest

from fireledger.domain.instants import HOUR, MINUTE, parse_instant
from fireledger.domain.what_if import POLICIES, PolicyOutcome, outage_outcomes
from tests.unit.domain.given import START as START_TEXT
from tests.unit.domain.given import Given, create, cron

START = parse_instant(START_TEXT)


def outcomes(given: Given, start: int, end: int) -> dict[str, PolicyOutcome]:
    """Each policy's outcome for the trigger "report"."""
    trigger = given.state.triggers["report"]
    found = outage_outcomes(given.state, trigger, given.zones, start=start, end=end)
    return {outcome.policy: outcome for outcome in found}


def test_each_policy_is_the_scheduler_own_decision() -> None:
    """Skip fires nothing old, fire-once-now the newest, fire-all up to the cap; causes and counts are exact."""
    given = Given(create(cron("*/10 * * * *", cap=2), "report"))
    found = outcomes(given, START, START + 35 * MINUTE)
    assert set(found) == set(POLICIES)
    assert found["skip"].fired == ()
    assert [(run.state, run.cause, run.count) for run in found["skip"].unfired] == [("skipped", "missed", 3)]
    assert found["fire-once-now"].fired == (START + 30 * MINUTE,)
    assert found["fire-all"].fired == (START + 20 * MINUTE, START + 30 * MINUTE)
    assert [(run.state, run.count) for run in found["fire-all"].unfired] == [("dropped", 1)]


def test_the_horizon_comes_before_every_policy() -> None:
    """What is older than the horizon expires whatever the policy says."""
    given = Given(create(cron("*/10 * * * *"), "report"))
    for outcome in outcomes(given, START, START + 3 * HOUR).values():
        assert outcome.unfired[0].state == "expired"
        assert outcome.unfired[0].count == 11


def test_nothing_of_the_book_changes_the_answer() -> None:
    """A pause that is going on does not hide what a policy would do, and the book is left alone."""
    given = Given(create(cron("*/10 * * * *"), "report", paused=True))
    state = given.state
    assert outcomes(given, START, START + 35 * MINUTE)["fire-once-now"].fired == (START + 30 * MINUTE,)
    assert given.state is state


def test_an_outage_that_ends_before_it_begins_is_refused() -> None:
    """The outage must have a length."""
    given = Given(create(cron("*/10 * * * *"), "report"))
    with pytest.raises(ValueError, match="before it ends"):
        outcomes(given, START, START)
