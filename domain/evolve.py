"""``evolve``: what a page makes true. The only way a state comes about.

Pure and total over effective pages; an entry that cannot follow from the state is a broken invariant and
raises AssertionError, because a page that was decided from this very state cannot hold it.
"""

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from . import entries as e
from .ceilings import begun, charged
from .due import exhausted
from .lanes import backfill_pace, catch_up_pace, quota_pace
from .limits import EARLIER_MARKS_MAX, MARK_KEPT, REQUEST_MEMORY
from .page import MalformedPage, Page, decode_attempts, decode_page, is_effective
from .rezone import goes_by_local_time
from .state import (
    Adoption,
    Backfill,
    Bucket,
    Ceiling,
    DefaultJitter,
    Grant,
    Mark,
    OpenFire,
    Pause,
    RememberedRequest,
    Segment,
    State,
    TriggerState,
    WaitingFire,
    backfill_segment,
    needed_jitters,
    needed_suspensions,
    same_timing,
    segment_of,
)

RecordedOnly = e.DrainDeclared | e.PayloadKeyDestroyed | e.ClockNoted
"""Entries that stand in the book without anything being decided by them."""
ByHandEntry = (
    e.FireRequested | e.HeldFireReleased | e.TriggerSuspended | e.SuspensionEnded | e.CeilingSet | e.SpendPeriodBegun
    | e.GrantChanged | e.BackfillStarted | e.BackfillEnded
)  # fmt: skip
RareEntry = (
    e.TenantCreated | e.TenantAmended | e.ZoneDataAdopted | e.TriggerCreated | e.TriggerAmended | e.SegmentSettled
    | e.TriggerPaused | e.TriggerResumed | e.TriggerDeleted | e.TriggerQuarantined | e.RollbackRecorded
    | e.LossAccepted | e.BookClosed | RecordedOnly | ByHandEntry
)  # fmt: skip


def evolve(state: State, page: Page, stamped_at: int) -> State:
    """The state after ``page``, which the broker stamped at ``stamped_at`` (microseconds).

    A page stamped outside its writer's bounds advances the page number and changes nothing else.
    """
    assert page.number == state.page + 1, f"page {page.number} does not follow page {state.page}"
    assert state.tenant in ("", page.tenant), f"a page of {page.tenant} in the book of {state.tenant}"
    if not is_effective(page.inputs, stamped_at):
        return replace(state, tenant=page.tenant, page=page.number, ineffective_count=state.ineffective_count + 1)
    assert page.inputs.now >= state.now, "now went back"
    draft = _Draft(state, page.inputs.now, page.number)
    for entry in page.entries:
        draft.apply(entry)
    requests = state.requests
    if page.request_id:
        oldest = page.inputs.now - REQUEST_MEMORY
        requests = {key: seen for key, seen in requests.items() if seen.at > oldest}
        requests[page.request_id] = RememberedRequest(page.inputs.now, page.request_sha256, page.number)
    return replace(
        draft.folded(),
        tenant=page.tenant,
        page=page.number,
        effective_page=page.number,
        now=page.inputs.now,
        as_of=draft.surviving if draft.surviving is not None else max(state.as_of, page.inputs.as_of),
        requests=requests,
    )


def fold_entries(state: State, entries: Sequence[e.BookEntry], now: int) -> State:
    """The state as a page's leading entries leave it, before anything else is decided in that page."""
    if not entries:
        return state
    draft = _Draft(state, now, state.page + 1)
    for entry in entries:
        draft.apply(entry)
    return draft.folded()


