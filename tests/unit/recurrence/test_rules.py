"""Recurrence rules: what they compile to, what is refused, and their instants in zones that change."""

from time import process_time

import pytest

from fireledger.domain.instants import DAY, format_instant, parse_instant
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.errors import MalformedSchedule, NeverDue
from fireledger.domain.recurrence.local_times import bits_of
from fireledger.domain.recurrence.recurrence import recurrence_of
from fireledger.domain.recurrence.rule_opinion import (
    KNOWN_RULE_DIFFERENCES,
    KnownRuleDifference,
    compare_rule,
    rule_disagreement,
)
from fireledger.domain.recurrence.rule_text import parse_rule
from fireledger.domain.recurrence.rules import FOLD_RULES, GAP_RULES, default_rules
from fireledger.domain.rezone import Rules, named_times
from fireledger.runners.zone_package import load_packaged_zones

ZONES = load_packaged_zones()
START = "DTSTART:20260105T090000 "


def instants(text: str, zone: str, after: str, count: int) -> list[str]:
    """The rule's next instants under its default rules."""
    schedule = parse_rule(text)
    recurrence = recurrence_of(schedule, ZONES.zone(zone), *default_rules(schedule))
    return [format_instant(one) for one in recurrence.next_many(parse_instant(after), count)]


@pytest.mark.parametrize(
    "text,expected",
    [
        ("RRULE:FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=9", ["2026-01-05T09", "2026-01-07T09", "2026-01-12T09"]),
        (f"{START}RRULE:FREQ=DAILY;INTERVAL=2", ["2026-01-05T09", "2026-01-07T09", "2026-01-09T09"]),
        (f"{START}RRULE:FREQ=WEEKLY;INTERVAL=2", ["2026-01-05T09", "2026-01-19T09", "2026-02-02T09"]),
        (f"{START}RRULE:FREQ=MONTHLY;BYDAY=-1FR", ["2026-01-30T09", "2026-02-27T09", "2026-03-27T09"]),
        (f"{START}RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
         ["2026-01-30T09", "2026-02-27T09", "2026-03-31T09"]),
        (f"{START}RRULE:FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=9,17;BYSETPOS=-1",
         ["2026-01-31T17", "2026-02-28T17", "2026-03-31T17"]),
        (f"{START}RRULE:FREQ=YEARLY;BYDAY=20MO", ["2026-05-18T09", "2027-05-17T09", "2028-05-15T09"]),
        (f"{START}RRULE:FREQ=YEARLY;BYWEEKNO=53;BYDAY=TH", ["2026-12-31T09", "2032-12-30T09", "2037-12-31T09"]),
        (f"{START}RRULE:FREQ=YEARLY;INTERVAL=4;BYYEARDAY=-1", ["2026-12-31T09", "2030-12-31T09", "2034-12-31T09"]),
        (f"{START}RRULE:FREQ=YEARLY", ["2026-01-05T09", "2027-01-05T09", "2028-01-05T09"]),
        (f"{START}RRULE:FREQ=HOURLY;INTERVAL=5", ["2026-01-05T09", "2026-01-05T14", "2026-01-05T19"]),
        (f"{START}RRULE:FREQ=HOURLY;INTERVAL=36", ["2026-01-05T09", "2026-01-06T21", "2026-01-08T09"]),
        (f"{START}RRULE:FREQ=MINUTELY;INTERVAL=360;BYDAY=TU", ["2026-01-06T03", "2026-01-06T09", "2026-01-06T15"]),
        (f"{START}RRULE:FREQ=DAILY;COUNT=2", ["2026-01-05T09", "2026-01-06T09"]),
        (f"{START}RRULE:FREQ=DAILY;UNTIL=20260106T085959", ["2026-01-05T09"]),
        ("DTSTART:20260105T090000\r\nRRULE:FREQ=DAILY;UNTIL=20260106T090000", ["2026-01-05T09", "2026-01-06T09"]),
        (f"{START}rrule:freq=daily;byhour=3;count=1", ["2026-01-06T03"]),
    ],
)  # fmt: skip
def test_instants(text: str, expected: list[str]) -> None:
    """Each frequency, interval, position and bound gives its instants, and no more."""
    assert [one[:13] for one in instants(text, "UTC", "2026-01-01T00:00:00Z", 3)] == expected


