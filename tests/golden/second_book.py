"""The book behind ``histories/second-book.json``: every policy between a decision and its end.

Retries, held fires, paced lanes, shedding, ceilings, backfills, fires by hand, late outcomes and commands that people
give about single fires. Recorded once; what it does may change, the recorded file may not.
"""

from fireledger.domain import commands as c
from fireledger.domain.definition import Retry, TenantSettings
from fireledger.domain.entries import Span
from fireledger.domain.instants import DAY, HOUR, MINUTE, SECOND
from fireledger.domain.zones import ZoneDatabase, ZoneLibrary
from tests.unit.domain.given import (
    DELETE,
    PAUSE,
    RESUME,
    TICK,
    Given,
    amend,
    create,
    cron,
    every,
    result,
    started,
    zones,
)


def second_book() -> Given:
    """Make the book."""
    packaged = zones().current
    names = ("UTC", "Europe/Rome", "America/New_York")
    library = ZoneLibrary(ZoneDatabase(packaged.version, {name: packaged.content(name) for name in names}))
    settings = TenantSettings(zone="Europe/Rome", quota_per_second=4, catch_up_percent=25)
    book = Given(library=library, settings=settings)
    _define(book)
    _attempts(book)
    _lanes(book)
    _spending(book)
    _backfills(book)
    _the_end(book)
    return book


def _define(book: Given) -> None:
    patient = Retry(attempts=3, base=10 * SECOND, factor=300, cap=HOUR)
    book.given(create(cron("0 * * * *", "Europe/Rome", retry=patient)), at="09:00:10")
    many = cron("*/2 * * * *", missed="fire-all", overlap="allow", tolerance=SECOND, cap=40)
    book.given(create(many, "many"), at="09:00:11")
    for name in ("x", "y"):
        book.given(create(every("20m", overlap="queue"), name), at="09:00:12")


def _attempts(book: Given) -> None:
    book.given(TICK, at="10:00:00")
    book.when(TICK, at="10:00:02", observed=(started("10:00:00", "10:00:01", 10),), allowances={"catch-up": 0})
    failed = result("10:00:00", "10:00:04", 11, "retryable", retry_after=30 * SECOND, cost=3)
    book.when(TICK, at="10:00:05", observed=(failed,), allowances={"catch-up": 1, "backfill": 0})
    book.given(TICK, at="10:01:00")
    records = (
        started("10:00:00", "10:01:01", 12, attempt=2),
        result("10:00:00", "10:01:02", 13, "held", attempt=2),
        result("10:00:00", "10:01:03", 14, "succeeded", attempt=1),
    )
    book.when(TICK, at="10:01:05", observed=records)
    book.given(c.ReleaseFire(trigger="t", scheduled=book.instant("10:00:00"), sequence=0, by="operator"), at="10:20:00")
    book.given(TICK, at="10:20:01")
    last = (started("10:00:00", "10:20:02", 15, attempt=3), result("10:00:00", "10:20:03", 16, "timeout", attempt=3))
    book.when(TICK, at="10:20:05", observed=last)
    book.when(TICK, at="10:20:06", observed=(result("10:00:00", "10:20:05", 17, "succeeded", attempt=3, cost=1),))
    book.given(c.FireNow(trigger="t", by="operator"), at="10:21:00").given(TICK, at="10:21:01")
    book.when(TICK, at="10:21:05", observed=(result("10:21:00", "10:21:04", 18, "retryable", run=1),))
    book.given(c.CancelFire(trigger="t", scheduled=book.instant("10:21:00"), sequence=1, by="operator"), at="10:21:06")


def _lanes(book: Given) -> None:
    book.when(TICK, at="10:45:00", shedding_level=2)
    book.when(TICK, at="10:45:01", shedding_level=1, entry_limit=3)
    book.given(c.DeclareDrain(lane="catch-up", until=book.instant("12:00:00"), why="an outage"), at="10:45:02")
    for second in range(3, 8):
        book.when(TICK, at=f"10:45:0{second}", allowances={"catch-up": second % 3})
    book.given(c.AmendTenant(settings=TenantSettings(zone="Europe/Rome", quota_per_second=1)), at="10:46:00")
    book.when(TICK, at="11:00:00", shedding_level=3)
    book.when(TICK, at="11:20:00", shedding_level=4)
    book.given(TICK, at="11:21:00")
    waiting = book.trigger("many").waiting[:1]
    book.given(
        *(c.CancelFire(trigger="many", scheduled=f.scheduled, sequence=0, by="operator") for f in waiting),
        at="11:22:00",
    )


