"""Preview: the coming instants of a recurrence, or of a trigger, by the very code that decides them."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice, takewhile

from msgspec.structs import replace

from .due import exhausted
from .evolve import fold_entries
from .identifiers import FireKey
from .inputs import Inputs
from .instants import Instant
from .jitter import release_of
from .owed import Timeline, count_owed
from .page import PageInputs
from .recurrence.exclusions import Occurrences
from .recurrence.months import LOCAL_END_S
from .recurrence.recurrence import local_text
from .state import State, TriggerState
from .tick import tick
from .zones import ZoneLibrary, ZoneRules

_END = Instant(LOCAL_END_S * 1_000_000)
_NO_LIMIT = 2**31
"""Entries: a decision that is only looked at is not cut."""


@dataclass(frozen=True, slots=True)
class Previewed:
    """One coming instant: scheduled, its release after jitter, and the local time as RFC 3339 text."""

    scheduled: Instant
    release: Instant
    local: str


def preview(
    recurrence: Occurrences, zone: ZoneRules, *, tenant: str, trigger: str, jitter_window: int, after: int, count: int
) -> list[Previewed]:
    """At most ``count`` instants of a recurrence that no book knows, strictly after ``after``.

    The jitter window (microseconds) counts as no wider than the gap to the recurrence's next instant.
    """
    previewed: list[Previewed] = []
    for scheduled in islice(recurrence.between(after, _END), count):
        following = recurrence.next_after(scheduled)
        gap = None if following is None else following - scheduled
        release = release_of(FireKey(tenant, trigger, scheduled), jitter_window, gap)
        previewed.append(Previewed(scheduled, release, local_text(scheduled, zone)))
    return previewed


@dataclass(frozen=True, slots=True)
class Coming:
    """What is to come of a trigger after ``now``, as its book stands.

    ``rows`` are its undecided instants whose release lies after ``now``, by scheduled instant. ``owed_count`` were
    released up to ``now`` and are not decided yet: the rules for missed instants say what becomes of them. ``left``
    is how many more fires its maximum allows once those are decided, None without a maximum; ``rows`` are those fires,
    the first to be released. A pause or quarantine that goes on is taken to end at ``now``.
    """

    rows: list[Previewed]
    owed_count: int
    left: int | None


def coming(
    state: State, trigger: TriggerState, zones: ZoneLibrary, *, now: int, count: int, after: int | None = None
) -> Coming:
    """At most ``count`` coming instants of a live trigger, strictly after ``after`` if that is given.

    They are found by what the scheduler decides by: each segment with its own time-zone data, decided local times,
    limits, exclusions and jitter. Every row is what a tick at its release decides in time, unless the book changes
    before. Raises UnknownZoneData, and whatever deciding the trigger raises.
    """
    timelines = [Timeline(state, trigger, segment, zones) for segment in trigger.segments]
    owed_count = 0 if exhausted(trigger) else sum(count_owed(timeline, now) for timeline in timelines)
    left = _fires_left(state, trigger, zones, now) if owed_count else _unused(trigger)
    *closed, last = timelines
    rows = [row for timeline in closed for row in _coming(timeline, now, None)]
    last_max = count
    if left is not None:
        rows = [row for row in rows if _ahead_of(row, rows, last, now, left) < left]
        before = 0 if after is None else _count_coming(last, now, after)
        last_max = max(0, left - len(rows) - before)
    found = chain(
        (row for row in rows if after is None or row.scheduled > after), islice(_coming(last, now, after), last_max)
    )
    return Coming(list(islice(found, count)), owed_count, left)


def _ahead_of(row: Previewed, rows: list[Previewed], last: Timeline, now: int, enough: int) -> int:
    """How many fires are decided before a closed segment's ``row``; ``enough`` is as good as more.

    Within a segment nothing is released after the next instant, but a closed segment's last release may come after
    many of its successor's.
    """
    ahead = sum((other.release, other.scheduled) < (row.release, row.scheduled) for other in rows)
    if ahead + _count_coming(last, now, row.release) < enough:
        return ahead
    released = takewhile(lambda other: other.release < row.release, _coming(last, now, None))
    return ahead + sum(1 for _ in islice(released, enough))


def _coming(timeline: Timeline, now: int, after: int | None) -> Iterator[Previewed]:
    # Instants that are clear of now are released already; those after it are coming, but for keys that are taken.
    clear = timeline.clear_until(now)
    scheduled = timeline.next_undecided(clear if after is None else max(after, clear))
    while scheduled is not None:
        release = timeline.release(scheduled)
        if release > now and not timeline.taken(scheduled):
            yield Previewed(scheduled, release, timeline.local_text(scheduled))
        scheduled = timeline.next_undecided(scheduled)


def _count_coming(timeline: Timeline, now: int, until: int) -> int:
    """How many coming instants are scheduled up to ``until``, without listing those after ``now``."""
    looked_at = max(now, timeline.looked_at_until() or now)
    listed = 0
    for previewed in _coming(timeline, now, None):
        if previewed.scheduled > min(looked_at, until):
            break
        listed += 1
    return listed + timeline.count_until(looked_at, until)


def _unused(trigger: TriggerState) -> int | None:
    limit = trigger.definition.max_fires
    return None if limit is None else max(0, limit - trigger.fired_count)


def _fires_left(state: State, trigger: TriggerState, zones: ZoneLibrary, now: int) -> int | None:
    """What the maximum leaves once all that is owed is decided: the decision itself, on the trigger alone.

    A pause or quarantine that goes on is taken to end now.
    """
    unused = _unused(trigger)
    if not unused:
        return unused
    recorded = PageInputs(
        now=now, earliest=now, latest=now, clock_source="preview", as_of=state.as_of, owner="preview",
        entry_limit=_NO_LIMIT,
    )  # fmt: skip
    pauses = tuple(replace(pause, end=now) if pause.end is None else pause for pause in trigger.pauses)
    alone = replace(state, triggers={trigger.name: replace(trigger, pauses=pauses, quarantine=None)})
    entries = tick(alone, Inputs(recorded=recorded, zones=zones, due=frozenset({trigger.name})))
    return _unused(fold_entries(alone, entries, now).triggers[trigger.name])
