"""Excluded dates and calendars: what is read, and what is refused with its line."""

import pytest

from fireledger.domain.limits import EXCLUDED_DATES_MAX
from fireledger.domain.recurrence.errors import MalformedSchedule
from fireledger.domain.recurrence.excluded_text import (
    CALENDAR_BYTES_MAX,
    format_excluded_dates,
    parse_excluded_calendar,
    parse_excluded_dates,
)


def calendar(*lines: str, newline: str = "\r\n") -> bytes:
    """A calendar with one event of these lines."""
    whole = ["BEGIN:VCALENDAR", "VERSION:2.0", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR", ""]
    return newline.join(whole).encode()


def dates(*lines: str) -> list[str]:
    """The dates of a calendar with one event of these lines."""
    return format_excluded_dates(parse_excluded_calendar(calendar(*lines)))


def test_dates_come_back_ascending_and_once() -> None:
    """Any order, repeated or not: ascending days, each once."""
    days = parse_excluded_dates(["2026-12-26", "1970-01-01", "2026-12-25", "2026-12-26"])
    assert days == (0, 20_812, 20_813)
    assert format_excluded_dates(days) == ["1970-01-01", "2026-12-25", "2026-12-26"]


@pytest.mark.parametrize(
    "text, position, token",
    [
        ("tomorrow", 0, "tomorrow"),
        ("2026-12-25T00:00", 0, "2026-12-25T00:00"),
        ("1969-12-31", 0, "1969"),
        ("2200-01-01", 0, "2200"),
        ("2026-13-01", 5, "13"),
        ("2026-02-29", 8, "29"),
        ("٢٠٢٦-12-25", 0, "٢٠٢٦-12-25"),
        ("", 0, ""),
    ],
)
def test_what_is_no_date_is_refused_with_its_place(text: str, position: int, token: str) -> None:
    """The error has a position, the offending part and a hint."""
    with pytest.raises(MalformedSchedule) as caught:
        parse_excluded_dates(["2026-12-25", text])
    assert (caught.value.position, caught.value.token) == (position, token)
    assert caught.value.hint


def test_the_number_of_dates_is_bounded() -> None:
    """One date more than the bound is refused; at the bound they are kept."""
    texts = format_excluded_dates(range(EXCLUDED_DATES_MAX + 1))
    assert len(parse_excluded_dates(texts[1:])) == EXCLUDED_DATES_MAX
    with pytest.raises(MalformedSchedule, match="at most"):
        parse_excluded_dates(texts)


def test_an_event_covers_its_whole_days() -> None:
    """One day without an end, up to DTEND without it, or DURATION days; folded lines are joined."""
    assert dates("DTSTART;VALUE=DATE:20261225") == ["2026-12-25"]
    assert dates("DTSTART;VALUE=DATE:20261225", "DTEND;VALUE=DATE:20261227") == ["2026-12-25", "2026-12-26"]
    assert dates("DTSTART;VALUE=DATE:20261225", "DURATION:P2D") == ["2026-12-25", "2026-12-26"]
    assert len(dates("DTSTART;VALUE=DATE:20261225", "DURATION:P1W")) == 7
    assert dates("SUMMARY:a very", " long: one", "DTSTART;VALUE", "\t=DATE:2026", " 1225") == ["2026-12-25"]
    assert dates('DTSTART;X-A="b:c;d";VALUE=DATE:20261225', "STATUS:CONFIRMED") == ["2026-12-25"]


def test_a_yearly_event_repeats_within_its_bounds() -> None:
    """COUNT, UNTIL and INTERVAL hold; without an end it goes up to 2100; 29 February comes in leap years."""
    start = "DTSTART;VALUE=DATE:20241225"
    assert dates(start, "RRULE:FREQ=YEARLY;COUNT=2") == ["2024-12-25", "2025-12-25"]
    assert dates(start, "RRULE:FREQ=YEARLY;INTERVAL=2;UNTIL=20281224") == ["2024-12-25", "2026-12-25"]
    assert dates(start, "RRULE:FREQ=YEARLY;UNTIL=20251225T000000Z") == ["2024-12-25", "2025-12-25"]
    assert dates(start, "RRULE:FREQ=YEARLY")[-1] == "2100-12-25"
    leap = dates("DTSTART;VALUE=DATE:20240229", "RRULE:FREQ=YEARLY;COUNT=3")
    assert leap == ["2024-02-29", "2028-02-29", "2032-02-29"]


def test_what_does_not_count_is_passed_over() -> None:
    """Cancelled events, alarms in events, zones and tasks beside them, and days before 1970."""
    alarm = ("BEGIN:VALARM", "DTSTART:20200101T000000", "END:VALARM")
    assert dates("DTSTART;VALUE=DATE:20261225", *alarm) == ["2026-12-25"]
    assert dates("DTSTART;VALUE=DATE:19690101", "RRULE:FREQ=YEARLY;COUNT=2") == ["1970-01-01"]
    cancelled = calendar(
        "DTSTART;VALUE=DATE:20261225", "STATUS:CANCELLED", "END:VEVENT", "BEGIN:VEVENT", "DTSTART:20261226"
    )
    zone = cancelled.replace(b"VERSION:2.0", b"BEGIN:VTIMEZONE\r\nDTSTART:20200101T000000\r\nEND:VTIMEZONE")
    assert format_excluded_dates(parse_excluded_calendar(b"\xef\xbb\xbf" + zone)) == ["2026-12-26"]


@pytest.mark.parametrize(
    "lines, line, reason",
    [
        (("DTSTART:20261224T180000Z",), 4, "time of day"),
        (("DTSTART;TZID=Europe/Rome:20261224T180000",), 4, "time of day"),
        (("DTSTART;VALUE=DATE:20260230",), 4, "does not exist"),
        (("DTSTART;VALUE=DATE:20261225", "DTEND;VALUE=DATE:20261225"), 5, "after DTSTART"),
        (("DTSTART;VALUE=DATE:20261225", "DURATION:PT36H"), 5, "whole days"),
        (("DTSTART;VALUE=DATE:20261225", "RRULE:FREQ=WEEKLY"), 5, "yearly"),
        (("DTSTART;VALUE=DATE:20261225", "RRULE:FREQ=YEARLY;BYDAY=1MO"), 5, "BYDAY"),
        (("DTSTART;VALUE=DATE:20261225", "RRULE:FREQ=YEARLY;COUNT=1;UNTIL=20271225"), 5, "both"),
        (("DTSTART;VALUE=DATE:20261225", "RRULE:FREQ=YEARLY;INTERVAL=0"), 5, "INTERVAL"),
        (("DTSTART;VALUE=DATE:20261225", "EXDATE;VALUE=DATE:20271225"), 5, "single dates"),
        (("SUMMARY:x",), 5, "without DTSTART"),
        (("no line",), 4, "no iCalendar line"),
    ],
)
def test_what_cannot_be_counted_is_refused_with_its_line(lines: tuple[str, ...], line: int, reason: str) -> None:
    """The error names the line, says why and hints at what to write."""
    with pytest.raises(MalformedSchedule, match=reason) as caught:
        parse_excluded_calendar(calendar(*lines, newline="\n"))
    assert caught.value.message.startswith(f"line {line} of the calendar")
    assert caught.value.hint


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"\xff\xfe", "UTF-8"),
        (b"x" * (CALENDAR_BYTES_MAX + 1), "bytes"),
        (b"", "no events"),
        (b"BEGIN:VCALENDAR\nEND:VCALENDAR\n", "no events"),
        (b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20261225\n", "ends inside"),
        (b"BEGIN:VEVENT\n", "begins no calendar"),
        (b"END:VCALENDAR\n", "outside"),
        (b"BEGIN:VCALENDAR\nEND:VEVENT\n", "did not begin"),
        (calendar("DTSTART:19700101", "DURATION:P99999D"), "at most"),
    ],
)
def test_a_file_that_is_no_calendar_is_refused(content: bytes, reason: str) -> None:
    """Size, encoding, structure and the bound on dates, each with a hint."""
    with pytest.raises(MalformedSchedule, match=reason) as caught:
        parse_excluded_calendar(content)
    assert caught.value.hint
