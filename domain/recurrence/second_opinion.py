"""croniter's reading of an expression, as a second opinion when a schedule is defined.

The only module that imports croniter. Our parser is the authority; an unlisted difference means that
people could read the expression in two ways. croniter always gets an explicit start here, since it
reads the wall clock without one, and only text that our parser has accepted.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from croniter import CroniterBadDateError, CroniterError, croniter

from .local_times import FAR_S, LocalTimes, local_times_of
from .schedule import CronSchedule

OCCURRENCES_COMPARED_MAX = 20
"""Next occurrences that must agree from each start."""
SPAN_COMPARED_MAX_S = 5 * 366 * 86_400
"""Only occurrences this close to the start are compared: croniter walks towards rare ones for long."""
_YEARS_SEARCHED_MAX = 8
_STARTS = (datetime(2026, 1, 1), datetime(2027, 12, 30, 23, 59, 58))
_EPOCH = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)
_RANGE = re.compile(r"([a-z0-9]+)-([a-z0-9]+)", re.ASCII)
_AWS_CALL = re.compile(r"cron\((.*)\)", re.ASCII | re.IGNORECASE)
_WEEKDAY_NUMBER = re.compile(r"(?<![0-9/#])0*[1-7](?![0-9])", re.ASCII)
_STEPPED_RANGE = re.compile(r"([a-z]{3}|[0-9]+)-([a-z]{3}|[0-9]+)/", re.ASCII)
_WEEKDAYS = "sun mon tue wed thu fri sat".split()
_NAMES = [*_WEEKDAYS, *"jan feb mar apr may jun jul aug sep oct nov dec".split()]


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """A construct that croniter reads otherwise: why, an example that shows it, and how it is recognised."""

    reason: str
    example: str
    applies: Callable[[CronSchedule], bool]
    dialect: str = "unix"


def disagreement(schedule: CronSchedule) -> str | None:
    """One sentence on how croniter reads the expression differently; None when it agrees.

    Also None where a difference is known and listed, and where croniter has no answer to compare.
    The comparison is of naive local times from fixed starts, so the answer depends on the text alone.
    """
    if any(known.applies(schedule) for known in KNOWN_DIFFERENCES):
        return None
    return compare(schedule)


def compare(schedule: CronSchedule) -> str | None:
    """As ``disagreement``, without the list of known differences."""
    local = local_times_of(schedule)
    for start in _STARTS:
        ours = _our_next(local, start)
        try:
            theirs = _their_next(schedule, start, len(ours))
        except CroniterBadDateError as error:
            return f'croniter finds no date for "{schedule.source}": {error}'
        except CroniterError as error:
            return f'croniter refuses "{schedule.source}": {error}'
        for our, their in zip(ours, theirs, strict=True):
            if our != their:
                return (
                    f'after {start.isoformat()} the next local time of "{schedule.source}" is {our.isoformat()} here '
                    f"and {their.isoformat()} to croniter"
                )
    return None


def _our_next(local: LocalTimes, start: datetime) -> list[datetime]:
    start_s = (start - _EPOCH) // _SECOND
    found: list[datetime] = []
    at_s = local.first_from(start_s + 1)
    while len(found) < OCCURRENCES_COMPARED_MAX and at_s < min(FAR_S, start_s + SPAN_COMPARED_MAX_S):
        found.append(_EPOCH + at_s * _SECOND)
        at_s = local.first_from(at_s + 1)
    return found


def _their_next(schedule: CronSchedule, start: datetime, count: int) -> list[datetime]:
    if count == 0:
        return []
    # croniter forgets which day field began with "*", so the rule for the two day fields is handed over.
    reader = croniter(
        _as_croniter_writes(schedule),
        start,
        day_or=schedule.day_rule == "or",
        second_at_beginning=True,
        max_years_between_matches=_YEARS_SEARCHED_MAX,
    )
    return [reader.get_next(datetime) for _ in islice(range(count), OCCURRENCES_COMPARED_MAX)]


def _as_croniter_writes(schedule: CronSchedule) -> str:
    """The text with 0 for Sunday, seconds first, and * for ?; its own text when it is of our own dialect."""
    text = schedule.source.strip(" \t")
    if schedule.dialect == "unix":
        return text
    call = _AWS_CALL.fullmatch(text)
    fields = (text if call is None else call[1]).split()
    if not schedule.has_seconds:
        fields.insert(0, "0")
    weekday = "sat" if fields[5].upper() == "L" else fields[5]
    fields[5] = _WEEKDAY_NUMBER.sub(lambda match: str(int(match[0]) - 1), weekday)
    return " ".join(fields).replace("?", "*")


def _words(schedule: CronSchedule) -> list[str]:
    return _as_croniter_writes(schedule).lower().split()


def _has_extras(schedule: CronSchedule) -> bool:
    nearest = schedule.nearest_weekdays | schedule.nearest_weekdays_from_last
    return bool(nearest or schedule.last_weekdays or schedule.days_from_last)


def _has_star_in_list(schedule: CronSchedule) -> bool:
    return any("*" in word and "," in word for word in _words(schedule))


def _has_range_of_one(schedule: CronSchedule) -> bool:
    for word in _words(schedule):
        for start, end in _RANGE.findall(word):
            first, last = (_WEEKDAYS.index(part) if part in _WEEKDAYS else part for part in (start, end))
            if str(first).lstrip("0") == str(last).lstrip("0"):
                return True
    return False


def _steps_over_the_end(schedule: CronSchedule) -> bool:
    if schedule.dialect != "quartz":
        return False
    for start, end in _STEPPED_RANGE.findall(" ".join(_words(schedule))):
        first, last = (_NAMES.index(part) if part in _NAMES else int(part) for part in (start, end))
        if first > last:
            return True
    return False


def _has_nth_and_date(schedule: CronSchedule) -> bool:
    return bool(schedule.nth_weekdays) and (schedule.day_rule == "or" or schedule.weekdays != 0)


KNOWN_DIFFERENCES = (
    KnownDifference("LW, L-3 and 5L are refused, W is dropped, L loses its list", "0 9 LW * *", _has_extras),
    KnownDifference("a * inside a list swallows or loses the rest of the list", "0 12 10,* * 2", _has_star_in_list),
    KnownDifference("a range of one value is read as the whole field", "5 4 * * sun-sun", _has_range_of_one),
    KnownDifference("5#2 beside a date or other weekdays is combined otherwise", "0 0 1 * 5#2", _has_nth_and_date),
    KnownDifference(
        "a step begins anew where a range runs over the end of its field",
        "0 57-55/25 9 * * ?",
        _steps_over_the_end,
        dialect="quartz",
    ),
)
"""Everything croniter 6 and 7 are known to read otherwise on our grammar; each example is tested to differ."""
