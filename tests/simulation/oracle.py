"""The oracle: sees every message as the broker stores it and every call as an executor gets it, and objects.

It knows what the design says, reads pages with the domain's decoder, and decides nothing with the domain's logic.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256

from fireledger.domain import entries as e
from fireledger.domain.identifiers import FireKey
from fireledger.domain.page import AttemptsPage, Page, decode_attempts, decode_page
from fireledger.domain.zones import ZoneLibrary
from fireledger.runners.jetstream.leader import Stored
from tests.simulation.book_model import BookModel, Record, Slack
from tests.simulation.brute_force import SECOND
from tests.simulation.executors import Work
from tests.simulation.invariants import Violation, require
from tests.simulation.trigger_model import Zones

STAMP_EARLY = SECOND // 10
STAMP_LATE = 10 * SECOND
"""A page takes effect when its stamp lies in [earliest - the first, latest + the second]."""
RESEND_DELAY = 5 * SECOND
_text_of = lru_cache(maxsize=1_024)(FireKey.__str__)
"""Texts are made for every check, and mostly of the same few fires."""


@dataclass(frozen=True, slots=True)
class _Link:
    number: int
    sha256: bytes
    stamped_at: int


@dataclass
class Oracle:
    """Everything that must hold, watched from outside. Its methods raise Violation."""

    zones: ZoneLibrary
    slack: Slack = field(default_factory=Slack)
    books: dict[str, BookModel] = field(default_factory=dict[str, BookModel])
    ineffective_count: int = 0
    page_count: int = 0
    _without_effect: set[FireKey] = field(default_factory=set[FireKey])
    _heads: dict[str, _Link] = field(default_factory=dict[str, _Link])
    _starts: dict[tuple[FireKey, int], list[Stored]] = field(default_factory=dict[tuple[FireKey, int], list[Stored]])
    _timeouts: dict[tuple[FireKey, int], int] = field(default_factory=dict[tuple[FireKey, int], int])
    _answered: set[tuple[FireKey, int]] = field(default_factory=set[tuple[FireKey, int]])
    _calls: Counter[tuple[FireKey, int]] = field(default_factory=Counter[tuple[FireKey, int]])
    _running: dict[tuple[str, str], list[Work]] = field(default_factory=dict[tuple[str, str], list[Work]])

    @property
    def fire_count(self) -> int:
        """Fires released so far."""
        return sum(book.fire_count for book in self.books.values())

    def book(self, tenant: str) -> BookModel:
        """The tenant's book as the oracle knows it."""
        found = self.books.get(tenant)
        if found is None:
            found = self.books[tenant] = BookModel(tenant, Zones(self.zones), self.slack)
        return found

    # Rest

    def at_rest(self) -> bool:
        """Whether every attempt is observed, and no fire is open or waits."""
        return all(book.at_rest() for book in self.books.values())

    def next_release(self, until: int) -> int:
        """When something is next released, ``until`` at the latest."""
        return min((book.next_release(until) for book in self.books.values()), default=until)

    # The log

    def stored(self, message: Stored, true_now: int) -> None:
        """Take a message as it is stored."""
        self.page_count += 1
        if message.subject.startswith("book."):
            self._book_page(message, true_now)
        else:
            self._attempts_page(message)

    def _book_page(self, message: Stored, true_now: int) -> None:
        page = decode_page(message.body)
        require(message.subject.endswith(f".{page.tenant}"), "chain-intact", f"{message.subject} holds {page.tenant}")
        self._chained(message, page, b"fireledger.book.v1" + page.tenant.encode())
        inputs = page.inputs
        if not inputs.earliest - STAMP_EARLY <= message.stamped_at <= inputs.latest + STAMP_LATE:
            self.ineffective_count += 1
            released = (entry for entry in page.entries if isinstance(entry, e.FireReleased))
            self._without_effect.update(entry.key(page.tenant) for entry in released)
            return
        self.book(page.tenant).apply(page, message.sequence, true_now)

    def _chained(self, message: Stored, page: Page | AttemptsPage, seed: bytes) -> None:
        head = self._heads.get(message.subject) or _Link(0, sha256(seed).digest(), 0)
        found = _Link(page.number - 1, page.previous_sha256, page.previous_stamped_at)
        require(found == head, "chain-intact", f"{message.subject}: page {page.number} does not follow {head.number}")
        self._heads[message.subject] = _Link(page.number, sha256(message.body).digest(), message.stamped_at)

    def _attempts_page(self, message: Stored) -> None:
        page = decode_attempts(message.body)
        self._chained(message, page, b"fireledger.attempts.v1" + message.subject.encode())
        for record in page.records:
            match record:
                case e.AttemptStarted():
                    self._started(record, page, message)
                case e.AttemptResult():
                    self._result(record)
                case e.AttemptReported():
                    pass
            book = self.book(record.tenant)
            noted = Record(message.sequence, message.stamped_at, record)
            book.unobserved.append(noted)
            book.results.setdefault((record.trigger, record.scheduled), []).append(noted)

    def _started(self, record: e.AttemptStarted, page: AttemptsPage, message: Stored) -> None:
        key, identity, text = record.fire, (record.fire, record.attempt), _text_of(record.fire)
        released = self.book(record.tenant).released.get((record.trigger, record.scheduled))
        if released is None and key in self._without_effect:
            raise Violation("late-page-harmless", f"{text} is started, and only a page without effect releases it")
        require(released is not None, "release-first", f"{text} is started and was never released")
        before = self._starts.setdefault(identity, [])
        require(
            record.resend == bool(before), "resend-guard", f"{text}: resend is {record.resend}, {len(before)} starts"
        )
        require(identity not in self._answered, "resend-guard", f"{text} is started and has its result")
        if before:
            guard = before[-1].stamped_at + self._timeouts[identity] + RESEND_DELAY - self.slack.broker
            wrong = self.slack.early > 0
            early = guard - message.stamped_at
            require(wrong or early <= 0, "resend-guard", f"{text} is sent again {early} us too early by {page.owner}")
        before.append(message)
        self._timeouts[identity] = record.timeout

    def _result(self, record: e.AttemptResult) -> None:
        identity = (record.fire, record.attempt)
        require(identity in self._starts, "started-first", f"{_text_of(record.fire)} has a result and no start")
        self._answered.add(identity)

    # Calls

    def called(self, work: Work) -> None:
        """Take a call as an executor gets it."""
        key, identity, text = work.key, (work.key, work.attempt), _text_of(work.key)
        book = self.books.get(key.tenant)
        released = None if book is None else book.released.get((key.trigger, key.scheduled))
        assert book is not None
        require(released is not None, "release-first", f"{text} is called and was never released")
        assert released is not None
        starts = self._starts.get(identity, [])
        self._calls[identity] += 1
        require(
            self._calls[identity] <= len(starts), "started-first", f"{text} is called more often than it was started"
        )
        require(released.sequence < starts[-1].sequence, "release-first", f"{text} was started before its release")
        finished = book.finished.get((key.trigger, key.scheduled))
        known = finished is not None and finished[1] <= work.position
        require(not known, "resend-guard", f"{text} is called by {work.caller}, which knows that it is over")
        early = released.release - work.began_at
        require(early <= self.slack.early, "never-early", f"{text} is called {early} us before its release")
        self._apart(work, book)

    def _apart(self, work: Work, book: BookModel) -> None:
        """Two different fires of a trigger run at once only when its policy or an unknown outcome allows it."""
        place = (work.key.tenant, work.key.trigger)
        running = self._running[place] = [
            each for each in self._running.get(place, []) if each.ends_at > work.began_at and each.key != work.key
        ]
        mine = book.released[work.key.trigger, work.key.scheduled]
        for each in running:
            finished = book.finished.get((each.key.trigger, each.key.scheduled))
            theirs = book.released[each.key.trigger, each.key.scheduled]
            over = each.abandoned or (finished is not None and finished[0] == "unknown")
            allowed = "allow" in (mine.overlap, theirs.overlap)
            require(
                over or allowed, "overlap", f"{_text_of(work.key)} runs while {_text_of(each.key)} does ({finished})"
            )
        running.append(work)
