"""What holds for every schedule, zone, rule and instant."""

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from fireledger.domain.instants import DAY, HOUR, SECOND, parse_instant
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.errors import MalformedSchedule
from fireledger.domain.recurrence.recurrence import Recurrence, recurrence_of
from fireledger.domain.recurrence.rules import FOLD_RULES, GAP_RULES, FoldRule
from fireledger.domain.recurrence.schedule import CronSchedule, IntervalSchedule, OneOffSchedule, Schedule
from fireledger.domain.zones import ZoneRules
from fireledger.runners.zone_package import load_packaged_zones

ZONES = load_packaged_zones()
FIRST, LAST = parse_instant("1970-01-10T00:00:00Z"), parse_instant("2190-01-01T00:00:00Z")
SPAN = 40 * DAY
TAKEN = 200
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
