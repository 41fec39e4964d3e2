"""The lanes projection against a naive recount of the whole log, whatever happens to fires in whatever order."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from fireledger.domain import entries as e
from fireledger.domain.book import Folded
from fireledger.domain.instants import MINUTE, SECOND
from fireledger.projections.lanes import LANES, LaneDepth, Lanes
from fireledger.projections.ledger_fold import FoldedAttempts
from tests.unit.projections.lane_log import T0, attempts_page, book_page, decided, finished, released, started

TENANTS = ("acme", "zeta")
STEPS = st.tuples(
    st.sampled_from(TENANTS),
    st.sampled_from(("decide", "fire", "ask", "release", "start", "resend", "retry", "hold", "let-go", "end", "drop")),
    st.sampled_from(LANES),
    st.booleans(),
    st.integers(0, 25 * SECOND),
    st.integers(0, 1_000),
)
"""Tenant, what happens, lane and over-quota mark of a new fire, time since the step before, and which fire it is."""


@dataclass
class Told:
    """One fire's whole story: its entries and records with their broker timestamps."""

    tenant: str
    scheduled: int
    lane: e.Lane
    over: bool
    events: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def happened(self, *names: str) -> list[int]:
        """When these happened."""
        return [at for at, name in self.events if name in names]

    def last(self) -> str:
        """What happened last, starts made again aside."""
        return [name for _, name in self.events if name != "resend"][-1]


MAY_FOLLOW: dict[str, tuple[str, ...]] = {
    "release": ("decide", "ask", "retry", "let-go"),
    "start": ("release", "fire"),
    "resend": ("start",),
    "retry": ("start",),
    "hold": ("start", "retry"),
    "let-go": ("hold",),
    "end": ("start", "retry", "hold", "release", "fire"),
    "drop": ("decide", "ask"),
}


class World:
    """Writes a log step by step, and remembers every fire's story."""

    def __init__(self) -> None:
        self.now = T0
        self.told: list[Told] = []
        self.log: list[tuple[Folded | FoldedAttempts, int]] = []

    def step(self, tenant: str, what: str, lane: e.Lane, over: bool, wait: int, which: int) -> None:
        """Let it happen, unless there is no fire that it can happen to."""
        self.now += wait
        if what in ("decide", "fire", "ask"):
            scheduled = self.now - which * SECOND // 10
            if any((fire.tenant, fire.scheduled) == (tenant, scheduled) for fire in self.told):
                return
            lane = "on-time" if what == "ask" else lane
            fire = Told(tenant, scheduled, lane, over and what != "ask")
            self.told.append(fire)
        else:
            fitting = [each for each in self.told if each.tenant == tenant and each.last() in MAY_FOLLOW[what]]
            if not fitting:
                return
            fire = fitting[which % len(fitting)]
        self.log.append((self._message(fire, what), self.now))
        fire.events.append((self.now, what))

    def _message(self, fire: Told, what: str) -> Folded | FoldedAttempts:
        at, attempt = fire.scheduled, 1 + len(fire.happened("retry", "let-go"))
        if what in ("start", "resend"):
            record = started(fire.tenant, at, attempt=attempt, resend=what == "resend")
            return attempts_page(record, at=self.now)
        entries: dict[str, e.BookEntry] = {
            "decide": decided(at, fire.lane, over=fire.over),
            "fire": released(at, fire.lane, over=fire.over),
            "ask": e.FireRequested(trigger="t", scheduled=at, definition_page=2, by="ann"),
            "release": released(at, fire.lane, attempt=attempt, decides=False, over=fire.over),
            "retry": e.RetryScheduled(trigger="t", scheduled=at, attempt=attempt + 1, at=self.now + 20 * SECOND),
            "hold": e.FireHeld(trigger="t", scheduled=at, attempt=attempt),
            "let-go": e.HeldFireReleased(trigger="t", scheduled=at, by="ann"),
            "end": finished(at),
            "drop": e.FireWithdrawn(trigger="t", scheduled=at, state="cancelled", cause="by-person"),
        }
        return book_page(fire.tenant, entries[what], at=self.now)

    def folded(self) -> Lanes:
        """The projection of the log so far, from its first message."""
        lanes = Lanes()
        for message, at in self.log:
            lanes.apply(message, stamped_at=at)
        return lanes


