"""Excluded dates as people write them: dates, and calendars of whole-day events.

The calendar reader is our own and small: the domain imports no library that reads files, and of iCalendar (RFC 5545)
only whole days mean something here. What it does not know how to count it refuses, naming the line, since a date
that is silently not excluded would fire.
"""

import re
from calendar import isleap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from ..limits import EXCLUDED_DATES_MAX, YEAR_MAX, YEAR_MIN
from .errors import MalformedSchedule
from .months import END_DAY

CALENDAR_BYTES_MAX = 512 * 1024
"""Bytes of a calendar file: EXCLUDED_DATES_MAX events of more than a hundred bytes each."""
REPEATED_UNTIL_YEAR = 2100
"""A yearly event without an end is taken up to this year."""
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_CALENDAR_DATE = re.compile(r"(\d{4})(\d{2})(\d{2})", re.ASCII)
_WHOLE_DAYS = re.compile(r"\+?P(?:(\d{1,4})W|(\d{1,5})D)", re.ASCII)
_LINE = re.compile(r'([A-Za-z0-9-]+)((?:;[A-Za-z0-9-]+=(?:"[^"]*"|[^":;])*)*):(.*)', re.ASCII | re.DOTALL)
_NUMBER = re.compile(r"[1-9]\d{0,5}", re.ASCII)
_UNCOUNTED = ("RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID")
_LIST_HINT = "list the dates one by one with --exclude, or as events of their own"


def parse_excluded_dates(texts: Sequence[str]) -> tuple[int, ...]:
    """Read dates such as ``2026-12-25`` into ascending days since 1970-01-01, each once.

    Raises MalformedSchedule for a text that is no date (its position is within that text), for a year outside
    YEAR_MIN to YEAR_MAX, and for more than EXCLUDED_DATES_MAX dates.
    """
    return _bounded({_day(text) for text in texts})


def format_excluded_dates(days: Iterable[int]) -> list[str]:
    """Write days since 1970-01-01 as dates that ``parse_excluded_dates`` reads."""
    return [date.fromordinal(_EPOCH_ORDINAL + day).isoformat() for day in days]


