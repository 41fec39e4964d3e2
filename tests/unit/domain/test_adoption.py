"""Adopting a time-zone database: which instants move, which are owed at once, and that none is decided twice."""

import pytest

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain import limits
from fireledger.domain.definition import Definition
from fireledger.domain.instants import HOUR, MINUTE, parse_instant
from fireledger.domain.rejections import RejectionCode
from fireledger.domain.zones import ZoneDatabase, ZoneLibrary
from tests.unit.domain.given import (
    PAUSE,
    RESUME,
    RESUME_SKIPPING,
    TICK,
    Given,
    amend,
    changed,
    create,
    cron,
    every,
    once,
    zones,
)
from tests.zone_data import MadeZone, made_database, made_zone

ZONE = "Test/Zone"
START = "2026-11-30T12:00:00Z"


def adopt(database: ZoneDatabase) -> c.AdoptZoneData:
    """The command that adopts a database."""
    return c.AdoptZoneData(version=database.version, sha256=database.sha256)


def databases(*made: MadeZone) -> list[ZoneDatabase]:
    """Databases of versions that follow each other."""
    return [made_database(f"2026{letter}", zone) for letter, zone in zip("abcdefg", made, strict=False)]


def book_under(first: ZoneDatabase, *later: ZoneDatabase, of: Definition, start: str = START) -> Given:
    """A book whose tenant uses the first database and has one trigger; the others can be adopted."""
    book = Given(start=start, library=ZoneLibrary(first))
    book.zones = ZoneLibrary(first, *later)
    return book.given(create(of))


def adopted(book: Given) -> e.ZoneDataAdopted:
    """The adoption that the last command led to."""
    (entry,) = book.entries()
    assert isinstance(entry, e.ZoneDataAdopted)
    return entry


def moves(book: Given) -> list[tuple[str, str, str]]:
    """The triggers that the last command moved, with old and new instant."""
    return [(each.trigger, book.short(each.old), book.short(each.new)) for each in adopted(book).moved]


WEST, EAST = made_zone(-7), made_zone(-6)
"""A zone before and after it gives up an hour: 09:00 there is 16:00Z, and then 15:00Z."""


def test_beh_033_the_armed_instant_moves_and_fires_once() -> None:
    """An alarm armed for 16:00Z goes off at 15:00Z once the new rules say so, and not again at 16:00Z."""
    old, new = databases(WEST, EAST)
    book = book_under(old, new, of=cron("0 9 * * *", ZONE))
    assert book.next_due() == "16:00:00"
    book.when(adopt(new), at="13:00:00")
    assert moves(book) == [("t", "16:00:00", "15:00:00")]
    assert adopted(book).moved_count == 1
    assert (book.state.zone_version, book.state.zone_sha256) == (new.version, new.sha256)
    assert book.next_due() == "15:00:00"
    book.when(TICK, at="15:00:00").then("released t 15:00:00 on-time")
    assert book.when(TICK, at="16:00:00").entries() == ()
    assert book.next_due() == "2026-12-01T15:00:00Z"


def test_beh_033_with_the_packaged_names() -> None:
    """The same with a zone's real name: Edmonton as Denver has it, and then as it stays six hours behind."""
    packaged = zones().current
    utc, denver = packaged.content("UTC"), packaged.content("America/Denver")
    old = ZoneDatabase("2026a", {"UTC": utc, "America/Edmonton": denver})
    new = ZoneDatabase("2026b", {"UTC": utc, "America/Edmonton": packaged.content("Etc/GMT+6")})
    book = book_under(old, new, of=cron("0 9 * * *", "America/Edmonton"))
    book.when(adopt(new), at="13:00:00")
    assert moves(book) == [("t", "16:00:00", "15:00:00")]
    book.ticks("15:00:00", "16:00:00", "2026-12-01T15:00:00Z", "2026-12-01T16:00:00Z")
    book.then("released t 15:00:00 on-time", "skipped t 2026-12-01T15:00:00Z overlap")


