"""The requests about backfills: what one would fire, starting and cancelling it, how far it has come, and the grant."""

import asyncio
from dataclasses import dataclass
from itertools import islice

from msgspec import UNSET

from fireledger.domain import commands as c
from fireledger.domain.backfill import backfill_count
from fireledger.domain.entries import BackfillEnded, BackfillStarted, FireWithdrawn
from fireledger.domain.identifiers import check_tenant, check_trigger
from fireledger.domain.instants import SECOND, format_duration, format_instant
from fireledger.domain.owed import Timeline
from fireledger.domain.rejections import RejectionCode
from fireledger.domain.state import Grant, State, TriggerState
from fireledger.projections.backfills import BackfillRow

from ..errors import ControlRefused, ExitStatus
from ..json_edge import Json, Jsonable
from ..known_zones import KnownZones
from . import policy_requests as p
from . import requests as r
from .answers import Answer
from .backfill_plan import BackfillPlan, BackfillRange, fired_instants, least_seconds, tenant_rate
from .command_handlers import DELETED_SINCE, about, carry_out, done_before, live_trigger
from .commands import CommandWriter, Done
from .model import Model
from .policy_answers import state_of
from .policy_options import check_count, check_fires, check_name, check_rate, read_range
from .read_handlers import ROWS_MAX, within_bytes
from .refusals import missing, refused

