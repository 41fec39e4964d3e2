"""What entries about fires make true: decided, released, observed, held, tried again and finished ones."""

from msgspec.structs import replace

from . import entries as e
from .ceilings import charged
from .draft import Draft, Fires, fire_id
from .lanes import backfill_pace, catch_up_pace, quota_pace
from .marks import marked
from .state import Backfill, OpenFire, TriggerState, WaitingFire


def fire_decided(draft: Draft, entry: e.FireDecided) -> None:
    """A fire waits for its release; its instant is decided, or its run number taken."""
    trigger = marked(draft.state, draft.trigger(entry.trigger), entry.scheduled, entry.sequence)
    if entry.lane == "backfill":
        trigger = _backfill_decided(trigger, entry.scheduled)
    draft.put(replace(trigger, fired_count=trigger.fired_count + _counted(entry)))
    draft.fires(entry.trigger).waiting[fire_id(entry)] = WaitingFire.decided(entry)


def _backfill_decided(trigger: TriggerState, scheduled: int) -> TriggerState:
    backfill = trigger.backfill
    assert backfill is not None, f'trigger "{trigger.name}" has no backfill'
    mark = replace(backfill.segment.mark, decided=scheduled)
    segment = replace(backfill.segment, mark=mark)
    return replace(trigger, backfill=replace(backfill, segment=segment, decided_count=backfill.decided_count + 1))


def _counted(entry: e.FireEntry) -> int:
    """What a fire counts towards the maximum of fires: those by hand and of a backfill stand beside the schedule."""
    return 0 if entry.sequence else 1


def fire_requested(draft: Draft, entry: e.FireRequested) -> None:
    """A fire by hand waits for its release."""
    draft.put(marked(draft.state, draft.trigger(entry.trigger), entry.scheduled, entry.sequence))
    draft.fires(entry.trigger).waiting[fire_id(entry)] = WaitingFire(
        scheduled=entry.scheduled,
        sequence=entry.sequence,
        release=entry.scheduled,
        lane="on-time",
        cause="by-hand",
        definition_page=entry.definition_page,
        over_quota=False,
    )


def fire_released(draft: Draft, entry: e.FireReleased) -> None:
    """An attempt may be made: the fire is open, and its lane's pace has one token less."""
    trigger = draft.trigger(entry.trigger)
    if entry.decides:
        trigger = marked(draft.state, trigger, entry.scheduled, entry.sequence)
        trigger = replace(trigger, fired_count=trigger.fired_count + _counted(entry))
        draft.put(trigger)
    _take_tokens(draft, trigger, entry)
    fires, identity = draft.fires(entry.trigger), fire_id(entry)
    fires.waiting.pop(identity, None)
    # A further attempt is the latest that is released.
    fires.open.pop(identity, None)
    fires.open[identity] = OpenFire(
        scheduled=entry.scheduled,
        sequence=entry.sequence,
        release=entry.release,
        lane=entry.lane,
        cause=entry.cause,
        over_quota=entry.over_quota,
        definition_page=entry.definition_page,
        attempt=entry.attempt,
        released_at=draft.now,
        outcome_window=trigger.definition.outcome_window,
    )


def _take_tokens(draft: Draft, trigger: TriggerState, entry: e.FireReleased) -> None:
    """Take the release from the tenant's buckets, and from that of its backfill."""
    settings = draft.state.settings
    assert settings is not None, "fires are released in books of tenants that exist"
    if entry.lane == "catch-up":
        draft.catch_up = catch_up_pace(settings).taken(draft.catch_up, draft.now)
    elif entry.lane == "backfill":
        draft.backfill_pace = catch_up_pace(settings).taken(draft.backfill_pace, draft.now)
        if trigger.backfill is not None:
            draft.put(replace(trigger, backfill=_backfill_released(trigger.backfill, entry, draft.now)))
    elif not entry.over_quota:
        draft.quota = quota_pace(settings).taken(draft.quota, draft.now)


def _backfill_released(backfill: Backfill, entry: e.FireReleased, now: int) -> Backfill:
    pace = backfill_pace(backfill).taken(backfill.pace, now)
    return replace(backfill, pace=pace, released_count=backfill.released_count + (entry.attempt == 1))


def instants_resolved(draft: Draft, entry: e.InstantsResolved) -> None:
    """A stretch of instants is decided without a fire."""
    trigger = draft.trigger(entry.trigger)
    draft.put(marked(draft.state, trigger, entry.last, 0, first=entry.first))


def fire_withdrawn(draft: Draft, entry: e.FireWithdrawn) -> None:
    """A waiting fire does not fire after all, and gives its place in the maximum back."""
    gone = draft.fires(entry.trigger).waiting.pop(fire_id(entry), None)
    if gone is not None and _counted(entry):
        trigger = draft.trigger(entry.trigger)
        draft.put(replace(trigger, fired_count=trigger.fired_count - 1))


def fire_finished(draft: Draft, entry: e.FireFinished) -> None:
    """An open fire has its outcome."""
    draft.fires(entry.trigger).open.pop(fire_id(entry), None)


def attempt_observed(draft: Draft, entry: e.AttemptObserved) -> None:
    """Fold a record of an attempt. One that fits no trigger of the book is carried and changes nothing."""
    trigger = draft.triggers.get(entry.trigger)
    if trigger is None:
        return
    fires = draft.fires(entry.trigger)
    fire = fires.open.get(fire_id(entry))
    if entry.record == "started":
        if fire is not None and fire.attempt == entry.attempt:
            fires.open[fire_id(entry)] = replace(fire, started_at=max(entry.stamped_at, fire.started_at or 0))
        return
    if fire is None or fire.late(entry.attempt, entry.result, entry.stamped_at):
        draft.late_count += 1
    if entry.cost:
        if trigger.ceilings:
            draft.put(replace(trigger, ceilings=charged(trigger.ceilings, entry.cost, draft.now)))
        if draft.state.ceilings:
            draft.state = replace(draft.state, ceilings=charged(draft.state.ceilings, entry.cost, draft.now))


def retry_scheduled(draft: Draft, entry: e.RetryScheduled) -> None:
    """The fire's next attempt waits for its instant."""
    fires = draft.fires(entry.trigger)
    fire = _at_attempt(fires, entry, entry.attempt - 1)
    if fire is not None:
        fires.open[fire_id(entry)] = replace(fire, retry_at=entry.at)


def fire_held(draft: Draft, entry: e.FireHeld) -> None:
    """The fire waits for a person, and for nothing else."""
    fires = draft.fires(entry.trigger)
    fire = _at_attempt(fires, entry, entry.attempt)
    if fire is not None:
        fires.open[fire_id(entry)] = replace(fire, held=True, retry_at=None)


def held_fire_released(draft: Draft, entry: e.HeldFireReleased) -> None:
    """A person let a held fire go on: its next attempt waits, and is due at once."""
    fires = draft.fires(entry.trigger)
    fire = fires.open.get(fire_id(entry))
    if fire is not None:
        fires.open[fire_id(entry)] = replace(fire, held=False, retry_at=draft.now, let_go=True)


def _at_attempt(fires: Fires, entry: e.FireEntry, attempt: int) -> OpenFire | None:
    """The open fire that the entry is about, if it still is at that attempt."""
    found = fires.open.get(fire_id(entry))
    return found if found is not None and found.attempt == attempt else None
