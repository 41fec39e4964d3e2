"""New time-zone data at the borders: before the beginning of a trigger, and on the decided keys of a deleted one."""

from fireledger.domain import entries as e
from fireledger.domain.commands import AdoptZoneData
from fireledger.domain.zones import ZoneDatabase, ZoneLibrary
from tests.unit.domain.given import DELETE, TICK, Given, create, cron, zones

MINUTES = "0,5,10,20,40,50 9,10,11,12,13,14 * * *"


def moved_an_hour_earlier() -> Given:
    """A trigger of fixed local times, created at 10:03 and decided up to 10:20; then Rome moves from +1 to +2."""
    packaged = zones().current
    utc = packaged.content("UTC")
    older = ZoneDatabase("2026y", {"UTC": utc, "Europe/Rome": packaged.content("Etc/GMT-1")})
    newer = ZoneDatabase("2026z", {"UTC": utc, "Europe/Rome": packaged.content("Etc/GMT-2")})
    book = Given(start="2026-11-30T10:00:00Z", library=ZoneLibrary(newer, older))
    if book.state.zone_sha256 != older.sha256:
        book.given(AdoptZoneData(version=older.version, sha256=older.sha256), at="10:01:00")
    book.given(create(cron(MINUTES, "Europe/Rome", overlap="allow")), at="10:03:00")
    for minute in (5, 10, 20):
        book.given(TICK, at=f"10:{minute:02d}:00")
    return book.given(AdoptZoneData(version=newer.version, sha256=newer.sha256), at="10:21:00")


def test_nothing_is_owed_before_the_trigger_began() -> None:
    """What moved to before the creation is not the trigger's; what moved onto a decided key is coalesced into it."""
    book = moved_an_hour_earlier()
    book.when(TICK, at="10:21:00").then(
        "coalesced t 10:05:00 coalesced into 10:05:00",
        "coalesced t 10:10:00 coalesced into 10:10:00",
        "coalesced t 10:20:00 coalesced into 10:20:00",
    )
    assert book.next_due() == "10:40:00"


def test_a_deletion_leaves_decided_keys_alone() -> None:
    """What new data moved onto keys that fired is coalesced into them, and not cancelled."""
    book = moved_an_hour_earlier().when(DELETE, at="10:21:30")
    states = [(entry.state, entry.into) for entry in book.entries() if isinstance(entry, e.InstantsResolved)]
    decided = [book.instant(f"10:{minute:02d}:00") for minute in (5, 10, 20)]
    assert states == [("coalesced", at) for at in decided]


def test_a_deletion_cancels_what_is_undecided_behind_them() -> None:
    """Instants that are owed and not decided yet are cancelled, in one entry."""
    book = moved_an_hour_earlier().when(DELETE, at="10:55:00")
    *_, last, _ = book.entries()
    assert isinstance(last, e.InstantsResolved)
    assert (last.state, last.count) == ("cancelled", 2)
    assert [book.short(at) for at in (last.first, last.last)] == ["10:40:00", "10:50:00"]
