"""Small time-zone databases made up for tests: zones as a first offset and a few changes."""

import struct
from dataclasses import dataclass

from fireledger.domain.instants import SECOND, parse_instant
from fireledger.domain.zones import ZoneDatabase

HOUR_S = 3_600
_HEADER = b"TZif2" + bytes(15)


@dataclass(frozen=True)
class MadeZone:
    """A zone: its offset before every change, and (instant, offset from then on), all in seconds, ascending."""

    first_s: int
    changes: tuple[tuple[int, int], ...] = ()

    def tzif(self) -> bytes:
        """The zone as a TZif file, version 2."""
        offsets = [self.first_s, *(offset for _, offset in self.changes)]
        none = struct.pack(">6I", 0, 0, 0, 0, 1, 1) + bytes(7)
        counts = struct.pack(">6I", 0, 0, 0, len(self.changes), len(offsets), 1)
        starts = struct.pack(f">{len(self.changes)}q", *(at_s for at_s, _ in self.changes))
        indexes = bytes(range(1, len(offsets)))
        types = b"".join(struct.pack(">iBB", offset, 0, 0) for offset in offsets)
        return _HEADER + none + _HEADER + counts + starts + indexes + types + b"\0" + b"\n\n"

    def offset_at(self, at_s: int) -> int:
        """The offset in force."""
        return [self.first_s, *(offset for change_s, offset in self.changes if change_s <= at_s)][-1]

    def shown_at(self, local_s: int) -> list[int]:
        """The instants at which a clock shows this local second, by looking at every offset there is."""
        offsets = {self.first_s, *(offset for _, offset in self.changes)}
        return sorted(local_s - offset for offset in offsets if self.offset_at(local_s - offset) == offset)

    def gap_of(self, local_s: int) -> tuple[int, int] | None:
        """The change that swallows this local second: its instant, and the offset before it."""
        before_s = self.first_s
        for at_s, after_s in self.changes:
            if at_s + before_s <= local_s < at_s + after_s and not self.shown_at(local_s):
                return at_s, before_s
            before_s = after_s
        return None


def made_zone(first_hours: float, *changes: tuple[str, float]) -> MadeZone:
    """A zone from offsets in hours and instants as text."""
    return MadeZone(
        int(first_hours * HOUR_S),
        tuple((parse_instant(at) // SECOND, int(hours * HOUR_S)) for at, hours in changes),
    )


def made_database(version: str, zone: MadeZone, name: str = "Test/Zone") -> ZoneDatabase:
    """A database with one zone besides UTC."""
    return ZoneDatabase(version, {"UTC": MadeZone(0).tzif(), name: zone.tzif()})
