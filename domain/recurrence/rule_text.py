"""Recurrence rules (``RRULE:FREQ=WEEKLY;BYDAY=MO;BYHOUR=9``): text to a compiled schedule.

RFC 5545 on the zone's own clock. DTSTART is needed only where the rule depends on it; text that could mean two
things is refused with both.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from ..limits import EXPRESSION_LENGTH_MAX, YEAR_MAX, YEAR_MIN
from .cron_fields import Word
from .errors import MalformedSchedule, NeverDue
from .local_times import FAR_S, LocalTimes
from .months import LOCAL_END_S
from .rule_search import rule_times_of
from .schedule import RuleFrequency, RuleSchedule

RULE_INTERVAL_MAX = 10_000
"""Periods in an INTERVAL: a day's times repeat after no more days than that."""
RULE_COUNT_MAX = 10_000
"""Local times that a COUNT can name: they are stepped through once, when the rule is read."""
_FREQUENCIES: tuple[RuleFrequency, ...] = (
    "yearly", "monthly", "weekly", "daily", "hourly", "minutely", "secondly",
)  # fmt: skip
_WEEKDAYS: tuple[str, ...] = tuple("SU MO TU WE TH FR SA".split())
_PARTS = frozenset(
    "FREQ INTERVAL COUNT UNTIL WKST BYMONTH BYMONTHDAY BYYEARDAY BYWEEKNO BYDAY BYSETPOS "
    "BYHOUR BYMINUTE BYSECOND".split()
)
_SUBDAILY = frozenset({"hourly", "minutely", "secondly"})
_MOMENT = re.compile(r"(\d{4})(\d{2})(\d{2})(?:T(\d{2})(\d{2})(\d{2}))?(Z?)", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)
_BYDAY = re.compile(r"([+-]?[0-9]{1,2})?(SU|MO|TU|WE|TH|FR|SA)", re.ASCII)
_EPOCH = datetime(1970, 1, 1)
_START_HINT = "say when it starts, as in DTSTART:20260105T090000 RRULE:FREQ=..."


@dataclass(frozen=True, slots=True)
class _Rule:
    """The rule's parts by name, and the start if the text has one: local seconds."""

    whole: Word
    parts: dict[str, Word]
    start: datetime | None

    def given(self, *names: str) -> bool:
        return any(name in self.parts for name in names)


def parse_rule(text: str) -> RuleSchedule:
    """Compile ``RRULE:...``, with ``DTSTART:YYYYMMDDTHHMMSS`` before it, apart by a space or a line end.

    All times are on the trigger's own clock. Without DTSTART the rule has no beginning, minutes and seconds left out
    are 0, and what would depend on a beginning (INTERVAL, COUNT, an hour or a day left out) is refused. COUNT and
    UNTIL count and bound local times. Raises MalformedSchedule, or NeverDue when no local time matches.
    """
    rule = _read(text)
    frequency = _frequency(rule)
    _check_combination(rule, frequency)
    start = 0 if rule.start is None else int((rule.start - _EPOCH).total_seconds()) * 1_000_000
    schedule = RuleSchedule(
        source=text,
        frequency=frequency,
        interval=_interval(rule),
        start=start,
        last=None,
        seconds=_clock(rule, "BYSECOND", 59, frequency == "secondly"),
        minutes=_clock(rule, "BYMINUTE", 59, frequency in {"secondly", "minutely"}),
        hours=_clock(rule, "BYHOUR", 23, frequency in _SUBDAILY),
        interval_like=frequency in _SUBDAILY,
        months=_mask(_integers(rule, "BYMONTH", 1, 12)),
        year_days=tuple(_integers(rule, "BYYEARDAY", -366, 366)),
        week_numbers=tuple(_integers(rule, "BYWEEKNO", -53, 53)),
        positions=tuple(_integers(rule, "BYSETPOS", -366, 366)),
        week_start=_week_start(rule),
    )
    schedule = _ended(rule, _with_days(rule, schedule))
    if rule_times_of(schedule).first_from(0) == FAR_S:
        raise NeverDue(
            f'"{text}" can never match: no date and time passes every part of it',
            position=rule.whole.position,
            token=rule.whole.text,
            hint="take a part away",
        )
    return schedule


