"""Rule 5: what happens when a fire of the trigger is still open, on time and caught up."""

from fireledger.domain import entries as e
from tests.unit.domain.given import PAUSE, RESUME, TICK, Given, amend, changed, create, cron, every, result, started


def opened(overlap: str, **changes: object) -> Given:
    """A per-minute trigger whose fire of 09:01 is open and started."""
    book = Given(create(changed(cron("* * * * *", overlap=overlap), **changes))).given(TICK, at="09:01:00")
    book.when(TICK, at="09:01:01", observed=(started("09:01:00", "09:01:00", 10),))
    return book


def test_skip_records_what_overlaps() -> None:
    """By default an on-time instant is skipped, cause overlap, while a fire is open."""
    book = opened("skip").when(TICK, at="09:02:00").then("skipped t 09:02:00 overlap")
    book.when(TICK, at="09:02:30", observed=(result("09:01:00", "09:02:29", 11, "succeeded"),))
    book.then("observed t 09:01:00 succeeded", "finished t 09:01:00 succeeded")
    book.when(TICK, at="09:03:00").then("released t 09:03:00 on-time")


def test_a_result_in_the_same_page_counts_before_the_decision() -> None:
    """Observed entries are folded first: a fire finished in this page blocks nothing."""
    book = opened("skip")
    book.when(TICK, at="09:02:00", observed=(result("09:01:00", "09:01:59", 11, "final"),))
    book.then("observed t 09:01:00 final", "finished t 09:01:00 failed", "released t 09:02:00 on-time")


def test_several_on_time_instants_of_one_page_overlap_each_other() -> None:
    """The first that is released blocks the next ones of the same page."""
    book = Given(create(every("1s"))).when(TICK, at="09:00:03")
    book.then("released t 09:00:01 on-time", "skipped t 09:00:02 overlap", "skipped t 09:00:03 overlap")


def test_allow_lets_fires_overlap() -> None:
    """Under allow every instant is released."""
    book = opened("allow").ticks("09:02:00", "09:03:00")
    book.then("released t 09:02:00 on-time", "released t 09:03:00 on-time")
    assert len(book.trigger().open) == 3


def test_queue_lets_one_wait_and_a_second_replace_it() -> None:
    """One fire waits; a later one replaces it, by entry."""
    book = opened("queue").when(TICK, at="09:02:00").then("decided t 09:02:00 on-time")
    book.when(TICK, at="09:03:00").then("withdrawn t 09:02:00 skipped replaced", "decided t 09:03:00 on-time")
    assert book.trigger().fired_count == 2
    book.when(TICK, at="09:03:30", observed=(result("09:01:00", "09:03:29", 11, "succeeded"),))
    book.then(
        "observed t 09:01:00 succeeded",
        "finished t 09:01:00 succeeded",
        "released t 09:03:00 on-time after waiting",
    )
    assert book.next_due() == "09:04:00"


def test_a_queued_fire_is_released_under_the_page_that_defined_it() -> None:
    """Waiting keeps the definition page of the decision."""
    book = opened("queue").given(TICK, at="09:02:00")
    book.given(amend(cron("* * * * *", overlap="queue", target="nats:other")), at="09:02:10")
    book.when(TICK, at="09:02:30", observed=(result("09:01:00", "09:02:29", 11, "succeeded"),))
    released = book.entries()[-1]
    assert isinstance(released, e.FireReleased)
    assert (released.decides, released.definition_page) == (False, 2)


def test_caught_up_fires_wait_for_each_other() -> None:
    """Unless overlap is allowed, catch-up fires go one after the other and none is skipped for overlap."""
    book = Given(create(cron("*/10 * * * *", missed="fire-all"))).when(TICK, at="09:45:00")
    book.then(
        "released t 09:10:00 caught-up",
        "decided t 09:20:00 caught-up",
        "decided t 09:30:00 caught-up",
        "decided t 09:40:00 caught-up",
    )
    book.when(TICK, at="09:46:00", observed=(result("09:10:00", "09:45:59", 5, "succeeded"),))
    book.then(
        "observed t 09:10:00 succeeded", "finished t 09:10:00 succeeded", "released t 09:20:00 caught-up after waiting"
    )


def test_an_on_time_fire_waits_for_a_caught_up_one_and_goes_ahead_of_the_others() -> None:
    """Blocked by catch-up alone, an on-time fire waits at the head; a later on-time one replaces it."""
    book = Given(create(cron("*/10 * * * *", missed="fire-all"))).given(TICK, at="09:45:00")
    book.when(TICK, at="09:50:00").then("decided t 09:50:00 on-time")
    book.when(TICK, at="10:00:00").then("withdrawn t 09:50:00 skipped replaced", "decided t 10:00:00 on-time")
    book.when(TICK, at="10:00:30", observed=(result("09:10:00", "10:00:29", 5, "succeeded"),))
    assert book.brief(book.entries()[-1]) == "released t 10:00:00 on-time after waiting"
    book.when(TICK, at="10:01:30", observed=(result("10:00:00", "10:01:29", 6, "succeeded"),))
    assert book.brief(book.entries()[-1]) == "released t 09:20:00 caught-up after waiting"


