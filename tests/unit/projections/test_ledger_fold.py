"""The ledger's fold: chains of books and attempts, pending observations and what a page may state of them."""

from dataclasses import dataclass

import msgspec
import pytest

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.book import BrokenChain, Folded, Head, next_page, page_now
from fireledger.domain.definition import TenantSettings
from fireledger.domain.instants import MILLISECOND, SECOND, parse_instant
from fireledger.domain.page import (
    AttemptsPage,
    MalformedPage,
    PageInputs,
    attempts_seed,
    body_hash,
    decode_page,
    encode_attempts,
    encode_page,
)
from fireledger.projections.ledger_fold import FoldedAttempts, LedgerFold, observed_from
from tests.unit.domain.given import Given, create, cron

AT = parse_instant("2026-11-30T09:00:00Z")
ATTEMPTS = "attempts.7"


@dataclass(frozen=True)
class Message:
    """A message of the stream."""

    sequence: int
    subject: str
    stamped_at: int
    body: bytes


def started(number: int, tenant: str = "acme") -> e.AttemptStarted:
    """A started record of one fire."""
    return e.AttemptStarted(
        tenant=tenant, trigger="t", scheduled=AT + number, attempt=1, definition_page=2, timeout=30 * SECOND
    )


class Ledger:
    """A stream in the making, folded as it grows; writes follow the fold's own heads."""

    def __init__(self, *, observing: bool = True) -> None:
        self.fold = LedgerFold(observing=observing)
        self.messages: list[Message] = []

    def _append(self, subject: str, body: bytes, stamped_at: int) -> Folded | FoldedAttempts:
        message = Message(len(self.messages) + 1, subject, stamped_at, body)
        self.messages.append(message)
        return self.fold.apply(message)

    def page(
        self,
        tenant: str = "acme",
        *,
        entries: tuple[e.BookEntry, ...] = (),
        as_of: int = 0,
        late: bool = False,
    ) -> Folded | FoldedAttempts:
        """Append a page to a book."""
        book = self.fold.book(tenant)
        at = AT + len(self.messages) * SECOND
        inputs = PageInputs(
            now=page_now(book.state, at), earliest=at, latest=at, clock_source="simulated", as_of=as_of, owner="w"
        )
        page = next_page(book, commit_id="c", inputs=inputs, command=c.Tick(), entries=entries)
        return self._append(f"book.7.{tenant}", encode_page(page), at + (60 * SECOND if late else MILLISECOND))

    def attempts(self, *records: e.AttemptRecord, subject: str = ATTEMPTS) -> Folded | FoldedAttempts:
        """Append a page of attempts."""
        head = self.fold.attempts_head(subject)
        page = AttemptsPage(
            slot=7,
            number=head.number + 1,
            commit_id="a",
            previous_sha256=head.sha256,
            previous_stamped_at=head.stamped_at,
            owner="d",
            epoch=1,
            records=records,
        )
        return self._append(subject, encode_attempts(page), AT + len(self.messages) * SECOND)


def refold(messages: list[Message]) -> LedgerFold:
    """Fold messages anew, numbered as they stand."""
    fold = LedgerFold()
    for message in messages:
        fold.apply(message)
    return fold


def three_of_each() -> Ledger:
    """A ledger of two books and an attempts chain, three pages each."""
    ledger = Ledger()
    for number in range(3):
        ledger.page(entries=(e.TenantCreated(settings=TenantSettings()),) if number == 0 else ())
        ledger.attempts(started(number))
        ledger.page("other")
    return ledger


def test_books_are_kept_apart() -> None:
    """Each tenant has a book of its own, empty before its first page."""
    ledger = three_of_each()
    assert ledger.fold.position == 9
    assert set(ledger.fold.books) == {"acme", "other"}
    assert [ledger.fold.book(tenant).head.number for tenant in ("acme", "other", "nobody")] == [3, 3, 0]
    assert ledger.fold.attempts_head(ATTEMPTS).number == 3
    assert ledger.fold.attempts_head("attempts.8") == Head(0, attempts_seed("attempts.8"), 0, 0)


def test_what_was_folded_is_returned() -> None:
    """A page comes back with its book and effect, an attempts page with where and when it was stored."""
    ledger = Ledger()
    folded, late = ledger.page(), ledger.page(late=True)
    assert isinstance(folded, Folded)
    assert isinstance(late, Folded)
    assert (folded.page.number, folded.effective, late.effective) == (1, True, False)
    attempts = ledger.attempts(started(1))
    assert isinstance(attempts, FoldedAttempts)
    assert (attempts.subject, attempts.sequence, attempts.page.records) == (ATTEMPTS, 3, (started(1),))


