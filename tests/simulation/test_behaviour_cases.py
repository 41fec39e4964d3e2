"""The published behaviour cases on the whole service, each under its id, as RULINGS reads them.

Restarts are restarts here, sleeping is frozen processes, and clocks are set wrong. What a case needs of the domain
alone is in tests/unit/domain/test_behaviours.py; docs/testing.md says which case is where.
"""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.instants import DAY, MINUTE, SECOND
from tests.simulation.stage import Stage, played, rest
from tests.unit.domain.given import PAUSE, RESUME, amend, changed, cron, every

pytestmark = pytest.mark.slow
DAY_OF = "2026-11-30T"


@pytest.mark.parametrize(
    "changes,outcome",
    [
        ({"horizon": 10 * MINUTE}, "released 15:00:00 caught-up"),
        ({"missed": "skip"}, "skipped 15:00:00 missed"),
        ({"horizon": 60 * SECOND}, "expired 15:00:00 beyond-horizon"),
    ],
)
def test_beh_001_down_six_minutes_over_the_slot(changes: dict[str, object], outcome: str) -> None:
    """After the restart the slot meets its policy once, and nothing else happens until tomorrow."""

    async def script(stage: Stage) -> None:
        """Down from 14:57 to 15:03."""
        await stage.create(changed(cron("0 15 * * *"), **changes))
        await stage.at("14:57:00")
        await stage.crash(*stage.schedulers)
        await stage.at("15:03:00")
        await stage.begin(*stage.schedulers)
        await stage.at("15:04:30")

    stage = played(f"{DAY_OF}14:56:30Z", script)
    assert [line for line in stage.story() if not line.startswith("waits")] == [outcome]


def test_beh_003_a_day_down_with_a_cap() -> None:
    """The newest ten of 144 fire one after the other, oldest first; 134 are dropped; the next one is on time."""

    async def script(stage: Stage) -> None:
        """A day without any process."""
        await stage.create(cron("*/10 * * * *", missed="fire-all", cap=10, horizon=DAY))
        await stage.at("2026-11-01T00:05:00Z")
        await stage.away_until("2026-11-02T00:05:00Z")
        await stage.at("2026-11-02T00:10:30Z")

    stage = played("2026-11-01T00:04:30Z", script)
    story = [line for line in stage.story() if not line.startswith("waits")]
    assert story[0] == "dropped 00:10:00-2026-11-01T22:20:00Z x134 over-cap".replace("2026-11-01T22:20:00Z", "22:20:00")
    assert len(story) == 12
    assert story[1:3] == ["released 22:30:00 caught-up", "released 22:40:00 caught-up"]
    assert story[-2:] == ["released 2026-11-02T00:00:00Z caught-up", "released 2026-11-02T00:10:00Z on-time"]


def test_beh_006_skip_still_fires_on_time() -> None:
    """With the policy skip a slot is seen a moment late, and fires."""

    async def script(stage: Stage) -> None:
        """Just wait for it."""
        await stage.create(cron("0 2 * * *", missed="skip"))
        await stage.at("02:00:30")

    assert played(f"{DAY_OF}01:59:00Z", script).story() == ["released 02:00:00 on-time"]


@pytest.mark.parametrize(
    "until,story",
    [
        ("10:01:01.1", ["released 10:00:00 on-time", "released 10:01:00 on-time"]),
        ("10:02:30", ["released 10:00:00 on-time", "coalesced 10:01:00 coalesced", "released 10:02:00 on-time"]),
    ],
)
def test_beh_007_a_late_look_loses_nothing(until: str, story: list[str]) -> None:
    """However late the next look is, it begins at the last instant decided."""

    async def script(stage: Stage) -> None:
        """Nothing gets out of any scheduler for a while."""
        await stage.create(cron("* * * * *"))
        await stage.at("10:00:30")
        for node in stage.schedulers:
            node.link.freeze()
        await stage.at(until)
        for node in stage.schedulers:
            node.link.thaw()
        await rest(12)

    assert played(f"{DAY_OF}09:59:30Z", script).story() == story


