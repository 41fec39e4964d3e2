"""The Gregorian months from YEAR_MIN to YEAR_MAX as tables.

Which days of a month a schedule names depends only on the month's number, its length and the weekday
of its first day: a *class*, one of 12 * 28. So a schedule needs one day mask per class.
"""

from array import array
from datetime import date

from ..limits import YEAR_MAX, YEAR_MIN

DAY_S = 86_400
CLASS_COUNT = 12 * 28
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


def weekday_of(day: int) -> int:
    """The weekday, from Sunday = 0, of a day counted from 1970-01-01 (a Thursday)."""
    return (day + 4) % 7


def class_of(month: int, length: int, first_weekday: int) -> int:
    """The class of a month (1-12) with ``length`` days whose first day is ``first_weekday``."""
    return (month - 1) * 28 + (length - 28) * 7 + first_weekday


def _day_number(year: int, month: int) -> int:
    return date(year, month, 1).toordinal() - _EPOCH_ORDINAL


MONTH_STARTS = [_day_number(year, month) for year in range(YEAR_MIN, YEAR_MAX + 1) for month in range(1, 13)]
"""First day of each month, in days from 1970-01-01."""
END_DAY = _day_number(YEAR_MAX + 1, 1)
"""The day after the last one."""
MONTH_COUNT = len(MONTH_STARTS)
MONTH_LENGTHS = [after - start for start, after in zip(MONTH_STARTS, [*MONTH_STARTS[1:], END_DAY], strict=True)]
MONTH_CLASSES = [
    class_of(index % 12 + 1, length, weekday_of(start))
    for index, (start, length) in enumerate(zip(MONTH_STARTS, MONTH_LENGTHS, strict=True))
]
LOCAL_FIRST_S = MONTH_STARTS[0] * DAY_S
LOCAL_END_S = END_DAY * DAY_S
"""Naive local seconds that are looked at: [LOCAL_FIRST_S, LOCAL_END_S)."""


def _months_by_day() -> "array[int]":
    assert MONTH_STARTS[0] == 0, "days are counted from the first month's first day"
    months = array("H")
    for index, length in enumerate(MONTH_LENGTHS):
        months.extend([index] * length)
    return months


MONTH_OF_DAY = _months_by_day()
"""For each day from 1970-01-01, its month's place in MONTH_STARTS."""


def _months_by_class() -> list[int]:
    months = [0] * CLASS_COUNT
    for index, one in enumerate(MONTH_CLASSES):
        months[one] |= 1 << index
    return months


CLASS_MONTHS = _months_by_class()
"""For each class, the months that belong to it: bit n stands for the n-th month from YEAR_MIN."""
