"""The scenarios that the policy pages tell: short books, made by the domain itself, that the pages show and draw.

A scenario's name is that of its blocks in ``docs/policies``. ``python -m ops.policy_pages`` writes them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.definition import Retry, TenantSettings
from fireledger.domain.instants import DAY, HOUR, MINUTE, SECOND, parse_instant
from tests.unit.domain.given import TICK, Given, When, changed, create, cron, result, started

NAME = "report"
"""The trigger of most scenarios."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A book to show from page ``first`` on, without the pages in ``hidden``.

    Its picture reaches from ``begin`` to ``end`` with a label every ``step`` microseconds. ``down`` is when no
    scheduler decided: the one thing that is not in the book.
    """

    book: Given
    begin: str
    end: str
    step: int
    first: int = 3
    hidden: frozenset[int] = frozenset()
    down: tuple[str, str] | None = None


def report(text: str = "*/10 * * * *", **changes: object) -> Given:
    """Return a book with one trigger, from page 2 on."""
    return Given(create(changed(cron(text), **changes), NAME))


def amended(text: str, **changes: object) -> c.AmendTrigger:
    """Return the command that gives the trigger another definition."""
    return c.AmendTrigger(trigger=NAME, definition=changed(cron(text), **changes))


def began(book: Given, scheduled: When, at: When, *, attempt: int = 1) -> Given:
    """Tick at an instant and observe that the call of an attempt has just begun."""
    found = started(book.instant(scheduled), book.instant(at) - SECOND, book.state.as_of + 1, trigger=NAME)
    return book.when(TICK, at=at, observed=(msgspec.structs.replace(found, attempt=attempt),))


def answered(
    book: Given,
    scheduled: When,
    at: When,
    kind: e.ResultKind = "succeeded",
    *,
    attempt: int = 1,
    sequence: int = 0,
    whole_call: bool = True,
    took: int = SECOND // 2,
    **more: object,
) -> Given:
    """Tick at an instant and observe the answer of a second before, and with ``whole_call`` its beginning too."""
    instant, stamped_at, number = book.instant(scheduled), book.instant(at) - SECOND, book.state.as_of + 1
    call = started(instant, stamped_at - took, number, trigger=NAME)
    answer = result(instant, stamped_at, number + 1, kind, trigger=NAME, attempt=attempt)
    both = (
        msgspec.structs.replace(call, attempt=attempt, sequence=sequence),
        msgspec.structs.replace(answer, sequence=sequence, **more),
    )
    return book.when(TICK, at=at, observed=both if whole_call else both[1:])


# Missed fires


def missed_once() -> Scenario:
    """Nobody decides for half an hour; by default the newest missed instant fires."""
    book = report().given(TICK, at="09:42:00")
    answered(book, "09:40:00", "09:42:03").given(TICK, at="09:50:00")
    return Scenario(book, "09:00:00", "10:00:00", 10 * MINUTE, down=("09:05:00", "09:42:00"))


def missed_into_on_time() -> Scenario:
    """When an instant is on time in the same page, the missed ones are coalesced into that."""
    book = report().given(TICK, at="09:40:20")
    return Scenario(book, "09:00:00", "10:00:00", 10 * MINUTE, down=("09:05:00", "09:40:20"))


def missed_all() -> Scenario:
    """Under fire-all the horizon comes first, then the cap; what is left fires one after the other."""
    book = report(missed="fire-all", cap=2, horizon=25 * MINUTE).given(TICK, at="09:42:00")
    answered(book, "09:30:00", "09:44:00")
    answered(book, "09:40:00", "09:46:00").given(TICK, at="09:50:00")
    return Scenario(book, "09:00:00", "10:00:00", 10 * MINUTE, down=("09:05:00", "09:42:00"))


def missed_skip() -> Scenario:
    """Under skip nothing that was missed fires."""
    book = report(missed="skip").given(TICK, at="09:42:00").given(TICK, at="09:50:00")
    return Scenario(book, "09:00:00", "10:00:00", 10 * MINUTE, down=("09:05:00", "09:42:00"))


def missed_month() -> Scenario:
    """A month of a per-minute trigger costs two entries and one fire."""
    book = report("* * * * *").given(TICK, at="2026-12-30T09:02:30Z")
    answered(book, "2026-12-30T09:02:00Z", "2026-12-30T09:02:33Z")
    return Scenario(
        book, "2026-11-30T09:00:00Z", "2026-12-31T09:00:00Z", 7 * DAY, down=("09:00:30", "2026-12-30T09:02:30Z")
    )


# Pauses


def paused(on_resume: e.OnResume = "policy") -> Given:
    """Return a book with a pause from 09:15 to 09:45, both by command."""
    book = report().given(TICK, at="09:10:00")
    answered(book, "09:10:00", "09:10:03").given(c.PauseTrigger(trigger=NAME), at="09:15:00")
    book.given(c.ResumeTrigger(trigger=NAME, on_resume=on_resume), at="09:45:00").given(TICK, at="09:45:00.5")
    return book


def pause_policy() -> Scenario:
    """What fell into the pause is owed at resume and meets the policy."""
    book = paused()
    answered(book, "09:40:00", "09:45:04").given(TICK, at="09:50:00")
    return Scenario(book, "09:00:00", "10:00:00", 10 * MINUTE, first=5)


def pause_skip() -> Scenario:
    """With --on-resume skip what fell into the pause is one skipped range."""
    book = paused("skip").given(TICK, at="09:50:00")
    return Scenario(book, "09:00:00", "10:00:00", 10 * MINUTE, first=5)


def pause_retry() -> Scenario:
    """A retry that falls due in a pause waits for resume."""
    book = report("0 * * * *").given(TICK, at="10:00:00")
    answered(book, "10:00:00", "10:00:03", "retryable").given(c.PauseTrigger(trigger=NAME), at="10:00:30")
    book.given(c.ResumeTrigger(trigger=NAME), at="10:05:00").given(TICK, at="10:05:00.5")
    answered(book, "10:00:00", "10:05:05", attempt=2)
    return Scenario(book, "10:00:00", "10:08:00", MINUTE, first=4)


# Edits


def edit() -> Scenario:
    """What was owed before an amendment stays owed by the old schedule."""
    book = report("*/30 * * * *").given(amended("15 * * * *"), at="10:10:00").given(TICK, at="10:12:00")
    answered(book, "10:00:00", "10:12:03").given(TICK, at="10:15:00")
    return Scenario(book, "09:00:00", "10:30:00", 15 * MINUTE, down=("09:20:00", "10:12:00"))


def edit_delete() -> Scenario:
    """Deleting cancels what is not released; what is released goes on to its outcome."""
    book = report(overlap="queue", outcome_window=HOUR).given(TICK, at="09:10:00")
    began(book, "09:10:00", "09:10:02").given(TICK, at="09:20:00")
    book.given(c.DeleteTrigger(trigger=NAME), at="09:31:00")
    answered(book, "09:10:00", "09:35:00", whole_call=False)
    return Scenario(book, "09:00:00", "09:50:00", 10 * MINUTE, first=5, down=("09:25:00", "09:34:00"))


# Overlap


def overlapping(overlap: str) -> Given:
    """Return a book whose fire of 09:10 takes until 09:34."""
    book = report(overlap=overlap, outcome_window=HOUR).given(TICK, at="09:10:00")
    began(book, "09:10:00", "09:10:02").given(TICK, at="09:20:00").given(TICK, at="09:30:00")
    return answered(book, "09:10:00", "09:34:00", whole_call=False)


def overlap_skip() -> Scenario:
    """By default an instant that comes while a fire is open is skipped."""
    book = overlapping("skip").given(TICK, at="09:40:00")
    return Scenario(book, "09:00:00", "09:50:00", 10 * MINUTE, first=5)


def overlap_queue() -> Scenario:
    """One waits; the next one replaces it."""
    book = overlapping("queue")
    answered(book, "09:30:00", "09:36:00")
    return Scenario(book, "09:00:00", "09:50:00", 10 * MINUTE, first=5)


def overlap_allow() -> Scenario:
    """Fires of one trigger run beside each other."""
    book = overlapping("allow")
    return Scenario(book, "09:00:00", "09:50:00", 10 * MINUTE, first=5)


def overlap_catch_up() -> Scenario:
    """Behind a caught-up fire an on-time one waits, ahead of the other caught-up ones."""
    book = report(missed="fire-all", cap=2).given(TICK, at="09:35:00").given(TICK, at="09:40:00")
    answered(book, "09:20:00", "09:43:00")
    answered(book, "09:40:00", "09:46:00")
    answered(book, "09:30:00", "09:48:00")
    return Scenario(book, "09:00:00", "10:00:00", 10 * MINUTE, down=("09:05:00", "09:35:00"))


def overlap_unknown() -> Scenario:
    """Nobody answers in the outcome window: unknown, and the late answer changes nothing."""
    book = report(outcome_window=5 * MINUTE).given(TICK, at="09:10:00")
    began(book, "09:10:00", "09:10:02").when(TICK, at="09:15:02", as_of_read_at="09:15:02")
    answered(book, "09:10:00", "09:18:00", whole_call=False, cost=30).given(TICK, at="09:20:00")
    return Scenario(book, "09:08:00", "09:23:00", 2 * MINUTE)


# Lanes


def lane_pace() -> Scenario:
    """Caught-up fires that may overlap are released as fast as the tenant's share allows: here one a second."""
    slow = TenantSettings(quota_per_second=10)
    book = Given(create(cron("*/10 * * * *", missed="fire-all", overlap="allow"), NAME), settings=slow)
    book.ticks("09:42:00", "09:42:01", "09:42:02", "09:42:03")
    return Scenario(book, "09:41:58", "09:42:08", 2 * SECOND)


