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
"""A tenant that was refused, and did not ask again for this long and in a whole round, waits no longer."""
STANDSTILL_S = FORGOTTEN_AFTER_S / 2
"""As this long at most counts a time in which nobody asked: who could not ask must not lose its place."""
PACE_STEP_S = PACE_STEP / SECOND
"""What a lane gathers at most while nobody takes anything, in seconds of its rate; and how soon to ask again."""


@dataclass(frozen=True, slots=True)
class LaneRates:
    """Fires a second that the paced lanes release, all tenants and all schedulers together."""

    catch_up: int = CATCH_UP_RATE_DEFAULT
    backfill: int = BACKFILL_RATE_DEFAULT


@dataclass(frozen=True, slots=True)
class _Asked:
    """When a tenant last asked: in seconds in which anybody did, and in which round."""

    busy_s: float
    round: int


class LaneRate:
    """One lane's tokens. Tenants that had to wait are served in turn, before those that just come.

    Each of them asks once in a round of deciding, and a slow round takes longer than any of them may stay away.
    """

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._tokens = 1.0
        self._at_s: float | None = None
        self._waiting: dict[str, _Asked] = {}
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
        ahead = [*self._waiting] if tenant in self._waiting else [*self._waiting, tenant]
        place, whole = ahead.index(tenant), int(self._tokens)
        if place >= whole:
            self._line_up(tenant)
            return 0
        self._waiting.pop(tenant, None)
        granted = max(1, whole // len(ahead))
        self._tokens -= granted
        return granted

    def hold_back(self, tenant: str, now_s: float, *, share: float) -> None:
        """Grant nothing; the tenant keeps its place, or lines up."""
        self._refill(now_s, share)
        self._line_up(tenant)

    def lend(self, now_s: float, *, share: float) -> int:
        """What a page may release of fires that it only decides now: half of what there is, if nobody waits."""
        self._refill(now_s, share)
        lent = 0 if self._waiting else int(self._tokens) // 2
        self._tokens -= lent
        return lent

    def give_back(self, count: int) -> None:
        """Return what a page did not use."""
        self._tokens += count

    def _refill(self, now_s: float, share: float) -> None:
        rate = self._per_second * share
        if self._at_s is not None:
            self._tokens += (now_s - self._at_s) * rate
            self._busy_s += min(now_s - self._at_s, STANDSTILL_S)
        self._at_s = now_s
        self._tokens = min(self._tokens, max(1.0, rate * PACE_STEP_S))
        for tenant in [tenant for tenant, asked in self._waiting.items() if self._stays_away(asked)]:
            del self._waiting[tenant]

    def _line_up(self, tenant: str) -> None:
        self._waiting[tenant] = _Asked(self._busy_s, self._round)

    def _stays_away(self, asked: _Asked) -> bool:
        return self._busy_s - asked.busy_s > FORGOTTEN_AFTER_S and self._round - asked.round > 1


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

    def settle(self, allowances: Mapping[str, int], entries: tuple[BookEntry, ...]) -> None:
        """Take back what a drafted page leaves of its allowances; an empty one leaves all."""
        for lane, rate in self._lanes.items():
            used = sum(isinstance(entry, FireReleased) and entry.lane == lane for entry in entries)
            rate.give_back(max(0, allowances.get(lane, 0) - used))
