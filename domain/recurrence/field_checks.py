"""A schedule's fields against one local time, in words: what the time is, what is allowed, whether it fits.

The words are for people; the engine is asked for every verdict on a day, so that they cannot drift apart.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from msgspec.structs import replace

from ..instants import SECOND, format_duration, format_instant
from .local_times import LocalTimes, bits_of
from .months import DAY_S, weekday_of
from .rule_days import month_day_fits, month_fits, rule_date, week_number_of, weekday_fits, year_day_fits
from .schedule import CronSchedule, IntervalSchedule, OneOffSchedule, RuleSchedule

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
ANY = "any"
_RUN_MIN = 3
"""From so many consecutive values on, they are written as a range."""
_DAYS_KEPT_MAX = 256
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_ALL_DAYS, _ALL_MONTHS, _ALL_WEEKDAYS = (1 << 32) - 2, (1 << 13) - 2, (1 << 7) - 1


@dataclass(frozen=True, slots=True)
class FieldCheck:
    """One field: its name, its value at the instant, the values that are allowed in words, whether it is one."""

    name: str
    value: str
    allowed: str
    ok: bool


@dataclass(frozen=True, slots=True)
class LocalMoment:
    """A local time taken apart: whole seconds since 1970-01-01T00:00 on the zone's clock, and microseconds."""

    second: int
    fraction: int

    @property
    def day(self) -> int:
        """The date as days since 1970-01-01."""
        return self.second // DAY_S

    @property
    def date(self) -> date:
        """The date."""
        return date.fromordinal(_EPOCH_ORDINAL + self.day)

    @property
    def weekday(self) -> int:
        """The day of the week, from Sunday = 0."""
        return weekday_of(self.day)

    @property
    def clock(self) -> tuple[int, int, int]:
        """Hour, minute and second."""
        minutes, second = divmod(self.second % DAY_S, 60)
        return minutes // 60, minutes % 60, second


def cron_checks(schedule: CronSchedule, moment: LocalMoment) -> tuple[FieldCheck, ...]:
    """The fields of a cron expression, the smallest first."""
    day = moment.date
    by_date, by_weekday = (_names_day(only, moment.day * DAY_S) for only in _day_fields(schedule))
    in_month = schedule.months >> day.month & 1 == 1
    checks = [
        *_clock_checks(moment, schedule.seconds, schedule.minutes, schedule.hours),
        FieldCheck("day of month", str(day.day), _dates_in_words(schedule), by_date),
        FieldCheck("month", MONTHS[day.month - 1], _months_in_words(schedule.months), in_month),
        FieldCheck("day of week", WEEKDAYS[moment.weekday], _weekdays_in_words(schedule), by_weekday),
    ]
    if schedule.years is not None:
        checks.append(FieldCheck("year", str(day.year), in_words(schedule.years), day.year in schedule.years))
    return tuple(checks)


def day_rule_text(schedule: CronSchedule) -> str | None:
    """How the two fields of days are joined, when both restrict the day."""
    if _dates_in_words(schedule) == ANY or _weekdays_in_words(schedule) == ANY:
        return None
    if schedule.day_rule == "or":
        return "the day of month or the day of week must match, since both are restricted"
    return "the day of month and the day of week must both match, since one of them begins with *"


def rule_checks(schedule: RuleSchedule, moment: LocalMoment) -> tuple[FieldCheck, ...]:
    """The parts of a recurrence rule that restrict, and its bounds; not its interval and positions."""
    local = moment.second * SECOND + moment.fraction
    started = local >= schedule.start
    checks = [FieldCheck("start", local_words(local), f"{local_words(schedule.start)} or later", started)]
    if schedule.last is not None:
        ended = local > schedule.last
        checks.append(FieldCheck("end", local_words(local), f"{local_words(schedule.last)} or earlier", not ended))
    checks += _clock_checks(moment, schedule.seconds, schedule.minutes, schedule.hours)
    return (*checks, *_rule_day_checks(schedule, moment))


def _rule_day_checks(schedule: RuleSchedule, moment: LocalMoment) -> Iterator[FieldCheck]:
    day, seen = moment.date, rule_date(moment.day)
    if schedule.month_days or schedule.month_days_from_last:
        words = _joined([*_listed(schedule.month_days), *_from_last(schedule.month_days_from_last)])
        yield FieldCheck("day of month", str(day.day), words, month_day_fits(schedule, seen))
    if schedule.months:
        words = _months_in_words(schedule.months)
        yield FieldCheck("month", MONTHS[day.month - 1], words, month_fits(schedule, seen))
    if schedule.weekdays or schedule.nth_weekdays:
        nth = [f"{WEEKDAYS[weekday]} number {n}" for n, weekday in schedule.nth_weekdays]
        words = _joined([*(WEEKDAYS[each] for each in bits_of(schedule.weekdays)), *nth])
        yield FieldCheck("day of week", WEEKDAYS[moment.weekday], words, weekday_fits(schedule, seen))
    if schedule.year_days:
        words = in_words(schedule.year_days)
        yield FieldCheck("day of year", str(day.timetuple().tm_yday), words, year_day_fits(schedule, seen))
    if schedule.week_numbers:
        weeks = week_number_of(schedule, seen)
        fits = any(week in schedule.week_numbers for week in weeks)
        yield FieldCheck("week", str(weeks[0]), in_words(schedule.week_numbers), fits)


