"""A pause is exact: after it was acknowledged, nothing of its trigger is decided or released until it is resumed."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest
from msgspec.structs import replace

from fireledger.domain import entries as e
from fireledger.domain.definition import Definition
from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import MILLISECOND, SECOND, Duration, Instant
from fireledger.domain.jitter import release_of
from fireledger.runners.clock import choose_clock, realtime
from fireledger.runners.errors import ExitStatus, OperationalError
from fireledger.runners.identity import new_request_id
from tests.integration.brokers import RunningBroker
from tests.integration.control.running import Service, running_service
from tests.integration.scheduler.harness import Desk, definition, opened_desk, scheduling
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

TENANTS = 200
ROUNDS = 5
"""Pauses of each tenant's trigger: together 1,000."""
AIM_US = (-25 * MILLISECOND, 45 * MILLISECOND)
"""A pause is sent this long before to after a due instant: about when the scheduler's page for it is on its way."""
PAUSED_US = (150 * MILLISECOND, 1_150 * MILLISECOND)
"""How long a pause lasts: some hold an instant, some none."""
TRIES_MAX = 4
"""Each lasts ten or fifteen seconds on a machine that is too busy for everything."""
SEED = 20_261_201


@dataclass(frozen=True)
class Acknowledged:
    """A pause that was acknowledged: its page, and when its caller knew."""

    tenant: str
    page: int
    at: Instant


def defined(number: int) -> Definition:
    """Every second; every other tenant's releases are jittered over the second, and their policies differ."""
    missed = ("fire-once-now", "fire-all", "skip")[number % 3]
    return replace(definition(), jitter=SECOND * (number % 2), missed=missed)


