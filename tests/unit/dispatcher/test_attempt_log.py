"""Writing slots' attempts: one page in flight, and what happens to a page that lost."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from fireledger.domain.entries import AttemptRecord, AttemptResult
from fireledger.domain.identifiers import slot_of
from fireledger.domain.limits import ATTEMPTS_PAGE_BYTES_MAX, MESSAGE_LENGTH_MAX
from fireledger.domain.page import AttemptsPage, decode_attempts, encode_attempts
from fireledger.projections.ledger_fold import FoldedAttempts, LedgerFold
from fireledger.runners.dispatcher.attempt_log import AttemptLog, Begun, attempts_subject
from fireledger.runners.dispatcher.counters import Counters
from fireledger.runners.dispatcher.tasks import Start, Task
from fireledger.runners.errors import BrokerUnavailable
from fireledger.runners.jetstream.ledger import Append, Committed, Lost, Stored
from tests.simulated_clock import SimulatedClock
from tests.unit.dispatcher.owning import Owned
from tests.unit.dispatcher.samples import task_of
from tests.waiting import until

pytestmark = pytest.mark.asyncio

SLOT = slot_of("acme")
SUBJECT = attempts_subject(SLOT)


@dataclass
class _Stream:
    """A stream in memory that decides appends as the broker does; ``hold`` keeps answers back."""

    fold: LedgerFold
    stored: list[Stored] = field(default_factory=list[Stored])
    sent: list[list[Append]] = field(default_factory=list[list[Append]])
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    failures: int = 0

    async def append_many(self, appends: Sequence[Append]) -> list[Committed | Lost]:
        self.sent.append(list(appends))
        if self.failures:
            self.failures -= 1
            raise BrokerUnavailable("nobody there")
        await self.hold.wait()
        return [self.store(append.subject, append.body, append.expected_sequence) for append in appends]

    def store(self, subject: str, body: bytes, expected: int) -> Committed | Lost:
        after = [stored for stored in self.stored if stored.subject == subject and stored.sequence > expected]
        if after:
            return Committed(after[0].sequence) if after[0].body == body else Lost(after[0])
        self.stored.append(Stored(len(self.stored) + 1, subject, 1_000 + len(self.stored), body))
        return Committed(len(self.stored))


class _Bench:
    """The log under test, its stream, and what it gave back."""

    def __init__(self) -> None:
        self.fold = LedgerFold(observing=False)
        self.stream = _Stream(self.fold)
        self.stream.hold.set()
        self.ownership = Owned()
        self.counters = Counters()
        self.given_back: list[Task] = []
        self.begun: list[Begun] = []
        self.log = AttemptLog(
            ledger=self.stream,
            head=self.fold.attempts_head,
            ownership=self.ownership,
            runner_id="dispatcher-1",
            clock=SimulatedClock(),
            counters=self.counters,
            given_back=lambda start: self.given_back.append(start.task),
        )

    def start(self, *tasks: Task) -> None:
        for task in tasks:
            self.log.start(Start(task, task.started_at))

    def rival(self, *records: AttemptRecord) -> None:
        """Another dispatcher's page, stored but not read yet."""
        head = self.fold.attempts_head(SUBJECT)
        page = AttemptsPage(
            slot=SLOT, number=head.number + 1, commit_id="rival", previous_sha256=head.sha256,
            previous_stamped_at=head.stamped_at, owner="other", epoch=1, records=records,
        )  # fmt: skip
        assert isinstance(self.stream.store(SUBJECT, encode_attempts(page), head.sequence), Committed)

    def read(self) -> None:
        """Read back what is stored."""
        for stored in self.stream.stored[self.fold.position :]:
            folded = self.fold.apply(stored)
            assert isinstance(folded, FoldedAttempts)
            begun = self.log.read_back(folded)
            if begun is not None:
                self.begun.append(begun)
        self.log.wake()

    def pages(self) -> list[AttemptsPage]:
        return [decode_attempts(stored.body) for stored in self.stream.stored]


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[_Bench]:
    """A log that runs for the test."""
    made = _Bench()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.log.run(group))
        yield made
        made.log.abandon()
        running.cancel()


async def _sent(bench: _Bench, count: int) -> None:
    await until(lambda: len(bench.stream.sent) >= count, timeout_s=2, what=f"{count} appends")


async def _stored(bench: _Bench, count: int) -> None:
    await until(lambda: len(bench.stream.stored) >= count, timeout_s=2, what=f"{count} pages")


def _result(task: Task, message: str = "") -> AttemptResult:
    return AttemptResult(
        tenant=task.key.tenant, trigger=task.key.trigger, scheduled=task.key.scheduled, attempt=1,
        result="succeeded", message=message,
    )  # fmt: skip


async def test_what_comes_while_a_page_is_in_flight_shares_the_next_one(bench: _Bench) -> None:
    """One page in flight per slot; the next begins when it was read back, and is chained to it."""
    first, second, third = (task_of(number=n) for n in range(3))
    bench.start(first)
    await _stored(bench, 1)
    bench.start(second)
    bench.log.finish(SLOT, _result(first))
    bench.start(third)
    assert len(bench.stream.sent) == 1
    bench.read()
    await _stored(bench, 2)
    bench.read()
    one, two = bench.pages()
    assert [len(page.records) for page in (one, two)] == [1, 3]
    assert (two.number, two.owner, two.epoch) == (2, "dispatcher-1", 7)
    assert [start.task for begun in bench.begun for start in begun.starts] == [first, second, third]
    await until(lambda: bench.log.idle, timeout_s=1, what="nothing in flight")


