"""The cron parser: what it reads, what it refuses, and what it says about it."""

import msgspec
import pytest

from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.errors import MalformedSchedule, NeverDue
from fireledger.domain.recurrence.local_times import bits_of
from fireledger.domain.recurrence.rules import default_rules
from fireledger.domain.recurrence.schedule import CronSchedule, Schedule


@pytest.mark.parametrize(
    "text,minutes,weekdays",
    [
        ("0 9 * * 1-5", [0], [1, 2, 3, 4, 5]),
        ("*/20 9 * * sat-sun", [0, 20, 40], [0, 6]),
        ("5/25 9 * * fri-sun", [5, 30, 55], [0, 5, 6]),
        ("10-20/5,07 9 * * 6-0", [7, 10, 15, 20], [0, 6]),
        ("0 9 * * 0-7", [0], [0, 1, 2, 3, 4, 5, 6]),
        ("0 9 * * mon,WED,7", [0], [0, 1, 3]),
        ("0 9 * * */2", [0], [0, 2, 4, 6]),
        ("0 9 * * 1-7/2", [0], [0, 1, 3, 5]),
        ("0 9 * * 0-0", [0], [0]),
        ("0 9 * * 7-7", [0], [0]),
    ],
)
def test_values(text: str, minutes: list[int], weekdays: list[int]) -> None:
    """Lists, ranges, steps, names and both numbers of Sunday compile to the expected values."""
    schedule = parse_cron(text)
    assert bits_of(schedule.minutes) == minutes
    assert bits_of(schedule.weekdays) == weekdays


def test_extras_have_their_own_masks() -> None:
    """L, L-n, nW, LW, d#n and dL are kept apart from plain values."""
    schedule = parse_cron("0 0 L,L-3,15W,LW,2 * 5#2,monL,3")
    assert (schedule.days_from_last, schedule.nearest_weekdays, schedule.nearest_weekdays_from_last) == (
        0b1001,
        1 << 15,
        1,
    )
    assert (schedule.days, schedule.weekdays) == (1 << 2, 1 << 3)
    assert (schedule.nth_weekdays, schedule.last_weekdays) == (1 << 12, 1 << 1)


@pytest.mark.parametrize(
    "text,rule",
    [("0 0 1 * 5", "or"), ("0 0 */2 * 1", "and"), ("0 0 *,1 * 1", "and"), ("0 0 1,* * 1", "or"), ("0 0 1 * *", "and")],
)
def test_day_rule_follows_the_first_character(text: str, rule: str) -> None:
    """Either day field that begins with a star makes both necessary."""
    assert parse_cron(text).day_rule == rule


@pytest.mark.parametrize(
    "text,interval_like",
    [
        ("0 9 * * *", False),
        ("0,30 9-17 * * *", False),
        ("*/15 9 * * *", True),
        ("0 2/4 * * *", True),
        ("5,* 9 * * *", True),
        ("15,45 0 9 * * *", False),
        ("*/15 0 9 * * *", True),
        ("0 0 9 */2 */2 *", False),
        ("@hourly", True),
        ("@daily", False),
    ],
)
def test_interval_like(text: str, interval_like: bool) -> None:
    """A star or a step in the clock fields chooses the defaults; plain seconds do not count."""
    schedule = parse_cron(text)
    assert schedule.interval_like is interval_like
    assert default_rules(schedule) == (("skip", "both") if interval_like else ("shift", "first"))


@pytest.mark.parametrize(
    "nickname,fields",
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        (" @Hourly ", "0 * * * *"),
    ],
)
def test_nicknames(nickname: str, fields: str) -> None:
    """A nickname compiles to its fields and keeps its own text."""
    schedule = parse_cron(nickname)
    assert schedule.source == nickname
    assert msgspec.structs.replace(schedule, source=fields) == parse_cron(fields)


