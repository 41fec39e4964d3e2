"""What a preview says is what the scheduler decides: random books, previewed and then driven through every release.

A trigger in a zone whose data changes is amended, paused, resumed, re-zoned by adoptions and given other jitter; then
its preview is taken and the book ticks at each previewed release.
"""

from dataclasses import dataclass

from hypothesis import event, given, settings
from hypothesis import strategies as st

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.definition import Definition, Fold, Gap, TenantSettings
from fireledger.domain.evolve import fold_entries
from fireledger.domain.instants import DAY, HOUR, MINUTE, SECOND, parse_instant
from fireledger.domain.limits import HORIZON_MAX
from fireledger.domain.preview import Coming, coming
from fireledger.domain.rejections import Rejection
from fireledger.domain.zones import ZoneDatabase, ZoneLibrary
from tests.unit.domain.given import PAUSE, RESUME, RESUME_SKIPPING, TICK, Given, amend, changed, create, cron, every
from tests.zone_data import MadeZone, made_database

ZONE = "Test/Zone"
START = "2026-11-30T00:00:00Z"
START_S = parse_instant(START) // SECOND
ROWS = 12


@dataclass(frozen=True)
class Step:
    """After ``jump`` microseconds ``verb`` happens."""

    jump: int
    verb: str
    definition: Definition
    number: int


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    """Fixed-time, interval-like and interval schedules, with limits, exclusions and jitter of every width."""
    texts = ["* * * * *", "*/20 * * * *", "0,30 9-17 * * *", "30 2 * * *", "15 1-3 * * *", "0 */3 * * *", "0 12 * * 1"]
    if draw(st.integers(0, 4)) == 0:
        definition = every(draw(st.sampled_from(["40s", "50m"])), START)
    else:
        gap: Gap = draw(st.sampled_from(["shift", "skip", "next-valid"]))
        fold: Fold = draw(st.sampled_from(["first", "second", "both"]))
        excluded = draw(st.sampled_from([(), (), (START_S // 86_400, START_S // 86_400 + 2)]))
        definition = cron(draw(st.sampled_from(texts)), ZONE, gap=gap, fold=fold, excluded=excluded)
    start: int = parse_instant(START)
    return changed(
        definition,
        jitter=draw(st.sampled_from([None, 0, 30 * SECOND, 25 * MINUTE, DAY])),
        missed=draw(st.sampled_from(["fire-all", "fire-once-now", "skip"])),
        cap=draw(st.sampled_from([1, 4])),
        horizon=draw(st.sampled_from([0, HOUR, int(HORIZON_MAX)])),
        overlap="allow",
        not_before=draw(st.sampled_from([None, None, start + 5 * HOUR])),
        not_after=draw(st.sampled_from([None, None, start + 3 * DAY])),
        max_fires=draw(st.sampled_from([None, None, 3, 9])),
    )


@st.composite
def made_zones(draw: st.DrawFn) -> MadeZone:
    """A zone with or without a change of offset in the days of the run."""
    first = draw(st.sampled_from([-6 * 3_600, -5 * 3_600, 0, 3_600]))
    if draw(st.booleans()):
        return MadeZone(first)
    by = draw(st.sampled_from([3_600, -3_600, 1_800, -7_200]))
    return MadeZone(first, ((START_S + draw(st.integers(0, 150)) * 1_800, first + by),))


VERBS = ["tick", "tick", "amend", "pause", "resume", "skip", "adopt", "adopt", "jitter"]
JUMPS = st.one_of(st.integers(0, 10 * MINUTE), st.sampled_from([0, MINUTE, 20 * MINUTE, HOUR, 7 * HOUR, 20 * HOUR]))
STEPS = st.lists(
    st.builds(Step, JUMPS, st.sampled_from(VERBS), definitions(), st.integers(0, 2)), min_size=1, max_size=10
)


@st.composite
def books(draw: st.DrawFn) -> Given:
    """A book with one trigger, ``t``, after some steps; it is not paused."""
    made = [made_database(f"2026{letter}", draw(made_zones())) for letter in "abc"]
    book = Given(start=START, library=ZoneLibrary(made[0]))
    book.zones = ZoneLibrary(*made)
    book.given(create(changed(draw(definitions()), not_after=None, max_fires=None)))
    at: int = book.start
    for step in draw(STEPS):
        at += step.jump
        _do(book, step, at, made)
    # Preview and ticks see the same instant.
    at += draw(JUMPS)
    book.when(c.AmendTenant(settings=TenantSettings(default_jitter=draw(st.sampled_from([0, 3 * MINUTE])))), at=at)
    book.at = max(at, book.state.now)
    return book


def _do(book: Given, step: Step, at: int, made: list[ZoneDatabase]) -> None:
    match step.verb:
        case "tick":
            book.when(TICK, at=at)
        case "amend":
            book.when(amend(step.definition), at=at)
        case "pause":
            book.when(PAUSE, at=at)
        case "resume" | "skip":
            book.when(RESUME if step.verb == "resume" else RESUME_SKIPPING, at=at)
        case "adopt":
            data = made[step.number]
            book.when(c.AdoptZoneData(version=data.version, sha256=data.sha256), at=at)
        case _:
            book.when(c.AmendTenant(settings=TenantSettings(default_jitter=step.number * 10 * MINUTE)), at=at)


def previewed(book: Given, count: int = ROWS, after: int | None = None) -> Coming:
    """The trigger's preview at the book's present."""
    return coming(book.state, book.trigger(), book.zones, now=book.at, count=count, after=after)


def decided(book: Given, at: int) -> list[tuple[int, int]]:
    """Tick; the decided fires as (scheduled, release)."""
    return [
        (entry.scheduled, entry.release)
        for entry in book.when(TICK, at=at).entries()
        if isinstance(entry, e.FireDecided) or (isinstance(entry, e.FireReleased) and entry.decides)
    ]


@given(books())
@settings(max_examples=250)
def test_ticks_decide_what_was_previewed(book: Given) -> None:
    """Each previewed instant fires at its release and nothing else does, whatever happened to the trigger before."""
    now = book.at
    found = previewed(book)
    event(f"paused {book.trigger().paused}, segments {len(book.trigger().segments)}, owed {found.owed_count > 0}")
    event(f"rows {'all' if len(found.rows) == ROWS else 'some' if found.rows else 'none'}")
    if book.trigger().paused:
        assert decided(book, now) == []
        book.given(RESUME, at=now)
    fired = decided(book, now)
    assert all(release <= now for _, release in fired)
    last = found.rows[-1].scheduled if found.rows else now
    for release in sorted({row.release for row in found.rows}):
        # With an old jitter a row can be released after instants that come behind the last row.
        assert all(scheduled > last for scheduled, _ in decided(book, release - 1))
        fired += decided(book, release)
    later = [one for one in fired if one[1] > now and one[0] <= last]
    assert sorted(later) == [(row.scheduled, row.release) for row in found.rows]
    if len(found.rows) < ROWS:
        end = max([now, *(row.release for row in found.rows)]) + 10 * DAY
        assert decided(book, end) == []
        assert not any(isinstance(entry, e.InstantsResolved) for entry in book.entries())


@given(books(), st.integers(1, 5))
@settings(max_examples=100)
def test_a_preview_in_parts_is_the_whole(book: Given, size: int) -> None:
    """Asked for some at a time, after the last one of before, the same instants come, and end at the maximum."""
    whole = previewed(book, count=4 * size)
    parts = previewed(book, count=size).rows
    while parts and len(parts) % size == 0 and len(parts) < 4 * size:
        more = previewed(book, count=size, after=parts[-1].scheduled).rows
        if not more:
            break
        parts = [*parts, *more]
    assert parts == whole.rows


@given(books(), definitions())
@settings(max_examples=60)
def test_a_dry_run_is_the_preview_after_the_amendment(book: Given, definition: Definition) -> None:
    """An amendment's entries laid on the state give the preview that the amended book gives."""
    before, command, now = book.state, amend(definition), book.at
    book.when(command, at=now)
    if isinstance(book.result, Rejection):
        return
    state = fold_entries(before, book.result, now)
    assert coming(state, state.triggers["t"], book.zones, now=now, count=ROWS) == previewed(book)
