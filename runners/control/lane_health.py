"""Whether the lanes are well: what ``status`` calls a problem, unless an operator has declared a drain."""

from collections.abc import Callable, Mapping

from fireledger.domain.book import Book
from fireledger.domain.due import blocked
from fireledger.domain.entries import Lane
from fireledger.domain.instants import HOUR, MINUTE, SECOND, Duration, format_duration
from fireledger.domain.state import State
from fireledger.projections.lanes import LANES, LaneDepth, Lanes, Stage

from ..clock import Clock, ClockHeld
from .model import Model
from .problems import Problems

LANE_BEHIND = "lane-behind"
"""The code of the problem."""

AGE_MAX: dict[Lane, Duration] = {
    "on-time": Duration(60 * SECOND),
    "catch-up": Duration(15 * MINUTE),
    "backfill": Duration(1 * HOUR),
}
"""How old a lane's oldest undispatched fire may be: a paced lane is behind for a while by its nature, on-time not."""


def lane_now(clock: Clock, lanes: Lanes) -> int:
    """The instant that ages are told at: the clock's, or while that is held the newest that the broker stamped."""
    try:
        return clock.now().earliest
    except ClockHeld:
        return lanes.stamped_at


def undispatched_since(depth: LaneDepth) -> int | None:
    """Since when the oldest fire of a lane is due that is not started, whatever keeps it."""
    return min((at for at in (depth.waiting_since, depth.released_since) if at is not None), default=None)


def note_lanes(lanes: Lanes, books: Mapping[str, Book], now: int, found: Problems) -> None:
    """One problem for each lane whose oldest fire is too old, counting only tenants without a drain declared for it.

    A fire that waits for its trigger (paused, suspended, in quarantine, another fire open) is not late by the lane.
    """
    worst: dict[Lane, tuple[int, str]] = {}
    for depth in lanes.depths(now):
        since = undispatched_since(depth)
        if since is None or depth.tenant is None or now - since <= AGE_MAX[depth.lane]:
            continue
        if depth.tenant not in books or lanes.drain(depth.tenant, depth.lane, now) is not None:
            continue
        oldest = _oldest(lanes, books[depth.tenant].state, depth.lane, now)
        if oldest is not None and now - oldest > AGE_MAX[depth.lane]:
            named = (oldest, depth.tenant)
            worst[depth.lane] = min(named, worst.get(depth.lane, named))
    for lane in LANES:
        if lane in worst:
            _note(lane, now - worst[lane][0], worst[lane][1], found)


def _oldest(lanes: Lanes, state: State, lane: Lane, now: int) -> int | None:
    return lanes.oldest(state.tenant, lane, now, _releasable(state))


def stopped_count(lanes: Lanes, books: Mapping[str, Book], lane: Lane, tenant: str, now: int) -> int:
    """How many of the lane's waiting fires are kept by their trigger: it stands still, or its open fires do."""
    return 0 if tenant not in books else lanes.stopped(tenant, lane, now, _releasable(books[tenant].state))


def _releasable(state: State) -> Callable[[str, Stage], bool]:
    def releasable(name: str, stage: Stage) -> bool:
        """Whether nothing about the trigger itself keeps a fire of it from being released."""
        trigger = state.triggers.get(name)
        if trigger is None or not state.deciding(trigger):
            return False
        return stage == "retrying" or not blocked(trigger)

    return releasable


def _note(lane: Lane, age: int, tenant: str, found: Problems) -> None:
    old, limit = format_duration(age - age % SECOND), format_duration(AGE_MAX[lane])
    found.note(
        LANE_BEHIND,
        f'the oldest undispatched fire of the {lane} lane, of tenant "{tenant}", is {old} old; {limit} is too old',
        f"see how it drains: fireledger lanes --tenant {tenant}; if it is meant to be behind: "
        f"fireledger lanes declare-drain {lane} --until 1h --why TEXT",
    )


def note_lane_health(model: Model, clock: Clock, found: Problems) -> None:
    """Add to the problems what is wrong with the lanes."""
    note_lanes(model.lanes, model.books, lane_now(clock, model.lanes), found)
