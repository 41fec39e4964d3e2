"""The engine against a walk over every minute around every change of offset, in all zones and under all rules.

The walk knows nothing of the engine: offsets are zoneinfo's over the same bytes, minute after minute; expressions are
sets of numbers drawn here, their text only written from them; the rules are applied to whole sets of minutes.
"""

import io
import math
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from multiprocessing import get_context
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pytest

from fireledger.domain.instants import SECOND
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.recurrence import Recurrence, recurrence_of
from fireledger.domain.recurrence.rules import FOLD_RULES, GAP_RULES, FoldRule, GapRule
from fireledger.domain.recurrence.schedule import CronSchedule
from fireledger.domain.zones import ZoneRules
from fireledger.runners.zone_package import load_packaged_zones

Numbers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]

ZONES = load_packaged_zones()
EXPRESSIONS = 300
SEED = 7
HOUR_S, DAY_S = 3_600, 86_400
AROUND_S = 3 * HOUR_S
"""Compared on each side of a change; after a gap, its length more."""
FIRST_S, LAST_S = 3 * DAY_S, int(datetime(2038, 1, 1, tzinfo=UTC).timestamp())
PROCESSES = 2
CHUNKS = 60
SAMPLED = 20
MISMATCHES_SHOWN = 5
ODD = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "America/Havana",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Kwajalein",
]
"""Always walked: changes of half an hour, two hours, a whole day, at midnight, of half a minute, and close together."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """An expression's text and what its fields mean: per field, which numbers it holds."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    last_day: bool
    months: frozenset[int]
    weekdays: frozenset[int]
    nth_weekday: tuple[int, int] | None
    either: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A change of offset to walk around: its zone, instant, and width in seconds (positive: a gap)."""

    zone: str
    at_s: int
    width_s: int


def drawn_field(draw: random.Random, low: int, high: int) -> tuple[str, frozenset[int]]:
    """A field as text and as the set that it means."""
    first, last = sorted((draw.randint(low, high), draw.randint(low, high)))
    step = draw.randint(1, max(2, (high - low) // 3))
    several = sorted({draw.randint(low, high) for _ in range(draw.randint(2, 5))})
    return draw.choice(
        [
            ("*", frozenset(range(low, high + 1))),
            (str(first), frozenset({first})),
            (f"{first}-{last}", frozenset(range(first, last + 1))),
            (f"*/{step}", frozenset(range(low, high + 1, step))),
            (f"{first}/{step}", frozenset(range(first, high + 1, step))),
            (",".join(map(str, several)), frozenset(several)),
        ]
    )


def drawn_days(draw: random.Random) -> tuple[str, frozenset[int], bool]:
    """Days of the month: text, numbers, and whether the last day is meant too."""
    if draw.random() < 0.65:
        return "*", frozenset(range(1, 32)), False
    if draw.random() < 0.1:
        return "L", frozenset(), True
    return (*drawn_field(draw, 1, 31), False)


def drawn_weekdays(draw: random.Random) -> tuple[str, frozenset[int], tuple[int, int] | None]:
    """Weekdays: text, numbers from Sunday, and (weekday, n-th of the month; 0: the last)."""
    chance, weekday, nth = draw.random(), draw.randint(0, 6), draw.randint(1, 5)
    if chance < 0.65:
        return "*", frozenset(range(7)), None
    if chance < 0.75:
        return f"{weekday}#{nth}", frozenset(), (weekday, nth)
    if chance < 0.85:
        return f"{weekday}L", frozenset(), (weekday, 0)
    return (*drawn_field(draw, 0, 6), None)


@cache
def expressions() -> list[tuple[Drawn, CronSchedule]]:
    """The random expressions, each with its compiled schedule."""
    draw = random.Random(SEED)
    drawn: list[tuple[Drawn, CronSchedule]] = []
    for _ in range(EXPRESSIONS):
        (minute, minutes), (hour, hours) = drawn_field(draw, 0, 59), drawn_field(draw, 0, 23)
        day, days, last_day = drawn_days(draw)
        month, months = drawn_field(draw, 1, 12) if draw.random() < 0.2 else ("*", frozenset(range(1, 13)))
        weekday, weekdays, nth_weekday = drawn_weekdays(draw)
        if day not in {"*", "L"} and max(days) > 28:
            month, months = "*", frozenset(range(1, 13))
        text = f"{minute} {hour} {day} {month} {weekday}"
        either = not day.startswith("*") and not weekday.startswith("*")
        one = Drawn(text, minutes, hours, days, last_day, months, weekdays, nth_weekday, either)
        drawn.append((one, parse_cron(text)))
    return drawn


@cache
def changes() -> list[Change]:
    """One change for each local time and width that any zone has, in the order of zones and time."""
    distinct: dict[tuple[int, int], Change] = {}
    for name in [*ODD, *ZONES.names]:
        for one in ZONES.zone(name).transitions(FIRST_S, LAST_S):
            width_s = one.after_s - one.before_s
            distinct.setdefault((one.at_s + one.before_s, width_s), Change(name, one.at_s, width_s))
    return sorted(distinct.values(), key=lambda change: (change.zone, change.at_s))


class Walk:
    """Every minute of UTC around a change, what the zone's clock shows then, and which minutes it never shows."""

    def __init__(self, change: Change) -> None:
        zone = ZoneInfo.from_file(io.BytesIO(ZONES.content(change.zone)), change.zone)
        self.low_s = change.at_s - AROUND_S
        self.high_s = change.at_s + AROUND_S + max(0, change.width_s)
        near = ZONES.zone(change.zone).transitions(change.at_s - 2 * DAY_S, change.at_s + 2 * DAY_S)
        margin_s = sum(abs(one.after_s - one.before_s) for one in near) + HOUR_S
        step = math.gcd(60, *(one.after_s for one in near), *(one.before_s for one in near))
        first_s = (self.low_s - margin_s) // 60 * 60
        self.utc: Numbers = np.arange(first_s, self.high_s + margin_s, step, dtype=np.int64)
        self.local: Numbers = self.utc + np.array([offset_at(zone, int(at_s)) for at_s in self.utc], dtype=np.int64)
        _, place, shown = np.unique(self.local, return_inverse=True, return_counts=True)
        self.alone: Truths = shown[place] == 1
        self.passes: Numbers = passes_of(self.local)
        self._find_missing(step)

    def _find_missing(self, step: int) -> None:
        missing: dict[int, tuple[int, int]] = {}
        seen = set(self.local.tolist())
        for before in np.flatnonzero(np.diff(self.local) > step).tolist():
            offset = int(self.local[before] - self.utc[before])
            for local in range(int(self.local[before]) + step, int(self.local[before + 1]), step):
                if local not in seen:
                    # Moved by the gap's length it is what the old offset would make of it.
                    missing.setdefault(local, (local - offset, int(self.utc[before + 1])))
        self.missing: Numbers = np.array(sorted(missing), dtype=np.int64)
        self.shifted: Numbers = np.array([missing[local][0] for local in sorted(missing)], dtype=np.int64)
        self.next_valid: Numbers = np.array([missing[local][1] for local in sorted(missing)], dtype=np.int64)

    def counted(self, fold: FoldRule) -> Truths:
        """Which minutes of the walk count, if they match."""
        if fold == "both":
            return np.ones(len(self.utc), dtype=np.bool_)
        chosen: Truths = self.passes == 0 if fold == "first" else self.alone | (self.passes == 1)
        return chosen


