"""Drafting a page: one book's decision, its bytes, and the append that would commit it."""

import dataclasses
from dataclasses import dataclass

from msgspec.structs import replace

from fireledger.domain.book import Book, next_page
from fireledger.domain.commands import Tick
from fireledger.domain.decide import decide
from fireledger.domain.entries import AttemptObserved, BookEntry
from fireledger.domain.identifiers import book_subject
from fireledger.domain.inputs import Inputs
from fireledger.domain.page import PageInputs, PageTooLarge, Quarantine, encode_page
from fireledger.domain.rejections import Rejection
from fireledger.domain.tick import UndecidableTrigger
from fireledger.domain.zones import ZoneLibrary

from ..identity import new_commit_id
from ..jetstream.ledger import Append
from ..logs import get_log
from .turns import give_way

_log = get_log("scheduler")


@dataclass(frozen=True, slots=True)
class Draft:
    """A decided page and the append that commits it."""

    append: Append
    number: int
    entries: tuple[BookEntry, ...]
    inputs: PageInputs


@dataclass(frozen=True, slots=True)
class InFlight:
    """A page on its way to the log: ``cut`` tells that not all outcomes had room in it, ``left`` what it left due."""

    draft: Draft
    cut: bool
    left: frozenset[str]


@dataclass(frozen=True, slots=True)
class Hints:
    """The hints of ``domain.inputs.Inputs``, and ``all_due``: what is due beyond the page's trigger limit as well.

    When a trigger is taken out, another takes its place in the page, so all have to be looked at.
    """

    due: frozenset[str]
    waiting: frozenset[str]
    all_due: frozenset[str]


async def draft_page(
    book: Book,
    inputs: PageInputs,
    *,
    zones: ZoneLibrary,
    observed: tuple[AttemptObserved, ...],
    hints: Hints,
) -> Draft | None:
    """Decide the book's tick and put it into a page; None when there is nothing to say.

    A trigger that cannot be decided is named in the page's inputs and the rest decided again. A page over its
    size is decided again with half as many entries. Raises PageTooLarge when not even that helps.
    """
    looked_at = Inputs(recorded=inputs, zones=zones, observed=observed, due=hints.due, waiting=hints.waiting)
    while (entries := _decide(book, looked_at)) != ():
        if isinstance(entries, Quarantine):
            _log.error("trigger-quarantined", tenant=book.tenant, trigger=entries.trigger, cause=entries.cause)
            inputs = replace(inputs, quarantine=(*inputs.quarantine, entries))
            looked_at = dataclasses.replace(looked_at, due=hints.all_due)
        else:
            try:
                return _draft(book, inputs, entries)
            except PageTooLarge:
                inputs = replace(inputs, entry_limit=_smaller(inputs.entry_limit, len(observed)))
        looked_at = dataclasses.replace(looked_at, recorded=inputs)
        await give_way()
    return None


def _decide(book: Book, inputs: Inputs) -> tuple[BookEntry, ...] | Quarantine:
    try:
        entries = decide(book.state, Tick(), inputs)
    except UndecidableTrigger as error:
        if any(known.trigger == error.trigger for known in inputs.recorded.quarantine):
            raise
        return error.quarantine()
    assert not isinstance(entries, Rejection), "a tick is never refused"
    return entries


def _smaller(entry_limit: int, observed_count: int) -> int:
    """Half the limit, with room for what must be observed. Raises PageTooLarge when there is nothing to halve."""
    smaller = max(entry_limit // 2, 2 * observed_count, 1)
    if smaller >= entry_limit:
        raise PageTooLarge(f"a page of {entry_limit} entries is over its size and cannot be cut")
    return smaller


def _draft(book: Book, inputs: PageInputs, entries: tuple[BookEntry, ...]) -> Draft:
    commit_id = new_commit_id()
    page = next_page(book, commit_id=commit_id, inputs=inputs, command=Tick(), entries=entries)
    append = Append(book_subject(book.tenant), encode_page(page), commit_id, book.head.sequence)
    return Draft(append, page.number, entries, inputs)
