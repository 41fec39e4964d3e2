"""Draws a scenario's book as lines of text under one axis of time: a line for each fire, and one for each stretch.

Everything that is drawn is read from the book's pages, but for the stretches in which nobody decided.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fireledger.domain import entries as e
from fireledger.domain.instants import DAY, MINUTE, format_instant
from fireledger.domain.page import decode_page
from tests.tidy.policy_scenarios import Scenario

WIDTH = 60
"""Columns between the first and the last instant, about: each step has as many as another."""
OWED, WAITING, OPEN, RETRYING, HELD, BAR = "-", ".", "=", "~", "h", "#"

_LEGEND = {
    "o": "o scheduled",
    OWED: f"{OWED} not decided yet",
    WAITING: f"{WAITING} decided, waits",
    "1": "1 2 3 that attempt is released",
    OPEN: f"{OPEN} open",
    RETRYING: f"{RETRYING} a retry waits",
    HELD: f"{HELD} held",
    "x": "x decided: does not fire",
    "^": "^ a command",
    BAR: f"{BAR} goes on",
}


@dataclass(slots=True)
class _Line:
    """One line: a label, what is drawn at which instants, and the text after it."""

    label: str
    order: tuple[int, int]
    spans: list[tuple[int, int | None, str]] = field(default_factory=list[tuple[int, int | None, str]])
    marks: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    text: str = ""

    def go_on(self, at: int, fill: str | None) -> None:
        """End what is going on at an instant, and begin something else, if any."""
        self.spans = [(start, at if end is None else end, used) for start, end, used in self.spans]
        if fill is not None:
            self.spans.append((at, None, fill))


def picture(scenario: Scenario) -> str:
    """The scenario's timeline, its legend included."""
    book = scenario.book
    low, high = book.instant(scenario.begin), book.instant(scenario.end)
    lines = [*_down(scenario), *_Drawing(scenario).lines()]
    scale = _Scale(low, high, _width(scenario, low, high))
    drawn = [(line, _columns(line, scale)) for line in sorted(lines, key=lambda each: each.order)]
    indent = max(len(line.label) for line in lines) + 2
    rows = [f"{line.label.ljust(indent)}{columns}  {line.text}".rstrip() for line, columns in drawn]
    used = {symbol for _, columns in drawn for symbol in columns}
    legend = [text for symbol, text in _LEGEND.items() if symbol in used]
    return "\n".join([*_axis(scenario, scale, indent), *rows, "", *_folded(legend)])


def _folded(legend: list[str]) -> Iterator[str]:
    line = ""
    for text in legend:
        if line and len(line) + 3 + len(text) > 100:
            yield line
            line = ""
        line = f"{line}   {text}" if line else text
    yield line


