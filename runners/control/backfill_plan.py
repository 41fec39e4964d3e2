"""What a backfill would fire: its instants by the very code that decides them, without those that have fired.

Nothing here writes; the same plan answers a preview, and goes into the command that starts the backfill.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fireledger.domain.backfill import backfill_count, backfill_next
from fireledger.domain.backfill_range import joined_spans, undecided_spans
from fireledger.domain.entries import Span
from fireledger.domain.instants import format_instant
from fireledger.domain.limits import BACKFILL_SPANS_MAX
from fireledger.domain.owed import Timeline
from fireledger.domain.state import State, TriggerState, backfill_segment
from fireledger.domain.zones import ZoneLibrary
from fireledger.projections.fires import FireQuery, FireRows

from ..errors import ControlRefused
from .refusals import refused

HISTORY_INCOMPLETE = "history-incomplete"
"""What fired in the range is not all known, so that what is missing is not known either."""
_FIRED = frozenset({"fired", "held", "waiting"})
"""States of rows whose instant has fired, or will without a backfill."""
_ALL = 1 << 40
"""More rows than are kept."""


@dataclass(frozen=True, slots=True)
class BackfillRange:
    """The instants asked for, [start, end), and whether those that have fired are left out."""

    start: int
    end: int
    only_missing: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """One instant that would fire, under which sequence number, and its local time."""

    scheduled: int
    sequence: int
    local: str


class BackfillPlan:
    """The instants that a backfill would fire, as the book stands.

    ``fired`` are the stretches left out, ascending and apart; ``undecided`` counts instants of the range that the
    scheduler has not decided yet: they are left out, since they would fire twice.
    """

    def __init__(
        self, state: State, trigger: TriggerState, asked: BackfillRange, fired: Sequence[int], zones: ZoneLibrary
    ) -> None:
        """``fired`` are the scheduled instants in the range that have fired, ascending. Raises ControlRefused."""
        self._trigger = trigger
        self._asked = asked
        self._timeline = Timeline(
            state, trigger, backfill_segment(state, trigger.definition, asked.start, asked.end), zones
        )
        ahead = undecided_spans(state, trigger, asked.start, asked.end, zones)
        self.undecided = sum(self._timeline.count_until(span.first - 1, span.last) for span in ahead)
        self.fired = joined_spans((*self._spans(fired), *ahead)) if asked.only_missing else ahead
        if len(self.fired) > BACKFILL_SPANS_MAX:
            raise _too_many_spans(trigger)
        self.count = backfill_count(self._timeline, self.fired, asked.end)

    def instants(self, after: tuple[int, int] | None) -> Iterator[Planned]:
        """The instants one by one; ``after`` is the scheduled instant and sequence of the last one already seen."""
        scheduled = backfill_next(self._timeline, self.fired, None if after is None else after[0])
        sequence = self._trigger.next_run_number if after is None else after[1] + 1
        while scheduled is not None and scheduled < self._asked.end:
            yield Planned(scheduled, sequence, self._timeline.local_text(scheduled))
            scheduled, sequence = backfill_next(self._timeline, self.fired, scheduled), sequence + 1

    def _spans(self, fired: Sequence[int]) -> Iterator[Span]:
        """Stretches of the schedule's instants that have all fired."""
        first: int | None = None
        last = expected = None
        found = 0
        for instant in fired:
            if first is None or last is None:
                first = instant
            elif expected is not None and instant > expected:
                yield Span(first, last)
                first, found = instant, found + 1
                if found > BACKFILL_SPANS_MAX:
                    raise _too_many_spans(self._trigger)
            last = instant
            expected = self._timeline.recurrence.next_after(instant)
        if first is not None and last is not None:
            yield Span(first, last)


def fired_instants(rows: FireRows, tenant: str, trigger: str, asked: BackfillRange) -> list[int]:
    """The scheduled instants in the range that have fired, or wait to, ascending.

    Raises ControlRefused when some that fired may be forgotten: then nobody here can say which are missing.
    """
    complete = rows.complete_since(tenant)
    if complete is not None and asked.start < complete:
        since = format_instant(complete)
        raise refused(
            f"what fired of {tenant}/{trigger} is known from {since} on only: --only-missing cannot tell for before",
            hint=f"give --from {since} or later, or leave out --only-missing to fire every instant again",
            code=HISTORY_INCOMPLETE,
        )
    query = FireQuery(tenant=tenant, trigger=trigger, since=asked.start, until=asked.end, limit=_ALL)
    found = {row.scheduled for row in rows.newest(query) if row.state in _FIRED and row.cause != "by-hand"}
    return sorted(found)


def least_seconds(count: int, rate_per_second: int) -> int:
    """How many seconds the releases take at this rate, at least."""
    return -(-count // rate_per_second)


def tenant_rate(state: State) -> int:
    """The fires a second that the tenant's share allows in the backfill lane, at least 1."""
    assert state.settings is not None, "the caller looked"
    return max(1, state.settings.quota_per_second * state.settings.catch_up_percent // 100)


def _too_many_spans(trigger: TriggerState) -> ControlRefused:
    return refused(
        f"what is missing of {trigger.name} lies between more than {BACKFILL_SPANS_MAX} stretches that have fired",
        hint="ask for a shorter range, and for the next one when that is done",
    )
