"""The asynchronous core: one stream of stored events, one subject for each originator.

An event is appended behind the event before it, by the expectation on its exact subject. What an originator's last
event was is remembered, and only believed until a refusal; then it is read from the stream's leader.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from eventsourcing.persistence import IntegrityError, Notification, ProgrammingError, StoredEvent

from ..errors import BrokerUnavailable
from ..identity import new_commit_id
from ..jetstream.connection import BrokerConnection
from ..jetstream.leader import Stored
from ..jetstream.ledger import Append, Lost
from ..jetstream.reader import Checkpoint, PullReader
from ..jetstream.reading import read_subject
from ..jetstream.transaction import BatchTooLarge, TransactionalLedger
from .pages import read_stretch
from .settings import StreamPlan
from .streams import ensure_stream
from .wire import decode_event, encode_event, event_headers, id_text, to_notification, to_stored_event

HEADS_REMEMBERED_MAX = 65_536
"""Originators whose last event is remembered: about 20 MB, and any of them can be read again."""
LOOKUPS_AT_ONCE_MAX = 64
"""Heads of one call that are read at the same time."""
TOPIC_PAGE_MESSAGES = 1_000
"""Messages looked through at once for events with certain topics."""
RETRY_PAUSE_S = 0.05
"""Between two attempts to read while the broker is away."""
SUBSCRIPTION_MESSAGES = 1_000
SUBSCRIPTION_BYTES = 8 * 1024 * 1024
"""Messages and bytes that a subscription asks for at once; a slow consumer makes it hold twice as much, not more."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Head:
    """An originator's last event."""

    version: int
    sequence: int


@dataclass(frozen=True, slots=True)
class _Link:
    """An event in the chain that is about to be appended."""

    key: str
    version: int
    append: Append


