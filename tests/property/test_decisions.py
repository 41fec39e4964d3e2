"""What holds of every book: random histories held against an enumeration of their own.

A history is a few triggers and a random run of ticks, commands, outages and outcomes. What the book decided
is compared with every instant that the recurrences give between the commands, one by one.
"""

import copy
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.definition import Definition, TenantSettings
from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import HOUR, MINUTE, SECOND, Instant, format_instant, parse_instant
from fireledger.domain.jitter import offset_of
from fireledger.domain.page import decode_page
from fireledger.domain.recurrence.recurrence import recurrence_of
from fireledger.domain.rejections import Rejection
from fireledger.domain.state import State
from tests.golden.histories import history_of, replay
from tests.unit.domain.given import TICK, Given, changed, cron, every, once, result, started

STARTS = ("2026-10-24T23:30:00Z", "2027-03-28T00:30:00Z", "2026-11-01T04:30:00Z", "2026-11-30T09:00:00Z")
"""Just before Rome's autumn and spring, before New York's autumn, and a plain day."""
SMALL_PAGE = 14
NAMES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Action:
    """One step: after ``jump`` microseconds ``verb`` happens to the trigger at ``place``."""

    jump: int
    verb: str
    place: int
    definition: Definition
    number: int


@dataclass
class Lifetime:
    """A trigger from its creation to its deletion: definitions with the now from which each holds."""

    created_at: int
    versions: list[tuple[int, Definition]] = field(default_factory=list[tuple[int, Definition]])
    deleted_at: int | None = None


def definitions(start: str) -> st.SearchStrategy[Definition]:
    """Definitions of every kind with small windows, so that borders are met often."""
    zone = st.sampled_from(["UTC", "Europe/Rome", "America/New_York"])
    crons = st.builds(
        cron,
        st.sampled_from(
            [
                "* * * * *",
                "*/5 * * * * *",
                "*/7 * * * *",
                "30 2 * * *",
                "0 */3 * * *",
                "15,45 1-3 * * *",
                "10 9 * * 1-5",
            ]
        ),
        zone,
    )
    intervals = st.builds(every, st.sampled_from(["7s", "90s", "25m"]), st.just(start))
    at = parse_instant(start)
    one_offs = st.builds(once, st.sampled_from([_local(at + hours * HOUR) for hours in (1, 2, 5)]), zone)
    changes = st.fixed_dictionaries(
        {
            "jitter": st.sampled_from([None, 0, 0, 40 * SECOND, 10 * MINUTE]),
            "missed": st.sampled_from(["fire-all", "fire-once-now", "skip"]),
            "cap": st.sampled_from([1, 3, 25]),
            "horizon": st.sampled_from([0, 10 * MINUTE, 40 * MINUTE]),
            "tolerance": st.sampled_from([None, None, 1 * SECOND, 5 * MINUTE]),
            "overlap": st.sampled_from(["skip", "queue", "allow"]),
            "outcome_window": st.sampled_from([30 * SECOND, 15 * MINUTE]),
            "max_fires": st.sampled_from([None, None, None, 5]),
        }
    )
    return st.builds(_with, st.one_of(crons, intervals, one_offs), changes)


def _with(definition: Definition, changes: dict[str, object]) -> Definition:
    return changed(definition, **changes)


def _local(instant: int) -> str:
    return format_instant(instant)[:19]


def actions(start: str) -> st.SearchStrategy[list[Action]]:
    """Runs of steps with short, long and very long times between them."""
    jumps = st.one_of(
        st.integers(0, 30 * SECOND),
        st.integers(0, 10 * MINUTE),
        st.sampled_from([0, 0, 0, SECOND, MINUTE, 5 * MINUTE, HOUR, 3 * HOUR, 11 * HOUR]),
    )
    verbs = st.sampled_from(
        ["tick"] * 6
        + ["observe"] * 3
        + ["amend"] * 2
        + ["pause", "pause", "resume", "resume", "skip", "delete", "create", "jitter"]
    )
    step = st.builds(Action, jumps, verbs, st.integers(0, 3), definitions(start), st.integers(0, 10))
    return st.lists(step, min_size=5, max_size=25)