def _read(text: str) -> _Rule:
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise MalformedSchedule(
            f"the recurrence rule has {len(text)} characters",
            position=EXPRESSION_LENGTH_MAX,
            token=text[EXPRESSION_LENGTH_MAX : EXPRESSION_LENGTH_MAX + 16],
            hint=f"at most {EXPRESSION_LENGTH_MAX} are read",
        )
    found: dict[str, Word] = {}
    for match in re.finditer(r"[^ \t\r\n]+", text):
        line = Word(match.group(), match.start())
        name, value = _property(line)
        if name in found:
            raise line.refused(f'"{name}" is given twice', "give it once; write two triggers for two rules")
        found[name] = value
    if "RRULE" not in found:
        raise MalformedSchedule(
            "there is no RRULE", position=len(text), hint='write it as "RRULE:FREQ=WEEKLY;BYDAY=MO;BYHOUR=9"'
        )
    start = found.get("DTSTART")
    return _Rule(found["RRULE"], _parts(found["RRULE"]), None if start is None else _moment(start, "DTSTART"))


def _property(line: Word) -> tuple[str, Word]:
    if line.text[:5].upper() == "FREQ=":
        return "RRULE", line
    head, colon, value = line.text.partition(":")
    name, _, parameters = head.upper().partition(";")
    if name in {"EXDATE", "RDATE", "EXRULE"}:
        raise line.refused(f'"{name}" is not read', "exclude dates with --exclude, add dates with another trigger")
    if name not in {"RRULE", "DTSTART"} or not colon:
        raise line.refused(f'"{line.text[:40]}" is not part of a recurrence rule', "write DTSTART:... and RRULE:...")
    if parameters:
        raise line.refused(
            f'"{head[:40]}" has parameters', "write local time, as in DTSTART:20260105T090000; the zone is --zone's"
        )
    return name, line.part(value, len(head) + 1)


def _parts(rule: Word) -> dict[str, Word]:
    parts: dict[str, Word] = {}
    offset = 0
    for text in rule.text.split(";"):
        part = rule.part(text, offset)
        offset += len(text) + 1
        name, equals, value = text.partition("=")
        name = name.upper()
        if not equals or not value:
            raise part.refused(f'"{text[:40]}" is not a part of a rule', "write NAME=VALUE with ; between the parts")
        if name not in _PARTS:
            raise part.refused(f'"{name[:40]}" is not a part of a rule', f"use {', '.join(sorted(_PARTS))}")
        if name in parts:
            raise part.refused(f'"{name}" is given twice', "give it once, with commas between the values")
        parts[name] = part.part(value.upper(), len(name) + 1)
    return parts


def _frequency(rule: _Rule) -> RuleFrequency:
    word = rule.parts.get("FREQ")
    if word is None:
        raise rule.whole.refused("the rule has no FREQ", "begin it with FREQ=DAILY, for instance")
    for frequency in _FREQUENCIES:
        if word.text == frequency.upper():
            return frequency
    raise word.refused(f'"{word.text[:40]}" is not a frequency', f"use {', '.join(_FREQUENCIES).upper()}")