class _Draft:
    """The state in the making: one copy of the trigger table per page, not per entry."""

    def __init__(self, state: State, now: int, page: int) -> None:
        self.state = state
        self.triggers = dict(state.triggers)
        self.quota = state.quota
        self.catch_up = state.catch_up
        self.backfill_pace = state.backfill_pace
        self.late_count = state.late_count
        self.now = now
        self.page = page
        self.surviving: int | None = None

    def folded(self) -> State:
        """The state with all that was applied."""
        return replace(
            self.state,
            triggers=self.triggers,
            quota=self.quota,
            catch_up=self.catch_up,
            backfill_pace=self.backfill_pace,
            late_count=self.late_count,
        )

    def apply(self, entry: e.BookEntry) -> None:
        """Fold one entry. The most frequent kinds come first."""
        match entry:
            case e.FireReleased():
                _fire_released(self, entry)
            case e.AttemptObserved():
                _attempt_observed(self, entry)
            case e.FireFinished():
                _fire_finished(self, entry)
            case e.InstantsResolved():
                _instants_resolved(self, entry)
            case e.FireDecided():
                _fire_decided(self, entry)
            case e.FireWithdrawn():
                _fire_withdrawn(self, entry)
            case e.RetryScheduled():
                _change_open(self, entry, retry_at=entry.at)
            case e.FireHeld():
                _change_open(self, entry, held=True, retry_at=None)
            case _:
                self._apply_rare(entry)

    def _apply_rare(self, entry: RareEntry) -> None:
        match entry:
            case e.TenantCreated() | e.TenantAmended():
                _tenant_settings(self, entry)
            case e.ZoneDataAdopted():
                _zone_data(self, entry)
            case e.TriggerCreated():
                _trigger_created(self, entry)
            case e.TriggerAmended():
                _trigger_amended(self, entry)
            case e.SegmentSettled():
                _segment_settled(self, entry)
            case e.TriggerPaused():
                _trigger_paused(self, entry)
            case e.TriggerResumed():
                _trigger_resumed(self, entry)
            case e.TriggerDeleted():
                _trigger_deleted(self, entry)
            case e.TriggerQuarantined():
                _trigger_quarantined(self, entry)
            case e.RollbackRecorded():
                _rollback(self, entry)
            case e.LossAccepted():
                _loss_accepted(self, entry)
            case e.BookClosed():
                self.state = replace(self.state, closed=True)
            case e.DrainDeclared() | e.PayloadKeyDestroyed() | e.ClockNoted():
                pass
            case _:
                self._apply_by_hand(entry)

    def _apply_by_hand(self, entry: ByHandEntry) -> None:
        match entry:
            case e.FireRequested():
                _fire_requested(self, entry)
            case e.HeldFireReleased():
                _change_open(self, entry, held=False, retry_at=self.now)
            case e.TriggerSuspended():
                _suspended(self, entry)
            case e.SuspensionEnded():
                _suspension_ended(self, entry)
            case e.CeilingSet() | e.SpendPeriodBegun():
                _ceiling_changed(self, entry)
            case e.GrantChanged():
                _grant_changed(self, entry)
            case e.BackfillStarted():
                _backfill_started(self, entry)
            case e.BackfillEnded():
                self.put(replace(self.trigger(entry.trigger), backfill=None))
            case _:
                assert_never(entry)

    def trigger(self, name: str) -> TriggerState:
        """The trigger an entry names; it must exist."""
        found = self.triggers.get(name)
        assert found is not None, f'entry names unknown trigger "{name}"'
        return found

    def put(self, trigger: TriggerState) -> None:
        """Store a trigger's new state."""
        self.triggers[trigger.name] = trigger


def _tenant_settings(draft: _Draft, entry: e.TenantCreated | e.TenantAmended) -> None:
    jitters = needed_jitters(draft.state.default_jitters, draft.triggers)
    window = entry.settings.default_jitter
    if not jitters or jitters[-1].window != window:
        jitters = (*jitters, DefaultJitter(draft.now if jitters else 0, window))
    draft.state = replace(draft.state, settings=entry.settings, default_jitters=jitters)


def _zone_data(draft: _Draft, entry: e.ZoneDataAdopted) -> None:
    adoptions = (*draft.state.adoptions, Adoption(draft.now, entry.sha256))
    draft.state = replace(draft.state, zone_version=entry.version, adoptions=adoptions)


