"""The fire rows: what each entry and record makes of a row, and how rows are asked for."""

from dataclasses import replace

import pytest

from fireledger.domain import entries as e
from fireledger.domain.book import Book, Folded, Head
from fireledger.domain.commands import Tick
from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import SECOND, Instant
from fireledger.domain.page import AttemptsPage, Page, PageInputs, encode_page
from fireledger.domain.state import State
from fireledger.domain.zones import ZoneLibrary
from fireledger.projections.fires import FireQuery, FireRow, FireRows
from fireledger.projections.ledger_fold import FoldedAttempts
from fireledger.runners.zone_package import load_packaged_zones

T0 = 1_800_000_000 * SECOND
DECIDED_AT = T0 + 10_000
STARTED_AT = T0 + 25_000
RESULT_AT = T0 + 90_000
FINISHED_AT = T0 + 2 * SECOND
ZONES = ZoneLibrary(load_packaged_zones())
KEY = FireKey("acme", "t", Instant(T0))


def page_of(*entries: e.BookEntry, now: int = T0) -> Page:
    """A scheduler's page with these entries."""
    inputs = PageInputs(now=now, earliest=now, latest=now, clock_source="simulated", as_of=0, owner="s")
    return Page(
        tenant="acme",
        number=1,
        commit_id="c",
        previous_sha256=b"",
        previous_stamped_at=0,
        inputs=inputs,
        command=Tick(),
        entries=entries,
    )


class Log:
    """Feeds rows with pages and records, numbering them as a stream does."""

    def __init__(self, *, rows_max: int = 100) -> None:
        self.rows = FireRows(rows_max=rows_max)
        self.sequence = 0

    def page(self, *entries: e.BookEntry, at: int = DECIDED_AT, effective: bool = True) -> None:
        """Take in a book page."""
        self.sequence += 1
        book = Book("acme", State(tenant="acme"), Head(self.sequence, b"", at, self.sequence))
        self.rows.apply(Folded(book, page_of(*entries), effective), sequence=self.sequence, stamped_at=at)

    def attempts(self, *records: e.AttemptRecord, at: int) -> None:
        """Take in an attempts page."""
        self.sequence += 1
        page = AttemptsPage(
            slot=1,
            number=1,
            commit_id="c",
            previous_sha256=b"",
            previous_stamped_at=0,
            owner="d",
            epoch=1,
            records=records,
        )
        folded = FoldedAttempts("attempts.1", page, at, self.sequence)
        self.rows.apply(folded, sequence=self.sequence, stamped_at=at)

    def row(self, key: FireKey = KEY) -> FireRow:
        """The fire's row, which must be there."""
        row = self.rows.get(key, ZONES)
        assert row is not None
        return row


def released(scheduled: int = T0, *, decides: bool = True, trigger: str = "t") -> e.FireReleased:
    """A released entry."""
    return e.FireReleased(
        trigger=trigger,
        scheduled=scheduled,
        release=scheduled + 5_000,
        definition_page=3,
        lane="on-time",
        cause="on-time",
        decides=decides,
    )


def started(*, resend: bool = False, attempt: int = 1) -> e.AttemptStarted:
    """A started record of an attempt."""
    return e.AttemptStarted(
        tenant="acme", trigger="t", scheduled=T0, attempt=attempt, definition_page=3, timeout=1, resend=resend
    )


def result(kind: e.ResultKind = "succeeded") -> e.AttemptResult:
    """A result of the first attempt."""
    return e.AttemptResult(tenant="acme", trigger="t", scheduled=T0, attempt=1, result=kind, message="hello")


def finished(outcome: e.Outcome = "succeeded", cause: str = "executor") -> e.FireFinished:
    """The fire's outcome."""
    return e.FireFinished(trigger="t", scheduled=T0, outcome=outcome, cause=cause, attempt=1)


def query(*, limit: int = 10) -> FireQuery:
    """All of the tenant's rows."""
    return FireQuery(tenant="acme", limit=limit)