@st.composite
def histories(draw: st.DrawFn) -> "History":
    """A book with its actions done."""
    start = draw(st.sampled_from(STARTS))
    first = draw(st.lists(definitions(start), min_size=2, max_size=4))
    history = History(start)
    for name, definition in zip(NAMES, first, strict=False):
        history.create(name, definition)
    for action in draw(actions(start)):
        history.do(action)
    return history


class History:
    """A book in the making beside a plain record of what was asked of it."""

    def __init__(self, start: str) -> None:
        self.book = Given(start=start)
        self.at: int = self.book.start
        self.lifetimes: dict[str, list[Lifetime]] = {name: [] for name in NAMES}
        self.paused: dict[str, list[tuple[int, int | None]]] = {name: [] for name in NAMES}
        self.jitters: list[tuple[int, int]] = [(0, 0)]
        self.policies: dict[str, list[tuple[int, Definition]]] = {name: [] for name in NAMES}
        self.sequence = 1_000

    @property
    def now(self) -> int:
        """The book's now."""
        return self.book.state.now

    def create(self, name: str, definition: Definition) -> None:
        """Create a trigger unless it is refused."""
        if self._accepted(c.CreateTrigger(trigger=name, definition=definition)):
            self.lifetimes[name].append(Lifetime(self.now, [(self.now, definition)]))
            self.policies[name].append((self.book.state.page, definition))

    def do(self, action: Action) -> None:
        """Take one step."""
        self.at += action.jump
        name = NAMES[action.place]
        match action.verb:
            case "tick":
                read_at = self.at if action.number % 2 else 0
                self.book.when(TICK, at=self.at, as_of_read_at=read_at, entry_limit=SMALL_PAGE + 20 * action.number)
            case "observe":
                self._observe(action)
            case "amend":
                if self._accepted(c.AmendTrigger(trigger=name, definition=action.definition)):
                    self.lifetimes[name][-1].versions.append((self.now, action.definition))
                    self.policies[name].append((self.book.state.page, action.definition))
            case "pause":
                if self._accepted(c.PauseTrigger(trigger=name)):
                    self.paused[name].append((self.book.state.page, None))
            case "resume" | "skip":
                mode: e.OnResume = "skip" if action.verb == "skip" else "policy"
                if self._accepted(c.ResumeTrigger(trigger=name, on_resume=mode)):
                    self._end_pause(name)
            case "delete":
                if self._accepted(c.DeleteTrigger(trigger=name)):
                    self.lifetimes[name][-1].deleted_at = self.now
                    self._end_pause(name)
            case "create":
                self.create(name, action.definition)
            case _:
                window = action.number * 4 * SECOND
                if self._accepted(c.AmendTenant(settings=TenantSettings(default_jitter=window))):
                    self.jitters.append((self.now, window))

    def _accepted(self, command: c.Command) -> bool:
        self.book.when(command, at=self.at)
        return not isinstance(self.book.result, Rejection) and bool(self.book.result)

    def _end_pause(self, name: str) -> None:
        if self.paused[name] and self.paused[name][-1][1] is None:
            self.paused[name][-1] = (self.paused[name][-1][0], self.book.state.page)

    def _observe(self, action: Action) -> None:
        observed: list[e.AttemptObserved] = []
        fires = [(t.name, fire) for t in self.book.state.triggers.values() for fire in t.open]
        for name, fire in fires[action.number % 3 :: 2][:5]:
            self.sequence += 1
            kinds: list[e.ResultKind | None] = ["succeeded", "final", "held", "timeout", "accepted", None]
            kind = kinds[(action.number + action.place + len(observed)) % len(kinds)]
            observed.append(started(fire.scheduled, self.now, self.sequence, trigger=name))
            if kind is not None:
                observed.append(result(fire.scheduled, self.now + 1, self.sequence, kind, trigger=name))
        self.book.when(TICK, at=self.at, observed=tuple(observed), as_of_read_at=self.at, entry_limit=40)


