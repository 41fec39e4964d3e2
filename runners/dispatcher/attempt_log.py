"""Writing the attempts of slots: starts in the order of the lanes, then results.

Whoever loses a page's append has made no attempt: what the winner's page left undone goes into the next page.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from fireledger.domain.book import Head
from fireledger.domain.entries import AttemptResult
from fireledger.projections.ledger_fold import FoldedAttempts

from ..clock import Clock
from ..slot_log import Appender, SlotLog
from .counters import Counters
from .lanes import LANE_NAMES
from .ownership import Ownership
from .tasks import Start

ATTEMPTS = "attempts"
"""The first token of the subjects."""


def attempts_subject(slot: int) -> str:
    """The subject of a slot's attempts."""
    return f"{ATTEMPTS}.{slot}"


@dataclass(frozen=True, slots=True)
class Begun:
    """Starts that were read back; their page was sent at ``sent_at`` (monotonic seconds)."""

    starts: list[Start]
    sent_at: float


@dataclass(frozen=True, slots=True)
class _Ended:
    record: AttemptResult
    rank: int = len(LANE_NAMES)


_Record = Start | _Ended


class AttemptLog:
    """The writer of all slots' attempts pages.

    What waits is bounded by the places for calls: a start holds one until it is given back, a result needed one.
    """

    def __init__(
        self,
        *,
        ledger: Appender,
        head: Callable[[str], Head],
        ownership: Ownership,
        runner_id: str,
        clock: Clock,
        counters: Counters,
        given_back: Callable[[Start], None],
    ) -> None:
        """``head`` gives a subject's head as read from the log; ``given_back`` gets each start that is not made."""
        self._ownership = ownership
        self._counters = counters
        self._give_back = given_back
        self._starting = True
        self._pages: SlotLog[_Record] = SlotLog(
            ATTEMPTS, desk=self, ledger=ledger, head=head, runner_id=runner_id, clock=clock
        )

    def start(self, start: Start) -> None:
        """Queue a started record; it is read back, or the start is given back."""
        self._pages.add(start.task.slot, start)

    def finish(self, slot: int, result: AttemptResult) -> None:
        """Queue a result; it is written whoever owns the slot by then, since it is a fact."""
        self._pages.add(slot, _Ended(result))

    def wake(self) -> None:
        """Look again at what can be written: pages were read, or slots gained or lost."""
        self._pages.wake()

    def stop_starting(self) -> None:
        """Give back every start that is not under way, and take no more."""
        self._starting = False
        self._pages.reconsider()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is in flight."""
        return self._pages.idle

    def abandon(self) -> None:
        """Stop sending. What is in flight may be written or not; the log tells whoever reads it."""
        self._pages.abandon()

    async def flushed(self) -> None:
        """Wait until ``idle``."""
        await self._pages.flushed()

    def read_back(self, folded: FoldedAttempts) -> Begun | None:
        """Note a page that was read, which the head shows already; the starts in it, if it is our own."""
        flight = self._pages.read_back(folded)
        if flight is None:
            return None
        starts = [record for record in flight.records if isinstance(record, Start)]
        self._counters.pages += 1
        self._counters.started += len(starts)
        return Begun(starts, flight.sent_at)

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Write pages until cancelled; appends run in ``group``."""
        await self._pages.run(group)

    # For the writer of pages

    def judge(self, slot: int) -> Callable[[_Record], bool]:
        """Results always; starts that are still to be made, while the slot is owned."""
        starting = self._starting and self._ownership.owns_slot(slot)
        return lambda record: not isinstance(record, Start) or (starting and record.needed)

    def epoch_of(self, slot: int) -> int:
        """The epoch of the slot's lease."""
        return self._ownership.epoch_of(slot)

    def given_back(self, waiting: _Record) -> None:
        """A start is not made."""
        assert isinstance(waiting, Start), "a result is always wanted"
        self._give_back(waiting)

    def lost(self) -> None:
        """Count it."""
        self._counters.lost_appends += 1