@pytest.mark.parametrize(
    "policy,stretch",
    [("skip", "skipped 15:44:00-15:46:00 x3 missed"), ("fire-once-now", "coalesced 15:44:00-15:46:00 x3 coalesced")],
)
def test_beh_009_a_laptop_sleeps(policy: str, stretch: str) -> None:
    """After the sleep the missed minutes meet the policy, the last one is on time, and the next fires as ever."""

    async def script(stage: Stage) -> None:
        """Nobody does anything from 15:43:10 to 15:47:33."""
        await stage.create(cron("* * * * *", missed=policy))
        await stage.at("15:43:10")
        await stage.crash(*stage.schedulers, *stage.dispatchers)
        await stage.at("15:47:33")
        await stage.begin(*stage.schedulers, *stage.dispatchers)
        await stage.at("15:48:20")

    story = played(f"{DAY_OF}15:42:30Z", script).story()
    assert story == ["released 15:43:00 on-time", stretch, "released 15:47:00 on-time", "released 15:48:00 on-time"]


def test_beh_010_waking_up_does_not_spin() -> None:
    """After 84 minutes the missed slots are handled once, and few pages and log lines follow."""

    async def script(stage: Stage) -> None:
        """Asleep for 84 minutes, then ten quiet minutes."""
        await stage.create(cron("*/5 * * * *"))
        await stage.at("10:01:00")
        await stage.away_until("11:25:00")
        await rest(60)
        stage.report.actions.clear()
        await stage.at("11:29:50")

    stage = played(f"{DAY_OF}10:00:30Z", script)
    assert stage.released() == ["11:25:00"]
    assert sum(stage.report.actions.values()) < 100
    assert len(stage.pages()) < 10


def test_beh_012_pause_four_minutes() -> None:
    """Nothing of the pause fires; the next minute does."""

    async def script(stage: Stage) -> None:
        """Paused from 11:31:20 to 11:35:40."""
        await stage.create(cron("* * * * *", missed="skip"))
        await stage.at("11:31:20")
        await stage.give(PAUSE)
        await stage.at("11:35:40")
        await stage.give(RESUME)
        await stage.at("11:36:10")

    assert played(f"{DAY_OF}11:30:30Z", script).story() == [
        "released 11:31:00 on-time",
        "skipped 11:32:00-11:35:00 x4 paused",
        "released 11:36:00 on-time",
    ]


def test_beh_013_resume_after_a_month() -> None:
    """Two range entries hold 4,460 instants, nothing fires at the resume, and the next one does."""

    async def script(stage: Stage) -> None:
        """Paused for a month in which no process runs."""
        await stage.create(cron("*/10 * * * *", missed="skip", cap=100))
        await stage.at("2026-05-01T09:03:00Z")
        await stage.give(PAUSE)
        await stage.away_until("2026-06-01T09:02:30Z")
        await stage.at("2026-06-01T09:03:00Z")
        await stage.give(RESUME)
        await stage.at("2026-06-01T09:10:30Z")

    stage = played("2026-05-01T09:02:00Z", script)
    ranges = [entry for _, entry in stage.entries() if isinstance(entry, e.InstantsResolved)]
    assert [(entry.state, entry.count) for entry in ranges] == [("expired", 4458), ("skipped", 6)]
    assert stage.released() == ["2026-06-01T09:10:00Z"]


def test_beh_015_first_activation() -> None:
    """Created paused and activated at 14:20: no run for any earlier hour, 15:00 fires."""

    async def script(stage: Stage) -> None:
        """Activated long after its creation."""
        await stage.create(cron("0 * * * *", missed="skip"), paused=True)
        await stage.away_until("14:19:30")
        await stage.at("14:20:00")
        await stage.give(RESUME)
        await stage.away_until("14:59:30")
        await stage.at("15:00:20")

    assert played(f"{DAY_OF}13:30:00Z", script).story() == [
        "skipped 14:00:00 paused",
        "released 15:00:00 on-time",
    ]


