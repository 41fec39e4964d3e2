"""The naive local times a compiled cron schedule names, as whole seconds; no zone has a say here.

Every search is bounded by the years YEAR_MIN to YEAR_MAX and takes the same few operations however rare the
schedule is: the months that have a matching day are one mask, so the next of them is found at once.
"""

from collections.abc import Iterator
from functools import lru_cache

from ..limits import YEAR_MIN
from .months import (
    CLASS_COUNT,
    CLASS_MONTHS,
    DAY_S,
    END_DAY,
    LOCAL_END_S,
    LOCAL_FIRST_S,
    MONTH_CLASSES,
    MONTH_COUNT,
    MONTH_LENGTHS,
    MONTH_OF_DAY,
    MONTH_STARTS,
    class_of,
)
from .schedule import CronSchedule

FAR_S = 1 << 60
"""Later than any time that is looked at; its negative is earlier."""

_EVERY_WEEKDAY = (1 << 7) - 1
_EVERY_SEVENTH_DAY = sum(1 << index for index in range(0, 31, 7))
_EACH_ALONE = list(range(MONTH_COUNT))
LOCAL_TIMES_KEPT_MAX = 4_096
"""Distinct cron schedules kept expanded at once, about 4 KiB each."""
_MASKS_KEPT_MAX = 4_096
"""Distinct masks of fields kept as positions, at most half a KiB each."""


def bits_of(mask: int) -> list[int]:
    """The positions of the set bits, ascending."""
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


@lru_cache(maxsize=_MASKS_KEPT_MAX)
def _positions(mask: int) -> tuple[int, ...]:
    return tuple(bits_of(mask))


