"""Recurrence rules against dateutil, and the ways of searching them against one another."""

import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from dateutil.rrule import rrulestr

from fireledger.domain.instants import SECOND, parse_instant
from fireledger.domain.recurrence.errors import MalformedSchedule, NeverDue
from fireledger.domain.recurrence.recurrence import recurrence_of
from fireledger.domain.recurrence.rule_opinion import KNOWN_RULE_DIFFERENCES, rule_disagreement
from fireledger.domain.recurrence.rule_search import rule_times_of
from fireledger.domain.recurrence.rule_text import parse_rule
from fireledger.domain.recurrence.rules import FOLD_RULES, GAP_RULES
from fireledger.domain.recurrence.schedule import RuleSchedule
from fireledger.runners.zone_package import load_packaged_zones

ZONES = load_packaged_zones()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
DAYS = "MO TU WE TH FR SA SU".split()
WITHIN_A_DAY = {"HOURLY", "MINUTELY", "SECONDLY"}
YEARS = (1999, 2026, 2027, 2028, 2050, 2150)
CALENDAR_CYCLE = timedelta(days=146_097)


def _values(draw: random.Random, low: int, high: int, signed: bool = False) -> str:
    signs = (1, -1) if signed else (1,)
    return ",".join(str(draw.randint(low, high) * draw.choice(signs)) for _ in range(draw.choice((1, 1, 2, 3))))


def _weekdays(draw: random.Random, frequency: str, by_week: bool) -> str:
    if frequency in {"YEARLY", "MONTHLY"} and not by_week and draw.random() < 0.5:
        return ",".join(f"{draw.choice((1, 2, 3, -1, -2, 5))}{draw.choice(DAYS)}" for _ in range(draw.choice((1, 2))))
    return ",".join(draw.sample(DAYS, draw.choice((1, 2, 5))))


def rule_text(draw: random.Random, frequencies: list[str]) -> str:
    """A rule with a start, of any parts that go together."""
    frequency = draw.choice(frequencies)
    by_week = frequency == "YEARLY" and draw.random() < 0.3
    chances: list[tuple[float, str]] = [
        (0.5, f"INTERVAL={draw.choice((2, 3, 5, 7, 90))}"),
        (0.3, f"WKST={draw.choice(DAYS)}"),
        (0.3, f"BYMONTH={_values(draw, 1, 12)}"),
        (0.3 * (frequency != "WEEKLY"), f"BYMONTHDAY={_values(draw, 1, 31, True)}"),
        (1.0 * by_week, f"BYWEEKNO={_values(draw, 1, 53, True)}"),
        (0.2 * (frequency in {"YEARLY", *WITHIN_A_DAY}), f"BYYEARDAY={_values(draw, 1, 366, True)}"),
        (1.0 if by_week else 0.5, f"BYDAY={_weekdays(draw, frequency, by_week)}"),
        (0.4, f"BYHOUR={_values(draw, 0, 23)}"),
        (0.4, f"BYMINUTE={_values(draw, 0, 59)}"),
        (0.2, f"BYSECOND={_values(draw, 0, 59)}"),
        (0.3 * (frequency not in WITHIN_A_DAY), f"BYSETPOS={_values(draw, 1, 4, True)}"),
    ]
    parts = [f"FREQ={frequency}", *(part for chance, part in chances if draw.random() < chance)]
    date = f"{draw.choice(YEARS)}{draw.randint(1, 12):02d}{draw.randint(1, 28):02d}"
    clock = f"{draw.randint(0, 23):02d}{draw.randint(0, 59):02d}{draw.randint(0, 59):02d}"
    return f"DTSTART:{date}T{clock} RRULE:{';'.join(parts)}"


def read(text: str) -> RuleSchedule | MalformedSchedule:
    """The schedule or the refusal."""
    try:
        return parse_rule(text)
    except MalformedSchedule as error:
        return error


