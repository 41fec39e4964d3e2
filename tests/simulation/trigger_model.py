"""What the oracle knows of one trigger: its definitions, pauses and decisions, and what it therefore owes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Literal

from fireledger.domain.definition import Definition
from fireledger.domain.entries import FireCause, Lane
from fireledger.domain.instants import format_instant
from fireledger.domain.zones import ZoneLibrary
from tests.simulation.brute_force import SECOND, Due, Offsets, offsets_of, plain
from tests.simulation.paces import TokenBucket

LOOK_AHEAD = 26 * 3_600 * SECOND
"""How far the next instant is looked for; a gap longer than this counts as unlimited."""
PIECE = 600 * SECOND
_text_of = lru_cache(maxsize=1_024)(format_instant)
"""Texts are made for every check, and mostly of the same few instants."""
FireId = tuple[int, int]
"""A fire of one trigger: its scheduled instant and its sequence."""
Class = Literal["taken", "quarantined", "suspended", "paused-skip", "expired", "missed-paused", "missed", "on-time"]
Stretch = tuple[int, int | None, str]
"""Where nothing is decided: releases in (start, end], None: it goes on; and why."""


@dataclass(frozen=True, slots=True)
class Owed:
    """An undecided instant with its release and tolerance."""

    at: int
    release: int
    tolerance: int


@dataclass
class Zones:
    """The zone data a book has adopted: instants and hashes, in order."""

    library: ZoneLibrary
    adoptions: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def offsets(self, sha: str, zone: str) -> Offsets:
        """A zone's offsets in one database."""
        return offsets_of(self.library.database(sha), zone)


@dataclass(frozen=True, slots=True)
class Upcoming:
    """A span's next release as it was found: by what, looking how far ahead; None: not until there."""

    known: tuple[object, ...]
    until: int
    release: int | None


