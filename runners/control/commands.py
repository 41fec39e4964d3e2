"""Commands into pages: decided from the folded book, appended after its head, and answered once read back.

The exact-subject expectation is what protects the book; locks only keep this process from racing itself.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from msgspec import structs

from fireledger.domain.book import Book, next_page, page_now
from fireledger.domain.commands import Command
from fireledger.domain.decide import decide, repetition
from fireledger.domain.entries import BookEntry
from fireledger.domain.identifiers import book_subject
from fireledger.domain.inputs import Inputs
from fireledger.domain.instants import format_duration
from fireledger.domain.limits import CLOCK_UNCERTAINTY_MAX, PAGE_ENTRIES_MAX
from fireledger.domain.logic_version import CURRENT_LOGIC_VERSION
from fireledger.domain.page import Page, PageInputs, decode_page
from fireledger.domain.rejections import Rejection
from fireledger.domain.state import State, TriggerState
from fireledger.domain.tick import UndecidableTrigger

from ..clock import Clock, ClockHeld, Reading
from ..errors import BrokerUnavailable
from ..eventsourcing_store.books import BookRepository
from ..identity import new_commit_id
from ..jetstream.ledger import Committed, Ledger, Lost
from ..jetstream.reading import read_subject
from ..jetstream.topology import LEDGER
from ..known_zones import KnownZones
from ..logs import get_log
from .model import Model, OwnPage
from .refusals import CLOCK_UNCERTAIN, PAGE_INEFFECTIVE, TENANT_BUSY, from_rejection, unavailable

COMMAND_WITHIN_S = 10.0
"""How long a command is decided again and again on a book that others write to; below a client's patience."""
CATCH_UP_WITHIN_S = 5.0
"""How long the reader may lag behind the head that the leader shows."""
TRIES_MAX = 200
"""Decisions of one command: at one conflict for each of a scheduler's pages, more than the deadline allows."""

_log = get_log("control")
_Entry = TypeVar("_Entry", bound=BookEntry)


@dataclass(frozen=True, slots=True)
class Asked:
    """A command as it was asked: whose book, under which request id, and the hash of the request."""

    tenant: str
    request_id: str
    request_sha256: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """What a command led to: its page (None: nothing to change), whether it was a repetition, and the book of now.

    ``entries`` are those of the page, whenever it was written. ``now`` is the page's, of a repetition the present one.
    """

    book: Book
    now: int
    page: int | None
    repeated: bool = False
    entries: tuple[BookEntry, ...] = ()

    def entry(self, *kinds: type[_Entry]) -> _Entry:
        """The first entry of one of these kinds, which the command leads to."""
        found = next((entry for entry in self.entries if isinstance(entry, kinds)), None)
        assert found is not None, f"page {self.page} has no {' or '.join(kind.__name__ for kind in kinds)}"
        return found


Build = Callable[[State, int], Command]
"""Makes the command from the present state and the page's now; raises ControlRefused."""


