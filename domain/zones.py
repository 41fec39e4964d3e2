"""Time zones from stored bytes: our own TZif reader, packed databases, and a library of versions.

Nothing here reads a file, the host's zone data or its own zone. A database is bytes with a version and
a hash, so an instant can be worked out again with the rules of the day it was decided.
"""

import difflib
import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from itertools import pairwise

from .instants import SECOND, Instant
from .limits import YEAR_MAX

TRANSITIONS_MAX = 4_096
"""Transitions in one zone's bytes: the longest real zone has under 300."""
ZONES_MAX = 4_096
"""Zones in one database: the real one has about 600."""
_OFFSET_MIN_S, _OFFSET_MAX_S = -89_999, 93_599
_NEIGHBOUR_S = 3 * 86_400
"""Two instants with the same local time are never further apart than the widest change of offset."""
_FOOTER_FIRST_YEAR = 1900
_MAGIC = b"fireledger.tzdb.v1\n"
_HEADER = struct.Struct(">4sc15x6I")
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_NAME = re.compile(r"[A-Za-z0-9_+\-]+(?:/[A-Za-z0-9_+\-]+){0,3}", re.ASCII)
_ABBREVIATION = r"(?:<[A-Za-z0-9+\-]{3,16}>|[A-Za-z]{3,16})"
_CLOCK = r"[+-]?\d{1,3}(?::\d{2}){0,2}"
_DAY = rf"(?:M\d{{1,2}}\.\d\.\d|J\d{{1,3}}|\d{{1,3}})(?:/{_CLOCK})?"
_POSIX = re.compile(
    rf"{_ABBREVIATION}({_CLOCK})(?:{_ABBREVIATION}({_CLOCK})?,({_DAY}),({_DAY}))?",
    re.ASCII,
)


class UnknownZone(ValueError):
    """No zone of that name in the database; the message names it and ``hint`` lists close names."""

    def __init__(self, name: str, close: Iterable[str] = ()) -> None:
        names = list(close)
        self.name = name
        self.message = f'"{name[:80]}" is not a time zone'
        self.hint = f"did you mean {' or '.join(names)}?" if names else "use an IANA name such as Europe/Rome or UTC"
        super().__init__(f"{self.message}; {self.hint}")


class MalformedZone(ValueError):
    """The bytes are not a usable TZif zone or packed database; the message says what is wrong."""


class UnknownZoneData(ValueError):
    """No database with that hash in the library; the message names the hash."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of offset: ``at_s`` is its instant in whole seconds since the epoch, offsets are seconds east."""

    at_s: int
    before_s: int
    after_s: int


