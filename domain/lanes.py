"""Lanes: how fast released fires may come, and what is held back first (DESIGN section 5, rule 4).

A pace is a token bucket in whole numbers: a fire takes TOKEN, elapsed microseconds bring ``units_per_us`` each.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from .definition import TenantSettings
from .entries import FireCause, Lane
from .instants import SECOND
from .limits import PACE_STEP
from .state import Backfill, Bucket, State, TriggerState, WaitingFire

TOKEN = 100 * SECOND
"""What one fire takes from a bucket: a rate of one fire a second brings 100 units each microsecond."""

SHED_BACKFILL, SHED_CATCH_UP, SHED_OVER_QUOTA, SHED_ON_TIME = 1, 2, 3, 4
"""Shedding levels: from each on, this and what comes before it is held back."""

_ORDER: Mapping[FireCause, int] = {"on-time": 0, "by-hand": 1, "caught-up": 2, "backfilled": 3}


@dataclass(frozen=True, slots=True)
class Pace:
    """A rate: ``units_per_us`` of TOKEN each microsecond, gathered up to one second's worth, and at least one fire."""

    units_per_us: int

    @property
    def full(self) -> int:
        """The most a bucket of this pace holds."""
        return max(TOKEN, self.units_per_us * SECOND)

    def refilled(self, bucket: Bucket, now: int) -> Bucket:
        """The bucket as it stands at ``now``. One that was never used is full."""
        if bucket.at == 0:
            return Bucket(self.full, now)
        return Bucket(min(self.full, bucket.level + max(0, now - bucket.at) * self.units_per_us), max(now, bucket.at))

    def taken(self, bucket: Bucket, now: int) -> Bucket:
        """The bucket after one fire; it may be empty, never below."""
        filled = self.refilled(bucket, now)
        return Bucket(max(0, filled.level - TOKEN), filled.at)

    def tokens(self, bucket: Bucket, now: int) -> int:
        """How many fires the bucket allows at ``now``."""
        return self.refilled(bucket, now).level // TOKEN

    def ready_at(self, bucket: Bucket) -> int:
        """When enough tokens have gathered that looking is worth it: PACE_STEP's worth, and at least one fire's."""
        wanted = max(TOKEN, self.units_per_us * PACE_STEP // TOKEN * TOKEN)
        missing = 0 if bucket.at == 0 else wanted - bucket.level
        return bucket.at if missing <= 0 else bucket.at + -(-missing // self.units_per_us)


_pace = lru_cache(maxsize=1_024)(Pace)
"""Of thousands of waiting fires each asks for its lane's pace, and they are all the same few."""


def quota_pace(settings: TenantSettings) -> Pace:
    """On-time fires of the tenant, before they are marked over-quota."""
    return _pace(100 * settings.quota_per_second)


def catch_up_pace(settings: TenantSettings) -> Pace:
    """The tenant's catch-up fires, and as fast beside them its backfill fires."""
    return _pace(settings.catch_up_percent * settings.quota_per_second)


def backfill_pace(backfill: Backfill) -> Pace:
    """The rate that one backfill was given."""
    return _pace(100 * backfill.rate_per_second)


def release_order(fire: WaitingFire) -> tuple[int, int, int]:
    """The order in which waiting fires are released: on time, by hand, caught up, backfilled; the oldest first."""
    return _ORDER[fire.cause], fire.scheduled, fire.sequence


def held_back(lane: Lane, *, over_quota: bool, shedding_level: int) -> bool:
    """Whether a fire is held back at this level of shedding."""
    if lane == "backfill":
        return shedding_level >= SHED_BACKFILL
    if lane == "catch-up":
        return shedding_level >= SHED_CATCH_UP
    return shedding_level >= (SHED_OVER_QUOTA if over_quota else SHED_ON_TIME)


def lane_ready_at(state: State, trigger: TriggerState, lane: Lane) -> int:
    """From when on the tenant's pace, and that of the trigger's backfill, let a fire of the lane go; 0 without one."""
    if lane == "on-time" or state.settings is None:
        return 0
    pace = catch_up_pace(state.settings)
    if lane == "catch-up":
        return pace.ready_at(state.catch_up)
    ready = pace.ready_at(state.backfill_pace)
    backfill = trigger.backfill
    return ready if backfill is None else max(ready, backfill_pace(backfill).ready_at(backfill.pace))


def waiting_ready_at(state: State, trigger: TriggerState) -> int | None:
    """From when on a waiting fire of the trigger may be released, as far as the book knows; None: none waits.

    What a page is allowed of the shared rates, and shedding, are not in the book.
    """
    lanes: set[Lane] = {fire.lane for fire in trigger.waiting}
    return min((lane_ready_at(state, trigger, lane) for lane in lanes), default=None)


class Allowances:
    """What one page may still release: the tenant's buckets, the page's shares of the lanes' rates, the shedding."""

    def __init__(self, state: State, now: int, granted: Mapping[str, int], shedding_level: int) -> None:
        assert state.settings is not None, "a tenant that exists has settings"
        self._now = now
        self._shedding_level = shedding_level
        self._quota_left = quota_pace(state.settings).tokens(state.quota, now)
        pace = catch_up_pace(state.settings)
        self._left = {
            "catch-up": min(pace.tokens(state.catch_up, now), granted.get("catch-up", pace.full)),
            "backfill": min(pace.tokens(state.backfill_pace, now), granted.get("backfill", pace.full)),
        }

    def over_quota(self) -> bool:
        """Whether one more on-time fire is above the tenant's quota."""
        return self._quota_left <= 0

    def sheds(self, lane: Lane, *, over_quota: bool) -> bool:
        """Whether fires of the lane are held back."""
        return held_back(lane, over_quota=over_quota, shedding_level=self._shedding_level)

    def allows(self, lane: Lane, *, over_quota: bool) -> bool:
        """Whether a fire of the lane may be released now."""
        return not self.sheds(lane, over_quota=over_quota) and self._left.get(lane, 1) > 0

    def allow_any(self, fires: Iterable[WaitingFire]) -> bool:
        """Whether one of these fires may be released now, as far as the lanes go."""
        return any(self.allows(fire.lane, over_quota=fire.over_quota) for fire in fires)

    def take(self, lane: Lane, *, over_quota: bool) -> None:
        """Count a release."""
        if lane in self._left:
            self._left[lane] -= 1
        elif not over_quota:
            self._quota_left -= 1
