"""The scheduler: folds the log, wakes at the next due instant, decides, commits, and reads back.

It touches no target and answers no tenant. Nothing it remembers matters: what it decides from is the fold of
what it read, and what it decided counts once it has read that back.
"""

import asyncio
import zlib
from hashlib import sha256

from fireledger.domain.book import Book, BrokenChain, Folded, page_now
from fireledger.domain.identifiers import slot_of
from fireledger.domain.instants import Instant
from fireledger.domain.limits import PACE_STEP, PAGE_ENTRIES_MAX
from fireledger.domain.page import MalformedPage, PageInputs
from fireledger.domain.recurrence.search_costs import SEARCH_COSTS
from fireledger.domain.state import State
from fireledger.domain.zones import ZoneLibrary
from fireledger.projections.ledger_fold import FoldedAttempts, LedgerFold

from ..clock import Clock, ClockHeld, Reading
from ..errors import BrokerUnavailable, LogGap
from ..jetstream.ledger import Append, Ledger
from ..jetstream.reader import PullReader
from ..known_zones import Reload
from ..lifecycle import pause
from ..logs import get_log
from .admission import Admission
from .audit import RowAudit
from .books import OBSERVE_AFTER_S, OwnedBook, OwnedBooks, first_due, is_awaited, touched
from .commits import Commits
from .drafts import Draft, Hints, InFlight, draft_page
from .leader_reads import FoldPosition, LeaderReads
from .ownership import Ownership
from .pacing import LaneRates
from .status import BLOCKED_SHOWN_MAX, BlockedBook, SchedulerStatus
from .turns import Turn, give_way, send_off
from .zone_watch import ZoneWatch

TRIGGERS_PER_PAGE = 500
"""Triggers that one page decides at most beside those that wait: one book's flood must not keep the others waiting."""
OBSERVED_PER_PAGE = 1_000
"""Attempt records that one page observes at most, unless one page of attempts holds more."""
CROWDED = 50
"""With more due triggers a book is decided after the others, whose pages are on their way by then."""
GROUP_PAGES_MAX = 250
"""Pages appended together: well below a batch's limit, so that the broker stores while the next ones are decided."""
IDLE_S_MAX = 1.0
"""The clock, ownership and blocked books are looked at this often although nothing is due."""
BLOCKED_RETRY_S = 0.25
"""A book that cannot be decided for now is looked at again after this."""
BACKOFF_MIN_S = 0.005
BACKOFF_MAX_S = 0.050
"""After a conflict the book is left alone this long, so that a command in its way can win."""
INEFFECTIVE_FIRST_S = 0.1
INEFFECTIVE_MAX_S = 10.0
"""Pages of a book that keep having no effect come ever more slowly: this clock, or the broker's, is wrong."""
DRAIN_S_MAX = 2.0
"""How long a stop waits for pages under way."""
BEHIND = "clock-behind-book"
"""Why a book is blocked whose now this node's clock has not reached."""
FAR_FUTURE = Instant(2**62)

_log = get_log("scheduler")


