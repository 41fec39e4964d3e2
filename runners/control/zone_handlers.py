"""The requests about time-zone databases: which there are, what one would move, and adopting it."""

import asyncio
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from fireledger.domain.commands import AdoptZoneData, Command
from fireledger.domain.due import exhausted
from fireledger.domain.entries import ZoneDataAdopted
from fireledger.domain.identifiers import check_tenant
from fireledger.domain.instants import DAY, format_instant
from fireledger.domain.recurrence.recurrence import local_text
from fireledger.domain.recurrence.schedule import IntervalSchedule
from fireledger.domain.rejections import RejectionCode
from fireledger.domain.rezone import Rules
from fireledger.domain.state import State, TriggerState
from fireledger.domain.zone_changes import ChangedInstant, Changes, Zoned, changes_between
from fireledger.domain.zones import MalformedZone, UnknownZone, ZoneDatabase, ZoneRules, unpack_zone_database
from fireledger.projections.book_text import schedule_text

from ..errors import ControlRefused, ExitStatus
from ..jetstream.connection import BrokerConnection
from ..json_edge import Json, Jsonable
from ..known_zones import KnownZones
from ..zone_package import load_packaged_zones
from ..zone_store import list_zones, store_zones
from . import requests as r
from .answers import Answer
from .command_handlers import no_tenant
from .commands import Asked, CommandWriter, Done
from .model import Model
from .read_handlers import within_bytes
from .refusals import refused

LOOK_AHEAD = 400 * DAY
"""How far ahead of now a comparison looks."""
PACKED_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of one database, unpacked: some forty times the released one."""
TRIGGERS_LOOKED_MAX = 1_000
"""Triggers that one answer of a comparison looks at."""
_TRIGGERS_AT_ONCE = 10
"""Triggers compared before the time is looked at: some 10 ms each when all instants of a year move, rarely 400."""
COMPARE_WITHIN_S = 4.0
"""After this the answer holds what was compared so far; well within a client's patience."""
INSTANTS_SHOWN_MAX = 1_000
"""Moved instants of one trigger that an answer lists; the rest is counted."""
BOOKS_MAX = 50
"""Books that one request adopts a database in; the caller goes on with ``next``."""
MOVED_SHOWN_MAX = 100
"""Moved triggers of one book that the answer about an adoption names; its page names more."""
HASH_DIGITS_MIN = 8
"""Leading digits of a hash that name a database."""
ZONES_UNKNOWN = "zone-data-unknown"
"""No stored database has that version or hash, or more than one has."""
_COMPARISONS_AT_ONCE_MAX = 2
"""Each keeps a thread busy."""


@dataclass(frozen=True, slots=True)
class _Comparison:
    """What a comparison asks: the new database, the stretch (after, until], and how many instants to list."""

    database: ZoneDatabase
    after: int
    until: int
    shown: int


