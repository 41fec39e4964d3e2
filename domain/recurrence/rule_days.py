"""The dates of a recurrence rule, as one mask: bit n stands for the n-th day from 1970-01-01.

What a rule says of a date depends on the year's kind alone (its length, its first weekday, the length of the year
before), of which there are few; so a rule is read once for each kind, and laid out over the years.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from ..limits import YEAR_MAX, YEAR_MIN
from .months import END_DAY, MONTH_LENGTHS, MONTH_OF_DAY, MONTH_STARTS, weekday_of
from .schedule import RuleSchedule

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class RuleDate:
    """A day as a rule sees it: counted from 1970-01-01, and from either end of its month and year; weekday from Sunday.

    ``in_month`` and ``in_year`` count from 0, ``month_length`` and ``year_length`` are in days.
    """

    number: int
    month: int
    in_month: int
    month_length: int
    weekday: int
    in_year: int
    year_length: int
    year_before_length: int


def rule_date(day: int) -> RuleDate:
    """The day with this number (days from 1970-01-01, before the end of YEAR_MAX)."""
    index = MONTH_OF_DAY[day]
    january = index - index % 12
    first = MONTH_STARTS[january]
    return RuleDate(
        day,
        index % 12 + 1,
        day - MONTH_STARTS[index],
        MONTH_LENGTHS[index],
        weekday_of(day),
        day - first,
        sum(MONTH_LENGTHS[january : january + 12]),
        366 if _is_leap(YEAR_MIN + index // 12 - 1) else 365,
    )


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_fits(schedule: RuleSchedule, day: RuleDate) -> bool:
    """Whether the day's month is among those named."""
    return not schedule.months or bool(schedule.months >> day.month & 1)


def month_day_fits(schedule: RuleSchedule, day: RuleDate) -> bool:
    """Whether the day's place in its month is among those named."""
    if not schedule.month_days and not schedule.month_days_from_last:
        return True
    from_last = day.month_length - 1 - day.in_month
    return bool(schedule.month_days >> (day.in_month + 1) & 1 or schedule.month_days_from_last >> from_last & 1)


def year_day_fits(schedule: RuleSchedule, day: RuleDate) -> bool:
    """Whether the day's place in its year is among those named."""
    if not schedule.year_days:
        return True
    return day.in_year + 1 in schedule.year_days or day.in_year - day.year_length in schedule.year_days


