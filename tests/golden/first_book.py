"""The book behind ``histories/first-book.json``: pauses, edits, outages, overlaps and observations in two zones.

Recorded once; what it does may change, the recorded file may not.
"""

from fireledger.domain import commands as c
from fireledger.domain.definition import TenantSettings
from fireledger.domain.instants import MINUTE, SECOND
from fireledger.domain.page import Quarantine
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
    once,
    result,
    started,
    zones,
)


def first_book() -> Given:
    """Make the book."""
    packaged = zones().current
    names = ("UTC", "Europe/Rome", "America/New_York")
    library = ZoneLibrary(ZoneDatabase(packaged.version, {name: packaged.content(name) for name in names}))
    settings = TenantSettings(zone="Europe/Rome", default_jitter=20 * SECOND)
    book = Given(library=library, settings=settings)
    _define(book)
    _a_busy_hour(book)
    _edits_and_pauses(book)
    _an_outage(book)
    return book


def _define(book: Given) -> None:
    book.when(create(cron("*/5 * * * *", "Europe/Rome")), at="09:00:10", request_id="r-1", request_sha256=b"1" * 32)
    book.given(create(every("20s", jitter=0, overlap="allow"), "often"), at="09:00:20")
    book.given(create(cron("30 2 * * *", "America/New_York", missed="fire-all", cap=3), "nightly"), at="09:00:21")
    book.given(create(once("2026-11-30T10:20", "Europe/Rome", jitter=5 * MINUTE), "once"), at="09:00:22")
    book.given(create(cron("* * * * *", overlap="queue", jitter=0, max_fires=9), "queued"), at="09:00:23")
    book.given(create(cron("0 * * * *", "Europe/Rome", missed="fire-all"), "paused"), at="09:00:24")


def _a_busy_hour(book: Given) -> None:
    for number in range(1, 13):
        book.given(TICK, at=book.start + number * 30 * SECOND)
    book.when(
        TICK,
        at="09:06:10",
        observed=(
            started("09:05:00", "09:05:21", 60),
            started("09:01:00", "09:01:01", 60, trigger="queued"),
            result("09:01:00", "09:06:02", 62, "succeeded", trigger="queued"),
        ),
    )
    book.given(c.PauseTrigger(trigger="paused"), at="09:07:00")
    book.when(TICK, at="09:10:30", as_of_read_at="09:10:30", entry_limit=3)
    book.when(TICK, at="09:10:30", as_of_read_at="09:10:30")
    book.when(TICK, at="09:11:00", stamped_at="09:15:00")
    book.when(TICK, at="09:21:00", as_of_read_at="09:21:00", observed=(result("09:20:00", "09:20:20", 70, "held"),))


def _edits_and_pauses(book: Given) -> None:
    book.given(amend(cron("*/7 * * * *", "Europe/Rome", missed="skip")), at="09:21:00")
    book.given(amend(cron("*/9 * * * *", "Europe/Rome", missed="skip")), at="09:21:00")
    book.given(PAUSE, at="09:22:00").given(c.AmendTenant(settings=TenantSettings(zone="Europe/Rome")), at="09:30:00")
    book.given(amend(cron("*/11 * * * *", "Europe/Rome", missed="skip")), at="09:40:00")
    book.given(RESUME, at="09:50:00").given(TICK, at="09:55:00")
    book.given(c.DeleteTrigger(trigger="queued"), at="09:56:00")
    book.given(create(cron("15 * * * *", jitter=0), "queued"), at="09:56:00")


def _an_outage(book: Given) -> None:
    book.when(TICK, at="13:40:00", as_of_read_at="13:40:00", quarantine=(Quarantine("often", "ValueError: broken"),))
    book.given(amend(every("25s", jitter=0, overlap="allow"), "often"), at="13:50:00")
    book.given(TICK, at="13:50:30")
    book.when(c.ResumeTrigger(trigger="paused", on_resume="skip"), at="14:10:00")
    book.when(TICK, at="2026-12-03T08:00:00Z", as_of_read_at="2026-12-03T08:00:00Z", step=5 * SECOND)
    book.given(DELETE, at="2026-12-03T08:30:00Z").given(TICK, at="2026-12-03T09:00:00Z")