class ZoneHandlers:
    """One method for each subject. Each raises ControlRefused and other OperationalErrors."""

    def __init__(self, *, connection: BrokerConnection, writer: CommandWriter, model: Model, zones: KnownZones) -> None:
        self._connection = connection
        self._writer = writer
        self._model = model
        self._zones = zones
        self._comparisons = asyncio.Semaphore(_COMPARISONS_AT_ONCE_MAX)

    async def status(self, content: dict[str, Json]) -> Answer:
        """The stored databases, oldest version first, and how many tenants go by each."""
        r.read_request(content, r.ZonesStatus)
        await self._zones.renew()
        users: dict[str, int] = {}
        behind = 0
        for state in self._states():
            users[state.zone_sha256] = users.get(state.zone_sha256, 0) + 1
            behind += state.zone_sha256 != self._zones.current.sha256 and is_zoned(state)
        packaged = await asyncio.to_thread(load_packaged_zones)
        known = {each.sha256: each.version for each in await list_zones(self._connection)}
        known |= {each.sha256: each.version for each in self._zones.library}
        return {
            "packaged": {"version": packaged.version, "sha256": packaged.sha256},
            "current": {"version": self._zones.current.version, "sha256": self._zones.current.sha256},
            "rows": [
                {"version": version, "sha256": sha256, "tenants": users.get(sha256, 0)}
                for sha256, version in sorted(known.items(), key=lambda item: (item[1], item[0]))
            ],
            "behind": behind,
        }

    async def diff(self, content: dict[str, Json]) -> Answer:
        """What a database would move in the next 400 days. Nothing is stored."""
        request = r.read_request(content, r.ZonesDiff)
        if not 0 <= request.instants <= INSTANTS_SHOWN_MAX:
            raise refused(f"{request.instants} instants are out of bounds", hint=f"use 0 to {INSTANTS_SHOWN_MAX}")
        database = await self._database(request)
        states = [await self._state(request.tenant)] if request.tenant is not None else list(self._states())
        for state in states:
            await self._zones.need(state)
        looked = self._triggers(states, request.after)
        limit = min(max(request.limit, 1), TRIGGERS_LOOKED_MAX)
        async with self._comparisons:
            rows, following = await self._compared(islice(looked, limit + 1), database, limit, request.instants)
        shown, cut = within_bytes(rows)
        if cut:
            following = [rows[len(shown) - 1]["tenant"], rows[len(shown) - 1]["trigger"]]
        return {"version": database.version, "sha256": database.sha256, "rows": shown, "next": following}

    async def adopt(self, content: dict[str, Json]) -> Answer:
        """Store a database, and adopt it in the books that are asked for and have zoned triggers."""
        request = r.read_request(content, r.ZonesAdopt)
        if (request.tenant is None) != request.everyone:
            raise refused("adopt in one tenant's book or in all", hint="name a tenant, or give everyone")
        database = await self._database(request)
        await store_zones(self._connection, database)
        self._zones.add(database)
        if request.tenant is not None:
            state = await self._state(request.tenant)
            rows, following = [await self._adopt_in(state.tenant, database)], None
        else:
            rows, following = await self._adopt_in_all(database, request.after or "")
        return {"version": database.version, "sha256": database.sha256, "rows": rows, "next": following}

    # Which database

    async def _database(self, request: r.ZonesNamed) -> ZoneDatabase:
        if (request.to is None) == (request.packed is None):
            raise r.malformed("give either a version or a packed database")
        if request.packed is not None:
            return await asyncio.to_thread(_unpacked, request.packed)
        await self._zones.renew()
        assert request.to is not None, "one of the two is given"
        return self._named(request.to)

    def _named(self, to: str) -> ZoneDatabase:
        found = [
            each
            for each in self._zones.library
            if each.version == to or (len(to) >= HASH_DIGITS_MIN and each.sha256.startswith(to))
        ]
        if len(found) == 1:
            return found[0]
        which = "is not stored" if not found else f"is the name of {len(found)} databases"
        hint = "see fireledger tz status, or give the path of a tzdata folder or wheel"
        raise ControlRefused(
            ZONES_UNKNOWN,
            f'time-zone database "{to[:64]}" {which}',
            hint=hint if not found else "give the first digits of its hash: see fireledger tz status",
            exit_status=ExitStatus.NOT_FOUND,
        )

    # Which books

    def _states(self) -> Iterator[State]:
        """Every open book with a tenant, by name."""
        for tenant in sorted(self._model.books):
            state = self._model.books[tenant].state
            if state.settings is not None and not state.closed:
                yield state

    async def _state(self, tenant: str) -> State:
        book = await self._writer.catch_up(check_tenant(tenant))
        if book.state.settings is None:
            raise no_tenant(tenant)
        return book.state

    def _triggers(self, states: list[State], after: tuple[str, str] | None) -> Iterator[tuple[State, TriggerState]]:
        """The live zoned triggers by tenant and name, after a place."""
        for state in states:
            if after is not None and state.tenant < after[0]:
                continue
            for name in sorted(state.triggers):
                trigger = state.triggers[name]
                if after is not None and (state.tenant, name) <= after:
                    continue
                if not trigger.deleted and not exhausted(trigger) and _is_zoned_trigger(trigger):
                    yield state, trigger

    # Comparing

    async def _compared(
        self, triggers: Iterator[tuple[State, TriggerState]], database: ZoneDatabase, limit: int, shown: int
    ) -> tuple[list[Answer], Jsonable]:
        """The rows of the first ``limit`` triggers, or as many as there is time for, and after which to go on."""
        deadline = asyncio.get_running_loop().time() + COMPARE_WITHIN_S
        rows: list[Answer] = []
        some = list(triggers)
        if not some:
            return rows, None
        # One beginning for all, so that triggers of one schedule share the work.
        now = self._writer.now_for(self._model.book(some[0][0].tenant))
        asked, kept = _Comparison(database, now, now + LOOK_AHEAD, shown), dict[object, Changes]()
        done = 0
        while done < min(len(some), limit) and asyncio.get_running_loop().time() < deadline:
            few = some[done : min(done + _TRIGGERS_AT_ONCE, limit)]
            # States are frozen, and whoever else asks control does not wait for this.
            found = await asyncio.to_thread(self._compare, few, asked, kept)
            rows.extend(row for row in found if row is not None)
            done += len(few)
        if done >= len(some):
            return rows, None
        state, trigger = some[done - 1]
        return rows, [state.tenant, trigger.name]

    def _compare(
        self, triggers: list[tuple[State, TriggerState]], asked: _Comparison, kept: dict[object, Changes]
    ) -> list[Answer | None]:
        return [self._row(state, trigger, asked, kept) for state, trigger in triggers]

    def _row(
        self, state: State, trigger: TriggerState, asked: _Comparison, kept: dict[object, Changes]
    ) -> Answer | None:
        """What would change about a trigger; None for nothing."""
        definition = trigger.definition
        about: Answer = {
            "tenant": state.tenant,
            "trigger": trigger.name,
            "schedule": schedule_text(definition.schedule),
            "zone": definition.zone,
        }
        old = self._zones.database(state.zone_sha256).zone(definition.zone)
        try:
            new = asked.database.zone(definition.zone)
        except UnknownZone:
            return {**about, "error": f'the database has no zone "{definition.zone}"', "count": 0, "instants": []}
        zoned = Zoned(
            Rules(definition.schedule, definition.gap, definition.fold),
            definition.excluded,
            definition.not_before,
            definition.not_after,
        )
        question = (zoned, old)
        changes = kept.get(question)
        if changes is None:
            changes = changes_between(zoned, old, new, after=asked.after, until=asked.until, limit=asked.shown)
            kept[question] = changes
        if not changes.count:
            return None
        instants = [_instant_answer(change, old, new) for change in changes.shown]
        return {**about, "error": None, "count": changes.count, "instants": instants}

    # Adopting

    async def _adopt_in_all(self, database: ZoneDatabase, after: str) -> tuple[list[Answer], str | None]:
        rows: list[Answer] = []
        for state in list(self._states()):
            if state.tenant <= after or not is_zoned(state):
                continue
            if len(rows) >= BOOKS_MAX:
                return rows, str(rows[-1]["tenant"])
            rows.append(await self._adopt_in(state.tenant, database))
        return rows, None

    async def _adopt_in(self, tenant: str, database: ZoneDatabase) -> Answer:
        """Adopt in one book; a book that refuses does not keep the others from it."""

        def build(_state: State, _now: int) -> Command:
            """The same whatever the book says: one that has it already is left as it is."""
            return AdoptZoneData(version=database.version, sha256=database.sha256)

        try:
            done = await self._writer.execute(Asked(tenant, "", b""), build)
        except ControlRefused as error:
            return {"tenant": tenant, "changed": False, "page": None, "error": error.message, "hint": error.hint}
        return {"tenant": tenant, "changed": done.page is not None, "page": done.page, "error": None, **_moved(done)}


