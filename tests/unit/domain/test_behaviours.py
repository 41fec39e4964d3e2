"""The published behaviour cases that the domain alone can show, each under its id, as RULINGS reads them.

What restarts, polls and sleeps come to here: ticks at some instants and none at others.
"""

from fireledger.domain import entries as e
from fireledger.domain.book import empty_book, fold_page
from fireledger.domain.instants import DAY, HOUR, MINUTE, SECOND, format_instant, parse_instant
from fireledger.domain.page import decode_page
from fireledger.domain.rejections import RejectionCode
from tests.unit.domain.given import (
    DELETE,
    PAUSE,
    RESUME,
    TICK,
    Given,
    amend,
    changed,
    create,
    cron,
    each,
    every,
    once,
    result,
    started,
)


def restarted(book: Given) -> Given:
    """The book as a process that has just started reads it: folded from its bytes, nothing remembered."""
    folded = empty_book("acme")
    for page in book.written:
        folded = fold_page(folded, page.body, stamped_at=page.stamped_at, sequence=page.sequence).book
    assert folded == book.book
    book.book = folded
    return book


def released(book: Given) -> list[str]:
    """The scheduled instants of all fires released so far, in order of release."""
    entries = [entry for page in book.written for entry in decode_page(page.body).entries]
    return [book.short(entry.scheduled) for entry in entries if isinstance(entry, e.FireReleased)]


def test_beh_001_down_six_minutes_over_the_slot() -> None:
    """Fire-once-now fires once and late; skip records it as missed; beyond the horizon it expires."""
    outcomes = {
        "released t 15:00:00 caught-up": cron("0 15 * * *", horizon=10 * MINUTE),
        "skipped t 15:00:00 missed": cron("0 15 * * *", missed="skip"),
        "expired t 15:00:00 beyond-horizon": cron("0 15 * * *", horizon=60 * SECOND),
    }
    for outcome, definition in outcomes.items():
        book = Given(create(definition)).given(TICK, at="14:57:00")
        book.when(TICK, at="15:03:00").then(outcome)
        assert book.next_due() == "2026-12-01T15:00:00Z"


def test_beh_003_a_day_down_with_a_cap() -> None:
    """Ten of 144 missed fire, newest ten, oldest first; 134 are dropped; the next one is on time."""
    definition = cron("*/10 * * * *", missed="fire-all", cap=10, horizon=DAY, overlap="allow")
    book = Given(create(definition), start="2026-11-01T00:00:00Z")
    book.when(TICK, at="2026-11-02T00:05:00Z")
    dropped, *fires = book.entries()
    assert isinstance(dropped, e.InstantsResolved)
    assert (dropped.state, dropped.count) == ("dropped", 134)
    assert [entry.scheduled for entry in fires if isinstance(entry, e.FireReleased)] == list(
        each("2026-11-01T22:30:00Z", "10m", 10)
    )
    book.when(TICK, at="2026-11-02T00:10:00Z").then("released t 2026-11-02T00:10:00Z on-time")


def test_beh_003_catch_up_of_one_trigger_waits_for_itself() -> None:
    """Without overlap the ten go one after the other, and none is skipped."""
    definition = cron("*/10 * * * *", missed="fire-all", cap=10, horizon=DAY)
    book = Given(create(definition), start="2026-11-01T00:00:00Z").when(TICK, at="2026-11-02T00:05:00Z")
    assert len(book.trigger().open) == 1
    assert [fire.scheduled for fire in book.trigger().waiting] == list(each("2026-11-01T22:40:00Z", "10m", 9))


def test_beh_006_skip_still_fires_on_time() -> None:
    """Three seconds late is on time."""
    book = Given(create(cron("0 2 * * *", missed="skip")), start="2026-11-30T01:00:00Z")
    assert book.when(TICK, at="01:59:58").result == ()
    book.when(TICK, at="02:00:03").then("released t 02:00:00 on-time")


