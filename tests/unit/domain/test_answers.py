"""What each answer means in each state of its fire: one table, of the present attempt's and of an older one's."""

from collections.abc import Callable

import pytest

from fireledger.domain import entries as e
from fireledger.domain.commands import CancelFire, ReleaseFire
from fireledger.domain.instants import MINUTE, parse_instant
from fireledger.domain.rejections import RejectionCode
from tests.unit.domain.given import DELETE, PAUSE, TICK, Given, create, cron, result, started

TEN = parse_instant("2026-11-30T10:00:00Z")
RELEASE = ReleaseFire(trigger="t", scheduled=TEN, sequence=0, by="someone")
CANCEL = CancelFire(trigger="t", scheduled=TEN, sequence=0, by="someone")
KINDS: tuple[e.ResultKind, ...] = ("succeeded", "final", "retryable", "timeout", "held", "accepted")
NOTHING = ("", "", "", "", "", "")


def under_way() -> Given:
    """Attempt 1 of the fire of 10:00 is under way; its outcome window ends at 10:30:01."""
    book = Given(create(cron("0 * * * *", outcome_window=30 * MINUTE))).given(TICK, at="10:00:00")
    return book.when(TICK, at="10:00:02", observed=(started("10:00:00", "10:00:01", 10),))


def answered(kind: e.ResultKind) -> Given:
    """Attempt 1 was answered so."""
    return under_way().when(TICK, at="10:00:05", observed=(result("10:00:00", "10:00:04", 11, kind),))


def second_under_way(book: Given) -> Given:
    """Attempt 2 is under way."""
    book.given(TICK, at="10:05:00")
    return book.when(TICK, at="10:05:02", observed=(started("10:00:00", "10:05:01", 12, attempt=2),))


def second_answered(book: Given, kind: e.ResultKind) -> Given:
    """Attempt 2 was answered so."""
    return second_under_way(book).when(
        TICK, at="10:05:05", observed=(result("10:00:00", "10:05:04", 13, kind, attempt=2),)
    )


def let_go() -> Given:
    """Attempt 1 was held and a person let the fire go on; attempt 2 has not gone out."""
    return answered("held").given(RELEASE, at="10:04:00")


def orphaned(book: Given, *, created_again: bool) -> Given:
    """The fire's trigger is deleted, and perhaps another has its name."""
    book.given(DELETE, at="10:04:00")
    return book.given(create(cron("*/10 * * * *")), at="10:04:01") if created_again else book


ENDS = ("succeeded", "failed", "", "", "", "")
"""What is not asked any more may still end."""
TABLE: dict[str, tuple[Callable[[], Given], tuple[str, ...]]] = {
    "under way": (under_way, ("succeeded", "failed", "retry", "retry", "held", "")),
    "accepted": (lambda: answered("accepted"), ("succeeded", "failed", "retry", "retry", "held", "")),
    "waits for a retry": (lambda: answered("retryable"), ("succeeded", "failed", "", "", "held", "")),
    "held": (lambda: answered("held"), ENDS),
    "let go by a person": (let_go, ENDS),
    "the second attempt is under way": (lambda: second_under_way(answered("retryable")), NOTHING),
    "the second attempt is under way, let go": (lambda: second_under_way(let_go()), NOTHING),
    "the second attempt waits for a retry": (lambda: second_answered(answered("retryable"), "timeout"), NOTHING),
    "the second attempt is held": (lambda: second_answered(answered("retryable"), "held"), NOTHING),
    "the second attempt is held, let go before": (lambda: second_answered(let_go(), "held"), NOTHING),
    "the second attempt is let go": (
        lambda: second_answered(let_go(), "held").given(RELEASE, at="10:05:10"),
        NOTHING,
    ),
    "finished": (lambda: answered("final"), NOTHING),
    "cancelled while held": (lambda: answered("held").given(CANCEL, at="10:04:00"), NOTHING),
    "cancelled while a retry waits": (lambda: answered("timeout").given(CANCEL, at="10:04:00"), NOTHING),
    "ended with the deletion while a retry waits": (
        lambda: orphaned(answered("timeout"), created_again=True),
        NOTHING,
    ),
    "deleted": (
        lambda: orphaned(under_way(), created_again=False),
        ("succeeded", "failed", "failed", "unknown", "held", ""),
    ),
    "deleted and created again": (
        lambda: orphaned(under_way(), created_again=True),
        ("succeeded", "failed", "failed", "unknown", "held", ""),
    ),
    "deleted and created again while held": (lambda: orphaned(answered("held"), created_again=True), ENDS),
}