def test_a_fires_instants_come_from_where_they_are_attested() -> None:
    """Decided and released are the page's stamp, dispatched the started record's, finished the result's."""
    log = Log()
    log.page(released())
    log.attempts(started(), at=STARTED_AT)
    log.attempts(result(), at=RESULT_AT)
    log.page(finished(), at=FINISHED_AT)
    row = log.row()
    assert (row.state, row.cause, row.lane, row.version, row.attempts) == ("fired", "on-time", "on-time", 3, 1)
    assert (row.decided, row.released, row.dispatched, row.finished) == (DECIDED_AT, DECIDED_AT, STARTED_AT, RESULT_AT)
    assert (row.lateness_ms, row.delay_ms) == (25.0, 20.0)
    assert (row.result, row.outcome, row.outcome_cause, row.message) == ("succeeded", "succeeded", "executor", "hello")


def test_a_fire_that_waits_is_decided_and_then_released() -> None:
    """A decision without release shows as waiting; the release keeps the decision's instant."""
    log = Log()
    decided = e.FireDecided(
        trigger="t", scheduled=T0, release=T0, definition_page=3, lane="catch-up", cause="caught-up"
    )
    log.page(decided)
    assert (log.row().state, log.row().released) == ("waiting", None)
    log.page(released(decides=False), at=FINISHED_AT)
    row = log.row()
    assert (row.state, row.decided, row.released, row.lane) == ("fired", DECIDED_AT, FINISHED_AT, "catch-up")


def test_a_range_is_one_row_that_answers_for_each_of_its_instants() -> None:
    """A run of instants keeps first, last and count, and is found under any instant inside it."""
    log = Log()
    resolved = e.InstantsResolved(
        trigger="t",
        first=T0,
        last=T0 + 60 * SECOND,
        count=61,
        state="coalesced",
        cause="coalesced",
        into=T0 + 61 * SECOND,
    )
    log.page(resolved)
    row = log.row(FireKey("acme", "t", Instant(T0 + 30 * SECOND)))
    assert (row.scheduled, row.last, row.count, row.state, row.into) == (
        T0,
        T0 + 60 * SECOND,
        61,
        "coalesced",
        T0 + 61 * SECOND,
    )
    assert log.rows.get(FireKey("acme", "t", Instant(T0 + 61 * SECOND)), ZONES) is None


def test_what_new_zone_data_moved_onto_a_fire_leaves_its_row() -> None:
    """A local time coalesced into its own key is counted at the fire that has it, and is no row by itself."""
    log = Log()
    log.page(released())
    moved = e.InstantsResolved(trigger="t", first=T0, last=T0, count=1, state="coalesced", cause="coalesced", into=T0)
    log.page(moved)
    (row,) = log.rows.newest(query())
    assert (row.state, row.merged, row.lane) == ("fired", 1, "on-time")


def test_a_withdrawn_fire_says_why() -> None:
    """A decided fire that is withdrawn takes the state and cause of the withdrawal."""
    log = Log()
    log.page(e.FireDecided(trigger="t", scheduled=T0, release=T0, definition_page=3, lane="on-time", cause="on-time"))
    log.page(e.FireWithdrawn(trigger="t", scheduled=T0, state="cancelled", cause="deleted"))
    assert (log.row().state, log.row().cause, log.row().released) == ("cancelled", "deleted", None)


def test_a_resend_is_a_duplicate_and_moves_the_dispatch() -> None:
    """A call sent again counts as a duplicate of the same attempt."""
    log = Log()
    log.page(released())
    log.attempts(started(), at=STARTED_AT)
    log.attempts(started(resend=True), at=STARTED_AT + SECOND)
    assert (log.row().attempts, log.row().duplicates, log.row().dispatched) == (1, 1, STARTED_AT + SECOND)


def test_an_outcome_window_ends_a_fire_at_its_page() -> None:
    """Without a result the fire is finished when the page says unknown; a later result changes nothing."""
    log = Log()
    log.page(released())
    log.attempts(started(), at=STARTED_AT)
    log.page(finished("unknown", "outcome window over"), at=FINISHED_AT)
    log.attempts(result(), at=FINISHED_AT + SECOND)
    row = log.row()
    assert (row.outcome, row.outcome_cause, row.finished, row.result) == (
        "unknown",
        "outcome window over",
        FINISHED_AT,
        None,
    )


def test_what_an_attempt_says_after_the_next_has_begun_is_not_the_fires() -> None:
    """The listing shows the present attempt; the log has the rest."""
    log = Log()
    log.page(released())
    log.attempts(started(), at=STARTED_AT)
    log.attempts(started(attempt=2), at=STARTED_AT + SECOND)
    log.attempts(result(), at=RESULT_AT)
    row = log.row()
    assert (row.attempts, row.result, row.message, row.finished) == (2, None, "", None)


