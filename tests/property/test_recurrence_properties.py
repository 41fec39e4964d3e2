"""What holds for every schedule, zone, rule and instant."""

import os
import random
import subprocess
import sys
from hashlib import sha256
from itertools import islice, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fireledger.domain.instants import DAY, HOUR, SECOND, parse_instant
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.errors import MalformedSchedule
from fireledger.domain.recurrence.recurrence import Recurrence, recurrence_of
from fireledger.domain.recurrence.rules import FOLD_RULES, GAP_RULES, FoldRule
from fireledger.domain.recurrence.schedule import CronSchedule, IntervalSchedule, OneOffSchedule, Schedule
from fireledger.domain.recurrence.search_costs import SEARCH_COSTS
from fireledger.domain.recurrence.timeline import SEARCH_STEPS_MAX, timeline_of
from fireledger.domain.zones import ZoneRules
from fireledger.runners.zone_package import load_packaged_zones

ZONES = load_packaged_zones()
FIRST, LAST = parse_instant("1970-01-10T00:00:00Z"), parse_instant("2190-01-01T00:00:00Z")
SPAN = 40 * DAY
TAKEN = 200
ROOT = Path(__file__).parents[2]
HOSTS = [
    {"TZ": "Pacific/Apia", "PYTHONHASHSEED": "1"},
    {"TZ": "EST5EDT,M3.2.0,M11.1.0", "PYTHONHASHSEED": "2"},
    {"TZ": "nowhere/at all", "PYTHONHASHSEED": "random"},
    {"TZ": "", "PYTHONHASHSEED": "0", "PYTHONTZPATH": "", "LC_ALL": "C"},
]
"""Settings of a host that must have no say."""
TRANSITIONS = [
    change.at_s * SECOND
    for name in ("Europe/Rome", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia")
    for change in ZONES.zone(name).transitions(0, 2_500_000_000)
]


def field(low: int, high: int) -> st.SearchStrategy[str]:
    """A cron field that our parser reads."""
    value = st.integers(low, high)
    ordered = st.tuples(value, value).map(sorted)
    step = st.integers(1, high - low)
    return st.one_of(
        st.just("*"),
        value.map(str),
        step.map(lambda every: f"*/{every}"),
        ordered.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(ordered, step).map(lambda drawn: f"{drawn[0][0]}-{drawn[0][1]}/{drawn[1]}"),
        st.lists(value, min_size=2, max_size=4).map(lambda values: ",".join(map(str, values))),
    )


def accepted(fields: tuple[str, ...]) -> CronSchedule | None:
    """The schedule, or None when no date can match."""
    try:
        return parse_cron(" ".join(fields))
    except MalformedSchedule:
        return None


DAYS = st.one_of(field(1, 31), st.sampled_from(["L", "LW", "15W", "1W", "L-3", "31"]))
WEEKDAYS = st.one_of(st.just("*"), field(0, 6), st.sampled_from(["5#2", "5L", "1#5", "sat-sun"]))
FIVE = st.tuples(field(0, 59), field(0, 23), DAYS, field(1, 12), WEEKDAYS)
SIX = st.tuples(field(0, 59), field(0, 59), field(0, 23), DAYS, field(1, 12), WEEKDAYS)
CRONS = st.one_of(FIVE, SIX).map(accepted).filter(lambda schedule: schedule is not None)
INTERVALS = st.builds(
    IntervalSchedule, source=st.just("x"), period=st.integers(SECOND, 40 * DAY), anchor=st.integers(FIRST, LAST)
)
ONE_OFFS = st.builds(OneOffSchedule, source=st.just("x"), local=st.integers(FIRST, LAST))
SCHEDULES: st.SearchStrategy[Schedule | None] = st.one_of(CRONS, CRONS, CRONS, INTERVALS, ONE_OFFS)
NEAR_CHANGES = st.tuples(st.sampled_from(TRANSITIONS), st.integers(-2 * DAY, 2 * DAY)).map(sum)
INSTANTS = st.one_of(st.integers(FIRST, LAST), NEAR_CHANGES)
ZONE_RULES = st.one_of(
    st.sampled_from(["Europe/Rome", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "UTC"]),
    st.sampled_from(ZONES.names),
).map(ZONES.zone)


@st.composite
def recurrences(draw: st.DrawFn) -> Recurrence:
    """A schedule in a zone under declared rules."""
    schedule, zone = draw(SCHEDULES), draw(ZONE_RULES)
    assert schedule is not None
    return recurrence_of(schedule, zone, draw(st.sampled_from(GAP_RULES)), draw(st.sampled_from(FOLD_RULES)))


@given(recurrences(), INSTANTS)
def test_next_is_after_and_previous_before(recurrence: Recurrence, instant: int) -> None:
    """Next is strictly after, previous strictly before, and each leads back to the other."""
    following, preceding = recurrence.next_after(instant), recurrence.previous_before(instant)
    if following is not None:
        assert following > instant
        assert recurrence.next_after(following - 1) == following
        assert recurrence.previous_before(following + 1) == following
        assert recurrence.previous_before(following) in (preceding, instant)
    if preceding is not None:
        assert preceding < instant
        assert recurrence.next_after(preceding) in (following, instant)


@given(recurrences(), INSTANTS)
def test_between_is_repeated_next(recurrence: Recurrence, after: int) -> None:
    """A range is what stepping gives, strictly ascending."""
    ranged = list(islice(recurrence.between(after, after + SPAN), TAKEN))
    stepped: list[int] = []
    instant = recurrence.next_after(after)
    while instant is not None and instant <= after + SPAN and len(stepped) < TAKEN:
        stepped.append(instant)
        instant = recurrence.next_after(instant)
    assert ranged == stepped == sorted(set(stepped))


@given(recurrences(), INSTANTS, st.integers(0, 50))
def test_next_many_is_the_start_of_the_range(recurrence: Recurrence, after: int, count: int) -> None:
    """The first instants of the range without an end, as many as asked for; their order is that of time."""
    several = recurrence.next_many(after, count)
    assert several == list(islice(recurrence.between(after, LAST + 400 * 366 * DAY), count))
    assert all(after < one for one in several)
    assert all(one < later for one, later in pairwise(several))
    assert len(several) == count or recurrence.next_after(several[-1] if several else after) is None


@given(recurrences(), INSTANTS)
def test_the_cost_of_a_search_is_told_and_bounded(recurrence: Recurrence, instant: int) -> None:
    """Counting the steps changes no answer; a remembered answer costs none; no search takes more than the bound."""
    recurrence.previous_before(instant)
    count, total, largest = SEARCH_COSTS.count, SEARCH_COSTS.steps, SEARCH_COSTS.largest
    answer, steps = recurrence.next_after_counted(instant)
    assert 0 <= steps <= SEARCH_STEPS_MAX
    assert recurrence.next_after_counted(instant) == (answer, 0)
    assert recurrence.next_after(instant) == answer
    assert (SEARCH_COSTS.count - count, SEARCH_COSTS.steps - total) == (int(steps > 0), steps)
    assert SEARCH_COSTS.largest == max(largest, steps)


@pytest.mark.slow
def test_no_zone_has_more_stretches_than_a_search_may_look_at() -> None:
    """The bound on a search holds for every zone under the rules that cut the most, with much to spare."""
    distinct = {ZONES.content(name): name for name in ZONES.names}.values()
    longest = max(
        len(timeline_of(ZONES.zone(name), gap, "first").shifts) for name in distinct for gap in ("shift", "next-valid")
    )
    assert longest * 8 < SEARCH_STEPS_MAX


@pytest.mark.parametrize("text", ["0 0 29 2 *", "0 0 31 2,4,12 *", "0 0 * 2 1#5", "30 2 29 2 *", "0 0 */30 1,5 0"])
def test_rare_schedules_are_found_in_a_few_steps(text: str) -> None:
    """However rare, the next instant is a few steps away from anywhere in any zone: empty years are not walked."""
    schedule, draw = accepted(tuple(text.split())), random.Random(text)
    assert schedule is not None
    for name in ZONES.names[::5]:
        gap, fold = draw.choice(GAP_RULES), draw.choice(FOLD_RULES)
        answer, steps = recurrence_of(schedule, ZONES.zone(name), gap, fold).next_after_counted(
            draw.randrange(LAST // 2)
        )
        assert answer is not None
        assert steps <= 12, (name, gap, fold)


def test_a_schedule_that_only_names_missing_times_ends_its_search() -> None:
    """The last Sunday of March at 02:30 never exists in Rome: the search says so within the bound."""
    schedule = accepted(("30", "2", "*", "3", "0L"))
    assert schedule is not None
    recurrence = recurrence_of(schedule, ZONES.zone("Europe/Rome"), "skip", "first")
    answer, steps = recurrence.next_after_counted(parse_instant("2026-01-01T00:00:00Z"))
    assert answer is None
    assert 100 < steps < SEARCH_STEPS_MAX


def digest() -> str:
    """A hash of many answers, drawn in an order of their own."""
    draw, total = random.Random(5), sha256()
    texts = ["*/7 * * * *", "30 2 * * *", "0 0 29 2 *", "15 1,2,3 * * 0", "0 0 L * *", "5 0 * * 1#1", "*/20 * * * * *"]
    for _ in range(300):
        schedule, zone = accepted(tuple(draw.choice(texts).split())), ZONES.zone(draw.choice(ZONES.names))
        assert schedule is not None
        recurrence = recurrence_of(schedule, zone, draw.choice(GAP_RULES), draw.choice(FOLD_RULES))
        start = draw.choice(TRANSITIONS) + draw.randint(-2 * DAY, 2 * DAY)
        answers = [*recurrence.next_many(start, 20), recurrence.previous_before(start), recurrence.count(start, LAST)]
        total.update(repr(answers).encode())
    return total.hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("settings", HOSTS, ids=lambda settings: repr(settings["TZ"]))
def test_the_host_has_no_say(settings: dict[str, str]) -> None:
    """Another process with another zone, hash seed, locale and zone path gives the very same answers."""
    program = "from tests.property.test_recurrence_properties import digest; print(digest())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        check=True,
        timeout=60,
        text=True,
    )
    assert done.stdout.strip() == digest()


@given(recurrences(), INSTANTS, st.integers(0, 3 * DAY), st.integers(0, 400 * DAY))
def test_count_is_the_length_and_adds_up(recurrence: Recurrence, after: int, short: int, long: int) -> None:
    """Counts are exact, and two ranges end to end count as one."""
    middle = after + short
    assert recurrence.count(after, middle) == sum(1 for _ in islice(recurrence.between(after, middle), 300_000))
    parts = recurrence.count(after, middle) + recurrence.count(middle, middle + long)
    assert recurrence.count(after, middle + long) == parts


@given(CRONS, ZONE_RULES, INSTANTS)
def test_first_and_second_passes_are_parts_of_both(schedule: CronSchedule | None, zone: ZoneRules, after: int) -> None:
    """With gaps skipped, first and second together are both, and each alone is a part of it."""
    assert schedule is not None
    passes: dict[FoldRule, set[int]] = {
        fold: set(recurrence_of(schedule, zone, "skip", fold).between(after, after + HOUR)) for fold in FOLD_RULES
    }
    assert passes["first"] | passes["second"] == passes["both"]
