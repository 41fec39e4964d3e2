"""``control.status``: what control knows of itself, of the books and of the other runners."""

import asyncio
from itertools import islice

from fireledger.domain.instants import SECOND, format_duration, format_instant
from fireledger.domain.limits import LEASE_EXPIRY

from ..clock import Clock, ClockHeld, Reading
from ..errors import OperationalError
from ..jetstream.buckets import Bucket
from ..jetstream.ledger import Ledger
from ..json_edge import Jsonable
from ..lease_plan import Heartbeat, read_lease
from .answers import Answer
from .model import Model

KINDS = ("scheduler", "dispatcher")
"""Runners without which nothing fires."""
SHOWN_MAX = 100
"""Quarantined triggers and runners that are listed one by one."""
BEHIND_MAX_S = 2.0
"""Control counts as ready while it reads the end of the log within this time."""


class Status:
    """Collects the status."""

    def __init__(self, *, ledger: Ledger, leases: Bucket, clock: Clock, model: Model, runner_id: str) -> None:
        self._ledger = ledger
        self._leases = leases
        self._clock = clock
        self._model = model
        self._runner_id = runner_id

    async def collect(self) -> Answer:
        """Everything, with ``ready`` and the ``problems`` that keep it from being so."""
        problems: list[str] = []
        reading, clock = self._clock_status(problems)
        (log, runners) = await asyncio.gather(self._log_status(problems), self._runner_status(reading, problems))
        books = self._book_status(reading, problems)
        return {
            "ready": not problems,
            "problems": list(problems),
            "control": {"runner": self._runner_id, **log},
            "clock": clock,
            **books,
            "runners": runners,
        }

    def _clock_status(self, problems: list[str]) -> tuple[Reading | None, Answer]:
        try:
            reading = self._clock.now()
        except ClockHeld as error:
            problems.append(error.message)
            return None, {"source": "held", "epsilon": None, "usable": False}
        if not reading.usable:
            problems.append(f'control\'s clock is uncertain by "{format_duration(reading.epsilon)}"')
        epsilon = format_duration(reading.epsilon)
        return reading, {"source": reading.source, "epsilon": epsilon, "usable": reading.usable}

    async def _log_status(self, problems: list[str]) -> Answer:
        try:
            last = await self._ledger.last_sequence()
        except OperationalError as error:
            problems.append(error.message)
            return {"position": self._model.position, "last": None}
        if not await self._model.wait_until(lambda: self._model.position >= last, BEHIND_MAX_S):
            problems.append(f"control has read up to {self._model.position} of {last} in the ledger")
        return {"position": self._model.position, "last": last}

    async def _runner_status(self, reading: Reading | None, problems: list[str]) -> list[Jsonable]:
        shown: list[Jsonable] = []
        for kind in KINDS:
            try:
                entries = await self._leases.entries(f"{kind}.runner.")
                beats = [read_lease(entry.key, entry.value, Heartbeat) for entry in entries]
            except OperationalError as error:
                problems.append(error.message)
                continue
            alive = [beat for beat in beats if reading is None or beat.expires_at >= reading.earliest]
            if not any(beat.active for beat in alive):
                reasons = ", ".join(sorted({beat.reason for beat in alive if beat.reason}))
                problems.append(f"no {kind} is active" + (f" ({reasons})" if reasons else ""))
            stale = sorted(beats, key=lambda beat: beat.runner)[:SHOWN_MAX]
            shown.extend(_runner(kind, beat, fresh=beat in alive) for beat in stale)
        return shown

    def _book_status(self, reading: Reading | None, problems: list[str]) -> Answer:
        books = self._model.books.values()
        existing = [book for book in books if book.state.settings is not None]
        ahead = [book.tenant for book in existing if reading is not None and book.state.now > reading.latest]
        if ahead:
            problems.append(
                f'the clock is behind the book of "{ahead[0]}": nothing is decided there until it catches up'
            )
        quarantined = (
            (book.tenant, trigger)
            for book in existing
            for trigger in book.state.triggers.values()
            if trigger.quarantine is not None and not trigger.deleted
        )
        return {
            "tenants": len(existing),
            "triggers": sum(1 for book in existing for each in book.state.triggers.values() if not each.deleted),
            "ineffective_pages": sum(book.state.ineffective_count for book in books),
            "books_ahead": list(ahead[:SHOWN_MAX]),
            "quarantined": [
                {"trigger": f"{tenant}/{trigger.name}", "cause": trigger.quarantine}
                for tenant, trigger in islice(quarantined, SHOWN_MAX)
            ],
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