def lane_over_quota() -> Scenario:
    """What is above the quota is marked; when the scheduler is behind at level 3 it waits, and fires later."""
    slow = TenantSettings(quota_per_second=1)
    names = ("eu", "uk", "us")
    book = Given(*(create(cron("*/10 * * * *"), name) for name in names), settings=slow)
    book.when(TICK, at="09:10:00", shedding_level=3).given(TICK, at="09:10:04")
    return Scenario(book, "09:09:58", "09:10:10", 2 * SECOND, first=5)


def lane_shed() -> Scenario:
    """At level 4 a new on-time instant does not fire."""
    book = report().when(TICK, at="09:10:00", shedding_level=4).given(TICK, at="09:20:00")
    return Scenario(book, "09:00:00", "09:30:00", 10 * MINUTE)


def lane_drain() -> Scenario:
    """A declared drain is a note in the book."""
    until = parse_instant("2026-11-30T11:00:00Z")
    book = report().given(c.DeclareDrain(lane="catch-up", until=until, why="after the move"), at="09:05:00")
    return Scenario(book, "09:00:00", "09:30:00", 10 * MINUTE)


# Retries


def retry() -> Scenario:
    """Two attempts fail, the third succeeds."""
    book = report("0 * * * *").given(TICK, at="10:00:00")
    answered(book, "10:00:00", "10:00:03", "retryable", message="the target answered 503")
    _again(book, 2)
    answered(book, "10:00:00", book.at + 32 * SECOND, "timeout", attempt=2, took=30 * SECOND)
    _again(book, 3)
    answered(book, "10:00:00", book.at + 3 * SECOND, attempt=3)
    return Scenario(book, "10:00:00", "10:06:00", MINUTE)