def test_beh_016_and_018_edits_fire_nothing() -> None:
    """A schedule changed to a time that is over fires tomorrow; one changed to a later time fires then, once."""

    async def script(stage: Stage) -> None:
        """Two triggers, edited at 12:20."""
        await stage.create(cron("0 1 * * *"), "past")
        await stage.create(cron("30 13 * * *"), "later")
        await stage.at("12:20:00")
        await stage.give(amend(cron("0 9 * * *"), "past"))
        await stage.give(amend(cron("0 16 * * *"), "later"))
        await stage.at("12:21:00")
        await stage.away_until("13:29:50")
        await stage.at("13:30:20")
        await stage.away_until("15:59:50")
        await stage.at("16:00:20")
        await stage.away_until("2026-12-01T08:59:50Z")
        await stage.at("2026-12-01T09:00:20Z")

    stage = played(f"{DAY_OF}12:19:00Z", script)
    assert stage.released("past") == ["2026-12-01T09:00:00Z"]
    assert stage.released("later") == ["16:00:00"]


def test_beh_019_and_036_edits_and_restarts_inside_the_jitter_window() -> None:
    """Saving the same definition, and restarting, between nominal and jittered time leave the fire as drawn, once."""

    async def script(stage: Stage) -> None:
        """Both at 12:20:00, just after the nominal instant."""
        definition = cron("*/5 * * * *", jitter=60 * SECOND)
        await stage.create(definition)
        await stage.at("12:20:00.05")
        await stage.give(amend(definition))
        await stage.away_until("12:20:00.5")
        await stage.at("12:21:10")

    stage = played(f"{DAY_OF}12:19:00Z", script)
    ((at, entry),) = [(at, entry) for at, entry in stage.entries() if isinstance(entry, e.FireReleased)]
    assert stage.short(entry.scheduled) == "12:20:00"
    assert entry.scheduled < entry.release < entry.scheduled + 60 * SECOND
    assert at - entry.release < 12 * SECOND


def test_beh_021_a_long_interval_is_reached() -> None:
    """Daily edits and restarts leave the grid of three days on its anchor."""

    async def script(stage: Stage) -> None:
        """An edit of another trigger and a restart each day."""
        await stage.create(every("3d", "2026-05-01T00:00:00Z"))
        await stage.create(cron("1 3 * * *"), "other")
        for day in range(2, 5):
            await stage.away_until(f"2026-05-0{day}T00:00:00Z")
            await rest()
            await stage.give(amend(cron(f"{day} 3 * * *"), "other"))

    stage = played("2026-05-01T00:00:10Z", script)
    assert stage.released() == ["2026-05-04T00:00:00Z"]


def test_beh_022_and_024_a_restart_neither_repeats_nor_leaps() -> None:
    """Killed after the fire, the service finds its decision in the book; tomorrow's fire comes."""

    async def script(stage: Stage) -> None:
        """22:00 in Santiago is 01:00 UTC."""
        await stage.create(cron("0 22 * * *", "America/New_York"))
        await stage.at("2026-12-01T03:00:30Z")
        await stage.away_until("2026-12-01T03:30:37Z")
        await rest()
        await stage.away_until("2026-12-02T02:59:45Z")
        await stage.at("2026-12-02T03:00:30Z")

    stage = played("2026-12-01T02:59:30Z", script)
    assert stage.released() == ["03:00:00", "2026-12-02T03:00:00Z"]


def test_beh_025_deployments_do_not_reset_intervals() -> None:
    """Restarted again and again, an hourly interval fires on its anchor's grid."""

    async def script(stage: Stage) -> None:
        """Restarts every 45 minutes."""
        await stage.create(every("1h", "2026-11-30T00:00:00Z"))
        for when in ("00:45:00", "00:59:45", "01:30:00", "01:59:45", "02:15:00", "02:59:45"):
            await stage.away_until(when)
            await rest()

    assert played("2026-11-30T00:00:10Z", script).released() == ["01:00:00", "02:00:00", "03:00:00"]


def test_beh_034_an_interval_across_a_change_of_clocks() -> None:
    """Every two hours is two real hours, whatever the clocks of its zone do in between."""

    async def script(stage: Stage) -> None:
        """New York goes forward at 07:00 UTC."""
        await stage.create(changed(every("2h", "2026-03-08T05:00:00Z"), zone="America/New_York"))
        for when in ("06:59:40", "08:59:40", "10:59:40"):
            await stage.away_until(when)
            await rest(40)

    assert played("2026-03-08T05:00:10Z", script).released() == ["07:00:00", "09:00:00", "11:00:00"]