def release_after(tenant: str, number: int, instant: int) -> Instant:
    """The release of the first instant that is scheduled after this one."""
    scheduled = Instant((instant // SECOND + 1) * SECOND)
    return release_of(FireKey(tenant, "t", scheduled, 0), SECOND * (number % 2), SECOND)


async def acknowledged_by(service: Service, command: str, tenant: str) -> int:
    """Give a command about the trigger until it is carried out, once; its page. A busy machine asks for patience."""
    request_id = new_request_id()
    for _ in range(TRIES_MAX):
        try:
            answer = await service.ask(command, tenant=tenant, trigger="t", request_id=request_id)
            return int(str(answer["page"]))
        except OperationalError as error:
            if error.exit_status is not ExitStatus.UNAVAILABLE:
                raise
    raise AssertionError(f'"{command}" of "{tenant}" was never carried out')


async def race(service: Service, tenant: str, number: int) -> list[Acknowledged]:
    """Pause about when a fire is due, and resume, again and again; the pauses that were acknowledged."""
    random, acknowledged = Random(SEED + number), list[Acknowledged]()
    clock = choose_clock(declared=Duration(MILLISECOND), single_machine=True, on_step="accept")
    for _ in range(ROUNDS):
        due = release_after(tenant, number, realtime() + SECOND // 20)
        await clock.sleep_until(Instant(due + random.randrange(*AIM_US)))
        page = await acknowledged_by(service, "trigger.pause", tenant)
        acknowledged.append(Acknowledged(tenant, page, realtime()))
        await clock.sleep_until(Instant(realtime() + random.randrange(*PAUSED_US)))
        await acknowledged_by(service, "trigger.resume", tenant)
    return acknowledged


_DECIDES = e.FireReleased | e.FireDecided | e.FireWithdrawn | e.InstantsResolved


@dataclass
class Judge:
    """Reads one book in its order and knows at each page whether the trigger is paused, and since when."""

    paused_page: int = 0
    paused_now: int = 0
    pauses: int = 0
    resumes: int = 0
    instants_in_pauses: int = 0
    """Instants whose release a pause covered: decided only once it was over."""

    def take(self, tenant: str, number: int, desk: Desk) -> None:
        """Read the book. Asserts that no page between a pause and its resume decides anything."""
        for read in desk.pages:
            page = read.folded.page
            if page.tenant != tenant or not read.folded.effective:
                continue
            for entry in page.entries:
                match entry:
                    case e.TriggerPaused():
                        self.paused_page, self.paused_now = page.number, page.inputs.now
                        self.pauses += 1
                    case e.TriggerResumed():
                        covered = self.covered(tenant, number, page.inputs.now)
                        self.instants_in_pauses += covered
                        assert entry.owed_count >= covered, f"page {page.number} of {tenant} owes what was paused"
                        self.paused_page = 0
                        self.resumes += 1
                    case e.FireReleased() | e.FireDecided() | e.FireWithdrawn() | e.InstantsResolved():
                        assert not self.paused_page, f"page {page.number} of {tenant} decides inside a pause"
                    case _:
                        pass

    def covered(self, tenant: str, number: int, resumed_now: int) -> int:
        """How many instants were released in (pause's now, resume's now]."""
        seconds = range(self.paused_now // SECOND - 1, resumed_now // SECOND + 1)
        releases = (
            release_of(FireKey(tenant, "t", Instant(second * SECOND), 0), SECOND * (number % 2), SECOND)
            for second in seconds
        )
        return sum(self.paused_now < release <= resumed_now for release in releases)


def check_acknowledged(desk: Desk, pauses: list[Acknowledged]) -> int:
    """Assert that nothing stamped after an acknowledgement, and before the resume, decides; the lost races' count.

    A race is lost by the pause when the scheduler's page for the instant came directly before it.
    """
    books: dict[str, list[tuple[bool, int, tuple[e.BookEntry, ...]]]] = {}
    for read in desk.pages:
        page, head = read.folded.page, read.folded.book.head
        books.setdefault(page.tenant, []).append((read.folded.effective, head.stamped_at, page.entries))
    lost = 0
    for pause in pauses:
        pages = books[pause.tenant]
        effective, stamped_at, entries = pages[pause.page - 1]
        assert effective
        assert any(isinstance(entry, e.TriggerPaused) for entry in entries), "the answer names the pause's page"
        assert stamped_at <= pause.at
        before = pages[pause.page - 2]
        lost += any(isinstance(entry, _DECIDES) for entry in before[2]) and stamped_at - before[1] < SECOND // 10
        for is_effective, at, later in pages[pause.page :]:
            if any(isinstance(entry, e.TriggerResumed) for entry in later):
                break
            decides = is_effective and any(isinstance(entry, _DECIDES) for entry in later)
            assert not decides, f"{pause.tenant}: decided at {at}, paused at {stamped_at}"
    return lost


@pytest.mark.timeout(300)
async def test_a_pause_is_exact(broker: RunningBroker, measured: Callable[[str], None]) -> None:
    """1,000 pauses raced against due instants, before two owners: no page after one decides, and nothing is lost."""
    tenants = {f"t{number}": number for number in range(TENANTS)}
    login = broker.login("scheduler")
    async with opened_desk(broker) as desk, running_service(broker) as service:
        await asyncio.gather(*(desk.create(tenant, "t", of=defined(number)) for tenant, number in tenants.items()))
        async with scheduling(login, "one") as one, scheduling(login, "two") as two:
            began = realtime()
            raced = await asyncio.gather(*(race(service, tenant, number) for tenant, number in tenants.items()))
            took_s = (realtime() - began) / SECOND
            ended = realtime()

            def decided() -> bool:
                """Whether every trigger went on after its last resume."""
                return all(max((at for _, at in desk.decided(tenant)), default=0) > ended for tenant in tenants)

            await until(decided, what="all triggers go on")
            met = one.scheduler.conflict_count + two.scheduler.conflict_count
    pauses = [pause for found in raced for pause in found]
    assert len(pauses) == TENANTS * ROUNDS
    judges = [Judge() for _ in tenants]
    for judge, (tenant, number) in zip(judges, tenants.items(), strict=True):
        judge.take(tenant, number, desk)
        desk.check_exactly_once(tenant)
        desk.check_never_early(tenant)
    lost = check_acknowledged(desk, pauses)
    kinds = Counter(
        entry.cause
        for tenant in tenants
        for _, entry in desk.entries(tenant)
        if isinstance(entry, e.FireReleased | e.InstantsResolved)
    )
    held = sum(judge.instants_in_pauses for judge in judges)
    measured(
        f"{len(pauses)} pauses in {took_s:.0f} s, {met} schedulers' pages lost an append; the instant was decided "
        f"right before {lost} of the pauses; {held} instants inside pauses; decisions {dict(kinds)}"
    )
    assert sum(judge.pauses for judge in judges) == sum(judge.resumes for judge in judges) == len(pauses)
    assert met > 0
    assert held > 0, "pauses held instants back"
