"""The published behaviour cases about owners, clocks, edits, overlap and crashes, on the whole service.

What test_behaviour_cases.py says of itself holds here too.
"""

import pytest

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import HOUR, MINUTE, SECOND, format_instant
from tests.simulation.hooks import database_versions
from tests.simulation.stage import Stage, played, rest
from tests.unit.domain.given import DELETE, amend, cron, every, once

pytestmark = pytest.mark.slow
DAY_OF = "2026-11-30T"


def test_beh_027_owners_that_come_and_go() -> None:
    """Schedulers start and stop around the slot and all believe that they own it: it fires once."""

    async def script(stage: Stage) -> None:
        """Three changes within fifteen seconds."""
        first, second = stage.schedulers
        await stage.create(cron("0 7 * * *"))
        await stage.at("06:59:50")
        await stage.crash(first)
        await stage.begin(first)
        for node in (first, second):
            assert node.ownership is not None
            node.ownership.insist(insisting=True)
        await stage.at("07:00:05")
        await stage.crash(second)
        await stage.begin(second)
        await stage.at("07:00:40")

    assert played(f"{DAY_OF}06:59:30Z", script).released() == ["07:00:00"]


def test_beh_028_a_slower_clock_finds_the_slot_decided() -> None:
    """Two schedulers with clocks five seconds apart both own everything: the slot fires once."""

    async def script(stage: Stage) -> None:
        """The second is five seconds behind."""
        stage.lied()
        first, second = stage.schedulers
        second.time.skew = -5 * SECOND
        await stage.crash(second)
        await stage.begin(second)
        await stage.create(cron("0 10 * * *"))
        await rest(5)
        for node in (first, second):
            assert node.ownership is not None
            node.ownership.insist(insisting=True)
        await stage.at("10:00:30")

    assert played(f"{DAY_OF}09:59:30Z", script).released() == ["10:00:00"]


def test_beh_030_the_clock_steps_back_an_hour() -> None:
    """Both schedulers go back from 10:30 to 09:30 for a while: no second 10:00, 11:00 once, and no busy loop."""

    async def script(stage: Stage) -> None:
        """One holds, one accepts; put right before 11:00."""
        await stage.create(cron("0 * * * *"))
        await stage.at("10:00:20")
        await stage.away_until("10:30:00")
        await rest(20)
        stage.lied()
        stage.report.actions.clear()
        for node in stage.schedulers:
            node.time.step = -HOUR
        await stage.at("10:33:00")
        assert sum(stage.report.actions.values()) < 500
        for node in stage.schedulers:
            node.time.step = 0
        await stage.away_until("10:59:40")
        await stage.at("11:00:20")

    assert played(f"{DAY_OF}09:59:30Z", script).released() == ["10:00:00", "11:00:00"]


def test_beh_031_the_clock_is_set_back_twelve_hours() -> None:
    """While the clock is behind its book nothing is decided and the status says why; put right, it goes on at once."""
    blocked: list[str] = []

    async def script(stage: Stage) -> None:
        """Wrong for a minute."""
        await stage.create(every("20s", "2026-11-30T14:00:00Z"))
        await stage.at("14:00:05")
        stage.lied()
        for node in stage.schedulers:
            node.time.step = -12 * HOUR
        await stage.at("14:01:05")
        for node in stage.schedulers:
            if node.scheduler is not None:
                blocked.extend(book.reason for book in node.scheduler.snapshot().blocked)
            node.time.step = 0
        await stage.at("14:01:50")

    stage = played(f"{DAY_OF}13:59:30Z", script)
    assert "clock-behind-book" in blocked
    assert stage.released()[-2:] == ["14:01:20", "14:01:40"]


def test_beh_033_new_zone_data_moves_an_armed_fire() -> None:
    """An hour earlier under the new data: it fires once, then, and the book names the old and the new instant."""

    async def script(stage: Stage) -> None:
        """Adopted an hour and a half before the old instant, which is 14:00 UTC."""
        _, moved = database_versions()
        await stage.create(cron("0 9 * * *", "America/New_York"))
        await stage.at("11:30:00")
        await stage.give(c.AdoptZoneData(version=moved.version, sha256=moved.sha256))
        for when in ("11:59:45", "12:59:45", "13:59:45"):
            await stage.away_until(when)
            await rest()

    stage = played(f"{DAY_OF}11:29:30Z", script)
    (adopted,) = [x for _, x in stage.entries() if isinstance(x, e.ZoneDataAdopted) and x.moved]
    (move,) = adopted.moved
    assert [stage.short(at or 0) for at in (move.old, move.new)] == ["14:00:00", "12:00:00"]
    assert stage.released() == ["12:00:00"]


