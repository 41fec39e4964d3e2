"""The oracle's reading of paces: buckets that fires take from, and the lanes' rates over all tenants.

A bucket holds one second's worth of its rate and at least one fire; a window of any length therefore holds at most
a full bucket and what flows in meanwhile. Rates are in hundredths of a fire a second.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from fireledger.domain.definition import TenantSettings
from fireledger.domain.entries import Lane
from fireledger.domain.instants import SECOND
from tests.simulation.invariants import require

FIRE = 100 * SECOND
"""What a fire takes: a hundredth of a fire a second brings 1 each microsecond."""
STEP_S = 0.2
"""A scheduler gathers this much of a lane's rate at most, and at least one fire."""
UNLIMITED = 10**9
HELD_BACK_FROM = {"backfill": 1, "catch-up": 2}
HELD_BACK_OVER_QUOTA, HELD_BACK_ON_TIME = 3, 4
"""Levels of shedding, in the published order."""


def sheds(lane: Lane, *, over_quota: bool, level: int) -> bool:
    """Whether fires of the lane are held back at this level."""
    return level >= HELD_BACK_FROM.get(lane, HELD_BACK_OVER_QUOTA if over_quota else HELD_BACK_ON_TIME)


@dataclass
class TokenBucket:
    """What a pace has left. It is full until something is taken from it."""

    level: int = -1
    at: int = 0

    def fires(self, now: int, rate: int) -> int:
        """How many whole fires it holds."""
        full = max(FIRE, rate * SECOND)
        held = full if self.level < 0 else min(full, self.level + (now - self.at) * rate)
        return held // FIRE

    def take(self, now: int, rate: int) -> None:
        """Take a fire, or what there is."""
        full = max(FIRE, rate * SECOND)
        held = full if self.level < 0 else min(full, self.level + (now - self.at) * rate)
        self.level, self.at = max(0, held - FIRE), now


@dataclass
class TenantPaces:
    """A tenant's buckets."""

    settings: TenantSettings = field(default_factory=TenantSettings)
    quota: TokenBucket = field(default_factory=TokenBucket)
    lanes: dict[str, TokenBucket] = field(
        default_factory=lambda: {"catch-up": TokenBucket(), "backfill": TokenBucket()}
    )

    @property
    def lane_rate(self) -> int:
        """Of catch-up fires, and as much of backfill fires."""
        return self.settings.catch_up_percent * self.settings.quota_per_second

    def over_quota(self, now: int) -> bool:
        """Whether one more on-time fire is above the quota."""
        return self.quota.fires(now, 100 * self.settings.quota_per_second) < 1

    def has_token(self, lane: Lane, now: int) -> bool:
        """Whether the tenant's pace lets a fire of the lane go."""
        return lane == "on-time" or self.lanes[lane].fires(now, self.lane_rate) >= 1

    def take(self, lane: Lane, now: int, *, over_quota: bool) -> None:
        """A fire of the lane is released."""
        if lane != "on-time":
            self.lanes[lane].take(now, self.lane_rate)
        elif not over_quota:
            self.quota.take(now, 100 * self.settings.quota_per_second)


@dataclass(frozen=True, slots=True, order=True)
class Drawn:
    """Releases of a paced lane in one page: when it was sent, by which process, and of whom."""

    sent_at: int
    owner: str
    tenant: str
    count: int


@dataclass
class SharedRate:
    """A lane's rate over all tenants and schedulers, checked by when pages were sent."""

    lane: str
    rate: int = 100 * UNLIMITED
    drawn: list[Drawn] = field(default_factory=list[Drawn])
    doubted: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """While a scheduler believes that it owns everything, it takes the whole rate for itself."""

    @property
    def burst(self) -> int:
        """What one process has gathered at most."""
        return max(FIRE, round(self.rate * STEP_S * SECOND))

    def check(self, process_count: int) -> None:
        """No window holds more than the processes had gathered and what flows in. Raises Violation."""
        pages = sorted(self.drawn)
        for owner in sorted({page.owner for page in pages}):
            self._within([page for page in pages if page.owner == owner], self.burst, f"scheduler {owner}", [])
        self._within(pages, process_count * self.burst, "all schedulers", self.doubted)

    def _within(self, pages: Iterable[Drawn], full: int, who: str, doubted: list[tuple[int, int]]) -> None:
        level, at, known = full, 0, set[str]()
        for page in pages:
            extra = sum(max(0, min(page.sent_at, end) - max(at, begin)) for begin, end in doubted)
            level = min(full + extra * self.rate, level + (page.sent_at - at + extra) * self.rate)
            if page.owner not in known:
                # A new process begins with one fire.
                known.add(page.owner)
                level += FIRE
            level -= page.count * FIRE
            at = page.sent_at
            require(level >= 0, "pace", f"{who} release {self.lane} fires above the lane's rate at {at}: {page}")