def test_a_rule_on_the_zones_clock() -> None:
    """A daily rule is fixed-time: shifted out of a gap, once in a fold. One by the hour is interval-like."""
    daily = "RRULE:FREQ=DAILY;BYHOUR=2;BYMINUTE=30"
    assert instants(daily, "Europe/Rome", "2026-03-28T12:00:00Z", 2) == ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"]
    assert instants(daily, "Europe/Rome", "2026-10-24T12:00:00Z", 2) == ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    hourly = "RRULE:FREQ=HOURLY;BYHOUR=1,2,3"
    assert instants(hourly, "Europe/Rome", "2026-03-28T23:00:00Z", 2) == [
        "2026-03-29T00:00:00Z",
        "2026-03-29T01:00:00Z",
    ]
    assert (
        len([one for one in instants(hourly, "Europe/Rome", "2026-10-24T22:00:00Z", 5) if one < "2026-10-25T12"]) == 4
    )


@pytest.mark.parametrize(
    "text,cron",
    [
        ("RRULE:FREQ=DAILY;BYHOUR=2;BYMINUTE=0,30", "0,30 2 * * *"),
        ("RRULE:FREQ=HOURLY;BYMINUTE=15", "15 * * * *"),
        ("DTSTART:19700101T000000 RRULE:FREQ=MINUTELY;INTERVAL=20", "*/20 * * * *"),
        ("RRULE:FREQ=WEEKLY;BYDAY=SU;BYHOUR=0,1,2", "0 0-2 * * 0"),
        ("RRULE:FREQ=YEARLY;BYMONTH=3,10;BYDAY=-1SU;BYHOUR=2", "0 2 * 3,10 0L"),
        ("RRULE:FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=0", "0 0 L * *"),
    ],
)
@pytest.mark.parametrize("zone", ["Europe/Rome", "Australia/Lord_Howe", "Pacific/Apia", "America/Santiago"])
def test_a_rule_that_says_what_cron_says_gives_the_same(text: str, cron: str, zone: str) -> None:
    """Under every gap and fold rule, and for the local times that an adoption goes by, rule and cron agree."""
    rule, same, rules = parse_rule(text), parse_cron(cron), ZONES.zone(zone)
    after, until = parse_instant("2010-01-01T00:00:00Z"), parse_instant("2012-01-01T00:00:00Z")
    assert default_rules(rule) == default_rules(same)
    for gap in GAP_RULES:
        for fold in FOLD_RULES:
            ours, theirs = (recurrence_of(one, rules, gap, fold) for one in (rule, same))
            instants = ours.next_many(after, 500)
            assert instants == theirs.next_many(after, 500)
            assert ours.count(after, until) == theirs.count(after, until)
            assert ours.previous_before(until) == theirs.previous_before(until)
            named = [list(named_times(Rules(one, gap, fold), instants[-1], rules)) for one in (rule, same)]
            assert named[0] == named[1]


def test_what_is_left_out_comes_from_the_start() -> None:
    """Fields that a rule does not name are those of DTSTART; without one, minutes and seconds are 0."""
    schedule = parse_rule("DTSTART:20260107T101112 RRULE:FREQ=MONTHLY")
    assert (bits_of(schedule.hours), bits_of(schedule.minutes), bits_of(schedule.seconds)) == ([10], [11], [12])
    assert bits_of(schedule.month_days) == [7]
    bare = parse_rule("FREQ=HOURLY")
    assert (bits_of(bare.minutes), bits_of(bare.seconds), bare.start) == ([0], [0], 0)
    assert len(bits_of(bare.hours)) == 24


