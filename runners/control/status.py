"""``control.status``: what control knows of itself, of the books and of the other runners."""

import asyncio

from fireledger.domain.instants import SECOND, format_duration, format_instant
from fireledger.domain.limits import LEASE_EXPIRY

from ..clock import Clock, ClockHeld, Reading
from ..errors import OperationalError
from ..jetstream.buckets import Bucket
from ..jetstream.ledger import Ledger
from ..json_edge import Jsonable
from ..lease_plan import Heartbeat, read_lease
from ..runner_state import read_state
from .answers import Answer
from .lane_health import note_lane_health
from .model import Model
from .problems import LATE_PAGE_SHOWN, Problems, note_full, note_late_pages, note_quarantined, note_states
from .refusals import code_of
from .standstill import full_triggers, held_fires, suspended_triggers, worst_first

KINDS = ("scheduler", "dispatcher")
"""Runners without which nothing fires."""
SHOWN_MAX = 100
"""Quarantined triggers and runners that are listed one by one."""
BEHIND_MAX_S = 2.0
"""Control counts as ready while it reads the end of the log within this time."""
_CLOCK_HINT = "let the machine's time daemon synchronise, or declare a bound with --clock-bound"


class Status:
    """Collects the status."""

    def __init__(self, *, ledger: Ledger, leases: Bucket, clock: Clock, model: Model, runner_id: str) -> None:
        self._ledger = ledger
        self._leases = leases
        self._clock = clock
        self._model = model
        self._runner_id = runner_id

    async def collect(self) -> Answer:
        """Everything: ``ready`` when all runners do their part, and every problem with a hint.

        A problem that a person has to look at, such as a trigger in quarantine, leaves the service ready.
        """
        found = Problems()
        reading, clock = self._clock_status(found)
        (log, runners) = await asyncio.gather(self._log_status(found), self._runner_status(reading, found))
        books = self._book_status(reading, found)
        note_lane_health(self._model, self._clock, found)
        return {
            "ready": found.ready,
            "problems": [problem.message for problem in found.listed],
            "details": [
                {"code": problem.code, "problem": problem.message, "hint": problem.hint} for problem in found.listed
            ],
            "control": {"runner": self._runner_id, **log},
            "clock": clock,
            **books,
            "runners": runners,
        }

    def _clock_status(self, found: Problems) -> tuple[Reading | None, Answer]:
        try:
            reading = self._clock.now()
        except ClockHeld as error:
            found.hinder("clock-held", error.message, error.hint or _CLOCK_HINT)
            return None, {"source": "held", "epsilon": None, "usable": False}
        epsilon = format_duration(reading.epsilon)
        if not reading.usable:
            found.hinder("clock-uncertain", f'control\'s clock is uncertain by "{epsilon}"', _CLOCK_HINT)
        return reading, {"source": reading.source, "epsilon": epsilon, "usable": reading.usable}

    async def _log_status(self, found: Problems) -> Answer:
        try:
            last = await self._ledger.last_sequence()
        except OperationalError as error:
            found.hinder(code_of(error), error.message, error.hint)
            return {"position": self._model.position, "last": None}
        if not await self._model.wait_until(lambda: self._model.position >= last, BEHIND_MAX_S):
            found.hinder(
                "control-behind",
                f"control has read up to {self._model.position} of {last} in the ledger",
                "ask again in a moment; if the number stands still, see control's log",
            )
        return {"position": self._model.position, "last": last}

    async def _runner_status(self, reading: Reading | None, found: Problems) -> list[Jsonable]:
        shown: list[Jsonable] = []
        for kind in KINDS:
            try:
                entries = await self._leases.entries(f"{kind}.runner.")
                beats = [read_lease(entry.key, entry.value, Heartbeat) for entry in entries]
                states = [read_state(entry.key, entry.value) for entry in await self._leases.entries(f"{kind}.state.")]
            except OperationalError as error:
                found.hinder(code_of(error), error.message, error.hint)
                continue
            alive = [beat for beat in beats if reading is None or beat.expires_at >= reading.earliest]
            if not any(beat.active for beat in alive):
                reasons = ", ".join(sorted({beat.reason for beat in alive if beat.reason}))
                found.hinder(
                    "runner-missing",
                    f"no {kind} is active" + (f" ({reasons})" if reasons else ""),
                    "its log says why it is not active"
                    if reasons
                    else f"start one: fireledger run {kind}, or all: fireledger up",
                )
            names = {beat.runner for beat in alive}
            note_states([state for state in states if state.runner in names], found)
            figures = {state.runner: state.figures for state in states}
            listed = sorted(beats, key=lambda beat: beat.runner)[:SHOWN_MAX]
            shown.extend(
                {**_runner(kind, beat, fresh=beat in alive), "figures": {**figures.get(beat.runner, {})}}
                for beat in listed
            )
        return shown

    def _book_status(self, reading: Reading | None, found: Problems) -> Answer:
        books = self._model.books.values()
        existing = [book for book in books if book.state.settings is not None]
        ahead = [book.tenant for book in existing if reading is not None and book.state.now > reading.latest]
        if ahead:
            found.hinder(
                "clock-behind-book",
                f'the clock is behind the book of "{ahead[0]}": nothing is decided there until it catches up',
                "compare this machine's clock with a right one; once a clock was ahead, waiting is all that helps",
            )
        quarantined = [
            (f"{book.tenant}/{trigger.name}", trigger.quarantine)
            for book in existing
            for trigger in book.state.triggers.values()
            if trigger.quarantine is not None and not trigger.deleted
        ]
        note_quarantined(quarantined, found)
        if reading is not None:
            recent = [late for late in self._model.late_pages if late.stamped_at >= reading.earliest - LATE_PAGE_SHOWN]
            note_late_pages(recent, found)
        note_full(full_triggers(existing), found)
        return {
            "tenants": len(existing),
            "triggers": sum(1 for book in existing for each in book.state.triggers.values() if not each.deleted),
            "open_fires": sum(len(each.open) for book in existing for each in book.state.triggers.values()),
            "waiting_fires": sum(len(each.waiting) for book in existing for each in book.state.triggers.values()),
            "ineffective_pages": sum(book.state.ineffective_count for book in books),
            "books_ahead": list(ahead[:SHOWN_MAX]),
            "held_fires": worst_first(held_fires(existing), SHOWN_MAX),
            "suspended_triggers": worst_first(suspended_triggers(existing), SHOWN_MAX),
            "quarantined": [{"trigger": name, "cause": cause} for name, cause in quarantined[:SHOWN_MAX]],
            "fire_rows": len(self._model.rows),
        }


def _runner(kind: str, beat: Heartbeat, *, fresh: bool) -> Answer:
    return {
        "kind": kind,
        "runner": beat.runner,
        "fresh": fresh,
        "active": beat.active and fresh,
        "reason": beat.reason or None,
        "epsilon": format_duration(beat.epsilon),
        "heartbeat": format_instant(max(0, beat.expires_at - LEASE_EXPIRY) // SECOND * SECOND),
        "partition_count": beat.partition_count,
    }