def _width(scenario: Scenario, low: int, high: int) -> int:
    steps = -(-(high - low) // scenario.step)
    return WIDTH // steps * steps


@dataclass(frozen=True, slots=True)
class _Scale:
    """Which column an instant falls on."""

    low: int
    high: int
    width: int

    def place(self, at: int) -> int:
        """The column of an instant, which may lie outside."""
        return (at - self.low) * self.width // (self.high - self.low)


def _axis(scenario: Scenario, scale: _Scale, indent: int) -> Iterator[str]:
    names, ticks = [" "] * (scale.width + 12), [" "] * (scale.width + 1)
    for at in range(scale.low, scale.high + 1, scenario.step):
        name, place = _time(at, scenario), scale.place(at)
        names[place : place + len(name)] = name
        ticks[place] = "|"
    yield (" " * indent + "".join(names)).rstrip()
    yield (" " * indent + "".join(ticks)).rstrip()


def _time(at: int, scenario: Scenario) -> str:
    """An instant as short as the picture's scale allows."""
    text = format_instant(at)
    if scenario.step >= DAY:
        return text[5:10]
    if scenario.step % MINUTE or at % MINUTE:
        return text[11:19]
    return text[11:16]


def _columns(line: _Line, scale: _Scale) -> str:
    """The line's drawing; where several fall on one column the later one shows."""
    cells = [" "] * (scale.width + 1)
    for start, end, fill in line.spans:
        last = scale.high if end is None else end
        if last < scale.low or start > scale.high:
            continue
        first = max(0, scale.place(start))
        for place in range(first, min(scale.width, max(first, scale.place(last))) + 1):
            cells[place] = fill
    for at, symbol in line.marks:
        if scale.low <= at <= scale.high:
            cells[scale.place(at)] = symbol
    return "".join(cells).rstrip()


def _down(scenario: Scenario) -> Iterable[_Line]:
    if scenario.down is None:
        return ()
    start, end = (scenario.book.instant(each) for each in scenario.down)
    return (_Line("no scheduler", (0, 0), spans=[(start, end, BAR)]),)


class _Drawing:
    """Lines in the making, from the pages of a book."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._fires: dict[tuple[str, int, int], _Line] = {}
        self._others: list[_Line] = []
        self._stretches: dict[str, _Line] = {}
        named: set[str] = set()
        for written in scenario.book.written:
            page = decode_page(written.body)
            named.update(name for entry in page.entries if (name := getattr(entry, "trigger", None)))
        self._several = len(named) > 1

    def lines(self) -> list[_Line]:
        """Every line of the book."""
        for written in self._scenario.book.written:
            page = decode_page(written.body)
            for entry in page.entries:
                self._draw(entry, page.inputs.now)
        return [*self._fires.values(), *self._others, *self._stretches.values()]

    def _label(self, trigger: str, at: int, sequence: int = 0) -> str:
        name = f"{trigger} " if self._several else ""
        return f"{name}{_time(at, self._scenario)}{f'/{sequence}' if sequence else ''}"

    def _fire(self, entry: e.FireEntry) -> _Line:
        identity = (entry.trigger, entry.scheduled, entry.sequence)
        if identity not in self._fires:
            line = _Line(self._label(*identity), (entry.scheduled, 1 + entry.sequence))
            line.marks.append((entry.scheduled, "o"))
            self._fires[identity] = line
        return self._fires[identity]

    def _draw(self, entry: e.BookEntry, now: int) -> None:
        match entry:
            case e.InstantsResolved():
                self._range(entry, now)
            case e.FireDecided() | e.FireRequested() | e.FireReleased():
                self._begun(entry, now)
            case e.RetryScheduled():
                self._fire(entry).go_on(now, RETRYING)
            case e.FireHeld():
                self._fire(entry).go_on(now, HELD)
            case e.HeldFireReleased():
                self._fire(entry).go_on(now, WAITING)
            case e.FireFinished():
                self._ended(entry, now, entry.outcome if entry.outcome == "succeeded" else _why(entry))
            case e.FireWithdrawn():
                line = self._ended(entry, now, _why(entry))
                line.marks.append((now, "x"))
            case _:
                self._stretch(entry, now)

    def _range(self, entry: e.InstantsResolved, now: int) -> None:
        label = self._label(entry.trigger, entry.first)
        if entry.count > 1:
            label = f"{label} to {_time(entry.last, self._scenario)}"
        into = "" if entry.into is None else f" into {_time(entry.into, self._scenario)}"
        why = "" if entry.cause == "coalesced" else f", {entry.cause}"
        count = f"{entry.count} " if entry.count > 1 else ""
        line = _Line(label, (entry.first, 0), text=f"{count}{entry.state}{into}{why}")
        line.spans.append((entry.first, now, OWED))
        line.marks += [(entry.first, "o"), (entry.last, "o"), (now, "x")]
        self._others.append(line)

    def _begun(self, entry: e.FireDecided | e.FireRequested | e.FireReleased, now: int) -> None:
        first = (entry.trigger, entry.scheduled, entry.sequence) not in self._fires
        line = self._fire(entry)
        if first and entry.sequence == 0:
            line.spans.append((entry.scheduled, now, OWED))
        if isinstance(entry, e.FireReleased):
            line.go_on(now, OPEN)
            line.marks.append((now, str(entry.attempt)))
            line.text = "over quota" if entry.over_quota else "" if entry.cause == "on-time" else entry.cause
        else:
            line.go_on(now, WAITING)

    def _ended(self, entry: e.FireFinished | e.FireWithdrawn, now: int, text: str) -> _Line:
        line = self._fire(entry)
        line.go_on(now, None)
        line.text = f"{line.text}, {text}" if line.text else text
        return line

    def _stretch(self, entry: e.BookEntry, now: int) -> None:
        match entry:
            case e.TriggerPaused():
                self._bar("paused", now, BAR)
            case e.TriggerResumed():
                self._bar("paused", now, None)
            case e.TriggerSuspended():
                self._bar("suspended", now, BAR)
            case e.SuspensionEnded():
                self._bar("suspended", now, None)
            case e.TriggerAmended():
                self._mark("amended", now)
            case e.TriggerDeleted():
                self._mark("deleted", now)
            case e.BackfillStarted():
                self._bar("backfill", now, BAR)
            case e.BackfillEnded():
                self._bar("backfill", now, None)
            case e.DrainDeclared():
                self._bar("declared", now, BAR)
                self._bar("declared", entry.until, None)
            case _:
                pass

    def _bar(self, name: str, now: int, fill: str | None) -> None:
        self._stretches.setdefault(name, _Line(name, (0, 1))).go_on(now, fill)

    def _mark(self, name: str, now: int) -> None:
        self._stretches.setdefault(name, _Line(name, (0, 1))).marks.append((now, "^"))


def _why(entry: e.FireFinished | e.FireWithdrawn) -> str:
    state = entry.outcome if isinstance(entry, e.FireFinished) else entry.state
    return f"{state}, {entry.cause}"
