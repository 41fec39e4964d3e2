"""The requests that only look: answered from the fold, and from the log for the pages of a book."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing

from msgspec import UNSET

from fireledger.domain.identifiers import FireKey, book_subject, check_tenant, check_trigger, parse_fire_key
from fireledger.domain.instants import format_instant, parse_instant
from fireledger.domain.page import decode_page
from fireledger.projections.book_text import entry_readable, page_readable
from fireledger.projections.fires import FireQuery, FireRow

from ..jetstream.connection import BrokerConnection
from ..jetstream.leader import Stored
from ..jetstream.reading import read_subject
from ..jetstream.topology import LEDGER
from ..json_edge import Json, Jsonable, dumps
from ..known_zones import KnownZones
from . import requests as r
from .answers import (
    Answer,
    fire_answer,
    preview_answer,
    preview_notes,
    shown_coming,
    tenant_answer,
    trigger_answer,
    trigger_line,
)
from .command_handlers import live_trigger, no_tenant
from .commands import CommandWriter
from .model import Model
from .policy_answers import state_of
from .refusals import CONTROL_BUSY, FIRE_MISSING, PAGE_MISSING, missing, read_option, refused, unavailable

ROWS_MAX = 1_000
"""Rows in one answer; a caller goes on with ``next``."""
ANSWER_BYTES_MAX = 700 * 1024
"""Bytes of one answer's rows, so that the whole stays below 900 KiB."""
PREVIEW_MAX = 10_000
"""Instants of one preview."""
FOLLOWERS_MAX = 128
"""Follow requests that wait at the same time."""


