"""The broker in memory: one log with expectations on exact subjects, one bucket, its own clock, and a network.

It keeps the rules that the adapters in ``runners/jetstream`` promise their callers, and is held to the same contract
tests. A request travels to the broker and back with drawn delays; either way it can be lost, held up, or stay on its
way after its sender has died.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Generic, TypeVar, cast

from fireledger.runners.errors import BrokerUnavailable, RolledBack
from fireledger.runners.jetstream.buckets import Entry
from fireledger.runners.jetstream.leader import Stored
from fireledger.runners.jetstream.ledger import Append, Committed, Lost

_T = TypeVar("_T")

LATENCY_S_MIN = 0.000_2
LATENCY_S_MEAN = 0.001_5
"""One way through a quiet network: never less than the first, exponentially more."""
LATENCY_S_MAX = 2.0
"""What a drawn delay is cut off at; slower ones come from faults."""


@dataclass(frozen=True, slots=True)
class _Occupied:
    """What the broker keeps of a stored message besides the message: whose it is."""

    stored: Stored
    commit_id: str


@dataclass(slots=True)
class _Held:
    value: bytes
    revision: int
    stamped_at: int


class SimulatedBroker:
    """The server: what it has stored, and whether it is up."""

    def __init__(self, now: Callable[[], int]) -> None:
        """``now`` is true time in microseconds."""
        self.offset = 0
        """How far the broker's wall clock is off, in microseconds."""
        self.log: list[Stored] = []
        self.up = True
        self.generation = 0
        """How often it was restarted: whatever was on its way then is lost."""
        self.sent_at: dict[str, int] = {}
        """When each message was first sent, in true time, by its commit id."""
        self.on_store: list[Callable[[Stored], None]] = []
        """Called with each message as it is stored, before anybody can read it."""
        self.on_loss: list[Callable[[], None]] = []
        """Called when it is back without its newest messages."""
        self._now = now
        self._subjects: dict[str, list[_Occupied]] = {}
        self._keys: dict[str, _Held] = {}
        self._revision = 0
        self._stamped_at = 0
        self._came_up = asyncio.Event()
        self._came_up.set()

    def clock(self) -> int:
        """The broker's wall clock, microseconds; it never shows less than a stamp it gave."""
        self._stamped_at = max(self._stamped_at, self._now() + self.offset)
        return self._stamped_at

    def go_down(self) -> None:
        """Stop answering; what is on its way is lost."""
        self.up = False
        self.generation += 1
        self._came_up.clear()

    def come_up(self) -> None:
        """Answer again; everything that was stored is there."""
        self.up = True
        self._came_up.set()

    def lose_tail(self, count: int) -> None:
        """Come back without the newest messages, as after a power loss: their sequences are used again."""
        self.go_down()
        for stored in self.log[-count:]:
            self._subjects[stored.subject].pop()
        del self.log[-count:]
        self.come_up()
        for callback in (*self.on_loss,):
            callback()

    async def wait_up(self) -> None:
        """Return once it is up."""
        await self._came_up.wait()

    def note_sent(self, commit_id: str) -> None:
        """Somebody sends it."""
        self.sent_at.setdefault(commit_id, self._now())

    # The log

    def last_sequence(self) -> int:
        """The sequence of the newest message, 0 without any."""
        return len(self.log)

    def head(self, subject: str) -> Stored | None:
        """The newest message on an exact subject."""
        found = self._subjects.get(subject)
        return found[-1].stored if found else None

    def store(self, append: Append) -> Committed | Lost:
        """Store a message if the newest on its subject is the expected one; else say what holds its position."""
        held = self._subjects.setdefault(append.subject, [])
        last = held[-1].stored.sequence if held else 0
        if last != append.expected_sequence:
            return self._occupant(held, append)
        stored = Stored(len(self.log) + 1, append.subject, self.clock(), append.body)
        held.append(_Occupied(stored, append.commit_id))
        self.log.append(stored)
        for callback in self.on_store:
            callback(stored)
        return Committed(stored.sequence)

    def _occupant(self, held: list[_Occupied], append: Append) -> Committed | Lost:
        for each in held:
            if each.stored.sequence > append.expected_sequence:
                ours = each.commit_id == append.commit_id and each.stored.body == append.body
                return Committed(each.stored.sequence) if ours else Lost(each.stored)
        raise AssertionError(f'"{append.subject}" ends before sequence {append.expected_sequence}')

    # The bucket

    def get(self, key: str) -> Entry | None:
        """A key's entry."""
        held = self._keys.get(key)
        return None if held is None else Entry(key, held.value, held.revision, held.stamped_at)

    def entries(self, prefix: str) -> list[Entry]:
        """All entries whose keys begin with ``prefix``."""
        return [
            Entry(key, held.value, held.revision, held.stamped_at)
            for key, held in self._keys.items()
            if key.startswith(prefix)
        ]

    def put_if(self, key: str, value: bytes, revision: int) -> int | None:
        """Set a key whose revision is still this one (0: it must not exist)."""
        held = self._keys.get(key)
        if (0 if held is None else held.revision) != revision:
            return None
        self._revision += 1
        self._keys[key] = _Held(value, self._revision, self.clock())
        return self._revision

    def delete_if(self, key: str, revision: int) -> bool:
        """Delete a key whose revision is still this one."""
        held = self._keys.get(key)
        if held is None or held.revision != revision:
            return False
        self._revision += 1
        del self._keys[key]
        return True