def due_since(fire: Told) -> tuple[bool, int] | None:
    """Whether a fire is released, and since when it is due; None when nothing is to be done about it."""
    at, last = fire.events[-1][0], fire.last()
    match last:
        case "decide":
            return False, at if fire.lane == "backfill" else fire.scheduled
        case "ask":
            return False, fire.scheduled
        case "let-go":
            return False, at
        case "retry":
            return False, fire.happened("retry")[-1] + 20 * SECOND
        case "fire":
            return True, fire.scheduled
        case "release":
            return True, at
        case _:
            return None


def recount(world: World, tenant: str, lane: e.Lane, now: int) -> LaneDepth:
    """A lane's depth by looking at every fire's whole story."""
    fires = [fire for fire in world.told if (fire.tenant, fire.lane) == (tenant, lane)]
    due = [(fire, found) for fire in fires if (found := due_since(fire)) is not None and found[1] <= now]
    waiting = [since for _, (is_released, since) in due if not is_released]
    on_way = [since for _, (is_released, since) in due if is_released]
    recent = [at for fire in fires for at in fire.happened("fire", "release", "start") if _second(at) > now - MINUTE]
    starts = sum(_second(at) > now - MINUTE for fire in fires for at in fire.happened("start"))
    over = min(max(now - min(map(_second, recent), default=now), 10 * SECOND), MINUTE)
    return LaneDepth(
        lane=lane,
        tenant=tenant,
        waiting=len(waiting),
        released=len(on_way),
        over_quota=sum(fire.over for fire, _ in due),
        waiting_since=min(waiting, default=None),
        released_since=min(on_way, default=None),
        releases=len(recent) - starts,
        starts=starts,
        drain_rate=starts * SECOND / over,
    )


def _second(at: int) -> int:
    return at - at % SECOND


@given(st.lists(STEPS, max_size=60), st.integers(0, 2 * MINUTE))
def test_every_depth_is_what_a_recount_finds(steps: list[tuple[str, str, e.Lane, bool, int, int]], later: int) -> None:
    """Folded once or from the beginning again, depths, ages and rates are those of the whole log."""
    world, lanes = World(), Lanes()
    for step in steps:
        before = len(world.log)
        world.step(*step)
        for message, at in world.log[before:]:
            lanes.apply(message, stamped_at=at)
    now = world.now + later
    for tenant in TENANTS:
        found = {depth.lane: depth for depth in lanes.depths(now, tenant)}
        assert {lane: found.get(lane, LaneDepth(lane, tenant)) for lane in LANES} == {
            lane: recount(world, tenant, lane, now) for lane in LANES
        }
    assert world.folded().depths(now) == lanes.depths(now)


@given(st.lists(STEPS, max_size=60))
def test_only_fires_without_an_outcome_are_kept(steps: list[tuple[str, str, e.Lane, bool, int, int]]) -> None:
    """What is kept is bounded by what is open; once all has ended and a minute is over, nothing is."""
    world = World()
    for step in steps:
        world.step(*step)
    lanes = world.folded()
    unfinished = [fire for fire in world.told if fire.last() not in ("end", "drop")]
    assert len(lanes) == len(unfinished)
    for fire in unfinished:
        lanes.apply(book_page(fire.tenant, finished(fire.scheduled), at=world.now), stamped_at=world.now)
    lanes.apply(attempts_page(at=world.now + 3 * MINUTE), stamped_at=world.now + 3 * MINUTE)
    assert (len(lanes), lanes.depths(world.now)) == (0, [])
