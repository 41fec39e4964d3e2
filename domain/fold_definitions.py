"""What entries about tenants and triggers make true: definitions, pauses, suspensions, ceilings, grants, backfills."""

from msgspec.structs import replace

from . import entries as e
from .ceilings import begun
from .draft import Draft
from .due import exhausted
from .marks import with_stop, without_spent_pauses
from .state import (
    Adoption,
    Backfill,
    Bucket,
    Ceiling,
    DefaultJitter,
    Grant,
    Pause,
    Segment,
    TriggerState,
    backfill_segment,
    needed_jitters,
    needed_suspensions,
    same_timing,
    segment_of,
)


def tenant_settings(draft: Draft, entry: e.TenantCreated | e.TenantAmended) -> None:
    """The tenant's settings, and from now on its default jitter."""
    jitters = needed_jitters(draft.state.default_jitters, draft.triggers)
    window = entry.settings.default_jitter
    if not jitters or jitters[-1].window != window:
        jitters = (*jitters, DefaultJitter(draft.now if jitters else 0, window))
    draft.state = replace(draft.state, settings=entry.settings, default_jitters=jitters)


def zone_data(draft: Draft, entry: e.ZoneDataAdopted) -> None:
    """Local times are resolved with this database from now on."""
    adoptions = (*draft.state.adoptions, Adoption(draft.now, entry.sha256))
    draft.state = replace(draft.state, zone_version=entry.version, adoptions=adoptions)


def trigger_created(draft: Draft, entry: e.TriggerCreated) -> None:
    """A trigger begins; fires that its name had open before its deletion stay open."""
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


def trigger_amended(draft: Draft, entry: e.TriggerAmended) -> None:
    """The schedule until now is closed where the new one differs; a quarantine ends."""
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


def segment_settled(draft: Draft, entry: e.SegmentSettled) -> None:
    """A closed schedule owes nothing more."""
    trigger = draft.trigger(entry.trigger)
    kept = tuple(segment for segment in trigger.segments if segment.until != entry.until)
    assert kept, "the open segment cannot be settled"
    assert kept[-1].until is None, "the last segment is the open one"
    draft.put(without_spent_pauses(replace(trigger, segments=kept)))


def trigger_paused(draft: Draft, entry: e.TriggerPaused) -> None:
    """A pause begins."""
    trigger = draft.trigger(entry.trigger)
    assert not trigger.paused, f'trigger "{entry.trigger}" is paused already'
    draft.put(replace(trigger, pauses=(*trigger.pauses, Pause(draft.now, None, "policy", "paused"))))


def trigger_resumed(draft: Draft, entry: e.TriggerResumed) -> None:
    """The pause ends; it is kept while instants in it are undecided."""
    trigger = draft.trigger(entry.trigger)
    pauses: list[Pause] = []
    for pause in trigger.pauses:
        if pause.end is not None or pause.cause != "paused":
            pauses.append(pause)
        elif entry.owed_count:
            pauses.append(replace(pause, end=draft.now, on_resume=entry.on_resume))
    draft.put(replace(trigger, pauses=tuple(pauses)))


def trigger_deleted(draft: Draft, entry: e.TriggerDeleted) -> None:
    """Only what is open, and what keeps keys from being used again, is left of the trigger."""
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
    fires = draft.fires(trigger.name)
    fires.waiting.clear()
    fires.open.update({name: replace(fire, orphaned=True) for name, fire in fires.open.items()})
    # What was granted to it is not granted to another trigger that takes its name.
    grants = tuple(grant for grant in draft.state.grants if grant.trigger != trigger.name)
    draft.state = replace(draft.state, grants=grants)


def trigger_quarantined(draft: Draft, entry: e.TriggerQuarantined) -> None:
    """Nothing of the trigger is decided until it is amended."""
    trigger = draft.trigger(entry.trigger)
    pauses = with_stop(trigger.pauses, Pause(draft.now, None, "skip", "quarantined"))
    draft.put(replace(trigger, quarantine=entry.cause, pauses=pauses))


def suspended(draft: Draft, entry: e.TriggerSuspended) -> None:
    """A suspension begins, or one that goes on ends at another instant."""
    begun_now = Pause(draft.now, None, "skip", "suspended")
    if entry.trigger is None:
        suspensions = draft.state.suspensions
        if draft.state.suspended_until is None:
            suspensions = with_stop(needed_suspensions(suspensions, draft.triggers), begun_now)
        draft.state = replace(draft.state, suspended_until=entry.until, suspensions=suspensions)
        return
    trigger = draft.trigger(entry.trigger)
    pauses = trigger.pauses if trigger.suspended_until is not None else with_stop(trigger.pauses, begun_now)
    draft.put(replace(trigger, suspended_until=entry.until, pauses=pauses))


def suspension_ended(draft: Draft, entry: e.SuspensionEnded) -> None:
    """A suspension ends: at the page's now, or where its period was over, however late the page that says so."""
    if entry.trigger is None:
        end = _suspension_end(draft, entry, draft.state.suspended_until)
        suspensions = _suspensions_ended(draft.state.suspensions, end)
        draft.state = replace(draft.state, suspended_until=None, suspensions=suspensions)
        return
    trigger = draft.trigger(entry.trigger)
    end = _suspension_end(draft, entry, trigger.suspended_until)
    draft.put(replace(trigger, suspended_until=None, pauses=_suspensions_ended(trigger.pauses, end)))


def _suspension_end(draft: Draft, entry: e.SuspensionEnded, until: int | None) -> int:
    """The last instant of the suspension; the first of the next period is not its own."""
    return draft.now if entry.cause == "raised" or until is None else until - 1


def _suspensions_ended(pauses: tuple[Pause, ...], end: int) -> tuple[Pause, ...]:
    ended = (replace(p, end=end) if p.end is None and p.cause == "suspended" else p for p in pauses)
    return tuple(pause for pause in ended if pause.end is None or pause.end > pause.start)


def ceiling_changed(draft: Draft, entry: e.CeilingSet | e.SpendPeriodBegun) -> None:
    """A ceiling is set or removed, or its next period begins."""
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


def grant_changed(draft: Draft, entry: e.GrantChanged) -> None:
    """A grant is given, changed or withdrawn."""
    others = tuple(g for g in draft.state.grants if (g.grant, g.trigger) != (entry.grant, entry.trigger))
    given = (
        ()
        if entry.value is None
        else (Grant(grant=entry.grant, trigger=entry.trigger, value=entry.value, holder=entry.holder),)
    )
    draft.state = replace(draft.state, grants=(*others, *given))


def backfill_started(draft: Draft, entry: e.BackfillStarted) -> None:
    """A backfill begins with the trigger's definition of now."""
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
                pace=Bucket(0, 0),
            ),
        )
    )
