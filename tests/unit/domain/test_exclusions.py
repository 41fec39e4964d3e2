"""Excluded dates in a book: nothing is owed on them, whatever the policy, and what is wholly excluded is refused."""

import pytest

from fireledger.domain.checks import check_definition
from fireledger.domain.definition import Definition
from fireledger.domain.instants import DAY, HOUR, parse_instant
from fireledger.domain.limits import EXCLUDED_DATES_MAX
from fireledger.domain.recurrence.excluded_text import parse_excluded_dates
from fireledger.domain.recurrence.months import END_DAY
from fireledger.domain.rejections import RejectionCode
from fireledger.domain.what_if import outage_outcomes
from tests.unit.domain.given import START, TICK, Given, amend, changed, create, cron, once

TOMORROW = parse_excluded_dates(["2026-12-01"])
AFTER = "2026-12-02T09:00:00Z"


def test_nothing_is_owed_on_an_excluded_date() -> None:
    """The next due instant, and what an outage owes, go round the date."""
    book = Given(create(cron("0 */6 * * *", excluded=TOMORROW, horizon=24 * HOUR, overlap="allow")))
    book.ticks("12:00:00", "18:00:00").then("released t 12:00:00 on-time", "released t 18:00:00 on-time")
    assert book.next_due() == "2026-12-02T00:00:00Z"
    book.when(TICK, at=AFTER)
    assert [book.brief(entry) for entry in book.entries()] == [
        "coalesced t 2026-12-02T00:00:00Z coalesced into 2026-12-02T06:00:00Z",
        "released t 2026-12-02T06:00:00Z caught-up",
    ]


def test_the_date_is_the_zones_own() -> None:
    """In Auckland the excluded date begins eleven hours before UTC's does."""
    book = Given(create(cron("0 * * * *", zone="Pacific/Auckland", excluded=TOMORROW)))
    book.ticks("10:00:00").then("released t 10:00:00 on-time")
    assert book.next_due() == "2026-12-01T11:00:00Z"


def test_excluding_more_dates_is_an_amendment_of_the_schedule() -> None:
    """Undecided instants up to the amendment keep the old dates; later ones have the new."""
    definition = cron("0 * * * *")
    book = Given(create(definition))
    book.when(amend(changed(definition, excluded=parse_excluded_dates(["2026-11-30"]))), at="10:30:00")
    assert len(book.trigger().segments) == 2
    book.when(TICK, at="10:30:01")
    assert [book.brief(entry) for entry in book.entries()] == ["released t 10:00:00 caught-up", "settled t 10:30:00"]
    assert book.next_due() == "2026-12-01T00:00:00Z"


def test_what_is_wholly_excluded_is_refused() -> None:
    """A single instant on an excluded date, and a bounded schedule whose last dates are all excluded."""
    given = Given()
    given.when(create(replace_excluded(once("2026-12-01T09:00"), TOMORROW)), at=START)
    given.then_refused(RejectionCode.NEVER_DUE)
    until = parse_instant("2026-12-01T23:00:00Z")
    bounded = cron("0 9 1 * *", not_after=until, excluded=TOMORROW)
    given.when(create(bounded), at=START).then_refused(RejectionCode.WHOLLY_PAST)


def test_an_outage_owes_nothing_of_an_excluded_date() -> None:
    """What a policy would make of an outage counts only the instants that exist."""
    book = Given(create(cron("0 */6 * * *", excluded=TOMORROW, horizon=24 * HOUR, overlap="allow")))
    start = parse_instant("2026-12-01T00:00:00Z") - 1
    for outcome in outage_outcomes(book.state, book.trigger(), book.zones, start=start, end=start + DAY):
        assert (outcome.fired, outcome.unfired) == ((), ())


@pytest.mark.parametrize(
    "days, reason",
    [
        (tuple(range(EXCLUDED_DATES_MAX + 1)), "at most"),
        ((5, 5), "ascending"),
        ((6, 5), "ascending"),
        ((-1,), "years"),
        ((END_DAY,), "years"),
    ],
)
def test_stored_dates_are_bounded(days: tuple[int, ...], reason: str) -> None:
    """Too many, out of order, repeated, or outside the years: refused, naming the option."""
    refused = check_definition(replace_excluded(cron("* * * * *"), days))
    assert refused is not None
    assert refused.message.startswith("--exclude ")
    assert reason in f"{refused.message}; {refused.hint}"
    assert check_definition(replace_excluded(cron("* * * * *"), (0, END_DAY - 1))) is None


def replace_excluded(definition: Definition, excluded: tuple[int, ...]) -> Definition:
    """Return the definition with these excluded dates."""
    return changed(definition, excluded=excluded)