class EventLog:
    """The events of one stream. Made by ``open``, used on its connection's loop."""

    def __init__(self, connection: BrokerConnection, plan: StreamPlan) -> None:
        self._connection = connection
        self._plan = plan
        self._stream = plan.settings.name
        self._ledger = TransactionalLedger(connection, stream=self._stream, deadline_s=plan.timeout_s)
        self._heads: OrderedDict[str, _Head] = OrderedDict()

    @classmethod
    async def open(cls, connection: BrokerConnection, plan: StreamPlan) -> "EventLog":
        """Make sure of the stream. Raises what ``ensure_stream`` raises."""
        await ensure_stream(connection, plan.settings, create=plan.create, timeout_s=plan.timeout_s)
        return cls(connection, plan)

    async def insert(self, events: Sequence[StoredEvent]) -> list[int]:
        """Append all events or none, and return their sequences in order.

        Raises IntegrityError when one of them does not follow its originator's last event, ProgrammingError for
        more than one call can hold, and what ``commit_together`` raises; then the outcome is unknown.
        """
        if len(events) > self._plan.batch_max:
            raise ProgrammingError(
                f"{len(events)} events cannot be inserted as one; at most {self._plan.batch_max}, since a broker's"
                " transaction holds no more: save fewer aggregates or events at once"
            )
        ids = [id_text(event.originator_id, self._plan.id_type) for event in events]
        # Remembered heads first: they save a round trip, and when they are old the broker refuses.
        links = self._guess(events, ids)
        sequences = await self._commit(links, ids) if links is not None else None
        if sequences is None:
            heads = await self._patiently(lambda: self._read_heads(ids))
            sequences = await self._commit(self._chain(heads, events, ids), ids)
        if sequences is None:
            raise IntegrityError(f"another writer was faster than {_named(events[0])}; load again and decide again")
        return sequences

    async def select(
        self, originator_id: UUID | str, *, gt: int | None, lte: int | None, desc: bool, limit: int | None
    ) -> list[StoredEvent]:
        """Return an originator's events by version, as the leader has them at the call."""
        key = id_text(originator_id, self._plan.id_type)
        if limit is not None and limit <= 0:
            return []
        if desc and limit == 1 and lte is None:
            last = await self._patiently(lambda: self._last(key))
            return [last] if last is not None and (gt is None or last.originator_version > gt) else []
        events = await self._patiently(lambda: self._read(key, gt, lte, None if desc else limit))
        return events[::-1][:limit] if desc else events

    async def notifications(
        self, *, after: int, stop: int | None, limit: int, topics: Sequence[str]
    ) -> list[Notification]:
        """Return up to ``limit`` events behind the sequence ``after``, up to ``stop``, of ``topics`` (none: all)."""
        return await self._patiently(lambda: self._notifications(after, stop, limit, topics))

    async def last_sequence(self) -> int:
        """Return the last sequence, 0 when there is none. Raises RolledBack when it is lower than one seen."""
        return await self._patiently(self._ledger.last_sequence)

    def follow(self, after: int) -> PullReader:
        """Return a reader of everything behind the sequence ``after``."""
        return PullReader(
            self._connection,
            stream=self._stream,
            after=Checkpoint(after, b""),
            batch=SUBSCRIPTION_MESSAGES,
            max_bytes=SUBSCRIPTION_BYTES,
        )

    def notification(self, stored: Stored) -> Notification:
        """Return a message as the library knows it. Raises DataError."""
        return to_notification(decode_event(stored.body), stored.sequence, self._plan.id_type)

    # Inserting

    def _guess(self, events: Sequence[StoredEvent], ids: Sequence[str]) -> list[_Link] | None:
        """Chain the events behind the remembered heads; None when they do not fit, which proves nothing."""
        try:
            return self._chain({key: self._heads[key] for key in ids if key in self._heads}, events, ids)
        except IntegrityError:
            return None

    def _chain(self, heads: Mapping[str, _Head], events: Sequence[StoredEvent], ids: Sequence[str]) -> list[_Link]:
        """Chain the events behind these heads and each other. Raises IntegrityError for one that does not follow."""
        commit_id = new_commit_id()
        current = dict(heads)
        links: list[_Link] = []
        for event, key in zip(events, ids, strict=True):
            head = current.get(key)
            if self._follows(head, event):
                expected = 0 if head is None else head.sequence
                body, headers = encode_event(event, key, commit_id), event_headers(event)
                append = Append(self._plan.subject(key), body, commit_id, expected, headers)
                links.append(_Link(key, event.originator_version, append))
                current[key] = _Head(event.originator_version, expected)
        return links

    def _follows(self, head: _Head | None, event: StoredEvent) -> bool:
        """Whether to append an event behind a head. Raises IntegrityError when it must not be.

        False: a snapshot older than the newest, which a load would never ask for.
        """
        version = event.originator_version
        if head is not None and version == head.version:
            raise IntegrityError(f"{_named(event)} is already recorded")
        if not self._plan.gapless:
            return head is None or version > head.version
        if version in (0, 1) if head is None else version == head.version + 1:
            return True
        last = "nothing" if head is None else f"version {head.version}"
        raise IntegrityError(f"{_named(event)} does not follow what is recorded: {last}")

    async def _commit(self, links: Sequence[_Link], ids: Sequence[str]) -> list[int] | None:
        """Append the chain; None when another writer has the place of one of its events."""
        try:
            outcome = await self._ledger.commit_together([link.append for link in links])
        except BatchTooLarge as error:
            raise ProgrammingError(f"{error}; save less at once") from error
        except BrokerUnavailable:
            self._forget(ids)
            raise
        if isinstance(outcome, Lost):
            self._forget(ids)
            return None
        for link, sequence in zip(links, outcome, strict=True):
            self._remember(link.key, _Head(link.version, sequence))
        return list(outcome)

    # Heads

    def _remember(self, key: str, head: _Head) -> None:
        known = self._heads.pop(key, head)
        self._heads[key] = head if head.sequence > known.sequence else known
        if len(self._heads) > HEADS_REMEMBERED_MAX:
            self._heads.popitem(last=False)

    def _forget(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._heads.pop(key, None)

    async def _read_heads(self, keys: Sequence[str]) -> dict[str, _Head]:
        places = asyncio.Semaphore(LOOKUPS_AT_ONCE_MAX)

        async def read(key: str) -> None:
            async with places:
                await self._last(key)

        distinct = list(dict.fromkeys(keys))
        self._forget(distinct)
        results = await asyncio.gather(*(read(key) for key in distinct), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return {key: self._heads[key] for key in distinct if key in self._heads}

    async def _last(self, key: str) -> StoredEvent | None:
        stored = await self._ledger.head(self._plan.subject(key))
        return None if stored is None else self._event(key, stored)

    def _event(self, key: str, stored: Stored) -> StoredEvent:
        envelope = decode_event(stored.body)
        self._remember(key, _Head(envelope.originator_version, stored.sequence))
        return to_stored_event(envelope, self._plan.id_type)

    # Reading

    async def _read(self, key: str, gt: int | None, lte: int | None, limit: int | None) -> list[StoredEvent]:
        head = self._heads.get(key)
        start = head.sequence + 1 if head is not None and gt is not None and head.version <= gt else 1
        events: list[StoredEvent] = []
        messages = read_subject(self._connection, self._stream, self._plan.subject(key), from_sequence=start)
        async with aclosing(messages):
            async for stored in messages:
                event = self._event(key, stored)
                if lte is not None and event.originator_version > lte:
                    break
                if gt is None or event.originator_version > gt:
                    events.append(event)
                if len(events) == limit:
                    break
        return events

    async def _notifications(
        self, after: int, stop: int | None, limit: int, topics: Sequence[str]
    ) -> list[Notification]:
        end = await self._ledger.last_sequence()
        end = end if stop is None else min(end, stop)
        found: list[Notification] = []
        while after < end and len(found) < limit:
            count = min(end - after, TOPIC_PAGE_MESSAGES if topics else limit - len(found))
            for stored in await read_stretch(self._connection, self._stream, after=after, count=count):
                after = stored.sequence
                notification = self.notification(stored)
                if not topics or notification.topic in topics:
                    found.append(notification)
        return found[:limit]

    async def _patiently(self, read: Callable[[], Awaitable[_T]]) -> _T:
        """Read, again and again while the broker is away, until the plan's timeout."""
        deadline = asyncio.get_running_loop().time() + self._plan.timeout_s
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            try:
                return await read()
            except BrokerUnavailable:
                await self._connection.pause(min(RETRY_PAUSE_S, left))
                await self._connection.wait_connected(left)
        return await read()


def _named(event: StoredEvent) -> str:
    return f'version {event.originator_version} of "{str(event.originator_id)[:80]}"'
