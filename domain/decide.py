"""``decide``: what a command makes of a book's state. Pure; the same arguments give the same entries for ever."""

from collections.abc import Iterator
from itertools import groupby
from typing import assert_never

from . import commands as c
from . import entries as e
from .adoption import adopt_zone_data
from .backfill_commands import backfill_cancelled, cancel_backfill, start_backfill
from .by_hand import cancel_fire, declare_drain, fire_now, release_fire
from .ceiling_commands import change_grant, set_ceiling
from .checks import check_definition, check_settings
from .due import exhausted
from .fire_ends import finished, withdrawn
from .identifiers import MalformedName, check_trigger
from .inputs import Inputs
from .instants import Instant, format_instant
from .limits import (
    PAUSES_MAX,
    REQUEST_MEMORY,
    REQUESTS_REMEMBERED_MAX,
    SEGMENTS_MAX,
    TRIGGER_NAMES_MAX,
    TRIGGERS_PER_TENANT_MAX,
)
from .owed import Timeline, count_owed
from .recurrence.exclusions import with_exclusions
from .recurrence.recurrence import recurrence_of
from .rejections import Rejection, RejectionCode, no_trigger
from .state import RememberedRequest, State, TriggerState, needed_jitters, same_timing
from .tick import guarded, tick
from .zones import MalformedZone, UnknownZone


def decide(state: State, command: c.Command, inputs: Inputs) -> tuple[e.BookEntry, ...] | Rejection:
    """The entries that ``command`` adds to the book, none if it changes nothing, or why it is refused.

    Raises UndecidableTrigger when one trigger's schedule cannot be looked at (see ``tick``): the writer
    tries again with the trigger in the inputs' quarantine. A command then quarantines it by an entry and
    gives up the stretch that cannot be enumerated: an amendment settles it, a deletion cancels nothing of it.
    """
    if isinstance(command, c.Tick):
        return tick(state, inputs) if state.settings is not None and not state.closed else ()
    repeated = repetition(state, inputs.request_id, inputs.request_sha256, now=inputs.recorded.now)
    if repeated is not None:
        return repeated if isinstance(repeated, Rejection) else ()
    refusal = _refuse_any(state, command, inputs)
    return refusal if refusal is not None else _decide_command(state, command, inputs)


def repetition(
    state: State, request_id: str, request_sha256: bytes, *, now: int | None = None
) -> RememberedRequest | Rejection | None:
    """What an earlier request under this id led to; a rejection if that was another request; None if it is new.

    Requests older than REQUEST_MEMORY at ``now`` (None: the book's own) are forgotten.
    """
    seen = state.requests.get(request_id) if request_id else None
    if seen is not None and seen.at <= (state.now if now is None else now) - REQUEST_MEMORY:
        return None
    if seen is None or seen.sha256 == request_sha256:
        return seen
    return Rejection(
        RejectionCode.REQUEST_ID_REUSED,
        f'request id "{request_id}" was used for another request at {format_instant(seen.at)}',
        "use a new request id for a new request",
    )


def _refuse_any(state: State, command: c.Command, inputs: Inputs) -> Rejection | None:
    if state.closed:
        return Rejection(RejectionCode.BOOK_CLOSED, f'the book of tenant "{state.tenant}" is closed')
    stops = isinstance(command, c.PauseTrigger | c.CancelFire | c.CancelBackfill)
    if inputs.request_id and not stops and _remembered_count(state, inputs.recorded.now) >= REQUESTS_REMEMBERED_MAX:
        return Rejection(
            RejectionCode.TOO_MANY_REQUESTS,
            f"more than {REQUESTS_REMEMBERED_MAX} requests are remembered for this tenant",
            "wait until some are older than 24 hours",
        )
    if state.settings is None and not isinstance(command, c.CreateTenant):
        return Rejection(
            RejectionCode.TENANT_MISSING, "the tenant does not exist", "create it: fireledger tenant create TENANT"
        )
    return None


def _remembered_count(state: State, now: int) -> int:
    """How many requests are remembered; they are only counted one by one when there may be too many."""
    if len(state.requests) < REQUESTS_REMEMBERED_MAX:
        return len(state.requests)
    return sum(seen.at > now - REQUEST_MEMORY for seen in state.requests.values())