class LocalTimes:
    """The naive local seconds (from 1970-01-01T00:00) at which every field of a schedule matches."""

    __slots__ = (
        "_classes",
        "_day_masks",
        "_first_in_hour",
        "_first_of_day",
        "_first_second",
        "_hours",
        "_last_minute",
        "_last_of_day",
        "_last_second",
        "_minutes",
        "_months",
        "_per_day",
        "_per_hour",
        "_per_minute",
        "_seconds",
    )

    def __init__(self, schedule: CronSchedule) -> None:
        self._seconds, self._minutes, self._hours = schedule.seconds, schedule.minutes, schedule.hours
        self._first_second, self._last_second = _lowest(self._seconds), self._seconds.bit_length() - 1
        self._last_minute = self._minutes.bit_length() - 1
        self._first_in_hour = _lowest(self._minutes) * 60 + self._first_second
        self._first_of_day = _lowest(self._hours) * 3_600 + self._first_in_hour
        self._last_of_day = (self._hours.bit_length() - 1) * 3_600 + self._last_minute * 60 + self._last_second
        self._per_minute = self._seconds.bit_count()
        self._per_hour = self._minutes.bit_count() * self._per_minute
        self._per_day = self._hours.bit_count() * self._per_hour
        masks = _day_masks(schedule)
        self._classes: list[int] = MONTH_CLASSES
        self._day_masks = masks
        self._months = sum(CLASS_MONTHS[index] for index, mask in enumerate(masks) if mask)
        if schedule.years is not None:
            # Years cannot be told from a class: every month then is a class of its own.
            allowed = frozenset(schedule.years)
            self._day_masks = [
                masks[MONTH_CLASSES[index]] if _year_of(index) in allowed else 0 for index in range(MONTH_COUNT)
            ]
            self._classes = _EACH_ALONE
            self._months = sum(1 << index for index, mask in enumerate(self._day_masks) if mask)

    def first_from(self, local_s: int) -> int:
        """The first matching second that is not before ``local_s``; FAR_S when there is none."""
        if not LOCAL_FIRST_S <= local_s < LOCAL_END_S:
            if local_s >= LOCAL_END_S:
                return FAR_S
            local_s = LOCAL_FIRST_S
        day = local_s // DAY_S
        month = MONTH_OF_DAY[day]
        rest = self._day_masks[self._classes[month]] >> (day - MONTH_STARTS[month])
        if rest & 1:
            time_s = local_s - day * DAY_S
            hour = time_s // 3_600
            hours = self._hours >> hour
            if hours & 1:
                time_s -= hour * 3_600
                minute = time_s // 60
                minutes = self._minutes >> minute
                if minutes & 1:
                    seconds = self._seconds >> (time_s - minute * 60)
                    if seconds:
                        return local_s + (seconds & -seconds).bit_length() - 1
                minutes >>= 1
                if minutes:
                    ahead = minute + (minutes & -minutes).bit_length()
                    return day * DAY_S + hour * 3_600 + ahead * 60 + self._first_second
            hours >>= 1
            if hours:
                return day * DAY_S + (hour + (hours & -hours).bit_length()) * 3_600 + self._first_in_hour
        rest >>= 1
        if rest:
            return (day + (rest & -rest).bit_length()) * DAY_S + self._first_of_day
        later = self._months >> (month + 1)
        if not later:
            return FAR_S
        month += (later & -later).bit_length()
        mask = self._day_masks[self._classes[month]]
        return (MONTH_STARTS[month] + (mask & -mask).bit_length() - 1) * DAY_S + self._first_of_day

    def last_until(self, local_s: int) -> int:
        """The last matching second that is not after ``local_s``; -FAR_S when there is none."""
        if local_s >= LOCAL_END_S:
            local_s = LOCAL_END_S - 1
        elif local_s < LOCAL_FIRST_S:
            return -FAR_S
        day, time_s = divmod(local_s, DAY_S)
        month = MONTH_OF_DAY[day]
        bit = day - MONTH_STARTS[month]
        mask = self._day_masks[self._classes[month]]
        if mask >> bit & 1:
            found = self._last_in_day(time_s)
            if found >= 0:
                return local_s - time_s + found
        mask &= (1 << bit) - 1
        if not mask:
            month = (self._months & ((1 << month) - 1)).bit_length() - 1
            if month < 0:
                return -FAR_S
            mask = self._day_masks[self._classes[month]]
        return (MONTH_STARTS[month] + mask.bit_length() - 1) * DAY_S + self._last_of_day

    def matches(self, local_s: int) -> bool:
        """Whether this very second matches."""
        return self.first_from(local_s) == local_s

    def count(self, from_s: int, to_s: int) -> int:
        """How many seconds of [from_s, to_s) match, without enumerating them."""
        from_s, to_s = max(from_s, LOCAL_FIRST_S), min(to_s, LOCAL_END_S)
        if from_s >= to_s:
            return 0
        from_day, from_time_s = divmod(from_s, DAY_S)
        to_day, to_time_s = divmod(to_s, DAY_S)
        total = self._days(from_day, to_day) * self._per_day
        if from_time_s:
            total -= self._days(from_day, from_day + 1) * self._in_day_before(from_time_s)
        if to_time_s:
            total += self._days(to_day, to_day + 1) * self._in_day_before(to_time_s)
        return total

    def times(self, from_s: int, to_s: int) -> Iterator[int]:
        """The matching seconds of [from_s, to_s), ascending; nothing is made before it is taken."""
        hours, minutes, seconds = _positions(self._hours), _positions(self._minutes), _positions(self._seconds)
        found = self.first_from(from_s)
        while found < to_s:
            midnight = found - found % DAY_S
            for hour in hours:
                hour_s = midnight + hour * 3_600
                if hour_s + 3_599 < found:
                    continue
                if hour_s >= to_s:
                    return
                for minute in minutes:
                    minute_s = hour_s + minute * 60
                    if minute_s + 59 < found:
                        continue
                    for second in seconds:
                        at_s = minute_s + second
                        if at_s >= to_s:
                            return
                        if at_s >= found:
                            yield at_s
            found = self.first_from(midnight + DAY_S)

    def pattern(self, from_s: int, to_s: int) -> int:
        """The matching seconds of [from_s, to_s) as a mask: bit n stands for from_s + n. For hours, not for years."""
        hour_mask = 0
        for minute in _positions(self._minutes):
            hour_mask |= self._seconds << minute * 60
        # An hour's mask is 450 bytes, which are quicker to put side by side than numbers are.
        full, empty = hour_mask.to_bytes(450, "little"), bytes(450)
        first_s = from_s - from_s % 3_600
        hours = [full if self._hour_matches(hour_s) else empty for hour_s in range(first_s, to_s, 3_600)]
        return int.from_bytes(b"".join(hours), "little") >> (from_s - first_s) & ((1 << (to_s - from_s)) - 1)

    def _hour_matches(self, hour_s: int) -> bool:
        if not LOCAL_FIRST_S <= hour_s < LOCAL_END_S or not self._hours >> hour_s % DAY_S // 3_600 & 1:
            return False
        day = hour_s // DAY_S
        month = MONTH_OF_DAY[day]
        return bool(self._day_masks[self._classes[month]] >> (day - MONTH_STARTS[month]) & 1)

    def _last_in_day(self, time_s: int) -> int:
        hour, rest = divmod(time_s, 3_600)
        if self._hours >> hour & 1:
            minute, second = divmod(rest, 60)
            if self._minutes >> minute & 1:
                left = self._seconds & ((2 << second) - 1)
                if left:
                    return time_s - second + left.bit_length() - 1
            left = self._minutes & ((1 << minute) - 1)
            if left:
                return hour * 3_600 + (left.bit_length() - 1) * 60 + self._last_second
        left = self._hours & ((1 << hour) - 1)
        if left:
            return (left.bit_length() - 1) * 3_600 + self._last_minute * 60 + self._last_second
        return -1

    def _in_day_before(self, time_s: int) -> int:
        hour, rest = divmod(time_s, 3_600)
        minute, second = divmod(rest, 60)
        total = (self._hours & ((1 << hour) - 1)).bit_count() * self._per_hour
        if self._hours >> hour & 1:
            total += (self._minutes & ((1 << minute) - 1)).bit_count() * self._per_minute
            if self._minutes >> minute & 1:
                total += (self._seconds & ((1 << second) - 1)).bit_count()
        return total

    def _days(self, from_day: int, to_day: int) -> int:
        """How many days of [from_day, to_day) match."""
        to_day = min(to_day, END_DAY)
        total = 0
        month = MONTH_OF_DAY[from_day] if from_day < to_day else MONTH_COUNT
        while month < MONTH_COUNT and MONTH_STARTS[month] < to_day:
            start, mask = MONTH_STARTS[month], self._day_masks[self._classes[month]]
            if mask:
                if from_day > start:
                    mask = mask >> (from_day - start) << (from_day - start)
                if to_day < start + MONTH_LENGTHS[month]:
                    mask &= (1 << (to_day - start)) - 1
                total += mask.bit_count()
            month += 1
        return total