@pytest.mark.parametrize("removed", range(9))
def test_a_removed_page_is_found(removed: int) -> None:
    """Any page taken out breaks its chain at the next page of it; the last of each chain leaves no gap."""
    messages = three_of_each().messages
    left = [message for place, message in enumerate(messages) if place != removed]
    if removed >= 6:
        assert refold(left).position == left[-1].sequence
        return
    with pytest.raises(BrokenChain, match=r'"acme"|"other"|"attempts\.7"'):
        refold(left)


@pytest.mark.parametrize("place", range(6))
def test_reordered_pages_are_found(place: int) -> None:
    """Two neighbours of one chain exchanged break it."""
    messages = three_of_each().messages
    one, two = messages[place], messages[place + 3]
    assert one.subject == two.subject
    messages[place] = Message(one.sequence, one.subject, two.stamped_at, two.body)
    messages[place + 3] = Message(two.sequence, two.subject, one.stamped_at, one.body)
    with pytest.raises(BrokenChain):
        refold(messages)


def altered(message: Message) -> Message:
    """The message with another, well-formed body."""
    if message.subject == ATTEMPTS:
        page = msgspec.msgpack.decode(message.body, type=AttemptsPage)
        body = encode_attempts(msgspec.structs.replace(page, records=()))
    else:
        body = encode_page(msgspec.structs.replace(decode_page(message.body), commit_id="forged"))
    return Message(message.sequence, message.subject, message.stamped_at, body)


@pytest.mark.parametrize("place", range(6))
def test_an_altered_page_is_found(place: int) -> None:
    """A page of a book or of attempts that was rewritten does not have the hash its successor carries."""
    messages = three_of_each().messages
    messages[place] = altered(messages[place])
    with pytest.raises(BrokenChain, match=r"hash|follow"):
        refold(messages)


@pytest.mark.parametrize("place", range(6))
def test_an_altered_timestamp_is_found(place: int) -> None:
    """The next page carries the broker's timestamp of the one before."""
    messages = three_of_each().messages
    changed = messages[place]
    messages[place] = Message(changed.sequence, changed.subject, changed.stamped_at + 1, changed.body)
    with pytest.raises(BrokenChain, match=r"timestamp|follow"):
        refold(messages)


def test_sequences_must_rise() -> None:
    """A message at or below the position is refused."""
    ledger = Ledger()
    ledger.page()
    with pytest.raises(BrokenChain, match="came after 1"):
        ledger.fold.apply(ledger.messages[0])


def test_a_refused_message_changes_nothing() -> None:
    """After an error the fold stands where it stood and takes the right message."""
    ledger = three_of_each()
    fold, before = ledger.fold, ledger.fold.book("acme")
    for subject, body, error in (
        ("book.7.acme", b"garbage", MalformedPage),
        (ATTEMPTS, b"garbage", MalformedPage),
        ("book.7.acme", ledger.messages[0].body, BrokenChain),
        (ATTEMPTS, ledger.messages[1].body, BrokenChain),
    ):
        with pytest.raises(error):
            fold.apply(Message(10, subject, AT, body))
    assert (fold.position, fold.book("acme")) == (9, before)
    assert len(fold.pending("acme", at_most=100)[0]) == 3
    ledger.page()
    ledger.attempts(started(5))


def test_records_are_pending_until_a_page_observes_them() -> None:
    """A record waits for a page whose as_of reaches it."""
    ledger = Ledger()
    ledger.page()
    assert ledger.fold.pending("acme", at_most=10) == ((), 1)
    assert not ledger.fold.has_pending("acme")
    assert ledger.fold.oldest_pending_at("acme") is None
    ledger.attempts(started(1), started(2))
    assert ledger.fold.has_pending("acme")
    assert ledger.fold.oldest_pending_at("acme") == ledger.messages[1].stamped_at
    observed, as_of = ledger.fold.pending("acme", at_most=10)
    assert as_of == 2
    assert [(entry.scheduled, entry.source_sequence, entry.stamped_at) for entry in observed] == [
        (AT + number, 2, ledger.messages[1].stamped_at) for number in (1, 2)
    ]
    ledger.page(entries=observed, as_of=as_of)
    assert ledger.fold.pending("acme", at_most=10) == ((), 3)
    assert ledger.fold.book("acme").state.as_of == 2


