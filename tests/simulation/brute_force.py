"""When a schedule is due, by looking at every second or minute: slow, plain, and nothing of the service's own engine.

Reads the source text of the few forms that runs use, and zone data through the standard library.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from io import BytesIO
from zoneinfo import ZoneInfo

from fireledger.domain.recurrence.schedule import CronSchedule, IntervalSchedule, OneOffSchedule, Schedule
from fireledger.domain.zones import ZoneDatabase

SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BLOCK_S = 900
"""No zone changes its offset within a block of this length, counted from the epoch."""
_LOOK_BACK_S = 3 * 3_600
"""Farther than any change of offset is wide."""


class Offsets:
    """A zone's offsets, seconds east of UTC, by the standard library's reading of the same bytes."""

    def __init__(self, content: bytes) -> None:
        self._zone = ZoneInfo.from_file(BytesIO(content))
        self._blocks: dict[int, int] = {}
        self._instants: dict[int, int] = {}

    def at(self, at_s: int) -> int:
        """The offset in force at a second."""
        block = at_s // _BLOCK_S
        found = self._blocks.get(block)
        if found is None:
            there = (_EPOCH + timedelta(seconds=block * _BLOCK_S)).astimezone(self._zone)
            shift = there.utcoffset()
            assert shift is not None, "a zone has an offset"
            found = self._blocks[block] = int(shift.total_seconds())
        return found

    def instant_of(self, local: int) -> int:
        """The first instant at which the clock shows ``local``; in a gap, shifted by the gap's width."""
        found = self._instants.get(local)
        if found is None:
            found = self._instants[local] = self._first_that_shows(local)
        return found

    def _first_that_shows(self, local: int) -> int:
        local_s = local // SECOND
        offsets = sorted({self.at(local_s + hours * 3_600) for hours in range(-27, 28)}, reverse=True)
        for offset in offsets:
            if self.at(local_s - offset) == offset:
                return (local_s - offset) * SECOND
        before = self.at(local_s - max(offsets) - 1)
        return (local_s - before) * SECOND


@lru_cache(maxsize=64)
def offsets_of(database: ZoneDatabase, zone: str) -> Offsets:
    """A zone of a database."""
    return Offsets(database.content(zone))


@dataclass(frozen=True, slots=True)
class Due:
    """An instant of a schedule, and the local time it stands for, both in microseconds."""

    at: int
    local: int


@lru_cache(maxsize=512)
def _field(text: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        begin = low if first == "*" else int(first)
        end = high if first == "*" or (step and not last) else int(last or first)
        found.update(range(begin, end + 1, int(step or 1)))
    return frozenset(found)


class Plain:
    """A schedule read from its text."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.step_s = 1
        self.fixed = not isinstance(schedule, IntervalSchedule)
        if isinstance(schedule, CronSchedule):
            fields = schedule.source.split()
            seconds, fields = (fields[0], fields[1:]) if len(fields) == 6 else ("0", fields)
            minute, hour, day, month, weekday = fields
            assert (day, month, weekday) == ("*", "*", "*"), "runs use schedules of every day"
            self.step_s = 60 if seconds == "0" else 1
            self._seconds, self._minutes = _field(seconds, 0, 59), _field(minute, 0, 59)
            self._hours = _field(hour, 0, 23)
            through = [text for text in (seconds, minute, hour) if "*" in text or "/" in text]
            self.fixed = not through

    def matches(self, local_s: int) -> bool:
        """Whether the schedule names this local second."""
        match self.schedule:
            case OneOffSchedule(local=local):
                return local_s * SECOND == local
            case CronSchedule():
                minute, second = divmod(local_s, 60)
                return second in self._seconds and minute % 60 in self._minutes and minute // 60 % 24 in self._hours
            case _:
                raise AssertionError("only schedules that name local times are asked")

    def between(self, low: int, high: int, offsets: Offsets) -> Iterator[Due]:
        """Yield the instants in (low, high]."""
        if isinstance(self.schedule, IntervalSchedule):
            anchor, period = self.schedule.anchor, self.schedule.period
            number = (low - anchor) // period + 1
            while anchor + number * period <= high:
                yield Due(anchor + number * period, 0)
                number += 1
            return
        if isinstance(self.schedule, OneOffSchedule):
            at = offsets.instant_of(self.schedule.local)
            if low < at <= high:
                yield Due(at, self.schedule.local)
            return
        step = self.step_s
        for at_s in range((low // SECOND // step + 1) * step, high // SECOND + 1, step):
            local = self._named(at_s, offsets)
            if local is not None:
                yield Due(at_s * SECOND, local * SECOND)

    def _named(self, at_s: int, offsets: Offsets) -> int | None:
        """The local second for which the schedule is due at this instant, or None."""
        offset = offsets.at(at_s)
        local = at_s + offset
        if not self.fixed:
            return local if self.matches(local) else None
        change = offset - offsets.at(at_s - _LOOK_BACK_S)
        if change < 0 and offsets.at(at_s + change) == offset - change:
            # The second pass of a repeated hour.
            return None
        if self.matches(local):
            return local
        if change > 0 and offsets.at(at_s - change) == offset - change and self.matches(local - change):
            # A local time that does not exist, shifted forward by the width of the gap.
            return local - change
        return None


@lru_cache(maxsize=1_024)
def plain(schedule: Schedule) -> Plain:
    """A schedule read from its text."""
    return Plain(schedule)