def _spending(book: Given) -> None:
    book.given(c.SetCeiling(trigger="t", per="day", amount=10), at="11:30:00")
    book.given(c.SetCeiling(trigger=None, per="month", amount=25), at="11:30:00")
    book.given(c.SetCeiling(trigger=None, per="week", amount=1_000), at="11:30:00")
    book.when(TICK, at="11:31:00", observed=(result("11:00:00", "11:30:59", 30, "succeeded", cost=12),))
    book.given(TICK, at="12:00:00").given(c.SetCeiling(trigger="t", per="day", amount=20), at="12:30:00")
    book.given(TICK, at="13:00:00")
    book.when(TICK, at="13:00:05", observed=(result("13:00:00", "13:00:04", 31, "final", cost=20),))
    book.given(TICK, at="14:00:00").given(c.SetCeiling(trigger=None, per="month", amount=None), at="14:30:00")
    midnight = book.instant("23:00:00")
    book.when(TICK, at=midnight, as_of_read_at=midnight)
    book.given(c.SetCeiling(trigger="t", per="week", amount=0), at=midnight + MINUTE)
    book.given(c.SetCeiling(trigger="t", per="week", amount=None), at=midnight + HOUR)
    book.when(TICK, at=midnight + HOUR, as_of_read_at=midnight + HOUR, entry_limit=20)


def _backfills(book: Given) -> None:
    at = book.at
    book.given(c.ChangeGrant(grant="backfill", trigger=None, value=50, holder="owner"), at=at)
    book.given(c.ChangeGrant(grant="backfill", trigger="many", value=900, holder="owner"), at=at)
    spans = (Span(at - 9 * HOUR, at - 8 * HOUR), Span(at - 7 * HOUR, at - 7 * HOUR))
    book.given(_over(at, "many", only_missing=True, fired=spans), _over(at, "t"), at=at)
    for step in range(1, 6):
        book.when(TICK, at=at + step * SECOND, allowances={"backfill": step % 3, "catch-up": 0}, entry_limit=100)
    book.given(amend(cron("30 * * * *", "America/New_York", overlap="allow")), at=at + MINUTE)
    book.given(PAUSE, at=at + MINUTE).given(TICK, at=at + 2 * MINUTE).given(RESUME, at=at + 3 * MINUTE)
    for step in range(4, 8):
        book.given(TICK, at=at + step * MINUTE)
    book.given(c.CancelBackfill(trigger="many", by="operator"), at=at + 8 * MINUTE)
    book.given(c.ChangeGrant(grant="backfill", trigger="many", value=None, holder="owner"), at=at + 8 * MINUTE)


def _over(at: int, trigger: str, *, only_missing: bool = False, fired: tuple[Span, ...] = ()) -> c.StartBackfill:
    return c.StartBackfill(
        trigger=trigger,
        backfill=f"again-{trigger}",
        start=at - 10 * HOUR,
        end=at - HOUR,
        only_missing=only_missing,
        rate_per_second=2,
        by="operator",
        fired=fired,
    )


def _the_end(book: Given) -> None:
    at = book.at + HOUR
    book.when(TICK, at=at, as_of_read_at=at)
    opened = [fire for fire in book.trigger("many").open[:20] if fire.sequence]
    records = tuple(
        result(fire.scheduled, at, 40 + place, "succeeded", trigger="many", run=fire.sequence, attempt=fire.attempt)
        for place, fire in enumerate(opened)
    )
    book.when(TICK, at=at + SECOND, observed=records)
    book.given(DELETE, at=at + MINUTE).given(create(every("1h")), at=at + 2 * MINUTE)
    book.given(c.FireNow(trigger="t", by="operator"), at=at + 2 * MINUTE)
    book.when(TICK, at=at + DAY, as_of_read_at=at + DAY)
