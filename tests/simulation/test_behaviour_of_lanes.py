"""Catch-up and its lanes on the whole service: a storm of many triggers, tenants side by side, a month away."""

from collections import Counter

import pytest

from fireledger.domain import entries as e
from fireledger.domain.definition import Retry, TenantSettings
from fireledger.domain.instants import DAY, HOUR, MINUTE, SECOND
from fireledger.runners.scheduler.pacing import LaneRates
from tests.simulation.executors import Answer
from tests.simulation.stage import TENANT, Stage, played, rest
from tests.unit.domain.given import cron, every

DAY_OF = "2026-11-30T"
WIDE = TenantSettings(quota_per_second=1_000)
OTHER = "acme-north"


def releases(stage: Stage, cause: str) -> list[tuple[int, str, e.FireReleased]]:
    """Effective releases with this cause: the broker's timestamp, the tenant, the entry."""
    return [
        (each.at, each.page.tenant, entry)
        for each in stage.pages()
        if each.effective
        for entry in each.page.entries
        if isinstance(entry, e.FireReleased) and entry.cause == cause
    ]


def most_within(instants: list[int], window: int) -> int:
    """The most of the ascending instants that lie in one half-open window."""
    first = most = 0
    for place, at in enumerate(instants):
        while instants[first] <= at - window:
            first += 1
        most = max(most, place - first + 1)
    return most


def storm(trigger_count: int, rate: int) -> Stage:
    """An hour without schedulers under so many five-minute triggers, with a restart in the middle of catching up."""

    async def script(stage: Stage) -> None:
        """Down from 10:01 to 11:01:10; a per-minute trigger beside the others."""
        for number in range(trigger_count):
            await stage.create(cron("*/5 * * * *", missed="fire-all", cap=12, horizon=2 * HOUR), f"many-{number}")
        await stage.create(cron("* * * * *", missed="skip"), "minutely")
        await stage.at("10:01:00")
        await stage.crash(*stage.nodes)
        await stage.at("11:01:10")
        await stage.begin(*stage.nodes)
        await stage.at("11:01:30")
        await stage.crash(*stage.schedulers)
        await stage.begin(*stage.schedulers)
        for _ in range(40):
            await rest(30)
            if not stage.left_over():
                break
        await rest(60)

    return played(f"{DAY_OF}10:00:20Z", script, WIDE, lanes=LaneRates(catch_up=rate))


@pytest.mark.parametrize(
    "trigger_count,rate",
    [pytest.param(40, 10, marks=pytest.mark.slow), pytest.param(500, 50, marks=(pytest.mark.long,))],
)
def test_beh_004_a_storm_is_spread_out(trigger_count: int, rate: int) -> None:
    """Twelve fires of each trigger, none twice, at the declared rate; a per-minute trigger keeps its lateness."""
    stage = storm(trigger_count, rate)
    caught_up = [found for found in releases(stage, "caught-up") if found[2].trigger != "minutely"]
    count = Counter(entry.trigger for _, _, entry in caught_up)
    assert set(count.values()) == {12}
    assert len(count) == trigger_count
    keys = [entry.key(TENANT) for _, _, entry in caught_up]
    assert len(keys) == len(set(keys))
    assert most_within([at for at, _, _ in caught_up], 10 * SECOND) <= 10 * rate + rate
    minutely = [(at, entry) for at, _, entry in releases(stage, "on-time") if entry.trigger == "minutely"]
    late = [at - entry.release for at, entry in minutely if entry.scheduled > stage.instant("11:01:45")]
    assert len(late) >= 2
    assert max(late) < SECOND


def test_two_tenants_share_a_lane() -> None:
    """While both have fires waiting, neither gets less than two fifths of what the lane releases."""

    async def script(stage: Stage) -> None:
        """One scheduler; the first tenant has five times as much to catch up."""
        await stage.crash(stage.schedulers[1])
        await stage.open(WIDE, OTHER)
        for number in range(25):
            definition = every("10s", f"{DAY_OF}10:00:00Z", missed="fire-all", cap=12, overlap="allow")
            await stage.create(definition, f"t{number}")
            if number < 5:
                await stage.create(definition, f"t{number}", tenant=OTHER)
        await stage.at("10:00:50")
        await stage.crash(stage.schedulers[0])
        await stage.at("10:10:00")
        await stage.begin(stage.schedulers[0])
        await stage.at("10:11:30")

    stage = played(f"{DAY_OF}10:00:00Z", script, WIDE, lanes=LaneRates(catch_up=10))
    found = releases(stage, "caught-up")
    last = max(at for at, tenant, _ in found if tenant == OTHER)
    both = [(at, tenant) for at, tenant, _ in found if at <= last]
    assert len(both) >= 100
    begin = both[0][0]
    for start in range(begin, last - 4 * SECOND, SECOND):
        share = Counter(tenant for at, tenant in both if start <= at < start + 4 * SECOND)
        assert min(share[TENANT], share[OTHER]) >= 0.4 * share.total(), (start, share)