@pytest.mark.parametrize(
    "text,message,token",
    [
        ("RRULE:FREQ=DAILY", "the rule has no BYHOUR, and no start is given", "FREQ=DAILY"),
        ("RRULE:FREQ=WEEKLY;BYHOUR=9", "the rule has no BYDAY", "FREQ=WEEKLY;BYHOUR=9"),
        ("RRULE:FREQ=DAILY;INTERVAL=2;BYHOUR=9", '"INTERVAL" counts from a start', "FREQ=DAILY;INTERVAL=2;BYHOUR=9"),
        ("RRULE:FREQ=DAILY;COUNT=2;BYHOUR=9", '"COUNT" counts from a start', "FREQ=DAILY;COUNT=2;BYHOUR=9"),
        (f"{START}RRULE:FREQ=DAILY;UNTIL=20261231", "could mean the start of that day or its end", "20261231"),
        (f"{START}RRULE:FREQ=DAILY;UNTIL=20261231T000000Z", "contradicts the zone", "20261231T000000Z"),
        (f"{START}RRULE:FREQ=DAILY;UNTIL=20250101T000000", "lies before the start", "20250101T000000"),
        (f"{START}RRULE:FREQ=DAILY;UNTIL=20270101T000000;COUNT=2", "both UNTIL and COUNT", "20270101T000000"),
        ("DTSTART;TZID=A:20260105T090000 RRULE:FREQ=DAILY", "has parameters", "DTSTART;TZID=A:20260105T090000"),
        ("DTSTART:20260105T090000Z RRULE:FREQ=DAILY", "contradicts the zone", "20260105T090000Z"),
        ("DTSTART:20260230T090000 RRULE:FREQ=DAILY", "is not a date and time", "20260230T090000"),
        ("DTSTART:22000101T090000 RRULE:FREQ=DAILY", "is out of range", "22000101T090000"),
        (f"{START}RRULE:FREQ=DAILY EXDATE:20260106T090000", '"EXDATE" is not read', "EXDATE:20260106T090000"),
        (f"{START}RRULE:FREQ=DAILY RRULE:FREQ=WEEKLY", '"RRULE" is given twice', "RRULE:FREQ=WEEKLY"),
        (START, "there is no RRULE", ""),
        ("RRULE:BYDAY=MO", "the rule has no FREQ", "BYDAY=MO"),
        ("RRULE:FREQ=FORTNIGHTLY", '"FORTNIGHTLY" is not a frequency', "FORTNIGHTLY"),
        ("RRULE:FREQ=DAILY;BYEASTER=0", '"BYEASTER" is not a part', "BYEASTER=0"),
        ("RRULE:FREQ=DAILY;;BYHOUR=9", '"" is not a part', ""),
        ("RRULE:FREQ=DAILY;BYHOUR=9;BYHOUR=10", '"BYHOUR" is given twice', "BYHOUR=10"),
        ("RRULE:FREQ=DAILY;BYHOUR=24", '"24" is out of range for BYHOUR', "24"),
        ("RRULE:FREQ=DAILY;BYHOUR=9;BYSECOND=60", '"60" is out of range', "60"),
        ("RRULE:FREQ=DAILY;BYHOUR=9,", '"" in BYHOUR is not a number', ""),
        ("RRULE:FREQ=DAILY;BYHOUR=9,\u0663", "in BYHOUR is not a number", "\u0663"),
        (f"{START}RRULE:FREQ=DAILY;INTERVAL=0", '"0" is out of range for INTERVAL', "0"),
        (f"{START}RRULE:FREQ=DAILY;INTERVAL=2,3", "in INTERVAL is not a number", "2,3"),
        (f"{START}RRULE:FREQ=DAILY;INTERVAL=99999999999", "in INTERVAL is not a number", "99999999999"),
        (f"{START}RRULE:FREQ=WEEKLY;BYDAY=1MO", '"1MO" counts weekdays', "1MO"),
        (f"{START}RRULE:FREQ=MONTHLY;BYDAY=6MO", '"6MO" is out of range', "6MO"),
        (f"{START}RRULE:FREQ=MONTHLY;BYDAY=XX", '"XX" is not a weekday', "XX"),
        (f"{START}RRULE:FREQ=MONTHLY;BYWEEKNO=3;BYDAY=MO", '"BYWEEKNO" does not go with FREQ=MONTHLY', "3"),
        (f"{START}RRULE:FREQ=YEARLY;BYWEEKNO=3", "could mean every day of the week or the weekday of the start", "3"),
        (f"{START}RRULE:FREQ=WEEKLY;BYMONTHDAY=3", '"BYMONTHDAY" does not go with FREQ=WEEKLY', "3"),
        (f"{START}RRULE:FREQ=DAILY;BYYEARDAY=3", '"BYYEARDAY" does not go with FREQ=DAILY', "3"),
        (f"{START}RRULE:FREQ=DAILY;BYSETPOS=1", '"BYSETPOS" does not go with FREQ=DAILY', "1"),
        (f"{START}RRULE:FREQ=HOURLY;BYMINUTE=1,2;BYSETPOS=1", '"BYSETPOS" does not go with FREQ=HOURLY', "1"),
        (f"{START}RRULE:FREQ=MONTHLY;WKST=XX", '"XX" is not a weekday', "XX"),
    ],
)  # fmt: skip
def test_refusals_name_the_part(text: str, message: str, token: str) -> None:
    """Each refusal gives the sentence, the part, its place in the text and a hint."""
    with pytest.raises(MalformedSchedule) as caught:
        parse_rule(text)
    error = caught.value
    assert message in error.message
    assert error.token == token
    assert error.position is not None
    assert text[error.position : error.position + len(token)] == token
    assert error.hint