@pytest.mark.parametrize(
    "at,policy,expected",
    [
        ("15:00:30", "fire-once-now", "released t 15:00:00 on-time"),
        ("15:30:00", "fire-once-now", "released t 15:00:00 caught-up"),
        ("15:30:00", "skip", "skipped t 15:00:00 missed"),
    ],
)
def test_what_moves_into_the_past_is_owed_at_once(at: str, policy: str, expected: str) -> None:
    """An undecided instant that now lies in the past is decided in the next tick, by the policy for missed ones."""
    old, new = databases(WEST, EAST)
    book = book_under(old, new, of=changed(cron("0 9 * * *", ZONE), missed=policy)).given(adopt(new), at=at)
    assert book.next_due() == "15:00:00"
    book.when(TICK, at=at).then(expected)
    assert book.when(TICK, at="16:00:00").entries() == ()


def test_what_moves_beyond_the_horizon_expires() -> None:
    """An instant moved back by more than the horizon does not fire."""
    old, new = databases(WEST, made_zone(-4.5))
    book = book_under(old, new, of=cron("0 9 * * *", ZONE)).given(adopt(new), at="15:59:00")
    book.when(TICK, at="15:59:00").then("expired t 13:30:00 beyond-horizon")


def test_what_moves_onto_a_decided_key_is_coalesced_into_it() -> None:
    """Ten o'clock moves onto the instant at which nine o'clock fired: that key does not fire again."""
    old, new = databases(WEST, EAST)
    book = book_under(old, new, of=cron("0 9-17 * * *", ZONE, overlap="allow")).ticks("16:00:00")
    book.then("released t 16:00:00 on-time").when(adopt(new), at="16:30:00")
    assert moves(book) == [("t", "17:00:00", "16:00:00")]
    book.when(TICK, at="16:30:00").then("coalesced t 16:00:00 coalesced into 16:00:00")
    book.when(TICK, at="17:00:00").then("released t 17:00:00 on-time")


def test_what_moves_between_decided_keys_is_owed() -> None:
    """Shifted by half an hour, no key is taken: ten o'clock is owed at an instant of its own."""
    old, new = databases(WEST, made_zone(-5.5))
    book = book_under(old, new, of=cron("0 9-17 * * *", ZONE, overlap="allow")).ticks("16:00:00")
    book.given(adopt(new), at="16:10:00").when(TICK, at="16:10:00")
    book.then("released t 15:30:00 caught-up").when(TICK, at="16:30:00").then("released t 16:30:00 on-time")


@pytest.mark.parametrize("first,second", [(WEST, EAST), (EAST, WEST)])
def test_a_decided_local_time_is_not_owed_again(first: MadeZone, second: MadeZone) -> None:
    """Nine o'clock has fired: whichever way the clock is set then, the next fire is tomorrow's."""
    old, new = databases(first, second)
    book = book_under(old, new, of=cron("0 9 * * *", ZONE)).ticks("15:00:00", "16:00:00")
    assert len(book.entries()) == 1
    book.when(adopt(new), at="16:01:00")
    for at in ("16:01:00", "17:00:00", "18:00:00", "23:59:00"):
        assert book.when(TICK, at=at).entries() == ()
    assert book.next_due() == f"2026-12-01T1{-second.first_s // 3_600 + 9 - 10}:00:00Z"


def test_nor_after_the_way_back() -> None:
    """Adopted and taken back again, with decisions between: each of three days' nine o'clocks fires once."""
    old, new = databases(WEST, EAST)
    book = book_under(old, new, of=cron("0 9 * * *", ZONE, overlap="allow"))
    fired: list[str] = []
    for at, step in [
        ("2026-11-30T16:00:00Z", None), ("2026-11-30T16:10:00Z", new), ("2026-12-01T15:00:00Z", None),
        ("2026-12-01T15:10:00Z", old), ("2026-12-01T16:00:00Z", None), ("2026-12-02T16:00:00Z", None),
    ]:  # fmt: skip
        if step is not None:
            book.given(adopt(step), at=at)
        fired += [book.brief(entry) for entry in book.when(TICK, at=at).entries()]
    assert fired == [
        "released t 16:00:00 on-time",
        "released t 2026-12-01T15:00:00Z on-time",
        "released t 2026-12-02T16:00:00Z on-time",
    ]


