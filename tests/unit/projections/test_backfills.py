"""The backfills projection: what became of a trigger's last backfill."""

from fireledger.domain import entries as e
from fireledger.domain.instants import MINUTE, SECOND
from fireledger.domain.page import encode_page
from fireledger.projections.backfills import BackfillRow, Backfills
from tests.unit.projections.lane_log import T0, attempts_page, book_page, decided, finished, released, started

START, END = T0 - 10 * MINUTE, T0


class Log:
    """Feeds backfills."""

    def __init__(self) -> None:
        self.backfills = Backfills()

    def page(self, *entries: e.BookEntry, at: int = T0, effective: bool = True) -> None:
        """Take in a book page."""
        self.backfills.apply(book_page("acme", *entries, at=at, effective=effective), stamped_at=at)

    @property
    def row(self) -> BackfillRow:
        """The trigger's row, which must be there."""
        row = self.backfills.get("acme", "t")
        assert row is not None
        return row


def began(label: str = "november") -> e.BackfillStarted:
    """A backfill begins."""
    return e.BackfillStarted(
        trigger="t",
        backfill=label,
        start=START,
        end=END,
        only_missing=True,
        rate_per_second=5,
        grant_holder="ann",
    )


def test_fires_are_counted_as_they_go_on() -> None:
    """Decided, released, cancelled, and by outcome, for whoever started it; the schedule's fires are not its own."""
    log = Log()
    log.page(began(), at=T0)
    names = [(START + n * MINUTE, 1 + n) for n in range(4)]
    log.page(*(decided(at, "backfill", sequence=number) for at, number in names), at=T0 + SECOND)
    log.page(
        *(released(at, "backfill", sequence=n, decides=False) for at, n in names[:3]), released(T0), at=T0 + SECOND
    )
    log.backfills.apply(attempts_page(started("acme", names[0][0], sequence=1), at=T0), stamped_at=T0)
    log.page(released(names[0][0], "backfill", sequence=1, attempt=2, decides=False), at=T0 + SECOND)
    log.page(finished(names[0][0], sequence=1), finished(names[1][0], "failed", sequence=2), finished(T0))
    cancelled = e.FireWithdrawn(trigger="t", scheduled=names[3][0], sequence=4, state="cancelled", cause="by-person")
    log.page(cancelled, e.BackfillEnded(trigger="t", backfill="november", cause="cancelled", fired_count=3), at=T0 + 9)
    row = log.row
    assert (row.label, row.start, row.end, row.rate_per_second, row.by, row.only_missing) == (
        "november",
        START,
        END,
        5,
        "bob",
        True,
    )
    assert (row.decided, row.released, row.cancelled, row.outcomes) == (4, 3, 1, {"succeeded": 1, "failed": 1})
    assert (row.began, row.ended, row.cause, row.fires) == (T0, T0 + 9, "cancelled", {names[2]})


def test_an_outcome_after_the_end_still_counts() -> None:
    """What was released before the end goes on to its outcome."""
    log = Log()
    log.page(began())
    log.page(released(START, "backfill", sequence=1))
    log.page(e.BackfillEnded(trigger="t", backfill="november", cause="complete", fired_count=1))
    log.page(finished(START, "unknown", sequence=1))
    assert (log.row.decided, log.row.released, log.row.outcomes, log.row.fires) == (1, 1, {"unknown": 1}, set())


def test_the_next_backfill_takes_its_place_and_deletion_forgets_it() -> None:
    """There is one row for each trigger."""
    log = Log()
    log.page(began(), decided(START, "backfill", sequence=1))
    log.page(began("december"))
    assert (log.row.label, log.row.decided) == ("december", 0)
    log.page(e.TriggerDeleted(trigger="t"))
    assert log.backfills.get("acme", "t") is None


def test_only_what_took_effect_counts_and_a_page_brought_back_does() -> None:
    """A page without effect changes nothing; one brought back counts with its own timestamp."""
    log = Log()
    log.page(began(), effective=False)
    assert log.backfills.get("acme", "t") is None
    body = encode_page(book_page("acme", began(), at=T0).page)
    log.page(e.RollbackRecorded(origin="book", body=body, stamped_at=T0, surviving_sequence=1), at=T0 + SECOND)
    assert log.row.began == T0