@dataclass
class Span:
    """A stretch under one schedule: instants in (after, until], decided in order."""

    definition: Definition
    after: int
    until: int | None = None
    decided: Due | None = None
    decided_by: str = ""
    """The zone data by which the last decision was made."""
    covers: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """By this zone data, local times up to this instant are decided, or an earlier definition's."""
    upcoming: "Upcoming | None" = None
    judged: dict[tuple[int, int, int], "Owed"] = field(default_factory=dict[tuple[int, int, int], "Owed"])
    """Instants with release and tolerance, by the zone data and default jitters of the time."""

    def same_timing(self, other: Definition) -> bool:
        """Whether another definition leaves instants, releases and tolerance alone."""
        mine = self.definition
        return (mine.schedule, mine.zone, mine.jitter, mine.tolerance, mine.not_before, mine.not_after) == (
            other.schedule, other.zone, other.jitter, other.tolerance, other.not_before, other.not_after,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Waited:
    """A decided fire that is not released."""

    lane: Lane
    cause: FireCause
    release: int
    over_quota: bool
    definition_page: int
    since: int

    def order(self, fire: FireId) -> tuple[int, FireId]:
        """On time, by hand, caught up, backfilled; the oldest first."""
        return ("on-time", "by-hand", "caught-up", "backfilled").index(self.cause), fire


@dataclass(slots=True, kw_only=True)
class Opened:
    """A released fire without an outcome.

    ``overlap`` is the policy under which it was first released, ``since`` when it was last released or asked for.
    ``let_go``: a person let it go on, and the next attempt has not gone out. ``of_deleted``: its trigger was deleted.
    """

    overlap: str
    release: int
    lane: Lane
    cause: FireCause
    over_quota: bool
    definition_page: int
    window: int
    since: int
    attempt: int = 1
    started_at: int | None = None
    held: bool = False
    retry_at: int | None = None
    let_go: bool = False
    of_deleted: bool = False

    @property
    def deadline(self) -> int | None:
        """When the outcome window is over: not before the first start, nor while a person or a retry is waited for."""
        waits = self.started_at is None or self.held or self.retry_at is not None
        return None if waits else (self.started_at or 0) + self.window


@dataclass(slots=True)
class Backfilling:
    """A backfill under way: what it has still to decide, in order, and what it released."""

    label: str
    rate: int
    left: list[int]
    released_count: int = 0
    pace: TokenBucket = field(default_factory=TokenBucket)


@dataclass
class TriggerModel:
    """One trigger as its book tells it."""

    tenant: str
    name: str
    definition: Definition
    definition_page: int
    zones: Zones
    jitters: list[tuple[int, int]]
    spans: list[Span] = field(default_factory=list[Span])
    suspensions: list[Stretch] = field(default_factory=list[Stretch])
    """The tenant's own."""
    pauses: list[Stretch] = field(default_factory=list[Stretch])
    paused: bool = False
    quarantined: bool = False
    deleted: bool = False
    suspended_until: int | None = None
    fired_count: int = 0
    run_number: int = 0
    """The highest that was given."""
    backfill: Backfilling | None = None
    open: dict[FireId, Opened] = field(default_factory=dict[FireId, Opened])
    waiting: dict[FireId, Waited] = field(default_factory=dict[FireId, Waited])
    states: dict[int, str] = field(default_factory=dict[int, str])
    """What became of each decided instant."""

    @property
    def exhausted(self) -> bool:
        """Whether it has made all the fires it may make."""
        return self.definition.max_fires is not None and self.fired_count >= self.definition.max_fires

    @property
    def deciding(self) -> bool:
        """Whether anything of it may be decided, as far as it is its own matter."""
        return not (self.deleted or self.paused or self.quarantined or self.suspended_until is not None)

    @property
    def blocked(self) -> bool:
        """Whether an open fire lets no other go."""
        return bool(self.open) and self.definition.overlap != "allow"

    def text(self, at: int, sequence: int | None = None) -> str:
        """An instant or a fire of this trigger for a message."""
        return f"{self.tenant}/{self.name}/{_text_of(at)}" + ("" if sequence is None else f"/{sequence}")

    # Instants

    def undecided(self, span: Span, until: int) -> Iterator[Due]:
        """Yield the span's undecided instants up to ``until``."""
        high = min([until, *(bound for bound in (span.until, span.definition.not_after) if bound is not None)])
        low = span.after if span.decided is None else span.decided.at
        covers: list[tuple[str, int]] = []
        if plain(span.definition.schedule).fixed:
            covers = [*span.covers]
            if span.decided is not None and span.decided_by != self._rules_of(span):
                # Other zone data may put later local times before the last decision, and decided ones after it.
                covers.append((span.decided_by, span.decided.at))
                low = span.after
        if span.definition.not_before is not None:
            low = max(low, span.definition.not_before - 1)
        for due in self._instants(span, low, high):
            if not any(self._covered(span, due, sha, until) for sha, until in covers):
                yield due

    def _covered(self, span: Span, due: Due, sha: str, until: int) -> bool:
        return self.zones.offsets(sha, span.definition.zone).instant_of(due.local) <= until

    def _rules_of(self, span: Span) -> str:
        """The zone data by which a fixed-time span goes."""
        shas = [sha for at, sha in self.zones.adoptions if span.until is None or at < span.until]
        return shas[-1] if shas else self.zones.adoptions[0][1]

    def _instants(self, span: Span, low: int, high: int) -> Iterator[Due]:
        """All instants of the span's schedule in (low, high], by the zone data that holds for each."""
        schedule, zone = plain(span.definition.schedule), span.definition.zone
        if schedule.fixed:
            yield from schedule.between(low, high, self.zones.offsets(self._rules_of(span), zone))
            return
        ends = [*(at for at, _ in self.zones.adoptions[1:]), None]
        begin = low
        for (_, sha), end in zip(self.zones.adoptions, ends, strict=True):
            last = high if end is None else min(high, end)
            if begin < last:
                yield from schedule.between(begin, last, self.zones.offsets(sha, zone))
                begin = last

    def owed(self, span: Span, now: int) -> list[Owed]:
        """What of the span is owed at ``now``."""
        found: list[Owed] = []
        for due in self.undecided(span, now):
            each = self.judged(span, due.at)
            if each.release > now:
                break
            found.append(each)
        return found

    def next_release(self, span: Span, until: int) -> int | None:
        """When the span's first undecided instant is released; None when that is not until ``until``.

        What was found is kept until something is decided or declared that may change it.
        """
        known = (span.decided, span.until, len(span.covers), len(self.zones.adoptions), len(self.jitters))
        found = span.upcoming
        if found is None or found.known != known or (found.release is None and found.until < until):
            due = next(self.undecided(span, until), None)
            found = Upcoming(known, until, None if due is None else self.judged(span, due.at).release)
            span.upcoming = found
        return found.release

    def judged(self, span: Span, at: int) -> Owed:
        """An instant with its release and tolerance."""
        key = (at, len(self.zones.adoptions), len(self.jitters))
        found = span.judged.get(key)
        if found is None:
            found = span.judged[key] = self._judged(span, at)
        return found

    def _judged(self, span: Span, at: int) -> Owed:
        gap = self._gap(span, at)
        window = self._window(span, at)
        if gap is not None:
            window = min(window, gap)
        offset = 0
        if window:
            key = f"{self.tenant}/{self.name}/{_text_of(at)}/0"
            leading = int(sha256(key.encode()).hexdigest()[:16], 16) >> 11
            offset = window * leading // 2**53
        tolerance = span.definition.tolerance
        if tolerance is None:
            tolerance = 60 * SECOND if gap is None else min(max(gap, 5 * SECOND), 60 * SECOND)
        return Owed(at, at + offset, tolerance)

    def _window(self, span: Span, at: int) -> int:
        if span.definition.jitter is not None:
            return span.definition.jitter
        return [window for after, window in self.jitters if after < at][-1]

    def _gap(self, span: Span, at: int) -> int | None:
        low = at
        while low < at + LOOK_AHEAD:
            following = next(self._instants(span, low, low + PIECE), None)
            if following is not None:
                return following.at - at
            low += PIECE
        return None

    # Judgement

    def judge(self, span: Span, owed: Owed, now: int) -> Class:
        """How an owed instant is to be judged at ``now``."""
        if owed.at in self.states and plain(span.definition.schedule).fixed and len(self.zones.adoptions) > 1:
            return "taken"
        stretches = (*self.pauses, *self.suspensions) if self.suspensions else self.pauses
        kinds = {
            kind for start, end, kind in stretches if start < owed.release and (end is None or owed.release <= end)
        }
        late = now - owed.release
        if "quarantined" in kinds:
            return "quarantined"
        if "suspended" in kinds:
            return "suspended"
        if "skip" in kinds:
            return "paused-skip"
        if late > self.definition.horizon:
            return "expired"
        if kinds:
            return "missed-paused"
        return "missed" if late > owed.tolerance else "on-time"

    def firing(self, missed: list[Owed], on_time: list[Owed]) -> tuple[set[int], int | None]:
        """Which missed instants fire, and into which instant the others are coalesced."""
        room = len(missed) if self.definition.max_fires is None else self.definition.max_fires - self.fired_count
        count = 0
        if self.definition.missed == "fire-all":
            count = min(self.definition.cap, room, len(missed))
        elif self.definition.missed == "fire-once-now" and missed and not on_time:
            count = min(1, room)
        firing = {each.at for each in missed[len(missed) - count :]}
        into = on_time[0].at if on_time else missed[-1].at if missed else None
        return firing, into

    def mark(self, span: Span, due: Due, state: str) -> None:
        """Note a decision."""
        rules = self._rules_of(span)
        if span.decided is not None and span.decided_by != rules:
            span.covers.append((span.decided_by, span.decided.at))
        span.decided, span.decided_by = due, rules
        self.states[due.at] = state
        self.forget_pauses()

    def forget_pauses(self) -> None:
        """A pause before all that is undecided plays no part any more, whatever new zone data moves into it."""
        if self.pauses:
            earliest = min(span.after if span.decided is None else span.decided.at for span in self.spans)
            self.pauses = [pause for pause in self.pauses if pause[1] is None or pause[1] > earliest]
