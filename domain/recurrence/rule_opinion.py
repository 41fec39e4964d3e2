"""dateutil's reading of a recurrence rule, as a second opinion when a schedule is defined.

The only module that imports dateutil. Our reading is the authority; an unlisted difference means that people could
read the rule in two ways. dateutil searches for a date that does not come until the year 9999, for seconds on end; so
it is asked about the same rule late in that calendar, where weekdays and leap years fall as they do in the rule's own
years, and its search ends soon.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import MAXYEAR, datetime, timedelta
from itertools import islice

from dateutil.rrule import rrule, rrulestr
from msgspec.structs import replace

from .months import LOCAL_END_S
from .rule_days import start_day
from .rule_search import rule_times_of
from .schedule import RuleSchedule

RULE_OCCURRENCES_COMPARED_MAX = 20
"""First occurrences that must agree."""
RULE_SPAN_COMPARED_MAX_S = 6 * 366 * 86_400
"""Only occurrences this close to the rule's start are compared, a year of a rule by the hour or minute. None of one by
the second: dateutil walks towards them second by second."""
_DAY_SPAN_MAX_S = 366 * 86_400
_YEARS_BORROWED, _YEARS_BORROWED_WITHIN_A_DAY = 8, 2
_YEARS_TO_WALK_MAX = 40
"""Years that dateutil can walk before its calendar ends."""
_EPOCH = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)
_BOUND = re.compile(r"(?:UNTIL|COUNT)=[^;]*", re.ASCII | re.IGNORECASE)
_RULE = re.compile(r"FREQ=\S*|(?<=RRULE:)\S*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KnownRuleDifference:
    """A construct that dateutil reads otherwise: why, an example that shows it, and how it is recognised."""

    reason: str
    example: str
    applies: Callable[[RuleSchedule], bool]


def rule_disagreement(schedule: RuleSchedule) -> str | None:
    """One sentence on how dateutil reads the rule differently; None when it agrees.

    Also None where a difference is known and listed. The first local times are compared, without UNTIL and COUNT.
    """
    if any(known.applies(schedule) for known in KNOWN_RULE_DIFFERENCES):
        return None
    return compare_rule(schedule)


def compare_rule(schedule: RuleSchedule) -> str | None:
    """As ``rule_disagreement``, without the list of known differences."""
    shift = _shift(schedule)
    if shift is None or schedule.frequency == "secondly":
        return None
    ours = [_EPOCH + at_s * _SECOND for at_s in _our_first(schedule)]
    try:
        theirs = [moment - shift for moment in islice(_their_rule(schedule, shift), len(ours))]
    except ValueError as error:
        return f'dateutil refuses "{schedule.source}": {error}'
    if len(theirs) < len(ours):
        return f'"{schedule.source}" gives {ours[len(theirs)].isoformat()} here and no such time to dateutil'
    for our, their in zip(ours, theirs, strict=True):
        if our != their:
            return (
                f'"{schedule.source}" gives {our.isoformat()} here where dateutil has {their.isoformat()} in local time'
            )
    return None


def _our_first(schedule: RuleSchedule) -> list[int]:
    start_s = -(-schedule.start // 1_000_000)
    times = rule_times_of(replace(schedule, last=None))
    span_s = _DAY_SPAN_MAX_S if schedule.interval_like else RULE_SPAN_COMPARED_MAX_S
    end_s = min(start_s + span_s, LOCAL_END_S)
    return list(islice(times.times(start_s, end_s), RULE_OCCURRENCES_COMPARED_MAX))


def _their_rule(schedule: RuleSchedule, shift: timedelta) -> rrule:
    match = _RULE.search(schedule.source)
    assert match is not None, "the source of a rule has a rule"
    text = ";".join(part for part in match.group().split(";") if not _BOUND.fullmatch(part))
    found = rrulestr(text, dtstart=_EPOCH + schedule.start // 1_000_000 * _SECOND + shift)
    assert isinstance(found, rrule), "one rule was given"
    return found


def _shift(schedule: RuleSchedule) -> timedelta | None:
    """How far to move the rule into late years that have the same days; None when there are none."""
    year = (_EPOCH + timedelta(days=start_day(schedule))).year
    first = datetime(year, 1, 1)
    borrowed = _YEARS_BORROWED_WITHIN_A_DAY if schedule.interval_like else _YEARS_BORROWED
    for later in range(MAXYEAR - borrowed, MAXYEAR - _YEARS_TO_WALK_MAX, -1):
        moved = datetime(later, 1, 1) - first
        same = all(datetime(later + n, 1, 1) - datetime(year + n, 1, 1) == moved for n in range(borrowed + 1))
        if same and moved.days % 7 == 0:
            return moved
    return None


def _has_both_weekdays(schedule: RuleSchedule) -> bool:
    return bool(schedule.weekdays and schedule.nth_weekdays)


def _has_places_in_weeks(schedule: RuleSchedule) -> bool:
    return schedule.frequency == "weekly" and bool(schedule.positions)


KNOWN_RULE_DIFFERENCES = (
    KnownRuleDifference(
        "weekdays with and without a number are both demanded of a date",
        "DTSTART:20260101T090000 RRULE:FREQ=MONTHLY;BYDAY=MO,1FR",
        _has_both_weekdays,
    ),
    KnownRuleDifference(
        "places in the first week are counted from the start, not from the beginning of the week",
        "DTSTART:20260107T090000 RRULE:FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1",
        _has_places_in_weeks,
    ),
)
"""Everything dateutil is known to read otherwise on our grammar; each example is tested to differ."""
