"""The oracle's reading of one book: each page is held against what its entries must say, then noted."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.definition import Definition
from fireledger.domain.page import Page
from tests.simulation.invariants import Invariant, Violation, require
from tests.simulation.trigger_model import Opened, Owed, Span, TriggerModel, Zones

Decision = e.FireReleased | e.FireDecided | e.InstantsResolved


@dataclass(frozen=True, slots=True)
class Record:
    """An attempt record of a tenant as the log holds it."""

    sequence: int
    stamped_at: int
    record: e.AttemptRecord


@dataclass(slots=True)
class Slack:
    """How far clocks that were wrong within what the design accepts may move things, microseconds."""

    early: int = 0
    broker: int = 0


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
    results: dict[tuple[str, int], list[Record]] = field(default_factory=dict[tuple[str, int], list[Record]])
    finished: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict[tuple[str, int], tuple[str, int]])
    """Outcome and LEDGER sequence of each finished fire."""
    released: dict[tuple[str, int], Opened] = field(default_factory=dict[tuple[str, int], Opened])
    effective: set[int] = field(default_factory=set[int])
    """Numbers of the pages that took effect."""
    fire_count: int = 0
    decided_count: int = 0

    def apply(self, page: Page, sequence: int, true_now: int) -> None:
        """Take an effective page. Raises Violation."""
        inputs = page.inputs
        require(inputs.now >= self.now, "now-forward", f"{self._page(page)}: now went back")
        require(inputs.as_of >= self.as_of, "now-forward", f"{self._page(page)}: as_of went back")
        self._observed(page)
        if isinstance(page.command, c.Tick):
            _Tick(self, page, sequence, true_now).check()
        else:
            for entry in page.entries:
                self._command_entry(entry, page)
        self.now, self.as_of = inputs.now, inputs.as_of
        self.effective.add(page.number)

    def _page(self, page: Page) -> str:
        return f"book {self.tenant} page {page.number}"

    def _observed(self, page: Page) -> None:
        wanted: list[Record] = []
        while self.unobserved and self.unobserved[0].sequence <= page.inputs.as_of:
            wanted.append(self.unobserved.popleft())
        found = [entry for entry in page.entries if isinstance(entry, e.AttemptObserved)]
        mine = [(r.sequence, r.stamped_at, r.record.trigger, r.record.scheduled, r.record.attempt) for r in wanted]
        theirs = [(o.source_sequence, o.stamped_at, o.trigger, o.scheduled, o.attempt) for o in found]
        require(mine == theirs, "observed-complete", f"{self._page(page)} observes {theirs}, the log has {mine}")

    # Commands

    def _command_entry(self, entry: e.BookEntry, page: Page) -> None:
        now = page.inputs.now
        match entry:
            case e.TenantCreated() | e.TenantAmended():
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
            case e.FireWithdrawn():
                self.withdrawn(entry, "cancelled")
            case e.TriggerDeleted():
                self._deleted(entry, page)
            case _:
                raise Violation("one-state", f"{self._page(page)}: a command's page holds {type(entry).__name__}")

    def _created(self, entry: e.TriggerCreated, page: Page) -> None:
        before = self.triggers.get(entry.trigger)
        require(before is None or before.deleted, "one-state", f"{entry.trigger} is created twice")
        now = page.inputs.now
        trigger = TriggerModel(
            self.tenant, entry.trigger, entry.definition, page.number, self.zones, self.jitters,
            spans=[Span(entry.definition, now)], paused=entry.paused,
        )  # fmt: skip
        if before is not None:
            trigger.states, trigger.open = before.states, before.open
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
            f"{self._page(page)} resumes {entry.owed_count}, owed are {owed}",
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
        raise Violation("cancelled-on-delete", f"{self._page(page)}: {entry} is no owed stretch")

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
        trigger = self.triggers[entry.trigger]
        text = trigger.text(entry.scheduled)
        require(entry.state == state, "one-state", f"{text} is withdrawn as {entry.state}")
        require(entry.scheduled in trigger.waiting, "one-state", f"{text} is withdrawn and did not wait")
        del trigger.waiting[entry.scheduled]
        trigger.fired_count -= 1
        trigger.states[entry.scheduled] = entry.state

    def _deleted(self, entry: e.TriggerDeleted, page: Page) -> None:
        trigger, now = self.triggers[entry.trigger], page.inputs.now
        require(not trigger.waiting, "cancelled-on-delete", f"{trigger.name} is deleted and fires wait")
        if not trigger.exhausted and not page.inputs.quarantine:
            for span in trigger.spans:
                left = next(trigger.undecided(span, now), None)
                text = trigger.text(left.at if left else 0)
                require(left is None, "cancelled-on-delete", f"{text} is neither decided nor cancelled")
        trigger.deleted, trigger.paused, trigger.quarantined = True, False, False
        trigger.spans, trigger.pauses = [], []

    def once(self, trigger: TriggerModel, at: int) -> None:
        """No key is decided twice."""
        require(at not in trigger.states, "one-state", f"{trigger.text(at)} is decided a second time")

    # What is left

    def at_rest(self) -> bool:
        """Whether every attempt is observed, and no fire is open or waits."""
        if self.unobserved:
            return False
        return not any(trigger.open or trigger.waiting for trigger in self.triggers.values())

    def next_release(self, until: int) -> int:
        """When something of the book is next released, ``until`` at the latest."""
        found = until
        for trigger in self.triggers.values():
            if trigger.deciding and not trigger.exhausted:
                for span in trigger.spans:
                    found = min(found, trigger.next_release(span, until) or until)
        return found

    def overdue(self, due_before: int, released_before: int) -> Iterable[str]:
        """What of all that was due or released before these instants is still not decided, released or finished."""
        for trigger in self.triggers.values():
            for at, opened in trigger.open.items():
                if opened.released_at < released_before:
                    yield f"{trigger.text(at)} has no outcome"
            if not trigger.deciding:
                continue
            if trigger.waiting and not trigger.open:
                yield f"{trigger.name} has waiting fires and none is open"
            if trigger.exhausted:
                continue
            for span in trigger.spans:
                owed = trigger.owed(span, due_before)
                if owed:
                    yield f"{trigger.text(owed[0].at)} is not decided, nor {len(owed) - 1} after it"


class _Tick:
    """One scheduler's page under check."""

    def __init__(self, book: BookModel, page: Page, sequence: int, true_now: int) -> None:
        self.book = book
        self.page = page
        self.sequence = sequence
        self.true_now = true_now
        self.now = page.inputs.now
        self.owed: dict[str, list[tuple[Span, list[Owed]]]] = {}
        self.fired: dict[str, tuple[set[int], int | None]] = {}

    def check(self) -> None:
        """Check and note every entry. Raises Violation."""
        for entry in self.page.entries:
            match entry:
                case e.AttemptObserved() | e.ClockNoted():
                    pass
                case e.FireFinished():
                    self._finished(entry)
                case e.TriggerQuarantined():
                    self.book.quarantine(entry, self.now)
                case e.FireReleased() if not entry.decides:
                    self._released_after_waiting(entry)
                case e.FireReleased() | e.FireDecided() | e.InstantsResolved():
                    self._decision(entry)
                case e.FireWithdrawn():
                    self._replaced(entry)
                case e.SegmentSettled():
                    self.book.settle(entry)
                case _:
                    raise Violation("one-state", f"a scheduler's page holds {type(entry).__name__}")
        for name, spans in self.owed.items():
            trigger = self.book.triggers[name]
            for span, left in spans:
                require(
                    not left or trigger.exhausted or span not in trigger.spans,
                    "nothing-lost",
                    f"{trigger.text(left[0].at if left else 0)} is owed and left out of page {self.page.number}",
                )

    def _trigger(self, name: str) -> TriggerModel:
        trigger = self.book.triggers[name]
        invariant: Invariant = "quarantine" if trigger.quarantined else "pause-exact"
        if trigger.deleted:
            invariant = "cancelled-on-delete"
        require(trigger.deciding, invariant, f"{self.book.tenant}/{name} is not to be decided, page {self.page.number}")
        return trigger

    def _span_of(self, trigger: TriggerModel, at: int) -> tuple[Span, list[Owed]]:
        """The span that owes this instant now, with what it owes from there on; it must be the next one."""
        if trigger.name not in self.owed:
            self.owed[trigger.name] = [(span, trigger.owed(span, self.now)) for span in trigger.spans]
        for span, owed in self.owed[trigger.name]:
            if owed and owed[0].at == at:
                return span, owed
        known = any(each.at == at for _, owed in self.owed[trigger.name] for each in owed)
        if at in trigger.states:
            raise Violation("one-state", f"{trigger.text(at)} is decided a second time")
        invariant: Invariant = "nothing-lost" if known else "never-early"
        raise Violation(invariant, f"{trigger.text(at)} is decided on page {self.page.number} and is not the next owed")

    def _decision(self, entry: Decision) -> None:
        trigger = self._trigger(entry.trigger)
        if isinstance(entry, e.InstantsResolved):
            self._resolved(trigger, entry)
        else:
            self._fires(trigger, entry)

    def _classes(self, trigger: TriggerModel, span: Span, owed: list[Owed]) -> None:
        """Work out the span's firing instants before its first decision."""
        key = f"{trigger.name}/{span.after}"
        if key in self.fired:
            return
        judged = [(each, trigger.judge(span, each, self.now)) for each in owed]
        missed = [each for each, kind in judged if kind in ("missed", "missed-paused")]
        self.fired[key] = trigger.firing(missed, [each for each, kind in judged if kind == "on-time"])

    def _next(self, trigger: TriggerModel, at: int) -> tuple[Span, Owed, str]:
        span, owed = self._span_of(trigger, at)
        self._classes(trigger, span, owed)
        each = owed[0]
        kind = trigger.judge(span, each, self.now)
        if kind != "taken":
            self.book.once(trigger, at)
        early = each.release - self.true_now
        require(early <= self.book.slack.early, "never-early", f"{trigger.text(at)} is decided {early} us early")
        del owed[0]
        return span, each, kind

    def _mark(self, trigger: TriggerModel, span: Span, at: int, state: str) -> None:
        due = next(trigger.undecided(span, at), None)
        assert due is not None, "the next owed instant is undecided"
        assert due.at == at, "the next owed instant comes first"
        trigger.mark(span, due, state)
        self.book.decided_count += 1

    def _fires(self, trigger: TriggerModel, entry: e.FireReleased | e.FireDecided) -> None:
        text = trigger.text(entry.scheduled)
        span, owed, kind = self._next(trigger, entry.scheduled)
        firing, _ = self.fired[f"{trigger.name}/{span.after}"]
        late = self.now - owed.release
        require(late <= trigger.definition.horizon, "horizon", f"{text} fires {late} us late")
        wanted = "catch-up" if kind in ("missed", "missed-paused") else kind
        require(entry.lane == wanted, "policy", f"{text} fires in lane {entry.lane}, judged {kind}")
        if entry.lane == "catch-up":
            require(owed.at in firing, "cap", f"{text} is caught up; its policy fires {len(firing)} others")
        require(entry.release == owed.release, "never-early", f"{text} has release {entry.release}, not {owed.release}")
        require(entry.definition_page == trigger.definition_page, "policy", f"{text} has another definition")
        require(not trigger.exhausted, "maximum", f"{text} is above the maximum of fires")
        self._mark(trigger, span, entry.scheduled, "fired")
        trigger.fired_count += 1
        if isinstance(entry, e.FireReleased):
            self._released(trigger, entry)
            return
        # A catch-up fire may wait for its lane's pace as well, of which the oracle knows only that it ends.
        may_wait = entry.lane == "catch-up" or (bool(trigger.open) and trigger.definition.overlap != "allow")
        require(may_wait, "overlap", f"{text} waits for nothing")
        trigger.waiting[entry.scheduled] = entry.lane
        ahead = [at for at, lane in trigger.waiting.items() if lane == entry.lane == "on-time"]
        require(len(ahead) <= 1, "overlap", f"{text} waits beside another on-time fire")

    def _released(self, trigger: TriggerModel, entry: e.FireReleased) -> None:
        text = trigger.text(entry.scheduled)
        overlap = trigger.definition.overlap
        require(overlap == "allow" or not trigger.open, "overlap", f"{text} is released beside {list(trigger.open)}")
        opened = Opened(entry.release, entry.lane, overlap, self.sequence, self.now, trigger.definition.outcome_window)
        trigger.open[entry.scheduled] = opened
        self.book.released[trigger.name, entry.scheduled] = opened
        self.book.fire_count += 1

    def _released_after_waiting(self, entry: e.FireReleased) -> None:
        trigger = self._trigger(entry.trigger)
        text = trigger.text(entry.scheduled)
        require(entry.scheduled in trigger.waiting, "one-state", f"{text} is released and did not wait")
        lanes = list(trigger.waiting.values())
        first = "on-time" if "on-time" in lanes else "catch-up"
        oldest = min(at for at, lane in trigger.waiting.items() if lane == first)
        require(entry.scheduled == oldest, "overlap", f"{text} goes before {trigger.text(oldest)}")
        del trigger.waiting[entry.scheduled]
        self._released(trigger, entry)

    def _replaced(self, entry: e.FireWithdrawn) -> None:
        trigger = self._trigger(entry.trigger)
        text = trigger.text(entry.scheduled)
        require(entry.cause == "replaced", "overlap", f"{text} is withdrawn, {entry.cause}")
        require(trigger.waiting.get(entry.scheduled) == "on-time", "overlap", f"{text} is replaced and did not wait")
        self.book.withdrawn(entry, "skipped")

    def _resolved(self, trigger: TriggerModel, entry: e.InstantsResolved) -> None:
        at: int | None = entry.first
        for number in range(entry.count):
            require(at is not None, "nothing-lost", f"{entry} counts more than is owed")
            assert at is not None
            span, owed, kind = self._next(trigger, at)
            firing, into = self.fired[f"{trigger.name}/{span.after}"]
            self._check_unfired(trigger, entry, owed, kind, into)
            require(owed.at not in firing, "policy", f"{trigger.text(at)} should fire, and is {entry.state}")
            if kind == "taken":
                state = trigger.states[at]
                self._mark(trigger, span, at, state)
            else:
                self._mark(trigger, span, at, entry.state)
            last = number == entry.count - 1
            require(not last or at == entry.last, "nothing-lost", f"{entry} does not end where its count does")
            left = [each for other, each in self.owed[trigger.name] if other is span]
            at = left[0][0].at if left and left[0] else None

    def _check_unfired(
        self, trigger: TriggerModel, entry: e.InstantsResolved, owed: Owed, kind: str, into: int | None
    ) -> None:
        text = f"{trigger.text(owed.at)} ({kind}) is {entry.state}, {entry.cause}"
        missed = trigger.definition.missed
        late = self.now - owed.release
        match entry.state, entry.cause:
            case "expired", _:
                require(kind == "expired" and late > trigger.definition.horizon, "horizon", text)
            case "skipped", "quarantined":
                require(kind == "quarantined", "quarantine", text)
            case "skipped", "paused":
                require(kind == "paused-skip" or (kind == "missed-paused" and missed == "skip"), "policy", text)
            case "skipped", "missed":
                require(kind == "missed" and missed == "skip", "policy", text)
            case "skipped", "overlap":
                busy = any(opened.lane == "on-time" for opened in trigger.open.values())
                require(kind == "on-time" and trigger.definition.overlap == "skip" and busy, "overlap", text)
            case "dropped", "over-cap":
                require(kind in ("missed", "missed-paused") and missed == "fire-all", "cap", text)
            case "coalesced", _:
                if kind == "taken":
                    require(entry.into == owed.at, "policy", text)
                else:
                    right = kind in ("missed", "missed-paused") and missed == "fire-once-now" and entry.into == into
                    require(right, "policy", text)
            case _:
                raise Violation("policy", text)

    def _finished(self, entry: e.FireFinished) -> None:
        trigger = self.book.triggers[entry.trigger]
        text = trigger.text(entry.scheduled)
        require(entry.scheduled in trigger.open, "one-state", f"{text} is finished and was not open")
        opened = trigger.open.pop(entry.scheduled)
        records = self.book.results.get((entry.trigger, entry.scheduled), [])
        starts = [r for r in records if isinstance(r.record, e.AttemptStarted) and r.sequence <= self.page.inputs.as_of]
        deadline = starts[-1].stamped_at + opened.window if starts else 0
        in_time = [
            r.record.result
            for r in records
            if isinstance(r.record, e.AttemptResult) and r.stamped_at < deadline - self.book.slack.broker
        ]
        if entry.cause == "outcome window over":
            require(not in_time, "outcome-true", f"{text} is unknown and has the result {in_time}")
            require(
                bool(starts) and self.page.inputs.now >= deadline, "outcome-true", f"{text}: the window is not over"
            )
        else:
            results = [r.record.result for r in records if isinstance(r.record, e.AttemptResult)]
            wanted = {"succeeded": "succeeded", "failed": "final retryable", "unknown": "timeout"}[entry.outcome]
            right = bool(results) and results[0] in wanted.split()
            require(right, "outcome-true", f"{text} is {entry.outcome}, its results are {results}")
        self.book.finished[entry.trigger, entry.scheduled] = (entry.outcome, self.sequence)
