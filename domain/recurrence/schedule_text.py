"""The one entry point for schedules as text: which kind it is, and in which dialect.

A dialect is declared, or the text shows its kind beyond doubt (``cron(...)``, ``rate(...)``, ``at(...)``, ``RRULE:``,
``every ...``). What could mean two things is refused with both.
"""

import re
from dataclasses import dataclass

from ..instants import DAY, HOUR, MINUTE
from ..limits import EXPRESSION_LENGTH_MAX, INTERVAL_MAX
from .cron_fields import Word
from .cron_text import DIALECTS, parse_cron
from .errors import MalformedSchedule
from .field_checks import LocalMoment, cron_checks
from .interval_text import parse_interval, parse_one_off
from .rule_text import parse_rule
from .schedule import CronSchedule, IntervalSchedule, OneOffSchedule, Schedule

RULE_DIALECT = "rrule"
"""What may be declared beside the cron dialects: a recurrence rule of RFC 5545."""
_CALL = re.compile(r"[ \t]*(cron|rate|at)[ \t]*\(", re.ASCII | re.IGNORECASE)
_RULE = re.compile(r"\s*(?:RRULE|DTSTART|EXRULE|EXDATE|RDATE|FREQ)[:;=]", re.ASCII | re.IGNORECASE)
_EVERY = re.compile(r"[ \t]*@?every[ \t]", re.ASCII | re.IGNORECASE)
_AT = re.compile(r"[ \t]*at[ \t]+(?=\d)", re.ASCII | re.IGNORECASE)
_LENGTH = re.compile(r"[ \t]*P[0-9T]", re.ASCII | re.IGNORECASE)
_RATE = re.compile(r"([0-9]{1,9})[ \t]+(minute|hour|day)(s?)", re.ASCII)
_UNITS = {"minute": MINUTE, "hour": HOUR, "day": DAY}
_READING_LENGTH_MAX = 160
_DIALECT_HINT = "use unix, quartz, aws or rrule"


@dataclass(frozen=True, slots=True)
class _Call:
    """``name(inside)``: the name, and what is between the brackets with its place."""

    name: str
    inside: Word


def parse_schedule(text: str, dialect: str | None = None, *, anchor: int = 0) -> Schedule:
    """Compile a schedule of any kind; ``anchor`` (microseconds) is where the grid of an interval hangs.

    ``dialect`` is ``unix``, ``quartz``, ``aws`` or ``rrule``; None reads unix cron, and the texts that show their kind
    themselves. Raises MalformedSchedule: an unknown dialect, text that its dialect does not have, text that could
    mean two things; NeverDue when no instant can match.
    """
    if dialect is not None and dialect not in (*DIALECTS, RULE_DIALECT):
        raise MalformedSchedule(f'the dialect "{dialect[:40]}" is not known', token=dialect[:40], hint=_DIALECT_HINT)
    _check_length(text)
    shown = _shown_dialect(text)
    if dialect is None and shown == "interval":
        return parse_interval(text, anchor)
    if dialect is None and shown == "one-off":
        return _one_off(text)
    if shown in {"aws", RULE_DIALECT} and dialect not in {None, shown}:
        stripped = text.lstrip()
        word = Word(re.split("[(:;=]", stripped, maxsplit=1)[0], len(text) - len(stripped))
        raise word.refused(
            f'"{word.text}" belongs to {shown}, and {dialect} is declared', f"declare --dialect {shown}, or none"
        )
    match dialect or shown:
        case "aws":
            return _aws(text, anchor)
        case "rrule":
            return parse_rule(text)
        case "quartz":
            return parse_cron(text, "quartz")
        case _:
            if dialect is None:
                _refuse_undeclared(text)
            return parse_cron(text)


def _check_length(text: str) -> None:
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise MalformedSchedule(
            f"the schedule has {len(text)} characters",
            position=EXPRESSION_LENGTH_MAX,
            token=text[EXPRESSION_LENGTH_MAX : EXPRESSION_LENGTH_MAX + 16],
            hint=f"at most {EXPRESSION_LENGTH_MAX} are read",
        )