def test_held_is_shown_until_it_ends() -> None:
    """A held fire shows as held with its message, and its end replaces that."""
    log = Log()
    log.page(released())
    log.attempts(started(), at=STARTED_AT)
    log.page(e.FireHeld(trigger="t", scheduled=T0, attempt=1, message="please approve"))
    assert (log.row().outcome, log.row().message, log.row().finished) == ("held", "please approve", None)
    log.attempts(result(), at=RESULT_AT)
    log.page(finished(), at=FINISHED_AT)
    assert (log.row().outcome, log.row().finished) == ("succeeded", RESULT_AT)


def test_a_page_without_effect_contributes_nothing() -> None:
    """Entries of an ineffective page make no row, and records of unknown fires neither."""
    log = Log()
    log.page(released(), effective=False)
    log.attempts(started(), at=STARTED_AT)
    assert len(log.rows) == 0


def test_a_page_brought_back_counts_with_its_own_timestamp() -> None:
    """A rollback entry's lost page makes the row it would have made."""
    log = Log()
    body = encode_page(page_of(released()))
    log.page(
        e.RollbackRecorded(origin="book", body=body, stamped_at=T0 + 7, surviving_sequence=1), at=T0 + 3_600 * SECOND
    )
    assert log.row().decided == T0 + 7


def test_rows_are_listed_newest_first_within_bounds() -> None:
    """Since is inclusive, until exclusive, and a listing goes on strictly behind its cursor."""
    log = Log()
    log.page(*(released(T0 + n * SECOND) for n in range(10)))
    log.page(released(T0, trigger="other"))
    every = log.rows.newest(query(limit=20))
    assert [row.scheduled for row in every] == sorted((row.scheduled for row in every), reverse=True)
    bounded = replace(query(), trigger="t", since=T0 + 2 * SECOND, until=T0 + 5 * SECOND)
    assert [(row.scheduled - T0) // SECOND for row in log.rows.newest(bounded)] == [4, 3, 2]
    first = log.rows.newest(query(limit=6))
    cursor = (first[-1].scheduled, first[-1].trigger, first[-1].sequence)
    rest = log.rows.newest(replace(query(limit=20), before=cursor))
    assert first + rest == every


def test_a_follower_gets_every_change_once_and_in_order() -> None:
    """Asking again from the last row's mark goes on behind it, also inside one page, and hears of later changes."""
    log = Log()
    log.page(*(released(T0 + n * SECOND) for n in range(5)))
    seen: list[int] = []
    position = 0
    for _ in range(3):
        found = log.rows.changed_since("acme", None, position, limit=2)
        seen.extend(row.scheduled for row in found)
        position = found[-1].changed
    assert seen == [T0 + n * SECOND for n in range(5)]
    assert position <= log.rows.position
    log.attempts(started(), at=STARTED_AT)
    again = log.rows.changed_since("acme", "t", position, limit=2)
    assert [row.scheduled for row in again] == [T0]
    assert log.rows.changed_since("globex", None, 0, limit=2) == []


def test_marks_are_the_same_after_a_restart() -> None:
    """A fold from the beginning gives each row the mark it had, so that a follower survives a restart."""
    marks: list[int] = []
    for _ in range(2):
        log = Log()
        log.page(*(released(T0 + n * SECOND) for n in range(3)))
        log.attempts(started(), at=STARTED_AT)
        marks.append(hash(tuple(row.changed for row in log.rows.changed_since("acme", None, 0, limit=9))))
    assert marks[0] == marks[1]


@pytest.mark.parametrize("rows_max", [1, 3])
def test_the_rows_that_changed_longest_ago_are_forgotten(rows_max: int) -> None:
    """The bound holds over all tenants, and followers can tell what they missed."""
    log = Log(rows_max=rows_max)
    for n in range(5):
        log.page(released(T0 + n * SECOND))
    assert len(log.rows) == rows_max
    kept = log.rows.newest(query())
    assert [(row.scheduled - T0) // SECOND for row in kept] == list(range(4, 4 - rows_max, -1))
    assert log.rows.forgotten_through("acme") < kept[-1].changed