def _again(book: Given, attempt: int) -> None:
    """Tick when the fire's next attempt is due."""
    at = book.trigger(NAME).open[0].retry_at
    assert at is not None, f"attempt {attempt} waits"
    book.given(TICK, at=at)


def retry_after() -> Scenario:
    """The executor asks for ten minutes: longer than the nominal minute, so it counts."""
    book = report("0 * * * *").given(TICK, at="10:00:00")
    answered(book, "10:00:00", "10:00:03", "retryable", retry_after=10 * MINUTE)
    _again(book, 2)
    answered(book, "10:00:00", book.at + 3 * SECOND, attempt=2)
    return Scenario(book, "10:00:00", "10:16:00", 2 * MINUTE)


def retry_last() -> Scenario:
    """The last attempt times out: nobody knows what became of it."""
    book = report("0 * * * *", retry=Retry(attempts=2)).given(TICK, at="10:00:00")
    answered(book, "10:00:00", "10:00:03", "retryable")
    _again(book, 2)
    answered(book, "10:00:00", book.at + 32 * SECOND, "timeout", attempt=2, took=30 * SECOND)
    return Scenario(book, "10:00:00", "10:04:00", MINUTE, first=5)


# Held fires


def held() -> Given:
    """Return a book whose fire of 10:00 is held by its executor."""
    book = report("0 * * * *").given(TICK, at="10:00:00")
    return answered(book, "10:00:00", "10:00:03", "held", message="over 10,000: needs a signature")