LATE: dict[str, tuple[e.ResultKind, ...]] = {
    **{state: KINDS for state, (_, wanted) in TABLE.items() if wanted == NOTHING},
    "let go by a person": ("held",),
}
"""The answers that are counted as late, all where none means anything; those of the other states are not."""


def conclusion(book: Given) -> str:
    """What the last page concludes from the answer, as a word of the table."""
    for entry in book.entries():
        match entry:
            case e.FireFinished():
                return entry.outcome
            case e.FireHeld():
                return "held"
            case e.RetryScheduled():
                return "retry"
            case _:
                pass
    return ""


@pytest.mark.parametrize("state", TABLE)
def test_what_an_answer_of_the_first_attempt_means(state: str) -> None:
    """Cell by cell: its outcome, a wait for a person, another attempt, or nothing."""
    make, wanted = TABLE[state]
    for kind, word in zip(KINDS, wanted, strict=True):
        book = make()
        before = book.state.late_count
        book.when(TICK, at="10:06:00", observed=(result("10:00:00", "10:05:30", 20, kind),))
        assert (kind, conclusion(book)) == (kind, word)
        assert (kind, book.state.late_count - before) == (kind, int(kind in LATE.get(state, ())))


@pytest.mark.parametrize("state", TABLE)
@pytest.mark.parametrize("first", KINDS)
def test_of_two_answers_on_one_page_the_second_means_what_it_would_alone(state: str, first: e.ResultKind) -> None:
    """Observed together or one after the other, two answers of an attempt lead to the same conclusions."""
    make, _ = TABLE[state]
    for second in KINDS:
        records = (result("10:00:00", "10:05:30", 20, first), result("10:00:00", "10:05:31", 21, second))
        together, apart = stopped(make()), stopped(make())
        together.when(TICK, at="10:06:00", observed=records)
        found = conclusions(together)
        apart.when(TICK, at="10:06:00", observed=records[:1])
        wanted = conclusions(apart)
        apart.when(TICK, at="10:06:00", observed=records[1:])
        assert found == wanted + conclusions(apart), second
        assert together.trigger().open == apart.trigger().open, second


def stopped(book: Given) -> Given:
    """Nothing is released in the trigger, if there is one."""
    return book if book.state.live("t") is None else book.given(PAUSE, at="10:05:59")


def conclusions(book: Given) -> list[e.BookEntry]:
    """All that the last page concludes."""
    return [each for each in book.entries() if isinstance(each, e.FireFinished | e.FireHeld | e.RetryScheduled)]


@pytest.mark.parametrize("state", ["under way", "accepted", "deleted", "deleted and created again"])
@pytest.mark.parametrize("kind", ["retryable", "held", "succeeded"])
def test_an_answer_after_the_outcome_window_changes_nothing(state: str, kind: e.ResultKind) -> None:
    """Stamped when the window of a call under way was over: recorded, counted as late, and the window ends the fire."""
    make, _ = TABLE[state]
    book = make()
    late = result("10:00:00", "10:40:00", 20, kind)
    before = book.state.late_count
    book.when(TICK, at="10:40:00", observed=(late,), as_of_read_at="10:20:00")
    assert (conclusion(book), book.state.late_count) == ("", before + 1)


def test_what_a_person_let_go_is_not_held_by_the_answer_that_was_there_before() -> None:
    """The executor tells once more that it waits for a person: the next attempt goes out all the same."""
    book = let_go().when(TICK, at="10:04:01", observed=(result("10:00:00", "10:04:00", 20, "held"),))
    book.then("observed t 10:00:00 held", "released t 10:00:00 on-time attempt 2")


@pytest.mark.parametrize("kind", ["retryable", "held"])
def test_a_fire_of_a_deleted_trigger_is_not_tried_again_under_its_name(kind: e.ResultKind) -> None:
    """Ended with the deletion as its cause, or held until a person cancels it: nobody can let it go on."""
    book = orphaned(under_way(), created_again=True)
    book.when(TICK, at="10:06:00", observed=(result("10:00:00", "10:05:30", 20, kind),))
    if kind == "held":
        book.when(RELEASE, at="10:07:00").then_refused(RejectionCode.TRIGGER_STOPPED)
        return
    finished = book.entries()[1]
    assert isinstance(finished, e.FireFinished)
    assert finished.cause == "trigger deleted"
    assert book.trigger().open == ()
