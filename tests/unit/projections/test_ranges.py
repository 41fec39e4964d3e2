"""A range of instants answers for its own instants only, by the definition and the zone data that resolved it."""

import pytest

from fireledger.domain import commands as c
from fireledger.domain.book import empty_book, fold_page
from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import HOUR, SECOND, Instant, parse_instant
from fireledger.projections.fires import FireQuery, FireRow, FireRows
from tests.unit.domain.given import DELETE, PAUSE, RESUME_SKIPPING, Given, amend, create, cron, every, zones


def folded(given: Given) -> FireRows:
    """The rows that control would have after reading the book."""
    rows, book = FireRows(), empty_book("acme")
    for written in given.written:
        step = fold_page(book, written.body, stamped_at=written.stamped_at, sequence=written.sequence)
        rows.apply(step, sequence=written.sequence, stamped_at=written.stamped_at)
        book = step.book
    return rows


def found(rows: FireRows, at: int) -> FireRow | None:
    """What answers for an instant."""
    return rows.get(FireKey("acme", "t", Instant(at)), zones())


def the_range(rows: FireRows, state: str) -> FireRow:
    """The one range of more than one instant in that state."""
    (row,) = [row for row in rows.newest(FireQuery(tenant="acme", limit=1_000)) if row.count > 1 and row.state == state]
    return row


def check_each_second(rows: FireRows, row: FireRow) -> None:
    """As many seconds between the ends of a range are answered by it as it counts, and the others by nothing."""
    answers = [at for at in range(row.scheduled, row.last + SECOND, SECOND) if found(rows, at) is row]
    assert len(answers) == row.count
    assert (answers[0], answers[-1]) == (row.scheduled, row.last)


def test_an_expired_range_answers_for_its_instants_and_for_nothing_between_them() -> None:
    """Of a trigger at every seventh second, six of seven seconds inside the range were never scheduled."""
    given = Given(create(every("7s"))).ticks("09:00:07", "12:00:00")
    rows = folded(given)
    row = the_range(rows, "expired")
    check_each_second(rows, row)
    assert found(rows, row.scheduled + 1) is None, "a part of a second is no instant of it either"


def test_a_range_keeps_the_schedule_that_made_it() -> None:
    """After an amendment the old range is still read by the old schedule."""
    given = Given(create(every("10s"))).ticks("09:00:10", "12:00:00")
    given.given(amend(cron("*/15 * * * * *")), at="12:00:05").ticks("12:00:30")
    rows = folded(given)
    check_each_second(rows, the_range(rows, "expired"))


@pytest.mark.parametrize("commands", [(DELETE,), (PAUSE, RESUME_SKIPPING)], ids=["deleted", "paused"])
def test_a_range_of_a_command_is_read_by_the_state_before_it(commands: tuple[c.Command, ...]) -> None:
    """What a deletion cancels, and what a pause skips, has the schedule from before, though the trigger is gone."""
    given = Given(create(every("9s")))
    *before, last = commands
    for command in before:
        given.given(command, at="09:00:01")
    given.given(last, at="09:10:00").ticks("09:10:01")
    rows = folded(given)
    check_each_second(rows, the_range(rows, "skipped" if before else "cancelled"))


def test_excluded_dates_and_other_triggers_are_not_answered_for() -> None:
    """A range over an excluded date has no instant on it."""
    excluded = (parse_instant("2026-12-01T00:00:00Z") // (24 * HOUR),)
    given = Given(create(cron("0 * * * *", excluded=excluded))).ticks("10:00:00", "2026-12-02T12:30:00Z")
    rows = folded(given)
    row = the_range(rows, "expired")
    assert row.scheduled < parse_instant("2026-12-01T00:00:00Z") < row.last
    assert found(rows, parse_instant("2026-12-01T05:00:00Z")) is None
    assert found(rows, parse_instant("2026-12-02T05:00:00Z")) is row
    assert rows.get(FireKey("acme", "other", Instant(parse_instant("2026-12-02T05:00:00Z"))), zones()) is None


def test_a_range_across_a_change_of_the_clocks_is_read_in_its_zone() -> None:
    """A trigger at 09:00 in Rome is at 07:00 UTC before the change and at 08:00 after it, never at the other."""
    given = Given(create(cron("0 9 * * *", "Europe/Rome")), start="2026-10-20T12:00:00Z")
    given.ticks("2026-10-30T12:00:00Z")
    rows = folded(given)
    row = the_range(rows, "expired")
    assert found(rows, parse_instant("2026-10-23T07:00:00Z")) is row
    assert found(rows, parse_instant("2026-10-23T08:00:00Z")) is None
    assert found(rows, parse_instant("2026-10-27T08:00:00Z")) is row
    assert found(rows, parse_instant("2026-10-27T07:00:00Z")) is None


def test_a_run_number_is_answered_by_its_own_fire_only() -> None:
    """A range is of scheduled fires, number 0."""
    rows = folded(Given(create(every("7s"))).ticks("09:00:07", "12:00:00"))
    inside = the_range(rows, "expired").scheduled + 7 * SECOND
    assert rows.get(FireKey("acme", "t", Instant(inside), 1), zones()) is None
