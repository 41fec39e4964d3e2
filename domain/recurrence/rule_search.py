"""The naive local times of a recurrence rule, searched in the same way as those of a cron schedule.

Nearly every rule is a set of dates times a set of times of day (RuleTimes). What is not - an interval of hours,
minutes or seconds that does not divide the day, or positions among several times of day - has its own times on each
day (UnevenTimes). Both are laid out once, within the years YEAR_MIN to YEAR_MAX, and searched without a zone.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from math import gcd

from .local_times import FAR_S, LocalTimes, bits_of
from .months import DAY_S, END_DAY, LOCAL_END_S, MONTH_COUNT, MONTH_OF_DAY, MONTH_STARTS
from .rule_days import day_bytes, days_mask, month_masks, part_of, periods, repeated, rule_days
from .schedule import CronSchedule, RuleSchedule

RULES_KEPT_MAX = 512
"""Distinct rules kept laid out at once: about 30 KiB each, an uneven one up to half a MiB more."""
PATTERNS_KEPT_MAX = 1_024
"""Different days' times that an uneven rule keeps at once; more are worked out again."""
_UNIT_S = {"hourly": 3_600, "minutely": 60, "secondly": 1}
_EVERY_MONTH = list(range(MONTH_COUNT))
_MIDNIGHT = (1, 1, 1)
_FEW_DAYS_S = 366 * DAY_S


class RuleTimes(LocalTimes):
    """The local times of every date in a mask (days from 1970-01-01) at every time of day in three masks.

    Only those from ``start_s`` up to and including ``last_s`` count (local seconds).
    """

    __slots__ = ("_last_s", "_start_s")

    def __init__(self, days: int, clock: tuple[int, int, int], start_s: int, last_s: int) -> None:
        seconds, minutes, hours = clock
        super().__init__(_of_the_clock(seconds, minutes, hours))
        self._start_s, self._last_s = start_s, last_s
        self._classes = _EVERY_MONTH
        self._day_masks = month_masks(days)
        self._months = sum(1 << index for index, mask in enumerate(self._day_masks) if mask)

    @property
    def day_masks(self) -> list[int]:
        """For each month from YEAR_MIN, its days in the mask: bit 0 is the first."""
        return self._day_masks

    def first_from(self, local_s: int) -> int:
        """As in LocalTimes."""
        found = super().first_from(max(local_s, self._start_s))
        return found if found <= self._last_s else FAR_S

    def last_until(self, local_s: int) -> int:
        """As in LocalTimes."""
        found = super().last_until(min(local_s, self._last_s))
        return found if found >= self._start_s else -FAR_S

    def count(self, from_s: int, to_s: int) -> int:
        """As in LocalTimes."""
        return super().count(max(from_s, self._start_s), min(to_s, self._last_s + 1))

    def times(self, from_s: int, to_s: int) -> Iterator[int]:
        """As in LocalTimes."""
        return super().times(max(from_s, self._start_s), min(to_s, self._last_s + 1))

    def pattern(self, from_s: int, to_s: int) -> int:
        """As in LocalTimes."""
        return _clipped(super().pattern(from_s, to_s), from_s, self._start_s, self._last_s)


