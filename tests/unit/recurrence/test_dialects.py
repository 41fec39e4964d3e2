"""The dialects quartz and aws, and what is recognised or refused when none is declared."""

import pytest

from fireledger.domain.instants import DAY, HOUR, MINUTE, parse_instant
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.errors import MalformedSchedule, NeverDue
from fireledger.domain.recurrence.local_times import bits_of
from fireledger.domain.recurrence.rules import default_rules
from fireledger.domain.recurrence.schedule import CronSchedule, IntervalSchedule, OneOffSchedule, RuleSchedule
from fireledger.domain.recurrence.schedule_text import parse_schedule

ANCHOR = parse_instant("2026-01-05T09:00:00Z")


def cron(text: str, dialect: str | None = None) -> CronSchedule:
    """The cron schedule of a text."""
    schedule = parse_schedule(text, dialect)
    assert isinstance(schedule, CronSchedule)
    return schedule


@pytest.mark.parametrize(
    "text,dialect,same",
    [
        ("0 0 13 ? * 1-5", "quartz", "0 0 13 * * 0-4"),
        ("0 0 13 ? * SUN-THU", "quartz", "0 0 13 * * 0-4"),
        ("0 0 13 ? * L", "quartz", "0 0 13 * * 6"),
        ("0 0 13 ? * 6L", "quartz", "0 0 13 * * 5L"),
        ("0 0 13 ? * FRI#3", "quartz", "0 0 13 * * 5#3"),
        ("0 0 13 LW * ?", "quartz", "0 0 13 LW * *"),
        ("0 0 13 L-3,15W * ?", "quartz", "0 0 13 L-3,15W * *"),
        ("0 /10 22-2 ? NOV-FEB FRI-MON", "quartz", "0 */10 22,23,0,1,2 * 11,12,1,2 5,6,0,1"),
        ("0 50-10/15 9 28-3 * ?", "quartz", "0 50,5 9 28-31,1-3 * *"),
        ("30 0 9 * * ? *", "quartz", "30 0 9 * * *"),
        ("0 12 ? * 2-6 *", "aws", "0 12 * * 1-5"),
        ("cron(0/15 9 1,15 * ? *)", "aws", "0/15 9 1,15 * *"),
        (" cron( 0 12 ? * L * ) ", "aws", "0 12 * * 6"),
    ],
)
def test_another_dialects_masks_are_those_of_unix(text: str, dialect: str, same: str) -> None:
    """What another dialect says compiles to the masks of the same thing said in our own."""
    theirs, ours = cron(text, dialect), cron(same)
    assert theirs.dialect == dialect
    assert theirs.source == text
    fields = ("seconds", "minutes", "hours", "days", "months", "weekdays", "days_from_last", "nearest_weekdays")
    more = ("nearest_weekdays_from_last", "nth_weekdays", "last_weekdays", "years", "has_seconds")
    assert [getattr(theirs, name) for name in (*fields, *more)] == [getattr(ours, name) for name in (*fields, *more)]
    assert theirs.day_rule == "and"


def test_days_before_the_last_can_be_moved_to_a_weekday() -> None:
    """L-3W is the weekday nearest to the third day before the last, where the dialect has it."""
    assert cron("0 0 9 L-3W * ?", "quartz").nearest_weekdays_from_last == 1 << 3
    with pytest.raises(MalformedSchedule, match='"L-3W" is not a day'):
        cron("0 9 L-3W * *")


@pytest.mark.parametrize(
    "text,dialect,years",
    [
        ("0 0 9 1 1 ? 2026", "quartz", (2026,)),
        ("0 0 9 1 1 ? 2026-2028,2030", "quartz", (2026, 2027, 2028, 2030)),
        ("0 9 1 1 ? 2190/4", "aws", (2190, 2194, 2198)),
        ("0 9 1 1 ? *", "aws", None),
    ],
)
def test_years(text: str, dialect: str, years: tuple[int, ...] | None) -> None:
    """A year field lists the only years; * leaves all."""
    assert cron(text, dialect).years == years


