"""The entry limit: a cut page is carried on by the next, which decides the rest and nothing twice."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.definition import TenantSettings
from fireledger.domain.instants import SECOND
from fireledger.domain.page import Quarantine
from tests.unit.domain.given import TICK, Given, create, cron, every, result, started


def ticked_out(book: Given, at: str, limit: int) -> list[str]:
    """Tick at one instant until nothing is left, and return everything as short text."""
    lines: list[str] = []
    for _ in range(200):
        entries = book.when(TICK, at=at, entry_limit=limit).entries()
        assert len(entries) <= limit
        if not entries:
            return lines
        lines.extend(book.brief(entry) for entry in entries)
    raise AssertionError("a cut page is never finished")


def busy() -> Given:
    """Thirty triggers of several policies with something missed and something on time."""
    book = Given()
    for number in range(10):
        book.given(create(cron("*/10 * * * *"), f"once{number}"))
        book.given(create(cron("*/10 * * * *", missed="fire-all", cap=12, overlap="allow"), f"all{number}"))
        book.given(create(every("5s", overlap="queue"), f"often{number}"))
    return book


@pytest.mark.parametrize("limit", [4, 7, 10, 100])
def test_a_cut_changes_nothing_but_the_pages(limit: int) -> None:
    """Decided in small pages at one now, each trigger has the same entries in the same order as in one page."""
    small, large = ticked_out(busy(), "09:50:02", limit), ticked_out(busy(), "09:50:02", 10_000)
    assert sorted(small, key=_trigger) == sorted(large, key=_trigger)


def _trigger(line: str) -> str:
    return line.split()[1]


def test_what_is_coalesced_is_written_with_the_fire_it_goes_into() -> None:
    """No page ends between a coalesced range and its fire."""
    book = Given(create(cron("*/10 * * * *"), "a"), create(cron("*/10 * * * *"), "b"))
    book.when(TICK, at="09:45:00", entry_limit=3)
    book.then("coalesced a 09:10:00-09:30:00 x3 coalesced into 09:40:00", "released a 09:40:00 caught-up")


def test_a_large_catch_up_is_cut_and_goes_on() -> None:
    """More caught-up fires than a page holds need several pages and lose none."""
    unpaced = TenantSettings(quota_per_second=100_000, catch_up_percent=100)
    book = Given(create(every("1s", missed="fire-all", cap=1000, overlap="allow")), settings=unpaced)
    lines = ticked_out(book, "09:20:00", 100)
    assert lines[0] == "dropped t 09:00:01-09:03:14 x194 over-cap"
    assert [line.split()[0] for line in lines[1:]] == ["released"] * (1000 + 6)


def test_observed_entries_stand_first_and_always_fit() -> None:
    """The page begins with what it observed, even if nothing else has room."""
    book = Given(create(cron("* * * * *"))).given(TICK, at="09:01:00")
    observed = (started("09:01:00", "09:01:01", 9), result("09:01:00", "09:01:02", 10, "succeeded"))
    book.when(TICK, at="09:02:00", observed=observed, entry_limit=4)
    assert [type(entry) for entry in book.entries()] == [
        e.AttemptObserved,
        e.AttemptObserved,
        e.FireFinished,
        e.FireReleased,
    ]
    with pytest.raises(AssertionError):
        book.when(TICK, at="09:02:01", observed=observed, entry_limit=3)


def test_what_follows_from_observations_may_fill_the_page() -> None:
    """Ends and quarantines beyond the limit leave no room for decisions, which the next page makes."""
    book = Given(*(create(every("1m", overlap="allow"), name) for name in ("a", "b", "c", "d", "e"))).given(
        TICK, at="09:01:00"
    )
    named = tuple(Quarantine(name, "broken") for name in ("a", "b"))
    observed = (result("09:01:00", "09:01:02", 10, "succeeded", trigger="a"),)
    book.when(TICK, at="09:02:00", observed=observed, entry_limit=2, quarantine=named)
    book.then(
        "observed a 09:01:00 succeeded", "finished a 09:01:00 succeeded", "TriggerQuarantined a", "TriggerQuarantined b"
    )
    book.when(TICK, at="09:02:00", entry_limit=2).then("released c 09:02:00 on-time", "released d 09:02:00 on-time")


def test_the_oldest_due_is_not_starved_by_a_cut() -> None:
    """A page that is always too small still decides in the order of what is due."""
    book = Given(*(create(every("1s", overlap="allow"), f"t{number}") for number in range(5)))
    released: list[int] = []
    for number in range(1, 4):
        for _ in range(3):
            entries = book.when(TICK, at=book.start + number * SECOND, entry_limit=2).entries()
            released.extend(entry.scheduled for entry in entries if isinstance(entry, e.FireReleased))
    assert released == sorted(released)
    assert len(released) == 15
