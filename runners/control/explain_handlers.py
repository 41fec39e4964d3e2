"""The requests that ask why: an instant explained, and what each missed-fire policy makes of an outage."""

import asyncio
from collections.abc import Iterable
from typing import TypeVar

from fireledger.domain.identifiers import FireKey, check_tenant
from fireledger.domain.instants import Instant, format_instant, parse_instant
from fireledger.domain.owed import Timeline
from fireledger.domain.recurrence.explain import Explanation, explain
from fireledger.domain.state import State, TriggerState
from fireledger.domain.what_if import PolicyOutcome, outage_outcomes
from fireledger.domain.zones import ZoneDatabase
from fireledger.projections.book_text import schedule_text
from fireledger.projections.fires import FireQuery, FireRow, FireRows

from ..errors import ControlRefused, ExitStatus
from ..json_edge import Json
from ..known_zones import KnownZones
from . import requests as r
from .answers import Answer, explanation_answer, fire_answer
from .command_handlers import live_trigger
from .commands import CommandWriter
from .model import Model
from .policy_answers import state_of
from .refusals import refused

OUTAGE_MISSING = "outage-missing"
"""No outage of the trigger is among the fires that control keeps."""
ROWS_LOOKED_MAX = 10_000
"""Rows of a trigger, the newest first, among which its last outage is looked for."""
SHOWN_MAX = 25
"""Instants and stretches that an answer lists for each policy; the rest is counted."""
_SIMULATIONS_AT_ONCE_MAX = 2
"""Each decides up to a day of instants three times over, in a thread of its own."""

_Shown = TypeVar("_Shown")


class ExplainHandlers:
    """One method for each subject. Each raises ControlRefused and other OperationalErrors."""

    def __init__(self, *, writer: CommandWriter, model: Model, zones: KnownZones) -> None:
        self._writer = writer
        self._model = model
        self._zones = zones
        self._simulations = asyncio.Semaphore(_SIMULATIONS_AT_ONCE_MAX)

    async def why(self, content: dict[str, Json]) -> Answer:
        """Why a trigger is due at an instant, or is not, and what the book decided about it."""
        request = r.read_request(content, r.TriggerWhy)
        instant = parse_instant(request.instant)
        book = await self._writer.catch_up(check_tenant(request.tenant))
        trigger = live_trigger(book.state, request.tenant, request.trigger)
        explanation = self._explain(trigger, self._zones.database(book.state.zone_sha256), instant)
        row = self._model.rows.get(FireKey(request.tenant, trigger.name, instant), self._zones.library)
        return {
            "tenant": request.tenant,
            "trigger": trigger.name,
            "state": state_of(book.state, trigger),
            "version": trigger.definition_page,
            "schedule": schedule_text(trigger.definition.schedule),
            **explanation_answer(explanation),
            "limits": [*_limits(trigger, instant), *self._pauses(book.state, trigger, explanation)],
            "decided": None if row is None else fire_answer(row),
        }

    async def simulate_policy(self, content: dict[str, Json]) -> Answer:
        """What each missed-fire policy makes of an outage: the one given, or the last one recorded."""
        request = r.read_request(content, r.PolicySimulation)
        book = await self._writer.catch_up(check_tenant(request.tenant))
        trigger = live_trigger(book.state, request.tenant, request.trigger)
        start, end = _given_outage(request) or last_outage(self._model.rows, request.tenant, trigger.name)
        async with self._simulations:
            # State is frozen, and whoever else asks control does not wait for this.
            library = self._zones.library
            outcomes = await asyncio.to_thread(outage_outcomes, book.state, trigger, library, start=start, end=end)
        return {
            "tenant": request.tenant,
            "trigger": trigger.name,
            "policy": trigger.definition.missed,
            "start": format_instant(start),
            "end": format_instant(end),
            "recorded": request.start is None,
            "policies": [_outcome_answer(outcome) for outcome in outcomes],
        }

    def _explain(self, trigger: TriggerState, database: ZoneDatabase, instant: Instant) -> Explanation:
        d = trigger.definition
        return explain(d.schedule, database.zone(d.zone), d.gap, d.fold, instant, excluded=d.excluded)

    def _pauses(self, state: State, trigger: TriggerState, explanation: Explanation) -> Iterable[str]:
        """The pauses that the instant's release lies in, as far as the book still needs them."""
        pauses = state.pauses_of(trigger)
        if not explanation.matches or not pauses:
            return
        timeline = Timeline(state, trigger, trigger.segments[-1], self._zones.library)
        release = timeline.release(explanation.instant)
        for pause in pauses:
            if pause.start < release and (pause.end is None or release <= pause.end):
                end = "goes on" if pause.end is None else f"ended at {format_instant(pause.end)}"
                yield f"it lies in a pause ({pause.cause}) that began at {format_instant(pause.start)} and {end}"