def test_a_page_without_effect_observes_nothing() -> None:
    """Records carried by a page that does not act stay pending."""
    ledger = Ledger()
    ledger.page()
    ledger.attempts(started(1))
    observed, as_of = ledger.fold.pending("acme", at_most=10)
    ledger.page(entries=observed, as_of=as_of, late=True)
    assert ledger.fold.pending("acme", at_most=10) == (observed, 3)


def test_only_whole_source_pages_are_observed() -> None:
    """As many source pages as fit, the first one whatever its size, and an as_of that splits none."""
    ledger = Ledger()
    ledger.page()
    ledger.attempts(*(started(number) for number in range(3)))
    ledger.attempts(*(started(number) for number in range(3, 5)))
    ledger.attempts(started(5))
    for at_most, count, as_of in ((1, 3, 2), (3, 3, 2), (4, 3, 2), (5, 5, 3), (6, 6, 4)):
        observed, found = ledger.fold.pending("acme", at_most=at_most)
        assert (len(observed), found) == (count, as_of)


def test_records_go_to_their_own_tenant() -> None:
    """A page of attempts spans tenants; each book observes its own records, and as_of covers the rest."""
    ledger = Ledger()
    ledger.attempts(started(1), started(2, "other"), started(3))
    assert [entry.scheduled - AT for entry in ledger.fold.pending("acme", at_most=10)[0]] == [1, 3]
    assert [entry.scheduled - AT for entry in ledger.fold.pending("other", at_most=10)[0]] == [2]
    assert ledger.fold.pending("nobody", at_most=10) == ((), 1)


def test_reports_are_a_chain_of_their_own() -> None:
    """Reports are observed like attempts, in the order of the stream, and chained by their own subject."""
    ledger = Ledger()
    ledger.attempts(started(1))
    reported = e.AttemptReported(tenant="acme", trigger="t", scheduled=AT + 1, attempt=1, result="succeeded", cost=4)
    ledger.attempts(reported, subject="reports.7")
    ledger.attempts(started(2))
    observed, as_of = ledger.fold.pending("acme", at_most=10)
    assert ([entry.record for entry in observed], as_of) == (["started", "reported", "started"], 3)
    assert ledger.fold.attempts_head("reports.7").number == 1


def test_a_fold_that_does_not_observe_keeps_nothing() -> None:
    """Runners that never decide keep no pending records."""
    ledger = Ledger(observing=False)
    ledger.attempts(started(1))
    assert not ledger.fold.has_pending("acme")


def test_many_pending_pages_are_taken_in_time() -> None:
    """Taking what fits costs what is taken, however much is pending."""
    ledger = Ledger()
    for number in range(3000):
        ledger.attempts(started(number))
    for _ in range(50):
        observed, as_of = ledger.fold.pending("acme", at_most=200)
        assert (len(observed), as_of) == (200, 200)


def test_every_kind_of_record_is_observed_in_full() -> None:
    """What a record says of its attempt travels into the book."""
    result = e.AttemptResult(
        tenant="acme",
        trigger="t",
        scheduled=AT,
        sequence=2,
        attempt=3,
        result="retryable",
        code=503,
        took=5,
        retry_after=9,
        cost=7,
        message="busy",
    )
    assert observed_from(result, stamped_at=AT + 1, sequence=44) == e.AttemptObserved(
        trigger="t",
        scheduled=AT,
        sequence=2,
        attempt=3,
        record="result",
        stamped_at=AT + 1,
        source_sequence=44,
        result="retryable",
        retry_after=9,
        cost=7,
        message="busy",
    )
    resent = msgspec.structs.replace(started(0), resend=True)
    observed = observed_from(resent, stamped_at=AT, sequence=1)
    assert (observed.record, observed.resend, observed.result) == ("started", True, None)


def test_a_book_made_by_decisions_folds_to_the_same_state() -> None:
    """Fed with the pages of a decided book, the fold has that book."""
    given = Given(create(cron("* * * * *"))).ticks("09:01:00", "09:02:00")
    fold = LedgerFold()
    for page in given.written:
        fold.apply(Message(page.sequence, "book.7.acme", page.stamped_at, page.body))
    assert fold.book("acme") == given.book
    assert fold.book("acme").head.sha256 == body_hash(given.written[-1].body)
