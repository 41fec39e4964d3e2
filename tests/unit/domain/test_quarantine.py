"""One bad trigger stops nobody: it is named, quarantined by an entry, and comes back by an amendment."""

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from fireledger.domain import commands as c
from fireledger.domain.page import Quarantine
from fireledger.domain.zones import MalformedZone, UnknownZoneData, ZoneDatabase, ZoneLibrary, ZoneRules
from tests.unit.domain.given import DELETE, PAUSE, RESUME, TICK, Given, amend, create, cron, result, started

BAD = "Asia/Tokyo"
NAMED = (Quarantine("t", "MalformedZone: broken"),)


@contextmanager
def broken_zone() -> Generator[None]:
    """Make one zone's bytes unreadable, as a damaged database would."""
    read = ZoneDatabase.zone

    def zone(self: ZoneDatabase, name: str) -> ZoneRules:
        if name == BAD:
            raise MalformedZone("broken")
        return read(self, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ZoneDatabase, "zone", zone)
        yield


def two() -> Given:
    """A trigger in the zone that will break, and a healthy one."""
    return Given(create(cron("*/10 * * * *", BAD, missed="skip")), create(cron("*/10 * * * *"), "healthy"))


def quarantined() -> Given:
    """The bad trigger quarantined at 09:10 while the other fires."""
    book = two()
    with broken_zone():
        book.when(TICK, at="09:10:00", quarantine=NAMED)
    return book.then("TriggerQuarantined t", "released healthy 09:10:00 on-time")


def test_the_trigger_that_fails_is_named() -> None:
    """Deciding raises with the trigger's name and the cause, and nothing is decided."""
    book = two()
    with broken_zone():
        error = book.then_undecidable(TICK, at="09:10:00")
    assert (error.trigger, error.cause) == ("t", "MalformedZone: broken")
    assert book.state.page == 3


def test_the_others_go_on() -> None:
    """With the trigger in the quarantine input it is quarantined, and the others are decided."""
    book = quarantined()
    assert book.trigger().quarantine == "MalformedZone: broken"
    with broken_zone():
        book.when(TICK, at="09:20:00").then("skipped healthy 09:20:00 overlap")
        assert book.next_due() is None


def test_a_quarantined_trigger_is_not_quarantined_again() -> None:
    """A repeated input adds no second entry."""
    book = quarantined()
    book.when(TICK, at="09:20:00", quarantine=NAMED).then("skipped healthy 09:20:00 overlap")


def test_open_fires_of_a_quarantined_trigger_still_end() -> None:
    """Outcomes need no schedule."""
    book = two().given(TICK, at="09:10:00")
    with broken_zone():
        book.when(TICK, at="09:20:00", quarantine=NAMED)
        book.when(
            TICK,
            at="09:20:30",
            observed=(started("09:10:00", "09:10:01", 20), result("09:10:00", "09:11:00", 21, "final")),
        )
    assert book.brief(book.entries()[-1]) == "finished t 09:10:00 failed"


def test_an_amendment_lifts_the_quarantine_and_the_stretch_is_skipped() -> None:
    """Saved again once the node is mended: the quarantined stretch is one skipped range."""
    book = quarantined().given(amend(cron("*/10 * * * *", BAD, missed="skip")), at="10:05:00")
    book.when(TICK, at="10:10:00")
    assert [book.brief(entry) for entry in book.entries() if getattr(entry, "trigger", "") == "t"] == [
        "skipped t 09:10:00 missed",
        "skipped t 09:20:00-10:00:00 x5 quarantined",
        "released t 10:10:00 on-time",
    ]


def test_an_amendment_out_of_a_broken_zone_settles_what_nobody_can_count() -> None:
    """While the old schedule stays unreadable, the amendment gives it up, and the new one fires."""
    book = quarantined()
    repaired = amend(cron("*/10 * * * *", missed="skip"))
    with broken_zone():
        assert book.then_undecidable(repaired, at="10:05:00").trigger == "t"
        book.when(repaired, at="10:05:00", quarantine=NAMED).then("TriggerAmended t", "settled t 10:05:00")
        book.when(TICK, at="10:10:00")
        assert "released t 10:10:00 on-time" in [book.brief(entry) for entry in book.entries()]


def test_a_command_that_cannot_look_at_a_schedule_quarantines_it_on_record() -> None:
    """Amending a trigger whose schedule just became unreadable leaves the cause in the book."""
    book = two()
    repaired = amend(cron("*/10 * * * *"))
    with broken_zone():
        assert book.then_undecidable(repaired, at="09:05:00").trigger == "t"
        book.when(repaired, at="09:05:00", quarantine=NAMED)
        book.then("TriggerQuarantined t", "TriggerAmended t", "settled t 09:05:00")
        assert book.trigger().quarantine is None
        assert book.next_due() == "09:10:00"


def test_an_unreadable_trigger_can_be_deleted() -> None:
    """Deletion of what nobody can enumerate cancels nothing of it, and says why."""
    book = two()
    with broken_zone():
        assert book.then_undecidable(DELETE, at="09:15:00").trigger == "t"
        book.when(DELETE, at="09:15:00", quarantine=NAMED).then("TriggerQuarantined t", "TriggerDeleted t")
    readable = quarantined().when(DELETE, at="09:25:00")
    readable.then("cancelled t 09:10:00-09:20:00 x2 deleted", "TriggerDeleted t")


def test_a_quarantined_trigger_can_be_paused_and_resumed() -> None:
    """Pausing is apart from quarantine: resuming ends the pause alone."""
    book = quarantined().given(PAUSE, at="09:15:00")
    with broken_zone():
        assert book.then_undecidable(RESUME, at="09:25:00").trigger == "t"
        book.when(RESUME, at="09:25:00", quarantine=NAMED).then("TriggerResumed t")
        assert not book.trigger().paused
        assert book.trigger().quarantine is not None


def test_a_zone_that_cannot_be_read_is_refused_in_a_definition() -> None:
    """Creating a trigger or a tenant's setting in an unreadable zone is refused, not an exception."""
    book = two()
    with broken_zone():
        for command in (create(cron("0 9 * * *", BAD), "new"), amend(cron("0 9 * * *", BAD), "healthy")):
            book.when(command, at="09:05:00")
            assert getattr(book.result, "code", None) == "zone-unknown"


def test_missing_zone_data_quarantines_nobody() -> None:
    """A node that has not loaded the book's database says so; no trigger is blamed."""
    book = two()
    book.zones = ZoneLibrary(ZoneDatabase("2026f", {"UTC": book.zones.current.content("UTC")}))
    with pytest.raises(UnknownZoneData):
        book.when(TICK, at="09:10:00")


def test_a_quarantine_of_an_unknown_trigger_is_ignored() -> None:
    """A name that is gone when the page is decided adds nothing."""
    book = two().given(c.DeleteTrigger(trigger="t"), at="09:05:00")
    book.when(TICK, at="09:10:00", quarantine=NAMED).then("released healthy 09:10:00 on-time")
