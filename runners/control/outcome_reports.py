"""Outcomes that executors report: checked against token and log, appended to ``reports.<slot>``, answered after that.

What was recorded is known from the log alone, so that a repetition is told from news after any restart, and with
several controls side by side.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from fireledger.domain.entries import AttemptRecord, AttemptReported
from fireledger.domain.identifiers import FireKey, slot_of
from fireledger.domain.state import OpenFire
from fireledger.domain.zones import UnknownZoneData
from fireledger.projections.ledger_fold import FoldedAttempts

from ..attempt_tokens import AttemptTokens
from ..clock import Clock
from ..errors import BrokerUnavailable, ControlRefused
from ..jetstream.ledger import Ledger
from ..known_zones import KnownZones
from ..logs import get_log
from ..slot_log import SlotLog
from .commands import CATCH_UP_WITHIN_S
from .model import Model
from .outcome_requests import (
    ATTEMPT_MAX,
    key_missing,
    not_released,
    other_tenant,
    read_report,
    token_refused,
    too_many_reports,
)
from .refusals import FIRE_MISSING, missing

REPORTS = "reports"
"""The first token of the subjects."""
RECORDED_WITHIN_S = 10.0
"""How long a report waits for its record to be read back; below a client's patience."""
REPORTS_PER_ATTEMPT_MAX = 10
"""Different reports of one attempt that are recorded."""
REFUSED_TOLD_EVERY_S = 10.0
"""How often the log tells of refused tokens."""
ATTEMPTS_REMEMBERED_MAX = 100_000
"""Attempts whose reports are remembered, about 0.6 KB each. A repetition of an older report is recorded once more."""