@pytest.mark.parametrize(
    "text,dialect",
    [("0 0 9 ? * 2", "quartz"), ("0 0/5 9 ? * 2", "quartz"), ("cron(0 9 ? * 2 *)", "aws"), ("0 * ? * 2 *", "aws")],
)
def test_a_dialect_never_changes_the_default_rules(text: str, dialect: str) -> None:
    """Gap and fold defaults follow the clock fields, as everywhere."""
    schedule = cron(text, dialect)
    assert schedule.interval_like is ("/" in text or text.startswith("0 *"))
    assert default_rules(schedule) == (("skip", "both") if schedule.interval_like else ("shift", "first"))


@pytest.mark.parametrize(
    "text,dialect,message,position",
    [
        ("0 0 12 * * *", "quartz", 'in quartz "*" and "*" cannot both choose the days', 11),
        ("0 0 12 ? * ?", "quartz", 'both day fields are "?"', 11),
        ("0 0 12 1,? * ?", "quartz", '"?" is only a part of the day-of-month field', 9),
        ("0 0 ? * * ?", "quartz", '"?" in the hour field belongs to other dialects', 4),
        ("0 0 12 1-5W * ?", "quartz", '"1-5W" is not a day', 7),
        ("0 0 12 ? * 0", "quartz", '"0" is out of range for the day-of-week field', 11),
        ("0 0 12 ? * 6#3,2#1", "quartz", '"6#3" stands beside other days of the week', 11),
        ("0 12 * * ?", "quartz", "the cron expression has 5 fields", 9),
        ("0 0 12 1 1 ? 2026 1", "quartz", "the cron expression has 8 fields", 13),
        ("0 0 12 1 1 ? 1969", "quartz", '"1969" is out of range for the year field', 13),
        ("0 0 12 1 1 ? 2030-2026", "quartz", '"2030-2026" runs backwards in the year field', 13),
        ("0 12 ? * 6-2 *", "aws", '"6-2" runs backwards in the day-of-week field', 9),
        ("cron(0 12 ? * 2)", "aws", "the cron expression has 5 fields", 14),
        ("cron(0 12 ? * 2 *", "aws", '"cron(" is not closed', 17),
        ("cron()", "aws", "the cron expression is empty", 5),
        ("cron(0 12 ? * 2 *)", "unix", '"cron" belongs to aws, and unix is declared', 0),
        ("rate(5 minutes)", "quartz", '"rate" belongs to aws, and quartz is declared', 0),
        ("RRULE:FREQ=DAILY;BYHOUR=9", "unix", '"RRULE" belongs to rrule, and unix is declared', 0),
    ],
)
def test_refusals_name_the_part(text: str, dialect: str, message: str, position: int) -> None:
    """What a dialect does not have is refused with the part, its place and a hint."""
    with pytest.raises(MalformedSchedule) as caught:
        parse_schedule(text, dialect)
    assert message in caught.value.message
    assert caught.value.position == position
    assert caught.value.hint


def test_a_date_that_no_named_year_has_is_never_due() -> None:
    """29 February in a year without it can never match."""
    with pytest.raises(NeverDue, match="nor any year"):
        cron("0 0 0 29 2 ? 2025", "quartz")


@pytest.mark.parametrize("dialect", ["spring", "apscheduler", "croniter6-seconds-last", "Quartz", ""])
def test_other_dialects_are_refused_by_name(dialect: str) -> None:
    """A dialect that is not read is refused by its name, whatever the text."""
    with pytest.raises(MalformedSchedule) as caught:
        parse_schedule("0 9 * * *", dialect)
    assert caught.value.message == f'the dialect "{dialect}" is not known'
    assert caught.value.hint == "use unix, quartz, aws or rrule"
    with pytest.raises(MalformedSchedule, match="is not known"):
        parse_cron("0 9 * * *", dialect)