class ZoneRules:
    """One zone's offsets for all time. Immutable; compares by identity; safe to share.

    Made from TZif bytes (version 2 or later). Raises MalformedZone for anything else.
    """

    __slots__ = ("_footer", "_offsets", "_starts", "name")

    name: str
    _starts: tuple[int, ...]
    _offsets: tuple[int, ...]
    _footer: "_PosixRule | None"

    def __init__(self, name: str, content: bytes) -> None:
        starts, offsets, footer_text = _read_tzif(name, content)
        footer = _PosixRule(name, footer_text) if footer_text else None
        if footer is not None:
            starts, offsets = _extend(starts, offsets, footer)
        self.name = name
        self._starts, self._offsets = _without_repeats(starts, offsets)
        self._footer = footer

    def utc_offset_at(self, instant: int) -> int:
        """The offset in force at an instant (microseconds): seconds east of UTC."""
        return self.offset_at_second(instant // SECOND)

    def offset_at_second(self, at_s: int) -> int:
        """The offset in force at an instant in whole seconds since the epoch: seconds east of UTC."""
        if at_s >= _FOOTER_END_S and self._footer is not None:
            return self._footer.offset_at(at_s)
        return self._offsets[bisect_right(self._starts, at_s)]

    def transitions(self, from_s: int, to_s: int) -> list[Transition]:
        """Every change of offset with ``from_s`` <= at < ``to_s``, ascending, up to the year YEAR_MAX."""
        first, last = bisect_left(self._starts, from_s), bisect_left(self._starts, to_s)
        return [Transition(self._starts[i], self._offsets[i], self._offsets[i + 1]) for i in range(first, last)]

    def local_to_instants(self, local: int) -> tuple[Instant, ...]:
        """The instants at which a clock in this zone shows ``local`` (microseconds of naive local time).

        None inside a gap, two inside a fold (ascending), else one. Exact up to the year YEAR_MAX.
        """
        local_s, fraction = divmod(local, SECOND)
        first = bisect_right(self._starts, local_s - _NEIGHBOUR_S)
        last = bisect_right(self._starts, local_s + _NEIGHBOUR_S)
        found: list[Instant] = []
        for i in range(first, last + 1):
            at_s = local_s - self._offsets[i]
            if (i == 0 or at_s >= self._starts[i - 1]) and (i == len(self._starts) or at_s < self._starts[i]):
                found.append(Instant(at_s * SECOND + fraction))
        return tuple(found)

    def gap_at(self, local: int) -> Transition | None:
        """The transition whose gap swallows ``local`` (microseconds of naive local time), else None."""
        if self.local_to_instants(local):
            return None
        local_s = local // SECOND
        for change in self.transitions(local_s - _NEIGHBOUR_S, local_s + _NEIGHBOUR_S):
            if change.at_s + change.before_s <= local_s < change.at_s + change.after_s:
                return change
        return None

    def __repr__(self) -> str:
        return f"ZoneRules({self.name!r})"


class ZoneDatabase:
    """All zones of one version, from stored bytes. Immutable; zones are read when first asked for.

    ``version`` is the IANA version (``2026f``), ``sha256`` the hex hash of ``pack()``, ``names`` every
    zone's name in order. ``UTC`` is always there.
    """

    __slots__ = ("_contents", "_packed", "_zones", "names", "sha256", "version")

    def __init__(self, version: str, contents: Mapping[str, bytes]) -> None:
        if re.fullmatch(r"[0-9a-z.]{1,16}", version, re.ASCII) is None:
            raise MalformedZone(f'"{version[:40]}" is not a version of the time-zone database')
        if "UTC" not in contents:
            raise MalformedZone('the time-zone database has no zone "UTC"')
        if len(contents) > ZONES_MAX:
            raise MalformedZone(f"the time-zone database has {len(contents)} zones; at most {ZONES_MAX} are read")
        for name in contents:
            if len(name) > 64 or _NAME.fullmatch(name) is None:
                raise MalformedZone(f'"{name[:80]}" is not a zone name')
        self.version = version
        self._contents = {name: contents[name] for name in sorted(contents)}
        self.names = tuple(self._contents)
        self._packed = _pack(version, self._contents)
        self.sha256 = sha256(self._packed).hexdigest()
        self._zones: dict[str, ZoneRules] = {}

    def zone(self, name: str) -> ZoneRules:
        """The zone's rules; the same object every time. Raises UnknownZone, or MalformedZone for bad bytes."""
        known = self._zones.get(name)
        if known is not None:
            return known
        content = self._contents.get(name)
        if content is None:
            raise UnknownZone(name, self._close(name))
        return self._zones.setdefault(name, ZoneRules(name, content))

    def pack(self) -> bytes:
        """The whole database as bytes: the same bytes for the same zones and version, everywhere."""
        return self._packed

    def content(self, name: str) -> bytes:
        """The zone's TZif bytes. Raises UnknownZone."""
        content = self._contents.get(name)
        if content is None:
            raise UnknownZone(name, self._close(name))
        return content

    def _close(self, name: str) -> list[str]:
        wanted = name[:64].lower()
        folded: dict[str, str] = {}
        for known in self.names:
            folded.setdefault(known.rpartition("/")[2].lower(), known)
        folded |= {known.lower(): known for known in self.names}
        close = difflib.get_close_matches(wanted, folded, n=3, cutoff=0.75)
        return list(dict.fromkeys(folded[match] for match in close))

    def __repr__(self) -> str:
        return f"ZoneDatabase({self.version!r}, {self.sha256[:12]!r})"


def unpack_zone_database(packed: bytes) -> ZoneDatabase:
    """Read what ``ZoneDatabase.pack`` wrote. Raises MalformedZone; the result packs to the same bytes."""
    if not packed.startswith(_MAGIC):
        raise MalformedZone("the bytes are not a packed time-zone database")
    reader = _Reader(packed, len(_MAGIC), "the packed time-zone database")
    version = reader.text(reader.number(2))
    contents: dict[str, bytes] = {}
    for _ in range(min(reader.number(2), ZONES_MAX)):
        name = reader.text(reader.number(2))
        contents[name] = reader.take(reader.number(4))
    database = ZoneDatabase(version, contents)
    if database.pack() != packed:
        raise MalformedZone("the packed time-zone database is not in its canonical form")
    return database


class ZoneLibrary:
    """The databases a process knows, by hash. Immutable.

    ``current`` is the one with the newest version.
    """

    __slots__ = ("_by_hash", "current")

    def __init__(self, *databases: ZoneDatabase) -> None:
        if not databases:
            raise ValueError("a zone library needs at least one database")
        self._by_hash = {database.sha256: database for database in databases}
        self.current = max(databases, key=lambda database: (database.version, database.sha256))

    def database(self, sha256_hex: str) -> ZoneDatabase:
        """The database with that hash. Raises UnknownZoneData."""
        known = self._by_hash.get(sha256_hex)
        if known is None:
            raise UnknownZoneData(f'no time-zone database with hash "{sha256_hex[:64]}" is loaded')
        return known

    def __iter__(self) -> Iterator[ZoneDatabase]:
        return iter(self._by_hash.values())

    def __contains__(self, sha256_hex: object) -> bool:
        return sha256_hex in self._by_hash


class _Reader:
    """Bounds-checked reading: nothing is taken beyond the end."""

    def __init__(self, content: bytes, position: int, what: str) -> None:
        self._content, self._position, self._what = content, position, what

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._content):
            raise MalformedZone(f"{self._what} ends too early, at byte {len(self._content)}")
        part = self._content[self._position : end]
        self._position = end
        return part

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self, size: int) -> str:
        part = self.take(size)
        if not part.isascii():
            raise MalformedZone(f"{self._what} has text that is not ASCII")
        return part.decode("ascii")

    def rest(self) -> bytes:
        return self.take(len(self._content) - self._position)


