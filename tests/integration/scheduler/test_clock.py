"""Clocks that are wrong: nothing is decided early, nothing twice, and what cannot act is reported."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.commands import PauseTrigger
from fireledger.domain.instants import HOUR, MILLISECOND, SECOND
from tests.integration.brokers import RunningBroker
from tests.integration.scheduler.harness import Desk, opened_desk, scheduling
from tests.simulated_clock import SimulatedClock
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio, pytest.mark.slow]


async def _more(desk: Desk, count: int, what: str) -> None:
    before = len(desk.decided("acme"))
    await until(lambda: len(desk.decided("acme")) >= before + count, what=what)


async def _quiet(desk: Desk, clock: SimulatedClock, seconds: float) -> None:
    """Assert that no page takes effect for a while."""
    before, end = len(desk.decided("acme")), clock.monotonic() + seconds
    await until(lambda: clock.monotonic() >= end, timeout_s=seconds + PATIENCE_S, what="time passes")
    assert len(desk.decided("acme")) == before


async def test_a_held_clock_decides_nothing_and_catches_up(broker: RunningBroker) -> None:
    """While a step is unattested nothing is decided; afterwards every instant has its one decision."""
    async with opened_desk(broker) as desk, scheduling(broker.login("scheduler")) as running:
        await desk.create("acme", "a")
        await _more(desk, 2, "decisions before the step")
        running.clock.held = True
        await _quiet(desk, running.clock, 2.0)
        assert not running.scheduler.snapshot().clock_usable
        running.clock.held = False
        await _more(desk, 3, "decisions after the clock was attested")
        desk.check_exactly_once("acme")
        desk.check_never_early("acme")


async def test_an_uncertain_clock_decides_nothing(broker: RunningBroker) -> None:
    """Above 100 ms of uncertainty nothing is decided, also by who owns everything."""
    async with opened_desk(broker) as desk, scheduling(broker.login("scheduler")) as running:
        await desk.create("acme", "a")
        await _more(desk, 1, "decisions before")
        running.clock.epsilon = 150 * MILLISECOND
        await _quiet(desk, running.clock, 1.5)
        running.clock.epsilon = MILLISECOND
        await _more(desk, 3, "decisions after")
        desk.check_exactly_once("acme")


async def test_a_clock_ahead_of_the_brokers_decides_nothing_that_acts(broker: RunningBroker) -> None:
    """Pages from the future stay in the chain, have no effect, are counted, and come ever more slowly."""
    clock = SimulatedClock(offset=SECOND)
    async with opened_desk(broker) as desk, scheduling(broker.login("scheduler"), clock=clock) as running:
        await desk.create("acme", "a")
        await until(lambda: running.scheduler.ineffective_count >= 3, what="pages without effect")
        assert not desk.decided("acme")
        clock.offset = 0
        await _more(desk, 3, "decisions with a true clock")
        desk.check_exactly_once("acme")
        desk.check_never_early("acme")
        ineffective = [read for read in desk.pages if not read.folded.effective]
        assert len(ineffective) == running.scheduler.ineffective_count < 12


async def test_a_step_back_never_decides_twice(broker: RunningBroker) -> None:
    """A clock that stepped back an hour decides nothing, says which book is ahead of it, and goes on later."""
    async with opened_desk(broker) as desk, scheduling(broker.login("scheduler")) as running:
        await desk.create("acme", "a")
        await _more(desk, 2, "decisions before the step")
        running.clock.step(-HOUR)
        await until(lambda: bool(running.scheduler.snapshot().blocked), what="the book is blocked")
        blocked = running.scheduler.snapshot().blocked
        assert [(each.tenant, each.reason) for each in blocked] == [("acme", "clock-behind-book")]
        await _quiet(desk, running.clock, 1.0)
        # A command proceeds at the book's own now.
        await desk.do("acme", PauseTrigger(trigger="a"))
        running.clock.step(HOUR)
        await until(lambda: not running.scheduler.snapshot().blocked, what="the book goes on")
        desk.check_exactly_once("acme")
        desk.check_never_early("acme")


async def test_an_accepted_step_is_noted_in_the_next_page_of_each_book(broker: RunningBroker) -> None:
    """A small accepted step is an entry of the next page, once."""
    async with opened_desk(broker) as desk, scheduling(broker.login("scheduler")) as running:
        await desk.create("acme", "a")
        await desk.create("globex", "a")
        await _more(desk, 1, "decisions before the step")
        running.clock.step(-20 * MILLISECOND)
        await _more(desk, 3, "decisions after the step")
        for tenant in ("acme", "globex"):
            noted = [entry for _, entry in desk.entries(tenant) if isinstance(entry, e.ClockNoted)]
            assert [entry.step for entry in noted] == [-20 * MILLISECOND]
        desk.check_exactly_once("acme")


async def test_a_step_forward_is_not_believed_by_the_books(broker: RunningBroker) -> None:
    """A clock that jumps an hour ahead of the broker's acts no more; back in time it decides each instant once."""
    async with opened_desk(broker) as desk, scheduling(broker.login("scheduler")) as running:
        await desk.create("acme", "a")
        await _more(desk, 2, "decisions before the step")
        running.clock.step(HOUR)
        await until(lambda: running.scheduler.ineffective_count >= 2, what="pages without effect")
        await _quiet(desk, running.clock, 1.0)
        running.clock.step(-HOUR)
        await _more(desk, 3, "decisions after the clock is right again")
        desk.check_exactly_once("acme")
        desk.check_never_early("acme")