def _decide_command(state: State, command: c.Command, inputs: Inputs) -> tuple[e.BookEntry, ...] | Rejection:
    match command:
        case c.CreateTenant():
            return _create_tenant(state, command, inputs)
        case c.AmendTenant():
            return _amend_tenant(state, command, inputs)
        case c.AdoptZoneData():
            return adopt_zone_data(state, command, inputs)
        case c.CreateTrigger():
            return _create_trigger(state, command, inputs)
        case c.AmendTrigger():
            return _amend_trigger(state, command, inputs)
        case c.PauseTrigger():
            return _pause_trigger(state, command)
        case c.ResumeTrigger():
            return _resume_trigger(state, command, inputs)
        case c.DeleteTrigger():
            return _delete_trigger(state, command, inputs)
        case c.Tick():
            raise AssertionError("ticks are decided by tick()")
        case _:
            return _decide_by_hand(state, command, inputs)


_ByHand = (
    c.FireNow | c.ReleaseFire | c.CancelFire | c.SetCeiling | c.ChangeGrant
    | c.StartBackfill | c.CancelBackfill | c.DeclareDrain
)  # fmt: skip


def _decide_by_hand(state: State, command: _ByHand, inputs: Inputs) -> tuple[e.BookEntry, ...] | Rejection:
    match command:
        case c.FireNow():
            return fire_now(state, command, inputs)
        case c.ReleaseFire():
            return release_fire(state, command)
        case c.CancelFire():
            return cancel_fire(state, command)
        case c.SetCeiling():
            return set_ceiling(state, command, inputs)
        case c.ChangeGrant():
            return change_grant(state, command)
        case c.StartBackfill():
            return start_backfill(state, command, inputs)
        case c.CancelBackfill():
            return cancel_backfill(state, command)
        case c.DeclareDrain():
            return declare_drain(command, inputs)
        case _:
            assert_never(command)


def _create_tenant(state: State, command: c.CreateTenant, inputs: Inputs) -> tuple[e.BookEntry, ...] | Rejection:
    if state.settings is not None:
        return Rejection(
            RejectionCode.TENANT_EXISTS,
            f'tenant "{state.tenant}" exists',
            f"change it: fireledger tenant amend {state.tenant}",
        )
    refused = check_settings(command.settings, inputs.zones.database(command.zone_sha256))
    if refused is not None:
        return refused
    return (
        e.TenantCreated(settings=command.settings),
        e.ZoneDataAdopted(version=command.zone_version, sha256=command.zone_sha256),
    )


def _amend_tenant(state: State, command: c.AmendTenant, inputs: Inputs) -> tuple[e.BookEntry, ...] | Rejection:
    if command.settings == state.settings:
        return ()
    refused = check_settings(command.settings, inputs.zones.database(state.zone_sha256))
    moved = state.settings is None or state.settings.default_jitter != command.settings.default_jitter
    if refused is None and moved and len(needed_jitters(state.default_jitters, state.triggers)) >= SEGMENTS_MAX:
        refused = Rejection(
            RejectionCode.TOO_MANY_SEGMENTS,
            f"the tenant's default jitter has changed {SEGMENTS_MAX} times since its triggers were last decided",
            "wait for the scheduler to decide them, or set --jitter on the triggers themselves",
        )
    return refused if refused is not None else (e.TenantAmended(settings=command.settings),)


def _create_trigger(state: State, command: c.CreateTrigger, inputs: Inputs) -> tuple[e.BookEntry, ...] | Rejection:
    try:
        check_trigger(command.trigger)
    except MalformedName as error:
        return Rejection(RejectionCode.VALUE_REFUSED, str(error))
    if state.live(command.trigger) is not None:
        return Rejection(
            RejectionCode.TRIGGER_EXISTS,
            f'trigger "{state.tenant}/{command.trigger}" exists',
            f"change it: fireledger trigger amend {state.tenant}/{command.trigger}",
        )
    refused = _refuse_one_more(state, command.trigger) or _refuse_definition(state, command, inputs)
    if refused is not None:
        return refused
    return (e.TriggerCreated(trigger=command.trigger, definition=command.definition, paused=command.paused),)


def _refuse_one_more(state: State, name: str) -> Rejection | None:
    if len(state.triggers) < TRIGGERS_PER_TENANT_MAX:
        return None
    if sum(not trigger.deleted for trigger in state.triggers.values()) >= TRIGGERS_PER_TENANT_MAX:
        return Rejection(
            RejectionCode.TOO_MANY_TRIGGERS,
            f"a tenant has at most {TRIGGERS_PER_TENANT_MAX} triggers",
            f"delete one that is not needed: fireledger trigger list {state.tenant}",
        )
    if name not in state.triggers and len(state.triggers) >= TRIGGER_NAMES_MAX:
        return Rejection(
            RejectionCode.TOO_MANY_TRIGGERS,
            f"a tenant's book knows at most {TRIGGER_NAMES_MAX} names of triggers, deleted ones included",
            "use a deleted trigger's name again",
        )
    return None