def test_a_backlog_retries_in_its_turn() -> None:
    """A caught-up fire that failed is tried again although others of its lane never stop waiting."""

    async def script(stage: Stage) -> None:
        """The first attempts fail; the lane releases one fire a second."""
        stage.executors.answers = lambda _key, attempt: (0.02, Answer("retryable" if attempt == 1 else "succeeded"))
        for number in range(4):
            retry = Retry(attempts=2, base=SECOND, cap=SECOND)
            await stage.create(every("10s", f"{DAY_OF}10:00:00Z", missed="fire-all", cap=12, retry=retry), f"t{number}")
        await stage.at("10:00:45")
        await stage.crash(*stage.schedulers)
        await stage.at("10:03:00")
        await stage.begin(*stage.schedulers)
        await stage.at("10:04:30")

    stage = played(f"{DAY_OF}10:00:00Z", script, WIDE, lanes=LaneRates(catch_up=1))
    again = [at for at, _, entry in releases(stage, "caught-up") if entry.attempt == 2]
    assert again
    assert again[0] < stage.instant("10:03:30")


@pytest.mark.parametrize(
    "policy,story",
    [
        ("skip", ["skipped 09:30:00-10:00:00 x4 missed"]),
        ("fire-once-now", ["coalesced 09:30:00-09:50:00 x3 coalesced", "released 10:00:00 caught-up"]),
        (
            "fire-all",
            [
                "dropped 09:30:00-09:40:00 x2 over-cap",
                "released 09:50:00 caught-up",
                "released 10:00:00 caught-up",
            ],
        ),
    ],
)
def test_a_month_without_any_process(policy: str, story: list[str]) -> None:
    """What is beyond the horizon is one range with an exact count; the rest meets its policy; the next is on time."""

    async def script(stage: Stage) -> None:
        """Gone for thirty days; back at five past ten."""
        await stage.create(cron("*/10 * * * *", missed=policy, cap=2, horizon=40 * MINUTE))
        await stage.away_until("2026-12-30T10:05:00Z")
        await stage.at("2026-12-30T10:10:30Z")

    stage = played(f"{DAY_OF}10:00:30Z", script)
    day = "2026-12-30T"
    lines = [line for line in stage.story() if not line.startswith("waits")]
    count = 30 * DAY // (10 * MINUTE) - 4
    assert lines[0] == f"expired 10:10:00-{day}09:20:00Z x{count} beyond-horizon"
    assert [line.replace(day, "").replace("Z", "") for line in lines[1:]] == [*story, "released 10:10:00 on-time"]


def test_beh_045_a_lost_row_is_found_by_the_audit() -> None:
    """A row of the due calendar is lost: within an audit period it is reported, and the schedule goes on.

    The instant that passed meanwhile is late by less than that, and the next one is on time.
    """
    reported: list[int] = []

    async def script(stage: Stage) -> None:
        """The row for 10:10 is gone; the owner goes on."""
        owner, other = stage.schedulers
        await stage.crash(other)
        await stage.create(every("10m", f"{DAY_OF}10:00:00Z"))
        await stage.at("10:09:50")
        assert owner.scheduler is not None
        assert owner.scheduler.snapshot().rows_diverged == 0
        vars(owner.scheduler)["_books"].calendar.set(TENANT, "t", None)
        await stage.at("10:11:00")
        reported.append(owner.scheduler.snapshot().rows_diverged)
        await stage.at("10:20:30")
        reported.append(owner.scheduler.snapshot().rows_diverged)

    stage = played(f"{DAY_OF}10:00:30Z", script)
    assert stage.released() == ["10:10:00", "10:20:00"]
    assert stage.story()[-1] == "released 10:20:00 on-time"
    assert reported == [1, 1]


def test_beh_045_a_lost_row_ends_no_schedule() -> None:
    """A row of the due calendar is lost: whoever takes the book over makes all rows anew from the log.

    The instant that passed meanwhile meets its policy, and the next one is on time.
    """

    async def script(stage: Stage) -> None:
        """The row for 10:10 is gone, and nobody else could notice; the owner dies before it looks."""
        owner, other = stage.schedulers
        await stage.crash(other)
        await stage.create(every("10m", f"{DAY_OF}10:00:00Z"))
        await stage.at("10:09:59")
        assert owner.scheduler is not None
        vars(owner.scheduler)["_books"].calendar.set(TENANT, "t", None)
        await stage.at("10:10:01")
        assert stage.released() == []
        await stage.crash(owner)
        await stage.at("10:12:00")
        await stage.begin(owner)
        await stage.at("10:20:30")

    stage = played(f"{DAY_OF}10:00:30Z", script)
    assert stage.released() == ["10:10:00", "10:20:00"]
    assert stage.story()[-1] == "released 10:20:00 on-time"