def test_beh_007_what_is_due_starts_at_the_last_decided() -> None:
    """A late check loses nothing: what lies between is on time or meets the policy."""
    book = Given(create(cron("* * * * *", overlap="allow"))).given(TICK, at="10:00:00.4")
    book.when(TICK, at="10:01:01.1").then("released t 10:01:00 on-time")
    late = Given(create(cron("* * * * *", overlap="allow"))).given(TICK, at="10:00:00.4")
    late.when(TICK, at="10:02:30").then("coalesced t 10:01:00 coalesced into 10:02:00", "released t 10:02:00 on-time")


def test_beh_009_a_laptop_sleeps() -> None:
    """On wake the missed minutes meet the policy, the last one is on time, and the next fires as ever."""
    for policy, range_text in {
        "skip": "skipped t 15:44:00-15:46:00 x3 missed",
        "fire-once-now": "coalesced t 15:44:00-15:46:00 x3 coalesced into 15:47:00",
    }.items():
        book = Given(create(cron("* * * * *", missed=policy, overlap="allow")), start="2026-11-30T15:42:30Z")
        book.given(TICK, at="15:43:00")
        book.when(TICK, at="15:47:33").then(range_text, "released t 15:47:00 on-time")
        book.when(TICK, at="15:48:00").then("released t 15:48:00 on-time")


def test_beh_012_pause_four_minutes() -> None:
    """Nothing of the pause fires; the next minute does."""
    book = Given(create(cron("* * * * *", missed="skip", overlap="allow")), start="2026-11-30T11:30:30Z")
    book.given(TICK, at="11:31:00").given(PAUSE, at="11:31:20").given(RESUME, at="11:35:40")
    book.when(TICK, at="11:35:40").then("skipped t 11:32:00-11:35:00 x4 paused")
    book.when(TICK, at="11:36:00").then("released t 11:36:00 on-time")


def test_beh_013_resume_after_a_month() -> None:
    """Two range entries hold 4,460 instants, and the next one fires."""
    book = Given(create(cron("*/10 * * * *", missed="skip", cap=100)), start="2026-05-01T09:00:00Z")
    book.given(PAUSE, at="2026-05-01T09:03:00Z").given(RESUME, at="2026-06-01T09:03:00Z")
    entries = book.when(TICK, at="2026-06-01T09:03:00Z").entries()
    ranges = [entry for entry in entries if isinstance(entry, e.InstantsResolved)]
    assert [(entry.state, entry.count) for entry in ranges] == [("expired", 4458), ("skipped", 6)]
    assert len(entries) == 2
    book.when(TICK, at="2026-06-01T09:10:00Z").then("released t 2026-06-01T09:10:00Z on-time")


def test_beh_015_first_activation() -> None:
    """Created paused with a start long ago, then activated: no run for any earlier hour, the next one fires."""
    book = Given(start="2026-11-30T13:30:00Z")
    definition = cron("0 * * * *", missed="skip", not_before=parse_instant("2026-10-30T00:00:00Z"))
    book.given(create(definition, paused=True)).given(RESUME, at="14:20:00")
    book.when(TICK, at="14:20:01").then("skipped t 14:00:00 paused")
    book.when(TICK, at="15:00:00").then("released t 15:00:00 on-time")


def test_beh_016_edited_to_a_time_between_last_fire_and_now() -> None:
    """09:00 lies before the edit at 15:00: it fires tomorrow."""
    book = Given(create(cron("0 1 * * *", overlap="allow")), start="2026-11-30T00:30:00Z").given(TICK, at="01:00:00")
    book.given(amend(cron("0 9 * * *", overlap="allow")), at="15:00:00")
    assert book.when(TICK, at="15:00:00").result == ()
    assert book.next_due() == "2026-12-01T09:00:00Z"
    book.when(TICK, at="2026-12-01T09:00:00Z")
    assert released(book)[1:] == ["2026-12-01T09:00:00Z"]


def test_beh_018_a_later_time_chosen_before_todays_slot() -> None:
    """No fire at the edit, none at the old time, one at the new."""
    book = Given(create(cron("30 13 * * *", overlap="allow")), start="2026-11-29T12:00:00Z")
    book.given(TICK, at="2026-11-29T13:30:00Z").given(
        amend(cron("0 16 * * *", overlap="allow")), at="2026-11-30T12:20:00Z"
    )
    for at in ("2026-11-30T12:20:00Z", "2026-11-30T13:30:00Z"):
        assert book.when(TICK, at=at).result == ()
    book.when(TICK, at="2026-11-30T16:00:00Z").then("released t 2026-11-30T16:00:00Z on-time")


