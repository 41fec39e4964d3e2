"""What control answers with: plain values in their outside forms, and sentences in plain words."""

from collections.abc import Awaitable, Callable, Iterator

from fireledger.domain.book import Book
from fireledger.domain.definition import Definition
from fireledger.domain.instants import format_duration, format_instant
from fireledger.domain.preview import Coming, Previewed, coming
from fireledger.domain.recurrence.explain import Explanation
from fireledger.domain.state import State, TriggerState
from fireledger.domain.tick import UndecidableTrigger, guarded
from fireledger.domain.zones import ZoneLibrary
from fireledger.projections.book_text import definition_readable, schedule_text, settings_readable
from fireledger.projections.fires import FireRow

from ..json_edge import Json, Jsonable
from .policy_answers import failure_words, standing_answer, state_of, suspended_until, tenant_standing_answer

NEXT_SHOWN = 3
"""Coming instants that an answer about a trigger shows."""

Answer = dict[str, Jsonable]
Handler = Callable[[dict[str, Json]], Awaitable[Answer]]
"""What answers the requests of one subject."""


def fire_answer(row: FireRow) -> Answer:
    """One fire, or one range of instants that did not fire (``last`` and ``count`` then say how far)."""
    return {
        "key": str(row.key),
        "tenant": row.tenant,
        "trigger": row.trigger,
        "version": row.version,
        "scheduled": format_instant(row.scheduled),
        "release": _instant(row.release),
        "decided": format_instant(row.decided),
        "released": _instant(row.released),
        "dispatched": _instant(row.dispatched),
        "finished": _instant(row.finished),
        "lateness_ms": row.lateness_ms,
        "delay_ms": row.delay_ms,
        "lane": row.lane,
        "state": row.state,
        "cause": row.cause,
        "attempts": row.attempts,
        "duplicates": row.duplicates,
        "result": row.result,
        "outcome": row.outcome,
        "outcome_cause": row.outcome_cause,
        "message": row.message or None,
        "retry_at": _instant(row.retry_at),
        "cost": row.cost,
        "over_quota": row.over_quota,
        "merged": row.merged,
        "into": None if row.into is None else f"{row.tenant}/{row.trigger}/{format_instant(row.into)}/0",
        "first": format_instant(row.scheduled),
        "last": format_instant(row.last),
        "count": row.count,
    }


def tenant_answer(book: Book, *, now: int | None = None) -> Answer:
    """A tenant: its settings and where its book stands, at ``now`` (None: the book's own)."""
    state = book.state
    assert state.settings is not None, "the caller looked"
    return {
        "tenant": book.tenant,
        **settings_readable(state.settings),
        **tenant_standing_answer(state, state.now if now is None else now),
        "zone_data": state.zone_version,
        "triggers": sum(1 for trigger in state.triggers.values() if not trigger.deleted),
        "page": state.page,
        "ineffective_pages": state.ineffective_count,
        "now": format_instant(state.now),
        "as_of": state.as_of,
        "closed": state.closed,
    }


def trigger_answer(state: State, trigger: TriggerState, zones: ZoneLibrary, *, now: int) -> Answer:
    """A trigger: its definition, its state and its next instants."""
    # What falls into a suspension is skipped, so the next that can fire is not before its end.
    until = suspended_until(state, trigger)
    after = None if until is None else until - 1
    following = shown_coming(state, trigger, zones, now=now, count=NEXT_SHOWN, after=after)
    return {
        "tenant": state.tenant,
        "trigger": trigger.name,
        "state": state_of(state, trigger),
        "version": trigger.definition_page,
        **definition_readable(trigger.definition),
        "effective_jitter": format_duration(_window(state, trigger.definition)),
        "quarantine": trigger.quarantine,
        "paused_at": next(
            (format_instant(p.start) for p in trigger.pauses if p.end is None and p.cause == "paused"), None
        ),
        "fired": trigger.fired_count,
        "open": len(trigger.open),
        "waiting": len(trigger.waiting),
        **standing_answer(state, trigger, now),
        "next": [preview_answer(one) for one in following.rows],
    }


def trigger_line(state: State, trigger: TriggerState, zones: ZoneLibrary, *, now: int) -> Answer:
    """A trigger in a list."""
    following = shown_coming(state, trigger, zones, now=now, count=1).rows if state.deciding(trigger) else []
    return {
        "tenant": state.tenant,
        "trigger": trigger.name,
        "state": state_of(state, trigger),
        "version": trigger.definition_page,
        "schedule": schedule_text(trigger.definition.schedule),
        "zone": trigger.definition.zone,
        "target": trigger.definition.target,
        "next": format_instant(following[0].scheduled) if following else None,
        "suspended_until": _instant(suspended_until(state, trigger)),
    }


def preview_answer(previewed: Previewed) -> Answer:
    """One coming instant."""
    return {
        "scheduled": format_instant(previewed.scheduled),
        "release": format_instant(previewed.release),
        "local": previewed.local,
    }