def _trigger_created(draft: _Draft, entry: e.TriggerCreated) -> None:
    before = draft.triggers.get(entry.trigger)
    assert before is None or before.deleted, f'trigger "{entry.trigger}" exists'
    draft.put(
        TriggerState(
            name=entry.trigger,
            definition=entry.definition,
            definition_page=draft.page,
            segments=(segment_of(entry.definition, draft.now, draft.state.zone_sha256),),
            pauses=(Pause(draft.now, None, "policy", "paused"),) if entry.paused else (),
            next_run_number=before.next_run_number if before else 1,
            open=before.open if before else (),
        )
    )


def _trigger_amended(draft: _Draft, entry: e.TriggerAmended) -> None:
    trigger = draft.trigger(entry.trigger)
    *closed, last = trigger.segments
    opened = segment_of(entry.definition, draft.now, draft.state.zone_sha256)
    # Local times up to now are the closed schedule's, and stay its own when new zone data puts them later.
    opened = replace(opened, earlier=(opened.mark,))
    if exhausted(trigger):
        # What it would have fired had its maximum been higher is not owed when it is raised now.
        segments: tuple[Segment, ...] = (opened,)
    elif same_timing(last, entry.definition):
        segments = trigger.segments
    elif last.after == draft.now:
        # Between two amendments at one now lies no instant, and a closed segment is known by its end.
        segments = (*closed, opened)
    else:
        segments = (*closed, replace(last, until=draft.now), opened)
    pauses = trigger.pauses
    if trigger.quarantine is not None:
        pauses = tuple(replace(p, end=draft.now) if p.end is None and p.cause == "quarantined" else p for p in pauses)
    draft.put(
        replace(
            trigger,
            definition=entry.definition,
            definition_page=draft.page,
            segments=segments,
            pauses=pauses,
            quarantine=None,
        )
    )


def _segment_settled(draft: _Draft, entry: e.SegmentSettled) -> None:
    trigger = draft.trigger(entry.trigger)
    kept = tuple(segment for segment in trigger.segments if segment.until != entry.until)
    assert kept, "the open segment cannot be settled"
    assert kept[-1].until is None, "the last segment is the open one"
    draft.put(_without_spent_pauses(replace(trigger, segments=kept)))


def _trigger_paused(draft: _Draft, entry: e.TriggerPaused) -> None:
    trigger = draft.trigger(entry.trigger)
    assert not trigger.paused, f'trigger "{entry.trigger}" is paused already'
    draft.put(replace(trigger, pauses=(*trigger.pauses, Pause(draft.now, None, "policy", "paused"))))


def _trigger_resumed(draft: _Draft, entry: e.TriggerResumed) -> None:
    trigger = draft.trigger(entry.trigger)
    pauses: list[Pause] = []
    for pause in trigger.pauses:
        if pause.end is not None or pause.cause != "paused":
            pauses.append(pause)
        elif entry.owed_count:
            pauses.append(replace(pause, end=draft.now, on_resume=entry.on_resume))
    draft.put(replace(trigger, pauses=tuple(pauses)))


def _trigger_deleted(draft: _Draft, entry: e.TriggerDeleted) -> None:
    trigger = draft.trigger(entry.trigger)
    draft.put(
        TriggerState(
            name=trigger.name,
            definition=trigger.definition,
            definition_page=trigger.definition_page,
            segments=(),
            deleted=True,
            fired_count=trigger.fired_count,
            next_run_number=trigger.next_run_number,
            open=trigger.open,
        )
    )


def _trigger_quarantined(draft: _Draft, entry: e.TriggerQuarantined) -> None:
    trigger = draft.trigger(entry.trigger)
    pauses = (*trigger.pauses, Pause(draft.now, None, "skip", "quarantined"))
    draft.put(replace(trigger, quarantine=entry.cause, pauses=pauses))