def held_release() -> Scenario:
    """A person lets it go on; the next instant meanwhile overlaps."""
    book = held().given(TICK, at="11:00:00")
    at = book.instant("10:00:00")
    book.given(c.ReleaseFire(trigger=NAME, scheduled=at, sequence=0, by="ann"), at="11:20:00")
    book.given(TICK, at="11:20:00.5")
    answered(book, at, "11:20:04", attempt=2)
    return Scenario(book, "10:00:00", "12:00:00", 20 * MINUTE, first=4)


def held_cancel() -> Scenario:
    """A person ends it."""
    book = held()
    at = book.instant("10:00:00")
    book.given(c.CancelFire(trigger=NAME, scheduled=at, sequence=0, by="ann"), at="10:40:00")
    return Scenario(book, "10:00:00", "11:00:00", 10 * MINUTE, first=5)


# Ceilings


def spent() -> Given:
    """Return a book whose trigger spends 600 of the 500 it may in a day."""
    book = report("0 * * * *").given(c.SetCeiling(trigger=NAME, per="day", amount=500), at="09:30:00")
    for hour in ("10", "11"):
        book.given(TICK, at=f"{hour}:00:00")
        answered(book, f"{hour}:00:00", f"{hour}:00:03", cost=300)
    return book


def ceiling() -> Scenario:
    """The day's amount is spent at eleven: nothing fires until midnight."""
    book = spent().given(TICK, at="2026-12-01T00:00:00Z").given(TICK, at="2026-12-01T01:00:00Z")
    return Scenario(book, "10:00:00", "2026-12-01T02:00:00Z", 4 * HOUR, hidden=frozenset({4, 5, 6}))


def ceiling_raised() -> Scenario:
    """Raising the ceiling resumes at once."""
    book = spent().given(c.SetCeiling(trigger=NAME, per="day", amount=2_000), at="13:20:00")
    book.given(TICK, at="13:20:00.5").given(TICK, at="14:00:00")
    return Scenario(book, "09:00:00", "15:00:00", HOUR, first=8)


# Backfill


def backfilling() -> Given:
    """Return a book with a backfill of five past instants, two of which had fired; it has just begun."""
    book = report("0 * * * *")
    low, high = (parse_instant(f"2026-11-30T{hour}:00:00Z") for hour in ("04", "09"))
    had_fired = (e.Span(parse_instant("2026-11-30T05:00:00Z"), parse_instant("2026-11-30T06:00:00Z")),)
    granted = c.ChangeGrant(grant="backfill", trigger=NAME, value=10, holder="ann")
    begin = c.StartBackfill(
        trigger=NAME,
        backfill="november",
        start=low,
        end=high,
        only_missing=True,
        rate_per_second=5,
        by="bob",
        fired=had_fired,
    )
    return book.given(granted, at="09:20:00").given(begin, at="09:21:00").given(TICK, at="09:21:00.5")


