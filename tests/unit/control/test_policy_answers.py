"""What answers say of standing: states, ceilings, and what happens on failure."""

import pytest
from msgspec.structs import replace

from fireledger.domain import commands as c
from fireledger.domain.definition import Retry
from fireledger.domain.instants import HOUR, MINUTE, SECOND
from fireledger.domain.state import Ceiling
from fireledger.runners.control.policy_answers import ceilings_answer, failure_words, standing_answer, state_of
from tests.unit.domain.given import Given, create, cron

T0 = 1_800_000_000 * SECOND


@pytest.mark.parametrize(
    "retry,words",
    [
        (Retry(attempts=1), "a fire whose attempt fails is not tried again"),
        (
            Retry(),
            (
                "an attempt that fails is made again after 1m, each wait 2 times the one before and at most 1h, "
                "up to 5 attempts of a fire in all"
            ),
        ),
        (Retry(attempts=2, base=5 * SECOND), "is made again after 5s, up to 2 attempts"),
        (Retry(base=HOUR), "is made again after 1h, up to 5 attempts"),
        (Retry(factor=150, cap=5 * MINUTE), "each wait 1.5 times the one before and at most 5m"),
    ],
)
def test_failure_is_told_in_words(retry: Retry, words: str) -> None:
    """Only what makes a difference is said."""
    assert words in failure_words(cron("0 9 * * *", retry=retry))


def test_a_trigger_is_in_one_state() -> None:
    """Paused comes before suspended, and a backfill goes on beside."""
    given = Given(create(cron("* * * * *")))
    state, trigger = given.state, given.trigger()
    assert state_of(state, trigger) == "active"
    suspended = replace(trigger, suspended_until=T0)
    assert state_of(state, suspended) == "suspended"
    assert state_of(replace(state, suspended_until=T0), trigger) == "suspended"
    assert standing_answer(state, suspended, T0)["suspended_until"] == "2027-01-15T08:00:00Z"
    given.given(c.PauseTrigger(trigger="t"), at="09:01:30")
    assert state_of(given.state, replace(given.trigger(), suspended_until=T0)) == "paused"
    assert state_of(given.state, replace(given.trigger(), quarantine="broken")) == "quarantined"


def test_ceilings_tell_what_is_spent_in_the_present_period() -> None:
    """A period that is over has given way; what came since is what counts."""
    ceilings = (
        Ceiling(per="month", amount=10, start=T0, end=T0 + HOUR, spent=10),
        Ceiling(per="day", amount=10, start=T0 - HOUR, end=T0, spent=12, later=3),
    )
    day, month = ceilings_answer(ceilings, T0)
    assert isinstance(day, dict)
    assert isinstance(month, dict)
    assert (day["per"], day["spent"], day["period_end"], day["exhausted"], day["resumes_at"]) == (
        "day",
        3,
        None,
        False,
        None,
    )
    assert (month["spent"], month["exhausted"], month["resumes_at"]) == (10, True, "2027-01-15T09:00:00Z")