def test_beh_019_a_no_op_update_inside_the_jitter_window() -> None:
    """Saving the same definition between nominal and jittered time changes nothing: one fire, as drawn."""
    definition = cron("*/5 * * * *", jitter=60 * SECOND)
    book = Given(create(definition), start="2026-11-30T12:16:00Z")
    due = book.next_due()
    assert due is not None
    assert "12:20:00" < due < "12:21:00"
    book.when(amend(definition), at="12:20:00")
    assert book.result == ()
    book.when(TICK, at=due).then("released t 12:20:00 on-time")
    assert book.trigger().segments[0].decided == book.instant("12:20:00")


def test_beh_021_a_long_interval_is_reached() -> None:
    """Daily edits of other triggers, and of this one in other respects, leave the grid on its anchor."""
    start = "2026-05-01T00:00:00Z"
    definition = every("3d", start, overlap="allow")
    book = Given(create(definition), create(cron("0 0 1 1 *"), "other"), start=start)
    for day in range(1, 4):
        at = parse_instant(start) + day * DAY - HOUR
        book.given(amend(cron(f"{day} 0 1 1 *"), "other"), amend(changed(definition, cap=day), "t"), at=at)
        restarted(book)
    book.ticks(*each("2026-05-02T00:00:00Z", "1d", 9))
    assert released(book) == ["2026-05-04T00:00:00Z", "2026-05-07T00:00:00Z", "2026-05-10T00:00:00Z"]


def test_beh_022_restart_after_a_completed_run() -> None:
    """A restarted process asks the book: the slot is decided, the next is tomorrow's."""
    book = Given(create(cron("0 22 * * *", "America/Santiago")), start="2026-11-30T12:00:00Z")
    fire = parse_instant("2026-12-01T01:00:00Z")
    book.given(TICK, at=fire)
    book.when(TICK, at=fire + 5 * SECOND, observed=(result(fire, fire + 4 * SECOND, 9, "succeeded"),))
    restarted(book)
    assert book.when(TICK, at=fire + 30 * MINUTE + 37 * SECOND).result == ()
    assert book.next_due() == "2026-12-02T01:00:00Z"


def test_beh_024_restart_does_not_leap_ahead() -> None:
    """After a restart the next instants are the very next ones."""
    book = Given(create(cron("0 4 * * *", "America/New_York", overlap="allow")), start="2026-02-05T12:00:00Z")
    book.given(TICK, at="2026-02-06T09:00:00Z")
    restarted(book)
    assert book.when(TICK, at="2026-02-06T19:59:00Z").result == ()
    book.when(TICK, at="2026-02-07T09:00:00Z").when(TICK, at="2026-02-08T09:00:00Z")
    assert released(book) == ["2026-02-06T09:00:00Z", "2026-02-07T09:00:00Z", "2026-02-08T09:00:00Z"]


def test_beh_025_deployments_do_not_reset_intervals() -> None:
    """Restarted every 45 minutes, an hourly interval fires on its anchor's grid."""
    start = "2026-11-30T00:00:00Z"
    book = Given(create(every("1h", start, overlap="allow")), start=start)
    for at in each("2026-11-30T00:15:00Z", "15m", 24):
        book.when(TICK, at=at)
        if (at - parse_instant(start)) % (45 * MINUTE) == 0:
            restarted(book)
    assert released(book) == [f"0{hour}:00:00" for hour in range(1, 7)]


def test_beh_030_the_clock_steps_back_an_hour() -> None:
    """The book's now does not go back: no second 10:00, and 11:00 fires once."""
    book = Given(create(cron("0 * * * *", overlap="allow"))).given(TICK, at="10:00:00")
    book.given(create(cron("0 0 1 1 *"), "other"), at="10:30:00")
    for at in ("09:30:00", "10:00:00", "10:00:01", "10:59:59"):
        assert book.when(TICK, at=at).result == ()
    book.when(TICK, at="11:00:00").then("released t 11:00:00 on-time")
    assert released(book) == ["10:00:00", "11:00:00"]