def backfill() -> Scenario:
    """Three instants are missing; they fire one after the other, and the backfill ends by itself."""
    book = backfilling()
    answered(book, "04:00:00", "09:21:10", sequence=1)
    answered(book, "07:00:00", "09:21:20", sequence=2)
    answered(book, "08:00:00", "09:21:30", sequence=3)
    return Scenario(book, "09:20:50", "09:21:40", 10 * SECOND, hidden=frozenset({6}))


def backfill_cancel() -> Scenario:
    """A person ends it: what is not released is cancelled, what is goes on."""
    book = backfilling().given(c.CancelBackfill(trigger=NAME, by="ann"), at="09:21:05")
    answered(book, "04:00:00", "09:21:10", sequence=1)
    return Scenario(book, "09:20:50", "09:21:40", 10 * SECOND, first=6)


# By hand


def by_hand() -> Scenario:
    """Somebody asks for a fire beside the schedule."""
    book = report("0 * * * *").given(c.FireNow(trigger=NAME, by="ann"), at="09:20:00")
    book.given(TICK, at="09:20:00.5")
    answered(book, "09:20:00", "09:20:04", sequence=1).given(TICK, at="10:00:00")
    return Scenario(book, "09:00:00", "10:20:00", 20 * MINUTE)


def by_hand_waits() -> Scenario:
    """While a fire is open, the one asked for waits; it is never skipped."""
    book = report("0 * * * *").given(TICK, at="10:00:00")
    began(book, "10:00:00", "10:00:02").given(c.FireNow(trigger=NAME, by="ann"), at="10:04:00")
    answered(book, "10:00:00", "10:08:00", whole_call=False)
    answered(book, "10:04:00", "10:09:30", sequence=1)
    return Scenario(book, "10:00:00", "10:12:00", 2 * MINUTE, first=5)


# Jitter


def jitter() -> Scenario:
    """Each instant is released somewhere in its window, always at the same place."""
    book = report("0 * * * *", jitter=30 * MINUTE)
    for _ in range(3):
        segment = book.trigger(NAME).segments[-1]
        due = book.next_due(NAME)
        assert due is not None, f"something comes after {segment.decided}"
        book.given(TICK, at=due)
        answered(book, book.trigger(NAME).open[0].scheduled, book.at + 3 * SECOND)
    return Scenario(book, "10:00:00", "13:00:00", 30 * MINUTE, hidden=frozenset({4, 6, 8}))


def jitter_pause() -> Scenario:
    """A pause goes by the release: an instant scheduled before it and released in it is inside."""
    book = report("0 * * * *", jitter=30 * MINUTE, missed="skip")
    due = book.next_due(NAME)
    assert due is not None, "the schedule goes on"
    book.given(c.PauseTrigger(trigger=NAME), at="10:00:10").given(c.ResumeTrigger(trigger=NAME), at="10:40:00")
    book.given(TICK, at="10:40:00.5")
    return Scenario(book, "10:00:00", "11:00:00", 10 * MINUTE)


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    made.__name__.replace("_", "-"): made
    for made in (
        missed_once, missed_into_on_time, missed_all, missed_skip, missed_month,
        pause_policy, pause_skip, pause_retry,
        edit, edit_delete,
        overlap_skip, overlap_queue, overlap_allow, overlap_catch_up, overlap_unknown,
        lane_pace, lane_over_quota, lane_shed, lane_drain,
        retry, retry_after, retry_last,
        held_release, held_cancel,
        ceiling, ceiling_raised,
        backfill, backfill_cancel,
        by_hand, by_hand_waits,
        jitter, jitter_pause,
    )
}  # fmt: skip
"""Every scenario by the name of its blocks."""