class Scheduler:
    """One scheduler. ``ready`` is set once the log is folded to where it ended at the start."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        reader: PullReader,
        clock: Clock,
        ownership: Ownership,
        zones: ZoneLibrary,
        runner_id: str,
        reload_zones: Reload | None = None,
        lane_rates: LaneRates | None = None,
    ) -> None:
        """``reader`` reads the whole LEDGER from its beginning. ``reload_zones`` looks for zone data again."""
        self.ready = asyncio.Event()
        self.fold = LedgerFold()
        self.conflict_count = 0
        self.ineffective_count = 0
        self.committed_count = 0
        self._entries_committed = 0
        self._quarantined_count = 0
        self._ledger = ledger
        self._reader = reader
        self._clock = clock
        self._ownership = ownership
        self._zones = ZoneWatch(zones, reload_zones)
        self._admission = Admission(lane_rates or LaneRates())
        self._runner_id = runner_id
        self._wake = asyncio.Event()
        self._position = FoldPosition()
        self._books = OwnedBooks()
        self._audit = RowAudit(self._books, self.fold, self._zones)
        self._tenants_of: dict[int, set[str]] = {}
        self._slots: frozenset[int] = frozenset()
        self._slots_stale = True
        self._in_flight: dict[str, InFlight] = {}
        self._blocked: dict[str, str] = {}
        self._commits = Commits(ledger, in_flight=self._is_in_flight, done=self._wake.set)
        self._leader = LeaderReads(ledger, clock, self._position, answered=self._leader_answered)
        self._step_total = 0
        self._reading: Reading | None = None
        self._newest_now = 0
        self._ahead_look_at_s = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set, then finish what is under way.

        Waits through the broker's absence. Raises, in an exception group: LogGap for a message missing from the
        log or altered, RolledBack when the log is shorter than it was, BrokerRefused when a page is refused for good.
        """
        forget = self._ownership.on_change(self._ownership_changed)
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [
                    tasks.create_task(self._read()),
                    tasks.create_task(self._leader.run()),
                    tasks.create_task(self._wake_on(stop)),
                ]
                await self._catch_up(stop)
                await self._work(tasks, stop)
                await self._commits.drain(DRAIN_S_MAX)
                for task in background:
                    task.cancel()
        finally:
            forget()
            self.ready.clear()

    def snapshot(self) -> SchedulerStatus:
        """The present state for ``status``."""
        reading = self._reading
        blocked = tuple(BlockedBook(tenant=tenant, reason=reason) for tenant, reason in self._blocked.items())
        return SchedulerStatus(
            runner=self._runner_id,
            ready=self.ready.is_set(),
            position=self.fold.position,
            owned_slots=len(self._slots),
            owned_books=len(self._books),
            triggers_with_rows=len(self._books.calendar),
            rows_diverged=self._audit.diverged_count,
            next_due_at=self._books.next_at(),
            pages_in_flight=len(self._in_flight),
            pages_committed=self.committed_count,
            entries_committed=self._entries_committed,
            conflicts=self.conflict_count,
            pages_ineffective=self.ineffective_count,
            outcomes_unknown=self._commits.unknown_count,
            leader_reads=self._leader.count,
            triggers_quarantined=self._quarantined_count,
            shedding_level=self._admission.level,
            searches=SEARCH_COSTS.count,
            search_steps=SEARCH_COSTS.steps,
            search_steps_max=SEARCH_COSTS.largest,
            clock_usable=reading is not None,
            clock_source="" if reading is None else reading.source,
            epsilon=0 if reading is None else reading.epsilon,
            blocked=blocked[:BLOCKED_SHOWN_MAX],
        )

    # Reading

    async def _read(self) -> None:
        turn = Turn()
        async for batch in self._reader.batches():
            for message in batch:
                try:
                    folded = self.fold.apply(message)
                except (BrokenChain, MalformedPage) as error:
                    raise LogGap(f"the log cannot be folded: {error}", hint="compare it with the copy") from error
                if isinstance(folded, FoldedAttempts):
                    self._note_attempts(folded)
                else:
                    self._note_page(folded)
                await turn.share()
            self._ledger.note_seen(batch[-1].sequence, sha256(batch[-1].body).digest())
            self._position.advance(batch[-1].sequence)
            self._wake.set()

    def _note_attempts(self, folded: FoldedAttempts) -> None:
        now_s = _now_s()
        for record in folded.page.records:
            if self._books.get(record.tenant) is not None:
                at_once = is_awaited(record, self.fold.book(record.tenant).state)
                self._books.observe_by(record.tenant, now_s if at_once else now_s + OBSERVE_AFTER_S)

    def _note_page(self, folded: Folded) -> None:
        page, tenant = folded.page, folded.page.tenant
        flight = self._in_flight.pop(tenant, None)
        owned = self._books.get(tenant)
        if page.number == 1:
            owned = self._note_tenant(tenant)
        mine = flight is not None and flight.draft.append.commit_id == page.commit_id
        if owned is None:
            return
        if flight is not None and not mine:
            self.conflict_count += 1
            self._books.park(tenant, _now_s() + self._backoff_s(tenant, page.number))
        if folded.effective:
            self._note_effective(folded, owned, flight if mine else None)
        else:
            self._note_ineffective(folded, owned, mine=mine)

    def _note_tenant(self, tenant: str) -> OwnedBook | None:
        slot = slot_of(tenant)
        self._tenants_of.setdefault(slot, set()).add(tenant)
        if slot not in self._slots:
            return None
        owned = OwnedBook(tenant, slot, self._step_total, complete=True)
        self._books.adopt(owned)
        return owned

    def _note_effective(self, folded: Folded, owned: OwnedBook, flight: InFlight | None) -> None:
        page, state = folded.page, folded.book.state
        self._newest_now = max(self._newest_now, state.now)
        # A tick of ours has let go what it could; a command's page, or another scheduler's, may have left some.
        not_before = 0 if flight is None else state.now + PACE_STEP
        left, names = frozenset[str]() if flight is None else flight.left, touched(page.entries, state)
        self._books.settle(owned, state, names, self._zones.library, not_before=not_before, left=left)
        if flight is not None:
            owned.ineffective_in_a_row = 0
            owned.step_noted += page.inputs.step
            self.committed_count += 1
            self._entries_committed += len(flight.draft.entries)
            self._quarantined_count += len(page.inputs.quarantine)
        self._books.observed(owned.tenant)
        if self.fold.has_pending(owned.tenant):
            # After a whole page of ours only newer outcomes are left; otherwise some have waited already.
            whole = flight is not None and not flight.cut
            self._books.observe_by(owned.tenant, _now_s() + (OBSERVE_AFTER_S if whole else 0.0))

    def _note_ineffective(self, folded: Folded, owned: OwnedBook, *, mine: bool) -> None:
        """A page that stays in the chain and changes nothing: late, or its writer's clock and the broker's differ."""
        inputs = folded.page.inputs
        self.ineffective_count += 1
        if mine:
            owned.ineffective_in_a_row += 1
            wait_s = min(INEFFECTIVE_FIRST_S * 2 ** (owned.ineffective_in_a_row - 1), INEFFECTIVE_MAX_S)
            self._books.park(owned.tenant, _now_s() + wait_s)
        _log.error(
            "page-ineffective",
            tenant=owned.tenant,
            page=folded.page.number,
            owner=inputs.owner,
            stamped_at=folded.book.head.stamped_at,
            earliest=inputs.earliest,
            latest=inputs.latest,
        )

    def _backoff_s(self, tenant: str, number: int) -> float:
        """Spread by who waits for what, the same every time: two schedulers must not keep meeting."""
        spread = zlib.crc32(f"{self._runner_id}/{tenant}/{number}".encode()) / 2**32
        return BACKOFF_MIN_S + spread * (BACKOFF_MAX_S - BACKOFF_MIN_S)

    def _is_in_flight(self, append: Append) -> bool:
        flight = self._in_flight.get(append.subject.rpartition(".")[2])
        return flight is not None and flight.draft.append is append

    # The loop

    async def _catch_up(self, stop: asyncio.Event) -> None:
        """Return once the log is folded to where it ends now."""
        while not stop.is_set():
            try:
                last = await self._ledger.last_sequence()
            except BrokerUnavailable:
                await pause(BLOCKED_RETRY_S, stop)
                continue
            while self._position.value < last and not stop.is_set():
                await self._slept(IDLE_S_MAX, FAR_FUTURE)
            _log.info("log-folded", position=self._position.value, books=len(self.fold.books))
            return

    async def _work(self, tasks: asyncio.TaskGroup, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._wake.clear()
            await give_way()
            await self._follow_ownership()
            self.ready.set()
            self._reading = self._read_clock()
            if self._reading is None or not self._commits.room:
                await self._slept(BLOCKED_RETRY_S, FAR_FUTURE)
                continue
            self._note_books_ahead(self._reading)
            began_s = _now_s()
            await self._decide_round(tasks, self._reading)
            self._admission.note_round(began_s)
            self._audit.go_on(_now_s())
            if not self._commits.room:
                continue
            next_s = self._books.next_s()
            wait_s = IDLE_S_MAX if next_s is None else min(IDLE_S_MAX, max(0.0, next_s - _now_s()))
            next_at = self._books.next_at()
            await self._slept(wait_s, FAR_FUTURE if next_at is None else Instant(next_at))

    async def _slept(self, wait_s: float, until: Instant) -> None:
        """Wait until the clock reaches ``until``, something wakes us, or ``wait_s`` is over."""
        timer = asyncio.get_running_loop().call_later(wait_s, self._wake.set)
        try:
            await self._clock.sleep_until(until, self._wake)
        finally:
            timer.cancel()
        self._wake.clear()

    async def _wake_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wake.set()

    def _read_clock(self) -> Reading | None:
        """The clock's reading, or None when nothing may be decided with it."""
        try:
            reading = self._clock.now()
        except ClockHeld:
            return None
        if reading.step:
            self._step_total += self._clock.take_step()
        return reading if reading.usable else None

    # Ownership

    def _ownership_changed(self) -> None:
        self._slots_stale = True
        self._wake.set()

    async def _follow_ownership(self) -> None:
        if not self._slots_stale:
            return
        self._slots_stale = False
        before = self._slots
        self._slots = self._ownership.owned_slots()
        for slot in before - self._slots:
            for tenant in self._tenants_of.get(slot, ()):
                self._books.drop(tenant)
                self._blocked.pop(tenant, None)
        turn = Turn()
        for slot in self._slots - before:
            for tenant in tuple(self._tenants_of.get(slot, ())):
                await self._adopt(tenant, slot, turn)

    async def _adopt(self, tenant: str, slot: int, turn: Turn) -> None:
        if self._books.get(tenant) is not None:
            return
        owned = OwnedBook(tenant, slot, self._step_total)
        self._books.adopt(owned)
        # Pages folded meanwhile renew the rows of what they touch, since the book is owned already.
        for name in tuple(self.fold.book(tenant).state.triggers):
            self._books.refresh(owned, self.fold.book(tenant).state, (name,), self._zones.library)
            await turn.share()
        self._books.await_pace(owned, self.fold.book(tenant).state)
        if self.fold.has_pending(tenant):
            self._books.observe_by(tenant, _now_s() + OBSERVE_AFTER_S)
        owned.complete = True

    # Deciding

    async def _decide_round(self, tasks: asyncio.TaskGroup, reading: Reading) -> None:
        """Decide every book in which something is due and start committing the pages, a group at a time."""
        self._books.collect(reading.earliest, _now_s())
        turn = Turn()
        drafts: list[Draft] = []
        for owned in self._books.candidates(_now_s()):
            if owned.tenant in self._in_flight or self._books.get(owned.tenant) is not owned:
                continue
            if drafts and (len(drafts) >= GROUP_PAGES_MAX or len(owned.due) > CROWDED):
                self._commits.start(tasks, [each.append for each in drafts])
                drafts = []
                await send_off()
                if not self._commits.room:
                    return
            draft = await self._decide_book(owned)
            if draft is not None:
                drafts.append(draft)
            await turn.share()
        if drafts:
            self._commits.start(tasks, [each.append for each in drafts])

    async def _decide_book(self, owned: OwnedBook) -> Draft | None:
        """Decide one book now; None when there is nothing to say or it has to wait."""
        tenant, book = owned.tenant, self.fold.book(owned.tenant)
        reading = self._read_clock()
        if reading is None:
            return None
        if not self._ownership.owns_slot(owned.slot):
            self._slots_stale = True
            return None
        reason = await self._obstacle(book.state, reading)
        if reason:
            self._block(tenant, reason)
            return None
        self._blocked.pop(tenant, None)
        now = page_now(book.state, reading.earliest)
        # The hint must name every row up to this reading, not only those that an earlier look found.
        self._books.collect(reading.earliest, asyncio.get_running_loop().time())
        if now > reading.earliest:
            self._books.pull(owned, now)
        observed, as_of = self.fold.pending(tenant, at_most=OBSERVED_PER_PAGE)
        as_of_read_at = self._as_of_read_at(owned, book.state, reading.earliest, as_of)
        if as_of_read_at is None:
            return None
        inputs = PageInputs(
            now=now,
            earliest=reading.earliest,
            latest=reading.latest,
            clock_source=reading.source,
            as_of=as_of,
            as_of_read_at=as_of_read_at,
            owner=self._runner_id,
            epoch=self._ownership.epoch_of(owned.slot),
            entry_limit=PAGE_ENTRIES_MAX,
            trigger_limit=TRIGGERS_PER_PAGE,
            step=self._step_total - owned.step_noted,
            allowances=self._admission.allowances(owned, book.state, now, owned_slots=len(self._slots)),
            shedding_level=self._admission.level,
        )
        cut = as_of < self.fold.position
        due, all_due = first_due(owned, book.state, TRIGGERS_PER_PAGE), frozenset(owned.due)
        hints = Hints(due, frozenset(owned.waiting), all_due)
        draft = await draft_page(book, inputs, zones=self._zones.library, observed=observed, hints=hints)
        self._admission.settle(tenant, inputs.allowances, () if draft is None else draft.entries)
        if self._books.get(tenant) is not owned or self.fold.book(tenant).head != book.head:
            # The log moved on while the decision gave way to others; it stays a candidate.
            return None
        if draft is None:
            self._nothing_to_say(owned, book, reading)
            return None
        self._in_flight[tenant] = InFlight(draft, cut, all_due - due)
        return draft

    async def _obstacle(self, state: State, reading: Reading) -> str:
        """Why the book cannot be decided just now, or an empty text."""
        if reading.latest < state.now:
            return BEHIND
        return "zone-data-missing" if await self._zones.lacks(state) else ""

    def _note_books_ahead(self, reading: Reading) -> None:
        """After a step back nothing may be due for long; say nevertheless which books this clock is behind."""
        for tenant, reason in tuple(self._blocked.items()):
            if reason == BEHIND and reading.latest >= self.fold.book(tenant).state.now:
                del self._blocked[tenant]
        if reading.latest >= self._newest_now or _now_s() < self._ahead_look_at_s:
            return
        self._ahead_look_at_s = _now_s() + IDLE_S_MAX
        for tenant in self._books.tenants():
            if reading.latest < self.fold.book(tenant).state.now:
                self._block(tenant, BEHIND)

    def _block(self, tenant: str, reason: str) -> None:
        if self._blocked.get(tenant) != reason:
            _log.error("book-blocked", tenant=tenant, reason=reason)
        self._blocked[tenant] = reason
        self._books.park(tenant, _now_s() + BLOCKED_RETRY_S)

    def _as_of_read_at(self, owned: OwnedBook, state: State, earliest: int, as_of: int) -> int | None:
        """When the leader was asked for ``as_of``: 0 when nothing depends on it, None when it has to be asked first."""
        over = [
            fire.deadline
            for name in owned.due
            if name in state.triggers
            for fire in state.triggers[name].open
            if fire.deadline is not None and fire.deadline <= earliest
        ]
        if not over:
            return 0
        read = self._leader.latest
        if read.at < max(over):
            self._books.park(owned.tenant, float("inf"))
            self._leader.ask_for(owned.tenant)
            return None
        # Outcomes left for the next page could still be results of these fires.
        return read.at if as_of >= read.sequence else 0

    def _leader_answered(self, tenant: str) -> None:
        self._books.unpark(tenant)
        self._wake.set()

    def _nothing_to_say(self, owned: OwnedBook, book: Book, reading: Reading) -> None:
        """Make the rows anew; a row that is still due without a decision must not keep this loop busy."""
        not_before = max(book.state.now, reading.earliest) + PACE_STEP
        self._books.settle(owned, book.state, (), self._zones.library, not_before=not_before)
        self._books.observed(owned.tenant)
        if self._books.calendar.has_due(owned.tenant, reading.earliest):
            _log.debug("nothing-decided", tenant=owned.tenant)
            self._books.park(owned.tenant, _now_s() + BLOCKED_RETRY_S)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