def test_beh_034_an_interval_across_a_clock_change() -> None:
    """Two real hours, in spring and in autumn."""
    for start, expected in {
        "2026-03-08T05:00:00Z": ["07", "09", "11"],
        "2026-11-01T03:00:00Z": ["05", "07", "09"],
    }.items():
        definition = changed(every("2h", start, overlap="allow"), zone="America/New_York")
        book = Given(create(definition), start=start)
        book.ticks(*(parse_instant(start) + number * HOUR for number in range(1, 7)))
        assert [text[:2] for text in released(book)] == expected


def test_beh_036_jitter_eats_no_slots() -> None:
    """Each minute fires exactly once, in order, however the offsets fall."""
    book = Given(create(cron("* * * * *", jitter=60 * SECOND, overlap="allow")), start="2026-11-30T16:29:30Z")
    book.ticks(*each("2026-11-30T16:29:31Z", "1s", 600))
    assert released(book) == [f"16:{minute}:00" for minute in range(30, 40)][: len(released(book))]
    assert len(released(book)) in {9, 10}


def test_beh_037_jitter_is_not_drawn_again() -> None:
    """A restart and an edit inside a jitter window of 22 hours leave the release as first drawn."""
    definition = cron("0 0 * * *", jitter=22 * HOUR, missed="skip")
    book = Given(create(definition), start="2026-02-18T12:00:00Z")
    due = book.next_due()
    assert due is not None
    restarted(book)
    assert book.next_due() == due
    book.given(amend(changed(definition, target="nats:other")), at="2026-02-19T00:30:00Z")
    assert book.next_due() == due
    book.when(TICK, at=due).then("released t 2026-02-19T00:00:00Z on-time")


def test_beh_039_the_maximum_is_claimed_with_the_slot() -> None:
    """With a maximum of one, exactly one slot is ever fired, however long it runs and whatever is repeated."""
    book = Given(create(every("1s", max_fires=1))).when(TICK, at="09:00:01").then("released t 09:00:01 on-time")
    for second in range(2, 8):
        assert book.when(TICK, at=f"09:00:0{second}").result == ()
    observed = (started("09:00:01", "09:00:02", 5), started("09:00:01", "09:00:05", 6, resend=True))
    book.when(TICK, at="09:00:08", observed=observed)
    book.when(TICK, at="09:00:09", observed=(result("09:00:01", "09:00:08", 7, "succeeded"),))
    assert book.trigger().fired_count == 1
    assert book.next_due() is None
    two = Given(create(every("1s", max_fires=1, overlap="allow"))).when(TICK, at="09:00:04")
    two.then("released t 09:00:01 on-time")


def test_beh_040_a_one_off_in_the_past() -> None:
    """It is refused and nothing fires; a repeated create of an old request still finds its trigger."""
    book = Given(start="2026-08-26T00:00:00Z")
    book.when(create(once("2020-01-01T00:00")), at="2026-08-26T00:00:00Z").then_refused(RejectionCode.WHOLLY_PAST)
    command = create(once("2026-08-26T01:00"))
    book.when(command, at="2026-08-26T00:30:00Z", request_id="r", request_sha256=b"1").given(TICK, at="01:00:00")
    book.when(command, at="2026-08-26T02:00:00Z", request_id="r", request_sha256=b"1")
    assert book.result == ()
    assert book.state.live("t") is not None
    assert released(book) == ["01:00:00"]


def test_beh_042_a_fire_a_month_away() -> None:
    """No fire before it, exactly one then."""
    book = Given(create(cron("0 4 1 * *")), start="2026-01-02T00:00:00Z")
    for at in each("2026-01-02T12:00:00Z", "1d", 30):
        assert book.when(TICK, at=at).result == ()
    book.when(TICK, at="2026-02-01T04:00:00Z").then("released t 2026-02-01T04:00:00Z on-time")


def test_beh_043_a_deleted_trigger_does_not_fire() -> None:
    """After the deletion nothing of it is due, what was armed included."""
    book = Given(create(every("10s", overlap="allow"))).ticks("09:00:10", "09:00:20").given(DELETE, at="09:00:25")
    for at in each("2026-11-30T09:00:26Z", "1s", 60):
        assert book.when(TICK, at=at).result == ()
    assert released(book) == ["09:00:10", "09:00:20"]


