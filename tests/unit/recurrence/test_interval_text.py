"""Intervals and one-off local times as text."""

import msgspec
import pytest

from fireledger.domain.instants import HOUR, MINUTE, SECOND, parse_instant
from fireledger.domain.recurrence.errors import MalformedSchedule
from fireledger.domain.recurrence.interval_text import parse_interval, parse_one_off
from fireledger.domain.recurrence.rules import default_rules
from fireledger.domain.recurrence.schedule import Schedule


@pytest.mark.parametrize(
    "text,period",
    [
        ("90m", 90 * MINUTE),
        ("every 2h", 2 * HOUR),
        ("@every 1s", SECOND),
        ("PT1M30S", 90 * SECOND),
        (" 1500ms ", 1_500_000),
    ],
)
def test_intervals(text: str, period: int) -> None:
    """Short and ISO forms, with or without the word every."""
    schedule = parse_interval(text, 17)
    assert (schedule.source, schedule.period, schedule.anchor) == (text, period, 17)
    assert default_rules(schedule) == ("skip", "both")


@pytest.mark.parametrize(
    "text,position,message",
    [
        ("999ms", 0, "too short"),
        ("0", 0, "too short"),
        ("every 1ms", 6, "too short"),
        ("20y", 0, "not an interval"),
        ("every 99999d", 6, "too long"),
        ("", 0, "not an interval"),
        ("every", 0, "not an interval"),
        ("-5m", 0, "not an interval"),
        ("5", 0, "not an interval"),
        ("9" * 300 + "s", 256, "301 characters"),
        ("P1Y", 0, "not an interval"),
    ],
)
def test_bad_intervals(text: str, position: int, message: str) -> None:
    """What is no interval is refused with a position and a hint."""
    with pytest.raises(MalformedSchedule, match=message) as caught:
        parse_interval(text, 0)
    assert caught.value.position == position
    assert caught.value.hint


@pytest.mark.parametrize(
    "text,same",
    [
        ("2026-12-24T18:00", "2026-12-24T18:00:00Z"),
        ("2026-12-24 18:00:05", "2026-12-24T18:00:05Z"),
        ("2026-12-24T18:00:05.25", "2026-12-24T18:00:05.250000Z"),
        ("2028-02-29T00:00", "2028-02-29T00:00:00Z"),
    ],
)
def test_one_off(text: str, same: str) -> None:
    """A local time is kept as naive microseconds."""
    schedule = parse_one_off(text)
    assert schedule.local == parse_instant(same)
    assert default_rules(schedule) == ("shift", "first")
    assert msgspec.json.decode(msgspec.json.encode(schedule), type=Schedule) == schedule


@pytest.mark.parametrize(
    "text,position,token,hint",
    [
        ("2026-12-24T18:00Z", 16, "Z", "--zone"),
        ("2026-12-24T18:00:00+01:00", 19, "+01:00", "--zone"),
        ("2026-12-24T18:00 Europe/Rome", 16, " Europe/Rome", "2026-12-24T18:00"),
        ("2026-02-30T18:00", 8, "30", "check the day"),
        ("2026-13-01T18:00", 5, "13", "01 to 12"),
        ("2026-12-01T24:00", 11, "24", "00 to 23"),
        ("2026-12-01T23:60", 14, "60", "00 to 59"),
        ("2026-12-01T23:59:60", 17, "60", "00 to 59"),
        ("1969-12-01T23:59", 0, "1969", "1970 to"),
        ("2200-01-01T00:00", 0, "2200", "to 2199"),
        ("tomorrow", 0, "tomorrow", "2026-12-24T18:00"),
        ("", 0, "", "2026-12-24T18:00"),
        ("2026-12-24", 0, "2026-12-24", "2026-12-24T18:00"),
    ],
)
def test_bad_one_off(text: str, position: int, token: str, hint: str) -> None:
    """Offsets, impossible dates and other text are refused with place and hint."""
    with pytest.raises(MalformedSchedule) as caught:
        parse_one_off(text)
    assert (caught.value.position, caught.value.token) == (position, token)
    assert hint in caught.value.hint