def last_outage(rows: FireRows, tenant: str, trigger: str) -> tuple[int, int]:
    """The newest outage of the trigger: from just before the first instant its page found missed to that page.

    Raises ControlRefused when none is known.
    """
    newest = rows.newest(FireQuery(tenant=tenant, trigger=trigger, limit=ROWS_LOOKED_MAX))
    found = [row for row in newest if _of_an_outage(row)]
    if not found:
        raise ControlRefused(
            OUTAGE_MISSING,
            f'no outage of trigger "{tenant}/{trigger}" is recorded',
            hint="name one: --outage 2026-11-30T02:00:00Z..2026-11-30T04:00:00Z",
            exit_status=ExitStatus.NOT_FOUND,
        )
    page = max(row.decided for row in found)
    return min(row.scheduled for row in found if row.decided == page) - 1, page


def _of_an_outage(row: FireRow) -> bool:
    """Whether the row says that its instant was decided too late to be on time."""
    return (
        row.state in ("expired", "dropped", "coalesced")
        or (row.state, row.cause) == ("skipped", "missed")
        or row.lane == "catch-up"
    )


def _given_outage(request: r.PolicySimulation) -> tuple[int, int] | None:
    if request.start is None and request.end is None:
        return None
    if request.start is None or request.end is None:
        raise r.malformed("start and end go together")
    start, end = parse_instant(request.start), parse_instant(request.end)
    if start >= end:
        raise refused("--outage ends before it begins", hint="write it as FROM..TO, the earlier instant first")
    return start, end


def _outcome_answer(outcome: PolicyOutcome) -> Answer:
    fired, unfired = sorted(outcome.fired), outcome.unfired
    return {
        "policy": outcome.policy,
        "fired_count": len(fired),
        "fired": [format_instant(instant) for instant in _newest(fired)],
        "unfired_count": sum(run.count for run in unfired),
        "unfired": [
            {
                "state": run.state,
                "cause": run.cause,
                "first": format_instant(run.first),
                "last": format_instant(run.last),
                "count": run.count,
            }
            for run in _newest(unfired)
        ],
    }


def _newest(items: "list[_Shown] | tuple[_Shown, ...]") -> "list[_Shown]":
    return list(items[-SHOWN_MAX:])


def _limits(trigger: TriggerState, instant: int) -> Iterable[str]:
    """What besides the schedule keeps the instant from being due."""
    d, begun = trigger.definition, trigger.segments[-1].after
    if instant <= begun:
        yield f"the present definition holds for instants after {format_instant(begun)}"
    if d.not_before is not None and instant < d.not_before:
        yield f"it lies before --not-before {format_instant(d.not_before)}"
    if d.not_after is not None and instant > d.not_after:
        yield f"it lies after --not-after {format_instant(d.not_after)}"
    if d.max_fires is not None and trigger.fired_count >= d.max_fires:
        yield f"all of --max-fires {d.max_fires} have fired"