def agree(seed: int, count: int) -> None:
    """Compare so many drawn rules with dateutil."""
    draw = random.Random(seed)
    compared = never = 0
    for _ in range(count):
        text = rule_text(draw, ["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"])
        found = read(text)
        if isinstance(found, NeverDue):
            never += 1
            if never % 20 == 0:
                assert_never_to_dateutil(text)
        elif isinstance(found, RuleSchedule):
            compared += not any(known.applies(found) for known in KNOWN_RULE_DIFFERENCES)
            assert rule_disagreement(found) is None, text
    assert compared > count // 3


def assert_never_to_dateutil(text: str) -> None:
    """Near the end of its calendar, where it gives up soon, dateutil finds no date of the rule either."""
    start_text, _, rule = text.removeprefix("DTSTART:").partition(" RRULE:")
    start = datetime.fromisoformat(start_text)
    while start.year < 9_000:
        start += CALENDAR_CYCLE
    first = None
    with suppress(ValueError):  # dateutil refuses a rule of which it knows that it is empty.
        first = next(iter(rrulestr(rule, dtstart=start)), None)
    # The end of our own calendar is far enough for every rule that comes at all, but for some every 90th year.
    assert first is None or "INTERVAL=90" in rule, text


@pytest.mark.slow
def test_rules_agree_with_dateutil() -> None:
    """Over mixed rules, every difference from dateutil is a listed one."""
    agree(21, 300)


@pytest.mark.long
def test_many_rules_agree_with_dateutil() -> None:
    """As above, over ten times as many."""
    agree(22, 3_000)


@pytest.mark.slow
def test_rules_by_the_second_agree_with_dateutil() -> None:
    """Rules by the second, which are not compared at definition, agree over their first local times."""
    draw = random.Random(23)
    for _ in range(60):
        interval, hour, minute = draw.choice((1, 7, 11, 90, 4_001)), draw.randint(0, 23), draw.randint(0, 59)
        text = f"FREQ=SECONDLY;INTERVAL={interval}" + draw.choice(("", f";BYHOUR={hour}", f";BYMINUTE={minute}"))
        found = read(f"DTSTART:20260105T{hour:02d}{minute:02d}17 {text}")
        if isinstance(found, MalformedSchedule):
            assert isinstance(found, NeverDue)
            continue
        theirs = islice(rrulestr(text, dtstart=datetime.fromisoformat(f"2026-01-05T{hour:02d}:{minute:02d}:17")), 40)
        ours = islice(rule_times_of(found).times(0, 1 << 40), 40)
        assert [EPOCH + timedelta(seconds=at_s) for at_s in ours] == list(theirs)


@pytest.mark.slow
def test_every_way_of_searching_a_rule_agrees() -> None:
    """Stepping forward and back, ranges and counts give the same instants, in zones that change, under all rules."""
    draw = random.Random(24)
    for _ in range(60):
        found = read(rule_text(draw, ["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"]))
        if isinstance(found, MalformedSchedule):
            continue
        zone = ZONES.zone(draw.choice(("Europe/Rome", "Australia/Lord_Howe", "Pacific/Apia", "America/Santiago")))
        recurrence = recurrence_of(found, zone, draw.choice(GAP_RULES), draw.choice(FOLD_RULES))
        after = recurrence.next_after(found.start - 86_400 * SECOND)
        if after is None:
            continue
        listed = list(islice(recurrence.between(after, parse_instant("2199-12-31T00:00:00Z")), 300))
        stepped = [after]
        while len(stepped) <= len(listed):
            following = recurrence.next_after(stepped[-1])
            assert following is not None
            stepped.append(following)
        assert listed == stepped[1:] == sorted(set(listed))
        for place, instant in enumerate(listed[1:]):
            assert recurrence.previous_before(instant) == listed[place]
        if listed:
            assert recurrence.count(after, listed[-1]) == len(listed)
            middle = listed[len(listed) // 2]
            assert recurrence.count(after, middle) + recurrence.count(middle, listed[-1]) == len(listed)