class ReadHandlers:
    """One method for each subject of a read. Each raises ControlRefused and other OperationalErrors."""

    def __init__(self, *, connection: BrokerConnection, writer: CommandWriter, model: Model, zones: KnownZones) -> None:
        self._connection = connection
        self._writer = writer
        self._model = model
        self._zones = zones
        self._follower_count = 0
        self.stopping = asyncio.Event()
        """Set when control stops: followers are answered at once."""

    async def show_tenant(self, content: dict[str, Json]) -> Answer:
        """One tenant."""
        request = r.read_request(content, r.TenantNamed)
        book = await self._writer.catch_up(check_tenant(request.tenant))
        if book.state.settings is None:
            raise no_tenant(request.tenant)
        return tenant_answer(book, now=self._writer.now_for(book))

    async def list_tenants(self, content: dict[str, Json]) -> Answer:
        """Tenants by name."""
        request = r.read_request(content, r.TenantList)
        limit = _limit(request.limit)
        books = self._model.books
        names = sorted(name for name in books if name > request.after and books[name].state.settings is not None)
        rows, cut = within_bytes(tenant_answer(books[name]) for name in names[:limit])
        return {"rows": rows, "next": names[len(rows) - 1] if cut or len(names) > limit else None}

    async def show_trigger(self, content: dict[str, Json]) -> Answer:
        """One trigger."""
        request = r.read_request(content, r.TriggerNamed)
        book = await self._writer.catch_up(check_tenant(request.tenant))
        trigger = live_trigger(book.state, request.tenant, request.trigger)
        return trigger_answer(book.state, trigger, self._zones.library, now=self._writer.now_for(book))

    async def list_triggers(self, content: dict[str, Json]) -> Answer:
        """A tenant's triggers by name."""
        request = r.read_request(content, r.TriggerList)
        limit = _limit(request.limit)
        book = await self._writer.catch_up(check_tenant(request.tenant))
        state = book.state
        if state.settings is None:
            raise no_tenant(request.tenant)
        library, now = self._zones.library, self._writer.now_for(book)
        names = sorted(name for name, each in state.triggers.items() if name > request.after and not each.deleted)
        shown = (trigger_line(state, state.triggers[name], library, now=now) for name in names[:limit])
        rows, cut = within_bytes(shown)
        return {"rows": rows, "next": names[len(rows) - 1] if cut or len(names) > limit else None}

    async def preview_trigger(self, content: dict[str, Json]) -> Answer:
        """Coming instants of a trigger."""
        request = r.read_request(content, r.TriggerPreview)
        if not 1 <= request.count <= PREVIEW_MAX:
            raise refused(f"-n {request.count} is out of bounds", hint=f"use 1 to {PREVIEW_MAX}")
        book = await self._writer.catch_up(check_tenant(request.tenant))
        trigger = live_trigger(book.state, request.tenant, request.trigger)
        now = self._writer.now_for(book)
        after = None if request.after is UNSET else read_option("--from", request.after, parse_instant)
        count = min(request.count, ROWS_MAX)
        found = shown_coming(book.state, trigger, self._zones.library, now=now, count=count, after=after)
        more = len(found.rows) == count < request.count
        return {
            "rows": [preview_answer(one) for one in found.rows],
            "state": state_of(book.state, trigger),
            "notes": list(preview_notes(book.state, trigger, found)),
            "next": format_instant(found.rows[-1].scheduled) if more else None,
        }

    async def list_fires(self, content: dict[str, Json]) -> Answer:
        """Fires by scheduled instant, newest first."""
        request = r.read_request(content, r.FiresList)
        self._check_names(request.tenant, request.trigger)
        since, until = r.read_bounds(request.since, request.until)
        query = FireQuery(
            tenant=request.tenant,
            trigger=request.trigger,
            since=since,
            until=until,
            before=request.before,
            limit=_limit(request.limit),
        )
        kept = self._model.rows
        found = kept.newest(query)
        rows, cut = within_bytes(fire_answer(row) for row in found)
        more = cut or len(found) == query.limit
        last = found[len(rows) - 1] if rows else None
        cursor: Jsonable = list(last.identity) if more and last is not None else None
        complete = kept.complete_since(request.tenant)
        return {
            "rows": rows,
            "next": cursor,
            "position": self._model.position,
            "complete_since": None if complete is None else format_instant(complete),
        }

    async def show_fire(self, content: dict[str, Json]) -> Answer:
        """One fire."""
        key = parse_fire_key(r.read_request(content, r.FiresShow).key)
        self._check_names(key.tenant, key.trigger)
        row = self._model.rows.get(key, self._zones.library)
        if row is None:
            raise missing(FIRE_MISSING, f'fire "{key}" is not known', hint=self._why_missing(key))
        return fire_answer(row)

    def _why_missing(self, key: FireKey) -> str:
        complete = self._model.rows.complete_since(key.tenant)
        if complete is not None and key.scheduled < complete:
            kept = f"of {key.tenant}, only fires scheduled since {format_instant(complete)} are all kept in memory"
            return f"{kept}; look in the book: fireledger book show {key.tenant}"
        if key.sequence:
            return f"see what there is: fireledger fires list {key.tenant}/{key.trigger}"
        why = f"fireledger trigger why {key.tenant}/{key.trigger} {format_instant(key.scheduled)}"
        return f"it is not decided yet, or was never scheduled; ask: {why}"

    async def follow_fires(self, content: dict[str, Json]) -> Answer:
        """Rows that changed since a position, waiting for some."""
        request = r.read_request(content, r.FiresFollow)
        self._check_names(request.tenant, request.trigger)
        rows, limit = self._model.rows, _limit(request.limit)
        after = request.after
        if after is None:
            return {"rows": [], "position": rows.position, "missed": False}

        def changed() -> list[FireRow]:
            """What is new by now."""
            return rows.changed_since(request.tenant, request.trigger, after, limit=limit)

        if not changed():
            await self._wait(min(max(request.wait_s, 0.0), r.FOLLOW_WAIT_S_MAX), changed)
        found = changed()
        shown, cut = within_bytes(fire_answer(row) for row in found)
        more = cut or len(found) == limit
        return {
            "rows": shown,
            "position": found[len(shown) - 1].changed if more else max(rows.position, after),
            "missed": after < rows.forgotten_through(request.tenant),
        }

    async def show_book(self, content: dict[str, Json]) -> Answer:
        """Pages of a book with their entries."""
        request = r.read_request(content, r.BookShow)
        if request.page < 1 or request.entry < 0:
            raise refused(
                f"page {request.page} and entry {request.entry} are no place in a book",
                hint="pages are numbered from 1, and entries of a page from 0",
            )
        book = await self._writer.catch_up(check_tenant(request.tenant))
        if book.state.page == 0:
            raise no_tenant(request.tenant)
        start = self._model.sequence_of(request.tenant, request.page)
        if start is None:
            last = book.state.page
            raise missing(
                PAGE_MISSING,
                f"the book of {request.tenant} has no page {request.page}",
                hint=f"its last page is {last}: fireledger book show {request.tenant} --from {last}",
            )
        shown = _PagesShown(limit=_limit(request.limit), skip=request.entry)
        pages = read_subject(self._connection, LEDGER, book_subject(request.tenant), from_sequence=start)
        async with aclosing(pages):
            async for stored in pages:
                if not shown.add(stored):
                    break
        return {"rows": shown.rows, "next": shown.next}

    async def _wait(self, wait_s: float, changed: Callable[[], list[FireRow]]) -> None:
        if self._follower_count >= FOLLOWERS_MAX:
            raise unavailable(CONTROL_BUSY, f"control has {FOLLOWERS_MAX} followers", hint="try again later")
        self._follower_count += 1
        try:
            await self._model.wait_until(lambda: self.stopping.is_set() or bool(changed()), wait_s)
        finally:
            self._follower_count -= 1

    def _check_names(self, tenant: str, trigger: str | None) -> None:
        """A tenant must exist; a trigger must once have existed."""
        check_tenant(tenant)
        if trigger is not None:
            check_trigger(trigger)
        state = self._model.book(tenant).state
        if state.settings is None:
            raise no_tenant(tenant)
        if trigger is not None and trigger not in state.triggers:
            live_trigger(state, tenant, trigger)


