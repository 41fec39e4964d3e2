"""The state in the making while a page is folded: what it touches is copied once per page, not once per entry."""

from msgspec.structs import replace

from . import entries as e
from .state import Bucket, OpenFire, State, TriggerState, WaitingFire

FireId = tuple[int, int]
"""A fire of one trigger: its scheduled instant and its sequence."""


class Fires:
    """A trigger's fires in the making, in the order of the state's tuples: thousands may change in one page."""

    def __init__(self, trigger: TriggerState) -> None:
        self.open: dict[FireId, OpenFire] = {(fire.scheduled, fire.sequence): fire for fire in trigger.open}
        self.waiting: dict[FireId, WaitingFire] = {(fire.scheduled, fire.sequence): fire for fire in trigger.waiting}


class Draft:
    """A state in the making at the page's ``now``; ``page`` is the number of the page that is folded."""

    def __init__(self, state: State, now: int, page: int) -> None:
        self.state = state
        self.triggers = dict(state.triggers)
        self.quota: Bucket = state.quota
        self.catch_up: Bucket = state.catch_up
        self.backfill_pace: Bucket = state.backfill_pace
        self.late_count = state.late_count
        self.now = now
        self.page = page
        self.surviving: int | None = None
        self._fires: dict[str, Fires] = {}

    def folded(self) -> State:
        """The state with all that was applied."""
        for name, fires in self._fires.items():
            trigger = self.triggers[name]
            self.triggers[name] = replace(
                trigger, open=tuple(fires.open.values()), waiting=tuple(fires.waiting.values())
            )
        return replace(
            self.state,
            triggers=self.triggers,
            quota=self.quota,
            catch_up=self.catch_up,
            backfill_pace=self.backfill_pace,
            late_count=self.late_count,
        )

    def trigger(self, name: str) -> TriggerState:
        """The trigger an entry names; it must exist. Of its fires only ``fires`` knows."""
        found = self.triggers.get(name)
        assert found is not None, f'entry names unknown trigger "{name}"'
        return found

    def put(self, trigger: TriggerState) -> None:
        """Store a trigger's new state; its fires stay those of ``fires``."""
        self.triggers[trigger.name] = trigger

    def fires(self, name: str) -> Fires:
        """The trigger's open and waiting fires, to be changed in place."""
        found = self._fires.get(name)
        if found is None:
            found = self._fires[name] = Fires(self.trigger(name))
        return found


def fire_id(entry: e.FireEntry) -> FireId:
    """The fire that an entry is about, within its trigger."""
    return entry.scheduled, entry.sequence
