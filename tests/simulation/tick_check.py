"""A scheduler's page held against what it must say: conclusions, retries, decisions, releases by lane and pace."""

from collections import Counter

from fireledger.domain import entries as e
from fireledger.domain.page import Page
from tests.simulation.book_model import BookModel, Released
from tests.simulation.ceiling_check import ceiling_entry, checked_ceilings
from tests.simulation.conclusions_model import Expected, Record, check_conclusion, expected
from tests.simulation.decision_check import DecisionCheck
from tests.simulation.invariants import Invariant, Violation, require
from tests.simulation.paces import UNLIMITED, sheds
from tests.simulation.trigger_model import Opened, TriggerModel, Waited

Fiery = e.FireReleased | e.FireDecided


class TickCheck:
    """One scheduler's page under check."""

    def __init__(self, book: BookModel, page: Page, sequence: int, true_now: int) -> None:
        self.book = book
        self.page = page
        self.sequence = sequence
        self.true_now = true_now
        self.now = page.inputs.now
        self.used: Counter[str] = Counter()
        """Releases of this page by lane."""
        self.decisions = DecisionCheck(self)
        self._due: list[Expected] = []

    def check(self, observed: list[Record]) -> None:
        """Check and note every entry, given what the page observes. Raises Violation."""
        self._due = expected(self.book.triggers, observed)
        for entry in self.page.entries:
            self._entry(entry)
        require(not self._due, "outcome-true", f"{self.book.page(self.page)} does not hold {self._due}")
        self.decisions.nothing_left()
        checked_ceilings(self.book, None, self.now)
        for name in sorted({each.record.trigger for each in observed}):
            trigger = self.book.triggers[name]
            if not (trigger.deleted or trigger.quarantined):
                checked_ceilings(self.book, name, self.now)

    def _entry(self, entry: e.BookEntry) -> None:
        match entry:
            case e.AttemptObserved() | e.ClockNoted():
                pass
            case e.FireFinished() | e.FireHeld() | e.RetryScheduled():
                self._concluded(entry)
            case e.TriggerQuarantined():
                self.book.quarantine(entry, self.now)
            case e.SpendPeriodBegun() | e.TriggerSuspended() | e.SuspensionEnded():
                ceiling_entry(self.book, entry, self.page)
            case e.FireReleased() if not entry.decides:
                self._released_again(entry)
            case e.FireReleased() | e.FireDecided() | e.InstantsResolved():
                self._decision(entry)
            case e.FireWithdrawn():
                self._replaced(entry)
            case e.SegmentSettled():
                self.book.settle(entry)
            case e.BackfillEnded():
                self._backfilled(entry)
            case _:
                raise Violation("one-state", f"a scheduler's page holds {type(entry).__name__}")

    def trigger(self, name: str) -> TriggerModel:
        """The trigger of a decision or release; it must not stand still."""
        trigger = self.book.triggers[name]
        invariant: Invariant = "quarantine" if trigger.quarantined else "pause-exact"
        if trigger.deleted:
            invariant = "cancelled-on-delete"
        elif self.book.suspended_until is not None or trigger.suspended_until is not None:
            invariant = "suspension-exact"
        going = self.book.deciding(trigger)
        require(going, invariant, f"{self.book.tenant}/{name} is not to be decided, page {self.page.number}")
        for owner in (name, None):
            for per, spending in self.book.spends(owner):
                over = spending.exhausted and spending.end > self.now
                require(not over, "ceiling", f"{self.book.tenant}/{name} goes on, and {spending} for this {per}")
        return trigger

    # Conclusions

    def _concluded(self, entry: e.FireFinished | e.FireHeld | e.RetryScheduled) -> None:
        trigger = self.book.triggers[entry.trigger]
        fire = (entry.scheduled, entry.sequence)
        text = trigger.text(*fire)
        opened = trigger.open.get(fire)
        require(opened is not None, "one-state", f"{text} was not open: {entry}")
        assert opened is not None
        if isinstance(entry, e.FireFinished) and entry.cause == "outcome window over":
            self._window_over(trigger, entry, opened)
        else:
            due = self._due.pop(0) if self._due else None
            check_conclusion(entry, due, text)
        match entry:
            case e.FireHeld():
                opened.held, opened.retry_at = True, None
            case e.RetryScheduled():
                opened.retry_at = entry.at
            case e.FireFinished():
                del trigger.open[fire]
                self.book.finished[entry.trigger, entry.scheduled, entry.sequence] = (entry.outcome, self.sequence)

    def _window_over(self, trigger: TriggerModel, entry: e.FireFinished, opened: Opened) -> None:
        text = trigger.text(entry.scheduled, entry.sequence)
        require(entry.outcome == "unknown" and entry.attempt == opened.attempt, "outcome-true", f"{text}: {entry}")
        require(not opened.held, "held-untouched", f"{text} is held, and a timer ends it")
        deadline = opened.deadline
        require(deadline is not None and self.now >= deadline, "outcome-true", f"{text}: the window is not over")
        assert deadline is not None
        records = self.book.results.get((entry.trigger, entry.scheduled, entry.sequence), [])
        in_time = [
            each.record.result
            for each in records
            if not isinstance(each.record, e.AttemptStarted)
            and each.record.attempt == opened.attempt
            and each.record.result != "accepted"
            and each.stamped_at < deadline - self.book.slack.broker
        ]
        require(not in_time, "outcome-true", f"{text} is unknown and has the result {in_time}")

    # Decisions

    def _decision(self, entry: Fiery | e.InstantsResolved) -> None:
        trigger = self.trigger(entry.trigger)
        if isinstance(entry, e.InstantsResolved):
            self.decisions.resolved(trigger, entry)
        elif isinstance(entry, e.FireDecided) and entry.sequence:
            self._backfill_decided(entry)
        else:
            self._fires(trigger, entry)

    def _fires(self, trigger: TriggerModel, entry: Fiery) -> None:
        text = trigger.text(entry.scheduled, entry.sequence)
        self.decisions.fires(trigger, entry)
        if entry.lane == "on-time":
            over = self.book.paces.over_quota(self.now)
            require(entry.over_quota == over, "quota-marks", f"{text} is marked {entry.over_quota}, not {over}")
        else:
            require(not entry.over_quota, "quota-marks", f"{text} is marked over-quota in lane {entry.lane}")
        if isinstance(entry, e.FireReleased):
            self._may_go_at_once(trigger, entry)
            require(entry.attempt == 1, "attempts-in-order", f"{text} begins with attempt {entry.attempt}")
            self._released(trigger, entry)
            return
        self._may_wait(trigger, entry)
        trigger.waiting[entry.scheduled, entry.sequence] = self._waited(entry)
        ahead = [fire for fire, each in trigger.waiting.items() if each.cause == "on-time"]
        alone = len(ahead) <= 1 or trigger.definition.overlap == "allow"
        require(alone, "overlap", f"{text} waits beside another on-time fire")

    def _waited(self, entry: e.FireDecided) -> Waited:
        return Waited(
            lane=entry.lane,
            cause=entry.cause,
            release=entry.release,
            over_quota=entry.over_quota,
            definition_page=entry.definition_page,
            since=self.now,
        )

    def _sheds(self, lane: e.Lane, *, over_quota: bool) -> bool:
        return sheds(lane, over_quota=over_quota, level=self.page.inputs.shedding_level)

    def closed(self, trigger: TriggerModel, lane: e.Lane, *, over_quota: bool) -> str:
        """What of lanes, paces and shedding keeps a fire from going now; empty: nothing."""
        if self._sheds(lane, over_quota=over_quota):
            return "shedding"
        if self.used[lane] >= self.page.inputs.allowances.get(lane, UNLIMITED):
            return "pace: the page's allowance"
        if not self.book.paces.has_token(lane, self.now):
            return "pace: the tenant's"
        backfill = trigger.backfill if lane == "backfill" else None
        if backfill is not None and backfill.pace.fires(self.now, backfill.rate) < 1:
            return "pace: the backfill's"
        return ""

    def _open(self, trigger: TriggerModel, entry: e.FireReleased) -> None:
        """A release needs a lane that lets it go."""
        why = self.closed(trigger, entry.lane, over_quota=entry.over_quota)
        invariant: Invariant = "shedding" if why == "shedding" else "pace"
        text = trigger.text(entry.scheduled, entry.sequence)
        require(not why, invariant, f"{text} is released on page {self.page.number} against {why}")

    def _behind(self, trigger: TriggerModel) -> bool:
        """Whether a caught-up fire has to line up."""
        allow = trigger.definition.overlap == "allow"
        return any(not allow or waited.lane == "catch-up" for waited in trigger.waiting.values())

    def _may_go_at_once(self, trigger: TriggerModel, entry: e.FireReleased) -> None:
        text = trigger.text(entry.scheduled)
        jumps = entry.lane == "catch-up" and self._behind(trigger)
        require(not jumps, "overlap", f"{text} goes before those that wait")

    def _may_wait(self, trigger: TriggerModel, entry: e.FireDecided) -> None:
        text = trigger.text(entry.scheduled)
        if entry.lane == "catch-up":
            why = trigger.blocked or self._behind(trigger)
            why = why or bool(self.closed(trigger, "catch-up", over_quota=False))
            require(why, "pace", f"{text} waits for nothing")
        elif self._sheds("on-time", over_quota=entry.over_quota):
            require(entry.over_quota, "shedding", f"{text} is within its quota, shed, and waits")
        else:
            require(trigger.blocked, "overlap", f"{text} waits for nothing")

    # Releases

    def _released(self, trigger: TriggerModel, entry: e.FireReleased) -> None:
        fire, text = (entry.scheduled, entry.sequence), trigger.text(entry.scheduled, entry.sequence)
        if entry.attempt == 1:
            require(not trigger.blocked, "overlap", f"{text} is released beside {list(trigger.open)}")
        self._open(trigger, entry)
        self.used[entry.lane] += 1
        self.book.paces.take(entry.lane, self.now, over_quota=entry.over_quota)
        if entry.lane == "backfill" and trigger.backfill is not None:
            trigger.backfill.pace.take(self.now, trigger.backfill.rate)
            trigger.backfill.released_count += entry.attempt == 1
        before = trigger.open.pop(fire, None)
        earliest = entry.release if before is None or before.retry_at is None else before.retry_at
        overlap = trigger.definition.overlap if before is None else before.overlap
        trigger.open[fire] = Opened(
            overlap=overlap,
            release=entry.release,
            lane=entry.lane,
            cause=entry.cause,
            over_quota=entry.over_quota,
            definition_page=entry.definition_page,
            window=trigger.definition.outcome_window,
            since=self.now,
            attempt=entry.attempt,
        )
        place = ((entry.trigger, *fire), entry.attempt)
        self.book.released[place] = Released(earliest, overlap, self.sequence)
        self.book.fire_count += entry.attempt == 1
        self.book.retry_count += entry.attempt > 1

    def _released_again(self, entry: e.FireReleased) -> None:
        trigger = self.trigger(entry.trigger)
        fire, text = (entry.scheduled, entry.sequence), trigger.text(entry.scheduled, entry.sequence)
        opened, waited = trigger.open.get(fire), trigger.waiting.get(fire)
        known = opened or waited
        require(known is not None, "one-state", f"{text} is released and was not decided")
        assert known is not None
        kept = (known.lane, known.cause, known.release, known.over_quota, known.definition_page)
        found = (entry.lane, entry.cause, entry.release, entry.over_quota, entry.definition_page)
        require(kept == found, "policy", f"{text} changes from {kept} to {found}")
        if opened is not None:
            self._retry(entry, opened, text)
        else:
            require(entry.attempt == 1, "attempts-in-order", f"{text} begins with attempt {entry.attempt}")
            self._in_turn(trigger, entry)
            del trigger.waiting[fire]
        self._released(trigger, entry)

    def _retry(self, entry: e.FireReleased, opened: Opened, text: str) -> None:
        require(not opened.held, "held-untouched", f"{text} is held, and a timer tries it again")
        right = entry.attempt == opened.attempt + 1
        require(right, "attempts-in-order", f"{text}: attempt {entry.attempt} follows {opened.attempt}")
        at = opened.retry_at
        require(at is not None, "attempts-in-order", f"{text} is tried again while an attempt is under way")
        assert at is not None
        require(at <= self.now, "retry-instant", f"{text}: attempt {entry.attempt} at {self.now} is due at {at}")
        early = at - self.true_now
        require(early <= self.book.slack.early, "retry-instant", f"{text} is tried again {early} us early")

    def _in_turn(self, trigger: TriggerModel, entry: e.FireReleased) -> None:
        """Nothing that comes first and may go is passed by."""
        mine = (entry.scheduled, entry.sequence)
        order = trigger.waiting[mine].order(mine)
        for fire, waited in trigger.waiting.items():
            if waited.order(fire) < order:
                passed = trigger.text(*fire)
                why = self.closed(trigger, waited.lane, over_quota=waited.over_quota)
                require(bool(why), "overlap", f"{trigger.text(*mine)} goes before {passed}")

    def _replaced(self, entry: e.FireWithdrawn) -> None:
        trigger = self.trigger(entry.trigger)
        text = trigger.text(entry.scheduled, entry.sequence)
        waited = trigger.waiting.get((entry.scheduled, entry.sequence))
        require(entry.cause == "replaced", "overlap", f"{text} is withdrawn, {entry.cause}")
        replaced = waited is not None and waited.cause == "on-time" and trigger.definition.overlap != "allow"
        require(replaced, "overlap", f"{text} is replaced and did not wait")
        self.book.withdrawn(entry, "skipped")

    # Backfills

    def _backfill_decided(self, entry: e.FireDecided) -> None:
        trigger = self.book.run_numbered(entry)
        text, backfill = trigger.text(entry.scheduled, entry.sequence), trigger.backfill
        right = (entry.lane, entry.cause, entry.over_quota) == ("backfill", "backfilled", False)
        require(right and backfill is not None, "backfill-exact", f"{text}: {entry}")
        assert backfill is not None
        wanted = backfill.left[0] if backfill.left else None
        require(entry.scheduled == wanted, "backfill-exact", f"{text} is decided, {wanted} is next")
        require(entry.definition_page == trigger.definition_page, "policy", f"{text} has another definition")
        require(entry.release == self.now, "policy", f"{text} has release {entry.release}")
        del backfill.left[0]
        trigger.waiting[entry.scheduled, entry.sequence] = self._waited(entry)

    def _backfilled(self, entry: e.BackfillEnded) -> None:
        trigger = self.trigger(entry.trigger)
        backfill = trigger.backfill
        text = f"backfill {entry.backfill} of {self.book.tenant}/{trigger.name}"
        require(backfill is not None, "backfill-exact", f"{text} is not there")
        assert backfill is not None
        waiting = [fire for fire, waited in trigger.waiting.items() if waited.lane == "backfill"]
        done = not backfill.left and not waiting and entry.cause == "complete"
        require(done, "backfill-exact", f"{text} ends, {backfill.left} are left and {waiting} wait: {entry}")
        right = entry.fired_count == backfill.released_count
        require(right, "backfill-exact", f"{text}: {entry}, {backfill.released_count} were released")
        trigger.backfill = None