def _check_combination(rule: _Rule, frequency: RuleFrequency) -> None:
    """Refuse what RFC 5545 rules out, and what would need a start that is not given."""
    wrong = {
        "BYWEEKNO": frequency != "yearly",
        "BYYEARDAY": frequency in {"monthly", "weekly", "daily"},
        "BYMONTHDAY": frequency == "weekly",
        "BYSETPOS": frequency in _SUBDAILY or not rule.given(*(_PARTS - {"BYSETPOS"} - _NOT_BY)),
    }
    for name, refused in wrong.items():
        if refused and rule.given(name):
            raise rule.parts[name].refused(
                f'"{name}" does not go with FREQ={frequency.upper()} here', "leave it out, or use another FREQ"
            )
    if rule.given("BYWEEKNO") and not rule.given("BYDAY"):
        raise rule.parts["BYWEEKNO"].refused(
            '"BYWEEKNO" without BYDAY could mean every day of the week or the weekday of the start', "add BYDAY=MO"
        )
    if rule.start is not None:
        return
    needing = {
        "COUNT": rule.given("COUNT"),
        "INTERVAL": _interval(rule) > 1,
        "BYHOUR": frequency not in _SUBDAILY and not rule.given("BYHOUR"),
        "BYDAY": frequency == "weekly" and not rule.given("BYDAY"),
        "BYMONTHDAY or BYDAY": frequency in {"yearly", "monthly"}
        and not rule.given("BYMONTHDAY", "BYDAY", "BYYEARDAY", "BYWEEKNO"),
    }
    for name, needs in needing.items():
        if needs:
            given = rule.given(name) or name == "INTERVAL"
            said = f'"{name}" counts from a start' if given else f"the rule has no {name}"
            raise rule.whole.refused(f"{said}, and no start is given", _START_HINT)


_NOT_BY = frozenset({"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST"})


def _interval(rule: _Rule) -> int:
    values = _integers(rule, "INTERVAL", 1, RULE_INTERVAL_MAX)
    return values[0] if values else 1


def _integers(rule: _Rule, name: str, low: int, high: int) -> list[int]:
    """The part's values, ascending and each once; empty when it is not given. Only BY... parts may have several."""
    word = rule.parts.get(name)
    if word is None:
        return []
    members = word.text.split(",") if name.startswith("BY") else [word.text]
    found: set[int] = set()
    offset = 0
    for text in members:
        part = word.part(text, offset)
        offset += len(text) + 1
        if not _INTEGER.fullmatch(text):
            raise part.refused(f'"{text[:40]}" in {name} is not a number', f"write {_range(low, high)}")
        value = int(text)
        if not low <= value <= high or (low < 0 and value == 0):
            raise part.refused(f'"{text}" is out of range for {name}', f"write {_range(low, high)}")
        found.add(value)
    return sorted(found)


def _range(low: int, high: int) -> str:
    return f"1 to {high}, or {-1} to {low} from the end" if low < 0 else f"{low} to {high}"


def _mask(values: list[int]) -> int:
    return sum(1 << value for value in values)


def _clock(rule: _Rule, name: str, high: int, every: bool) -> int:
    """The mask of a clock field: as given, else every value, else that of the start."""
    given = _integers(rule, name, 0, high)
    if given or every:
        return _mask(given) if given else (2 << high) - 1
    start = rule.start or _EPOCH
    return 1 << {"BYSECOND": start.second, "BYMINUTE": start.minute, "BYHOUR": start.hour}[name]


def _week_start(rule: _Rule) -> int:
    word = rule.parts.get("WKST")
    if word is None:
        return 1
    if word.text not in _WEEKDAYS:
        raise word.refused(f'"{word.text[:40]}" is not a weekday', f"use {', '.join(_WEEKDAYS)}")
    return _WEEKDAYS.index(word.text)


def _with_days(rule: _Rule, schedule: RuleSchedule) -> RuleSchedule:
    """The schedule with its days of the month and week, those of the start where none are named."""
    month_days = _integers(rule, "BYMONTHDAY", -31, 31)
    weekdays, nth = _by_day(rule, schedule.frequency)
    start = rule.start
    if start is not None and not rule.given("BYMONTHDAY", "BYDAY", "BYYEARDAY", "BYWEEKNO"):
        if schedule.frequency in {"yearly", "monthly"}:
            month_days = [start.day]
        if schedule.frequency == "yearly" and not schedule.months:
            schedule = replace(schedule, months=1 << start.month)
        if schedule.frequency == "weekly":
            weekdays = 1 << (start.weekday() + 1) % 7
    return replace(
        schedule,
        month_days=_mask([day for day in month_days if day > 0]),
        month_days_from_last=_mask([-1 - day for day in month_days if day < 0]),
        weekdays=weekdays,
        nth_weekdays=nth,
    )