class _PagesShown:
    """Pages with their entries, up to a number of pages and bytes; ``next`` says where to go on."""

    def __init__(self, *, limit: int, skip: int) -> None:
        self.rows: list[Answer] = []
        self.next: Answer | None = None
        self._limit = limit
        self._skip = skip
        self._bytes_left = ANSWER_BYTES_MAX

    def add(self, stored: Stored) -> bool:
        """Show a page, or as much of it as fits; False when nothing more fits."""
        page = decode_page(stored.body)
        if len(self.rows) >= self._limit or self._bytes_left <= 0:
            self.next = {"page": page.number, "entry": 0}
            return False
        row: Answer = {**page_readable(page, stored.body, stamped_at=stored.stamped_at, sequence=stored.sequence)}
        self._bytes_left -= len(dumps(row))
        entries, cut = within_bytes(
            (entry_readable(entry) for entry in page.entries[self._skip :]), bytes_max=max(self._bytes_left, 1)
        )
        self._bytes_left -= len(dumps(entries))
        first, self._skip = self._skip, 0
        self.rows.append({**row, "first_entry": first, "entries": entries})
        if cut:
            self.next = {"page": page.number, "entry": first + len(entries)}
        return not cut


def within_bytes(
    rows: Iterable[dict[str, Jsonable]], *, bytes_max: int = ANSWER_BYTES_MAX
) -> tuple[list[Jsonable], bool]:
    """As many rows as fit, at least one, and whether some were left out."""
    taken: list[Jsonable] = []
    size = 0
    for row in rows:
        size += len(dumps(row)) + 1
        if taken and size > bytes_max:
            return taken, True
        taken.append(row)
    return taken, False


def _limit(limit: int) -> int:
    if limit < 1:
        raise refused(f"--limit {limit} is out of bounds", hint="use 1 or more")
    return min(limit, ROWS_MAX)