_log = get_log("outcomes")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A report is in the log. ``repeated``: it was there already; ``late``: it changes nothing decided.

    The latter because its fire had ended, its outcome window was over, a later attempt had been released, or it asks
    for a person who has let the fire go on.
    """

    repeated: bool
    late: bool


@dataclass(slots=True, eq=False)
class _Report:
    """A report on its way into the log; ``known`` is done when it is there, by whomever."""

    record: AttemptReported
    known: asyncio.Future[None]
    rank: int = 0


class ReportMemory:
    """Which reports the log holds, by attempt; of each whether it came late."""

    def __init__(self, *, attempts_max: int = ATTEMPTS_REMEMBERED_MAX) -> None:
        self._attempts_max = attempts_max
        # In the order of the last report, oldest first.
        self._reports: dict[tuple[FireKey, int], dict[bytes, bool]] = {}

    def note(self, record: AttemptReported, *, late: bool) -> None:
        """The log holds it."""
        name = (record.fire, record.attempt)
        reports = self._reports.pop(name, {})
        reports.setdefault(_digest(record), late)
        self._reports[name] = reports
        while len(self._reports) > self._attempts_max:
            del self._reports[next(iter(self._reports))]

    def late(self, record: AttemptReported) -> bool | None:
        """Whether the same report came late; None when the log does not hold it."""
        return self._reports.get((record.fire, record.attempt), {}).get(_digest(record))

    def full(self, record: AttemptReported, *, on_the_way: int = 0) -> bool:
        """Whether no other report of the attempt is to be recorded; "held" leaves a place for the one that ends it.

        ``on_the_way`` of the attempt's reports are to be recorded already.
        """
        limit = REPORTS_PER_ATTEMPT_MAX - (record.result == "held")
        return len(self._reports.get((record.fire, record.attempt), {})) + on_the_way >= limit


class OutcomeReports:
    """Checks and records reports. One event loop; ``run`` must be running."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        model: Model,
        zones: KnownZones,
        clock: Clock,
        runner_id: str,
        tokens: AttemptTokens | None,
    ) -> None:
        """``tokens`` of None: every report is refused."""
        self._ledger = ledger
        self._model = model
        self._zones = zones
        self._tokens = tokens
        self._clock = clock
        self._refused_count = 0
        self._refused_told_at = -REFUSED_TOLD_EVERY_S
        self._memory = ReportMemory()
        self._waiting: dict[bytes, _Report] = {}
        self._on_the_way: Counter[tuple[FireKey, int]] = Counter()
        self._pages: SlotLog[_Report] = SlotLog(
            REPORTS, desk=self, ledger=ledger, head=model.attempts_head, runner_id=runner_id, clock=clock
        )
        model.on_attempts(self._heard)

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Write pages until cancelled; appends run in ``group``, and end it when the log cannot be trusted."""
        await self._pages.run(group)

    def abandon(self) -> None:
        """Stop sending."""
        self._pages.abandon()

    async def take(self, body: bytes, *, tenant: str | None = None) -> Recorded:
        """Record a report, and return once it is in the log.

        ``tenant`` is the one whose executors' user sent it, where that is known. Raises ControlRefused, and
        BrokerUnavailable when it is not known yet whether it is recorded: the same report may be sent again.
        """
        if self._tokens is None:
            raise key_missing()
        report, key = read_report(body)
        if tenant is not None and key.tenant != tenant:
            raise other_tenant(tenant)
        if not self._tokens.matches(report.token, key, report.attempt):
            self._note_refused(key.tenant)
            raise token_refused()
        await self._check_released(key, report.attempt)
        record = report.record(key)
        late = self._memory.late(record)
        if late is not None:
            return Recorded(repeated=True, late=late)
        on_the_way = self._on_the_way[record.fire, record.attempt]
        if _digest(record) not in self._waiting and self._memory.full(record, on_the_way=on_the_way):
            raise too_many_reports(key, report.attempt)
        await self._record(record)
        return Recorded(repeated=False, late=bool(self._memory.late(record)))

    # Checking

    def _note_refused(self, tenant: str) -> None:
        """Whoever guesses tokens does not fill the log: one line now and then, with how many there were."""
        self._refused_count += 1
        now = self._clock.monotonic()
        if now - self._refused_told_at >= REFUSED_TOLD_EVERY_S:
            _log.info("report-tokens-refused", newest=tenant, count=self._refused_count)
            self._refused_count, self._refused_told_at = 0, now

    async def _check_released(self, key: FireKey, attempt: int) -> None:
        """Raise ControlRefused unless the attempt was released, as the log's leader shows it."""
        if self._refusal(key, attempt) is None:
            return
        # The executor may be quicker than this control's reading of the log.
        last = await self._ledger.last_sequence()
        if not await self._model.wait_until(lambda: self._model.position >= last, CATCH_UP_WITHIN_S):
            raise BrokerUnavailable(
                f"control has not read the log up to its end within {CATCH_UP_WITHIN_S:g} s",
                hint="send the same report again",
            )
        refusal = self._refusal(key, attempt)
        if refusal is not None:
            raise refusal

    def _refusal(self, key: FireKey, attempt: int) -> ControlRefused | None:
        fire = self._open_fire(key)
        released = self._attempts_of_ended(key) if fire is None else fire.attempt
        if released is None:
            return missing(
                FIRE_MISSING, f'fire "{key}" is not known', hint="ask the control of the log that the fire is in"
            )
        return None if attempt <= released else not_released(key, attempt)

    def _open_fire(self, key: FireKey) -> OpenFire | None:
        trigger = self._model.book(key.tenant).state.triggers.get(key.trigger)
        fires = () if trigger is None else trigger.open
        return next((fire for fire in fires if (fire.scheduled, fire.sequence) == (key.scheduled, key.sequence)), None)

    def _attempts_of_ended(self, key: FireKey) -> int | None:
        """How many attempts a fire had that is over; None when there is no such fire."""
        try:
            row = self._model.rows.get(key, self._zones.library)
        except UnknownZoneData:
            row = None
        if row is not None and row.attempts:
            return row.attempts
        known = key.trigger in self._model.book(key.tenant).state.triggers
        if row is None and known and self._model.rows.forgotten_through(key.tenant):
            # Older than what is kept; its token shows that it was sent out.
            return ATTEMPT_MAX
        return None

    # Recording

    async def _record(self, record: AttemptReported) -> None:
        """Queue the record, beside none that says the same, and wait until it was read back."""
        name = _digest(record)
        report = self._waiting.get(name)
        if report is None:
            report = self._waiting[name] = _Report(record, asyncio.get_running_loop().create_future())
            self._on_the_way[record.fire, record.attempt] += 1
            self._pages.add(slot_of(record.tenant), report)
        done, _ = await asyncio.wait({report.known}, timeout=RECORDED_WITHIN_S)
        if not done:
            raise BrokerUnavailable(
                f"the report is not known to be recorded after {RECORDED_WITHIN_S:g} s",
                hint="send the same report again",
            )

    def _heard(self, folded: FoldedAttempts) -> None:
        """Note what a page holds, whoever wrote it."""
        if not folded.subject.startswith(f"{REPORTS}."):
            return
        for record in folded.page.records:
            if isinstance(record, AttemptReported):
                self._note(record, folded.stamped_at)
        self._pages.read_back(folded)
        self._pages.wake()

    def _note(self, record: AttemptReported, stamped_at: int) -> None:
        fire = self._open_fire(record.fire)
        late = fire is None or fire.late(record.attempt, record.result, stamped_at)
        self._memory.note(record, late=late)
        report = self._waiting.pop(_digest(record), None)
        if report is not None:
            self._on_the_way[record.fire, record.attempt] -= 1
            if not self._on_the_way[record.fire, record.attempt]:
                del self._on_the_way[record.fire, record.attempt]
            report.known.set_result(None)

    # For the writer of pages

    def judge(self, slot: int) -> Callable[[_Report], bool]:
        """What the log does not hold yet."""
        del slot
        return lambda report: not report.known.done()

    def epoch_of(self, slot: int) -> int:
        """Nobody leases reports."""
        del slot
        return 0

    def given_back(self, waiting: _Report) -> None:
        """Another control recorded it; whoever waits was told when its page was read."""
        assert waiting.known.done(), "a report is wanted until it is recorded"

    def lost(self) -> None:
        """Another control was quicker."""


_ENCODER = msgspec.msgpack.Encoder()


def _digest(record: AttemptRecord) -> bytes:
    return sha256(_ENCODER.encode(record)).digest()[:16]
