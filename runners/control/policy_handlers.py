"""Everything that is asked about lanes, fires by hand, backfills and ceilings, under its subject."""

from ..clock import Clock
from ..known_zones import KnownZones
from .answers import Handler
from .backfill_handlers import BackfillHandlers
from .by_hand_handlers import ByHandHandlers
from .ceiling_handlers import CeilingHandlers
from .commands import CommandWriter
from .lane_handlers import LaneHandlers
from .model import Model


class PolicyHandlers:
    """The handlers of these subjects."""

    def __init__(self, *, writer: CommandWriter, model: Model, clock: Clock, zones: KnownZones) -> None:
        self._lanes = LaneHandlers(writer=writer, model=model, clock=clock)
        self._by_hand = ByHandHandlers(writer)
        self._backfills = BackfillHandlers(writer=writer, model=model, zones=zones)
        self._ceilings = CeilingHandlers(writer)

    def by_subject(self) -> dict[str, Handler]:
        """What answers which subject."""
        return {
            "control.lanes.show": self._lanes.show,
            "control.lanes.declare-drain": self._lanes.declare_drain,
            "control.fires.now": self._by_hand.fire_now,
            "control.fires.release": self._by_hand.release,
            "control.fires.cancel": self._by_hand.cancel,
            "control.backfill.preview": self._backfills.preview,
            "control.backfill.start": self._backfills.start,
            "control.backfill.cancel": self._backfills.cancel,
            "control.backfill.status": self._backfills.status,
            "control.backfill.grant": self._backfills.grant,
            "control.tenant.ceiling": self._ceilings.of_tenant,
            "control.trigger.ceiling": self._ceilings.of_trigger,
        }
