"""How many paced fires each page may release: a lane's rate over all tenants, shared between those that wait.

The tenant's own pace is the book's and is decided from its state; this is the part that no single book can know, so
it goes into the page as an input.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fireledger.domain.entries import BookEntry, FireReleased, Lane
from fireledger.domain.instants import SECOND
from fireledger.domain.lanes import held_back
from fireledger.domain.limits import BACKFILL_RATE_DEFAULT, CATCH_UP_RATE_DEFAULT, PACE_STEP, SLOT_COUNT

FORGOTTEN_AFTER_S = 1.0
"""For a tenant that did not ask for this long, and in a whole round, nothing is kept, and no place in the line."""
SOON_S = FORGOTTEN_AFTER_S / 2
"""A tenant with a backlog asks again within this, or in the next round: else it wants no more than it got."""
STANDSTILL_S = FORGOTTEN_AFTER_S / 2
"""As this long at most counts a time in which nobody asked: who could not ask must not lose its place."""
PACE_STEP_S = PACE_STEP / SECOND
"""What a lane gathers at most while nobody takes anything, in seconds of its rate; and how soon to ask again."""


@dataclass(frozen=True, slots=True)
class LaneRates:
    """Fires a second that the paced lanes release, all tenants and all schedulers together."""

    catch_up: int = CATCH_UP_RATE_DEFAULT
    backfill: int = BACKFILL_RATE_DEFAULT


@dataclass(slots=True)
class _Asker:
    """A tenant that asks: when it last did, in seconds in which anybody did and in rounds, and what is kept for it.

    ``taken`` runs behind the lane's flow to each tenant; what lies between is kept from the others while the tenant
    wants more: it asked twice in short order, and was refused or used all that it got (``hungry``).
    """

    busy_s: float
    round: int
    taken: float
    again: bool = False
    hungry: bool = True


class LaneRate:
    """One lane's tokens. Tenants that had to wait are served in turn, before those that just come.

    Each of them asks once in a round of deciding, and a slow round takes longer than any of them may stay away. Of
    what flows in, an equal part is kept for each tenant that wants more; what nobody is kept is for whoever asks.
    """

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._tokens = 1.0
        self._at_s: float | None = None
        self._share = 0.0
        self._full = 1.0
        self._flow = 0.0
        """What has flowed in for each of the tenants that ask, since the beginning."""
        self._askers: dict[str, _Asker] = {}
        self._waiting: dict[str, None] = {}
        """Those that were refused, the longest first."""
        self._busy_s = 0.0
        self._round = 0

    def note_round(self) -> None:
        """Every tenant with a fire that may go has had the opportunity to ask."""
        self._round += 1

    def grant(self, tenant: str, now_s: float, *, share: float) -> int:
        """How many fires the tenant's next page may release: its equal part of what there is.

        ``share`` is the part of the lane's rate that is this scheduler's.
        """
        self._refill(now_s, share)
        asker = self._note(tenant)
        whole = int(self._tokens)
        if self._place(tenant, asker) >= whole:
            self._waiting.setdefault(tenant)
            return 0
        self._waiting.pop(tenant, None)
        in_line = len(self._waiting) + 1
        granted = max(1, min(whole // in_line, int(self._tokens - self._kept_from(asker))))
        self._tokens -= granted
        asker.taken = min(self._flow, max(asker.taken, self._flow - self._full) + granted)
        return granted

    def hold_back(self, tenant: str, now_s: float, *, share: float) -> None:
        """Grant nothing; the tenant keeps its place, or lines up."""
        self._refill(now_s, share)
        self._note(tenant)
        self._waiting.setdefault(tenant)

    def lend(self, now_s: float, *, share: float) -> int:
        """What a page may release of fires that it only decides now: half of what there is, if nobody waits."""
        self._refill(now_s, share)
        lent = 0 if self._waiting else max(0, int(self._tokens - self._kept_from(None))) // 2
        self._tokens -= lent
        return lent

    def give_back(self, tenant: str, count: int) -> None:
        """Return what the tenant's page did not use: it wants no more for now."""
        self._tokens += count
        asker = self._askers.get(tenant)
        if asker is not None and count:
            asker.hungry = False

    def _refill(self, now_s: float, share: float) -> None:
        # Slots that came since the last time count from now on: until then somebody else may have counted them.
        share, self._share = min(share, self._share), share
        if self._at_s is not None:
            passed_s, before = now_s - self._at_s, self._tokens
            self._full = max(1.0, self._per_second * share * PACE_STEP_S)
            self._tokens = min(self._full, before + passed_s * self._per_second * share)
            self._flow += max(0.0, self._tokens - before) / max(1, self._wanting_count())
            self._busy_s += min(passed_s, STANDSTILL_S)
        self._at_s = now_s
        for tenant in [tenant for tenant, asker in self._askers.items() if self._stays_away(asker)]:
            del self._askers[tenant]
            self._waiting.pop(tenant, None)

    def _note(self, tenant: str) -> _Asker:
        asker = self._askers.get(tenant)
        if asker is None:
            asker = self._askers[tenant] = _Asker(self._busy_s, self._round, self._flow)
            return asker
        if not self._wants_more(asker):
            # What flowed in until now was divided between the others.
            asker.taken = self._flow
        asker.again, asker.hungry = self._soon(asker), True
        asker.busy_s, asker.round = self._busy_s, self._round
        return asker

    def _place(self, tenant: str, asker: _Asker) -> int:
        """How many come first: who waits for longer; before one that just comes all who wait, or got less than it."""
        if tenant in self._waiting:
            return [*self._waiting].index(tenant)
        behind = sum(
            self._wants_more(other) and other.taken < asker.taken
            for name, other in self._askers.items()
            if name not in self._waiting
        )
        return len(self._waiting) + behind

    def _wanting_count(self) -> int:
        return sum(map(self._wants_more, self._askers.values()))

    def _kept_from(self, asker: _Asker | None) -> float:
        """What is kept for the others. With more of them than the lane ever gathers, turns alone decide."""
        others = [other for other in self._askers.values() if other is not asker and self._wants_more(other)]
        if len(others) >= self._full:
            return self._tokens
        most = self._full / (len(others) + 1)
        return sum(min(most, self._flow - other.taken) for other in others)

    def _wants_more(self, asker: _Asker) -> bool:
        return asker.hungry and asker.again and self._soon(asker)

    def _soon(self, asker: _Asker) -> bool:
        """Whether it asked so lately that it may be about to ask again."""
        return self._busy_s - asker.busy_s <= SOON_S or self._round - asker.round <= 1

    def _stays_away(self, asker: _Asker) -> bool:
        return self._busy_s - asker.busy_s > FORGOTTEN_AFTER_S and self._round - asker.round > 1