async def test_slots_that_are_ready_together_go_in_one_call(bench: _Bench) -> None:
    """Three tenants' starts of one turn are three pages in one batch."""
    bench.start(*(task_of(tenant) for tenant in ("acme", "globex", "initech")))
    await _stored(bench, 3)
    assert [len(batch) for batch in bench.stream.sent] == [3]


async def test_who_loses_makes_only_what_the_winner_left(bench: _Bench) -> None:
    """After a lost append the winner's start is given back, the rest goes into the next page, behind the winner's."""
    taken, left = task_of(number=0), task_of(number=1)
    bench.stream.hold.clear()
    bench.start(taken, left)
    await _sent(bench, 1)
    bench.rival()
    bench.stream.hold.set()
    await until(lambda: bench.counters.lost_appends == 1, timeout_s=2, what="the loss")
    assert len(bench.stream.sent) == 1, "nothing is sent before the winner's page was read"
    taken.started_at = 1_000
    bench.read()
    await _stored(bench, 2)
    bench.read()
    assert bench.given_back == [taken]
    assert [start.task for begun in bench.begun for start in begun.starts] == [left]
    assert bench.pages()[1].number == 2


async def test_results_survive_a_lost_append(bench: _Bench) -> None:
    """A result is a fact: it is written after the winner's page, also when the slot is another's by then."""
    bench.stream.hold.clear()
    bench.log.finish(SLOT, _result(task_of()))
    await _sent(bench, 1)
    bench.rival()
    bench.ownership.change({SLOT})
    bench.stream.hold.set()
    await until(lambda: bench.counters.lost_appends == 1, timeout_s=2, what="the loss")
    bench.read()
    await _stored(bench, 2)
    assert [len(page.records) for page in bench.pages()] == [0, 1]


async def test_a_start_for_a_slot_that_is_not_owned_is_given_back(bench: _Bench) -> None:
    """Nothing is written for it."""
    bench.ownership.change({SLOT})
    task = task_of()
    bench.start(task)
    await until(lambda: bench.given_back == [task], timeout_s=1, what="given back")
    assert (bench.stream.sent, bench.log.idle) == ([], True)


async def test_a_page_is_filled_in_the_order_of_the_lanes(bench: _Bench) -> None:
    """What waits for a page in flight goes on-time first, then over-quota, catch-up, backfill, and results last."""
    bench.start(task_of(number=0))
    await _stored(bench, 1)
    late = [
        task_of(number=1, lane="backfill"),
        task_of(number=2, lane="catch-up"),
        task_of(number=3, over_quota=True),
        task_of(number=4),
        task_of(number=5, lane="catch-up", over_quota=True),
    ]
    bench.log.finish(SLOT, _result(task_of(number=0)))
    bench.start(*late)
    bench.read()
    await _stored(bench, 2)
    bench.read()
    assert [start.task for start in bench.begun[1].starts] == [late[3], late[2], late[1], late[4], late[0]]
    assert isinstance(bench.pages()[1].records[-1], AttemptResult)


async def test_an_unknown_outcome_is_asked_again_with_the_same_bytes(bench: _Bench) -> None:
    """Until it is known nothing else is sent for the slot."""
    bench.stream.failures = 2
    bench.start(task_of())
    await _stored(bench, 1)
    first, *others = bench.stream.sent
    assert len(others) == 2
    assert all(other == first for other in others)


async def test_a_page_stays_within_its_bytes(bench: _Bench) -> None:
    """More results than fit go into several pages, in order, none lost."""
    long = "\u00e9" * MESSAGE_LENGTH_MAX
    tasks = [task_of(number=n) for n in range(1_500)]
    for task in tasks:
        bench.log.finish(SLOT, _result(task, long))

    async def read_all() -> bool:
        bench.read()
        return sum(len(page.records) for page in bench.pages()) == len(tasks)

    await until(read_all, timeout_s=5, what="all results")
    assert all(len(stored.body) <= ATTEMPTS_PAGE_BYTES_MAX for stored in bench.stream.stored)
    found = [record.scheduled for page in bench.pages() for record in page.records]
    assert found == [task.key.scheduled for task in tasks]
    assert len(bench.pages()) > 1


async def test_after_a_stop_only_results_are_written(bench: _Bench) -> None:
    """Starts not under way are given back, later ones too."""
    bench.stream.hold.clear()
    flying, waiting = task_of(number=0), task_of(number=1)
    bench.start(flying)
    await _sent(bench, 1)
    bench.start(waiting)
    bench.log.stop_starting()
    assert bench.given_back == [waiting]
    bench.log.finish(SLOT, _result(waiting))
    bench.stream.hold.set()
    await _stored(bench, 1)
    bench.read()
    await _stored(bench, 2)
    bench.read()
    assert [type(record).__name__ for record in bench.pages()[1].records] == ["AttemptResult"]
    await asyncio.wait_for(bench.log.flushed(), 1)
