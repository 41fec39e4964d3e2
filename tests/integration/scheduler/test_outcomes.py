"""What dispatchers record finds its way into the books, and what they never record ends as unknown."""

from typing import TypeVar

import pytest

from fireledger.domain import entries as e
from fireledger.domain.instants import MILLISECOND, SECOND
from fireledger.domain.limits import OBSERVE_WITHIN
from tests.integration.brokers import RunningBroker
from tests.integration.scheduler.harness import Desk, Read, definition, opened_desk, scheduling
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio, pytest.mark.slow]

_Kind = TypeVar("_Kind")
SLACK = 250 * MILLISECOND
"""For the commit itself, on a busy machine."""


async def _release(desk: Desk, number: int = 1) -> e.FireReleased:
    await until(lambda: len(desk.released("acme")) >= number, what=f"fire {number} is released")
    return desk.released("acme")[number - 1][1]


def _of(desk: Desk, kind: type[_Kind]) -> list[tuple[Read, _Kind]]:
    return [(read, entry) for read, entry in desk.entries("acme") if isinstance(entry, kind)]


async def test_an_outcome_is_observed_within_two_seconds_although_nothing_is_due(broker: RunningBroker) -> None:
    """Started and result records are carried into the book together, about OBSERVE_WITHIN after the first."""
    async with opened_desk(broker) as desk, scheduling(broker.login("scheduler")):
        await desk.create("acme", "a", of=definition(max_fires=1))
        fire = await _release(desk)
        await desk.attempt("acme", fire)
        await desk.attempt("acme", fire, result="succeeded")
        await until(lambda: bool(_of(desk, e.FireFinished)), what="the outcome is observed")
        observed = _of(desk, e.AttemptObserved)
        assert [entry.record for _, entry in observed] == ["started", "result"]
        read, finished = _of(desk, e.FireFinished)[0]
        assert finished.outcome == "succeeded"
        assert read.folded.book.head.stamped_at - observed[0][1].stamped_at <= OBSERVE_WITHIN + SLACK
        assert read.folded.page.inputs.as_of >= observed[1][1].source_sequence


async def test_an_outcome_rides_on_the_next_page(broker: RunningBroker) -> None:
    """Under overlap skip, a fire that finished in time lets the next one go: outcomes are folded before deciding."""
    async with opened_desk(broker) as desk, scheduling(broker.login("scheduler")):
        await desk.create("acme", "a", of=definition(overlap="skip"))
        for number in range(1, 4):
            fire = await _release(desk, number)
            await desk.attempt("acme", fire)
            await desk.attempt("acme", fire, result="succeeded")
        first, *_, last = [entry.scheduled for _, entry in desk.released("acme")]
        assert last - first == 2 * SECOND


async def test_a_fire_without_outcome_ends_unknown_after_the_leader_was_asked(broker: RunningBroker) -> None:
    """After the outcome window the fire ends unknown, on a page whose as_of was read from the leader after it."""
    window = 2 * SECOND
    async with opened_desk(broker) as desk, scheduling(broker.login("scheduler")) as running:
        await desk.create("acme", "a", of=definition(max_fires=1, window=window))
        fire = await _release(desk)
        await desk.attempt("acme", fire)
        await until(lambda: bool(_of(desk, e.FireFinished)), what="the fire ends")
        read, finished = _of(desk, e.FireFinished)[0]
        started_at = _of(desk, e.AttemptObserved)[0][1].stamped_at
        assert (finished.outcome, finished.cause) == ("unknown", "outcome window over")
        assert read.folded.page.inputs.as_of_read_at >= started_at + window
        assert read.folded.book.head.stamped_at <= started_at + window + SLACK
        assert running.scheduler.snapshot().leader_reads == 1
        await desk.attempt("acme", fire, result="succeeded")
        await until(lambda: len(_of(desk, e.AttemptObserved)) == 2, what="the late result is recorded")
        assert len(_of(desk, e.FireFinished)) == 1