def _pack(version: str, contents: Mapping[str, bytes]) -> bytes:
    parts = [_MAGIC, len(version).to_bytes(2, "big"), version.encode(), len(contents).to_bytes(2, "big")]
    for name, content in contents.items():
        parts += [len(name).to_bytes(2, "big"), name.encode(), len(content).to_bytes(4, "big"), content]
    return b"".join(parts)


def _read_tzif(name: str, content: bytes) -> tuple[list[int], list[int], str]:
    """Starts and offsets (one more: the first is before every start) and the footer's text."""
    reader = _Reader(content, 0, f'the data of zone "{name}"')
    version, counts = _read_header(name, reader)
    if version < b"2":
        raise MalformedZone(f'the data of zone "{name}" is TZif version 1; version 2 or later is needed')
    utc_count, std_count, leap_count, time_count, type_count, char_count = counts
    reader.take(time_count * 5 + type_count * 6 + char_count + leap_count * 8 + std_count + utc_count)
    _, counts = _read_header(name, reader)
    utc_count, std_count, leap_count, time_count, type_count, char_count = counts
    if leap_count:
        raise MalformedZone(f'the data of zone "{name}" counts leap seconds; POSIX time is needed')
    if type_count == 0:
        raise MalformedZone(f'the data of zone "{name}" has no local time type')
    starts = list(struct.unpack(f">{time_count}q", reader.take(time_count * 8)))
    indexes = reader.take(time_count)
    types = [struct.unpack(">iBB", reader.take(6)) for _ in range(type_count)]
    reader.take(char_count + std_count + utc_count)
    offsets = [int(one[0]) for one in types]
    if any(index >= type_count for index in indexes) or not all(
        _OFFSET_MIN_S <= offset <= _OFFSET_MAX_S for offset in offsets
    ):
        raise MalformedZone(f'the data of zone "{name}" has a local time type out of range')
    if any(later <= earlier for earlier, later in pairwise(starts)):
        raise MalformedZone(f'the data of zone "{name}" has transitions out of order')
    footer = reader.rest()
    if len(footer) < 2 or footer[:1] != b"\n" or footer[-1:] != b"\n" or not footer.isascii() or len(footer) > 256:
        raise MalformedZone(f'the data of zone "{name}" has no proper footer')
    return starts, [offsets[0], *(offsets[index] for index in indexes)], footer[1:-1].decode("ascii")


def _read_header(name: str, reader: _Reader) -> tuple[bytes, tuple[int, int, int, int, int, int]]:
    magic, version, utc_count, std_count, leap_count, time_count, type_count, char_count = _HEADER.unpack(
        reader.take(_HEADER.size)
    )
    if magic != b"TZif":
        raise MalformedZone(f'the data of zone "{name}" is not TZif')
    if time_count > TRANSITIONS_MAX or type_count > 256:
        raise MalformedZone(f'the data of zone "{name}" has more than {TRANSITIONS_MAX} transitions or 256 types')
    return version, (utc_count, std_count, leap_count, time_count, type_count, char_count)


def _extend(starts: list[int], offsets: list[int], footer: "_PosixRule") -> tuple[list[int], list[int]]:
    """Add the footer's transitions up to YEAR_MAX; after the last listed transition the footer holds."""
    if not starts:
        first_year, known_until = _FOOTER_FIRST_YEAR, -(1 << 62)
        offsets = [footer.standard_s]
    else:
        known_until = starts[-1]
        first_year = min(max(_year_of(known_until), _FOOTER_FIRST_YEAR), YEAR_MAX)
        offsets = [*offsets[:-1], footer.offset_at(known_until)]
    starts = list(starts)
    for year in range(first_year, YEAR_MAX + 2):
        for at_s, offset in footer.changes(year):
            if starts and at_s == starts[-1] and at_s > known_until:
                offsets[-1] = offset
            elif at_s > known_until and (not starts or at_s > starts[-1]):
                starts.append(at_s)
                offsets.append(offset)
    return starts, offsets


