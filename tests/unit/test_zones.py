"""The zone reader on good and bad bytes, packed databases, and the library."""

import struct

import pytest

from fireledger.domain.instants import SECOND, parse_instant
from fireledger.domain.recurrence.recurrence import local_text
from fireledger.domain.zones import (
    MalformedZone,
    Transition,
    UnknownZone,
    UnknownZoneData,
    ZoneDatabase,
    ZoneLibrary,
    ZoneRules,
    unpack_zone_database,
)
from fireledger.runners.zone_package import load_packaged_zones

ZONES = load_packaged_zones()
ROME = ZONES.zone("Europe/Rome")


def local(text: str) -> int:
    """Naive local microseconds, written as if UTC."""
    return parse_instant(f"{text}Z")


def tzif(starts: list[int], indexes: list[int], offsets: list[int], footer: str = "") -> bytes:
    """A small TZif version 2 file."""
    header = b"TZif2" + bytes(15)
    first = header + struct.pack(">6I", 0, 0, 0, 0, 1, 1) + bytes(7)
    counts = struct.pack(">6I", 0, 0, 0, len(starts), len(offsets), 1)
    body = struct.pack(f">{len(starts)}q", *starts) + bytes(indexes)
    body += b"".join(struct.pack(">iBB", offset, 0, 0) for offset in offsets) + b"\0"
    return first + header + counts + body + b"\n" + footer.encode() + b"\n"


def test_database_comes_from_the_package_with_its_version() -> None:
    """The packaged database has a version, a hash and every usual name."""
    assert ZONES.version >= "2026"
    assert len(ZONES.sha256) == 64
    assert {"UTC", "Europe/Rome", "US/Central", "America/Montreal"} <= set(ZONES.names)


def test_packing_is_canonical() -> None:
    """Unpacking and packing again gives the same bytes, hash and offsets."""
    again = unpack_zone_database(ZONES.pack())
    assert (again.pack(), again.sha256, again.version) == (ZONES.pack(), ZONES.sha256, ZONES.version)
    assert again.zone("Asia/Kathmandu").utc_offset_at(0) == ZONES.zone("Asia/Kathmandu").utc_offset_at(0)


def test_a_zone_is_read_once() -> None:
    """Asking twice gives the same object, so that searches can be shared."""
    assert ZONES.zone("Europe/Rome") is ROME


@pytest.mark.parametrize(
    "name,close", [("Europe/Romee", "Europe/Rome"), ("rome", "Europe/Rome"), ("utc", "UTC"), ("Mars/Olympus", "IANA")]
)
def test_unknown_zone_names_itself_and_close_ones(name: str, close: str) -> None:
    """An unknown name is refused with the name and a hint."""
    with pytest.raises(UnknownZone) as caught:
        ZONES.zone(name)
    assert f'"{name}"' in str(caught.value)
    assert close in caught.value.hint


def test_local_times_around_gap_and_fold() -> None:
    """A local time maps to one instant, to two inside a fold, to none inside a gap; fractions are kept."""
    assert ROME.local_to_instants(local("2026-03-29T02:30:00")) == ()
    assert ROME.local_to_instants(local("2026-10-25T02:30:00") + 5) == (
        parse_instant("2026-10-25T00:30:00Z") + 5,
        parse_instant("2026-10-25T01:30:00Z") + 5,
    )
    assert ROME.local_to_instants(local("2026-03-29T03:00:00")) == (parse_instant("2026-03-29T01:00:00Z"),)


def test_gap_is_described() -> None:
    """A gap names its transition and both offsets; a time that exists has none."""
    at_s = parse_instant("2026-03-29T01:00:00Z") // SECOND
    assert ROME.gap_at(local("2026-03-29T02:59:59")) == Transition(at_s, 3_600, 7_200)
    assert ROME.gap_at(local("2026-03-29T03:00:00")) is None