def test_beh_037_jitter_is_not_drawn_again() -> None:
    """Restarts inside a jitter window of 22 hours leave the release as first drawn."""
    release: list[int] = []

    async def script(stage: Stage) -> None:
        """Restarted at 01:30 and 06:00, and just before the release."""
        await stage.create(cron("0 0 * * *", jitter=22 * HOUR, missed="skip"))
        for when in ("2026-02-19T01:30:00Z", "2026-02-19T06:00:00Z"):
            await stage.away_until(when)
            await rest()
        (node, *_) = [node for node in stage.schedulers if node.scheduler is not None]
        assert node.scheduler is not None
        dues = [each.scheduler.snapshot().next_due_at for each in stage.schedulers if each.scheduler is not None]
        release.extend(due for due in dues if due is not None)
        await stage.away_until(format_instant(release[0] - 40 * SECOND))
        await rest(60)

    stage = played("2026-02-18T23:59:00Z", script)
    (entry,) = [entry for _, entry in stage.entries() if isinstance(entry, e.FireReleased)]
    assert (stage.short(entry.scheduled), entry.release) == ("2026-02-19T00:00:00Z", release[0])


def test_beh_039_the_maximum_is_claimed_with_the_slot() -> None:
    """With a maximum of one and runs of five seconds, one slot fires and one call is made, acknowledgements lost."""

    async def script(stage: Stage) -> None:
        """Every second answer is lost."""
        stage.executors.script = lambda _key: 5.0
        for node in (*stage.schedulers, *stage.dispatchers):
            node.link.trouble.lost_answers = 0.5
        await stage.create(every("1s", "2026-11-30T09:00:00Z", max_fires=1))
        await rest(60)

    stage = played(f"{DAY_OF}09:00:00Z", script)
    assert len(stage.released()) == 1
    assert stage.executors.call_count == 1


def test_beh_040_a_one_off_in_the_past_is_refused() -> None:
    """Nothing is written and nothing fires."""

    async def script(stage: Stage) -> None:
        """Asked for six years too late."""
        await stage.create(once("2020-01-01T00:00"))
        await rest()

    stage = played("2026-08-26T00:00:00Z", script)
    assert stage.story() == []
    assert len(stage.pages()) == 1


def test_beh_042_a_fire_a_month_away() -> None:
    """No fire before it, exactly one then."""

    async def script(stage: Stage) -> None:
        """Looked at now and then."""
        await stage.create(once("2026-02-01T04:00"))
        await rest()
        for when in ("2026-01-15T00:00:00Z", "2026-01-27T00:00:00Z", "2026-02-01T03:59:30Z"):
            await stage.away_until(when)
            await rest()
        await rest(30)

    stage = played("2026-01-02T00:00:00Z", script)
    assert stage.released_at() == ["2026-02-01T04:00:00Z"]


def test_beh_043_a_deleted_trigger_does_not_fire() -> None:
    """After the deletion nothing of it is released or called."""

    async def script(stage: Stage) -> None:
        """Deleted at :25."""
        await stage.create(every("10s", f"{DAY_OF}09:00:00Z"))
        await stage.at("09:00:25")
        await stage.give(DELETE)
        await stage.at("09:01:20")

    stage = played(f"{DAY_OF}09:00:03Z", script)
    assert stage.released() == ["09:00:10", "09:00:20"]
    assert stage.executors.call_count == 2


def test_beh_046_edits_do_not_multiply_runs() -> None:
    """Between edits one fire per slot of the current definition, after the deletion none."""

    async def script(stage: Stage) -> None:
        """Four edits, then deleted."""
        await stage.create(cron("*/3 * * * *"))
        for when, step in (("10:36:30", 4), ("10:41:30", 6), ("10:50:30", 5), ("10:56:30", 2)):
            await stage.at(when)
            await stage.give(amend(cron(f"*/{step} * * * *")))
        await stage.at("11:00:30")
        await stage.give(DELETE)
        await stage.at("11:03:00")

    assert played(f"{DAY_OF}10:32:30Z", script).released() == [
        "10:33:00", "10:36:00", "10:40:00", "10:42:00", "10:48:00", "10:55:00", "10:58:00", "11:00:00",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "overlap,expected",
    [
        ("skip", ["released 10:00:00 on-time", "skipped 10:01:00 overlap", "released 10:02:00 on-time"]),
        ("queue", ["released 10:00:00 on-time", "released 10:01:00 on-time", "released 10:02:00 on-time"]),
    ],
)
def test_beh_048_runs_longer_than_their_interval(overlap: str, expected: list[str]) -> None:
    """With skip every second slot is recorded as skipped; with queue each waits for the one before."""

    async def script(stage: Stage) -> None:
        """A minutely trigger whose runs take 65 seconds."""
        stage.executors.script = lambda _key: 65.0
        await stage.create(cron("* * * * *", overlap=overlap, timeout=2 * MINUTE))
        await stage.at("10:02:20" if overlap == "skip" else "10:02:58")

    story = played(f"{DAY_OF}09:59:30Z", script).story()
    assert [line for line in story if not line.startswith("waits")] == expected