@pytest.mark.parametrize(
    "text",
    [
        "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=9",
        f"{START}RRULE:FREQ=HOURLY;INTERVAL=3;BYHOUR=1",
        f"{START}RRULE:FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29",
        f"{START}RRULE:FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
        f"{START}RRULE:FREQ=DAILY;BYHOUR=9;BYSETPOS=2",
        f"{START}RRULE:FREQ=DAILY;BYHOUR=3;UNTIL=20260105T235959",
    ],
)
def test_rules_without_any_local_time_are_never_due(text: str) -> None:
    """What no date and time passes is refused at once, whatever the parts."""
    with pytest.raises(NeverDue):
        parse_rule(text)


@pytest.mark.parametrize("known", KNOWN_RULE_DIFFERENCES, ids=lambda known: known.reason)
def test_each_known_difference_from_dateutil_is_real(known: KnownRuleDifference) -> None:
    """Every line of the table still shows a difference, is recognised, and is not reported."""
    schedule = parse_rule(known.example)
    assert known.applies(schedule)
    assert compare_rule(schedule) is not None
    assert rule_disagreement(schedule) is None


@pytest.mark.parametrize(
    "text",
    [
        "HOURLY;INTERVAL=5",
        "MINUTELY;INTERVAL=1441",
        "SECONDLY;INTERVAL=8641",
        "SECONDLY;INTERVAL=7",
        "HOURLY;INTERVAL=7;BYMINUTE=0,20,40;BYSECOND=0,30",
        "MINUTELY;INTERVAL=7;BYHOUR=9,10",
        "SECONDLY;INTERVAL=7;BYMINUTE=0,30",
    ],
)
def test_the_first_count_of_a_year_is_quick(text: str) -> None:
    """Days of a rule that differ are not listed for it, and the count is that of the list."""
    # A start that no other test has: what is counted before is known.
    schedule = parse_rule(f"DTSTART:20240229T131415 RRULE:FREQ={text}")
    recurrence = recurrence_of(schedule, ZONES.zone("Europe/Rome"), "skip", "both")
    after = parse_instant("2026-01-01T00:00:00Z")
    begun = process_time()
    year = recurrence.count(after, after + 365 * DAY)
    assert process_time() - begun < 0.025
    week = recurrence.count(after + 365 * DAY, after + 372 * DAY)
    assert week == sum(1 for _ in recurrence.between(after + 365 * DAY, after + 372 * DAY))
    assert recurrence.count(after, after + 372 * DAY) == year + week
    days = (after + day * DAY for day in range(365))
    assert year == sum(len(list(recurrence.between(day, day + DAY))) for day in days)
