"""A witness of policies: reads a book's pages one by one and knows nothing but the entries and the plain rules."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.definition import Definition, Retry, TenantSettings
from fireledger.domain.instants import SECOND
from fireledger.domain.page import Page, PageInputs

FireName = tuple[str, int, int]
"""Trigger, scheduled instant and sequence."""
Owner = str | None
"""Whose ceiling: a trigger's, or (None) the tenant's."""


@dataclass
class Fire:
    """What the entries said of one fire: ``pending`` is when its next attempt may be released.

    ``let_go``: a person asked for that attempt. ``orphaned``: its trigger was deleted. ``window`` is the outcome window
    since its last release.
    """

    lane: e.Lane
    cause: e.FireCause
    over_quota: bool
    attempt: int = 0
    ended: str = ""
    held: bool = False
    pending: int | None = None
    let_go: bool = False
    orphaned: bool = False
    window: int = 0
    started_at: int | None = None

    def late(self, entry: e.AttemptObserved) -> bool:
        """Whether an answer comes after all that it could change was decided."""
        if not _open(self) or self.attempt != entry.attempt:
            return True
        if self.held or self.pending is not None:
            return self.let_go and entry.result == "held"
        return self.started_at is not None and entry.stamped_at >= self.started_at + self.window


@dataclass
class Spending:
    """Costs seen under one ceiling: the instants of the pages that observed them, with the costs."""

    amount: int
    costs: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    period: tuple[int, int] = (0, 0)

    def spent(self) -> int:
        """What counts in the period that was last begun."""
        start, end = self.period
        return sum(cost for at, cost in self.costs if start <= at < end)


@dataclass
class Pace:
    """Releases of a lane at their pages' nows, and the widest bucket and highest rate it had, in hundredths."""

    full: int = 0
    rate: int = 0
    released: list[int] = field(default_factory=list[int])

    def widen(self, hundredths_per_second: int) -> None:
        """Allow this rate from the beginning on."""
        self.full = max(self.full, 100, hundredths_per_second)
        self.rate = max(self.rate, hundredths_per_second)

    def check(self) -> None:
        """No window holds more than a full bucket and what flows in meanwhile."""
        for first, start in enumerate(self.released):
            for count, end in enumerate(self.released[first:], start=1):
                assert count * 100 * SECOND <= self.full * SECOND + self.rate * (end - start), (start, end, count)