def _shown_dialect(text: str) -> str:
    """The kind that the text shows beyond doubt, or nothing."""
    shapes = ((_CALL, "aws"), (_RULE, RULE_DIALECT), (_EVERY, "interval"), (_LENGTH, "interval"), (_AT, "one-off"))
    return next((kind for shape, kind in shapes if shape.match(text)), "")


def _one_off(text: str) -> OneOffSchedule:
    match = _AT.match(text)
    assert match is not None, "the caller looked"
    return _shifted(text[match.end() :].rstrip(" \t"), match.end())


def _shifted(text: str, offset: int) -> OneOffSchedule:
    """A one-off that is a part of a text, refused with positions in the whole."""
    try:
        return parse_one_off(text)
    except MalformedSchedule as error:
        position = offset if error.position is None else error.position + offset
        raise MalformedSchedule(error.message, position=position, token=error.token, hint=error.hint) from error


def _aws(text: str, anchor: int) -> CronSchedule | IntervalSchedule | OneOffSchedule:
    call = _call_of(text)
    if call is None or call.name == "cron":
        return parse_cron(text, "aws")
    return _rate(text, call.inside, anchor) if call.name == "rate" else _at(call.inside)


def _call_of(text: str) -> _Call | None:
    match = _CALL.match(text)
    if match is None:
        return None
    body = text.rstrip(" \t")
    if not body.endswith(")"):
        raise MalformedSchedule(
            f'"{match[1]}(" is not closed', position=len(body), token=body[-16:], hint="end it with a closing bracket"
        )
    inside = body[match.end() : -1]
    trimmed = inside.strip(" \t")
    return _Call(match[1].lower(), Word(trimmed, match.end() + inside.index(trimmed)))


def _rate(text: str, inside: Word, anchor: int) -> IntervalSchedule:
    match = _RATE.fullmatch(inside.text)
    if match is None:
        raise inside.refused(
            f'"{inside.text[:64]}" is not a rate', "write rate(5 minutes), rate(1 hour) or rate(7 days)"
        )
    count = int(match[1])
    if (count == 1) == bool(match[3]):
        right = f"{count} {match[2]}{'' if count == 1 else 's'}"
        raise inside.refused(f'"{inside.text}" has the wrong number', f"write rate({right})")
    period = count * _UNITS[match[2]]
    if not MINUTE <= period <= INTERVAL_MAX:
        raise inside.refused(f'the rate "{inside.text}" is out of bounds', "use 1 minute to 3660 days")
    return IntervalSchedule(source=text, period=period, anchor=anchor)


def _at(inside: Word) -> OneOffSchedule:
    return _shifted(inside.text, inside.position or 0)


def _refuse_undeclared(text: str) -> None:
    """Refuse text that is another dialect's, or that dialects read differently, when none is declared."""
    if "?" not in text and len(text.split()) != 7:
        return
    readings: dict[str, CronSchedule] = {}
    for name, written, dialect in (
        ("quartz", text, "quartz"), ("aws", text, "aws"), ("unix with * for ?", text.replace("?", "*"), "unix"),
    ):  # fmt: skip
        try:
            readings[name] = parse_cron(written, dialect)
        except MalformedSchedule:
            continue
    declared = [name for name in readings if name in DIALECTS]
    if not declared:
        return
    words = {name: _in_words(schedule) for name, schedule in readings.items()}
    last = text.rsplit(maxsplit=1)[-1]
    first = Word("?", text.index("?")) if "?" in text else Word(last, text.rindex(last))
    if len(set(words.values())) > 1:
        said = ", or ".join(f"{name}: {text}" for name, text in words.items())
        raise first.refused(f'"{text}" could mean two things: {said}', f"declare one, with --dialect {declared[0]}")
    raise first.refused(f'"{text}" is {declared[0]}, which is not declared', f"declare it with --dialect {declared[0]}")


def _in_words(schedule: CronSchedule) -> str:
    """What each field allows, as far as it allows anything less than all."""
    checks = cron_checks(schedule, LocalMoment(0, 0))
    said = "; ".join(f"{check.name} {check.allowed}" for check in checks if check.allowed != "any")
    return said if len(said) <= _READING_LENGTH_MAX else f"{said[:_READING_LENGTH_MAX]}..."