def weekday_fits(schedule: RuleSchedule, day: RuleDate) -> bool:
    """Whether the day's weekday, or it as the n-th of its month or year, is among those named."""
    if not schedule.weekdays and not schedule.nth_weekdays:
        return True
    if schedule.weekdays >> day.weekday & 1:
        return True
    yearly = schedule.frequency == "yearly" and not schedule.months
    place, length = (day.in_year, day.year_length) if yearly else (day.in_month, day.month_length)
    counted = (place // 7 + 1, -((length - 1 - place) // 7 + 1))
    return any(weekday == day.weekday and nth in counted for nth, weekday in schedule.nth_weekdays)


def week_number_of(schedule: RuleSchedule, day: RuleDate) -> tuple[int, int]:
    """The day's week, and its negative number from the year's last week: (1, -53) to (53, -1).

    Week 1 is the first with at least four days in the year, so a year's first and last days can lie in a week of
    the year before or after.
    """
    first_weekday = (day.weekday - day.in_year) % 7
    until_week = (first_weekday - schedule.week_start) % 7
    weeks, first = _weeks_of(until_week, day.year_length)
    if day.in_year < first:
        length = day.year_before_length
        weeks, first = _weeks_of((until_week - length) % 7, length)
        week = (day.in_year + length - first) // 7
    else:
        week = (day.in_year - first) // 7
        if week >= weeks:
            next_weeks, _ = _weeks_of((until_week + day.year_length) % 7, 366 if _next_is_leap(day) else 365)
            weeks, week = next_weeks, 0
    return week + 1, week - weeks


def _next_is_leap(day: RuleDate) -> bool:
    year = YEAR_MIN + MONTH_OF_DAY[day.number] // 12
    return _is_leap(year + 1)


def _weeks_of(until_week: int, length: int) -> tuple[int, int]:
    """How many weeks a year has, and the day (from 0, perhaps negative) on which its first begins.

    ``until_week`` is how many days its first day lies after the beginning of a week.
    """
    first = -until_week if until_week <= 3 else 7 - until_week
    following = (until_week + length) % 7
    end = length - following if following <= 3 else length + 7 - following
    return (end - first) // 7, first


def week_number_fits(schedule: RuleSchedule, day: RuleDate) -> bool:
    """Whether the day's week is among those named."""
    if not schedule.week_numbers:
        return True
    return any(number in schedule.week_numbers for number in week_number_of(schedule, day))


def _limits(schedule: RuleSchedule) -> list[Callable[[RuleSchedule, RuleDate], bool]]:
    """The parts that restrict dates."""
    parts: list[tuple[object, Callable[[RuleSchedule, RuleDate], bool]]] = [
        (schedule.months, month_fits),
        (schedule.month_days or schedule.month_days_from_last, month_day_fits),
        (schedule.weekdays or schedule.nth_weekdays, weekday_fits),
        (schedule.week_numbers, week_number_fits),
        (schedule.year_days, year_day_fits),
    ]
    return [fits for given, fits in parts if given]


@lru_cache(maxsize=64)
def _year_dates(first: int, length: int) -> tuple[RuleDate, ...]:
    """The days of a year that stands for its kind."""
    return tuple(rule_date(first + day) for day in range(length))


def rule_days(schedule: RuleSchedule) -> int:
    """The dates that every part lets pass and whose period counts; ``positions`` are not applied."""
    days = 0
    kinds: dict[tuple[int, ...], int] = {}
    kind: tuple[int, ...]
    for year in range(YEAR_MIN, YEAR_MAX + 1):
        first = date(year, 1, 1).toordinal() - _EPOCH_ORDINAL
        length = 366 if _is_leap(year) else 365
        kind = (length, weekday_of(first))
        if schedule.week_numbers:
            kind += (_is_leap(year - 1), _is_leap(year + 1))
        mask = kinds.get(kind)
        if mask is None:
            mask = kinds[kind] = _year_mask(schedule, first, length)
        days |= mask << first
    return days & _periods(schedule)


def _year_mask(schedule: RuleSchedule, first: int, length: int) -> int:
    limits = _limits(schedule)
    mask = 0
    for place, day in enumerate(_year_dates(first, length)):
        if all(fits(schedule, day) for fits in limits):
            mask |= 1 << place
    return mask


def _periods(schedule: RuleSchedule) -> int:
    """The days whose period counts: every ``interval``-th from the one that holds the start."""
    interval, every = schedule.interval, (1 << END_DAY) - 1
    if interval == 1:
        return every
    first = start_day(schedule)
    match schedule.frequency:
        case "yearly" | "monthly":
            return days_mask(day for low, high in periods(schedule) for day in range(low, high))
        case "weekly":
            # The week that holds the first day of all begins before it: laid out a week later, and put back.
            low = first - (weekday_of(first) - schedule.week_start) % 7
            return repeated(((1 << 7) - 1) << (low + 7), 7 * interval) >> 7 & every
        case "daily":
            return repeated(1 << first, interval) & every
        case _:
            return every


def repeated(mask: int, period: int) -> int:
    """The mask, and again every ``period`` days up to the last day that is looked at, and a little beyond."""
    width = period
    while width < END_DAY and mask:
        mask |= mask << width
        width *= 2
    return mask


def start_day(schedule: RuleSchedule) -> int:
    """The day of the rule's start, from 1970-01-01."""
    return schedule.start // 86_400_000_000


def periods(schedule: RuleSchedule) -> Iterator[tuple[int, int]]:
    """The days [low, high) of each period that counts, from the one that holds the start to YEAR_MAX."""
    first, interval = start_day(schedule), schedule.interval
    match schedule.frequency:
        case "yearly" | "monthly":
            months = 12 if schedule.frequency == "yearly" else 1
            index = MONTH_OF_DAY[first] // months * months
            starts = [*MONTH_STARTS, END_DAY]
            for place in range(index, len(MONTH_STARTS), interval * months):
                yield starts[place], starts[place + months]
        case "weekly":
            first -= (weekday_of(first) - schedule.week_start) % 7
            for low in range(first, END_DAY, 7 * interval):
                yield low, low + 7
        case _:
            for low in range(first, END_DAY, interval if schedule.frequency == "daily" else 1):
                yield low, low + 1


def day_bytes(mask: int) -> bytes:
    """The mask in a form from which parts are cheap to take."""
    return mask.to_bytes(END_DAY // 8 + 2, "little")


def part_of(content: bytes, low: int, high: int) -> int:
    """The days of a mask (as ``day_bytes``) from ``low`` up to, not including, ``high``: bit 0 is ``low``."""
    part = int.from_bytes(content[low >> 3 : (high >> 3) + 1], "little") >> (low & 7)
    return part & ((1 << (high - low)) - 1)


def month_masks(mask: int) -> list[int]:
    """The mask cut into months from YEAR_MIN: bit 0 of each is the first of the month; equal ones are one object."""
    content = day_bytes(mask)
    same: dict[int, int] = {}
    masks: list[int] = []
    for start, length in zip(MONTH_STARTS, MONTH_LENGTHS, strict=True):
        part = part_of(content, start, start + length)
        masks.append(same.setdefault(part, part))
    return masks


def days_mask(days: Iterable[int]) -> int:
    """The mask of these days."""
    mask = bytearray(END_DAY // 8 + 1)
    for day in days:
        mask[day >> 3] |= 1 << (day & 7)
    return int.from_bytes(mask, "little")