def _fire_decided(draft: _Draft, entry: e.FireDecided) -> None:
    trigger = _mark(draft, draft.trigger(entry.trigger), entry.scheduled, entry.sequence)
    if entry.lane == "backfill":
        trigger = _backfill_decided(trigger, entry.scheduled)
    waiting = WaitingFire(
        scheduled=entry.scheduled,
        sequence=entry.sequence,
        release=entry.release,
        lane=entry.lane,
        cause=entry.cause,
        definition_page=entry.definition_page,
        over_quota=entry.over_quota,
    )
    draft.put(replace(trigger, fired_count=trigger.fired_count + _counted(entry), waiting=(*trigger.waiting, waiting)))


def _counted(entry: e.FireEntry) -> int:
    """What a fire counts towards the maximum of fires: those by hand and of a backfill stand beside the schedule."""
    return 0 if entry.sequence else 1


def _fire_requested(draft: _Draft, entry: e.FireRequested) -> None:
    trigger = _mark(draft, draft.trigger(entry.trigger), entry.scheduled, entry.sequence)
    waiting = WaitingFire(
        scheduled=entry.scheduled,
        sequence=entry.sequence,
        release=entry.scheduled,
        lane="on-time",
        cause="by-hand",
        definition_page=entry.definition_page,
        over_quota=False,
    )
    draft.put(replace(trigger, waiting=(*trigger.waiting, waiting)))