def test_beh_046_edits_do_not_multiply_runs() -> None:
    """Between edits one fire per slot of the current definition, after the deletion none."""
    book = Given(create(cron("*/3 * * * *", overlap="allow")), start="2026-11-30T10:30:30Z")
    edits = {10 * 60 + 36: 4, 10 * 60 + 41: 6, 10 * 60 + 50: 5, 10 * 60 + 56: 2}
    expected: list[str] = []
    step = 3
    for minute in range(10 * 60 + 31, 11 * 60 + 30):
        clock = f"{minute // 60}:{minute % 60:02d}:00"
        book.when(TICK, at=clock)
        if minute < 11 * 60 + 10 and minute % 60 % step == 0:
            expected.append(clock)
        if minute in edits:
            step = edits[minute]
            book.given(amend(cron(f"*/{step} * * * *", overlap="allow")), at=clock)
        if minute == 11 * 60 + 10:
            book.given(DELETE, at=clock)
    assert released(book) == [*expected, "11:10:00"]


def overrunning(overlap: str) -> list[str]:
    """Hourly fires whose runs take 61 minutes each: every line the book decides in six hours."""
    book = Given(create(cron("0 * * * *", overlap=overlap)), start="2026-11-30T09:30:00Z")
    lines: list[str] = []
    ends: list[tuple[int, int]] = []
    for number, at in enumerate(each("2026-11-30T10:00:00Z", "1m", 6 * 60)):
        done = [scheduled for end, scheduled in ends if end <= at]
        ends = [(end, scheduled) for end, scheduled in ends if end > at]
        observed = tuple(result(scheduled, at, number + 10, "succeeded") for scheduled in done)
        for entry in book.when(TICK, at=at, observed=observed).entries():
            if isinstance(entry, e.FireReleased):
                ends.append((at + 61 * MINUTE, entry.scheduled))
            if isinstance(entry, e.FireReleased | e.InstantsResolved):
                lines.append(f"{format_instant(at)[11:16]} {book.brief(entry)}")
    return lines


def test_beh_048_overlap_skip_halves_the_rate_and_says_so() -> None:
    """Every second slot is recorded as skipped by overlap."""
    assert overrunning("skip") == [
        "10:00 released t 10:00:00 on-time",
        "11:00 skipped t 11:00:00 overlap",
        "12:00 released t 12:00:00 on-time",
        "13:00 skipped t 13:00:00 overlap",
        "14:00 released t 14:00:00 on-time",
        "15:00 skipped t 15:00:00 overlap",
    ]


def test_beh_048_with_a_queue_the_slots_follow_each_other() -> None:
    """Each slot waits for the one before: 10:00, 11:01, 12:02 and so on."""
    assert overrunning("queue") == [
        "10:00 released t 10:00:00 on-time",
        "11:01 released t 11:00:00 on-time after waiting",
        "12:02 released t 12:00:00 on-time after waiting",
        "13:03 released t 13:00:00 on-time after waiting",
        "14:04 released t 14:00:00 on-time after waiting",
        "15:05 released t 15:00:00 on-time after waiting",
    ]


def test_beh_049_at_most_one_fire_waits() -> None:
    """Ten slots come due during a run of ten and a half minutes: the newest waits, nine are replaced."""
    book = Given(create(cron("* * * * *", overlap="queue")), start="2026-11-30T09:59:30Z").given(TICK, at="10:00:00")
    replaced: list[str] = []
    for minute in range(1, 11):
        entries = book.when(TICK, at=f"10:{minute:02d}:00").entries()
        replaced.extend(book.brief(entry) for entry in entries if isinstance(entry, e.FireWithdrawn))
        assert len(book.trigger().waiting) == 1
    assert replaced == [f"withdrawn t 10:0{minute}:00 skipped replaced" for minute in range(1, 10)]
    book.when(TICK, at="10:10:30", observed=(result("10:00:00", "10:10:30", 50, "succeeded"),))
    assert book.brief(book.entries()[-1]) == "released t 10:10:00 on-time after waiting"