@pytest.mark.parametrize(
    "text,period",
    [
        ("rate(5 minutes)", 5 * MINUTE),
        ("rate(1 hour)", HOUR),
        (" Rate( 7 days ) ", 7 * DAY),
        ("every 90m", 90 * MINUTE),
    ],
)
def test_what_shows_itself_to_be_an_interval(text: str, period: int) -> None:
    """rate(...) and every ... are intervals on the anchor, with nothing declared."""
    schedule = parse_schedule(text, anchor=ANCHOR)
    assert isinstance(schedule, IntervalSchedule)
    assert (schedule.period, schedule.anchor) == (period, ANCHOR)


@pytest.mark.parametrize("text", ["PT90M", "P1DT6H", "@every 2h"])
def test_other_writings_of_intervals(text: str) -> None:
    """ISO 8601 durations and @every are intervals too, never cron."""
    assert isinstance(parse_schedule(text, anchor=ANCHOR), IntervalSchedule)


def test_one_off_texts() -> None:
    """at(...) and at ... name one local time; its source is what --at takes."""
    for text in ("at(2026-12-24T18:00:00)", "at 2026-12-24T18:00:00"):
        schedule = parse_schedule(text)
        assert isinstance(schedule, OneOffSchedule)
        assert schedule.source == "2026-12-24T18:00:00"
    with pytest.raises(MalformedSchedule) as caught:
        parse_schedule("at(2026-12-24T18:00:00Z)")
    assert (caught.value.position, caught.value.token) == (22, "Z")


def test_a_recurrence_rule_shows_itself() -> None:
    """RRULE: needs no declaration, and may have one."""
    text = "RRULE:FREQ=WEEKLY;BYDAY=MO;BYHOUR=9"
    assert isinstance(parse_schedule(text), RuleSchedule)
    assert parse_schedule(text, "rrule") == parse_schedule(text)


@pytest.mark.parametrize(
    "text,message",
    [
        ("rate(1 minutes)", "write rate(1 minute)"),
        ("rate(5 minute)", "write rate(5 minutes)"),
        ("rate(0 minutes)", "use 1 minute to 3660 days"),
        ("rate(5 seconds)", "write rate(5 minutes), rate(1 hour) or rate(7 days)"),
        ("rate(99999999 days)", "use 1 minute to 3660 days"),
        ("rate(\u0665 minutes)", "write rate(5 minutes)"),
    ],
)
def test_rates_that_are_none(text: str, message: str) -> None:
    """A rate is a positive number of minutes, hours or days, in the right number."""
    with pytest.raises(MalformedSchedule) as caught:
        parse_schedule(text)
    assert message in caught.value.hint
    assert caught.value.position == 5


def test_two_readings_are_refused_with_both() -> None:
    """A weekday number beside ? is another day in another dialect: both are in the message."""
    with pytest.raises(MalformedSchedule) as caught:
        parse_schedule("0 0 12 ? * 2")
    message = caught.value.message
    assert '"0 0 12 ? * 2" could mean two things' in message
    assert "quartz: " in message
    assert "Monday" in message
    assert "Tuesday" in message
    assert caught.value.hint == "declare one, with --dialect quartz"
    assert caught.value.position == 7


def test_one_reading_that_is_not_declared_is_refused_by_its_name() -> None:
    """Where every dialect reads the same, the hint still asks for the declaration."""
    with pytest.raises(MalformedSchedule) as caught:
        parse_schedule("0 0 12 ? * MON")
    assert caught.value.message == '"0 0 12 ? * MON" is quartz, which is not declared'
    with pytest.raises(MalformedSchedule, match="belongs to other dialects"):
        parse_schedule("0 0 ? * 1")


def test_undeclared_text_is_unix() -> None:
    """Without anything that shows another kind, the text is our own cron."""
    assert cron("0 9 * * 1-5") == parse_cron("0 9 * * 1-5")
    assert bits_of(cron("0 9 * * 1").weekdays) == [1]