def test_two_adoptions_without_a_decision_between_them() -> None:
    """Only the last one counts: the marks of the first database hold until something is decided."""
    first, second, third = databases(WEST, EAST, made_zone(-5))
    book = book_under(first, second, third, of=cron("0 9-17 * * *", ZONE, overlap="allow")).ticks("16:00:00")
    book.given(adopt(second), at="16:05:00").when(adopt(third), at="16:10:00")
    assert moves(book) == [("t", "16:00:00", "15:00:00")]
    book.when(TICK, at="16:10:00").then(
        "expired t 15:00:00 beyond-horizon", "coalesced t 16:00:00 coalesced into 16:00:00"
    )
    book.when(TICK, at="17:00:00").then("released t 17:00:00 on-time")


def test_keys_of_two_databases_stay_taken() -> None:
    """With decisions between two adoptions, the keys of both databases are known to the third."""
    first, second, third = databases(WEST, EAST, made_zone(-5))
    book = book_under(first, second, third, of=cron("0 9-17 * * *", ZONE, overlap="allow"))
    book.ticks("16:00:00", "17:00:00").given(adopt(second), at="17:05:00").ticks("17:05:00", "18:00:00")
    book.then("coalesced t 17:00:00 coalesced into 17:00:00", "released t 18:00:00 on-time")
    book.given(adopt(third), at="18:05:00").when(TICK, at="18:05:00")
    book.then("coalesced t 18:00:00 coalesced into 18:00:00").when(TICK, at="19:00:00")
    book.then("released t 19:00:00 on-time")


def test_an_interval_like_schedule_keeps_the_old_rules_up_to_the_adoption() -> None:
    """Owed instants up to the adoption's now are the old rules', later ones the new rules'."""
    old, new = databases(made_zone(-7), made_zone(-6.25))
    book = book_under(old, new, of=changed(cron("0 * * * *", ZONE), overlap="allow", missed="fire-all"))
    book.ticks("13:00:00").when(adopt(new), at="14:05:00")
    assert moves(book) == []
    book.when(TICK, at="14:50:00").then("released t 14:00:00 caught-up", "released t 14:15:00 caught-up")
    book.when(TICK, at="15:15:00").then("released t 15:15:00 on-time")


def test_of_an_interval_like_schedule_only_later_instants_move() -> None:
    """The adoption names the move of the next instant when that lies after it."""
    old, new = databases(made_zone(-7), made_zone(-6.25))
    book = book_under(old, new, of=cron("0 * * * *", ZONE)).when(adopt(new), at="12:05:00")
    assert moves(book) == [("t", "13:00:00", "12:15:00")]


def test_three_eras_of_an_interval_like_schedule() -> None:
    """Two adoptions in an outage: each stretch has the rules that held for it, and all of it is counted."""
    made = databases(made_zone(0), made_zone(0.25), made_zone(0.5))
    book = book_under(*made, of=changed(cron("0 * * * *", ZONE), horizon=0, overlap="allow"))
    book.given(adopt(made[1]), at="13:20:00").given(adopt(made[2]), at="14:50:00")
    book.when(TICK, at="16:00:01")
    # 13:00 by the first rules, 13:45 and 14:45 by the second, 15:30 by the third.
    book.then("expired t 13:00:00-15:30:00 x4 beyond-horizon")
    assert book.next_due() == "16:30:00"


def test_a_new_gap_swallows_a_local_time() -> None:
    """02:30 comes to lie in a gap: shifted by default, gone for ever under the rule that skips."""
    old, new = databases(made_zone(0), made_zone(0, ("2026-12-01T02:00:00Z", 1)))
    plain = cron("30 2 * * *", ZONE)
    book = book_under(old, new, of=plain).when(adopt(new), at="13:00:00")
    assert moves(book) == []
    assert book.next_due() == "2026-12-01T02:30:00Z"
    skipping = book_under(old, new, of=changed(plain, gap="skip")).when(adopt(new), at="13:00:00")
    assert moves(skipping) == [("t", "2026-12-01T02:30:00Z", "2026-12-02T01:30:00Z")]