def _by_day(rule: _Rule, frequency: RuleFrequency) -> tuple[int, tuple[tuple[int, int], ...]]:
    word = rule.parts.get("BYDAY")
    if word is None:
        return 0, ()
    yearly = frequency == "yearly" and not rule.given("BYMONTH")
    most = 53 if yearly else 5
    mask, nth, offset = 0, set[tuple[int, int]](), 0
    for text in word.text.split(","):
        part = word.part(text, offset)
        offset += len(text) + 1
        match = _BYDAY.fullmatch(text)
        if match is None:
            raise part.refused(f'"{text[:40]}" is not a weekday', f"use {', '.join(_WEEKDAYS)}, or 1MO and -1FR")
        weekday = _WEEKDAYS.index(match[2])
        if match[1] is None:
            mask |= 1 << weekday
            continue
        if frequency not in {"yearly", "monthly"} or rule.given("BYWEEKNO"):
            raise part.refused(f'"{text}" counts weekdays of a month or year', f"write {match[2]} here")
        number = int(match[1])
        if not 1 <= abs(number) <= most:
            raise part.refused(f'"{text}" is out of range', f"write {_range(-most, most)}")
        nth.add((number, weekday))
    return mask, tuple(sorted(nth))


def _ended(rule: _Rule, schedule: RuleSchedule) -> RuleSchedule:
    """The schedule with the last local time that COUNT or UNTIL leaves."""
    until, count = rule.parts.get("UNTIL"), _integers(rule, "COUNT", 1, RULE_COUNT_MAX)
    if until is not None and count:
        raise until.refused("both UNTIL and COUNT are given", "leave one of them out")
    if until is not None:
        last = int((_moment(until, "UNTIL") - _EPOCH).total_seconds()) * 1_000_000
        if last < schedule.start:
            raise until.refused(f'"UNTIL={until.text}" lies before the start', "write a later one")
        return replace(schedule, last=last)
    if count:
        return replace(schedule, last=_last_of(rule_times_of(schedule), count[0]))
    return schedule


def _last_of(times: LocalTimes, count: int) -> int | None:
    """The local time (microseconds) of the count-th; None when there are fewer."""
    found = next(islice(times.times(0, LOCAL_END_S), count - 1, None), None)
    return None if found is None else found * 1_000_000


def _moment(word: Word, name: str) -> datetime:
    match = _MOMENT.fullmatch(word.text.upper())
    if match is None:
        raise word.refused(f'"{word.text[:40]}" is not a local date and time', f"write {name} as 20260105T090000")
    year, month, day = (int(part) for part in match.groups()[:3])
    if match[7]:
        hint = "write local time, without Z; the zone is --zone's"
        raise word.refused(f'the Z of "{word.text}" contradicts the zone', _UNTIL_HINT if name == "UNTIL" else hint)
    if match[4] is None:
        raise word.refused(
            f'"{word.text}" could mean the start of that day or its end', f"write {word.text}T000000 or T235959"
        )
    try:
        moment = datetime(year, month, day, int(match[4]), int(match[5]), int(match[6]))
    except ValueError as error:
        raise word.refused(f'"{word.text}" is not a date and time', f"write {name} as 20260105T090000") from error
    if not YEAR_MIN <= year <= YEAR_MAX:
        raise word.refused(f'the year of "{word.text}" is out of range', f"use {YEAR_MIN} to {YEAR_MAX}")
    return moment


_UNTIL_HINT = "write local time, without Z, or an instant with --not-after"
