"""The lanes: what is decided and not released, what is released and not started, and how fast it drains.

Folded from the LEDGER, message after message. Only fires without an outcome are kept, besides a minute's counts per
second; a page without effect contributes nothing.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from fireledger.domain import entries as e
from fireledger.domain.book import Folded
from fireledger.domain.instants import MINUTE, SECOND
from fireledger.domain.page import AttemptsPage, Page, decode_attempts, decode_page, is_effective

from .ledger_fold import FoldedAttempts

LANES: tuple[e.Lane, ...] = get_args(e.Lane)
RATE_WINDOW = MINUTE
"""Rates are those of the last minute, by the broker's timestamps."""
RATE_OVER_MIN = 10 * SECOND
"""A drain that has just begun is measured over at least this, so that its first fires do not look like a rush."""

Stage = Literal["waiting", "retrying", "released", "going"]
"""Decided and not released; released before and waiting for the next attempt; released and not started; neither."""
Identity = tuple[str, int, int]
"""Trigger, scheduled instant and sequence."""


@dataclass(frozen=True, slots=True)
class LaneDepth:
    """One lane of one tenant, or (``tenant`` None) of all, at an instant. Instants in microseconds since the epoch.

    ``waiting`` fires are decided and not released, waiting retries whose instant is over included; ``released`` ones
    are released and not started; ``over_quota`` of both are marked so. ``waiting_since`` and ``released_since`` are
    when the oldest of each was due: its release, or of a retry its instant. A fire that waited before, for whatever
    reason, counts from its release entry; a backfilled one from its decision, since its own instant is long over.
    ``releases`` and ``starts`` were counted in the last minute. ``drain_rate`` is starts a second.
    """

    lane: e.Lane
    tenant: str | None
    waiting: int = 0
    released: int = 0
    over_quota: int = 0
    waiting_since: int | None = None
    released_since: int | None = None
    releases: int = 0
    starts: int = 0
    drain_rate: float = 0.0

    @property
    def depth(self) -> int:
        """All that is not started and could be."""
        return self.waiting + self.released

    def ends_at(self, now: int, *, stopped: int = 0) -> int | None:
        """When the lane is empty if it goes on as in the last minute; None when nothing drains.

        ``stopped`` of the waiting fires are not counted: their trigger keeps them.
        """
        left = self.depth - stopped
        if not left:
            return None if stopped else now
        return None if self.drain_rate <= 0 else now + round(left / self.drain_rate * SECOND)


@dataclass(frozen=True, slots=True)
class Drain:
    """An operator's word that a lane is expected to be behind until an instant."""

    until: int
    why: str


@dataclass(slots=True)
class _Fire:
    """A fire without an outcome: where it stands, and since when it is due there."""

    lane: e.Lane
    stage: Stage
    since: int
    over_quota: bool
    attempt: int = 0


@dataclass(slots=True)
class _Second:
    """What happened within one second of the broker's clock."""

    at: int
    releases: int = 0
    starts: int = 0