def _amend_trigger(state: State, command: c.AmendTrigger, inputs: Inputs) -> tuple[e.BookEntry, ...] | Rejection:
    trigger = state.live(command.trigger)
    if trigger is None:
        return no_trigger(state.tenant, command.trigger)
    if trigger.definition == command.definition and trigger.quarantine is None:
        return ()
    same = same_timing(trigger.segments[-1], command.definition)
    refused = _refuse_definition(state, command, inputs, keeps_schedule=same)
    if refused is not None:
        return refused
    amended = e.TriggerAmended(trigger=command.trigger, definition=command.definition)
    return (amended,) if same or exhausted(trigger) else _close_schedule(state, trigger, amended, inputs)


def _close_schedule(
    state: State, trigger: TriggerState, amended: e.TriggerAmended, inputs: Inputs
) -> tuple[e.BookEntry, ...] | Rejection:
    """The amendment, with what it settles: a schedule that owes nothing, or all that nobody can look at."""
    *closed, last = trigger.segments
    now = inputs.recorded.now
    ends = [now] if last.after < now else []
    if _gives_up(trigger, inputs):
        ends = [*(segment.until for segment in closed if segment.until is not None), *ends]
        settled = (e.SegmentSettled(trigger=trigger.name, until=end) for end in ends)
        return (*_quarantined(trigger, inputs), amended, *settled)
    if trigger.quarantine is not None:
        # The amendment lifts the quarantine; what cannot be decided still would only bring it back.
        guarded(trigger.name, _count_owed, state, trigger, inputs)
    if not ends:
        return (amended,)
    if guarded(trigger.name, _owes_nothing, state, trigger, inputs):
        return (amended, e.SegmentSettled(trigger=trigger.name, until=now))
    if len(trigger.segments) >= SEGMENTS_MAX:
        return Rejection(
            RejectionCode.TOO_MANY_SEGMENTS,
            f'trigger "{trigger.name}" has {SEGMENTS_MAX} amended schedules that still owe instants',
            "wait for the scheduler to decide them, or resume the trigger",
        )
    return (amended,)


def _gives_up(trigger: TriggerState, inputs: Inputs) -> bool:
    """Whether the writer found that the trigger's schedules cannot be looked at."""
    return any(item.trigger == trigger.name for item in inputs.recorded.quarantine)


def _quarantined(trigger: TriggerState, inputs: Inputs) -> tuple[e.TriggerQuarantined, ...]:
    """The record of why a command gives up a stretch, unless the trigger is in quarantine already."""
    if trigger.quarantine is not None:
        return ()
    causes = (item.cause for item in inputs.recorded.quarantine if item.trigger == trigger.name)
    return tuple(e.TriggerQuarantined(trigger=trigger.name, cause=cause) for cause in causes)[:1]


def _owes_nothing(state: State, trigger: TriggerState, inputs: Inputs) -> bool:
    """Whether the open segment has no undecided instant up to the page's now, released or not."""
    following = Timeline(state, trigger, trigger.segments[-1], inputs.zones).next_undecided()
    return following is None or following > inputs.recorded.now


def _refuse_definition(
    state: State, command: c.CreateTrigger | c.AmendTrigger, inputs: Inputs, *, keeps_schedule: bool = False
) -> Rejection | None:
    definition = command.definition
    refused = check_definition(definition)
    if refused is not None:
        return refused
    try:
        zone = inputs.zones.database(state.zone_sha256).zone(definition.zone)
    except (UnknownZone, MalformedZone) as error:
        return Rejection(RejectionCode.ZONE_UNKNOWN, str(error), "use an IANA name such as Europe/Rome, or UTC")
    if keeps_schedule:
        return None
    every = recurrence_of(definition.schedule, zone, definition.gap, definition.fold)
    recurrence = with_exclusions(every, zone, definition.excluded)
    after = inputs.recorded.now
    if definition.not_before is not None:
        after = max(after, definition.not_before - 1)
    following = recurrence.next_after(Instant(after))
    if following is not None and (definition.not_after is None or following <= definition.not_after):
        return None
    if following is None and recurrence.previous_before(Instant(after + 1)) is None:
        return Rejection(
            RejectionCode.NEVER_DUE,
            f'schedule "{definition.schedule.source}" is never due',
            "check its excluded dates" if definition.excluded else "check its date fields",
        )
    return Rejection(
        RejectionCode.WHOLLY_PAST,
        f'schedule "{definition.schedule.source}" has no instant after {format_instant(after)}',
        "give an instant in the future, or a later --not-after",
    )