@lru_cache(maxsize=LOCAL_TIMES_KEPT_MAX)
def local_times_of(schedule: CronSchedule) -> LocalTimes:
    """The schedule's local times; the same object for equal schedules."""
    return LocalTimes(schedule)


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _year_of(month_index: int) -> int:
    return YEAR_MIN + month_index // 12


def _day_masks(schedule: CronSchedule) -> list[int]:
    """For each class of month, the matching days: bit 0 is the first."""
    masks = [0] * CLASS_COUNT
    months = bits_of(schedule.months)
    for length in (28, 29, 30, 31):
        for first_weekday in range(7):
            mask = _days_in_month(schedule, length, first_weekday)
            for month in months:
                masks[class_of(month, length, first_weekday)] = mask
    return masks


def _days_in_month(schedule: CronSchedule, length: int, first_weekday: int) -> int:
    by_date = _by_date(schedule, length, first_weekday)
    by_weekday = _by_weekday(schedule, length, first_weekday)
    return by_date | by_weekday if schedule.day_rule == "or" else by_date & by_weekday


def _by_date(schedule: CronSchedule, length: int, first_weekday: int) -> int:
    mask = schedule.days >> 1 & ((1 << length) - 1)
    for before_last in bits_of(schedule.days_from_last):
        if before_last < length:
            mask |= 1 << (length - 1 - before_last)
    nearest = [day - 1 for day in bits_of(schedule.nearest_weekdays)]
    nearest += [length - 1 - before_last for before_last in bits_of(schedule.nearest_weekdays_from_last)]
    for index in nearest:
        if 0 <= index < length:
            mask |= 1 << _nearest_weekday(index, length, first_weekday)
    return mask


def _nearest_weekday(index: int, length: int, first_weekday: int) -> int:
    """The Monday to Friday nearest to a day, within its month (all 0-based)."""
    weekday = (first_weekday + index) % 7
    if weekday == 6:
        return index - 1 if index > 0 else index + 2
    if weekday == 0:
        return index + 1 if index + 1 < length else index - 2
    return index


def _by_weekday(schedule: CronSchedule, length: int, first_weekday: int) -> int:
    inside = (1 << length) - 1
    if schedule.weekdays == _EVERY_WEEKDAY:
        return inside
    mask = 0
    for weekday in bits_of(schedule.weekdays):
        mask |= _EVERY_SEVENTH_DAY << (weekday - first_weekday) % 7
    for bit in bits_of(schedule.nth_weekdays):
        mask |= 1 << ((bit - first_weekday) % 7 + bit // 7 * 7)
    for weekday in bits_of(schedule.last_weekdays):
        index = (weekday - first_weekday) % 7
        mask |= 1 << (index + (length - 1 - index) // 7 * 7)
    return mask & inside