def test_a_vanished_gap_gives_the_local_time_back() -> None:
    """The change is called off an hour after it would have been: what stood in for it has fired and stays decided."""
    old, new = databases(made_zone(0, ("2026-12-01T02:00:00Z", 1)), made_zone(0))
    book = book_under(old, new, of=cron("0,30 2,3 * * *", ZONE, overlap="allow"))
    book.ticks("2026-12-01T02:00:00Z").then("released t 2026-12-01T02:00:00Z on-time")
    # Two o'clock and three o'clock were one instant; half past two is still to come, at its own.
    book.given(adopt(new), at="2026-12-01T02:10:00Z")
    book.ticks("2026-12-01T02:30:00Z", "2026-12-01T03:00:00Z", "2026-12-01T03:30:00Z")
    book.then("released t 2026-12-01T02:30:00Z on-time", "released t 2026-12-01T03:30:00Z on-time")


def test_a_new_fold_does_not_owe_the_hour_again() -> None:
    """01:30 fired before it was known that the hour would be repeated: not even the rule for both passes wants more."""
    old, new = databases(made_zone(1), made_zone(1, ("2026-12-01T01:00:00Z", 0)))
    book = book_under(old, new, of=changed(cron("30 1 * * *", ZONE), fold="both")).ticks("2026-12-01T00:30:00Z")
    book.given(adopt(new), at="2026-12-01T00:40:00Z").when(TICK, at="2026-12-01T01:30:00Z")
    assert book.entries() == ()
    assert book.next_due() == "2026-12-02T01:30:00Z"


def test_a_vanished_fold_runs_once() -> None:
    """The first pass of 01:30 fired; with the fold gone there is no second one."""
    old, new = databases(made_zone(1, ("2026-12-01T01:00:00Z", 0)), made_zone(1))
    book = book_under(old, new, of=changed(cron("30 1 * * *", ZONE), fold="both")).ticks("2026-12-01T00:30:00Z")
    book.given(adopt(new), at="2026-12-01T00:40:00Z").when(TICK, at="2026-12-01T01:30:00Z")
    assert book.entries() == ()


@pytest.mark.parametrize(
    "resume,expected", [(RESUME, "released t 15:00:00 caught-up"), (RESUME_SKIPPING, "skipped t 15:00:00 paused")]
)
def test_adoption_while_paused(resume: c.ResumeTrigger, expected: str) -> None:
    """Nothing is decided before the resume; the moved instant then lies inside the pause."""
    old, new = databases(WEST, EAST)
    book = book_under(old, new, of=cron("0 9 * * *", ZONE)).given(PAUSE, at="14:00:00").given(adopt(new), at="15:10:00")
    assert book.when(TICK, at="15:20:00").entries() == ()
    book.given(resume, at="15:30:00").when(TICK, at="15:30:00").then(expected)
    assert book.when(TICK, at="16:00:00").entries() == ()


def test_a_closed_schedule_keeps_the_rules_of_its_time() -> None:
    """What an amendment left to the old schedule is not moved by a later adoption."""
    old, new = databases(WEST, EAST)
    book = book_under(old, new, of=cron("0 9-17 * * *", ZONE, overlap="allow")).given(
        amend(cron("30 9-17 * * *", ZONE, overlap="allow")), at="16:10:00"
    )
    book.when(adopt(new), at="16:20:00")
    book.when(TICK, at="16:40:00").then(
        "released t 16:00:00 caught-up", "settled t 16:10:00", "released t 16:30:00 caught-up"
    )


def test_an_edit_does_not_bring_a_decided_local_time_back() -> None:
    """Nine o'clock fired, then the tolerance was changed, then the clock was set back: it is not owed again."""
    old, new = databases(EAST, WEST)
    plain = cron("0 9 * * *", ZONE)
    book = book_under(old, new, of=plain).ticks("15:00:00")
    book.given(amend(changed(plain, tolerance=int(MINUTE))), at="15:10:00").given(adopt(new), at="15:20:00")
    assert book.when(TICK, at="16:00:00").entries() == ()
    assert book.next_due() == "2026-12-01T16:00:00Z"


def test_a_one_off_moves_with_its_zone() -> None:
    """A one-off at a local time fires once, where the new rules put it; decided, it is over."""
    old, new = databases(WEST, EAST)
    book = book_under(old, new, of=once("2026-11-30T09:00", ZONE)).when(adopt(new), at="13:00:00")
    assert moves(book) == [("t", "16:00:00", "15:00:00")]
    book.ticks("15:00:00", "16:00:00").then("released t 15:00:00 on-time")
    book.given(adopt(old), at="16:01:00")
    assert book.next_due() is None