def test_an_on_time_fire_that_is_open_makes_the_next_one_overlap() -> None:
    """Blocked by an on-time fire, the next is skipped even while catch-up fires wait as well."""
    book = Given(create(cron("*/10 * * * *", missed="fire-all"))).given(TICK, at="09:45:00")
    book.given(TICK, at="09:50:00")
    book.when(TICK, at="09:50:30", observed=(result("09:10:00", "09:50:29", 5, "succeeded"),))
    book.when(TICK, at="10:00:00").then("skipped t 10:00:00 overlap")


def test_waiting_fires_are_released_when_overlap_becomes_allowed() -> None:
    """An amendment to allow lets everything that waits go on at the next tick."""
    book = Given(create(cron("*/10 * * * *", missed="fire-all"))).given(TICK, at="09:35:00")
    book.given(amend(cron("*/10 * * * *", missed="fire-all", overlap="allow")), at="09:35:10")
    assert book.next_due() == "09:35:00"
    book.when(TICK, at="09:35:20").then(
        "released t 09:20:00 caught-up after waiting", "released t 09:30:00 caught-up after waiting"
    )


def test_waiting_fires_wait_for_resume() -> None:
    """While the trigger is paused nothing that waits is released, and the first tick after it goes on."""
    book = opened("queue").given(TICK, at="09:02:00").given(PAUSE, at="09:02:10")
    book.when(TICK, at="09:02:20", observed=(result("09:01:00", "09:02:19", 11, "succeeded"),))
    book.then("observed t 09:01:00 succeeded", "finished t 09:01:00 succeeded")
    book.given(RESUME, at="09:02:30")
    book.when(TICK, at="09:02:40").then("released t 09:02:00 on-time after waiting")


def test_a_fire_that_waits_counts_against_the_maximum() -> None:
    """With a maximum of two, one open and one waiting, nothing further is decided."""
    book = opened("queue", max_fires=2).given(TICK, at="09:02:00")
    assert book.when(TICK, at="09:03:00").result == ()
    book.when(TICK, at="09:03:30", observed=(result("09:01:00", "09:03:29", 11, "succeeded"),))
    assert book.brief(book.entries()[-1]) == "released t 09:02:00 on-time after waiting"


def test_a_replaced_fire_gives_its_place_back() -> None:
    """With a maximum of three, replacing what waits is no further fire, within a page and across pages."""
    book = Given(create(every("1s", overlap="queue", max_fires=3))).given(TICK, at="09:00:01")
    book.when(TICK, at="09:00:04")
    assert [book.brief(entry) for entry in book.entries()][-1] == "decided t 09:00:04 on-time"
    book.when(TICK, at="09:00:05").then("withdrawn t 09:00:04 skipped replaced", "decided t 09:00:05 on-time")
    assert book.trigger().fired_count == 2


def test_on_time_instants_go_before_what_is_caught_up_in_the_same_page() -> None:
    """Nothing is open: the on-time instant is released, and the missed ones wait for it, unless fires may overlap."""
    alone = Given(create(cron("*/10 * * * *", missed="fire-all"))).when(TICK, at="09:30:00")
    alone.then("decided t 09:10:00 caught-up", "decided t 09:20:00 caught-up", "released t 09:30:00 on-time")
    both = Given(create(cron("*/10 * * * *", missed="fire-all", overlap="allow"))).when(TICK, at="09:30:00")
    both.then("released t 09:10:00 caught-up", "released t 09:20:00 caught-up", "released t 09:30:00 on-time")


def test_on_time_instants_go_before_older_ones_that_wait_to_be_caught_up() -> None:
    """A fire ends in the page in which an instant is due: that instant goes, and what is caught up waits on."""
    book = Given(create(cron("*/10 * * * *", missed="fire-all"))).given(TICK, at="09:35:00")
    book.when(TICK, at="09:40:00", observed=(result("09:10:00", "09:39:59", 11, "succeeded"),))
    book.then("observed t 09:10:00 succeeded", "finished t 09:10:00 succeeded", "released t 09:40:00 on-time")
    book.when(TICK, at="09:40:02", observed=(result("09:40:00", "09:40:01", 12, "succeeded"),))
    assert book.brief(book.entries()[-1]) == "released t 09:20:00 caught-up after waiting"


def test_an_on_time_fire_that_waited_goes_before_the_next_instant() -> None:
    """In order: the one that waited is released, and the instant of this page meets it open."""
    book = opened("queue").given(TICK, at="09:02:00")
    book.when(TICK, at="09:03:00", observed=(result("09:01:00", "09:02:59", 11, "succeeded"),))
    assert [book.brief(entry) for entry in book.entries()[2:]] == [
        "released t 09:02:00 on-time after waiting",
        "decided t 09:03:00 on-time",
    ]


def test_an_instant_on_time_in_the_next_schedule_goes_before_one_missed_in_the_last() -> None:
    """Segments are decided independently, and still share what is open."""
    book = Given(create(cron("*/10 * * * *", missed="fire-all")))
    book.given(amend(cron("25 * * * *", missed="fire-all")), at="09:15:00").when(TICK, at="09:25:00")
    book.then("decided t 09:10:00 caught-up", "settled t 09:15:00", "released t 09:25:00 on-time")


def test_a_shed_instant_holds_nothing_back() -> None:
    """Where on-time instants are skipped, what is caught up meanwhile still waits for its lane only."""
    book = Given(create(cron("*/10 * * * *", missed="fire-all"))).when(TICK, at="09:20:00", shedding_level=4)
    book.then("decided t 09:10:00 caught-up", "skipped t 09:20:00 shed")
    book.when(TICK, at="09:20:01").then("released t 09:10:00 caught-up after waiting")
