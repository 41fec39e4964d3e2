"""Every time-zone database in use, kept in the broker's object store by version and hash.

Control stores a database before it can be adopted; every runner loads all of them, so that a book is decided by the
bytes it adopted, whatever package is installed.
"""

import msgspec

from fireledger.domain.zones import UnknownZoneData, ZoneDatabase, ZoneLibrary, unpack_zone_database

from .errors import ExitStatus, LogGap, OperationalError
from .jetstream.connection import BrokerConnection
from .jetstream.objects import ObjectStore
from .zone_package import load_packaged_zones

STORE = "tzdb"
INDEX = "index"
DATABASES_MAX = 500
"""Databases kept: decades of releases at some ten a year."""
LISTING_TRIES_MAX = 5
"""How often a database is listed again that another control's listing left out."""


class ZoneStoreFull(OperationalError):
    """No further time-zone database can be kept: every one that was used must stay."""

    exit_status = ExitStatus.REFUSED


class StoredZones(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A database that is stored under its hash."""

    version: str
    sha256: str


async def store_packaged_zones(connection: BrokerConnection) -> None:
    """Store the packaged database under its hash and list it, unless it is there. Needs control's rights.

    Raises BrokerUnavailable, BrokerRefused, ZoneStoreFull.
    """
    await store_zones(connection, load_packaged_zones())


async def store_zones(connection: BrokerConnection, database: ZoneDatabase) -> None:
    """Store a database under its hash and list it, unless it is there. Needs control's rights.

    Raises BrokerUnavailable, BrokerRefused, ZoneStoreFull.
    """
    store = ObjectStore(connection, STORE)
    for _ in range(LISTING_TRIES_MAX):
        listed = await _listed(store)
        if any(each.sha256 == database.sha256 for each in listed):
            return
        if len(listed) >= DATABASES_MAX:
            message = f"{DATABASES_MAX} time-zone databases are stored, and none that was used may go"
            raise ZoneStoreFull(message, hint="adopt only released versions of the database")
        await store.put(database.sha256, database.pack())
        # Two controls may list at the same time; who was overwritten sees that when it looks again.
        await store.put(INDEX, msgspec.json.encode([*listed, StoredZones(database.version, database.sha256)]))
    raise ZoneStoreFull("other controls keep listing time-zone databases", hint="try again later")


async def list_zones(connection: BrokerConnection) -> list[StoredZones]:
    """The stored databases, in the order they came. Raises LogGap, BrokerUnavailable, BrokerRefused."""
    return await _listed(ObjectStore(connection, STORE))


async def load_zones(connection: BrokerConnection, known: ZoneLibrary | None = None) -> ZoneLibrary:
    """The packaged database, the known ones and every stored one; what is known is not loaded again.

    Raises LogGap when stored bytes are not what their name says, BrokerUnavailable, BrokerRefused.
    """
    store = ObjectStore(connection, STORE)
    known = known or ZoneLibrary(load_packaged_zones())
    found = [await _load(store, each) for each in await _listed(store) if each.sha256 not in known]
    return ZoneLibrary(*known, *found)


async def _load(store: ObjectStore, listed: StoredZones) -> ZoneDatabase:
    content = await store.get(listed.sha256)
    if content is None:
        raise LogGap(
            f'time-zone database "{listed.version}" is listed and not stored', hint="restore the tzdb object store"
        )
    try:
        database = unpack_zone_database(content)
    except (ValueError, UnknownZoneData) as error:
        raise LogGap(f'time-zone database "{listed.version}" cannot be read: {error}') from error
    if database.sha256 != listed.sha256:
        raise LogGap(f'time-zone database "{listed.version}" does not have the hash it is stored under')
    return database


async def _listed(store: ObjectStore) -> list[StoredZones]:
    content = await store.get(INDEX)
    return [] if content is None else msgspec.json.decode(content, type=list[StoredZones])
