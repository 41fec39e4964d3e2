"""Drafting pages: quarantine, size, and what goes into the inputs."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.book import Book, empty_book, fold_page, next_page, page_now
from fireledger.domain.commands import Command, CreateTenant, CreateTrigger
from fireledger.domain.decide import decide
from fireledger.domain.definition import Definition, TenantSettings, seal_plain
from fireledger.domain.due import due_beside_waiting
from fireledger.domain.identifiers import book_subject
from fireledger.domain.inputs import Inputs
from fireledger.domain.instants import SECOND, parse_instant
from fireledger.domain.limits import CAUSE_LENGTH_MAX
from fireledger.domain.page import Page, PageInputs, PageTooLarge, decode_page, encode_page
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.state import State, TriggerState
from fireledger.domain.zones import ZoneLibrary
from fireledger.runners.scheduler.books import touched
from fireledger.runners.scheduler.drafts import Hints, draft_page
from fireledger.runners.zone_package import load_packaged_zones

ZONES = ZoneLibrary(load_packaged_zones())
START = parse_instant("2026-11-30T09:00:00Z")


def _inputs(book: Book, now: int) -> PageInputs:
    return PageInputs(
        now=page_now(book.state, now), earliest=now, latest=now + 1_000, clock_source="test", as_of=0, owner="test"
    )


def _after(book: Book, command: Command, now: int) -> Book:
    inputs = _inputs(book, now)
    entries = decide(book.state, command, Inputs(recorded=inputs, zones=ZONES))
    assert isinstance(entries, tuple)
    page = next_page(book, commit_id="c", inputs=inputs, command=command, entries=entries)
    return fold_page(book, encode_page(page), stamped_at=now, sequence=book.head.sequence + 1).book


def _book(*triggers: str) -> Book:
    zones = ZONES.current
    create = CreateTenant(settings=TenantSettings(), zone_version=zones.version, zone_sha256=zones.sha256)
    book = _after(empty_book("acme"), create, START)
    schedule = parse_cron("* * * * * *")
    definition = Definition(
        schedule=schedule, zone="UTC", gap="skip", fold="both", target="nats:demo", payload=seal_plain(b"")
    )
    for name in triggers:
        book = _after(book, CreateTrigger(trigger=name, definition=definition), START)
    return book


def hinted(*names: str) -> Hints:
    """Hints of these triggers."""
    return Hints(frozenset(names), frozenset(), frozenset(names))


def _break(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    def broken(state: State, trigger: TriggerState, zones: ZoneLibrary) -> int | None:
        if trigger.name in names:
            raise LookupError("gone " * 100)
        return due_beside_waiting(state, trigger, zones)

    monkeypatch.setattr("fireledger.domain.tick.due_beside_waiting", broken)


@pytest.mark.asyncio
async def test_a_page_carries_its_place_in_the_chain() -> None:
    """Subject, expected sequence and commit id of the append belong to the page in its body."""
    book = _book("a")
    draft = await draft_page(book, _inputs(book, START + SECOND), zones=ZONES, observed=(), hints=hinted("a"))
    assert draft is not None
    page = decode_page(draft.append.body)
    assert draft.append.subject == book_subject("acme") == "book.574.acme"
    assert (page.number, page.commit_id) == (draft.number, draft.append.commit_id)
    assert draft.append.expected_sequence == book.head.sequence
    assert [type(entry) for entry in page.entries] == [e.FireReleased]


@pytest.mark.asyncio
async def test_nothing_due_makes_no_page() -> None:
    """Before the first instant there is nothing to say."""
    book = _book("a")
    assert await draft_page(book, _inputs(book, START), zones=ZONES, observed=(), hints=hinted("a")) is None


@pytest.mark.asyncio
async def test_bad_triggers_are_quarantined_in_the_same_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trigger that cannot be decided becomes an input and an entry; its cause is cut; the others fire."""
    book = _book("a", "bad", "worse")
    _break(monkeypatch, "bad", "worse")
    due = frozenset({"a", "bad", "worse"})
    draft = await draft_page(book, _inputs(book, START + SECOND), zones=ZONES, observed=(), hints=hinted(*due))
    assert draft is not None
    page = decode_page(draft.append.body)
    assert {item.trigger for item in page.inputs.quarantine} == {"bad", "worse"}
    assert all(len(item.cause) <= CAUSE_LENGTH_MAX for item in page.inputs.quarantine)
    assert [entry.trigger for entry in page.entries if isinstance(entry, e.FireReleased)] == ["a"]
    assert page.inputs == draft.inputs
    # Decided again without the hint, and on a node where nothing is broken, the page comes out the same.
    monkeypatch.undo()
    assert decide(book.state, page.command, Inputs(recorded=page.inputs, zones=ZONES)) == page.entries


@pytest.mark.asyncio
async def test_a_page_over_its_size_is_cut_in_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry limit is halved until the page fits, and the lower limit is recorded."""
    book = _book(*(f"t{n}" for n in range(8)))

    def picky(page: Page) -> bytes:
        if len(page.entries) > 3:
            raise PageTooLarge("too large")
        return encode_page(page)

    monkeypatch.setattr("fireledger.runners.scheduler.drafts.encode_page", picky)
    draft = await draft_page(
        book, _inputs(book, START + SECOND), zones=ZONES, observed=(), hints=hinted(*book.state.triggers)
    )
    assert draft is not None
    page = decode_page(draft.append.body)
    assert len(page.entries) == page.inputs.entry_limit == 2


@pytest.mark.asyncio
async def test_a_page_that_cannot_be_cut_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """When one entry is over the size already, the writer stops rather than spin."""

    def refuse(page: Page) -> bytes:
        raise PageTooLarge(str(page.number))

    book = _book("a")
    monkeypatch.setattr("fireledger.runners.scheduler.drafts.encode_page", refuse)
    with pytest.raises(PageTooLarge, match="cannot be cut"):
        await draft_page(book, _inputs(book, START + SECOND), zones=ZONES, observed=(), hints=hinted("a"))


def test_an_entry_without_a_trigger_touches_all() -> None:
    """Settings and zone data may move any row; an entry about a trigger moves that one's."""
    state = _book("a", "b").state
    assert touched((e.TriggerPaused(trigger="a"),), state) == {"a"}
    assert touched((e.TenantAmended(settings=TenantSettings(default_jitter=SECOND)),), state) == {"a", "b"}
    assert touched((e.ClockNoted(step=5, source="test"), e.TriggerPaused(trigger="a")), state) == {"a"}