def interval_checks(schedule: IntervalSchedule, instant: int) -> tuple[FieldCheck, ...]:
    """How many whole periods lie between the anchor and the instant, and what is left over."""
    periods, rest = divmod(instant - schedule.anchor, schedule.period)
    period = format_duration(schedule.period)
    return (
        FieldCheck("anchor", format_instant(schedule.anchor), "the grid goes through it both ways", True),
        FieldCheck("whole periods", str(periods), f"any number of {period}", True),
        FieldCheck("remainder", format_duration(rest), "0s", rest == 0),
    )


def one_off_checks(schedule: OneOffSchedule, moment: LocalMoment) -> tuple[FieldCheck, ...]:
    """The one local time."""
    local = moment.second * SECOND + moment.fraction
    return (FieldCheck("local time", local_words(local), local_words(schedule.local), local == schedule.local),)


def local_words(local: int) -> str:
    """A local time (microseconds) as ``2026-12-24 18:00:00``."""
    return format_instant(local).removesuffix("Z").replace("T", " ")


def in_words(values: Iterable[int], names: Sequence[str] | None = None) -> str:
    """Ascending values as ``0, 15 and 30 to 45``; ``names`` stand for the values from 0."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    shown: list[str] = []
    for run in runs:
        texts = [str(value) if names is None else names[value] for value in run]
        shown += [f"{texts[0]} to {texts[-1]}"] if len(run) >= _RUN_MIN else texts
    return _joined(shown)


def _clock_checks(moment: LocalMoment, seconds: int, minutes: int, hours: int) -> list[FieldCheck]:
    hour, minute, second = moment.clock
    checks = [
        FieldCheck("second", str(second), _mask_in_words(seconds, 60), seconds >> second & 1 == 1),
        FieldCheck("minute", str(minute), _mask_in_words(minutes, 60), minutes >> minute & 1 == 1),
        FieldCheck("hour", str(hour), _mask_in_words(hours, 24), hours >> hour & 1 == 1),
    ]
    if moment.fraction:
        checks.insert(0, FieldCheck("fraction of a second", format_duration(moment.fraction), "none", False))
    return checks


def _mask_in_words(mask: int, size: int) -> str:
    return ANY if mask == (1 << size) - 1 else in_words(bits_of(mask))


def _months_in_words(mask: int) -> str:
    return ANY if mask == _ALL_MONTHS else in_words((month - 1 for month in bits_of(mask)), MONTHS)


def _dates_in_words(schedule: CronSchedule) -> str:
    if schedule.days == _ALL_DAYS:
        return ANY
    near = [f"the weekday nearest to {day}" for day in bits_of(schedule.nearest_weekdays)]
    near_last = [f"the weekday nearest to {text}" for text in _from_last(schedule.nearest_weekdays_from_last)]
    return _joined([*_listed(schedule.days), *_from_last(schedule.days_from_last), *near, *near_last])


def _weekdays_in_words(schedule: CronSchedule) -> str:
    if schedule.weekdays == _ALL_WEEKDAYS:
        return ANY
    plain = in_words(bits_of(schedule.weekdays), WEEKDAYS)
    nth = [f"{WEEKDAYS[bit % 7]} number {bit // 7 + 1} of the month" for bit in bits_of(schedule.nth_weekdays)]
    last = [f"the last {WEEKDAYS[weekday]}" for weekday in bits_of(schedule.last_weekdays)]
    return _joined([*([plain] if plain else []), *nth, *last])


def _listed(mask: int) -> list[str]:
    return [in_words(bits_of(mask))] if mask else []


def _from_last(mask: int) -> list[str]:
    return ["the last day" if n == 0 else f"{n} before the last day" for n in bits_of(mask)]


def _joined(texts: Sequence[str]) -> str:
    return ", ".join(texts)


@lru_cache(maxsize=_DAYS_KEPT_MAX)
def _day_fields(schedule: CronSchedule) -> tuple[LocalTimes, LocalTimes]:
    """Midnight of every day that the day of month allows, and of every day that the day of week does."""
    anywhen = replace(schedule, seconds=1, minutes=1, hours=1, months=_ALL_MONTHS, years=None, day_rule="and")
    by_date = replace(anywhen, weekdays=_ALL_WEEKDAYS, nth_weekdays=0, last_weekdays=0)
    by_weekday = replace(anywhen, days=_ALL_DAYS, days_from_last=0, nearest_weekdays=0, nearest_weekdays_from_last=0)
    return LocalTimes(by_date), LocalTimes(by_weekday)


def _names_day(times: LocalTimes, day_s: int) -> bool:
    return times.first_from(day_s) == day_s
