"""The oracle's reading of fairness: a tenant with a fire of a lane ready gets its turn before another has two.

A scheduler serves the tenants whose fires wait in a lane in turn, each within its own bucket. So while a fire of a
tenant is ready and its scheduler knows it, that scheduler releases at most ``TURN`` fires of that lane for each of the
others. The tenant's own page tells how it stood, and each page of the scheduler what it knew (*as_of*) and when; when
a page was sent is seen on the network, since clocks may be set.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import takewhile

from fireledger.domain.page import Page
from tests.simulation.book_model import BookModel
from tests.simulation.brute_force import SECOND
from tests.simulation.invariants import require
from tests.simulation.paces import FIRE, STEP_S, SharedRate
from tests.simulation.trigger_model import TriggerModel

TURN = 1
"""Fires of another tenant between two of one that is ready: as many as a slow lane gathers, so as go in one turn."""
ASKS_WITHIN = 45 * SECOND // 100
"""A scheduler looks at a book again within a step of its last page, or a quarter of a second later if it could not."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A scheduler's page: of whom, its place in the log, what was known, and when it was decided and sent."""

    tenant: str
    sequence: int
    as_of: int
    earliest: int
    sent_at: int
    used: Counter[str]
    """Fires that it released, by lane."""


@dataclass(frozen=True, slots=True)
class Held:
    """The newest page of a book: who decided it under which lease, and when it was sent."""

    sequence: int
    owner: str
    epoch: int
    sent_at: int


@dataclass
class Fairness:
    """Judges each page of a scheduler that follows another of its own in the same book, under the same lease.

    Not judged, because nobody is promised a turn there:

    - the time in which the scheduler had not read the earlier page back, or its answer was lost;
    - books that another process or a command wrote to meanwhile: the page that lost the race had its turn;
    - books of which a page had no effect: they wait, longer each time;
    - books in which an outcome window is over: they wait until the leader was asked for late outcomes;
    - the time in which a process believes that it owns everything;
    - lanes that gather more than one fire (LaneRates above 5 a second): the rest of them goes to whoever comes.
    """

    judged_count: int = 0
    """Fires of others that were held against a tenant's turn."""
    _held: dict[str, Held] = field(default_factory=dict[str, Held])
    _sent: defaultdict[str, list[Sent]] = field(default_factory=lambda: defaultdict(list[Sent]))
    """By scheduler, in the order of the log."""

    def interrupted(self, tenant: str) -> None:
        """A page of the book is a command's, or has no effect."""
        self._held.pop(tenant, None)

    def begin(self, book: BookModel, page: Page, sent_at: int, shared: dict[str, SharedRate]) -> None:
        """A scheduler's page is about to be taken into the book. Raises Violation."""
        held, inputs = self._held.get(page.tenant), page.inputs
        if held is None or (held.owner, held.epoch) != (inputs.owner, inputs.epoch):
            return
        between = [
            each
            for each in takewhile(lambda each: each.sequence > held.sequence, reversed(self._sent[inputs.owner]))
            if any(each.used[lane] for lane in shared)
            and each.as_of >= held.sequence
            and each.earliest < inputs.earliest
            and held.sent_at + ASKS_WITHIN <= each.sent_at < sent_at
        ]
        if not between or _window_over(book, inputs.now):
            return
        for lane, rate in shared.items():
            doubted = any(begin < sent_at and end > held.sent_at for begin, end in rate.doubted)
            if rate.burst <= FIRE and not doubted:
                self._judge(book, lane, between)

    def _judge(self, book: BookModel, lane: str, others: list[Sent]) -> None:
        """No other tenant has had two turns while the book was ready."""
        served: Counter[str] = Counter()
        for each in others:
            if each.used[lane] and is_ready(book, lane, each.earliest - ASKS_WITHIN):
                served[each.tenant] += each.used[lane]
        self.judged_count += served.total()
        for tenant, count in served.items():
            text = f"{tenant} has {count} {lane} fires while one of {book.tenant} is ready"
            require(count <= TURN, "fair", f"{text}: {others}")

    def end(self, page: Page, sequence: int, sent_at: int, used: Counter[str]) -> None:
        """The scheduler's page is taken."""
        inputs = page.inputs
        self._held[page.tenant] = Held(sequence, inputs.owner, inputs.epoch, sent_at)
        self._sent[inputs.owner].append(Sent(page.tenant, sequence, inputs.as_of, inputs.earliest, sent_at, used))


def is_ready(book: BookModel, lane: str, now: int) -> bool:
    """Whether a fire of the lane waits for nothing but the lane's shared rate.

    A scheduler looks at what waits once the tenant's pace holds what flows in in a step, and at least one fire.
    """
    rate = book.paces.lane_rate
    if now < book.now or book.paces.lanes[lane].fires(now, rate) < _worth_a_look(rate):
        return False
    return any(book.deciding(trigger) and _waits(trigger, lane, now) for trigger in book.triggers.values())


def _waits(trigger: TriggerModel, lane: str, now: int) -> bool:
    """Whether the trigger has a fire of the lane that is the next to go."""
    if not trigger.waiting or trigger.blocked:
        return False
    order = sorted(trigger.waiting, key=lambda fire: trigger.waiting[fire].order(fire))
    lanes = [trigger.waiting[fire].lane for fire in order]
    backfill = trigger.backfill if lane == "backfill" else None
    paced = backfill is not None and backfill.pace.fires(now, backfill.rate) < _worth_a_look(backfill.rate)
    # A fire of another lane that comes first and goes blocks its trigger.
    return lane in (lanes if trigger.definition.overlap == "allow" else lanes[:1]) and not paced


def _worth_a_look(rate: int) -> int:
    """Fires that a pace brings in a step."""
    return max(1, round(rate * STEP_S * SECOND) // FIRE)


def _window_over(book: BookModel, now: int) -> bool:
    """Whether an outcome window has ended before this now."""
    deadlines = (opened.deadline for trigger in book.triggers.values() for opened in trigger.open.values())
    return any(deadline is not None and deadline <= now for deadline in deadlines)