class Witness:
    """Reads pages in order; raises AssertionError at the first entry that breaks a rule."""

    def __init__(self) -> None:
        self.fires: dict[FireName, Fire] = {}
        self.definitions: dict[str, Definition] = {}
        self.zone = "UTC"
        self.stopped: dict[Owner, set[str]] = defaultdict(set)
        self.run_numbers: dict[str, int] = defaultdict(int)
        self.fired_counts: dict[str, int] = defaultdict(int)
        self.spending: dict[tuple[Owner, e.Period], Spending] = {}
        self.suspended: dict[Owner, int] = {}
        self.paces: dict[e.Lane, Pace] = defaultdict(Pace)
        self.unmarked = Pace()
        self.backfills: dict[str, tuple[Pace, list[FireName]]] = {}
        self.late_count = 0
        self._now = 0
        self._inputs: PageInputs | None = None
        self._nothing: set[Owner] = set()
        self._results: dict[FireName, list[e.AttemptObserved]] = defaultdict(list)

    def read(self, page: Page) -> None:
        """Read the next effective page."""
        assert page.inputs.now >= self._now
        self._now, self._inputs = page.inputs.now, page.inputs
        self._results.clear()
        self._nothing = {owner for (owner, _), spending in self.spending.items() if spending.amount == 0}
        released: dict[str, int] = defaultdict(int)
        for entry in page.entries:
            self._entry(entry, page.command)
            if isinstance(entry, e.FireReleased):
                released[entry.lane] += 1
        assert all(released[lane] <= allowed for lane, allowed in page.inputs.allowances.items())

    def finish(self) -> None:
        """Check what only the whole book shows."""
        self.unmarked.check()
        for pace in self.paces.values():
            pace.check()
        for pace, _ in self.backfills.values():
            pace.check()

    def _entry(self, entry: e.BookEntry, command: c.Command) -> None:
        match entry:
            case e.FireEntry():
                self._about_a_fire(entry)
            case e.TenantCreated() | e.TenantAmended():
                self._settings(entry.settings)
            case e.TriggerCreated() | e.TriggerAmended():
                self._defined(entry)
            case e.CeilingSet() | e.SpendPeriodBegun() | e.TriggerSuspended() | e.SuspensionEnded():
                self._about_spending(entry)
            case e.BackfillStarted():
                pace = Pace()
                pace.widen(100 * entry.rate_per_second)
                assert entry.trigger not in self.backfills
                self.backfills[entry.trigger] = (pace, [])
            case e.BackfillEnded():
                pace, fires = self.backfills.pop(entry.trigger)
                pace.check()
                assert entry.fired_count == len(fires) == len(set(fires))
            case e.InstantsResolved():
                if entry.cause == "shed":
                    assert self._shedding_level() >= 3
            case _:
                self._stops(entry)
        assert not isinstance(command, c.Tick) or not isinstance(entry, e.TriggerCreated)

    # Definitions

    def _settings(self, settings: TenantSettings) -> None:
        self.zone = settings.zone
        self.unmarked.widen(100 * settings.quota_per_second)
        for lane in ("catch-up", "backfill"):
            self.paces[lane].widen(settings.catch_up_percent * settings.quota_per_second)

    def _defined(self, entry: e.TriggerCreated | e.TriggerAmended) -> None:
        self.definitions[entry.trigger] = entry.definition
        if isinstance(entry, e.TriggerAmended):
            self.stopped[entry.trigger].discard("quarantined")
            return
        self.stopped[entry.trigger] = {"paused"} if entry.paused else set()
        self.fired_counts[entry.trigger] = 0
        for owner, per in [*self.spending]:
            if owner == entry.trigger:
                del self.spending[owner, per]

    def _stops(self, entry: e.BookEntry) -> None:
        match entry:
            case e.TriggerPaused():
                self.stopped[entry.trigger].add("paused")
            case e.TriggerResumed():
                self.stopped[entry.trigger].remove("paused")
            case e.TriggerQuarantined():
                self.stopped[entry.trigger].add("quarantined")
            case e.TriggerDeleted():
                self.stopped[entry.trigger] = {"deleted"}
                self.suspended.pop(entry.trigger, None)
                assert not any(
                    name[0] == entry.trigger and not fire.ended and (fire.attempt == 0 or fire.pending is not None)
                    for name, fire in self.fires.items()
                )
                for name, fire in self.fires.items():
                    fire.orphaned |= name[0] == entry.trigger
            case _:
                pass

    # Spending

    def _about_spending(
        self, entry: e.CeilingSet | e.SpendPeriodBegun | e.TriggerSuspended | e.SuspensionEnded
    ) -> None:
        match entry:
            case e.CeilingSet():
                known = self.spending.pop((entry.trigger, entry.per), None)
                assert entry.before == (None if known is None else known.amount)
                if entry.amount is not None:
                    kept = known or Spending(entry.amount, [])
                    kept.amount = entry.amount
                    self.spending[entry.trigger, entry.per] = kept
            case e.SpendPeriodBegun():
                owner = self.definitions[entry.trigger].zone if entry.trigger is not None else self.zone
                assert (entry.start, entry.end) == _period(entry.per, self._now, ZoneInfo(owner))
                spending = self.spending[entry.trigger, entry.per]
                # A cost counts once, also where another zone has the next period begin before the last one's end.
                spending.costs = [(at, cost) for at, cost in spending.costs if at >= spending.period[1]]
                spending.period = (entry.start, entry.end)
            case e.TriggerSuspended():
                assert entry.until == self._used_up(entry.trigger)
                assert not self._over(entry.trigger)
                self.suspended[entry.trigger] = entry.until
                self.stopped[entry.trigger].add("suspended")
            case e.SuspensionEnded():
                over = self._over(entry.trigger)
                assert entry.cause == ("period-over" if over else "raised")
                assert over or self._used_up(entry.trigger) is None
                del self.suspended[entry.trigger]
                self.stopped[entry.trigger].remove("suspended")

    def _used_up(self, owner: Owner) -> int | None:
        return max((end for end, spent, amount in self._ceilings(owner) if spent >= amount), default=None)

    def _over(self, owner: Owner) -> bool:
        """Whether the owner's suspension ended with its period: not where a ceiling of 0 was used up again at once."""
        return self.suspended.get(owner, self._now + 1) <= self._now and owner not in self._nothing

    def spent(self, owner: Owner) -> dict[e.Period, tuple[int, int, int, int]]:
        """Of each of the owner's ceilings the period, what was spent in it, and what was spent since it ended."""
        found: dict[e.Period, tuple[int, int, int, int]] = {}
        for (whose, per), spending in self.spending.items():
            if whose == owner:
                end = spending.period[1]
                later = sum(cost for at, cost in spending.costs if at >= end)
                found[per] = (*spending.period, spending.spent(), later)
        return found

    def _ceilings(self, owner: Owner) -> list[tuple[int, int, int]]:
        """The end, what is spent and the amount of the owner's ceilings whose period is the present one."""
        own = [spending for (whose, _), spending in self.spending.items() if whose == owner]
        return [(each.period[1], each.spent(), each.amount) for each in own if each.period[1] > self._now]

    # Fires

    def _about_a_fire(self, entry: e.FireEntry) -> None:
        name = (entry.trigger, entry.scheduled, entry.sequence)
        match entry:
            case e.FireDecided():
                assert not self.stopped[entry.trigger] | self.stopped[None]
                self._new(name, Fire(entry.lane, entry.cause, entry.over_quota))
            case e.FireRequested():
                assert not self.stopped[entry.trigger] | self.stopped[None]
                self._new(name, Fire("on-time", "by-hand", over_quota=False))
            case e.FireReleased():
                self._released(name, entry)
            case e.FireWithdrawn():
                fire = self.fires[name]
                assert (fire.attempt, fire.ended) == (0, "")
                fire.ended = "withdrawn"
                self.fired_counts[entry.trigger] -= entry.sequence == 0
            case e.AttemptObserved():
                self._observed(name, entry)
            case _:
                self._goes_on(name, entry)

    def _new(self, name: FireName, fire: Fire) -> None:
        assert name not in self.fires, "a key is decided once"
        trigger, _, sequence = name
        if sequence:
            assert sequence > self.run_numbers[trigger]
            self.run_numbers[trigger] = sequence
        else:
            self.fired_counts[trigger] += 1
        self.fires[name] = fire
        definition = self.definitions[trigger]
        if definition.max_fires is not None and sequence == 0:
            assert self.fired_counts[trigger] <= definition.max_fires
        if definition.overlap != "allow":
            waiting = [each for key, each in self.fires.items() if key[0] == trigger and _waits(each)]
            assert sum(each.cause == "on-time" for each in waiting) <= 1

    def _released(self, name: FireName, entry: e.FireReleased) -> None:
        trigger = entry.trigger
        assert not self.stopped[trigger] | self.stopped[None], "nothing is released while it stands still"
        if entry.decides:
            self._new(name, Fire(entry.lane, entry.cause, entry.over_quota))
        fire = self.fires[name]
        assert not fire.ended
        assert not fire.held
        assert entry.attempt == fire.attempt + 1
        assert (entry.lane, entry.cause, entry.over_quota) == (fire.lane, fire.cause, fire.over_quota)
        assert not self._sheds(fire)
        if fire.attempt:
            assert fire.pending is not None
            assert fire.pending <= self._now
        elif self.definitions[trigger].overlap != "allow":
            assert not [key for key, each in self.fires.items() if key[0] == trigger and _open(each)]
        for owner in (trigger, None):
            assert all(spent < amount for _, spent, amount in self._ceilings(owner))
        assert not fire.orphaned, "what a deletion left open gets no further attempt"
        fire.attempt, fire.pending, fire.let_go = entry.attempt, None, False
        fire.window, fire.started_at = self.definitions[trigger].outcome_window, None
        self._paced(name, entry)

    def _paced(self, name: FireName, entry: e.FireReleased) -> None:
        if entry.lane != "on-time":
            self.paces[entry.lane].released.append(self._now)
        elif entry.decides and not entry.over_quota:
            self.unmarked.released.append(self._now)
        if entry.lane == "backfill" and entry.trigger in self.backfills:
            pace, fires = self.backfills[entry.trigger]
            pace.released.append(self._now)
            if entry.attempt == 1:
                fires.append(name)

    def _shedding_level(self) -> int:
        assert self._inputs is not None
        return self._inputs.shedding_level

    def _sheds(self, fire: Fire) -> bool:
        border = {"backfill": 1, "catch-up": 2, "on-time": 3 if fire.over_quota else 4}[fire.lane]
        return self._shedding_level() >= border

    def _observed(self, name: FireName, entry: e.AttemptObserved) -> None:
        fire = self.fires.get(name)
        if entry.record == "started":
            if fire is not None and fire.attempt == entry.attempt:
                fire.started_at = max(entry.stamped_at, fire.started_at or 0)
            return
        self.late_count += fire is None or fire.late(entry)
        if fire is not None and _open(fire) and fire.attempt == entry.attempt:
            self._results[name].append(entry)
        for (owner, _), spending in self.spending.items():
            if owner in (None, entry.trigger):
                spending.costs.append((self._now, entry.cost or 0))

    def _goes_on(self, name: FireName, entry: e.FireEntry) -> None:
        fire = self.fires[name]
        assert _open(fire)
        match entry:
            case e.RetryScheduled():
                assert entry.attempt == fire.attempt + 1
                assert not fire.held
                assert fire.pending is None
                assert not fire.orphaned
                retry = self.definitions[entry.trigger].retry
                assert fire.attempt < retry.attempts
                assert any(_follows(entry.at, retry, fire.attempt, result) for result in self._results[name])
                fire.pending = entry.at
            case e.FireHeld():
                assert not fire.let_go, "a person has answered that attempt"
                fire.held, fire.pending = True, None
            case e.HeldFireReleased():
                assert fire.held
                assert not fire.orphaned
                fire.held, fire.pending, fire.let_go = False, self._now, True
            case e.FireFinished():
                assert entry.attempt == fire.attempt
                assert entry.outcome != "unknown" or not (fire.held or fire.pending is not None)
                fire.ended = entry.outcome
            case _:
                raise AssertionError(f"{entry} is new to the witness")