class LanePacer:
    """The rates of both paced lanes."""

    def __init__(self, rates: LaneRates) -> None:
        self._lanes: dict[Lane, LaneRate] = {
            "catch-up": LaneRate(rates.catch_up),
            "backfill": LaneRate(rates.backfill),
        }

    def grant(
        self, tenant: str, lanes: frozenset[Lane], now_s: float, *, owned_slots: int, shedding_level: int = 0
    ) -> dict[str, int]:
        """The page's allowances. ``lanes`` are those of which fires of the tenant wait already."""
        share = owned_slots / SLOT_COUNT
        allowances: dict[str, int] = {}
        for lane, rate in self._lanes.items():
            if lane not in lanes:
                allowances[lane] = rate.lend(now_s, share=share)
            elif held_back(lane, over_quota=False, shedding_level=shedding_level):
                rate.hold_back(tenant, now_s, share=share)
                allowances[lane] = 0
            else:
                allowances[lane] = rate.grant(tenant, now_s, share=share)
        return allowances

    def note_round(self) -> None:
        """A round of deciding is over."""
        for rate in self._lanes.values():
            rate.note_round()

    def settle(self, tenant: str, allowances: Mapping[str, int], entries: tuple[BookEntry, ...]) -> None:
        """Take back what a page drafted for the tenant leaves of its allowances; an empty one leaves all."""
        for lane, rate in self._lanes.items():
            used = sum(isinstance(entry, FireReleased) and entry.lane == lane for entry in entries)
            rate.give_back(tenant, max(0, allowances.get(lane, 0) - used))