def shown_coming(
    state: State, trigger: TriggerState, zones: ZoneLibrary, *, now: int, count: int, after: int | None = None
) -> Coming:
    """As ``coming``; nothing comes of a trigger that cannot be decided: the scheduler puts it into quarantine."""
    try:
        return guarded(trigger.name, coming, state, trigger, zones, now=now, count=count, after=after)
    except UndecidableTrigger:
        return Coming([], 0, None)


def preview_notes(state: State, trigger: TriggerState, found: Coming) -> list[str]:
    """What keeps the coming instants from being fired as they are listed: each a sentence without its full stop."""
    return [*_stop_notes(state, trigger), *_owed_notes(state, trigger, found), *_limit_notes(trigger, found)]


def _stop_notes(state: State, trigger: TriggerState) -> Iterator[str]:
    d = trigger.definition
    if trigger.quarantine is not None:
        yield (
            f"the trigger is in quarantine ({trigger.quarantine}): it fires again once it is amended, "
            "and what is released until then is skipped"
        )
    since = next((pause.start for pause in trigger.pauses if pause.end is None and pause.cause == "paused"), None)
    if since is not None:
        yield (
            f"the trigger is paused since {format_instant(since)}: it fires again once it is resumed, and what is "
            f"released until then is judged by its policy {d.missed} within the horizon {format_duration(d.horizon)}, "
            "or skipped with --on-resume skip"
        )
    until = max((end for end in (state.suspended_until, trigger.suspended_until) if end is not None), default=None)
    if until is not None:
        yield (
            f"the trigger is suspended by a ceiling until {format_instant(until)}, unless that is raised before: "
            "what is released until then is skipped"
        )


def _owed_notes(state: State, trigger: TriggerState, found: Coming) -> Iterator[str]:
    if found.owed_count:
        how = "wait to be decided" if state.deciding(trigger) else "wait for the end of that"
        yield f"not listed are those released already, {found.owed_count} in all, which {how}"


def _limit_notes(trigger: TriggerState, found: Coming) -> Iterator[str]:
    limit = trigger.definition.max_fires
    if limit is not None and found.left is not None:
        yield f"{found.left} left of --max-fires {limit}" if found.left else f"all of --max-fires {limit} are used"


def explanation_answer(explanation: Explanation) -> Answer:
    """An explanation in its outside form."""
    e = explanation
    return {
        "instant": format_instant(e.instant),
        "zone": e.zone,
        "local": e.local,
        "matches": e.matches,
        "summary": e.summary,
        "fields": [
            {"name": check.name, "value": check.value, "allowed": check.allowed, "ok": check.ok} for check in e.fields
        ],
        "day_rule": e.day_rule,
        "clock_change": e.clock_change,
        "excluded": e.excluded,
        "previous": None if e.previous is None else format_instant(e.previous),
        "next": None if e.next is None else format_instant(e.next),
        "lines": list(e.lines()),
    }


def changes(before: list[Previewed], after: list[Previewed], *, count: int) -> list[Answer]:
    """What an amendment does to the coming instants: each stays, vanishes, appears or moves (its release only).

    An instant is known by when it is scheduled; where one list was cut at ``count``, the other counts no further.
    """
    old = {each.scheduled: each for each in before}
    new = {each.scheduled: each for each in after}
    cuts = [max(listed) for listed in (old, new) if len(listed) >= count]
    instants = sorted(at for at in old.keys() | new.keys() if not cuts or at <= min(cuts))
    return [_change(old.get(at), new.get(at)) for at in instants]


def _change(old: Previewed | None, new: Previewed | None) -> Answer:
    shown = new or old
    assert shown is not None, "each instant comes from one of the lists"
    if old is None or new is None:
        what = "appears" if old is None else "vanishes"
        return {"change": what, **preview_answer(shown), "was_release": None}
    moved = old.release != new.release
    return {
        "change": "moves" if moved else "stays",
        **preview_answer(shown),
        "was_release": format_instant(old.release) if moved else None,
    }


def policy_sentence(definition: Definition) -> str:
    """One sentence: what happens to missed instants, when a fire is due while another is open, and on failure."""
    return f"After an outage, {_missed_words(definition)}; {_overlap_words(definition)}; {failure_words(definition)}."


def _missed_words(d: Definition) -> str:
    horizon = format_duration(d.horizon)
    late = f"those older than {horizon} expire unfired"
    match d.missed:
        case "fire-once-now":
            return f"the newest missed instant fires once for all that were missed, and {late}"
        case "fire-all":
            return f"the newest {d.cap} missed instants all fire, oldest first, and {late}"
        case "skip":
            return f"missed instants are skipped and recorded, and {late}"


def _overlap_words(d: Definition) -> str:
    match d.overlap:
        case "skip":
            return "an instant due while an earlier fire is still open is skipped and recorded"
        case "queue":
            return "an instant due while an earlier fire is still open waits for it, and a later one takes its place"
        case "allow":
            return "an instant due while an earlier fire is still open fires beside it"


def _window(state: State, definition: Definition) -> int:
    if definition.jitter is not None:
        return definition.jitter
    return 0 if state.settings is None else state.settings.default_jitter


def _instant(value: int | None) -> str | None:
    return None if value is None else format_instant(value)