class UnevenTimes(LocalTimes):
    """The local times of dates that each have their own times of day.

    ``times_of`` gives the times of a day (days from 1970-01-01) as ascending seconds; never none for a day of
    ``days``. ``count_of`` says how many they are, where that is known without making them. Only times from
    ``start_s`` up to and including ``last_s`` count (local seconds).
    """

    __slots__ = ("_before", "_count_of", "_dates", "_day_times", "_last_s", "_start_s")

    def __init__(
        self,
        days: int,
        times_of: Callable[[int], Sequence[int]],
        start_s: int,
        last_s: int,
        count_of: Callable[[int], int] | None = None,
    ) -> None:
        super().__init__(_of_the_clock(*_MIDNIGHT))
        self._dates = RuleTimes(days, _MIDNIGHT, 0, LOCAL_END_S)
        self._day_masks = self._dates.day_masks
        self._day_times = times_of
        self._count_of = self._listed if count_of is None else count_of
        self._start_s, self._last_s = start_s, last_s
        self._before: array[int] | None = None

    def first_from(self, local_s: int) -> int:
        """As in LocalTimes."""
        local_s = max(local_s, self._start_s, 0)
        day_s = self._dates.first_from(local_s - local_s % DAY_S)
        found = FAR_S
        if day_s <= local_s < LOCAL_END_S:
            times = self._day_times(day_s // DAY_S)
            place = bisect_left(times, local_s - day_s)
            if place < len(times):
                found = day_s + times[place]
            else:
                day_s = self._dates.first_from(day_s + DAY_S)
        if found == FAR_S and day_s < FAR_S:
            found = day_s + self._day_times(day_s // DAY_S)[0]
        return found if found <= self._last_s else FAR_S

    def last_until(self, local_s: int) -> int:
        """As in LocalTimes."""
        local_s = min(local_s, self._last_s)
        day_s = self._dates.last_until(local_s)
        found = -FAR_S
        if day_s >= 0:
            times = self._day_times(day_s // DAY_S)
            place = bisect_right(times, local_s - day_s) - 1
            if place >= 0:
                found = day_s + times[place]
            else:
                day_s = self._dates.last_until(day_s - 1)
                found = day_s + self._day_times(day_s // DAY_S)[-1] if day_s >= 0 else -FAR_S
        return found if found >= self._start_s else -FAR_S

    def count(self, from_s: int, to_s: int) -> int:
        """As in LocalTimes; the first call for more than a year adds the days of all years up."""
        from_s, to_s = max(from_s, self._start_s, 0), min(to_s, self._last_s + 1, LOCAL_END_S)
        if to_s - from_s <= _FEW_DAYS_S:
            return self._count_few(from_s, to_s)
        return self._count_before(to_s) - self._count_before(from_s)

    def times(self, from_s: int, to_s: int) -> Iterator[int]:
        """As in LocalTimes."""
        found = self.first_from(from_s)
        to_s = min(to_s, self._last_s + 1)
        while found < to_s:
            day_s = found - found % DAY_S
            for time_s in self._day_times(day_s // DAY_S):
                if day_s + time_s >= to_s:
                    return
                if day_s + time_s >= found:
                    yield day_s + time_s
            found = self.first_from(day_s + DAY_S)

    def pattern(self, from_s: int, to_s: int) -> int:
        """As in LocalTimes."""
        mask = bytearray((to_s - from_s) // 8 + 1)
        for at_s in self.times(from_s, to_s):
            place = at_s - from_s
            mask[place >> 3] |= 1 << (place & 7)
        return int.from_bytes(mask, "little")

    def _listed(self, day: int) -> int:
        return len(self._day_times(day))

    def _count_before(self, local_s: int) -> int:
        if self._before is None:
            self._before = array("q", accumulate(map(self._count_of_month, _EVERY_MONTH), initial=0))
        month = MONTH_COUNT - 1 if local_s >= LOCAL_END_S else MONTH_OF_DAY[local_s // DAY_S]
        return self._before[month] + self._count_few(MONTH_STARTS[month] * DAY_S, local_s)

    def _count_of_month(self, month: int) -> int:
        start = MONTH_STARTS[month]
        return sum(self._count_of(start + bit) for bit in bits_of(self._day_masks[month]))

    def _count_few(self, from_s: int, to_s: int) -> int:
        """As ``count``, day by day."""
        total = 0
        day_s = self._dates.first_from(from_s - from_s % DAY_S)
        while day_s < to_s:
            if from_s <= day_s and day_s + DAY_S <= to_s:
                total += self._count_of(day_s // DAY_S)
            else:
                times = self._day_times(day_s // DAY_S)
                total += bisect_left(times, to_s - day_s) - bisect_left(times, from_s - day_s)
            day_s = self._dates.first_from(day_s + DAY_S)
        return total


@lru_cache(maxsize=RULES_KEPT_MAX)
def rule_times_of(schedule: RuleSchedule) -> LocalTimes:
    """The rule's local times; the same object for equal rules."""
    days = rule_days(schedule)
    clock = (schedule.seconds, schedule.minutes, schedule.hours)
    # A start within a second begins with the next one; ends are whole seconds in the text.
    start_s = -(-schedule.start // 1_000_000)
    last_s = LOCAL_END_S if schedule.last is None else schedule.last // 1_000_000
    unit_s = _UNIT_S.get(schedule.frequency)
    if unit_s is not None and schedule.interval > 1:
        even = _evenly(schedule, unit_s)
        if even is not None and not all(even):
            days, even = 0, _MIDNIGHT
        return (
            _stepping(schedule, days, unit_s, (start_s, last_s))
            if even is None
            else RuleTimes(days, even, start_s, last_s)
        )
    if not schedule.positions:
        return RuleTimes(days, clock, start_s, last_s)
    times = _times_of_day(clock)
    if schedule.frequency == "daily":
        same = tuple(times[place] for place in sorted(_places(schedule.positions, len(times))))
        return UnevenTimes(days if same else 0, lambda _: same, start_s, last_s)
    chosen = _chosen_times(schedule, days, times)
    if len(times) == 1:
        return RuleTimes(days_mask(chosen), clock, start_s, last_s)
    return UnevenTimes(days_mask(chosen), chosen.__getitem__, start_s, last_s)


def _evenly(schedule: RuleSchedule, unit_s: int) -> tuple[int, int, int] | None:
    """The masks of the clock when the interval divides its field, so that every hour or day is the same."""
    size = 24 if unit_s == 3_600 else 60
    if size % schedule.interval:
        return None
    phase = schedule.start // 1_000_000 // unit_s % schedule.interval
    step = sum(1 << value for value in range(phase, size, schedule.interval))
    seconds, minutes, hours = schedule.seconds, schedule.minutes, schedule.hours
    match schedule.frequency:
        case "hourly":
            return seconds, minutes, hours & step
        case "minutely":
            return seconds, minutes & step, hours
        case _:
            return seconds & step, minutes, hours


def _stepping(schedule: RuleSchedule, days: int, unit_s: int, bounds: tuple[int, int]) -> LocalTimes:
    """Every n-th hour, minute or second from the start, whatever the day."""
    times_of = _SteppingDay(schedule, unit_s)
    period = times_of.repeats_after
    base = 0
    for day in range(min(period, END_DAY)):
        if times_of.has_any(day):
            base |= 1 << day
    return UnevenTimes(days & repeated(base, period), times_of, *bounds, count_of=times_of.count)


class _SteppingDay:
    """The times of a day, when every ``interval``-th unit counts from the start: they repeat after so many days."""

    def __init__(self, schedule: RuleSchedule, unit_s: int) -> None:
        self._interval, self._unit_s = schedule.interval, unit_s
        self._per_day = DAY_S // unit_s
        self._phase = schedule.start // 1_000_000 // unit_s % schedule.interval
        self._clock = schedule
        self._inner = _inner_times(schedule, unit_s)
        whole = (schedule.hours + 1, schedule.minutes + 1, schedule.seconds + 1)
        units = {3_600: whole[:1], 60: whole[:2], 1: whole}[unit_s]
        self._is_free = units == (1 << 24, 1 << 60, 1 << 60)[: len(units)]
        self._kept: dict[int, array[int]] = {}
        shift = self._per_day % self._interval
        self.repeats_after = 1 if shift == 0 else self._interval // gcd(self._interval, shift)

    def has_any(self, day: int) -> bool:
        """Whether the day has a time; without working all of them out."""
        return next(self._times(self._first(day)), None) is not None

    def count(self, day: int) -> int:
        """How many times the day has; not worked out one by one where no field restricts the units."""
        if not self._is_free:
            return len(self(day))
        return len(range(self._first(day), self._per_day, self._interval)) * len(self._inner)

    def _first(self, day: int) -> int:
        return (self._phase - day * self._per_day) % self._interval

    def __call__(self, day: int) -> Sequence[int]:
        first = self._first(day)
        known = self._kept.get(first)
        if known is None:
            if len(self._kept) >= PATTERNS_KEPT_MAX:
                self._kept.clear()
            known = self._kept[first] = array("i", self._times(first))
        return known

    def _times(self, first: int) -> Iterator[int]:
        clock, unit_s = self._clock, self._unit_s
        for place in range(first, self._per_day, self._interval):
            time_s = place * unit_s
            if not clock.hours >> time_s // 3_600 & 1:
                continue
            if unit_s < 3_600 and not clock.minutes >> time_s // 60 % 60 & 1:
                continue
            if unit_s == 1 and not clock.seconds >> time_s % 60 & 1:
                continue
            for inner in self._inner:
                yield time_s + inner


def _inner_times(schedule: RuleSchedule, unit_s: int) -> list[int]:
    """What the smaller fields add to a unit."""
    seconds = bits_of(schedule.seconds)
    if unit_s == 3_600:
        return [minute * 60 + second for minute in bits_of(schedule.minutes) for second in seconds]
    return seconds if unit_s == 60 else [0]


def _times_of_day(clock: tuple[int, int, int]) -> list[int]:
    seconds, minutes, hours = (bits_of(mask) for mask in clock)
    return [hour * 3_600 + minute * 60 + second for hour in hours for minute in minutes for second in seconds]


def _chosen_times(schedule: RuleSchedule, days: int, times: list[int]) -> dict[int, tuple[int, ...]]:
    """For each date, the times of day that are at the rule's positions within their period."""
    chosen: dict[int, tuple[int, ...]] = {}
    content = day_bytes(days)
    # Few periods differ in which of their days match, so each kind is chosen from once.
    kinds: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    for start, high in periods(schedule):
        low = max(start, 0)
        bits = part_of(content, low, high)
        picked = kinds.get(bits)
        if picked is None:
            picked = kinds[bits] = _picked(schedule.positions, bits_of(bits), times)
        for offset, several in picked:
            chosen[low + offset] = several
    return chosen


def _picked(positions: tuple[int, ...], days: list[int], times: list[int]) -> list[tuple[int, tuple[int, ...]]]:
    """The days of a period that have times at the positions, each with those."""
    picked: dict[int, list[int]] = {}
    for place in sorted(_places(positions, len(days) * len(times))):
        picked.setdefault(days[place // len(times)], []).append(times[place % len(times)])
    return [(day, tuple(several)) for day, several in picked.items()]


def _places(positions: tuple[int, ...], count: int) -> set[int]:
    places = {position - 1 if position > 0 else count + position for position in positions}
    return {place for place in places if 0 <= place < count}


def _clipped(pattern: int, from_s: int, start_s: int, last_s: int) -> int:
    if start_s > from_s:
        pattern = pattern >> (start_s - from_s) << (start_s - from_s)
    # The end can be centuries away: a mask as long as that would be built for nothing.
    return pattern & ((1 << max(last_s + 1 - from_s, 0)) - 1) if last_s < from_s + pattern.bit_length() else pattern


def _of_the_clock(seconds: int, minutes: int, hours: int) -> CronSchedule:
    """A schedule with these times of day; what it says of dates is not used."""
    return CronSchedule(
        source="",
        dialect="",
        has_seconds=True,
        seconds=seconds,
        minutes=minutes,
        hours=hours,
        days=0,
        months=0,
        weekdays=0,
        day_rule="and",
        interval_like=False,
    )
