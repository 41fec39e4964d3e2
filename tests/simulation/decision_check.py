"""Decisions of scheduled instants held against what is owed: rules 1 to 3, the policies, and what does not fire."""

from typing import TYPE_CHECKING

from fireledger.domain import entries as e
from tests.simulation.invariants import Invariant, Violation, require
from tests.simulation.paces import sheds
from tests.simulation.trigger_model import Owed, Span, TriggerModel

if TYPE_CHECKING:
    from tests.simulation.tick_check import TickCheck

MISSED = ("missed", "missed-paused")


class DecisionCheck:
    """What one scheduler's page decides of schedules."""

    def __init__(self, tick: "TickCheck") -> None:
        self.tick = tick
        self.book = tick.book
        self.now = tick.now
        self.owed: dict[str, list[tuple[Span, list[Owed]]]] = {}
        self.fired: dict[str, tuple[set[int], int | None]] = {}

    def nothing_left(self) -> None:
        """Whatever is decided of a span is decided up to now. Raises Violation."""
        for name, spans in self.owed.items():
            trigger = self.book.triggers[name]
            for span, left in spans:
                require(
                    not left or trigger.exhausted or span not in trigger.spans,
                    "nothing-lost",
                    f"{trigger.text(left[0].at if left else 0)} is owed and left out of page {self.tick.page.number}",
                )

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
        raise Violation(
            invariant, f"{trigger.text(at)} is decided on page {self.tick.page.number} and is not the next owed"
        )

    def _classes(self, trigger: TriggerModel, span: Span, owed: list[Owed]) -> None:
        """Work out the span's firing instants before its first decision."""
        key = f"{trigger.name}/{span.after}"
        if key in self.fired:
            return
        judged = [(each, trigger.judge(span, each, self.now)) for each in owed]
        missed = [each for each, kind in judged if kind in MISSED]
        self.fired[key] = trigger.firing(missed, [each for each, kind in judged if kind == "on-time"])

    def _next(self, trigger: TriggerModel, at: int) -> tuple[Span, Owed, str]:
        span, owed = self._span_of(trigger, at)
        self._classes(trigger, span, owed)
        each = owed[0]
        kind = trigger.judge(span, each, self.now)
        if kind != "taken":
            self.book.once(trigger, at)
        early = each.release - self.tick.true_now
        require(early <= self.book.slack.early, "never-early", f"{trigger.text(at)} is decided {early} us early")
        del owed[0]
        return span, each, kind

    def _mark(self, trigger: TriggerModel, span: Span, at: int, state: str) -> None:
        due = next(trigger.undecided(span, at), None)
        assert due is not None, "the next owed instant is undecided"
        assert due.at == at, "the next owed instant comes first"
        trigger.mark(span, due, state)
        self.book.decided_count += 1

    def fires(self, trigger: TriggerModel, entry: e.FireReleased | e.FireDecided) -> None:
        """An instant fires, at once or later. Raises Violation."""
        text = trigger.text(entry.scheduled)
        span, owed, kind = self._next(trigger, entry.scheduled)
        firing, _ = self.fired[f"{trigger.name}/{span.after}"]
        late = self.now - owed.release
        require(late <= trigger.definition.horizon, "horizon", f"{text} fires {late} us late")
        wanted = ("catch-up", "caught-up") if kind in MISSED else (kind, kind)
        found = (entry.lane, entry.cause)
        require(found == wanted, "policy", f"{text} fires in lane {entry.lane}, judged {kind}")
        require(entry.sequence == 0, "run-number", f"{text} fires with run number {entry.sequence}")
        if entry.lane == "catch-up":
            require(owed.at in firing, "cap", f"{text} is caught up; its policy fires {len(firing)} others")
        require(entry.release == owed.release, "never-early", f"{text} has release {entry.release}, not {owed.release}")
        require(entry.definition_page == trigger.definition_page, "policy", f"{text} has another definition")
        require(not trigger.exhausted, "maximum", f"{text} is above the maximum of fires")
        self._mark(trigger, span, entry.scheduled, "fired")
        trigger.fired_count += 1

    def resolved(self, trigger: TriggerModel, entry: e.InstantsResolved) -> None:
        """Instants do not fire. Raises Violation."""
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
            case "skipped", "ceiling":
                require(kind == "suspended", "suspension-exact", text)
            case "skipped", "shed":
                self._check_shed(kind, text)
            case "skipped", "paused":
                require(kind == "paused-skip" or (kind == "missed-paused" and missed == "skip"), "policy", text)
            case "skipped", "missed":
                require(kind == "missed" and missed == "skip", "policy", text)
            case "skipped", "overlap":
                busy = any(opened.lane == "on-time" for opened in trigger.open.values())
                require(kind == "on-time" and trigger.definition.overlap == "skip" and busy, "overlap", text)
            case "dropped", "over-cap":
                require(kind in MISSED and missed == "fire-all", "cap", text)
            case "coalesced", _:
                if kind == "taken":
                    require(entry.into == owed.at, "policy", text)
                else:
                    right = kind in MISSED and missed == "fire-once-now" and entry.into == into
                    require(right, "policy", text)
            case _:
                raise Violation("policy", text)

    def _check_shed(self, kind: str, text: str) -> None:
        """Only on-time fires within their quota are dropped for lack of time, and last of all."""
        over, level = self.book.paces.over_quota(self.now), self.tick.page.inputs.shedding_level
        shed = kind == "on-time" and not over and sheds("on-time", over_quota=False, level=level)
        require(shed, "shedding", f"{text} at level {level}")