class _TenantLanes:
    """One tenant's fires, and what its lanes did in the last minute."""

    def __init__(self) -> None:
        self.fires: dict[Identity, _Fire] = {}
        self.drains: dict[e.Lane, Drain] = {}
        self.recent: dict[e.Lane, deque[_Second]] = {}

    def second(self, lane: e.Lane, stamped_at: int) -> _Second:
        """The counts of this second; seconds older than the window are let go."""
        seconds = self.recent.setdefault(lane, deque(maxlen=RATE_WINDOW // SECOND + 1))
        at = stamped_at - stamped_at % SECOND
        if not seconds or seconds[-1].at < at:
            seconds.append(_Second(at))
        return seconds[-1]

    def idle(self, now: int) -> bool:
        """Whether nothing of it is worth keeping: no open fire, no drain, nothing in the last minute."""
        self.drains = {lane: drain for lane, drain in self.drains.items() if drain.until > now}
        self.recent = {lane: each for lane, each in self.recent.items() if each[-1].at > now - RATE_WINDOW}
        return not (self.fires or self.drains or self.recent)


class Lanes:
    """The lanes of all tenants, up to the message folded last."""

    def __init__(self) -> None:
        self.stamped_at = 0
        """The newest broker timestamp seen."""
        self._tenants: dict[str, _TenantLanes] = {}
        self._swept_at = 0

    def __len__(self) -> int:
        return sum(len(tenant.fires) for tenant in self._tenants.values())

    def apply(self, folded: Folded | FoldedAttempts, *, stamped_at: int) -> None:
        """Take in the next message of the LEDGER as ``LedgerFold.apply`` returned it: each once, in order."""
        if isinstance(folded, FoldedAttempts):
            self._fold_attempts(folded.page, stamped_at)
        elif folded.effective:
            self._fold_page(folded.page, stamped_at)
        self.stamped_at = max(self.stamped_at, stamped_at)
        if self.stamped_at - self._swept_at >= RATE_WINDOW:
            self._sweep()

    def depths(self, now: int, tenant: str | None = None) -> list[LaneDepth]:
        """Every lane of every tenant that has something in it or had in the last minute, or those of one tenant."""
        chosen = self._tenants if tenant is None else {tenant: self._tenants.get(tenant, _TenantLanes())}
        return [depth for name, lanes in chosen.items() for depth in _depths(name, lanes, now)]

    def stopped(self, tenant: str, lane: e.Lane, now: int, releasable: Callable[[str, Stage], bool]) -> int:
        """How many of a lane's waiting fires are of a trigger and stage of which ``releasable`` says no."""
        fires = self._tenants.get(tenant, _TenantLanes()).fires.items()
        return sum(
            fire.lane == lane and fire.stage != "released" and _due(fire, now) and not releasable(trigger, fire.stage)
            for (trigger, _, _), fire in fires
        )

    def oldest(self, tenant: str, lane: e.Lane, now: int, releasable: Callable[[str, Stage], bool]) -> int | None:
        """Since when the oldest fire of a tenant's lane is due that only the runners keep from being started.

        Counted are released ones, and waiting ones of whose trigger and stage ``releasable`` says so.
        """
        found = (
            fire.since
            for (trigger, _, _), fire in self._tenants.get(tenant, _TenantLanes()).fires.items()
            if fire.lane == lane and _due(fire, now) and (fire.stage == "released" or releasable(trigger, fire.stage))
        )
        return min(found, default=None)

    def drain(self, tenant: str, lane: e.Lane, now: int) -> Drain | None:
        """What was declared of the tenant's lane and is not over."""
        found = self._tenants.get(tenant, _TenantLanes()).drains.get(lane)
        return None if found is None or found.until <= now else found

    def drains(self, lane: e.Lane, now: int) -> list[tuple[str, Drain]]:
        """All tenants with a drain declared of this lane that is not over."""
        declared = ((name, self.drain(name, lane, now)) for name in self._tenants)
        return [(name, drain) for name, drain in declared if drain is not None]

    # Pages

    def _fold_page(self, page: Page, stamped_at: int) -> None:
        tenant = self._tenants.setdefault(page.tenant, _TenantLanes())
        for entry in page.entries:
            match entry:
                case e.FireReleased():
                    _released(tenant, entry, stamped_at)
                case e.FireFinished() | e.FireWithdrawn():
                    tenant.fires.pop(_identity(entry), None)
                case e.FireDecided():
                    since = stamped_at if entry.lane == "backfill" else entry.release
                    tenant.fires[_identity(entry)] = _Fire(entry.lane, "waiting", since, entry.over_quota)
                case e.FireRequested():
                    tenant.fires[_identity(entry)] = _Fire("on-time", "waiting", entry.scheduled, over_quota=False)
                case e.RetryScheduled():
                    _moved(tenant, entry, "retrying", entry.at)
                case e.FireHeld():
                    # Whatever it waited for, only a person or its executor ends the waiting now.
                    _moved(tenant, entry, "going", stamped_at)
                case e.HeldFireReleased():
                    _moved(tenant, entry, "retrying", stamped_at)
                case e.DrainDeclared():
                    tenant.drains[entry.lane] = Drain(entry.until, entry.why)
                case e.RollbackRecorded():
                    self._brought_back(entry)
                case _:
                    pass

    def _brought_back(self, entry: e.RollbackRecorded) -> None:
        """A lost page counts with its original timestamp."""
        if entry.origin == "attempts":
            self._fold_attempts(decode_attempts(entry.body), entry.stamped_at)
            return
        page = decode_page(entry.body)
        if is_effective(page.inputs, entry.stamped_at):
            self._fold_page(page, entry.stamped_at)

    def _fold_attempts(self, page: AttemptsPage, stamped_at: int) -> None:
        for record in page.records:
            tenant = self._tenants.get(record.tenant)
            if tenant is not None and isinstance(record, e.AttemptStarted):
                _started(tenant, record, stamped_at)

    def _sweep(self) -> None:
        self._swept_at = self.stamped_at
        for name in [name for name, tenant in self._tenants.items() if tenant.idle(self.stamped_at)]:
            del self._tenants[name]


def _released(tenant: _TenantLanes, entry: e.FireReleased, stamped_at: int) -> None:
    since = entry.release if entry.decides else stamped_at
    tenant.fires[_identity(entry)] = _Fire(entry.lane, "released", since, entry.over_quota, entry.attempt)
    tenant.second(entry.lane, stamped_at).releases += 1


def _started(tenant: _TenantLanes, record: e.AttemptStarted, stamped_at: int) -> None:
    fire = tenant.fires.get(_identity(record))
    # A call that is made again was counted when it began first.
    if fire is not None and fire.stage == "released" and record.attempt == fire.attempt:
        tenant.second(fire.lane, stamped_at).starts += 1
        fire.stage = "going"


def _moved(tenant: _TenantLanes, entry: e.FireEntry, stage: Stage, since: int) -> None:
    fire = tenant.fires.get(_identity(entry))
    if fire is not None:
        fire.stage, fire.since = stage, since


def _due(fire: _Fire, now: int) -> bool:
    """Whether something is to be done about the fire: a retry whose instant is still to come is where it should be."""
    return fire.stage != "going" and not (fire.stage == "retrying" and fire.since > now)


def _depths(name: str, tenant: _TenantLanes, now: int) -> Iterator[LaneDepth]:
    found: dict[e.Lane, list[_Fire]] = {}
    for fire in tenant.fires.values():
        if _due(fire, now):
            found.setdefault(fire.lane, []).append(fire)
    for lane in LANES:
        fires = found.get(lane, [])
        recent = [second for second in tenant.recent.get(lane, ()) if second.at > now - RATE_WINDOW]
        if fires or recent:
            yield _depth(lane, name, fires, recent, now)


def _depth(lane: e.Lane, tenant: str, fires: list[_Fire], recent: list[_Second], now: int) -> LaneDepth:
    released = [fire for fire in fires if fire.stage == "released"]
    waiting = [fire for fire in fires if fire.stage != "released"]
    starts = sum(second.starts for second in recent)
    return LaneDepth(
        lane=lane,
        tenant=tenant,
        waiting=len(waiting),
        released=len(released),
        over_quota=sum(fire.over_quota for fire in fires),
        waiting_since=min((fire.since for fire in waiting), default=None),
        released_since=min((fire.since for fire in released), default=None),
        releases=sum(second.releases for second in recent),
        starts=starts,
        drain_rate=_rate(recent, starts, now),
    )


def _rate(recent: list[_Second], starts: int, now: int) -> float:
    if not starts:
        return 0.0
    over = min(max(now - recent[0].at, RATE_OVER_MIN), RATE_WINDOW)
    return starts * SECOND / over


def together(depths: list[LaneDepth]) -> list[LaneDepth]:
    """The lanes of all these tenants together: one for each lane, in the order of shedding reversed."""
    return [_sum(lane, [depth for depth in depths if depth.lane == lane]) for lane in LANES]


def _sum(lane: e.Lane, depths: list[LaneDepth]) -> LaneDepth:
    return LaneDepth(
        lane=lane,
        tenant=None,
        waiting=sum(depth.waiting for depth in depths),
        released=sum(depth.released for depth in depths),
        over_quota=sum(depth.over_quota for depth in depths),
        waiting_since=min((each.waiting_since for each in depths if each.waiting_since is not None), default=None),
        released_since=min((each.released_since for each in depths if each.released_since is not None), default=None),
        releases=sum(depth.releases for depth in depths),
        starts=sum(depth.starts for depth in depths),
        drain_rate=sum(depth.drain_rate for depth in depths),
    )


def _identity(entry: e.FireEntry) -> Identity:
    return entry.trigger, entry.scheduled, entry.sequence