def instants_of(history: History, name: str) -> dict[int, int]:
    """Every scheduled instant of a trigger up to the book's now, with its release: enumerated one by one."""
    zones = history.book.zones.current
    found: dict[int, int] = {}
    for lifetime in history.lifetimes[name]:
        ends = [at for at, _ in lifetime.versions[1:]]
        ends.append(history.now if lifetime.deleted_at is None else lifetime.deleted_at)
        for (after, definition), end in zip(lifetime.versions, ends, strict=True):
            schedule = recurrence_of(definition.schedule, zones.zone(definition.zone), definition.gap, definition.fold)
            position = schedule.next_after(Instant(after))
            while position is not None and position <= end:
                following = schedule.next_after(position)
                found[int(position)] = position + _offset(history, name, definition, position, following)
                position = following
    return found


def _offset(history: History, name: str, definition: Definition, scheduled: Instant, following: int | None) -> int:
    window = definition.jitter
    if window is None:
        window = [width for at, width in history.jitters if at < scheduled][-1]
    if following is not None:
        window = min(window, following - scheduled)
    return offset_of(FireKey("acme", name, scheduled), window)


def ticked_out(book: Given, at: int, limit: int) -> list[str]:
    """Tick at one instant until nothing is left, in pages of at most ``limit`` entries; all lines written."""
    lines: list[str] = []
    for _ in range(3_000):
        entries = book.when(TICK, at=at, entry_limit=limit).entries()
        if not entries:
            return lines
        assert len(entries) <= limit
        lines.extend(book.brief(entry) for entry in entries)
    raise AssertionError("small pages never come to an end")


def resolutions(history: History, name: str, expected: list[int]) -> Counter[int]:
    """How often each expected instant was resolved; ranges must begin, end and count as enumerated."""
    counted: Counter[int] = Counter()
    for page in history.book.written:
        for entry in decode_page(page.body).entries:
            if getattr(entry, "trigger", None) != name:
                continue
            if isinstance(entry, e.InstantsResolved):
                within = expected[bisect_left(expected, entry.first) : bisect_right(expected, entry.last)]
                assert within, entry
                assert (within[0], within[-1], len(within)) == (entry.first, entry.last, entry.count), entry
                counted.update(within)
            elif isinstance(entry, e.FireDecided) or (isinstance(entry, e.FireReleased) and entry.decides):
                counted[entry.scheduled] += 1
    return counted


def drained(history: History) -> History:
    """Let the scheduler decide everything that is due."""
    ticked_out(history.book, max(history.at, history.now), 10_000)
    return history


def may_stop_early(history: History, name: str) -> bool:
    """Whether a maximum may have ended the trigger before its last instant."""
    return any(
        definition.max_fires is not None for lifetime in history.lifetimes[name] for _, definition in lifetime.versions
    )


@given(histories())
@settings(max_examples=40)
def test_every_instant_is_resolved_exactly_once(history: History) -> None:
    """Nothing early, nothing twice, nothing invented; nothing lost of what is due, paused triggers apart."""
    drained(history)
    for name in NAMES:
        releases = instants_of(history, name)
        counted = resolutions(history, name, sorted(releases))
        assert counted.keys() <= releases.keys()
        assert all(count == 1 for count in counted.values())
        if may_stop_early(history, name):
            continue
        live = history.book.state.live(name)
        last = history.lifetimes[name][-1].deleted_at if live is None and history.lifetimes[name] else None
        for scheduled, release in releases.items():
            if live is None and last is not None:
                assert scheduled in counted
            elif live is not None and not live.paused:
                assert (scheduled in counted) == (
                    release <= history.now or scheduled <= _cancelled_up_to(history, name)
                )


def _cancelled_up_to(history: History, name: str) -> int:
    """Deletion resolves what is scheduled up to its now, released or not."""
    return max((each.deleted_at for each in history.lifetimes[name] if each.deleted_at is not None), default=0)


