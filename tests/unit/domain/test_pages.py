"""The envelope: chain, effective rule, hash and bounds."""

import msgspec
import pytest

from fireledger.domain.book import BrokenChain, fold_page, next_page
from fireledger.domain.commands import Tick
from fireledger.domain.evolve import evolve
from fireledger.domain.instants import MILLISECOND, SECOND
from fireledger.domain.page import (
    AttemptsPage,
    MalformedPage,
    PageTooLarge,
    attempts_seed,
    body_hash,
    book_seed,
    decode_page,
    encode_attempts,
    encode_page,
    entry_key,
    is_effective,
)
from tests.unit.domain.given import PAUSE, TICK, Given, create, cron

MINUTELY = cron("* * * * *")


@pytest.mark.parametrize(
    "offset,effective",
    [
        (-100 * MILLISECOND, True),
        (-100 * MILLISECOND - 1, False),
        (20 * MILLISECOND + 10 * SECOND, True),
        (20 * MILLISECOND + 10 * SECOND + 1, False),
    ],
)
def test_a_page_takes_effect_if_it_was_stamped_in_time(offset: int, effective: bool) -> None:
    """Both bounds are inclusive: earliest - 100 ms and latest + 10 s."""
    book = Given(create(MINUTELY))
    at = book.instant("09:00:30")
    book.when(PAUSE, at=at, stamped_at=at + offset)
    assert book.trigger().paused == effective
    assert is_effective(decode_page(book.written[-1].body).inputs, at + offset) == effective


def test_a_page_without_effect_stays_in_the_chain_and_changes_nothing() -> None:
    """It counts as a page, its successor carries its hash, and everything else is as before."""
    book = Given(create(MINUTELY))
    before = book.state
    book.when(TICK, at="09:01:00", stamped_at="09:02:00")
    assert book.state == msgspec.structs.replace(before, page=3, ineffective_count=1)
    ineffective = book.written[-1]
    book.when(TICK, at="09:02:01").then("coalesced t 09:01:00 coalesced into 09:02:00", "released t 09:02:00 on-time")
    assert decode_page(book.written[-1].body).previous_sha256 == body_hash(ineffective.body)
    assert decode_page(book.written[-1].body).previous_stamped_at == ineffective.stamped_at
    assert (book.state.page, book.state.effective_page) == (4, 4)


def test_an_ineffective_page_does_not_move_now_or_as_of() -> None:
    """A clock that ran ahead leaves no trace in the book's now."""
    book = Given(create(MINUTELY)).when(PAUSE, at="23:00:00", stamped_at="09:00:10")
    assert book.state.now == book.instant("09:00:00")
    book.when(PAUSE, at="09:00:11").then("TriggerPaused t")
    assert book.state.now == book.instant("09:00:11")


def test_a_request_of_an_ineffective_page_is_not_remembered() -> None:
    """The request may be made again."""
    book = Given(create(MINUTELY))
    book.when(PAUSE, at="09:00:01", stamped_at="09:01:00", request_id="r", request_sha256=b"x")
    book.when(PAUSE, at="09:01:01", request_id="r", request_sha256=b"x").then("TriggerPaused t")


def test_pages_are_chained_from_a_seed_of_the_tenant() -> None:
    """Page 1 carries the seed, each later page the hash and the timestamp of the one before."""
    book = Given(create(MINUTELY)).given(TICK, at="09:01:00")
    pages = [decode_page(each.body) for each in book.written]
    assert pages[0].previous_sha256 == book_seed("acme") != book_seed("other")
    assert pages[0].previous_stamped_at == 0
    for before, after in zip(book.written, pages[1:], strict=False):
        assert after.previous_sha256 == body_hash(before.body)
        assert after.previous_stamped_at == before.stamped_at
    assert attempts_seed("attempts.1") != attempts_seed("attempts.2")


@pytest.mark.parametrize(
    "changes,part",
    [
        ({"number": 4}, "page 4"),
        ({"number": 2}, "page 2"),
        ({"tenant": "other"}, '"other"'),
        ({"previous_sha256": b"\0" * 32}, "hash"),
        ({"previous_stamped_at": 1}, "timestamp"),
    ],
)
def test_a_page_that_does_not_follow_is_refused(changes: dict[str, object], part: str) -> None:
    """Number, tenant, hash and timestamp are each checked, and the message says which is wrong."""
    book = Given(create(MINUTELY))
    inputs = decode_page(book.written[-1].body).inputs
    page = next_page(book.book, commit_id="x", inputs=inputs, command=Tick(), entries=())
    body = encode_page(msgspec.structs.replace(page, **changes))
    with pytest.raises(BrokenChain, match=part):
        fold_page(book.book, body, stamped_at=inputs.now, sequence=3)
    assert fold_page(book.book, encode_page(page), stamped_at=inputs.now, sequence=3).effective


def test_a_page_lies_above_the_one_before_it() -> None:
    """A LEDGER sequence that does not rise is a broken chain."""
    book = Given(create(MINUTELY))
    inputs = decode_page(book.written[-1].body).inputs
    body = encode_page(next_page(book.book, commit_id="x", inputs=inputs, command=Tick(), entries=()))
    with pytest.raises(BrokenChain, match="sequence 2"):
        fold_page(book.book, body, stamped_at=inputs.now, sequence=2)


def test_an_effective_page_whose_now_went_back_is_a_broken_invariant() -> None:
    """A page decided from this state cannot hold an earlier now."""
    book = Given(create(MINUTELY)).given(PAUSE, at="09:30:00")
    inputs = msgspec.structs.replace(decode_page(book.written[-1].body).inputs, now=book.start)
    page = next_page(book.book, commit_id="x", inputs=inputs, command=Tick(), entries=())
    with pytest.raises(AssertionError, match="now went back"):
        evolve(book.state, page, book.instant("09:30:00"))


def test_pages_over_their_bounds_are_refused() -> None:
    """Neither a book page nor an attempts page is written above its size."""
    book = Given(create(MINUTELY))
    inputs = msgspec.structs.replace(decode_page(book.written[-1].body).inputs, owner="x" * 1_000_000)
    page = next_page(book.book, commit_id="x", inputs=inputs, command=Tick(), entries=())
    with pytest.raises(PageTooLarge, match='page 3 of book "acme"'):
        encode_page(page)
    attempts = AttemptsPage(
        slot=7,
        number=1,
        commit_id="x" * 500_000,
        previous_sha256=b"",
        previous_stamped_at=0,
        owner="d",
        epoch=1,
        records=(),
    )
    with pytest.raises(PageTooLarge, match="slot 7"):
        encode_attempts(attempts)


def test_bytes_that_are_no_page_are_refused() -> None:
    """Garbage, a cut body and a body with something after it are each malformed."""
    body = Given(create(MINUTELY)).written[-1].body
    for bad in (b"", b"\xc1", body[:-1], body + b"\0", b"\x80"):
        with pytest.raises(MalformedPage):
            decode_page(bad)


def test_an_entrys_id_is_its_place() -> None:
    """An entry is known by tenant, page and place."""
    assert entry_key("acme", 3, 0) == "acme/3/0"
