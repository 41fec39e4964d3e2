"""A dispatcher's and a scheduler's part in tests of control: attempts are made, and a book observes them."""

from fireledger.domain.book import next_page, page_now
from fireledger.domain.commands import Tick
from fireledger.domain.decide import decide
from fireledger.domain.entries import AttemptRecord, AttemptResult, AttemptStarted, FireReleased, ResultKind
from fireledger.domain.identifiers import book_subject, slot_of
from fireledger.domain.inputs import Inputs
from fireledger.domain.instants import SECOND
from fireledger.domain.page import AttemptsPage, PageInputs, encode_attempts, encode_page
from fireledger.domain.rejections import Rejection
from fireledger.projections.ledger_fold import observed_from
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.ledger import Append, Committed, Ledger
from tests.integration.control.running import ZONES, Service
from tests.waiting import PATIENCE_S


async def attempted(
    service: Service, tenant: str, fire: FireReleased, result: ResultKind, *, cost: int | None = None, message: str = ""
) -> None:
    """Make the released attempt, with this result, and let the book observe it."""
    started = AttemptStarted(
        tenant=tenant,
        trigger=fire.trigger,
        scheduled=fire.scheduled,
        sequence=fire.sequence,
        attempt=fire.attempt,
        definition_page=fire.definition_page,
        timeout=30 * SECOND,
    )
    answered = AttemptResult(
        tenant=tenant,
        trigger=fire.trigger,
        scheduled=fire.scheduled,
        sequence=fire.sequence,
        attempt=fire.attempt,
        result=result,
        cost=cost,
        message=message,
    )
    await observe(service, tenant, started, answered)


async def observe(service: Service, tenant: str, *records: AttemptRecord) -> None:
    """Write an attempts page with these records, then a scheduler's page that observes them."""
    model, subject = service.control.model, f"attempts.{slot_of(tenant)}"
    before = model.attempts_head(subject)
    attempts = AttemptsPage(
        slot=slot_of(tenant),
        number=before.number + 1,
        commit_id=f"{subject}-{before.number + 1}",
        previous_sha256=before.sha256,
        previous_stamped_at=before.stamped_at,
        owner="dispatcher",
        epoch=1,
        records=records,
    )
    await _append(service, "dispatcher", subject, encode_attempts(attempts), before.sequence)
    head = model.attempts_head(subject)
    observed = tuple(observed_from(each, stamped_at=head.stamped_at, sequence=head.sequence) for each in records)
    book, reading = model.book(tenant), service.clock.now()
    recorded = PageInputs(
        now=page_now(book.state, reading.earliest),
        earliest=reading.earliest,
        latest=reading.latest,
        clock_source=reading.source,
        as_of=head.sequence,
        owner="scheduler",
    )
    entries = decide(book.state, Tick(), Inputs(recorded, ZONES, observed=observed))
    assert not isinstance(entries, Rejection)
    commit_id = f"{tenant}-{book.head.number}"
    page = next_page(book, commit_id=commit_id, inputs=recorded, command=Tick(), entries=entries)
    await _append(service, "scheduler", book_subject(tenant), encode_page(page), book.head.sequence)


def released(service: Service, tenant: str, trigger: str) -> FireReleased:
    """The trigger's open fire as its last release entry has it, made from the book's state."""
    (fire,) = service.control.model.book(tenant).state.triggers[trigger].open
    return FireReleased(
        trigger=trigger,
        scheduled=fire.scheduled,
        sequence=fire.sequence,
        release=fire.release,
        definition_page=fire.definition_page,
        lane=fire.lane,
        cause=fire.cause,
        attempt=fire.attempt,
    )


async def _append(service: Service, user: str, subject: str, body: bytes, expected: int) -> None:
    if user not in service.writers:
        service.writers[user] = await BrokerConnection.open(service.broker.login(user), name=user)
    append = Append(subject, body, f"{subject}-{expected}", expected)
    outcome = await Ledger(service.writers[user]).append(append)
    assert isinstance(outcome, Committed)
    model = service.control.model
    assert await model.wait_until(lambda: model.position >= outcome.sequence, PATIENCE_S)