def _waits(fire: Fire) -> bool:
    return not fire.ended and fire.attempt == 0


def _open(fire: Fire) -> bool:
    return not fire.ended and fire.attempt > 0


def _follows(at: int, retry: Retry, attempt: int, result: e.AttemptObserved) -> bool:
    """Whether the next attempt's instant is within the bounds that the failed one's result gives."""
    low = _wait(retry, attempt, result.retry_after or 0)
    return low <= at - result.stamped_at <= low + low // 4


def _wait(retry: Retry, attempt: int, asked: int) -> int:
    """The shortest wait: exact fractions, rounded down at each step."""
    wait = retry.base
    for _ in range(1, attempt):
        wait = wait * retry.factor // 100
    return max(min(wait, retry.cap), min(asked, retry.cap))


def _period(per: e.Period, now: int, zone: ZoneInfo) -> tuple[int, int]:
    """The period around ``now`` by the standard library's zones; for zones whose days begin at a midnight they have."""
    today = datetime.fromtimestamp(now // SECOND, UTC).astimezone(zone).date()
    if per == "day":
        first, following = today, today + timedelta(days=1)
    elif per == "week":
        first = today - timedelta(days=today.isoweekday() - 1)
        following = first + timedelta(days=7)
    else:
        first = today.replace(day=1)
        following = (first + timedelta(days=31)).replace(day=1)
    return _midnight(first, zone), _midnight(following, zone)


def _midnight(day: date, zone: ZoneInfo) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) * SECOND
