"""Schedulers on a real broker: every instant decided once, on time, whoever else decides."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from fireledger.domain import entries as e
from fireledger.domain.commands import AmendTrigger
from fireledger.domain.due import due_beside_waiting
from fireledger.domain.identifiers import book_subject
from fireledger.domain.instants import SECOND
from fireledger.domain.state import State, TriggerState
from fireledger.domain.zones import ZoneLibrary
from fireledger.runners.errors import LogGap
from fireledger.runners.identity import new_commit_id
from fireledger.runners.jetstream.ledger import Append
from tests.integration.brokers import RunningBroker
from tests.integration.others import watching_others
from tests.integration.scheduler.harness import Desk, Running, definition, opened_desk, percentile, scheduling
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio, pytest.mark.slow]


async def _instants(desk: Desk, tenant: str, count: int, timeout_s: float) -> None:
    """Wait until each trigger of the tenant had ``count`` instants decided."""

    def enough() -> bool:
        decided = desk.decided(tenant)
        names = {name for name, _ in decided}
        triggers = desk.fold.book(tenant).state.triggers
        return len(names) == len(triggers) and len(decided) >= count * len(triggers)

    await until(enough, timeout_s=timeout_s, what=f"{count} instants of every trigger of {tenant} are decided")


async def test_every_second_is_decided_once_and_on_time(broker: RunningBroker, measured: Callable[[str], None]) -> None:
    """Per-second triggers fire exactly once, never early; within a quarter of a second when nobody else works."""
    async with (
        watching_others() as others,
        opened_desk(broker) as desk,
        scheduling(broker.login("scheduler")) as running,
    ):
        await desk.create("acme", "a", "b")
        await _instants(desk, "acme", 8, PATIENCE_S)
        assert desk.check_exactly_once("acme") >= 16
        desk.check_never_early("acme")
        others.look()
        lateness = desk.lateness("acme", others)
        if lateness:
            measured(f"p50 {percentile(lateness, 0.5):.0f} ms, p99 {percentile(lateness, 0.99):.0f} ms")
            assert percentile(lateness, 0.99) < 250
        status = running.scheduler.snapshot()
        assert status.owned_books == 1
        assert status.triggers_with_rows == 2
        assert status.searches >= 16
        assert status.search_steps_max >= 1
        assert status.search_steps >= status.searches
        assert status.conflicts == status.pages_ineffective == 0
        # Each instant's decisions share a page: two triggers, one page a second.
        assert status.pages_committed <= status.entries_committed


async def _split_brain(broker: RunningBroker, *, tenants: int, triggers: int, seconds: int) -> list[Running]:
    async with opened_desk(broker) as desk:
        names = [f"t{n}" for n in range(tenants)]
        for name in names:
            await desk.create(name, *(f"every-second-{n}" for n in range(triggers)))
        login = broker.login("scheduler")
        async with scheduling(login, "one") as one, scheduling(login, "two") as two:
            for name in names:
                await _instants(desk, name, seconds, seconds * 3 + PATIENCE_S)
            for name in names:
                assert desk.check_exactly_once(name) >= seconds * triggers
                desk.check_never_early(name)
            return [one, two]


async def test_two_owners_of_everything_do_no_harm(broker: RunningBroker) -> None:
    """Two schedulers that both own everything decide every instant exactly once, and meet while doing so."""
    both = await _split_brain(broker, tenants=10, triggers=10, seconds=8)
    assert sum(running.scheduler.conflict_count for running in both) > 0
    assert all(running.scheduler.committed_count > 0 for running in both)


@pytest.mark.long
async def test_two_owners_of_everything_do_no_harm_for_a_minute(broker: RunningBroker) -> None:
    """The same for a minute with 500 triggers."""
    both = await _split_brain(broker, tenants=25, triggers=20, seconds=60)
    assert sum(running.scheduler.conflict_count for running in both) > 0


async def test_a_command_in_a_tight_loop_makes_progress_and_delays_nobody(broker: RunningBroker) -> None:
    """One tenant amends as fast as it can: its amendments go through, and other tenants stay on time."""
    async with watching_others() as others, opened_desk(broker) as desk, scheduling(broker.login("scheduler")):
        neighbours = [f"other-{n}" for n in range(12)]
        for name in ("acme", *neighbours):
            await desk.create(name, "a")
        amended = 0

        async def amend() -> None:
            nonlocal amended
            while len(desk.decided(neighbours[0])) < 6:
                window = SECOND * (60 + amended % 2)
                await desk.do("acme", AmendTrigger(trigger="a", definition=definition(window=window)))
                amended += 1

        await asyncio.wait_for(amend(), 60)
        others.look()
        assert amended > 20
        desk.check_exactly_once("acme")
        for name in neighbours:
            desk.check_exactly_once(name)
            lateness = desk.lateness(name, others)
            # A handful of instants: the median speaks for the amender's effect, the worst for the machine too.
            assert not lateness or percentile(lateness, 0.5) < 150
            assert not lateness or lateness[-1] < 2 * SECOND


async def test_one_bad_trigger_is_quarantined_and_the_others_go_on(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trigger whose decision raises is quarantined by an entry; the rest of its book is decided as ever."""

    def broken(state: State, trigger: TriggerState, zones: ZoneLibrary) -> int | None:
        if trigger.name == "bad":
            raise ZeroDivisionError("no such luck")
        return due_beside_waiting(state, trigger, zones)

    monkeypatch.setattr("fireledger.domain.tick.due_beside_waiting", broken)
    async with opened_desk(broker) as desk, scheduling(broker.login("scheduler")) as running:
        await desk.create("acme", "bad", "good")
        await until(lambda: len(desk.decided("acme")) >= 4, what="the good trigger fires")
        quarantined = [entry for _, entry in desk.entries("acme") if isinstance(entry, e.TriggerQuarantined)]
        assert [(entry.trigger, entry.cause) for entry in quarantined] == [("bad", "ZeroDivisionError: no such luck")]
        assert {name for name, _ in desk.decided("acme")} == {"good"}
        desk.check_exactly_once("acme")
        assert running.scheduler.snapshot().triggers_quarantined == 1


async def test_a_restarted_broker_is_survived(broker: RunningBroker) -> None:
    """After the broker was killed and came back, the scheduler carries on and every instant has its decision."""
    async with opened_desk(broker) as desk, scheduling(broker.login("scheduler")) as running:
        await desk.create("acme", "a")
        await _instants(desk, "acme", 3, PATIENCE_S)
        await broker.process.restart()
        before = len(desk.decided("acme"))
        await until(lambda: len(desk.decided("acme")) >= before + 5, what="decisions go on")
        desk.check_exactly_once("acme")
        desk.check_never_early("acme")
        assert not running.task.done()


async def test_a_page_that_cannot_be_folded_stops_the_scheduler(broker: RunningBroker) -> None:
    """Bytes in a book that are no page end the scheduler loudly instead of being skipped."""
    async with opened_desk(broker) as desk, scheduling(broker.login("scheduler")) as running:
        # The desk reads the same log, and ends the same way.
        running.may_fail = desk.may_fail = True
        await desk.create("acme", "a")
        await until(lambda: bool(desk.decided("acme")), what="a decision")
        await desk.ledger.append(Append(book_subject("globex"), b"not a page", new_commit_id(), 0))
        await asyncio.wait({running.task}, timeout=PATIENCE_S)
        error = running.task.exception()
        assert isinstance(error, ExceptionGroup)
        causes = cast("ExceptionGroup[Exception]", error).exceptions
        assert [type(cause) for cause in causes] == [LogGap]