def test_transitions_between_two_instants() -> None:
    """A year in Rome has two changes; UTC has none."""
    first, last = (parse_instant(f"{year}-01-01T00:00:00Z") // SECOND for year in (2150, 2151))
    assert [(one.before_s, one.after_s) for one in ROME.transitions(first, last)] == [(3_600, 7_200), (7_200, 3_600)]
    assert ZONES.zone("UTC").transitions(first, last) == []


def test_offsets_far_beyond_the_searched_years_follow_the_footer() -> None:
    """The POSIX rule holds for every later year."""
    assert ROME.utc_offset_at(parse_instant("3000-07-01T00:00:00Z")) == 7_200
    assert ROME.utc_offset_at(parse_instant("3000-12-01T00:00:00Z")) == 3_600


@pytest.mark.parametrize(
    "name,instant,text",
    [
        ("Europe/Rome", "2026-07-01T10:00:00Z", "2026-07-01T12:00:00+02:00"),
        ("America/New_York", "2026-01-01T00:00:00.000250Z", "2025-12-31T19:00:00.000250-05:00"),
        ("Asia/Kathmandu", "2026-01-01T00:00:00Z", "2026-01-01T05:45:00+05:45"),
        ("UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00+00:00"),
    ],
)
def test_local_text(name: str, instant: str, text: str) -> None:
    """Local text is RFC 3339 with a numeric offset and six digits only when not whole."""
    assert local_text(parse_instant(instant), ZONES.zone(name)) == text


def test_small_zone_and_daylight_all_year() -> None:
    """Listed transitions hold, then the footer; a rule of daylight time all year has no other offset."""
    zone = ZoneRules("Test/Small", tzif([0, 100], [1, 0], [0, 3_600], "<-03>3<-02>,0/0,J365/25"))
    assert [zone.offset_at_second(at_s) for at_s in (-1, 0, 99)] == [0, 3_600, 3_600]
    assert {zone.offset_at_second(10**9 + day * 3_600) for day in range(24 * 400)} == {-7_200}


GOOD = tzif([0, 100], [1, 0], [0, 3_600], "UTC0")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"TZif2",
        b"nonsense" * 20,
        GOOD[:-10],
        GOOD.replace(b"TZif2", b"TZif\0"),
        tzif([100, 0], [1, 0], [0, 3_600], "UTC0"),
        tzif([0, 0], [1, 0], [0, 3_600], "UTC0"),
        tzif([0], [2], [0, 3_600], "UTC0"),
        tzif([0], [0], [200_000], "UTC0"),
        tzif([], [], [0], "not a rule"),
        tzif([], [], [0], "EST5EDT,M13.1.0,M11.1.0"),
        tzif([], [], [0], "EST5EDT"),
        tzif([], [], [], "UTC0"),
        GOOD[:32] + struct.pack(">I", 0xFFFFFFFF) + GOOD[36:],
    ],
)
def test_malformed_zone_bytes_are_refused(content: bytes) -> None:
    """Bad bytes end in MalformedZone and in nothing else."""
    with pytest.raises(MalformedZone):
        ZoneRules("Test/Bad", content)


def test_every_truncation_and_many_flips_are_harmless() -> None:
    """No prefix of a zone's bytes and no flipped byte makes anything but a zone or MalformedZone."""
    content = ZONES.content("Europe/Rome")
    damaged = [content[:size] for size in range(0, len(content), 7)]
    damaged += [content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :] for at in range(0, len(content), 5)]
    refused = 0
    for one in damaged:
        try:
            ZoneRules("Test/Damaged", one).utc_offset_at(0)
        except MalformedZone:
            refused += 1
    assert len(content) // 7 <= refused < len(damaged)


@pytest.mark.parametrize("cut", [0, 10, 25, 40, 1_000, -1])
def test_malformed_packed_database_is_refused(cut: int) -> None:
    """A packed database that is cut short is refused."""
    with pytest.raises(MalformedZone):
        unpack_zone_database(ZONES.pack()[:cut])


def test_trailing_bytes_and_strange_names_are_refused() -> None:
    """Only the canonical form is read, and names cannot climb out of anything."""
    with pytest.raises(MalformedZone, match="canonical"):
        unpack_zone_database(ZONES.pack() + b"x")
    with pytest.raises(MalformedZone, match="not a zone name"):
        ZoneDatabase("2026a", {"UTC": GOOD, "../etc": GOOD})
    with pytest.raises(MalformedZone, match="no zone"):
        ZoneDatabase("2026a", {"Europe/Rome": GOOD})
    with pytest.raises(MalformedZone, match="not a version"):
        ZoneDatabase("the newest", {"UTC": GOOD})


def test_library_finds_by_hash_and_knows_the_newest() -> None:
    """A library gives databases by hash, and the newest version is current."""
    older = ZoneDatabase("2020a", {"UTC": GOOD})
    library = ZoneLibrary(ZONES, older)
    assert library.current is ZONES
    assert library.database(older.sha256) is older
    assert older.sha256 in library
    assert {database.version for database in library} == {"2020a", ZONES.version}
    with pytest.raises(UnknownZoneData, match="ffff"):
        library.database("ffff")