def is_zoned(state: State) -> bool:
    """Whether the book has anything that goes by a zone's clock, or may get it without saying so."""
    if state.settings is not None and state.settings.zone != "UTC":
        return True
    return any(not trigger.deleted and _is_zoned_trigger(trigger) for trigger in state.triggers.values())


def _is_zoned_trigger(trigger: TriggerState) -> bool:
    return any(
        segment.zone != "UTC" and not isinstance(segment.schedule, IntervalSchedule) for segment in trigger.segments
    )


def _unpacked(compressed: bytes) -> ZoneDatabase:
    """Read what a client sent, every zone of it. Raises ControlRefused."""
    reader = zlib.decompressobj()
    try:
        packed = reader.decompress(compressed, PACKED_BYTES_MAX)
        if not reader.eof:
            message = f"the packed time-zone database has more than {PACKED_BYTES_MAX} bytes"
            raise refused(message, hint="use a released tzdata package")
        database = unpack_zone_database(packed)
        for name in database.names:
            database.zone(name)
    except zlib.error as error:
        raise r.malformed(f"the packed time-zone database cannot be read: {error}") from error
    except MalformedZone as error:
        raise refused(str(error), hint="use a released tzdata package", code=RejectionCode.ZONE_UNKNOWN) from error
    return database


def _moved(done: Done) -> Answer:
    """What the adoption's entry says of moved triggers."""
    adopted = next((entry for entry in done.entries if isinstance(entry, ZoneDataAdopted)), None)
    if adopted is None:
        return {"moved_count": 0, "moved": []}
    return {
        "moved_count": adopted.moved_count,
        "moved": [
            {"trigger": each.trigger, "old": _text(each.old), "new": _text(each.new)}
            for each in adopted.moved[:MOVED_SHOWN_MAX]
        ],
    }


def _instant_answer(change: ChangedInstant, old: ZoneRules, new: ZoneRules) -> Answer:
    what = "moves" if None not in (change.old, change.new) else "vanishes" if change.new is None else "appears"
    return {
        "change": what,
        "old": _text(change.old),
        "old_local": None if change.old is None else local_text(change.old, old),
        "new": _text(change.new),
        "new_local": None if change.new is None else local_text(change.new, new),
    }


def _text(instant: int | None) -> str | None:
    return None if instant is None else format_instant(instant)