class CommandWriter:
    """Writes commands into books."""

    def __init__(self, *, ledger: Ledger, model: Model, clock: Clock, zones: KnownZones, runner_id: str) -> None:
        self._ledger = ledger
        self._repository = BookRepository(ledger)
        self._model = model
        self._clock = clock
        self._zones = zones
        self._runner_id = runner_id
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    async def catch_up(self, tenant: str) -> Book:
        """The book as the stream's leader has it now, its zone data loaded. Raises BrokerUnavailable, RolledBack."""
        head = await self._ledger.head(book_subject(tenant))
        if head is not None:
            await self._wait_for(tenant, head.sequence)
        await self._zones.need(self._model.book(tenant).state)
        return self._model.book(tenant)

    def check(self, book: Book, command: Command) -> tuple[BookEntry, ...]:
        """What the command would add to the book now; writes nothing. Raises ControlRefused."""
        reading = self._read_clock()
        decided = decide(book.state, command, self._inputs(book, reading, Asked(book.tenant, "", b"")))
        if isinstance(decided, Rejection):
            raise from_rejection(decided)
        return decided

    def now_for(self, book: Book) -> int:
        """The *now* that a page written at this moment would have; the book's own while the clock is held."""
        try:
            return page_now(book.state, self._clock.now().earliest)
        except ClockHeld:
            return book.state.now

    async def execute(self, asked: Asked, build: Build) -> Done:
        """Carry a command out and return once it is known to have taken effect.

        Raises ControlRefused when it is refused, when the book is too busy and when the page took no effect; and
        BrokerUnavailable when its outcome is unknown: the same request id then tells.
        """
        async with self._turn(asked.tenant) as deadline:
            book = await self.catch_up(asked.tenant)
            for _ in range(TRIES_MAX):
                done = await self._repeated(book, asked)
                if done is not None:
                    return done
                page = self._decide(book, asked, build)
                if page is None:
                    return Done(book, self.now_for(book), None)
                done = await self._append(book, page)
                if done is not None:
                    return done
                book = self._model.book(asked.tenant)
                await self._zones.need(book.state)
                if _loop_now() > deadline:
                    break
        raise _busy(asked.tenant)

    async def repeated(self, asked: Asked) -> Done | None:
        """What the request led to when it was asked before; None: it was not. Raises ControlRefused."""
        return await self._repeated(await self.catch_up(asked.tenant), asked)

    def same_trigger(self, done: Done, name: str) -> TriggerState | None:
        """The trigger that a command was about, as the book has it now; None: it was deleted by the command or since.

        Another trigger that took its name is not it.
        """
        if done.page is not None and self._model.deleted_since(done.book.tenant, name, done.page):
            return None
        return done.book.state.live(name)

    async def _repeated(self, book: Book, asked: Asked) -> Done | None:
        seen = repetition(book.state, asked.request_id, asked.request_sha256, now=self.now_for(book))
        if isinstance(seen, Rejection):
            raise from_rejection(seen)
        if seen is None:
            return None
        entries = await self._page_entries(book.tenant, seen.page)
        return Done(book, self.now_for(book), seen.page, repeated=True, entries=entries)

    async def _page_entries(self, tenant: str, number: int) -> tuple[BookEntry, ...]:
        sequence = self._model.sequence_of(tenant, number)
        assert sequence is not None, "a page that led to an answer was read"
        pages = read_subject(self._ledger.connection, LEDGER, book_subject(tenant), from_sequence=sequence)
        async with aclosing(pages):
            async for stored in pages:
                return decode_page(stored.body).entries
        raise BrokerUnavailable(f"page {number} of the book of {tenant} cannot be read", hint="see fireledger status")

    def _decide(self, book: Book, asked: Asked, build: Build) -> Page | None:
        reading = self._read_clock()
        inputs = self._inputs(book, reading, asked)
        command = build(book.state, inputs.recorded.now)
        try:
            entries = decide(book.state, command, inputs)
        except UndecidableTrigger as error:
            # The command is about a trigger that cannot be looked at; the page says so and decides without looking.
            inputs = replace(inputs, recorded=structs.replace(inputs.recorded, quarantine=(error.quarantine(),)))
            entries = decide(book.state, command, inputs)
        if isinstance(entries, Rejection):
            raise from_rejection(entries)
        if not entries:
            return None
        return next_page(
            book,
            commit_id=new_commit_id(),
            inputs=inputs.recorded,
            command=command,
            entries=entries,
            request_id=asked.request_id,
            request_sha256=asked.request_sha256,
        )

    def _inputs(self, book: Book, reading: Reading, asked: Asked) -> Inputs:
        recorded = PageInputs(
            now=page_now(book.state, reading.earliest),
            earliest=reading.earliest,
            latest=reading.latest,
            clock_source=reading.source,
            as_of=book.state.as_of,
            owner=self._runner_id,
            entry_limit=PAGE_ENTRIES_MAX,
            logic_version=CURRENT_LOGIC_VERSION,
        )
        return Inputs(
            recorded=recorded,
            zones=self._zones.library,
            request_id=asked.request_id,
            request_sha256=asked.request_sha256,
        )

    def _read_clock(self) -> Reading:
        reading = self._clock.now()
        if not reading.usable:
            raise unavailable(
                CLOCK_UNCERTAIN,
                f'control\'s clock is uncertain by "{format_duration(reading.epsilon)}"; '
                f'at most "{format_duration(CLOCK_UNCERTAINTY_MAX)}" is allowed',
                hint="let the machine's time daemon synchronise, or declare a bound with --clock-bound",
            )
        return reading

    async def _append(self, book: Book, page: Page) -> Done | None:
        """Append and read back. None: another writer was quicker, and its page is folded."""
        with self._model.watching(page.commit_id) as own:
            outcome = await self._repository.save(page, book)
            match outcome:
                case Committed():
                    await self._wait_for(book.tenant, outcome.sequence)
                    return self._fate(own, page)
                case Lost():
                    await self._wait_for(
                        book.tenant, book.head.sequence + 1 if outcome.rival is None else outcome.rival.sequence
                    )
                    return None

    def _fate(self, own: OwnPage, page: Page) -> Done:
        folded = own.folded
        assert folded is not None, "a committed page comes by in the log"
        if folded.effective:
            return Done(folded.book, page.inputs.now, page.number, entries=page.entries)
        early = own.stamped_at < page.inputs.earliest
        raise unavailable(
            PAGE_INEFFECTIVE,
            f'the command is page {page.number} of book "{page.tenant}" and took no effect: '
            f"the broker's clock shows that it was written too {'early' if early else 'late'}",
            hint="compare the clocks of control and broker, then give the command again",
        )

    async def _wait_for(self, tenant: str, sequence: int) -> None:
        """Wait until the fold of the book has reached a sequence."""
        found = await self._model.wait_until(
            lambda: self._model.book(tenant).head.sequence >= sequence, CATCH_UP_WITHIN_S
        )
        if not found:
            raise BrokerUnavailable(
                f'control has not read book "{tenant}" up to its head within {CATCH_UP_WITHIN_S:g} s',
                hint="give the command again with the same --request-id; see fireledger status",
            )

    @asynccontextmanager
    async def _turn(self, tenant: str) -> AsyncGenerator[float, None]:
        """One command of a tenant at a time, in the order they came. Yields the deadline for further tries."""
        deadline = _loop_now() + COMMAND_WITHIN_S
        lock, users = self._locks.get(tenant) or (asyncio.Lock(), 0)
        self._locks[tenant] = (lock, users + 1)
        try:
            try:
                async with asyncio.timeout_at(deadline):
                    await lock.acquire()
            except TimeoutError:
                raise _busy(tenant) from None
            try:
                yield deadline
            finally:
                lock.release()
        finally:
            _, users = self._locks[tenant]
            if users == 1:
                del self._locks[tenant]
            else:
                self._locks[tenant] = (lock, users - 1)


def _busy(tenant: str) -> Exception:
    _log.warning("tenant-busy", tenant=tenant)
    return unavailable(
        TENANT_BUSY,
        f'tenant "{tenant}" is busy: other writers of its book were quicker for {COMMAND_WITHIN_S:g} s',
        hint="give the command again with the same --request-id",
    )


def _loop_now() -> float:
    return asyncio.get_running_loop().time()
