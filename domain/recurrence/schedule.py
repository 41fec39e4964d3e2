"""Compiled schedules: what books store. Every tag, field and bit position here is a contract for ever.

A schedule holds its source text for people and compiled masks for the engine; the masks are the
authority. It names no zone and no rules: those are declared beside it.
"""

from typing import Literal, TypeAlias

import msgspec


class CronSchedule(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="cron.v1", cache_hash=True
):
    """A cron expression compiled to masks: bit n of a mask stands for the value n.

    ``seconds``, ``minutes`` (0-59), ``hours`` (0-23), ``days`` (1-31), ``months`` (1-12), ``weekdays``
    (0-6 from Sunday). Of the days of a month, ``days`` is joined by ``days_from_last`` (bit n: n days
    before the last), ``nearest_weekdays`` (bit n: the weekday nearest to day n) and
    ``nearest_weekdays_from_last`` (the same, n days before the last). ``weekdays`` is joined by
    ``nth_weekdays`` (bit 7 * (n - 1) + weekday: the n-th of the month) and ``last_weekdays``.
    ``day_rule`` says whether a date must be in both sets or in either. ``years`` lists the only
    years allowed; None allows all. ``interval_like`` chooses the default rules for gaps and folds.
    """

    source: str
    dialect: str
    has_seconds: bool
    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    day_rule: Literal["or", "and"]
    interval_like: bool
    days_from_last: int = 0
    nearest_weekdays: int = 0
    nearest_weekdays_from_last: int = 0
    nth_weekdays: int = 0
    last_weekdays: int = 0
    years: tuple[int, ...] | None = None


class IntervalSchedule(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="interval.v1", cache_hash=True
):
    """Real elapsed time: ``anchor`` + n * ``period`` (microseconds) for every whole n, negative ones too."""

    source: str
    period: int
    anchor: int


class OneOffSchedule(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="one-off.v1", cache_hash=True
):
    """One local date and time: ``local`` is microseconds from 1970-01-01T00:00 on the zone's own clock."""

    source: str
    local: int


RuleFrequency: TypeAlias = Literal["yearly", "monthly", "weekly", "daily", "hourly", "minutely", "secondly"]


class RuleSchedule(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rrule.v1", cache_hash=True
):
    """A recurrence rule (RFC 5545) on the zone's own clock, with everything that DTSTART leaves unsaid filled in.

    ``start`` and ``last`` are the first and the last local time that can be due, in microseconds from
    1970-01-01T00:00 on the zone's clock; ``last`` is None without an end. ``seconds``, ``minutes`` and ``hours`` are
    masks that are never empty. The parts of a date that follow do not restrict it when they are empty: ``months``
    (bits 1-12), ``month_days`` (bits 1-31) or ``month_days_from_last`` (bit n: n days before the last),
    ``year_days`` and ``week_numbers`` (negative ones count from the end of the year), and ``weekdays`` (0-6 from
    Sunday) or ``nth_weekdays`` ((n, weekday); negative n counts from the end; of the month, or of the year when
    ``frequency`` is yearly and ``months`` is empty). ``positions`` choose among the local times of one period. A
    period is ``interval`` times ``frequency`` long, counted from the one that holds ``start``; weeks begin on
    ``week_start``. ``interval_like`` chooses the default rules for gaps and folds.
    """

    source: str
    frequency: RuleFrequency
    interval: int
    start: int
    last: int | None
    seconds: int
    minutes: int
    hours: int
    interval_like: bool
    months: int = 0
    month_days: int = 0
    month_days_from_last: int = 0
    year_days: tuple[int, ...] = ()
    week_numbers: tuple[int, ...] = ()
    weekdays: int = 0
    nth_weekdays: tuple[tuple[int, int], ...] = ()
    positions: tuple[int, ...] = ()
    week_start: int = 1


Schedule: TypeAlias = CronSchedule | IntervalSchedule | OneOffSchedule | RuleSchedule
