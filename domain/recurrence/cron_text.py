"""The cron parser: text to masks. It is the authority on what an expression means.

Every refusal names the offending part, its position and what to write instead. Nothing is expanded
before its bounds are checked.
"""

import re
from dataclasses import dataclass, field

from ..limits import EXPRESSION_LENGTH_MAX
from .errors import MalformedSchedule, NeverDue
from .local_times import FAR_S, local_times_of
from .schedule import CronSchedule

DIALECTS = ("unix",)
"""Dialects that are read; others are refused, never guessed at."""
_DIALECTS_LATER = ("quartz", "aws")

_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_WEEKDAYS = "sun mon tue wed thu fri sat".split()
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_NEAREST = re.compile(r"([0-9]+)W", re.ASCII | re.IGNORECASE)
_FROM_LAST = re.compile(r"L(?:-([0-9]+))?", re.ASCII | re.IGNORECASE)
_NTH = re.compile(r"([0-9]+|[a-z]{3})#([0-9]+)", re.ASCII | re.IGNORECASE)
_LAST = re.compile(r"([0-9]+|[a-z]{3})L", re.ASCII | re.IGNORECASE)
_RANDOM = re.compile(r"[HR](?:\(.*\))?(?:/.*)?", re.ASCII | re.IGNORECASE)
_ZONE_PREFIX = re.compile(r"(?:CRON_)?TZ=.*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Field:
    """What a field may hold: its values, how many there are (the step's bound) and their names."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return self.high - self.low + 1


_SECOND = _Field("second", 0, 59)
_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day-of-month", 1, 31)
_MONTH = _Field("month", 1, 12, tuple(_MONTHS))
_WEEKDAY = _Field("day-of-week", 0, 6, tuple(_WEEKDAYS))
_FIELDS = (_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)


@dataclass(frozen=True, slots=True)
class _Word:
    """A part of the text and where it begins; None when it stands for a nickname."""

    text: str
    position: int | None

    def part(self, text: str, offset: int) -> "_Word":
        return _Word(text, None if self.position is None else self.position + offset)

    def refused(self, message: str, hint: str) -> MalformedSchedule:
        return MalformedSchedule(message, position=self.position, token=self.text, hint=hint)


@dataclass(slots=True)
class _Days:
    """What the two day fields name beyond plain values; masks as in CronSchedule."""

    from_last: int = 0
    nearest: int = 0
    nearest_from_last: int = 0
    nth: int = 0
    last: int = 0


@dataclass(slots=True)
class _Parsed:
    masks: list[int] = field(default_factory=list[int])
    days: _Days = field(default_factory=_Days)


def parse_cron(text: str, dialect: str = "unix") -> CronSchedule:
    """Compile a cron expression: 5 fields, 6 with leading seconds, or a nickname such as ``@hourly``.

    Raises MalformedSchedule (unknown dialect, or text that could surprise), or NeverDue when no date of
    any year can match.
    """
    _check_dialect(dialect)
    _check_characters(text)
    words = [_Word(match.group(), match.start()) for match in re.finditer(r"[^ \t]+", text)]
    if not words:
        raise MalformedSchedule(
            "the cron expression is empty", position=0, hint='write five fields such as "0 9 * * 1-5"'
        )
    words = _fields_of(words)
    has_seconds = len(words) == 6
    if not has_seconds:
        words = [words[0].part("0", 0), *words]
    parsed = _Parsed()
    for spec, word in zip(_FIELDS, words, strict=True):
        parsed.masks.append(_parse_field(spec, word, parsed.days))
    schedule = _compiled(text, dialect, has_seconds, words, parsed)
    if local_times_of(schedule).first_from(0) == FAR_S:
        raise NeverDue(
            f'"{text}" can never match: no month it names has such a day',
            position=words[3].position,
            token=words[3].text,
            hint="check the day-of-month against the months",
        )
    return schedule


def _compiled(text: str, dialect: str, has_seconds: bool, words: list[_Word], parsed: _Parsed) -> CronSchedule:
    clock = "".join(word.text for word in words[:3])
    starred = words[3].text.startswith("*") or words[5].text.startswith("*")
    seconds, minutes, hours, days, months, weekdays = parsed.masks
    return CronSchedule(
        source=text,
        dialect=dialect,
        has_seconds=has_seconds,
        seconds=seconds,
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=weekdays,
        day_rule="and" if starred else "or",
        interval_like="*" in clock or "/" in clock,
        days_from_last=parsed.days.from_last,
        nearest_weekdays=parsed.days.nearest,
        nearest_weekdays_from_last=parsed.days.nearest_from_last,
        nth_weekdays=parsed.days.nth,
        last_weekdays=parsed.days.last,
    )


def _check_dialect(dialect: str) -> None:
    if dialect in DIALECTS:
        return
    known = "is not supported yet" if dialect in _DIALECTS_LATER else "is not known"
    raise MalformedSchedule(
        f'the dialect "{dialect[:40]}" {known}',
        token=dialect[:40],
        hint="use unix: minute hour day-of-month month day-of-week, with optional leading seconds",
    )


def _check_characters(text: str) -> None:
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise MalformedSchedule(
            f"the cron expression has {len(text)} characters",
            position=EXPRESSION_LENGTH_MAX,
            hint=f"at most {EXPRESSION_LENGTH_MAX} are read",
        )
    for position, character in enumerate(text):
        if not ("!" <= character <= "~" or character in " \t"):
            raise MalformedSchedule(
                f"the character {character!a} does not belong in a cron expression".replace("'", '"'),
                position=position,
                token=character,
                hint='use ASCII digits, names, and "* , - /"',
            )


def _fields_of(words: list[_Word]) -> list[_Word]:
    first = words[0]
    if first.text.startswith("@"):
        return _nickname(words)
    if _ZONE_PREFIX.fullmatch(first.text):
        raise first.refused(
            f'"{first.text}" puts a zone into the expression', "leave it out and declare the zone with --zone"
        )
    if len(words) not in (5, 6):
        extra = words[6] if len(words) > 6 else words[-1]
        year = "; years belong to other dialects" if len(words) == 7 else ""
        raise extra.refused(
            f"the cron expression has {len(words)} {'field' if len(words) == 1 else 'fields'}",
            f"write 5 (minute hour day-of-month month day-of-week), or 6 with leading seconds{year}",
        )
    return words


def _nickname(words: list[_Word]) -> list[_Word]:
    first = words[0]
    name = first.text.lower()
    if name == "@reboot":
        raise first.refused('"@reboot" has no instants in a service', "name a time, such as @daily")
    if name == "@every":
        raise first.refused('"@every" is an interval, not a cron expression', "write --every 90m instead")
    if name not in _NICKNAMES:
        raise first.refused(f'"{first.text}" is not a known nickname', f"use one of {', '.join(_NICKNAMES)}")
    if len(words) > 1:
        raise words[1].refused(f'"{words[1].text}" follows a nickname', f"write {name} alone")
    return [_Word(part, None) for part in _NICKNAMES[name].split()]


def _parse_field(spec: _Field, word: _Word, days: _Days) -> int:
    mask, offset = 0, 0
    for text in word.text.split(","):
        part = word.part(text, offset)
        offset += len(text) + 1
        if not text:
            raise part.refused(
                f'the {spec.name} field "{word.text}" has an empty list member', "write a value between the commas"
            )
        if (spec is _DAY and _day_extra(part, days)) or (spec is _WEEKDAY and _weekday_extra(part, days)):
            continue
        mask |= _parse_part(spec, part)
    return mask


def _day_extra(part: _Word, days: _Days) -> bool:
    """Read ``L``, ``L-3``, ``LW`` or ``15W``; False when the part is none of them."""
    if part.text.upper() == "LW":
        days.nearest_from_last |= 1
        return True
    match = _FROM_LAST.fullmatch(part.text)
    if match is not None:
        before = int(match[1] or 0)
        if before > 30:
            raise part.refused(f'"{part.text}" reaches back beyond the month', "write L-1 to L-30")
        days.from_last |= 1 << before
        return True
    match = _NEAREST.fullmatch(part.text)
    if match is not None:
        days.nearest |= 1 << _number(_DAY, part.part(match[1], 0))
        return True
    if part.text[-1] in "Ww":
        raise part.refused(f'"{part.text}" is not a day', "W follows a single day, such as 15W, or L as in LW")
    return False


def _weekday_extra(part: _Word, days: _Days) -> bool:
    """Read ``5#2`` or ``5L``; False when the part is neither."""
    match = _NTH.fullmatch(part.text)
    if match is not None:
        nth = int(match[2])
        if not 1 <= nth <= 5:
            raise part.refused(f'"{part.text}" names a weekday that no month has', "write #1 to #5, or 5L for the last")
        days.nth |= 1 << (7 * (nth - 1) + _number(_WEEKDAY, part.part(match[1], 0)) % 7)
        return True
    match = _LAST.fullmatch(part.text)
    if match is not None:
        days.last |= 1 << _number(_WEEKDAY, part.part(match[1], 0)) % 7
        return True
    if part.text.upper() == "L":
        raise part.refused('"L" in the day-of-week field means different things elsewhere', "write 6 or 6L")
    return False


def _parse_part(spec: _Field, part: _Word) -> int:
    """One list member: ``*``, a value or a range, with an optional step."""
    _refuse_foreign(spec, part)
    body_text, slash, step_text = part.text.partition("/")
    body = part.part(body_text, 0)
    step = _step(spec, part.part(step_text, len(body_text) + 1)) if slash else 1
    if body_text == "*":
        return _stepped(spec, spec.low, spec.high, step)
    start_text, dash, end_text = body_text.partition("-")
    start = _number(spec, body.part(start_text, 0))
    if not dash:
        if slash and start > spec.high:
            raise part.refused(
                f'"{part.text}" could mean Sunday alone, or every so many days from Sunday to Saturday',
                f"write 7 or 0/{step_text}",
            )
        return _stepped(spec, start, spec.high if slash else start, step)
    end = _number(spec, body.part(end_text, len(start_text) + 1))
    if spec is _WEEKDAY and end == 0 and (start > 0 or end_text == start_text):
        # Sunday ends a week when it ends a range; sun-sun is that one day.
        end = 7 if start > 0 else 0
    if start > end:
        raise part.refused(
            f'"{body_text}" runs backwards in the {spec.name} field', f"write {_unwrapped(spec, part.text)}"
        )
    return _stepped(spec, start, end, step)


def _refuse_foreign(spec: _Field, part: _Word) -> None:
    if "?" in part.text:
        raise part.refused(f'"?" in the {spec.name} field belongs to other dialects', "write * instead")
    if _RANDOM.fullmatch(part.text):
        raise part.refused(
            f'"{part.text}" in the {spec.name} field stands for a time that is not written down',
            "write the value, and use --jitter to spread load",
        )


def _step(spec: _Field, part: _Word) -> int:
    if not _NUMBER.fullmatch(part.text):
        raise part.refused(f'the step "{part.text}" in the {spec.name} field is not a number', "write it as */5")
    step = int(part.text)
    if not 1 <= step < spec.size:
        hint = f"a step is 1 to {spec.size - 1}; for longer rhythms use --every"
        raise part.refused(f'the step "{part.text}" does not fit the {spec.name} field of {spec.size} values', hint)
    return step


def _number(spec: _Field, part: _Word) -> int:
    """A value of the field by number or name; 7 stays 7 for Sunday so that ranges can end in it."""
    name = part.text.lower()
    if name in spec.names:
        return spec.names.index(name) + spec.low
    high = 7 if spec is _WEEKDAY else spec.high
    if not _NUMBER.fullmatch(part.text):
        names = f" or {spec.names[0]} to {spec.names[-1]}" if spec.names else ""
        shown = f'"{part.text}"' if part.text else "an empty value"
        raise part.refused(f"{shown} is not a {spec.name}", f"write {spec.low} to {high}{names}")
    value = int(part.text)
    if not spec.low <= value <= high:
        raise part.refused(f'"{part.text}" is out of range for the {spec.name} field', f"write {spec.low} to {high}")
    return value


def _stepped(spec: _Field, start: int, end: int, step: int) -> int:
    mask = 0
    for value in range(start, end + 1, step):
        mask |= 1 << (value % 7 if spec is _WEEKDAY else value)
    return mask


def _unwrapped(spec: _Field, text: str) -> str:
    """The two ranges that together mean a range written backwards."""
    body, _, step_text = text.partition("/")
    start_text, _, end_text = body.partition("-")
    named = not start_text.isdecimal() and not end_text.isdecimal()
    step = int(step_text or 1)
    start, end = (_bare(spec, part) for part in (start_text, end_text))
    if spec is _WEEKDAY and start == 7:
        return _range_text(spec, 0, end, step, named)
    first = start + ((spec.high - start) // step + 1) * step - spec.size
    ranges = [_range_text(spec, start, spec.high, step, named)]
    if first <= end:
        ranges.append(_range_text(spec, first, end, step, named))
    return ",".join(ranges)


def _bare(spec: _Field, text: str) -> int:
    name = text.lower()
    return spec.names.index(name) + spec.low if name in spec.names else int(text)


def _range_text(spec: _Field, start: int, end: int, step: int, named: bool) -> str:
    first, last = ((spec.names[value - spec.low] if named else str(value)) for value in (start, end))
    if start == end:
        return first
    return f"{first}-{last}/{step}" if step > 1 else f"{first}-{last}"