def parse_excluded_calendar(content: bytes) -> tuple[int, ...]:
    """Read an iCalendar file of whole-day events into the ascending days they cover, each once.

    An event lasts from DTSTART (a date) to DTEND, which is not part of it, or for a DURATION of whole days, else one
    day. It may repeat yearly (RRULE with FREQ=YEARLY and INTERVAL, COUNT or UNTIL), taken up to the year
    REPEATED_UNTIL_YEAR. Cancelled events and days outside YEAR_MIN to YEAR_MAX do not count. Raises
    MalformedSchedule, naming the line, for timed events and anything else that cannot be counted, and for more than
    CALENDAR_BYTES_MAX bytes or EXCLUDED_DATES_MAX dates.
    """
    if len(content) > CALENDAR_BYTES_MAX:
        raise MalformedSchedule(
            f"the calendar has {len(content)} bytes; at most {CALENDAR_BYTES_MAX} are read",
            hint="leave out the events of past years",
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedSchedule(
            f"the calendar is not UTF-8 text: byte {error.start} cannot be read", hint="save it as UTF-8"
        ) from error
    days: set[int] = set()
    events = 0
    for event in _events(text):
        events += 1
        for day in _days_of(event):
            days.add(day)
            if len(days) > EXCLUDED_DATES_MAX:
                raise _too_many(f"more than {EXCLUDED_DATES_MAX}")
    if events == 0:
        raise MalformedSchedule("the calendar has no events", hint="give an iCalendar file with whole-day VEVENTs")
    return tuple(sorted(days))


def _day(text: str) -> int:
    match = _DATE.fullmatch(text)
    hint = "write it as 2026-12-25"
    if match is None:
        raise MalformedSchedule(f'"{text[:64]}" is not a date', position=0, token=text, hint=hint)
    year, month, day = (int(part) for part in match.groups())
    if not YEAR_MIN <= year <= YEAR_MAX:
        raise MalformedSchedule(
            f'the year "{match[1]}" is out of range', position=0, token=match[1], hint=f"use {YEAR_MIN} to {YEAR_MAX}"
        )
    if not 1 <= month <= 12:
        raise MalformedSchedule(
            f'the month "{match[2]}" is out of range', position=5, token=match[2], hint="write 01 to 12"
        )
    try:
        return date(year, month, day).toordinal() - _EPOCH_ORDINAL
    except ValueError as error:
        raise MalformedSchedule(
            f'the day "{match[3]}" does not exist in {text[:7]}', position=8, token=match[3], hint=hint
        ) from error


def _bounded(days: set[int]) -> tuple[int, ...]:
    if len(days) > EXCLUDED_DATES_MAX:
        raise _too_many(str(len(days)))
    return tuple(sorted(days))


def _too_many(count: str) -> MalformedSchedule:
    return MalformedSchedule(
        f"{count} dates are excluded; at most {EXCLUDED_DATES_MAX} are kept", hint="leave out the dates of past years"
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """One unfolded line: where it begins, its name in capitals, its parameters and its value."""

    number: int
    text: str
    name: str
    parameters: str
    value: str

    def refused(self, reason: str, hint: str) -> MalformedSchedule:
        """Why the line cannot be counted."""
        return MalformedSchedule(
            f'line {self.number} of the calendar, "{self.text[:64]}", {reason}', token=self.text, hint=hint
        )


_Event = dict[str, _Line]
"""The lines of an event by name."""


def _lines(text: str) -> Iterator[_Line]:
    """Unfold: a line that begins with a space or a tab goes on with the one before."""
    held: list[str] = []
    first = 0
    for number, line in enumerate([*text.replace("\r\n", "\n").split("\n"), ""], 1):
        if line[:1] in (" ", "\t") and held:
            held.append(line[1:])
            continue
        if held and (whole := "".join(held)).strip():
            yield _line(first, whole)
        held, first = [line], number


def _line(number: int, text: str) -> _Line:
    match = _LINE.fullmatch(text)
    if match is None:
        raise MalformedSchedule(
            f'line {number} of the calendar, "{text[:64]}", is no iCalendar line',
            token=text,
            hint="give an iCalendar (.ics) file",
        )
    return _Line(number, text, match[1].upper(), match[2].upper(), match[3].strip())


def _events(text: str) -> Iterator[_Event]:
    """The events, without what is nested in them (alarms) and what stands beside them (zones, tasks)."""
    inside: list[str] = []
    event: _Event = {}
    for line in _lines(text):
        if line.name == "BEGIN":
            if not inside and line.value.upper() != "VCALENDAR":
                raise line.refused("begins no calendar", "give an iCalendar file that begins with BEGIN:VCALENDAR")
            inside.append(line.value.upper())
            event = {} if inside == ["VCALENDAR", "VEVENT"] else event
        elif not inside:
            raise line.refused("stands outside a calendar", "give an iCalendar file that begins with BEGIN:VCALENDAR")
        elif line.name == "END":
            if line.value.upper() != inside[-1]:
                raise line.refused(f'ends what did not begin; "{inside[-1]}" is open', "check the file")
            if inside == ["VCALENDAR", "VEVENT"] and not _cancelled(event):
                yield _with_start(event, line)
            inside.pop()
        elif inside == ["VCALENDAR", "VEVENT"]:
            _keep(event, line)
    if inside:
        raise MalformedSchedule(f'the calendar ends inside "{inside[-1]}"', hint="give the whole file")


def _keep(event: _Event, line: _Line) -> None:
    if line.name in event and line.name in ("DTSTART", "DTEND", "DURATION", "RRULE"):
        raise line.refused("is the second of its kind in the event", _LIST_HINT)
    event[line.name] = line


def _cancelled(event: _Event) -> bool:
    return "STATUS" in event and event["STATUS"].value.upper() == "CANCELLED"


def _with_start(event: _Event, end: _Line) -> _Event:
    if "DTSTART" not in event:
        raise end.refused("ends an event without DTSTART", "give each event a date: DTSTART;VALUE=DATE:20261225")
    for name in _UNCOUNTED:
        if name in event:
            raise event[name].refused("changes single dates of a series, which is not read", _LIST_HINT)
    return event


def _days_of(event: _Event) -> Iterator[int]:
    """The days that an event covers, each time it repeats, within the years that are looked at."""
    start = _calendar_date(event["DTSTART"], event["DTSTART"].value)
    length = _length(event, start)
    starts = _yearly(start, event["RRULE"]) if "RRULE" in event else iter((start,))
    for each in starts:
        first = each.toordinal() - _EPOCH_ORDINAL
        yield from range(max(first, 0), min(first + length, END_DAY))


def _calendar_date(line: _Line, text: str) -> date:
    match = _CALENDAR_DATE.fullmatch(text)
    if match is None:
        if text[8:9] in ("T", "t"):
            raise line.refused(
                "has a time of day; only whole days can be excluded",
                "write it as DTSTART;VALUE=DATE:20261225, or give not-before and not-after",
            )
        raise line.refused("has no date", "write it as 20261225")
    try:
        return date(*(int(part) for part in match.groups()))
    except ValueError as error:
        raise line.refused("names a date that does not exist", "check the day and the month") from error


def _length(event: _Event, start: date) -> int:
    """How many days an event lasts."""
    end, duration = event.get("DTEND"), event.get("DURATION")
    if end is not None and duration is not None:
        raise duration.refused("stands beside DTEND; only one of them can hold", "give either")
    if end is not None:
        length = (_calendar_date(end, end.value) - start).days
        if length < 1:
            raise end.refused("does not lie after DTSTART", "DTEND is the day after the last one")
        return length
    if duration is None:
        return 1
    match = _WHOLE_DAYS.fullmatch(duration.value.upper())
    length = 0 if match is None else int(match[1] or 0) * 7 + int(match[2] or 0)
    if length < 1:
        raise duration.refused("is no number of whole days", "write it as P1D or P2W")
    return length


def _yearly(start: date, rule: _Line) -> Iterator[date]:
    """The dates of a yearly event; a 29 February comes in leap years only."""
    interval, count, until = _rule(rule)
    for year in range(start.year, min(until.year, REPEATED_UNTIL_YEAR) + 1, interval):
        if (start.month, start.day) == (2, 29) and not isleap(year):
            continue
        each = start.replace(year=year)
        if each > until or count == 0:
            return
        count -= 1
        yield each


def _rule(line: _Line) -> tuple[int, int, date]:
    """The interval in years, how many times at most, and the last date. Every other rule is refused."""
    parts: dict[str, str] = {}
    for part in line.value.upper().rstrip(";").split(";"):
        name, _, value = part.partition("=")
        if name in parts:
            raise line.refused(f'gives "{name[:32]}" twice', _LIST_HINT)
        parts[name] = value
    if parts.pop("FREQ", "") != "YEARLY":
        raise line.refused("does not repeat yearly", _LIST_HINT)
    interval = _number(line, "INTERVAL", parts.pop("INTERVAL", "1"))
    if "COUNT" in parts and "UNTIL" in parts:
        raise line.refused("has both COUNT and UNTIL", "give either")
    # A count above the years that are looked at is no bound.
    count = _number(line, "COUNT", parts.pop("COUNT", str(YEAR_MAX)))
    until_text = parts.pop("UNTIL", None)
    until = date(YEAR_MAX, 12, 31) if until_text is None else _calendar_date(line, until_text.partition("T")[0])
    if parts:
        raise line.refused(f'has the part "{next(iter(parts))[:32]}", which is not read', _LIST_HINT)
    return interval, count, until


def _number(line: _Line, name: str, text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise line.refused(f"has no number in {name}", f"write {name} as 1 or more")
    return int(text)