@given(histories())
@settings(max_examples=30)
def test_nothing_is_released_early_or_within_a_pause(history: History) -> None:
    """A fire's release is the one computed and not after the page's now; between pause and resume there is none."""
    drained(history)
    releases = {name: instants_of(history, name) for name in NAMES}
    for written in history.book.written:
        page = decode_page(written.body)
        for entry in page.entries:
            if isinstance(entry, e.FireReleased | e.FireDecided):
                assert entry.release == releases[entry.trigger][entry.scheduled] <= page.inputs.now
                assert not any(
                    first < page.number and (last is None or page.number < last)
                    for first, last in history.paused[entry.trigger]
                )


@given(histories())
@settings(max_examples=30)
def test_every_range_has_its_cause(history: History) -> None:
    """Each instant of a range was beyond the horizon, within a pause or missed, as the range says."""
    drained(history)
    pages = [decode_page(written.body) for written in history.book.written]
    nows = {page.number: page.inputs.now for page in pages}
    for name in NAMES:
        releases = instants_of(history, name)
        pauses = [(nows[first], nows.get(last or 0, history.now)) for first, last in history.paused[name]]
        for page in pages:
            for entry in page.entries:
                if not isinstance(entry, e.InstantsResolved) or entry.trigger != name:
                    continue
                policy = [definition for number, definition in history.policies[name] if number <= page.number][-1]
                for scheduled, release in releases.items():
                    if entry.first <= scheduled <= entry.last:
                        late = page.inputs.now - release
                        inside = any(start < release <= end for start, end in pauses)
                        assert _fits(entry, policy, late, inside=inside), entry


def _fits(entry: e.InstantsResolved, policy: Definition, late: int, *, inside: bool) -> bool:
    """Whether the entry's cause is true of an instant that is this late."""
    match entry.cause:
        case "beyond-horizon":
            return late > policy.horizon
        case "paused":
            return inside
        case "deleted":
            return True
        case "overlap":
            return not inside and policy.overlap == "skip" and 0 <= late <= policy.horizon
        case "missed":
            return not inside and policy.missed == "skip" and 0 < late <= policy.horizon
        case "coalesced":
            return policy.missed == "fire-once-now" and 0 <= late <= policy.horizon
        case "over-cap":
            return policy.missed == "fire-all" and 0 <= late <= policy.horizon
        case _:
            return False


@given(histories(), st.integers(0, 3 * HOUR))
@settings(max_examples=30)
def test_small_pages_decide_what_large_ones_do(history: History, outage: int) -> None:
    """Cut at a few entries and ticked again at the same now, each trigger comes to the same decisions."""
    small, large = copy.copy(history.book), copy.copy(history.book)
    small.written, large.written = list(small.written), list(large.written)
    at = max(history.at, history.now) + outage
    lines = ticked_out(small, at, SMALL_PAGE)
    assert sorted(lines) == sorted(ticked_out(large, at, 10_000))
    assert _undated(small.state) == _undated(large.state)


def _undated(state: State) -> dict[str, object]:
    """Triggers without the numbers of the pages that changed them."""
    return {name: (trigger.segments, trigger.pauses, trigger.waiting) for name, trigger in state.triggers.items()}


@given(histories())
@settings(max_examples=15)
def test_a_history_replays_to_the_same_bytes(history: History) -> None:
    """Read from its bytes alone, every page is decided again as it was."""
    assume(len(history.book.written) > 3)
    drained(history)
    assert len(replay(history_of(history.book))) == 64


@given(histories())
@settings(max_examples=30)
def test_maximums_and_overlaps_hold(history: History) -> None:
    """Never more fires than the maximum; without overlap never two open on-time; at most one on-time waits."""
    drained(history)
    open_now: Counter[str] = Counter()
    for trigger in history.book.state.triggers.values():
        lifetime = history.lifetimes[trigger.name][-1]
        limits = [definition.max_fires for _, definition in lifetime.versions]
        if None not in limits:
            assert trigger.fired_count <= max(limit for limit in limits if limit is not None)
        always = {definition.overlap for each in history.lifetimes[trigger.name] for _, definition in each.versions}
        open_now[trigger.name] = len(trigger.open)
        if "allow" not in always:
            assert open_now[trigger.name] <= 1
        assert sum(fire.lane == "on-time" for fire in trigger.waiting) <= 1
