"""Why a schedule is due at an instant, or is not: every field, the rules for gaps and folds, in words.

The verdict is the engine's own; the words are checked against it by tests.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from ..instants import SECOND, Instant, MalformedInstant, format_duration, format_instant
from ..limits import YEAR_MAX, YEAR_MIN
from ..zones import Transition, ZoneRules
from .exclusions import is_excluded, with_exclusions
from .field_checks import (
    WEEKDAYS,
    FieldCheck,
    LocalMoment,
    cron_checks,
    day_rule_text,
    interval_checks,
    local_words,
    one_off_checks,
    rule_checks,
)
from .local_times import local_times_of
from .months import LOCAL_END_S, LOCAL_FIRST_S
from .recurrence import local_text, recurrence_of
from .rule_search import rule_times_of
from .rules import FOLD_RULES, GAP_RULES, FoldRule, GapRule
from .schedule import CronSchedule, IntervalSchedule, OneOffSchedule, RuleSchedule, Schedule

_NEIGHBOUR_S = 2 * 86_400
"""No gap is farther from the instants that it shifted than this."""
_DAY_FIELDS = frozenset({"day of month", "day of week"})


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a schedule is due at an instant (``matches``), or is not.

    ``local`` is the instant on the zone's clock as RFC 3339. ``fields`` compare it with what the schedule allows;
    ``day_rule`` says how two fields of days are joined. ``clock_change`` is there when the local time happens twice,
    or was moved out of a missing hour: which rule holds, and what each rule gives. ``excluded``: the local date is an
    excluded one. ``previous`` and ``next`` are the neighbouring instants that are due. ``summary`` is one sentence.
    """

    matches: bool
    instant: Instant
    zone: str
    local: str
    fields: tuple[FieldCheck, ...]
    day_rule: str | None
    clock_change: str | None
    excluded: bool
    previous: Instant | None
    next: Instant | None
    summary: str

    def lines(self) -> list[str]:
        """All of it as lines of text."""
        widths = [max((len(text) for text in texts), default=0) for texts in self._columns()]
        shown = [self.summary, ""]
        for check in self.fields:
            name, value = check.name.ljust(widths[0]), check.value.ljust(widths[1])
            shown.append(f"  {'ok' if check.ok else 'no'}  {name}  {value}  allowed: {check.allowed}")
        shown += [text for text in (self.day_rule, self.clock_change) if text is not None]
        if self.excluded:
            shown.append(f"the local date {self.local[:10]} is excluded")
        for name, instant in (("previous", self.previous), ("next", self.next)):
            shown.append(f"{name}: {'none' if instant is None else format_instant(instant)}")
        return shown

    def _columns(self) -> tuple[list[str], list[str]]:
        return [check.name for check in self.fields], [check.value for check in self.fields]


@dataclass(frozen=True, slots=True)
class _Change:
    """What a gap or a fold has to do with the instant.

    ``words`` describe it. ``reason`` says why it decides this instant, None when it does not.
    """

    words: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class _Question:
    """A schedule in a zone under declared rules, and the instant that is asked about."""

    schedule: Schedule
    zone: ZoneRules
    gap: GapRule
    fold: FoldRule
    instant: int
    local: int

    def change(self) -> _Change | None:
        """The gap or fold that touches the instant."""
        if isinstance(self.schedule, IntervalSchedule):
            return None
        passes = self.zone.local_to_instants(self.local)
        return self._twice(passes) if len(passes) > 1 else self._moved()

    def _twice(self, passes: tuple[Instant, ...]) -> _Change:
        """The local time happens twice."""
        first, second = (format_instant(one) for one in passes[:2])
        number = "first" if self.instant == passes[0] else "second"
        words = (
            f"{local_words(self.local)} happens twice in {self.zone.name}, at {first} and at {second}; "
            f"this is the {number} pass"
        )
        if not _names(self.schedule, self.local):
            return _Change(f"{words}; the schedule does not name it", None)
        given = {"first": first, "second": second, "both": f"{first} and {second}"}
        gives = _rules_in_words(FOLD_RULES, self.fold, given)
        counts = self.fold in ("both", number)
        reason = f'the fold rule "{self.fold}" {"counts" if counts else "leaves out"} the {number} pass'
        return _Change(f"{words}; fold rules: {gives}", reason)

    def _moved(self) -> _Change | None:
        """The instant is where a rule may put a local time that does not exist."""
        at_s = self.instant // SECOND
        for change in reversed(self.zone.transitions(at_s - _NEIGHBOUR_S, at_s + 1)):
            width_s = change.after_s - change.before_s
            if not change.at_s <= at_s < change.at_s + width_s:
                continue
            missing = self.local - width_s * SECOND
            if self.zone.gap_at(missing) == change and _names(self.schedule, missing):
                return self._missing(change, missing)
            first = self._first_missing(change) if change.at_s * SECOND == self.instant else None
            return _Change(_forward(change, self.zone.name), None) if first is None else self._missing(change, first)
        return None

    def _missing(self, change: Transition, missing: int) -> _Change:
        """The schedule names this local time, which the gap swallows."""
        shifted, end = missing - change.before_s * SECOND, change.at_s * SECOND
        given = {"shift": format_instant(shifted), "skip": "nothing", "next-valid": format_instant(end)}
        words = (
            f"{_forward(change, self.zone.name)}, so {local_words(missing)} does not exist; "
            f"gap rules: {_rules_in_words(GAP_RULES, self.gap, given)}"
        )
        here = given[self.gap] == format_instant(self.instant)
        if not here and _names(self.schedule, self.local):
            return _Change(words, None)
        what = "moves it here" if here else "leaves it out" if self.gap == "skip" else "moves it elsewhere"
        return _Change(words, f'{local_words(missing)} does not exist and the gap rule "{self.gap}" {what}')

    def _first_missing(self, change: Transition) -> int | None:
        """The first local time that the schedule names inside the gap."""
        low, high = (change.at_s + offset for offset in (change.before_s, change.after_s))
        found = _first_named(self.schedule, low * SECOND)
        return found if found < high * SECOND and self.zone.gap_at(found) == change else None


