"""``evolve``: what a page makes true. The only way a state comes about.

Pure and total over effective pages; an entry that cannot follow from the state is a broken invariant and
raises AssertionError, because a page that was decided from this very state cannot hold it.
"""

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from . import entries as e
from . import fold_definitions as definitions
from . import fold_fires as fires
from .draft import Draft
from .limits import REQUEST_MEMORY
from .page import MalformedPage, Page, decode_attempts, decode_page, is_effective
from .state import RememberedRequest, State

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
    draft = Draft(state, page.inputs.now, page.number)
    for entry in page.entries:
        _apply(draft, entry)
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
    draft = Draft(state, now, state.page + 1)
    for entry in entries:
        _apply(draft, entry)
    return draft.folded()


def _apply(draft: Draft, entry: e.BookEntry) -> None:
    """Fold one entry. The most frequent kinds come first."""
    match entry:
        case e.FireReleased():
            fires.fire_released(draft, entry)
        case e.AttemptObserved():
            fires.attempt_observed(draft, entry)
        case e.FireFinished():
            fires.fire_finished(draft, entry)
        case e.InstantsResolved():
            fires.instants_resolved(draft, entry)
        case e.FireDecided():
            fires.fire_decided(draft, entry)
        case e.FireWithdrawn():
            fires.fire_withdrawn(draft, entry)
        case e.RetryScheduled():
            fires.retry_scheduled(draft, entry)
        case e.FireHeld():
            fires.fire_held(draft, entry)
        case _:
            _apply_rare(draft, entry)


def _apply_rare(draft: Draft, entry: RareEntry) -> None:
    match entry:
        case e.TenantCreated() | e.TenantAmended():
            definitions.tenant_settings(draft, entry)
        case e.ZoneDataAdopted():
            definitions.zone_data(draft, entry)
        case e.TriggerCreated():
            definitions.trigger_created(draft, entry)
        case e.TriggerAmended():
            definitions.trigger_amended(draft, entry)
        case e.SegmentSettled():
            definitions.segment_settled(draft, entry)
        case e.TriggerPaused():
            definitions.trigger_paused(draft, entry)
        case e.TriggerResumed():
            definitions.trigger_resumed(draft, entry)
        case e.TriggerDeleted():
            definitions.trigger_deleted(draft, entry)
        case e.TriggerQuarantined():
            definitions.trigger_quarantined(draft, entry)
        case e.RollbackRecorded():
            _rollback(draft, entry)
        case e.LossAccepted():
            _loss_accepted(draft, entry)
        case e.BookClosed():
            draft.state = replace(draft.state, closed=True)
        case e.DrainDeclared() | e.PayloadKeyDestroyed() | e.ClockNoted():
            pass
        case _:
            _apply_by_hand(draft, entry)


def _apply_by_hand(draft: Draft, entry: ByHandEntry) -> None:
    match entry:
        case e.FireRequested():
            fires.fire_requested(draft, entry)
        case e.HeldFireReleased():
            fires.held_fire_released(draft, entry)
        case e.TriggerSuspended():
            definitions.suspended(draft, entry)
        case e.SuspensionEnded():
            definitions.suspension_ended(draft, entry)
        case e.CeilingSet() | e.SpendPeriodBegun():
            definitions.ceiling_changed(draft, entry)
        case e.GrantChanged():
            definitions.grant_changed(draft, entry)
        case e.BackfillStarted():
            definitions.backfill_started(draft, entry)
        case e.BackfillEnded():
            draft.put(replace(draft.trigger(entry.trigger), backfill=None))
        case _:
            assert_never(entry)


def _rollback(draft: Draft, entry: e.RollbackRecorded) -> None:
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
        _apply(draft, each)
    draft.now, draft.page = now, page


def _loss_accepted(draft: Draft, entry: e.LossAccepted) -> None:
    draft.surviving = entry.surviving_sequence