@pytest.mark.parametrize(
    "text,position,token,hint",
    [
        ("0 25 * * *", 2, "25", "0 to 23"),
        ("  0 25 * * *", 4, "25", "0 to 23"),
        ("0 9,10,61-62 * * *", 7, "61", "0 to 23"),
        ("0 9 * * 1-9", 10, "9", "0 to 7"),
        ("0 9 0 * *", 4, "0", "1 to 31"),
        ("0 9 * foo *", 6, "foo", "jan to dec"),
        ("0 22-5/2 * * *", 2, "22-5/2", "write 22-23/2,0-5/2"),
        ("0 23-5/2 * * *", 2, "23-5/2", "write 23,1-5/2"),
        ("0 0 28-3 * *", 4, "28-3", "write 28-31,1-3"),
        ("0 0 * nov-feb *", 6, "nov-feb", "write nov-dec,jan-feb"),
        ("0 9 * * 7-3", 8, "7-3", "write 0-3"),
        ("*/0 * * * *", 2, "0", "1 to 59"),
        ("0 */24 * * *", 4, "24", "1 to 23"),
        ("0 0 * * */7", 10, "7", "1 to 6"),
        ("0 9 * * 7/2", 8, "7/2", "write 7 or 0/2"),
        ("0 9 * * L", 8, "L", "6L"),
        ("0 9 1-5W * *", 4, "1-5W", "15W"),
        ("0 9 32W * *", 4, "32", "1 to 31"),
        ("0 9 L-31 * *", 4, "L-31", "L-30"),
        ("0 9 * * 5#0", 8, "5#0", "#1 to #5"),
        ("0 9 * * 8#1", 8, "8", "0 to 7"),
        ("R 9 * * *", 0, "R", "--jitter"),
        ("H/15 9 * * *", 0, "H/15", "--jitter"),
        ("H(0-9) 9 * * *", 0, "H(0-9)", "--jitter"),
        ("0 9 * * ?", 8, "?", "*"),
        ("@daily now", 7, "now", "@daily alone"),
        ("0 9 * *", 6, "*", "write 5"),
        ("0 0 9 * * * 2027", 12, "2027", "years belong"),
        ("0 9 * * *\n", 9, "\n", "ASCII"),
        ("0 9 * * 1-", 10, "", "0 to 7"),
        ("1- 9 * * *", 2, "", "0 to 59"),
        ("5/ 9 * * *", 2, "", "*/5"),
        ("** 9 * * *", 0, "**", "0 to 59"),
        ("*-5 9 * * *", 0, "*", "0 to 59"),
    ],
)
def test_refusals_name_the_place(text: str, position: int, token: str, hint: str) -> None:
    """A refusal carries position, offending part and a hint, and shows all of them."""
    with pytest.raises(MalformedSchedule) as caught:
        parse_cron(text)
    error = caught.value
    assert (error.position, error.token) == (position, token)
    assert hint in error.hint
    assert f"(at position {position})" in str(error)
    assert error.hint in str(error)
    assert error.message[0] in '"abcdefghijklmnopqrstuvwxyz'


@pytest.mark.parametrize(
    "text", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 31W feb *", "0 0 L-30 2,4 *", "0 0 */8 * 1#5"]
)
def test_impossible_dates_are_never_due(text: str) -> None:
    """An expression that no date can match is refused as such."""
    with pytest.raises(NeverDue, match="never match"):
        parse_cron(text)


@pytest.mark.parametrize(
    "text", ["0 0 29 2 *", "0 0 31 2 1", "0 0 31 4,5 *", "0 0 */29 2 1", "0 0 * * 5#5", "0 0 L-28 2 *"]
)
def test_rare_dates_are_accepted(text: str) -> None:
    """Rare is not never."""
    assert parse_cron(text).source == text


@pytest.mark.parametrize("text", ["0 9 * * 1-5", "*/5 0 9 15W,L-2 */2 5#2,1L", "@weekly"])
def test_schedules_survive_storage(text: str) -> None:
    """A compiled schedule is the same after encoding and decoding, masks above 32 bits included."""
    schedule = parse_cron(text)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(schedule), type=Schedule) == schedule


def test_unknown_fields_are_refused() -> None:
    """A stored schedule with a field that this version does not know is not read."""
    stored = msgspec.to_builtins(parse_cron("0 9 * * *")) | {"week": 1}
    with pytest.raises(msgspec.ValidationError, match="week"):
        msgspec.convert(stored, type=CronSchedule)


def test_length_is_checked_before_anything_else() -> None:
    """A megabyte is refused as quickly as a line."""
    with pytest.raises(MalformedSchedule, match="1000000 characters"):
        parse_cron("9" * 1_000_000)