def explain(
    schedule: Schedule,
    zone: ZoneRules,
    gap: GapRule,
    fold: FoldRule,
    instant: int,
    *,
    excluded: tuple[int, ...] = (),
) -> Explanation:
    """Why the schedule is due at the instant, or is not; ``excluded`` are ascending local days since 1970-01-01.

    Raises MalformedInstant outside the years YEAR_MIN to YEAR_MAX.
    """
    local = instant + zone.utc_offset_at(instant) * SECOND
    if not LOCAL_FIRST_S <= local // SECOND < LOCAL_END_S:
        raise MalformedInstant(
            f'"{format_instant(instant)}" lies outside the years that schedules know; use {YEAR_MIN} to {YEAR_MAX}'
        )
    moment = LocalMoment(*divmod(local, SECOND))
    every = recurrence_of(schedule, zone, gap, fold)
    due = with_exclusions(every, zone, excluded)
    matches = due.next_after(instant - 1) == instant
    fields = _checks(schedule, moment, instant)
    day_rule = day_rule_text(schedule) if isinstance(schedule, CronSchedule) else None
    change = _Question(schedule, zone, gap, fold, instant, local).change()
    is_out = is_excluded(instant, zone, excluded)
    reason = f"its local date {local_words(local)[:10]} is excluded" if is_out else None
    reason = reason or (change.reason if change is not None else None) or _fields_in_words(schedule, fields, moment)
    return Explanation(
        matches=matches,
        instant=Instant(instant),
        zone=zone.name,
        local=local_text(instant, zone),
        fields=fields,
        day_rule=day_rule,
        clock_change=None if change is None else change.words,
        excluded=is_out,
        previous=due.previous_before(instant),
        next=due.next_after(instant),
        summary=f"{format_instant(instant)} is {WEEKDAYS[moment.weekday]} {local_words(local)} in {zone.name}: "
        f"{'due' if matches else 'not due'}, {reason}",
    )


def _checks(schedule: Schedule, moment: LocalMoment, instant: int) -> tuple[FieldCheck, ...]:
    match schedule:
        case CronSchedule():
            return cron_checks(schedule, moment)
        case IntervalSchedule():
            return interval_checks(schedule, instant)
        case OneOffSchedule():
            return one_off_checks(schedule, moment)
        case RuleSchedule():
            return rule_checks(schedule, moment)
        case _:
            assert_never(schedule)


def _fields_in_words(schedule: Schedule, fields: tuple[FieldCheck, ...], moment: LocalMoment) -> str:
    """Which fields decide, when neither a rule nor an exclusion does."""
    wrong = list(_deciding(schedule, fields))
    if wrong:
        texts = {check.name: f"the {check.name} is {check.value} and must be {check.allowed}" for check in wrong}
        if isinstance(schedule, CronSchedule) and schedule.day_rule == "or" and texts.keys() >= _DAY_FIELDS:
            by_date, by_weekday = texts.pop("day of month"), texts.pop("day of week")
            texts["days"] = f"{by_date}, or else {by_weekday}"
        return ", and ".join(texts.values())
    if _names(schedule, moment.second * SECOND + moment.fraction):
        return "every field matches"
    return "every field matches, and the rule's interval or positions leave it out"


def _deciding(schedule: Schedule, fields: tuple[FieldCheck, ...]) -> Iterator[FieldCheck]:
    """The fields that do not match, but for a field of days that need not."""
    days = {check.name: check.ok for check in fields if check.name in _DAY_FIELDS}
    either = isinstance(schedule, CronSchedule) and schedule.day_rule == "or" and any(days.values())
    return (check for check in fields if not check.ok and not (either and check.name in days))


def _names(schedule: Schedule, local: int) -> bool:
    """Whether the schedule names the local time (microseconds). Intervals name none, so they name all."""
    return isinstance(schedule, IntervalSchedule) or _first_named(schedule, local) == local


def _first_named(schedule: CronSchedule | OneOffSchedule | RuleSchedule | IntervalSchedule, local: int) -> int:
    """The first local time (microseconds) that the schedule names, not before ``local``; far away if there is none."""
    match schedule:
        case OneOffSchedule():
            return schedule.local if schedule.local >= local else LOCAL_END_S * SECOND
        case CronSchedule():
            return local_times_of(schedule).first_from(-(-local // SECOND)) * SECOND
        case RuleSchedule():
            return rule_times_of(schedule).first_from(-(-local // SECOND)) * SECOND
        case IntervalSchedule():
            raise AssertionError("an interval names no local time")


def _forward(change: Transition, zone: str) -> str:
    before, after = (local_words((change.at_s + offset) * SECOND) for offset in (change.before_s, change.after_s))
    width = format_duration((change.after_s - change.before_s) * SECOND)
    return f"the clock in {zone} went forward by {width} from {before} to {after}"


def _rules_in_words(rules: tuple[str, ...], present: str, given: dict[str, str]) -> str:
    return ", ".join(f'"{rule}"{" (in force)" if rule == present else ""} gives {given[rule]}' for rule in rules)
