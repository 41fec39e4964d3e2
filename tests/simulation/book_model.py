"""The oracle's reading of one book: each page is held against what its entries must say, then noted."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fireledger.domain import entries as e
from fireledger.domain.definition import Definition
from fireledger.domain.page import Page
from tests.simulation.conclusions_model import Record
from tests.simulation.invariants import Violation, require
from tests.simulation.paces import TenantPaces
from tests.simulation.spending import Spending, period
from tests.simulation.trigger_model import Span, Stretch, TriggerModel, Zones

Fire = tuple[str, int, int]
"""Trigger, scheduled instant and sequence."""


@dataclass(slots=True)
class Slack:
    """How far clocks that were wrong within what the design accepts may move things, microseconds."""

    early: int = 0
    broker: int = 0


@dataclass(frozen=True, slots=True)
class Released:
    """A released attempt: from when on it may be made, the policy of then, and its page's place in the log."""

    earliest: int
    overlap: str
    sequence: int


@dataclass
class BookModel:
    """A tenant's book."""

    tenant: str
    zones: Zones
    slack: Slack
    now: int = 0
    as_of: int = 0
    jitters: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    triggers: dict[str, TriggerModel] = field(default_factory=dict[str, TriggerModel])
    unobserved: deque[Record] = field(default_factory=deque[Record])
    results: dict[Fire, list[Record]] = field(default_factory=dict[Fire, list[Record]])
    finished: dict[Fire, tuple[str, int]] = field(default_factory=dict[Fire, tuple[str, int]])
    """Outcome and LEDGER sequence of each finished fire."""
    released: dict[tuple[Fire, int], Released] = field(default_factory=dict[tuple[Fire, int], Released])
    """By fire and attempt."""
    paces: TenantPaces = field(default_factory=TenantPaces)
    spending: dict[tuple[str | None, e.Period], Spending] = field(
        default_factory=dict[tuple[str | None, e.Period], Spending]
    )
    suspended_until: int | None = None
    suspensions: list[Stretch] = field(default_factory=list[Stretch])
    grants: dict[str | None, int] = field(default_factory=dict[str | None, int])
    effective: set[int] = field(default_factory=set[int])
    """Numbers of the pages that took effect."""
    fire_count: int = 0
    retry_count: int = 0
    decided_count: int = 0

    def begin(self, page: Page) -> list[Record]:
        """Take an effective page's inputs; what it observes. Raises Violation."""
        inputs = page.inputs
        require(inputs.now >= self.now, "now-forward", f"{self.page(page)}: now went back")
        require(inputs.as_of >= self.as_of, "now-forward", f"{self.page(page)}: as_of went back")
        return self._observed(page)

    def end(self, page: Page) -> None:
        """All its entries are taken."""
        self.now, self.as_of = page.inputs.now, page.inputs.as_of
        self.effective.add(page.number)

    def page(self, page: Page) -> str:
        """A page for a message."""
        return f"book {self.tenant} page {page.number}"

    def _observed(self, page: Page) -> list[Record]:
        wanted: list[Record] = []
        while self.unobserved and self.unobserved[0].sequence <= page.inputs.as_of:
            wanted.append(self.unobserved.popleft())
        found = [entry for entry in page.entries if isinstance(entry, e.AttemptObserved)]
        mine = [(r.sequence, r.stamped_at, r.record.trigger, r.fire, r.record.attempt) for r in wanted]
        theirs = [(o.source_sequence, o.stamped_at, o.trigger, (o.scheduled, o.sequence), o.attempt) for o in found]
        require(mine == theirs, "observed-complete", f"{self.page(page)} observes {theirs}, the log has {mine}")
        for each in wanted:
            cost = 0 if isinstance(each.record, e.AttemptStarted) else each.record.cost or 0
            for (owner, _), spending in self.spending.items():
                if owner in (None, each.record.trigger):
                    spending.charge(cost, page.inputs.now)
        return wanted

    # Definitions

    def defined(self, entry: e.BookEntry, page: Page) -> None:
        """Take an entry about a tenant's or a trigger's definition. Raises Violation."""
        now = page.inputs.now
        match entry:
            case e.TenantCreated() | e.TenantAmended():
                self.paces.settings = entry.settings
                if not self.jitters or self.jitters[-1][1] != entry.settings.default_jitter:
                    self.jitters.append((now if self.jitters else 0, entry.settings.default_jitter))
            case e.ZoneDataAdopted():
                self.zones.adoptions.append((now, entry.sha256))
            case e.TriggerCreated():
                self._created(entry, page)
            case e.TriggerAmended():
                self._amended(self.triggers[entry.trigger], entry.definition, page)
            case e.SegmentSettled():
                self.settle(entry, given_up=bool(page.inputs.quarantine))
            case e.TriggerPaused():
                trigger = self.triggers[entry.trigger]
                trigger.paused = True
                trigger.pauses.append((now, None, "policy"))
            case e.TriggerResumed():
                self._resumed(entry, page)
            case e.TriggerQuarantined():
                self.quarantine(entry, now)
            case e.InstantsResolved():
                self._cancelled(entry, page)
            case e.TriggerDeleted():
                self._deleted(entry, page)
            case _:
                raise Violation("one-state", f"{self.page(page)}: a command's page holds {type(entry).__name__}")

    def _created(self, entry: e.TriggerCreated, page: Page) -> None:
        before = self.triggers.get(entry.trigger)
        require(before is None or before.deleted, "one-state", f"{entry.trigger} is created twice")
        now = page.inputs.now
        trigger = TriggerModel(
            self.tenant, entry.trigger, entry.definition, page.number, self.zones, self.jitters,
            spans=[Span(entry.definition, now)], paused=entry.paused, suspensions=self.suspensions,
        )  # fmt: skip
        if before is not None:
            trigger.states, trigger.open, trigger.run_number = before.states, before.open, before.run_number
        if entry.paused:
            trigger.pauses.append((now, None, "policy"))
        self.triggers[entry.trigger] = trigger

    def _amended(self, trigger: TriggerModel, definition: Definition, page: Page) -> None:
        now, last = page.inputs.now, trigger.spans[-1]
        # Local times up to now are the earlier definition's, and stay so when new zone data puts them later.
        opened = Span(definition, now, covers=[(self.zones.adoptions[-1][1], now)])
        if trigger.exhausted:
            trigger.spans = [opened]
        elif not last.same_timing(definition):
            if last.after == now:
                trigger.spans.pop()
            else:
                last.until = now
            trigger.spans.append(opened)
        if trigger.quarantined:
            trigger.quarantined = False
            trigger.pauses = [
                (start, now if end is None and kind == "quarantined" else end, kind)
                for start, end, kind in trigger.pauses
            ]
        trigger.definition, trigger.definition_page = definition, page.number

    def settle(self, entry: e.SegmentSettled, *, given_up: bool = False) -> None:
        """A closed span owes nothing more."""
        trigger = self.triggers[entry.trigger]
        spans = [span for span in trigger.spans if span.until == entry.until]
        require(len(spans) == 1, "nothing-lost", f"{trigger.text(entry.until)} ends no span")
        left = next(trigger.undecided(spans[0], entry.until), None)
        require(
            left is None or given_up,
            "nothing-lost",
            f"{trigger.text(left.at if left else 0)} is owed, and its span is settled",
        )
        trigger.spans.remove(spans[0])
        trigger.forget_pauses()

    def _resumed(self, entry: e.TriggerResumed, page: Page) -> None:
        trigger, now = self.triggers[entry.trigger], page.inputs.now
        require(trigger.paused, "pause-exact", f"{trigger.name} is resumed and was not paused")
        owed = 0 if trigger.exhausted else sum(len(trigger.owed(span, now)) for span in trigger.spans)
        given_up = bool(page.inputs.quarantine)
        require(
            owed == entry.owed_count or given_up,
            "pause-exact",
            f"{self.page(page)} resumes {entry.owed_count}, owed are {owed}",
        )
        trigger.paused = False
        kind = "skip" if entry.on_resume == "skip" else "policy"
        trigger.pauses = [
            (start, now, kind) if end is None and what == "policy" else (start, end, what)
            for start, end, what in trigger.pauses
            # A pause in which nothing fell due is forgotten; only new zone data could move something into it.
            if entry.owed_count or end is not None or what != "policy"
        ]

    def quarantine(self, entry: e.TriggerQuarantined, now: int) -> None:
        """A trigger could not be decided on a node."""
        trigger = self.triggers[entry.trigger]
        trigger.quarantined = True
        trigger.pauses.append((now, None, "quarantined"))

    def _cancelled(self, entry: e.InstantsResolved, page: Page) -> None:
        trigger = self.triggers[entry.trigger]
        if entry.state == "coalesced":
            self._taken(trigger, entry)
            return
        require(entry.state == "cancelled", "cancelled-on-delete", f"a command resolves {entry}")
        for span in trigger.spans:
            found = list(trigger.undecided(span, min(entry.last, page.inputs.now)))
            if found and (found[0].at, found[-1].at) == (entry.first, entry.last):
                require(len(found) == entry.count, "cancelled-on-delete", f"{entry} counts {len(found)} instants")
                for due in found:
                    self.once(trigger, due.at)
                    trigger.mark(span, due, "cancelled")
                self.decided_count += len(found)
                return
        raise Violation("cancelled-on-delete", f"{self.page(page)}: {entry} is no owed stretch")

    def _taken(self, trigger: TriggerModel, entry: e.InstantsResolved) -> None:
        """A deleted trigger's instant that new zone data had moved onto a decided key."""
        found = [(span, due) for span in trigger.spans for due in trigger.undecided(span, entry.last)]
        right = (
            (entry.first, entry.count, entry.into) == (entry.last, 1, entry.last)
            and entry.last in trigger.states
            and len(self.zones.adoptions) > 1
            and [due.at for _, due in found] == [entry.last]
        )
        require(right, "cancelled-on-delete", f"a command resolves {entry}, undecided are {found[:3]}")
        trigger.mark(*found[0], trigger.states[entry.last])

    def withdrawn(self, entry: e.FireWithdrawn, state: str) -> None:
        """A waiting fire ends without being released."""
        trigger, fire = self.triggers[entry.trigger], (entry.scheduled, entry.sequence)
        text = trigger.text(*fire)
        require(entry.state == state, "one-state", f"{text} is withdrawn as {entry.state}")
        require(fire in trigger.waiting, "one-state", f"{text} is withdrawn and did not wait")
        del trigger.waiting[fire]
        if not entry.sequence:
            trigger.fired_count -= 1
            trigger.states[entry.scheduled] = entry.state

    def _deleted(self, entry: e.TriggerDeleted, page: Page) -> None:
        trigger, now = self.triggers[entry.trigger], page.inputs.now
        require(not trigger.waiting, "cancelled-on-delete", f"{trigger.name} is deleted and fires wait")
        retries = [fire for fire, opened in trigger.open.items() if opened.retry_at is not None]
        require(not retries, "cancelled-on-delete", f"{trigger.name} is deleted and retries wait: {retries}")
        require(trigger.backfill is None, "cancelled-on-delete", f"{trigger.name} is deleted in its backfill")
        for name in [name for name in self.spending if name[0] == trigger.name]:
            del self.spending[name]
        self.grants.pop(trigger.name, None)
        trigger.suspended_until = None
        withdrawn = sum(isinstance(each, e.FireWithdrawn) and not each.sequence for each in page.entries)
        # A trigger whose last fire waited owed nothing, although that fire's place is given back in this very page.
        most, made = trigger.definition.max_fires, trigger.fired_count + withdrawn
        if not (page.inputs.quarantine or (most is not None and made >= most)):
            for span in trigger.spans:
                left = next(trigger.undecided(span, now), None)
                text = trigger.text(left.at if left else 0)
                require(left is None, "cancelled-on-delete", f"{text} is neither decided nor cancelled")
        trigger.deleted, trigger.paused, trigger.quarantined = True, False, False
        trigger.spans, trigger.pauses = [], []
        for opened in trigger.open.values():
            opened.of_deleted = True

    def once(self, trigger: TriggerModel, at: int) -> None:
        """No key is decided twice."""
        require(at not in trigger.states, "one-state", f"{trigger.text(at)} is decided a second time")

    def run_numbered(self, entry: e.FireEntry) -> TriggerModel:
        """A fire beside the schedule takes the next run number."""
        trigger = self.triggers[entry.trigger]
        text = trigger.text(entry.scheduled, entry.sequence)
        require(entry.sequence == trigger.run_number + 1, "run-number", f"{text} comes after {trigger.run_number}")
        trigger.run_number = entry.sequence
        return trigger

    # Stopping

    def deciding(self, trigger: TriggerModel) -> bool:
        """Whether anything of a trigger may be decided or released."""
        return self.suspended_until is None and trigger.deciding

    def spends(self, owner: str | None) -> Iterator[tuple[e.Period, Spending]]:
        """The ceilings of a trigger or the tenant."""
        for (whose, per), spending in self.spending.items():
            if whose == owner:
                yield per, spending

    def period(self, owner: str | None, per: e.Period, now: int) -> tuple[int, int]:
        """The present period of a ceiling."""
        zone = self.paces.settings.zone if owner is None else self.triggers[owner].definition.zone
        return period(per, now, self.zones.offsets(self.zones.adoptions[-1][1], zone))

    def suspended(self, owner: str | None) -> int | None:
        """Until when a trigger, or the tenant, is suspended."""
        return self.suspended_until if owner is None else self.triggers[owner].suspended_until

    # What is left

    def at_rest(self) -> bool:
        """Whether every attempt is observed, and nothing is under way.

        A fire that waits for a person, for a retry's instant, or in a trigger that stands still, is at rest.
        """
        if self.unobserved:
            return False
        for trigger in self.triggers.values():
            if any(not opened.held and opened.retry_at is None for opened in trigger.open.values()):
                return False
            if ((trigger.waiting and not trigger.blocked) or trigger.backfill) and self.deciding(trigger):
                return False
        return True

    def next_release(self, until: int) -> int:
        """When something of the book is next released, or goes on, ``until`` at the latest."""
        found = min(until, self.suspended_until or until)
        for trigger in self.triggers.values():
            found = min(found, trigger.suspended_until or until)
            if not self.deciding(trigger):
                continue
            found = min([found, *(each.retry_at for each in trigger.open.values() if each.retry_at is not None)])
            if not trigger.exhausted:
                for span in trigger.spans:
                    found = min(found, trigger.next_release(span, until) or until)
        return found

    def overdue(self, due_before: int, released_before: int) -> Iterable[str]:
        """What of all that was due or released before these instants is still not decided, released or finished."""
        for trigger in self.triggers.values():
            stands = not self.deciding(trigger)
            for fire, opened in trigger.open.items():
                since = max(opened.since, opened.retry_at or 0)
                if since < released_before and not (stands and opened.retry_at is not None):
                    yield f"{trigger.text(*fire)} has no outcome: {opened}"
            if stands:
                continue
            for fire, waited in trigger.waiting.items():
                if waited.lane == "on-time" and waited.since < released_before and not trigger.open:
                    yield f"{trigger.text(*fire)} waits, and nothing of its trigger is open"
            if trigger.exhausted:
                continue
            for span in trigger.spans:
                owed = trigger.owed(span, due_before)
                if owed:
                    yield f"{trigger.text(owed[0].at)} is not decided, nor {len(owed) - 1} after it"

    def left_over(self) -> Iterator[str]:
        """What waits for a pace, a retry's instant or a person."""
        for trigger in self.triggers.values():
            if trigger.backfill is not None:
                yield f"backfill {trigger.backfill.label} of {self.tenant}/{trigger.name}"
            for fire, waited in trigger.waiting.items():
                if waited.lane != "on-time":
                    yield f"{trigger.text(*fire)} waits in lane {waited.lane}"
            for fire, opened in trigger.open.items():
                if opened.held or opened.retry_at is not None:
                    yield f"{trigger.text(*fire)} waits: {opened}"
