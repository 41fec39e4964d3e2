"""The cron parser: text to masks, in the dialects unix, quartz and aws. It is the authority on what a text means.

A dialect changes the grammar and never the rules for gaps and folds. Every refusal names the offending part,
its position and what to write instead.
"""

import re
from dataclasses import dataclass

from ..limits import EXPRESSION_LENGTH_MAX, YEAR_MAX, YEAR_MIN
from .cron_fields import AWS, QUARTZ, UNIX, Days, Grammar, Word, full_mask, parse_field
from .errors import MalformedSchedule, NeverDue
from .local_times import FAR_S, bits_of, local_times_of
from .schedule import CronSchedule

DIALECTS = ("unix", "quartz", "aws")
"""Dialects that are read; others are refused, never guessed at."""
DIALECT_HINT = "use unix, quartz or aws"
"""What to write instead of an unknown dialect."""

_GRAMMARS = {"unix": UNIX, "quartz": QUARTZ, "aws": AWS}
_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_AWS_CALL = re.compile(r"[ \t]*cron\((.*)\)[ \t]*", re.ASCII | re.IGNORECASE)
_ZONE_PREFIX = re.compile(r"(?:CRON_)?TZ=.*", re.ASCII | re.IGNORECASE)
_EVERY_YEAR = (1 << (YEAR_MAX + 1)) - (1 << YEAR_MIN)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The words of the seven fields; ``year`` is None where the dialect or the text has none."""

    has_seconds: bool
    six: list[Word]
    year: Word | None = None


def parse_cron(text: str, dialect: str = "unix") -> CronSchedule:
    """Compile a cron expression of a dialect.

    ``unix``: 5 fields, 6 with leading seconds, or a nickname such as ``@hourly``. ``quartz``: 6 fields from the
    seconds on, 7 with a year, one of the day fields being ``?``. ``aws``: 6 fields from the minutes to the year, one
    of the day fields being ``?``, with or without ``cron(...)`` around them. Raises MalformedSchedule (unknown
    dialect, or text that could surprise), or NeverDue when no date of any year can match.
    """
    grammar = _grammar_of(dialect)
    _check_characters(text)
    start, end = 0, len(text)
    call = _AWS_CALL.fullmatch(text) if grammar is AWS else None
    if call is not None:
        start, end = call.span(1)
    words = [Word(match.group(), start + match.start()) for match in re.finditer(r"[^ \t]+", text[start:end])]
    if not words:
        raise MalformedSchedule(
            "the cron expression is empty", position=start, hint=f'write fields such as "{_EXAMPLES[dialect]}"'
        )
    layout = _unix_layout(words) if grammar is UNIX else _other_layout(grammar, words)
    schedule = _compiled(text, grammar, layout)
    if local_times_of(schedule).first_from(0) == FAR_S:
        day = layout.six[3]
        year = "" if layout.year is None else ", nor any year"
        raise NeverDue(
            f'"{text}" can never match: no month{year} it names has such a day',
            position=day.position,
            token=day.text,
            hint="check the day-of-month against the months" + (" and years" if year else ""),
        )
    return schedule


_EXAMPLES = {"unix": "0 9 * * 1-5", "quartz": "0 0 9 ? * 2-6", "aws": "0 9 ? * 2-6 *"}


def _compiled(text: str, grammar: Grammar, layout: _Layout) -> CronSchedule:
    specs = (grammar.second, grammar.minute, grammar.hour, grammar.day, grammar.month, grammar.weekday)
    words, days = layout.six, Days()
    seconds, minutes, hours, monthdays, months, weekdays = (
        parse_field(spec, word, days) for spec, word in zip(specs, words, strict=True)
    )
    years = _EVERY_YEAR if layout.year is None else parse_field(grammar.year, layout.year, days)
    clock = "".join(word.text for word in words[:3])
    # "?" leaves the choice of days to the other field, as "*" does.
    starred = words[3].text.startswith(("*", "?")) or words[5].text.startswith(("*", "?"))
    return CronSchedule(
        source=text,
        dialect=grammar.dialect,
        has_seconds=layout.has_seconds,
        seconds=seconds,
        minutes=minutes,
        hours=hours,
        days=monthdays,
        months=months,
        weekdays=weekdays,
        day_rule="and" if starred else "or",
        interval_like="*" in clock or "/" in clock,
        days_from_last=days.from_last,
        nearest_weekdays=days.nearest,
        nearest_weekdays_from_last=days.nearest_from_last,
        nth_weekdays=days.nth,
        last_weekdays=days.last,
        years=None if years == full_mask(grammar.year) else tuple(bits_of(years)),
    )


def _grammar_of(dialect: str) -> Grammar:
    grammar = _GRAMMARS.get(dialect)
    if grammar is None:
        raise MalformedSchedule(f'the dialect "{dialect[:40]}" is not known', token=dialect[:40], hint=DIALECT_HINT)
    return grammar


def _check_characters(text: str) -> None:
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise MalformedSchedule(
            f"the cron expression has {len(text)} characters",
            position=EXPRESSION_LENGTH_MAX,
            token=text[EXPRESSION_LENGTH_MAX : EXPRESSION_LENGTH_MAX + 16],
            hint=f"at most {EXPRESSION_LENGTH_MAX} are read",
        )
    for position, character in enumerate(text):
        if not ("!" <= character <= "~" or character in " \t"):
            shown = f'"{character}" (U+{ord(character):04X})' if character.isprintable() else f"U+{ord(character):04X}"
            raise MalformedSchedule(
                f"the character {shown} does not belong in a cron expression",
                position=position,
                token=character,
                hint='use ASCII digits, names, and "* , - /"',
            )


def _unix_layout(words: list[Word]) -> _Layout:
    first = words[0]
    if first.text.startswith("@"):
        words = _nickname(words)
    elif _ZONE_PREFIX.fullmatch(first.text):
        raise first.refused(
            f'"{first.text}" puts a zone into the expression', "leave it out and declare the zone with --zone"
        )
    elif len(words) not in (5, 6):
        extra = words[6] if len(words) > 6 else words[-1]
        year = "; years belong to --dialect quartz" if len(words) == 7 else ""
        raise extra.refused(
            _counted(words),
            f"write 5 (minute hour day-of-month month day-of-week), or 6 with leading seconds{year}",
        )
    return _Layout(True, words) if len(words) == 6 else _Layout(False, [words[0].part("0", 0), *words])


def _other_layout(grammar: Grammar, words: list[Word]) -> _Layout:
    """The fields of quartz and aws, which both choose the days by one field and have ``?`` in the other."""
    if grammar is QUARTZ:
        fits, order = len(words) in (6, 7), "second minute hour day-of-month month day-of-week, and perhaps year"
        layout = _Layout(True, words[:6], words[6] if len(words) > 6 else None)
    else:
        fits, order = len(words) == 6, "minute hour day-of-month month day-of-week year"
        layout = _Layout(False, [words[0].part("0", 0), *words[:5]], words[-1])
    if not fits:
        raise words[min(len(words) - 1, 6)].refused(_counted(words), f"in {grammar.dialect} write {order}")
    day, weekday = layout.six[3], layout.six[5]
    if day.text == weekday.text == "?":
        raise weekday.refused(
            'both day fields are "?", which leaves no day at all', "write * in one of them for every day"
        )
    if "?" not in (day.text, weekday.text):
        raise weekday.refused(
            f'in {grammar.dialect} "{day.text}" and "{weekday.text}" cannot both choose the days',
            "write ? in the day-of-month or the day-of-week field",
        )
    return layout


def _counted(words: list[Word]) -> str:
    return f"the cron expression has {len(words)} {'field' if len(words) == 1 else 'fields'}"


def _nickname(words: list[Word]) -> list[Word]:
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
    return [Word(part, None) for part in _NICKNAMES[name].split()]