def test_intervals_and_utc_do_not_move() -> None:
    """What has no zone, or one that stays as it is, is not named."""
    old, new = databases(WEST, EAST)
    book = book_under(old, new, of=every("90m", START)).given(create(cron("0 9 * * *"), "u"))
    book.when(adopt(new), at="12:10:00")
    assert moves(book) == []
    assert book.next_due() == "13:30:00"


def test_excluded_dates_are_those_of_the_new_clock() -> None:
    """A local date is excluded by the clock that holds: midnight moves across it."""
    old, new = databases(WEST, EAST)
    day = parse_instant("2026-12-01T00:00:00Z") // int(24 * HOUR)
    book = book_under(old, new, of=changed(cron("0 9 * * *", ZONE), excluded=(day,))).ticks("16:00:00")
    book.given(adopt(new), at="16:01:00")
    assert book.next_due() == "2026-12-02T15:00:00Z"


def test_the_list_of_what_moves_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the next undecided instants before and after, by name, and counts all when there are too many."""
    old, new = databases(WEST, EAST)
    book = book_under(old, new, of=cron("0 9 * * *", ZONE))
    for place, text in enumerate(["0 9 * * *", "0 8 * * *", "*/15 * * * *", "0 */2 * * *", "30 7-9 * * *"]):
        book.given(create(cron(text, ZONE), f"n{place}"), at="14:40:00")
    book.given(create(cron("0 9 * * *", ZONE), "gone")).given(c.DeleteTrigger(trigger="gone"))
    book.when(adopt(new), at="15:05:00")
    # Eight o'clock would now have been before the trigger was created; of n4 another local time has the same instant.
    wanted = [("n0", "16:00:00", "15:00:00"), ("n1", "15:00:00", "2026-12-01T14:00:00Z"), ("t", "16:00:00", "15:00:00")]
    assert moves(book) == wanted
    monkeypatch.setattr("fireledger.domain.adoption.MOVED_NAMED_MAX", 1)
    book.when(adopt(old), at="15:05:00")
    assert (len(adopted(book).moved), adopted(book).moved_count) == (1, 3)


def test_the_present_database_is_no_change() -> None:
    """Adopting what is adopted already writes nothing."""
    (old,) = databases(WEST)
    assert book_under(old, of=cron("0 9 * * *", ZONE)).when(adopt(old), at="13:00:00").entries() == ()


def test_unknown_bytes_are_refused() -> None:
    """A database that this process has not loaded cannot be adopted."""
    old, new = databases(WEST, EAST)
    book = book_under(old, of=cron("0 9 * * *", ZONE))
    book.when(adopt(new), at="13:00:00").then_refused(RejectionCode.ZONE_UNKNOWN)


def test_a_database_without_a_zone_in_use_is_refused() -> None:
    """A zone that a trigger or the tenant uses must be in it."""
    (old,) = databases(WEST)
    book = book_under(old, of=cron("0 9 * * *", ZONE))
    lacking = ZoneDatabase("2026b", {"UTC": MadeZone(0).tzif()})
    book.zones = ZoneLibrary(old, lacking)
    book.when(adopt(lacking), at="13:00:00").then_refused(RejectionCode.ZONE_UNKNOWN)


def test_a_book_adopts_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state does not grow without end."""
    monkeypatch.setattr("fireledger.domain.adoption.ADOPTIONS_MAX", 2)
    assert limits.ADOPTIONS_MAX > 2
    first, second, third = databases(WEST, EAST, made_zone(-5))
    book = book_under(first, second, third, of=cron("0 9 * * *", ZONE)).given(adopt(second), at="13:00:00")
    book.when(adopt(third), at="13:01:00").then_refused(RejectionCode.VALUE_REFUSED)


def test_memory_of_earlier_data_ends() -> None:
    """A few days after an adoption nothing of the earlier database is kept in the state."""
    old, new = databases(WEST, EAST)
    book = book_under(old, new, of=cron("0 9 * * *", ZONE, overlap="allow")).ticks("16:00:00")
    book.given(adopt(new), at="16:30:00")
    for day in range(1, 5):
        book.when(TICK, at=f"2026-12-0{day}T15:00:00Z")
    assert book.trigger().segments[-1].earlier == ()