def _without_repeats(starts: list[int], offsets: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Drop transitions that change only a name or the daylight flag."""
    kept_starts: list[int] = []
    kept_offsets = [offsets[0]]
    for at_s, offset in zip(starts, offsets[1:], strict=True):
        if offset != kept_offsets[-1]:
            kept_starts.append(at_s)
            kept_offsets.append(offset)
    return tuple(kept_starts), tuple(kept_offsets)


def _days_before_year(year: int) -> int:
    return date(year, 1, 1).toordinal() - _EPOCH_ORDINAL


def _year_of(at_s: int) -> int:
    ordinal = at_s // 86_400 + _EPOCH_ORDINAL
    if ordinal < 1:
        return 1
    return date.fromordinal(min(ordinal, date.max.toordinal())).year


_FOOTER_END_S = _days_before_year(YEAR_MAX + 1) * 86_400


class _PosixRule:
    """The POSIX TZ text in a TZif footer: a standard offset and, perhaps, yearly daylight time."""

    __slots__ = ("_daylight_s", "_end", "_start", "standard_s")

    def __init__(self, name: str, text: str) -> None:
        match = _POSIX.fullmatch(text)
        if match is None:
            raise MalformedZone(f'the data of zone "{name}" has the footer "{text[:80]}", which is not a POSIX rule')
        self.standard_s = -_clock_s(match[1])
        self._daylight_s = -_clock_s(match[2]) if match[2] else self.standard_s + 3_600
        self._start = _YearlyDay(name, match[3]) if match[3] else None
        self._end = _YearlyDay(name, match[4]) if match[4] else None

    def changes(self, year: int) -> list[tuple[int, int]]:
        """(instant in seconds, offset from then on) of the year's changes, ascending."""
        if self._start is None or self._end is None:
            return []
        return sorted(
            (
                (self._start.local_s(year) - self.standard_s, self._daylight_s),
                (self._end.local_s(year) - self._daylight_s, self.standard_s),
            )
        )

    def offset_at(self, at_s: int) -> int:
        """The offset at an instant, by this rule alone."""
        year = min(max(_year_of(at_s), 2), 9_997)
        offset = self.standard_s
        for near in (year - 1, year, year + 1):
            for change_s, after_s in self.changes(near):
                if change_s <= at_s:
                    offset = after_s
        return offset


class _YearlyDay:
    """``Mm.w.d``, ``Jn`` or ``n`` with a time of day: the local instant at which a rule begins."""

    __slots__ = ("_day", "_kind", "_month", "_time_s", "_week", "_weekday")

    def __init__(self, name: str, text: str) -> None:
        day, _, clock = text.partition("/")
        self._time_s = _clock_s(clock) if clock else 7_200
        self._kind = day[0] if day[0] in "MJ" else "n"
        self._month = self._week = self._weekday = self._day = 0
        if self._kind == "M":
            self._month, self._week, self._weekday = (int(part) for part in day[1:].split("."))
            good = 1 <= self._month <= 12 and 1 <= self._week <= 5 and self._weekday <= 6
        else:
            self._day = int(day.lstrip("J"))
            good = 1 <= self._day <= 365 if self._kind == "J" else self._day <= 365
        if not good or abs(self._time_s) > 167 * 3_600 + 3_599:
            raise MalformedZone(f'the data of zone "{name}" has the footer rule "{text}", which is out of range')

    def local_s(self, year: int) -> int:
        """Naive local seconds since the epoch."""
        return self._day_number(year) * 86_400 + self._time_s

    def _day_number(self, year: int) -> int:
        first = _days_before_year(year)
        leap = _days_before_year(year + 1) - first == 366
        if self._kind == "n":
            return first + self._day
        if self._kind == "J":
            return first + self._day - 1 + (leap and self._day > 59)
        month_first = date(year, self._month, 1).toordinal() - _EPOCH_ORDINAL
        month_last = first + (365 + leap) - 1
        if self._month < 12:
            month_last = date(year, self._month + 1, 1).toordinal() - _EPOCH_ORDINAL - 1
        # Day 0 of the epoch was a Thursday: (day + 4) % 7 counts from Sunday.
        day = month_first + (self._weekday - (month_first + 4)) % 7 + 7 * (self._week - 1)
        return day if day <= month_last else day - 7


def _clock_s(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    return sign * sum(part * unit for part, unit in zip(parts, (3_600, 60, 1), strict=False))
