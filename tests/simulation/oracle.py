"""The oracle: sees every message as the broker stores it and every call as an executor gets it, and objects.

It knows what the design says, reads pages with the domain's decoder, and decides nothing with the domain's logic.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.identifiers import FireKey
from fireledger.domain.page import AttemptsPage, Page, decode_attempts, decode_page
from fireledger.domain.zones import ZoneLibrary
from fireledger.runners.jetstream.leader import Stored
from tests.simulation.book_model import BookModel, Slack
from tests.simulation.brute_force import SECOND
from tests.simulation.command_check import CommandCheck
from tests.simulation.conclusions_model import Record
from tests.simulation.executors import Work
from tests.simulation.fairness import Fairness
from tests.simulation.invariants import Violation, require
from tests.simulation.paces import Drawn, SharedRate
from tests.simulation.tick_check import TickCheck
from tests.simulation.trigger_model import Zones

STAMP_EARLY = SECOND // 10
STAMP_LATE = 10 * SECOND
"""A page takes effect when its stamp lies in [earliest - the first, latest + the second]."""
RESEND_DELAY = 5 * SECOND
NEVER = 2**62
_text_of = lru_cache(maxsize=1_024)(FireKey.__str__)
"""Texts are made for every check, and mostly of the same few fires."""


def _place(key: FireKey, attempt: int) -> tuple[tuple[str, int, int], int]:
    """An attempt within its book."""
    return (key.trigger, key.scheduled, key.sequence), attempt


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
    shared: dict[str, SharedRate] = field(
        default_factory=lambda: {lane: SharedRate(lane) for lane in ("catch-up", "backfill")}
    )
    fairness: Fairness = field(default_factory=Fairness)
    sent_at: dict[str, int] = field(default_factory=dict[str, int])
    """When a book's page was first sent, by its commit id."""
    told: set[e.AttemptReported] = field(default_factory=set[e.AttemptReported])
    """What executors reported with the right token."""
    ineffective_count: int = 0
    page_count: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    """Entries that took effect, by their kind."""
    _reported: set[e.AttemptReported] = field(default_factory=set[e.AttemptReported])
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

    def doubt(self, began: int, ended: int | None) -> None:
        """A scheduler believed that it owns everything from ``began`` on, to ``ended`` (None: as it seems, always)."""
        for rate in self.shared.values():
            rate.doubted = [each for each in rate.doubted if each != (began, NEVER)]
            rate.doubted.append((began, NEVER if ended is None else ended))

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
            self.fairness.interrupted(page.tenant)
            return
        self.counts.update(type(entry).__name__ for entry in page.entries)
        book = self.book(page.tenant)
        if isinstance(page.command, c.Tick):
            self._tick_page(book, page, message.sequence, true_now)
        else:
            book.begin(page)
            CommandCheck(book, page, message.sequence).check()
            self.fairness.interrupted(page.tenant)
        book.end(page)

    def _tick_page(self, book: BookModel, page: Page, sequence: int, true_now: int) -> None:
        sent_at = self.sent_at[page.commit_id]
        self.fairness.begin(book, page, sent_at, self.shared)
        tick = TickCheck(book, page, sequence, true_now)
        tick.check(book.begin(page))
        self.fairness.end(page, sequence, sent_at, tick.used)
        for lane, rate in self.shared.items():
            if tick.used[lane]:
                rate.drawn.append(Drawn(sent_at, page.inputs.owner, page.tenant, tick.used[lane]))

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
                    self._report(record)
            book = self.book(record.tenant)
            noted = Record(message.sequence, message.stamped_at, record)
            book.unobserved.append(noted)
            book.results.setdefault((record.trigger, *noted.fire), []).append(noted)

    def _started(self, record: e.AttemptStarted, page: AttemptsPage, message: Stored) -> None:
        key, identity, text = record.fire, (record.fire, record.attempt), _text_of(record.fire)
        released = self.book(record.tenant).released.get(_place(key, record.attempt))
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

    def _report(self, record: e.AttemptReported) -> None:
        text = f"{_text_of(record.fire)}, attempt {record.attempt}"
        require(record in self.told, "report-checked", f"{text}: nobody reported {record} with its token")
        require(record not in self._reported, "report-checked", f"{text}: the same report is recorded twice")
        released = self.book(record.tenant).released.get(_place(record.fire, record.attempt))
        require(released is not None, "report-checked", f"{text} is reported and was never released")
        self._reported.add(record)

    @property
    def report_count(self) -> int:
        """Reports recorded so far."""
        return len(self._reported)

    def acknowledged(self, record: e.AttemptReported, *, rightly: bool) -> None:
        """Control says that a report is recorded."""
        right = rightly and record in self._reported
        require(right, "report-checked", f"{record} is said to be recorded")

    # Calls

    def called(self, work: Work) -> None:
        """Take a call as an executor gets it."""
        key, identity, text = work.key, (work.key, work.attempt), _text_of(work.key)
        book = self.books.get(key.tenant)
        released = None if book is None else book.released.get(_place(key, work.attempt))
        assert book is not None
        require(released is not None, "release-first", f"{text} is called and was never released")
        assert released is not None
        starts = self._starts.get(identity, [])
        self._calls[identity] += 1
        require(
            self._calls[identity] <= len(starts), "started-first", f"{text} is called more often than it was started"
        )
        require(released.sequence < starts[-1].sequence, "release-first", f"{text} was started before its release")
        finished = book.finished.get(_place(key, 0)[0])
        known = finished is not None and finished[1] <= work.position
        require(not known, "resend-guard", f"{text} is called by {work.caller}, which knows that it is over")
        early = released.earliest - work.began_at
        require(early <= self.slack.early, "never-early", f"{text} is called {early} us before its release")
        self._apart(work, book)

    def _apart(self, work: Work, book: BookModel) -> None:
        """Two different fires of a trigger run at once only when its policy or an unknown outcome allows it."""
        place = (work.key.tenant, work.key.trigger)
        running = self._running[place] = [
            each for each in self._running.get(place, []) if each.ends_at > work.began_at and each.key != work.key
        ]
        mine = book.released[_place(work.key, work.attempt)]
        for each in running:
            finished = book.finished.get(_place(each.key, 0)[0])
            theirs = book.released[_place(each.key, each.attempt)]
            over = each.abandoned or (finished is not None and finished[0] == "unknown")
            allowed = "allow" in (mine.overlap, theirs.overlap)
            require(
                over or allowed, "overlap", f"{_text_of(work.key)} runs while {_text_of(each.key)} does ({finished})"
            )
        running.append(work)