def test_beh_049_at_most_one_fire_waits() -> None:
    """During a run of five and a half minutes the newest slot waits, the others are replaced; one fire follows."""

    async def script(stage: Stage) -> None:
        """The first run is long."""
        long_one = stage.instant("10:00:00")
        stage.executors.script = lambda key: 330.0 if key.scheduled == long_one else 0.1
        await stage.create(cron("* * * * *", overlap="queue", timeout=6 * MINUTE))
        await stage.at("10:05:50")

    story = played(f"{DAY_OF}09:59:30Z", script).story()
    assert [line for line in story if line.startswith("withdrawn")] == [
        f"withdrawn 10:0{minute}:00 replaced" for minute in range(1, 5)
    ]
    assert [line for line in story if line.startswith("released")] == [
        "released 10:00:00 on-time",
        "released 10:05:00 on-time",
    ]


def test_beh_051_and_052_lost_acknowledgements() -> None:
    """Answers are lost and the scheduler restarts over the slot: one decision, one fire, one effect under one key."""

    async def script(stage: Stage) -> None:
        """Three quarters of all answers are lost around 10:00."""
        await stage.create(cron("0 * * * *"))
        await stage.at("09:59:58")
        for node in (*stage.schedulers, *stage.dispatchers):
            node.link.trouble.lost_answers = 0.75
        await stage.at("10:00:02")
        await stage.crash(*stage.schedulers)
        await stage.begin(*stage.schedulers)
        await stage.at("10:02:00")

    stage = played(f"{DAY_OF}09:59:30Z", script)
    assert stage.released() == ["10:00:00"]
    assert {key for key, _ in stage.executors.calls} == {FireKey("acme", "t", stage.instant("10:00:00"))}


def test_beh_054_a_crash_leaves_no_lock_behind() -> None:
    """The dispatcher is killed in the middle of a run: it is sent again, and the next minutes fire."""

    async def script(stage: Stage) -> None:
        """Every process is killed at 10:00:01, and comes back."""
        slot = stage.instant("10:00:00")
        stage.executors.script = lambda key: 4.0 if key.scheduled == slot else 0.1
        await stage.create(cron("* * * * *", overlap="skip", timeout=10 * SECOND))
        await stage.at("10:00:01")
        await stage.crash(*stage.dispatchers, *stage.schedulers)
        await stage.begin(*stage.dispatchers, *stage.schedulers)
        await stage.at("10:02:10")

    stage = played(f"{DAY_OF}09:59:30Z", script)
    assert stage.released() == ["10:00:00", "10:01:00", "10:02:00"]
    assert stage.executors.calls[FireKey("acme", "t", stage.instant("10:00:00")), 1] == 2


def test_beh_055_a_late_finisher_frees_nothing() -> None:
    """A run outlasts its outcome window and ends unknown; its late end changes nothing for the run that followed."""

    async def script(stage: Stage) -> None:
        """10:00 hangs for 100 seconds, 10:01 for 90."""
        first, second = stage.instant("10:00:00"), stage.instant("10:01:00")
        stage.executors.script = lambda key: {first: 100.0, second: 90.0}.get(key.scheduled, 0.1)
        await stage.create(cron("* * * * *", overlap="skip", outcome_window=50 * SECOND, timeout=5 * MINUTE))
        await stage.at("10:00:55")
        await stage.give(amend(cron("* * * * *", overlap="skip", outcome_window=5 * MINUTE, timeout=5 * MINUTE)))
        await stage.at("10:03:10")

    stage = played(f"{DAY_OF}09:59:30Z", script)
    assert stage.outcomes() == ["10:00:00 unknown", "10:01:00 succeeded", "10:03:00 succeeded"]
    assert stage.story() == [
        "released 10:00:00 on-time",
        "released 10:01:00 on-time",
        "skipped 10:02:00 overlap",
        "released 10:03:00 on-time",
    ]


def test_a_release_and_its_start_read_together_are_not_sent_again() -> None:
    """Two dispatchers own everything and one hears late: what the other has started already is left to it."""

    async def script(stage: Stage) -> None:
        """A dozen fires, each running for three seconds."""
        stage.executors.script = lambda _key: 3.0
        for node in stage.dispatchers:
            assert node.ownership is not None
            node.ownership.insist(insisting=True)
        stage.dispatchers[0].link.trouble.read_delay_s = 2.0
        await stage.create(every("5s", f"{DAY_OF}09:00:00Z"))
        await stage.at("09:01:03")

    stage = played(f"{DAY_OF}09:00:00Z", script)
    assert len(stage.executors.calls) >= 12
    assert set(stage.executors.calls.values()) == {1}