@dataclass(slots=True)
class _Parcel(Generic[_T]):
    """A request on its way, and later its answer.

    Most come back in time, so a timer is set only once something keeps one from it.
    """

    act: Callable[[], _T]
    answer: "asyncio.Future[_T]"
    generation: int
    deadline_s: float
    found: _T | None = None
    timer: asyncio.TimerHandle | None = None

    def give_up_in_time(self, loop: asyncio.AbstractEventLoop) -> None:
        """See to it that the sender hears by the deadline that there was no answer."""
        if self.timer is None:
            self.timer = loop.call_at(self.deadline_s, _time_out, self.answer)


@dataclass
class Trouble:
    """What a link suffers from at present. Probabilities and seconds; all zero in a healthy one."""

    lost_requests: float = 0.0
    lost_answers: float = 0.0
    slow_requests: float = 0.0
    slow_s: float = 0.0
    read_delay_s: float = 0.0


@dataclass
class Link:
    """One process's way to the broker. ``frozen`` holds everything in both directions until it thaws."""

    broker: SimulatedBroker
    random: Random
    trouble: Trouble = field(default_factory=Trouble)
    frozen: bool = False
    dead: bool = False
    _waiting: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    _cut_too: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def delay_s(self) -> float:
        """Draw one way's delay."""
        return min(LATENCY_S_MIN + self.random.expovariate(1 / LATENCY_S_MEAN), LATENCY_S_MAX)

    def later(self, delay_s: float, what: Callable[[], None]) -> None:
        """Do something after a delay, and not while frozen."""
        asyncio.get_running_loop().call_later(delay_s, self._unless_frozen, what)

    def _unless_frozen(self, what: Callable[[], None]) -> None:
        if self.frozen:
            self._waiting.append(what)
        else:
            what()

    def freeze(self) -> None:
        """Hold everything."""
        self.frozen = True

    def thaw(self) -> None:
        """Let everything go on that was held."""
        self.frozen = False
        waiting, self._waiting = self._waiting, []
        for what in waiting:
            what()

    def cut(self) -> None:
        """The process died. What it had sent may still arrive; nobody hears the answer."""
        self.dead = True
        self.trouble = Trouble()
        self.thaw()
        for stop in self._cut_too:
            stop()

    async def ask(self, act: Callable[[], _T], timeout_s: float) -> _T:
        """Have the broker do something, and return its answer. Raises BrokerUnavailable when none came in time."""
        loop = asyncio.get_running_loop()
        if not self.broker.up:
            await self._wait_up(timeout_s)
        parcel = _Parcel(act, loop.create_future(), self.broker.generation, loop.time() + timeout_s)
        trouble = self.trouble
        delay_s = self.delay_s()
        if trouble.slow_requests and self.random.random() < trouble.slow_requests:
            delay_s += self.random.uniform(0.2, 1.0) * trouble.slow_s
        if trouble.lost_requests and self.random.random() < trouble.lost_requests:
            parcel.give_up_in_time(loop)
        else:
            self._send(loop, delay_s, parcel, self._arrive)
        try:
            answer: _T = await parcel.answer
        finally:
            if parcel.timer is not None:
                parcel.timer.cancel()
        return answer

    def _send(
        self, loop: asyncio.AbstractEventLoop, delay_s: float, parcel: _Parcel[_T], what: Callable[[_Parcel[_T]], None]
    ) -> None:
        if loop.time() + delay_s >= parcel.deadline_s:
            parcel.give_up_in_time(loop)
        loop.call_later(delay_s, self._travelled, parcel, what)

    def _travelled(self, parcel: _Parcel[_T], what: Callable[[_Parcel[_T]], None]) -> None:
        if self.frozen:
            parcel.give_up_in_time(asyncio.get_running_loop())
            self._waiting.append(lambda: what(parcel))
        else:
            what(parcel)

    async def _wait_up(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self.broker.wait_up()
        except TimeoutError:
            raise BrokerUnavailable("the broker is down") from None

    def _arrive(self, parcel: _Parcel[_T]) -> None:
        if parcel.generation != self.broker.generation:
            _disconnect(parcel.answer)
            return
        try:
            parcel.found = parcel.act()
        except RolledBack as error:
            if not parcel.answer.done():
                parcel.answer.set_exception(error)
            return
        loop = asyncio.get_running_loop()
        if self.trouble.lost_answers and self.random.random() < self.trouble.lost_answers:
            parcel.give_up_in_time(loop)
        else:
            self._send(loop, self.delay_s(), parcel, self._answer)

    def _answer(self, parcel: _Parcel[_T]) -> None:
        if parcel.generation != self.broker.generation:
            _disconnect(parcel.answer)
        elif not parcel.answer.done():
            parcel.answer.set_result(cast("_T", parcel.found))

    def on_cut(self, stop: Callable[[], None]) -> None:
        """Have this called when the process dies."""
        self._cut_too.append(stop)


def _time_out(answer: "asyncio.Future[_T]") -> None:
    if not answer.done():
        answer.set_exception(BrokerUnavailable("no answer in time"))


def _disconnect(answer: "asyncio.Future[_T]") -> None:
    if not answer.done():
        answer.set_exception(BrokerUnavailable("the connection was lost"))


async def wait(seconds: float) -> None:
    """Let time pass."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    timer = loop.call_later(seconds, over.set_result, None)
    try:
        await over
    finally:
        timer.cancel()
