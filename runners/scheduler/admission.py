"""What the next page may release: its part of the paced lanes' shared rates, and how much is held back."""

import asyncio

from fireledger.domain.entries import BookEntry, Lane
from fireledger.domain.state import State

from ..logs import get_log
from .books import OwnedBook, paced_lanes
from .pacing import LanePacer, LaneRates
from .shedding import Shedding

_log = get_log("scheduler")


class Admission:
    """The shared rates and the shedding level of one scheduler. Seconds are those of the running event loop."""

    def __init__(self, rates: LaneRates) -> None:
        self._pacer = LanePacer(rates)
        self._shedding = Shedding()

    @property
    def level(self) -> int:
        """The shedding level, 0 to 4."""
        return self._shedding.level

    def allowances(self, owned: OwnedBook, state: State, now: int, *, owned_slots: int) -> dict[str, int]:
        """How many fires of each paced lane the book's next page may release; ``settle`` what it leaves.

        Fires that wait, and attempts whose instant has come at ``now``, take their turn in their lane.
        """
        due = (state.triggers[name] for name in owned.due if name in state.triggers)
        retried: frozenset[Lane] = frozenset(
            fire.lane
            for trigger in due
            for fire in trigger.open
            if fire.lane != "on-time" and fire.retry_at is not None and fire.retry_at <= now
        )
        lanes = retried | paced_lanes(owned, state, now)
        return self._pacer.grant(
            owned.tenant, lanes, _now_s(), owned_slots=owned_slots, shedding_level=self._shedding.level
        )

    def settle(self, tenant: str, allowances: dict[str, int], entries: tuple[BookEntry, ...]) -> None:
        """Take back what the tenant's page left."""
        self._pacer.settle(tenant, allowances, entries)

    def note_round(self, began_s: float) -> None:
        """A round of deciding that began then is over; a change of level is logged."""
        took_s, before = _now_s() - began_s, self.level
        self._shedding.note_round(took_s, _now_s())
        self._pacer.note_round()
        if self.level != before:
            _log.warning("shedding-changed", shedding_level=self.level, before=before, round_s=round(took_s, 3))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
