"""What stands still in the books, by tenant: held fires, suspended triggers, triggers that are full."""

from collections import Counter

from msgspec.structs import replace

from fireledger.domain import commands as c
from fireledger.domain.book import Book
from fireledger.domain.limits import FIRES_OPEN_MAX
from fireledger.runners.control.standstill import full_triggers, held_fires, suspended_triggers, worst_first
from tests.unit.domain.given import Given, create, cron

TICK = c.Tick()


def book(*, held: int = 0, times: int = 1, suspended: bool = False) -> Book:
    """A book with trigger "t" that has one open fire, ``times`` over, the first ``held`` of them held."""
    given = Given(create(cron("* * * * *", overlap="allow"))).given(TICK, at="09:01:00")
    fires = given.trigger().open * times
    fires = (*(replace(fire, held=True) for fire in fires[:held]), *fires[held:])
    if suspended:
        given.given(c.SetCeiling(trigger=None, per="day", amount=0), at="09:02:00")
    trigger = replace(given.trigger(), open=fires)
    return Book(given.book.tenant, replace(given.state, triggers={"t": trigger}), given.book.head)


def test_held_fires_are_counted_by_tenant() -> None:
    """Only those that wait for a person."""
    assert held_fires([book(held=2, times=3)]) == {"acme": 2}
    assert held_fires([book(times=3)]) == {}


def test_a_tenants_ceiling_suspends_each_of_its_triggers() -> None:
    """Counted like those with a ceiling of their own."""
    assert suspended_triggers([book(suspended=True)]) == {"acme": 1}
    assert suspended_triggers([book()]) == {}


def test_a_trigger_is_full_at_the_bound() -> None:
    """One fire fewer, and another one can be released."""
    assert full_triggers([book(times=FIRES_OPEN_MAX)]) == ["acme/t"]
    assert full_triggers([book(times=FIRES_OPEN_MAX - 1)]) == []


def test_the_worst_come_first_and_the_rest_is_left_out() -> None:
    """By number, then by name."""
    assert list(worst_first(Counter(a=1, c=5, b=5, d=0), 3).items()) == [("b", 5), ("c", 5), ("a", 1)]