BACKFILL_CHANGED = "backfill-changed"
"""What a backfill would fire changed while it was asked for."""
_START = "control.backfill.start"
OUTCOMES = ("succeeded", "failed", "unknown")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A range of a trigger, and the trigger as it was when its plan was made."""

    state: State
    trigger: TriggerState
    plan: BackfillPlan
    range: BackfillRange


class BackfillHandlers:
    """One method for each subject. Each raises ControlRefused and other OperationalErrors."""

    def __init__(self, *, writer: CommandWriter, model: Model, zones: KnownZones) -> None:
        self._writer = writer
        self._model = model
        self._zones = zones

    async def preview(self, content: dict[str, Json]) -> Answer:
        """How many fires a backfill would make, and the first of them one by one. Nothing is written."""
        request = r.read_request(content, p.BackfillPreview)
        check_count(request.count)
        asked = await self._asked(request)
        limit = min(request.count, ROWS_MAX)
        planned = list(islice(asked.plan.instants(request.after), limit))
        rows, cut = within_bytes(
            {"scheduled": format_instant(each.scheduled), "sequence": each.sequence, "local": each.local}
            for each in planned
        )
        more = cut or (len(rows) == limit < request.count)
        last = planned[len(rows) - 1] if rows else None
        return {
            **self._planned(asked),
            "rows": rows,
            "next": [last.scheduled, last.sequence] if more and last is not None else None,
        }

    async def start(self, content: dict[str, Json]) -> Answer:
        """Start a backfill."""
        request = r.read_request(content, p.BackfillStart)
        check_name("--by", request.by)
        rate = None if request.rate is UNSET else check_rate(request.rate)
        label = None if request.label is UNSET else check_name("--label", request.label)
        done = await done_before(self._writer, _START, request, content)
        if done is not None:
            return self._started(request, done)
        asked = await self._asked(request)
        bounds, plan = asked.range, asked.plan

        def build(state: State, _now: int) -> c.Command:
            """The command, unless what it would fire is another by now."""
            trigger = live_trigger(state, request.tenant, request.trigger)
            if trigger.backfill is None and _plan_marks(trigger) != _plan_marks(asked.trigger):
                raise _changed(request)
            return c.StartBackfill(
                trigger=request.trigger,
                backfill=label or f"{format_instant(bounds.start)}/{format_instant(bounds.end)}",
                start=bounds.start,
                end=bounds.end,
                only_missing=bounds.only_missing,
                rate_per_second=rate or tenant_rate(state),
                by=request.by,
                fired=plan.fired,
            )

        done = await carry_out(self._writer, _START, request, content, build)
        return {**self._planned(asked), **self._started(request, done)}

    def _started(self, request: p.BackfillStart, done: Done) -> Answer:
        """What was started, by its own entry; how fast is known while it goes on, how much unless it is cut short."""
        started, state = done.entry(BackfillStarted), done.book.state
        answer: Answer = {
            "tenant": request.tenant,
            "trigger": request.trigger,
            "start": format_instant(started.start),
            "end": format_instant(started.end),
            "only_missing": started.only_missing,
            "label": started.backfill,
            "rate_per_second": started.rate_per_second,
            **about(done),
        }
        trigger = self._writer.same_trigger(done, request.trigger)
        row = self._model.backfills.get(request.tenant, request.trigger)
        if trigger is None:
            return {**answer, "sentence": DELETED_SINCE}
        if row is None or row.page != done.page:
            return {**answer, "sentence": "It has ended, and the trigger had another backfill since."}
        if row.ended is not None:
            # Of a cancelled one nobody counted what was not decided.
            known: Answer = {"count": row.released + row.cancelled} if row.cause == "complete" else {}
            return {**answer, **known, "sentence": f"It has ended: {row.cause}. Fires released: {row.released}."}
        pace = min(row.rate_per_second, tenant_rate(state))
        count = row.released + row.cancelled + self._left(state, trigger)
        least = format_duration(least_seconds(count, pace) * SECOND)
        return {
            **answer,
            "count": count,
            "pace_per_second": pace,
            "takes_at_least": least,
            "sentence": _start_sentence(state, trigger, count, pace, least),
        }

    async def cancel(self, content: dict[str, Json]) -> Answer:
        """End a backfill: what is not released is cancelled."""
        request = r.read_request(content, p.BackfillCancel)
        check_trigger(request.trigger)
        check_name("--by", request.by)

        def build(state: State, _now: int) -> c.Command:
            """The command as the book stands now."""
            live_trigger(state, request.tenant, request.trigger)
            return c.CancelBackfill(trigger=request.trigger, by=request.by)

        done = await carry_out(self._writer, "control.backfill.cancel", request, content, build)
        ended = done.entry(BackfillEnded)
        return {
            "tenant": request.tenant,
            "trigger": request.trigger,
            "label": ended.backfill,
            "released": ended.fired_count,
            "cancelled": sum(isinstance(entry, FireWithdrawn) for entry in done.entries),
            "sentence": "Nothing more of it is released; what was released goes on to its outcome.",
            **about(done),
        }

    async def status(self, content: dict[str, Json]) -> Answer:
        """How far the trigger's last backfill has come."""
        request = r.read_request(content, p.BackfillStatus)
        book = await self._writer.catch_up(check_tenant(request.tenant))
        trigger = live_trigger(book.state, request.tenant, request.trigger)
        row = self._model.backfills.get(request.tenant, request.trigger)
        if row is None:
            name = f"{request.tenant}/{request.trigger}"
            raise missing(
                RejectionCode.BACKFILL_MISSING,
                f'trigger "{name}" never had a backfill',
                hint=f"see what one would fire: fireledger backfill preview {name} --from INSTANT --to INSTANT",
            )
        return self._status(book.state, trigger, row, self._writer.now_for(book))

    async def grant(self, content: dict[str, Json]) -> Answer:
        """Say how many fires one backfill may have, or withdraw that."""
        request = r.read_request(content, p.BackfillGrant)
        check_name("--holder", request.holder)
        check_fires(request.fires)

        def build(state: State, _now: int) -> c.Command:
            """The command as the book stands now."""
            if request.trigger is not None:
                live_trigger(state, request.tenant, request.trigger)
            value = request.fires or None
            return c.ChangeGrant(grant="backfill", trigger=request.trigger, value=value, holder=request.holder)

        done = await carry_out(self._writer, "control.backfill.grant", request, content, build)
        return {
            "tenant": request.tenant,
            "trigger": request.trigger,
            "fires": request.fires or None,
            **_grant_now(done.book.state, request.trigger),
            "holder": request.holder,
            **about(done),
        }

    # Planning

    async def _asked(self, request: p.BackfillPreview | p.BackfillStart) -> _Asked:
        check_tenant(request.tenant)
        check_trigger(request.trigger)
        start, end = read_range(request.start, request.end)
        book = await self._writer.catch_up(request.tenant)
        trigger = live_trigger(book.state, request.tenant, request.trigger)
        now = self._writer.now_for(book)
        if end > now:
            raise refused(
                f"--to {request.end} lies in the future",
                hint=f"give {format_instant(now - now % SECOND)} or earlier; what comes later fires by itself",
            )
        bounds = BackfillRange(start, end, request.only_missing)
        fired: list[int] = []
        if bounds.only_missing:
            fired = fired_instants(self._model.rows, request.tenant, request.trigger, bounds)
        # States are frozen, and whoever else asks control does not wait for this.
        plan = await asyncio.to_thread(BackfillPlan, book.state, trigger, bounds, fired, self._zones.library)
        return _Asked(book.state, trigger, plan, bounds)

    def _planned(self, asked: _Asked) -> Answer:
        return {
            "tenant": asked.state.tenant,
            "trigger": asked.trigger.name,
            "start": format_instant(asked.range.start),
            "end": format_instant(asked.range.end),
            "only_missing": asked.range.only_missing,
            "count": asked.plan.count,
            "undecided": asked.plan.undecided,
            "granted": _granted(asked.state, asked.trigger.name),
        }

    # Status

    def _status(self, state: State, trigger: TriggerState, row: BackfillRow, now: int) -> Answer:
        left = 0 if row.ended is not None else self._left(state, trigger)
        rate = row.released * SECOND / max(now - row.began, SECOND)
        ends = now + round(left / rate * SECOND) if left and row.released else None
        return {
            "tenant": state.tenant,
            "trigger": trigger.name,
            "label": row.label,
            "state": "running" if row.ended is None else row.cause,
            "trigger_state": state_of(state, trigger),
            "start": format_instant(row.start),
            "end": format_instant(row.end),
            "only_missing": row.only_missing,
            "by": row.by,
            "began": format_instant(row.began),
            "ended": None if row.ended is None else format_instant(row.ended),
            "decided": row.decided,
            "released": row.released,
            "open": max(0, row.released - sum(row.outcomes.values())),
            **{outcome: row.outcomes.get(outcome, 0) for outcome in OUTCOMES},
            "cancelled": row.cancelled,
            "left": left,
            "rate_per_second": row.rate_per_second,
            "pace_per_second": min(row.rate_per_second, tenant_rate(state)),
            "released_per_s": None if row.ended is not None else rate,
            "ends": None if ends is None else format_instant(ends - ends % SECOND),
        }

    def _left(self, state: State, trigger: TriggerState) -> int:
        """Fires that are not released yet, decided or not."""
        backfill = trigger.backfill
        if backfill is None:
            return 0
        waiting = sum(fire.lane == "backfill" for fire in trigger.waiting)
        timeline = Timeline(state, trigger, backfill.segment, self._zones.library)
        until = backfill.segment.until
        assert until is not None, "a backfill's range has an end"
        return waiting + backfill_count(timeline, backfill.fired, until + 1)


