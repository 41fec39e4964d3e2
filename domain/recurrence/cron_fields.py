"""The fields of cron expressions, in every dialect: text to masks, with a position for every refusal."""

import re
from dataclasses import dataclass, replace

from ..limits import YEAR_MAX, YEAR_MIN
from .errors import MalformedSchedule

_MONTHS = tuple("jan feb mar apr may jun jul aug sep oct nov dec".split())
_WEEKDAYS = tuple("sun mon tue wed thu fri sat".split())
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_NEAREST = re.compile(r"([0-9]+)W", re.ASCII | re.IGNORECASE)
_NEAREST_FROM_LAST = re.compile(r"L(?:-([0-9]+))?W", re.ASCII | re.IGNORECASE)
_FROM_LAST = re.compile(r"L(?:-([0-9]+))?", re.ASCII | re.IGNORECASE)
_NTH = re.compile(r"([0-9]+|[a-z]{3})#([0-9]+)", re.ASCII | re.IGNORECASE)
_LAST = re.compile(r"([0-9]+|[a-z]{3})L", re.ASCII | re.IGNORECASE)
_RANDOM = re.compile(r"[HR](?:\(.*\))?(?:/.*)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Field:
    """What a field may hold: its values, how many there are (the step's bound) and their names.

    Bit ``value - offset`` of a mask stands for a value. ``week_wraps``: 7 is Sunday again, besides 0.
    ``may_say_nothing``: ``?`` leaves the days to the other day field. ``wraps``: a range may run over the end.
    """

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    offset: int = 0
    week_wraps: bool = False
    may_say_nothing: bool = False
    wraps: bool = False

    @property
    def size(self) -> int:
        """How many values there are."""
        return self.high - self.low + 1

    def bit(self, value: int) -> int:
        """The bit that stands for a value."""
        return value % 7 if self.week_wraps else value - self.offset


@dataclass(frozen=True, slots=True)
class Grammar:
    """The fields of a dialect."""

    dialect: str
    second: Field
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field
    year: Field


def _grammar(dialect: str, weekday: Field, *, choosing: bool, wraps: bool) -> Grammar:
    """The fields of a dialect; ``choosing``: one of its day fields chooses the days and the other is ``?``."""
    return Grammar(
        dialect,
        Field("second", 0, 59, wraps=wraps),
        Field("minute", 0, 59, wraps=wraps),
        Field("hour", 0, 23, wraps=wraps),
        Field(_DAY_NAME, 1, 31, may_say_nothing=choosing, wraps=wraps),
        Field("month", 1, 12, _MONTHS, wraps=wraps),
        replace(weekday, may_say_nothing=choosing, wraps=wraps),
        Field("year", YEAR_MIN, YEAR_MAX),
    )


_DAY_NAME, _WEEKDAY_NAME = "day-of-month", "day-of-week"
_FROM_ONE = Field(_WEEKDAY_NAME, 1, 7, _WEEKDAYS, offset=1)
UNIX = _grammar("unix", Field(_WEEKDAY_NAME, 0, 6, _WEEKDAYS, week_wraps=True), choosing=False, wraps=False)
QUARTZ = _grammar("quartz", _FROM_ONE, choosing=True, wraps=True)
AWS = _grammar("aws", _FROM_ONE, choosing=True, wraps=False)


def full_mask(spec: Field) -> int:
    """The mask of all of a field's values."""
    return sum(1 << spec.bit(value) for value in range(spec.low, spec.high + 1))


@dataclass(frozen=True, slots=True)
class Word:
    """A part of the text and where it begins; None when it stands for a nickname."""

    text: str
    position: int | None

    def part(self, text: str, offset: int) -> "Word":
        """A part of this word, ``offset`` characters in."""
        return Word(text, None if self.position is None else self.position + offset)

    def refused(self, message: str, hint: str) -> MalformedSchedule:
        """The refusal of this word."""
        return MalformedSchedule(message, position=self.position, token=self.text, hint=hint)


@dataclass(slots=True)
class Days:
    """What the two day fields name beyond plain values; masks as in CronSchedule."""

    from_last: int = 0
    nearest: int = 0
    nearest_from_last: int = 0
    nth: int = 0
    last: int = 0


def parse_field(spec: Field, word: Word, days: Days) -> int:
    """A field's mask; what the day fields name beyond plain values goes to ``days``. Raises MalformedSchedule."""
    if word.text == "?" and spec.may_say_nothing:
        return full_mask(spec)
    if word.text.upper() == "L" and spec.name == _WEEKDAY_NAME and not spec.week_wraps:
        # Where Sunday is 1, a lone L in the day-of-week field is the week's last day.
        return 1 << spec.bit(spec.high)
    mask, offset = 0, 0
    members = word.text.split(",")
    for text in members:
        part = word.part(text, offset)
        offset += len(text) + 1
        if not text:
            raise part.refused(
                f'the {spec.name} field "{word.text}" has an empty list member', "write a value between the commas"
            )
        if spec.name == _DAY_NAME and _day_extra(spec, part, days):
            continue
        if spec.name == _WEEKDAY_NAME and _weekday_extra(spec, part, days):
            _check_alone(spec, part, members)
            continue
        mask |= _parse_part(spec, part)
    return mask


def _day_extra(spec: Field, part: Word, days: Days) -> bool:
    """Read ``L``, ``L-3``, ``LW``, ``15W`` and, where ``?`` exists, ``L-3W``; False when the part is none of them."""
    match = _NEAREST_FROM_LAST.fullmatch(part.text)
    if match is not None and (match[1] is None or spec.may_say_nothing):
        days.nearest_from_last |= 1 << _before_last(part, match[1])
        return True
    match = _FROM_LAST.fullmatch(part.text)
    if match is not None:
        days.from_last |= 1 << _before_last(part, match[1])
        return True
    match = _NEAREST.fullmatch(part.text)
    if match is not None:
        days.nearest |= 1 << _number(spec, part.part(match[1], 0))
        return True
    if part.text[-1] in "Ww":
        raise part.refused(f'"{part.text}" is not a day', "W follows a single day, such as 15W, or L as in LW")
    return False


def _before_last(part: Word, text: str | None) -> int:
    before = int(text or 0)
    if before > 30:
        raise part.refused(f'"{part.text}" reaches back beyond the month', "write L-1 to L-30")
    return before


def _check_alone(spec: Field, part: Word, members: list[str]) -> None:
    """Dialects with ``?`` have ``#`` and ``L`` alone in their field or not at all."""
    if spec.may_say_nothing and len(members) > 1:
        raise part.refused(
            f'"{part.text}" stands beside other days of the week', "write it alone, and the others in another trigger"
        )


def _weekday_extra(spec: Field, part: Word, days: Days) -> bool:
    """Read ``5#2`` or ``5L``; False when the part is neither."""
    match = _NTH.fullmatch(part.text)
    if match is not None:
        nth = int(match[2])
        if not 1 <= nth <= 5:
            raise part.refused(
                f'"{part.text}" names a weekday that no month has',
                f"write #1 to #5, or {5 + spec.offset}L for the last Friday",
            )
        days.nth |= 1 << (7 * (nth - 1) + spec.bit(_number(spec, part.part(match[1], 0))))
        return True
    match = _LAST.fullmatch(part.text)
    if match is not None:
        days.last |= 1 << spec.bit(_number(spec, part.part(match[1], 0)))
        return True
    if part.text.upper() == "L":
        saturday = 6 + spec.offset
        raise part.refused(
            '"L" in the day-of-week field could mean every Saturday, or the last Saturday of the month',
            f"write {saturday} or {saturday}L",
        )
    return False


def _parse_part(spec: Field, part: Word) -> int:
    """One list member: ``*``, a value or a range, with an optional step."""
    _refuse_foreign(spec, part)
    body_text, slash, step_text = part.text.partition("/")
    body = part.part(body_text, 0)
    step = _step(spec, part.part(step_text, len(body_text) + 1)) if slash else 1
    if body_text == "*" or (spec.wraps and slash and not body_text):
        return _stepped(spec, spec.low, spec.high, step)
    start_text, dash, end_text = body_text.partition("-")
    start = _number(spec, body.part(start_text, 0))
    if not dash:
        if slash and spec.week_wraps and start > spec.high:
            raise part.refused(
                f'"{part.text}" could mean Sunday alone, or every so many days from Sunday to Saturday',
                f"write 7 or 0/{step_text}",
            )
        return _stepped(spec, start, spec.high if slash else start, step)
    end = _number(spec, body.part(end_text, len(start_text) + 1))
    if spec.week_wraps and end == 0 and (start > 0 or end_text == start_text):
        # Sunday ends a week when it ends a range; sun-sun is that one day.
        end = 7 if start > 0 else 0
    if start > end and spec.wraps:
        return _wrapped(spec, start, end, step)
    if start > end:
        raise part.refused(
            f'"{body_text}" runs backwards in the {spec.name} field', f"write {_unwrapped(spec, part.text)}"
        )
    return _stepped(spec, start, end, step)


def _refuse_foreign(spec: Field, part: Word) -> None:
    if "?" in part.text and spec.may_say_nothing:
        raise part.refused(f'"?" is only a part of the {spec.name} field', "write ? alone, for no choice of days")
    if "?" in part.text:
        raise part.refused(
            f'"?" in the {spec.name} field belongs to other dialects',
            "write * instead; --dialect quartz and aws have ? in the day fields",
        )
    if _RANDOM.fullmatch(part.text):
        raise part.refused(
            f'"{part.text}" in the {spec.name} field stands for a time that is not written down',
            "write the value, and use --jitter to spread load",
        )


def _step(spec: Field, part: Word) -> int:
    if not _NUMBER.fullmatch(part.text):
        raise part.refused(f'the step "{part.text}" in the {spec.name} field is not a number', "write it as */5")
    step = int(part.text)
    if not 1 <= step < spec.size:
        hint = f"a step is 1 to {spec.size - 1}; for longer rhythms use --every"
        raise part.refused(f'the step "{part.text}" does not fit the {spec.name} field of {spec.size} values', hint)
    return step


def _number(spec: Field, part: Word) -> int:
    """A value of the field by number or name; 7 stays 7 for Sunday so that ranges can end in it."""
    name = part.text.lower()
    if name in spec.names:
        return spec.names.index(name) + spec.low
    high = 7 if spec.week_wraps else spec.high
    if not _NUMBER.fullmatch(part.text):
        names = f" or {spec.names[0]} to {spec.names[-1]}" if spec.names else ""
        shown = f'"{part.text}"' if part.text else "an empty value"
        raise part.refused(f"{shown} is not a {spec.name}", f"write {spec.low} to {high}{names}")
    value = int(part.text)
    if not spec.low <= value <= high:
        sunday = ", where 1 is Sunday" if spec.offset else ""
        raise part.refused(
            f'"{part.text}" is out of range for the {spec.name} field', f"write {spec.low} to {high}{sunday}"
        )
    return value


def _stepped(spec: Field, start: int, end: int, step: int) -> int:
    mask = 0
    for value in range(start, end + 1, step):
        mask |= 1 << spec.bit(value)
    return mask


def _wrapped(spec: Field, start: int, end: int, step: int) -> int:
    """A range that runs over the end of its field: 22-2 is 22, 23, 0, 1, 2."""
    mask = 0
    for value in range(start, end + spec.size + 1, step):
        mask |= 1 << spec.bit((value - spec.low) % spec.size + spec.low)
    return mask


def _unwrapped(spec: Field, text: str) -> str:
    """The two ranges that together mean a range written backwards."""
    body, _, step_text = text.partition("/")
    start_text, _, end_text = body.partition("-")
    named = not start_text.isdecimal() and not end_text.isdecimal()
    step = int(step_text or 1)
    start, end = (_bare(spec, part) for part in (start_text, end_text))
    if spec.name == "year":
        return _range_text(spec, end, start, step, named)
    if spec.week_wraps and start == 7:
        return _range_text(spec, 0, end, step, named)
    first = start + ((spec.high - start) // step + 1) * step - spec.size
    ranges = [_range_text(spec, start, spec.high, step, named)]
    if first <= end:
        ranges.append(_range_text(spec, first, end, step, named))
    return ",".join(ranges)


def _bare(spec: Field, text: str) -> int:
    name = text.lower()
    return spec.names.index(name) + spec.low if name in spec.names else int(text)


def _range_text(spec: Field, start: int, end: int, step: int, named: bool) -> str:
    first, last = ((spec.names[value - spec.low] if named else str(value)) for value in (start, end))
    if start == end:
        return first
    return f"{first}-{last}/{step}" if step > 1 else f"{first}-{last}"
