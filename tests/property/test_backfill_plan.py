"""What a backfill would fire against plain filtering of the schedule's instants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fireledger.domain.entries import FireReleased
from fireledger.domain.instants import MINUTE
from fireledger.projections.fires import FireRows
from fireledger.runners.control import backfill_plan
from fireledger.runners.control.backfill_plan import BackfillPlan, BackfillRange, fired_instants
from fireledger.runners.errors import ControlRefused, ExitStatus
from tests.unit.domain.given import Given, create, every
from tests.unit.projections.lane_log import book_page

BOOK = Given(create(every("1m")))
"""A book whose trigger has decided nothing yet: its instants up to the beginning were never its own."""
BEGIN = BOOK.start
RANGES = st.tuples(st.integers(-45, 20), st.integers(1, 60), st.integers(-30, 30))
"""Minutes from the beginning, length in minutes, and seconds by which both ends lie beside a full minute."""


@given(RANGES, st.sets(st.integers(-60, 0)), st.booleans(), st.integers(0, 70))
def test_the_plan_is_every_instant_but_those_that_fired(
    asked: tuple[int, int, int], fired: set[int], only_missing: bool, seen: int
) -> None:
    """What is still undecided is left out, with only-missing also what fired; counts and sequence numbers agree."""
    first, length, beside = asked
    start = BEGIN + first * MINUTE + beside * 1_000_000
    bounds = BackfillRange(start, start + length * MINUTE, only_missing)
    inside = [BEGIN + n * MINUTE for n in range(-120, 120) if bounds.start <= BEGIN + n * MINUTE < bounds.end]
    had_fired = [at for at in inside if (at - BEGIN) // MINUTE in fired]
    plan = BackfillPlan(BOOK.state, BOOK.trigger(), bounds, had_fired, BOOK.zones)
    undecided = [at for at in inside if at > BEGIN]
    left_out = {*had_fired, *undecided} if only_missing else {*undecided}
    expected = [at for at in inside if at not in left_out]
    planned = list(plan.instants(None))
    assert [each.scheduled for each in planned] == expected
    assert [each.sequence for each in planned] == list(range(1, len(expected) + 1))
    assert (plan.count, plan.undecided) == (len(expected), len(undecided))
    assert all(left.last + 1 < right.first for left, right in zip(plan.fired, plan.fired[1:], strict=False))
    if planned[:seen]:
        last = planned[:seen][-1]
        assert list(plan.instants((last.scheduled, last.sequence))) == planned[seen:]


def test_too_many_stretches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command holds a bounded number of them; a shorter range has fewer."""
    monkeypatch.setattr(backfill_plan, "BACKFILL_SPANS_MAX", 3)
    bounds = BackfillRange(BEGIN - 20 * MINUTE, BEGIN, only_missing=True)
    every_other = [BEGIN - n * MINUTE for n in range(20, 0, -2)]
    BackfillPlan(BOOK.state, BOOK.trigger(), bounds, every_other[:3], BOOK.zones)
    with pytest.raises(ControlRefused, match="more than 3 stretches") as caught:
        BackfillPlan(BOOK.state, BOOK.trigger(), bounds, every_other, BOOK.zones)
    assert caught.value.hint.startswith("ask for a shorter range")


def fire(at: int, *, cause: str = "on-time", sequence: int = 0) -> FireReleased:
    """A released fire of trigger t."""
    assert cause in ("on-time", "by-hand")
    return FireReleased(
        trigger="t",
        scheduled=at,
        sequence=sequence,
        release=at,
        definition_page=2,
        lane="on-time",
        cause="on-time" if cause == "on-time" else "by-hand",
    )


def rows(*entries: FireReleased, rows_max: int = 100) -> FireRows:
    """The rows of these fires."""
    found = FireRows(rows_max=rows_max)
    found.apply(book_page("acme", *entries, at=BEGIN), sequence=1, stamped_at=BEGIN)
    return found


def test_fires_by_hand_are_no_answer_to_what_is_missing() -> None:
    """What a person asked for stands beside the schedule, whatever its instant."""
    kept = rows(fire(BEGIN), fire(BEGIN + MINUTE), fire(BEGIN + 2 * MINUTE, cause="by-hand", sequence=1))
    bounds = BackfillRange(BEGIN, BEGIN + 10 * MINUTE, only_missing=True)
    assert fired_instants(kept, "acme", "t", bounds) == [BEGIN, BEGIN + MINUTE]


def test_what_is_no_longer_known_is_refused_rather_than_fired_twice() -> None:
    """Once a row was let go, only-missing holds from the first instant on from which every row is kept."""
    kept = rows(fire(BEGIN), fire(BEGIN + MINUTE), rows_max=1)
    with pytest.raises(ControlRefused, match=r"is known from .* on only") as caught:
        fired_instants(kept, "acme", "t", BackfillRange(BEGIN, BEGIN + 10 * MINUTE, only_missing=True))
    assert (caught.value.code, caught.value.exit_status) == ("history-incomplete", ExitStatus.REFUSED)
    complete = kept.complete_since("acme")
    assert complete is not None
    assert "--from 2026-11-30T09:00:01Z or later" in caught.value.hint
    later = BackfillRange(complete, BEGIN + 10 * MINUTE, only_missing=True)
    assert fired_instants(kept, "acme", "t", later) == [BEGIN + MINUTE]