def offset_at(zone: ZoneInfo, at_s: int) -> int:
    """The offset at an instant, in seconds, as zoneinfo has it."""
    offset = datetime.fromtimestamp(at_s, zone).utcoffset()
    assert offset is not None
    return offset.days * DAY_S + offset.seconds


def passes_of(local: Numbers) -> Numbers:
    """For each minute of the walk, how many earlier ones show the same local time."""
    order = np.argsort(local, kind="stable")
    ordered = local[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    lengths = np.diff(np.concatenate((first, [len(ordered)])))
    passes = np.empty(len(local), dtype=np.int64)
    passes[order] = np.arange(len(local)) - np.repeat(first, lengths)
    return passes


def day_matches(drawn: Sequence[Drawn], days: Sequence[int]) -> Truths:
    """For each expression and each day since the epoch, whether the day's fields hold it."""
    matches = np.zeros((len(drawn), len(days)), dtype=np.bool_)
    for column, number in enumerate(days):
        date = datetime.fromtimestamp(number * DAY_S, UTC)
        length = (datetime(date.year + date.month // 12, date.month % 12 + 1, 1, tzinfo=UTC) - date).days + date.day - 1
        weekday, nth = date.isoweekday() % 7, (date.day - 1) // 7 + 1
        for row, one in enumerate(drawn):
            by_date = date.day in one.days or (one.last_day and date.day == length)
            by_weekday = weekday in one.weekdays or one.nth_weekday == (weekday, nth)
            by_weekday = by_weekday or (one.nth_weekday == (weekday, 0) and date.day + 7 > length)
            by_either = by_date or by_weekday if one.either else by_date and by_weekday
            matches[row, column] = by_either and date.month in one.months
    return matches


def matching(drawn: Sequence[Drawn], tables: tuple[Truths, Truths], local: Numbers) -> Truths:
    """For each expression and local time, whether every field matches."""
    by_minute, by_hour = tables
    days, place = np.unique(local // DAY_S, return_inverse=True)
    of_day = day_matches(drawn, days.tolist())[:, place]
    whole = by_minute[:, local // 60 % 60] & by_hour[:, local // HOUR_S % 24] & of_day
    whole[:, local % 60 != 0] = False
    return whole


@cache
def time_tables() -> tuple[Truths, Truths]:
    """For each expression, which minutes and which hours it holds."""
    drawn = [one for one, _ in expressions()]
    by_minute = np.array([[minute in one.minutes for minute in range(60)] for one in drawn], dtype=np.bool_)
    by_hour = np.array([[hour in one.hours for hour in range(24)] for one in drawn], dtype=np.bool_)
    return by_minute, by_hour


def wanted(walk: Walk, shown: Truths, unseen: Truths, gap: GapRule, fold: FoldRule) -> list[list[int]]:
    """For each expression, the instants (microseconds) in the compared range that the rules make of its matches."""
    found = shown & walk.counted(fold)
    if gap != "skip" and len(walk.missing):
        targets = walk.shifted if gap == "shift" else walk.next_valid
        rows, columns = np.nonzero(unseen)
        places = np.searchsorted(walk.utc, targets[columns])
        inside = places < len(walk.utc)
        found[rows[inside], places[inside]] = True
    found[:, (walk.utc <= walk.low_s) | (walk.utc > walk.high_s)] = False
    rows, columns = np.nonzero(found)
    instants = (walk.utc[columns] * SECOND).tolist()
    ends = np.cumsum(np.bincount(rows, minlength=len(found))).tolist()
    return [instants[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def differs(recurrence: Recurrence, after: int, until: int, expected: list[int]) -> bool:
    """Whether any of the engine's questions is answered otherwise than expected."""
    following, preceding = recurrence.next_after(after), recurrence.previous_before(until + 1)
    if expected:
        ends_agree = following == expected[0] and preceding == expected[-1]
    else:
        ends_agree = (following is None or following > until) and (preceding is None or preceding <= after)
    return (
        not ends_agree
        or list(recurrence.between(after, until)) != expected
        or recurrence.count(after, until) != len(expected)
    )


def compare(change: Change) -> tuple[int, list[str]]:
    """Compare around one change: how many comparisons, and which failed."""
    walk, rules = Walk(change), ZONES.zone(change.zone)
    drawn = [one for one, _ in expressions()]
    shown = matching(drawn, time_tables(), walk.local)
    unseen = matching(drawn, time_tables(), walk.missing)
    after, until = walk.low_s * SECOND, walk.high_s * SECOND
    wrong: list[str] = []
    for gap in GAP_RULES:
        for fold in FOLD_RULES:
            found = wanted(walk, shown, unseen, gap, fold)
            wrong += mismatches(rules, (gap, fold), (after, until), found)
    return len(GAP_RULES) * len(FOLD_RULES) * len(drawn), [f"{change}: {one}" for one in wrong]


def mismatches(
    zone: ZoneRules, rules: tuple[GapRule, FoldRule], compared: tuple[int, int], found: list[list[int]]
) -> list[str]:
    """The expressions for which the engine says something else."""
    return [
        f"{one.text} {rules}: {expected}"
        for (one, schedule), expected in zip(expressions(), found, strict=True)
        if differs(recurrence_of(schedule, zone, *rules), *compared, expected)
    ]


def compare_all(chunk: list[Change]) -> tuple[int, list[str]]:
    """Compare around several changes."""
    count, wrong = 0, list[str]()
    for change in chunk:
        compared, failed = compare(change)
        count += compared
        wrong += failed
    return count, wrong[:MISMATCHES_SHOWN]


@pytest.mark.slow
def test_the_engine_equals_the_walk_around_sampled_changes() -> None:
    """Around some changes of every odd kind and some others, 300 expressions under nine rules are the walk's."""
    draw = random.Random(SEED)
    by_zone = {name: list(several) for name, several in groupby(changes(), key=lambda change: change.zone)}
    chosen = [draw.choice(by_zone[name]) for name in ODD if name in by_zone]
    chosen += draw.sample(changes(), SAMPLED)
    assert any(change.width_s >= DAY_S // 2 for change in by_zone["Pacific/Apia"])
    compared, wrong = compare_all(chosen)
    assert wrong == []
    assert compared == len(chosen) * EXPRESSIONS * 9


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_the_engine_equals_the_walk_around_every_change() -> None:
    """Around all 3,300 distinct changes from 1970 to 2037, 300 expressions under nine rules are the walk's."""
    everything = changes()
    assert len(everything) > 3_000
    size = -(-len(everything) // CHUNKS)
    chunks = [everything[first : first + size] for first in range(0, len(everything), size)]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        results = list(pool.map(compare_all, chunks))
    assert [one for _, wrong in results for one in wrong] == []
    assert sum(compared for compared, _ in results) == len(everything) * EXPRESSIONS * 9
