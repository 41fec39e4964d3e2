"""A log of one page after the other, for projections that count fires."""

from fireledger.domain import entries as e
from fireledger.domain.book import Book, Folded, Head
from fireledger.domain.commands import Command, StartBackfill, Tick
from fireledger.domain.instants import SECOND
from fireledger.domain.page import AttemptsPage, Page, PageInputs
from fireledger.domain.state import State
from fireledger.projections.ledger_fold import FoldedAttempts

T0 = 1_800_000_000 * SECOND


def book_page(tenant: str, *entries: e.BookEntry, at: int, effective: bool = True) -> Folded:
    """A scheduler's page of a tenant, or a person's who begins a backfill, as the fold of the ledger gives it."""
    inputs = PageInputs(now=at, earliest=at, latest=at, clock_source="simulated", as_of=0, owner="s")
    page = Page(
        tenant=tenant,
        number=1,
        commit_id="c",
        previous_sha256=b"",
        previous_stamped_at=0,
        inputs=inputs,
        command=next((_begins(entry) for entry in entries if isinstance(entry, e.BackfillStarted)), Tick()),
        entries=entries,
    )
    return Folded(Book(tenant, State(tenant=tenant), Head(1, b"", at, 1)), page, effective)


def _begins(entry: e.BackfillStarted) -> Command:
    return StartBackfill(
        trigger=entry.trigger,
        backfill=entry.backfill,
        start=entry.start,
        end=entry.end,
        only_missing=entry.only_missing,
        rate_per_second=entry.rate_per_second,
        by="bob",
    )


def attempts_page(*records: e.AttemptRecord, at: int) -> FoldedAttempts:
    """An attempts page, as the fold of the ledger gives it."""
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
    return FoldedAttempts("attempts.1", page, at, 1)


def decided(
    at: int, lane: e.Lane = "catch-up", *, trigger: str = "t", sequence: int = 0, over: bool = False
) -> e.FireDecided:
    """A fire that is decided and waits; its release is its scheduled instant."""
    causes: dict[e.Lane, e.FireCause] = {"on-time": "on-time", "catch-up": "caught-up", "backfill": "backfilled"}
    return e.FireDecided(
        trigger=trigger,
        scheduled=at,
        sequence=sequence,
        release=at,
        definition_page=2,
        lane=lane,
        cause=causes[lane],
        over_quota=over,
    )


def released(
    at: int,
    lane: e.Lane = "on-time",
    *,
    trigger: str = "t",
    sequence: int = 0,
    attempt: int = 1,
    decides: bool = True,
    over: bool = False,
) -> e.FireReleased:
    """A released entry; its release is its scheduled instant."""
    causes: dict[e.Lane, e.FireCause] = {"on-time": "on-time", "catch-up": "caught-up", "backfill": "backfilled"}
    return e.FireReleased(
        trigger=trigger,
        scheduled=at,
        sequence=sequence,
        release=at,
        definition_page=2,
        lane=lane,
        cause=causes[lane],
        attempt=attempt,
        decides=decides,
        over_quota=over,
    )


def started(
    tenant: str, at: int, *, trigger: str = "t", sequence: int = 0, attempt: int = 1, resend: bool = False
) -> e.AttemptStarted:
    """A started record."""
    return e.AttemptStarted(
        tenant=tenant,
        trigger=trigger,
        scheduled=at,
        sequence=sequence,
        attempt=attempt,
        definition_page=2,
        timeout=SECOND,
        resend=resend,
    )


def finished(
    at: int, outcome: e.Outcome = "succeeded", *, trigger: str = "t", sequence: int = 0, cause: str = "executor"
) -> e.FireFinished:
    """A fire's outcome."""
    return e.FireFinished(trigger=trigger, scheduled=at, sequence=sequence, outcome=outcome, cause=cause, attempt=1)