def _pause_trigger(state: State, command: c.PauseTrigger) -> tuple[e.BookEntry, ...] | Rejection:
    trigger = state.live(command.trigger)
    if trigger is None:
        return no_trigger(state.tenant, command.trigger)
    if trigger.paused:
        return Rejection(
            RejectionCode.ALREADY_PAUSED,
            f'trigger "{state.tenant}/{command.trigger}" is paused already',
            f"resume it: fireledger trigger resume {state.tenant}/{command.trigger}",
        )
    if sum(pause.cause == "paused" for pause in trigger.pauses) >= PAUSES_MAX:
        return Rejection(
            RejectionCode.TOO_MANY_PAUSES,
            f'trigger "{command.trigger}" has {PAUSES_MAX} pauses with undecided instants',
            "wait for the scheduler to decide them",
        )
    return (e.TriggerPaused(trigger=command.trigger),)


def _resume_trigger(state: State, command: c.ResumeTrigger, inputs: Inputs) -> tuple[e.BookEntry, ...] | Rejection:
    trigger = state.live(command.trigger)
    if trigger is None:
        return no_trigger(state.tenant, command.trigger)
    if not trigger.paused:
        return Rejection(
            RejectionCode.NOT_PAUSED,
            f'trigger "{state.tenant}/{command.trigger}" is not paused',
            f"see its state: fireledger trigger show {state.tenant}/{command.trigger}",
        )
    gives_up = _gives_up(trigger, inputs)
    owed_count = 0
    if not (gives_up or exhausted(trigger)):
        owed_count = guarded(trigger.name, _count_owed, state, trigger, inputs)
    resumed = e.TriggerResumed(trigger=command.trigger, on_resume=command.on_resume, owed_count=owed_count)
    return (*_quarantined(trigger, inputs), resumed) if gives_up else (resumed,)


def _count_owed(state: State, trigger: TriggerState, inputs: Inputs) -> int:
    timelines = [Timeline(state, trigger, segment, inputs.zones) for segment in trigger.segments]
    return sum(count_owed(timeline, inputs.recorded.now) for timeline in timelines)


def _delete_trigger(state: State, command: c.DeleteTrigger, inputs: Inputs) -> tuple[e.BookEntry, ...] | Rejection:
    trigger = state.live(command.trigger)
    if trigger is None:
        return no_trigger(state.tenant, command.trigger)
    gives_up = _gives_up(trigger, inputs)
    cancelled: list[e.BookEntry] = [*_quarantined(trigger, inputs)] if gives_up else []
    cancelled.extend(withdrawn(trigger.name, fire, "cancelled", "deleted") for fire in trigger.waiting)
    cancelled.extend(
        finished(trigger.name, fire, "failed", "trigger deleted") for fire in trigger.open if fire.retry_at is not None
    )
    if trigger.backfill is not None:
        cancelled.append(backfill_cancelled(trigger, trigger.backfill))
    if not (gives_up or exhausted(trigger)):
        cancelled.extend(guarded(trigger.name, _cancelled_instants, state, trigger, inputs))
    return (*cancelled, e.TriggerDeleted(trigger=trigger.name))


def _cancelled_instants(state: State, trigger: TriggerState, inputs: Inputs) -> list[e.InstantsResolved]:
    """Undecided instants scheduled up to now, those inside their jitter window included."""
    now = inputs.recorded.now
    found: list[e.InstantsResolved] = []
    for segment in trigger.segments:
        timeline = Timeline(state, trigger, segment, inputs.zones)
        looked_at = timeline.looked_at_until()
        if looked_at is not None:
            looked_at = min(looked_at, now)
            found.extend(_cancelled_one_by_one(trigger.name, timeline, looked_at))
        first, last = timeline.next_undecided(looked_at), timeline.last_until(now)
        if first is not None and last is not None and first <= last:
            found.append(_cancelled(trigger.name, first, last, timeline.count_until(first - 1, last)))
    return found


def _cancelled_one_by_one(trigger: str, timeline: Timeline, until: int) -> Iterator[e.InstantsResolved]:
    """The same where new zone data moved instants onto keys that are decided: those stay what they are."""
    for taken, run in groupby(_undecided(timeline, until), key=timeline.taken):
        instants = list(run)
        if not taken:
            yield _cancelled(trigger, instants[0], instants[-1], len(instants))
            continue
        for at in instants:
            yield e.InstantsResolved(
                trigger=trigger, first=at, last=at, count=1, state="coalesced", cause="coalesced", into=at
            )


def _undecided(timeline: Timeline, until: int) -> Iterator[int]:
    scheduled = timeline.next_undecided()
    while scheduled is not None and scheduled <= until:
        yield scheduled
        scheduled = timeline.next_undecided(scheduled)


def _cancelled(trigger: str, first: int, last: int, count: int) -> e.InstantsResolved:
    return e.InstantsResolved(trigger=trigger, first=first, last=last, count=count, state="cancelled", cause="deleted")