def _granted(state: State, trigger: str) -> int | None:
    """How many fires one backfill of the trigger may have: by its own grant, else by the tenant's."""
    found = state.granted("backfill", trigger)
    return None if found is None else found.value


def _grant_now(state: State, trigger: str | None) -> Answer:
    """What is granted now, and to whom: to the ``trigger``, or to the ``tenant`` and with that to it too."""
    given: Grant | None = max(
        (each for each in state.grants if each.grant == "backfill" and each.trigger in (trigger, None)),
        key=lambda each: each.trigger is not None,
        default=None,
    )
    if given is None:
        return {"granted": None, "granted_to": None}
    return {"granted": given.value, "granted_to": "tenant" if given.trigger is None else "trigger"}


def _plan_marks(trigger: TriggerState) -> Jsonable:
    """What changes when a plan of the trigger's instants may have become another."""
    return [trigger.definition_page, trigger.next_run_number]


def _changed(request: p.BackfillStart) -> ControlRefused:
    return ControlRefused(
        BACKFILL_CHANGED,
        f'trigger "{request.tenant}/{request.trigger}" was changed, or fired beside its schedule, just now',
        hint="look at the preview again, then give the command again",
        exit_status=ExitStatus.CONFLICT,
    )


def _start_sentence(state: State, trigger: TriggerState, count: int, pace: int, least: str) -> str:
    one_by_one = "" if trigger.definition.overlap == "allow" else ", each once no other fire of the trigger is open"
    standing = state_of(state, trigger)
    stopped = "" if standing in ("active", "backfilling") else f" It begins once the trigger is no longer {standing}."
    return f"{count} fires are released at {pace} a second at most{one_by_one}: that takes {least} at least.{stopped}"