def _fire_released(draft: _Draft, entry: e.FireReleased) -> None:
    trigger = draft.trigger(entry.trigger)
    if entry.decides:
        trigger = _mark(draft, trigger, entry.scheduled, entry.sequence)
        trigger = replace(trigger, fired_count=trigger.fired_count + _counted(entry))
    backfill = _paced(draft, trigger.backfill, entry)
    fire = OpenFire(
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
    draft.put(
        replace(
            trigger,
            open=(*(f for f in trigger.open if not _is(f, entry)), fire),
            waiting=tuple(f for f in trigger.waiting if not _is(f, entry)),
            backfill=backfill,
        )
    )


def _paced(draft: _Draft, backfill: Backfill | None, entry: e.FireReleased) -> Backfill | None:
    """Take the release from the tenant's buckets; the backfill as the release leaves it."""
    settings = draft.state.settings
    assert settings is not None, "fires are released in books of tenants that exist"
    if entry.lane == "catch-up":
        draft.catch_up = catch_up_pace(settings).taken(draft.catch_up, draft.now)
    elif entry.lane == "backfill":
        draft.backfill_pace = catch_up_pace(settings).taken(draft.backfill_pace, draft.now)
        if backfill is not None:
            pace = backfill_pace(backfill).taken(backfill.pace, draft.now)
            first = entry.attempt == 1
            return replace(backfill, pace=pace, released_count=backfill.released_count + first)
    elif not entry.over_quota:
        draft.quota = quota_pace(settings).taken(draft.quota, draft.now)
    return backfill


def _instants_resolved(draft: _Draft, entry: e.InstantsResolved) -> None:
    trigger = draft.trigger(entry.trigger)
    draft.put(_mark(draft, trigger, entry.last, 0, first=entry.first))


def _fire_withdrawn(draft: _Draft, entry: e.FireWithdrawn) -> None:
    trigger = draft.trigger(entry.trigger)
    waiting = tuple(fire for fire in trigger.waiting if not _is(fire, entry))
    gone = 0 if len(waiting) == len(trigger.waiting) else _counted(entry)
    draft.put(replace(trigger, waiting=waiting, fired_count=trigger.fired_count - gone))


def _fire_finished(draft: _Draft, entry: e.FireFinished) -> None:
    trigger = draft.trigger(entry.trigger)
    draft.put(replace(trigger, open=tuple(fire for fire in trigger.open if not _is(fire, entry))))


def _attempt_observed(draft: _Draft, entry: e.AttemptObserved) -> None:
    trigger = draft.triggers.get(entry.trigger)
    if trigger is None:
        return
    if entry.record == "started":
        _change_open(draft, entry, started_at=entry.stamped_at)
        return
    if not any(_is(fire, entry) and fire.attempt == entry.attempt for fire in trigger.open):
        draft.late_count += 1
    if entry.cost:
        if trigger.ceilings:
            draft.put(replace(trigger, ceilings=charged(trigger.ceilings, entry.cost, draft.now)))
        if draft.state.ceilings:
            draft.state = replace(draft.state, ceilings=charged(draft.state.ceilings, entry.cost, draft.now))


_OpenChange = e.FireHeld | e.AttemptObserved | e.RetryScheduled | e.HeldFireReleased


def _change_open(draft: _Draft, entry: _OpenChange, **changes: int | bool | None) -> None:
    """Change the open fire that the entry is about, if it still is at that attempt."""
    trigger = draft.trigger(entry.trigger)
    found = next((fire for fire in trigger.open if _is(fire, entry) and _at_attempt(fire, entry)), None)
    if found is None:
        return
    if isinstance(entry, e.AttemptObserved):
        changes = {"started_at": max(entry.stamped_at, found.started_at or 0)}
    changed = replace(found, **changes)
    draft.put(replace(trigger, open=tuple(changed if fire is found else fire for fire in trigger.open)))


def _at_attempt(fire: OpenFire, entry: _OpenChange) -> bool:
    match entry:
        case e.HeldFireReleased():
            return True
        case e.RetryScheduled():
            return fire.attempt == entry.attempt - 1
        case _:
            return fire.attempt == entry.attempt


def _suspended(draft: _Draft, entry: e.TriggerSuspended) -> None:
    begun_now = Pause(draft.now, None, "skip", "suspended")
    if entry.trigger is None:
        suspensions = draft.state.suspensions
        if draft.state.suspended_until is None:
            suspensions = (*needed_suspensions(suspensions, draft.triggers), begun_now)
        draft.state = replace(draft.state, suspended_until=entry.until, suspensions=suspensions)
        return
    trigger = draft.trigger(entry.trigger)
    pauses = trigger.pauses if trigger.suspended_until is not None else (*trigger.pauses, begun_now)
    draft.put(replace(trigger, suspended_until=entry.until, pauses=pauses))


def _suspension_ended(draft: _Draft, entry: e.SuspensionEnded) -> None:
    if entry.trigger is None:
        suspensions = _suspensions_ended(draft.state.suspensions, draft.now)
        draft.state = replace(draft.state, suspended_until=None, suspensions=suspensions)
        return
    trigger = draft.trigger(entry.trigger)
    draft.put(replace(trigger, suspended_until=None, pauses=_suspensions_ended(trigger.pauses, draft.now)))


def _suspensions_ended(pauses: tuple[Pause, ...], now: int) -> tuple[Pause, ...]:
    return tuple(replace(p, end=now) if p.end is None and p.cause == "suspended" else p for p in pauses)


def _ceiling_changed(draft: _Draft, entry: e.CeilingSet | e.SpendPeriodBegun) -> None:
    if entry.trigger is None:
        draft.state = replace(draft.state, ceilings=_ceilings_with(draft.state.ceilings, entry))
        return
    trigger = draft.trigger(entry.trigger)
    draft.put(replace(trigger, ceilings=_ceilings_with(trigger.ceilings, entry)))


def _ceilings_with(ceilings: tuple[Ceiling, ...], entry: e.CeilingSet | e.SpendPeriodBegun) -> tuple[Ceiling, ...]:
    others = tuple(ceiling for ceiling in ceilings if ceiling.per != entry.per)
    before = next((ceiling for ceiling in ceilings if ceiling.per == entry.per), None)
    if isinstance(entry, e.SpendPeriodBegun):
        assert before is not None, f"no ceiling per {entry.per}"
        return (*others, begun(before, entry.start, entry.end))
    if entry.amount is None:
        return others
    changed = Ceiling(per=entry.per, amount=entry.amount) if before is None else replace(before, amount=entry.amount)
    return (*others, changed)


def _grant_changed(draft: _Draft, entry: e.GrantChanged) -> None:
    others = tuple(g for g in draft.state.grants if (g.grant, g.trigger) != (entry.grant, entry.trigger))
    given = (
        ()
        if entry.value is None
        else (Grant(grant=entry.grant, trigger=entry.trigger, value=entry.value, holder=entry.holder),)
    )
    draft.state = replace(draft.state, grants=(*others, *given))


def _backfill_started(draft: _Draft, entry: e.BackfillStarted) -> None:
    trigger = draft.trigger(entry.trigger)
    segment = backfill_segment(draft.state, trigger.definition, entry.start, entry.end)
    draft.put(
        replace(
            trigger,
            backfill=Backfill(
                label=entry.backfill,
                segment=segment,
                rate_per_second=entry.rate_per_second,
                fired=entry.fired,
                started_at=draft.now,
                by=entry.grant_holder,
                pace=Bucket(0, 0),
            ),
        )
    )


def _backfill_decided(trigger: TriggerState, scheduled: int) -> TriggerState:
    backfill = trigger.backfill
    assert backfill is not None, f'trigger "{trigger.name}" has no backfill'
    mark = replace(backfill.segment.mark, decided=scheduled)
    segment = replace(backfill.segment, mark=mark)
    return replace(trigger, backfill=replace(backfill, segment=segment, decided_count=backfill.decided_count + 1))


def _rollback(draft: _Draft, entry: e.RollbackRecorded) -> None:
    draft.surviving = entry.surviving_sequence
    if entry.origin == "attempts":
        decode_attempts(entry.body)
        return
    lost = decode_page(entry.body)
    if not is_effective(lost.inputs, entry.stamped_at):
        return
    if lost.inputs.now > draft.now:
        raise MalformedPage(f"lost page {lost.number} has a later now than the page that brings it back")
    now, page = draft.now, draft.page
    draft.now = lost.inputs.now
    for each in lost.entries:
        draft.apply(each)
    draft.now, draft.page = now, page


def _loss_accepted(draft: _Draft, entry: e.LossAccepted) -> None:
    draft.surviving = entry.surviving_sequence


def _is(fire: OpenFire | WaitingFire, entry: e.FireEntry) -> bool:
    return fire.scheduled == entry.scheduled and fire.sequence == entry.sequence


def _mark(
    draft: _Draft, trigger: TriggerState, scheduled: int, sequence: int, *, first: int | None = None
) -> TriggerState:
    """Advance the last-decided mark of the segment that holds the instants up to this, or take a run number."""
    if sequence:
        return replace(trigger, next_run_number=max(trigger.next_run_number, sequence + 1))
    for place, segment in enumerate(trigger.segments):
        if segment.after < scheduled and (segment.until is None or scheduled <= segment.until):
            begun = scheduled if first is None else first
            marked = _marked(segment, begun, scheduled, draft.state.zone_data_of(segment))
            segments: tuple[Segment, ...] = (*trigger.segments[:place], marked, *trigger.segments[place + 1 :])
            return _without_spent_pauses(replace(trigger, segments=segments))
    raise AssertionError(f"instant {scheduled} of {trigger.name} lies in no segment")


def _marked(segment: Segment, first: int, last: int, zone_sha256: str) -> Segment:
    """The segment with its next mark; new zone data may put it before the old one, which is then remembered."""
    before, earlier = segment.mark, segment.earlier
    if before.zone_sha256 == zone_sha256 or not goes_by_local_time(segment.schedule):
        assert last > before.decided, f"instant {last} is decided already"
        first = before.since if before.since <= before.decided else first
    elif before.since <= before.decided:
        earlier = (*earlier, before)
    if earlier:
        earlier = tuple(mark for mark in earlier if last < mark.decided + MARK_KEPT)[-EARLIER_MARKS_MAX:]
    return replace(segment, mark=Mark(last, zone_sha256, first), earlier=earlier)


def _without_spent_pauses(trigger: TriggerState) -> TriggerState:
    """Drop pauses that no undecided instant can lie in: every release is later than its segment's mark."""
    if not trigger.pauses:
        return trigger
    earliest = min(segment.decided for segment in trigger.segments)
    kept = tuple(pause for pause in trigger.pauses if pause.end is None or pause.end > earliest)
    return trigger if len(kept) == len(trigger.pauses) else replace(trigger, pauses=kept)
