"""A command's page held against what it must say; what a person does to single fires, ceilings and backfills."""

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.page import Page
from tests.simulation.book_model import BookModel
from tests.simulation.ceiling_check import ceiling_entry, checked_ceilings
from tests.simulation.invariants import require
from tests.simulation.trigger_model import Backfilling, Span, TriggerModel, Waited


class CommandCheck:
    """One command's page under check."""

    def __init__(self, book: BookModel, page: Page, sequence: int) -> None:
        self.book = book
        self.page = page
        self.sequence = sequence
        self.now = page.inputs.now

    def check(self) -> None:
        """Check and note every entry. Raises Violation."""
        for entry in self.page.entries:
            match entry:
                case e.FireRequested():
                    self._requested(entry)
                case e.HeldFireReleased():
                    self._held_released(entry)
                case e.FireFinished():
                    self._finished(entry)
                case e.FireWithdrawn():
                    self.book.withdrawn(entry, "cancelled")
                case e.CeilingSet() | e.SpendPeriodBegun() | e.TriggerSuspended() | e.SuspensionEnded():
                    ceiling_entry(self.book, entry, self.page)
                case e.GrantChanged() | e.DrainDeclared():
                    self._noted(entry)
                case e.BackfillStarted():
                    self._backfill_started(entry)
                case e.BackfillEnded():
                    self._backfill_cancelled(entry)
                case _:
                    self.book.defined(entry, self.page)
        command = self.page.command
        if isinstance(command, c.SetCeiling) and self.page.entries:
            checked_ceilings(self.book, command.trigger, self.now)

    def _noted(self, entry: e.GrantChanged | e.DrainDeclared) -> None:
        if isinstance(entry, e.GrantChanged):
            require(self.book.grants.get(entry.trigger) == entry.before, "one-state", f"{entry} replaces another")
            self.book.grants.pop(entry.trigger, None)
            if entry.value is not None:
                self.book.grants[entry.trigger] = entry.value

    def _trigger(self, entry: e.FireEntry) -> TriggerModel:
        return self.book.triggers[entry.trigger]

    def _requested(self, entry: e.FireRequested) -> None:
        trigger = self.book.run_numbered(entry)
        text = trigger.text(entry.scheduled, entry.sequence)
        require(self.book.deciding(trigger), "pause-exact", f"{text} is asked for while its trigger stands still")
        require(entry.scheduled == self.now, "policy", f"{text} is asked for at {self.now}")
        require(entry.definition_page == trigger.definition_page, "policy", f"{text} has another definition")
        trigger.waiting[entry.scheduled, entry.sequence] = Waited(
            lane="on-time",
            cause="by-hand",
            release=entry.scheduled,
            over_quota=False,
            definition_page=entry.definition_page,
            since=self.now,
        )

    def _held_released(self, entry: e.HeldFireReleased) -> None:
        trigger = self._trigger(entry)
        opened = trigger.open.get((entry.scheduled, entry.sequence))
        text = trigger.text(entry.scheduled, entry.sequence)
        require(opened is not None and opened.held, "held-untouched", f"{text} is released by hand and not held")
        assert opened is not None
        require(not opened.of_deleted, "cancelled-on-delete", f"{text} of a deleted trigger is released by hand")
        opened.held, opened.let_go, opened.retry_at, opened.since = False, True, self.now, self.now

    def _finished(self, entry: e.FireFinished) -> None:
        trigger = self._trigger(entry)
        text = trigger.text(entry.scheduled, entry.sequence)
        opened = trigger.open.pop((entry.scheduled, entry.sequence), None)
        require(opened is not None, "one-state", f"{text} is finished and was not open")
        assert opened is not None
        retries = opened.retry_at is not None
        cancelled = isinstance(self.page.command, c.CancelFire) and (retries or opened.held)
        deleted = isinstance(self.page.command, c.DeleteTrigger) and retries
        right = entry.outcome == "failed" and entry.attempt == opened.attempt and (cancelled or deleted)
        require(right, "outcome-true", f"{text}: {entry} by {self.page.command} of {opened}")
        self.book.finished[entry.trigger, entry.scheduled, entry.sequence] = (entry.outcome, self.sequence)

    # Backfills

    def _backfill_started(self, entry: e.BackfillStarted) -> None:
        trigger = self.book.triggers[entry.trigger]
        text = f"backfill {entry.backfill} of {self.book.tenant}/{trigger.name}"
        require(trigger.backfill is None, "backfill-exact", f"{text} begins beside another")
        require(not trigger.deleted and not trigger.quarantined, "backfill-exact", f"{text} begins")
        require(entry.start < entry.end <= self.now, "backfill-exact", f"{text} reaches into the future")
        span = Span(trigger.definition, entry.start - 1, entry.end - 1)
        every = [due.at for due in trigger.undecided(span, entry.end - 1)]
        left = [at for at in every if not any(fired.first <= at <= fired.last for fired in entry.fired)]
        self._check_left_out(trigger, entry, every, left)
        granted = self.book.grants.get(trigger.name, self.book.grants.get(None, 0))
        require(0 < len(left) <= granted, "backfill-exact", f"{text} makes {len(left)} fires, {granted} are granted")
        trigger.backfill = Backfilling(entry.backfill, 100 * entry.rate_per_second, left)

    def _check_left_out(
        self, trigger: TriggerModel, entry: e.BackfillStarted, every: list[int], left: list[int]
    ) -> None:
        """What the schedule has still to decide is left to it; and nothing else, unless only what is missing fires."""
        if trigger.exhausted and not any(sequence == 0 for _, sequence in trigger.waiting):
            stretches: list[tuple[int, int]] = []
        else:
            found = [(next(trigger.undecided(span, entry.end - 1), None), span.until) for span in trigger.spans]
            stretches = [(due.at, entry.end if until is None else until) for due, until in found if due is not None]
        for at in every:
            ahead = any(first <= at <= last for first, last in stretches)
            text = f"{trigger.text(at)} in backfill {entry.backfill}"
            require(not ahead or at not in left, "backfill-exact", f"{text} is the schedule's own to decide")
            known = ahead or entry.only_missing or at in left
            require(known, "backfill-exact", f"{text} is left out for no reason")

    def _backfill_cancelled(self, entry: e.BackfillEnded) -> None:
        trigger = self.book.triggers[entry.trigger]
        backfill = trigger.backfill
        text = f"backfill {entry.backfill} of {self.book.tenant}/{trigger.name}"
        require(backfill is not None and backfill.label == entry.backfill, "backfill-exact", f"{text} is not there")
        assert backfill is not None
        left = [fire for fire, waited in trigger.waiting.items() if waited.lane == "backfill"]
        require(not left, "backfill-exact", f"{text} is cancelled and {left} wait")
        right = entry.cause == "cancelled" and entry.fired_count == backfill.released_count
        require(right, "backfill-exact", f"{text}: {entry}, {backfill.released_count} were released")
        trigger.backfill = None
