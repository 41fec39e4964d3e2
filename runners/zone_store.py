"""Every time-zone database in use, kept in the broker's object store by version and hash.

Control stores the packaged database before it can be adopted; every runner loads all of them, so that a book is
decided by the bytes it adopted, whatever package is installed.
"""

import msgspec

from fireledger.domain.zones import UnknownZoneData, ZoneDatabase, ZoneLibrary, unpack_zone_database

from .errors import LogGap
from .jetstream.connection import BrokerConnection
from .jetstream.objects import ObjectStore
from .zone_package import load_packaged_zones

STORE = "tzdb"
INDEX = "index"
DATABASES_MAX = 500
"""Versions kept: decades of releases at some twenty a year at most."""


class _Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: str
    sha256: str


async def store_packaged_zones(connection: BrokerConnection) -> None:
    """Store the packaged database under its hash and list it, unless it is there. Needs control's rights.

    Raises BrokerUnavailable, BrokerRefused.
    """
    store = ObjectStore(connection, STORE)
    packaged = load_packaged_zones()
    listed = await _listed(store)
    if any(each.sha256 == packaged.sha256 for each in listed):
        return
    await store.put(packaged.sha256, packaged.pack())
    index = [*listed, _Listed(packaged.version, packaged.sha256)][-DATABASES_MAX:]
    await store.put(INDEX, msgspec.json.encode(index))


async def load_zones(connection: BrokerConnection) -> ZoneLibrary:
    """The packaged database and every stored one.

    Raises LogGap when stored bytes are not what their name says, BrokerUnavailable, BrokerRefused.
    """
    store = ObjectStore(connection, STORE)
    packaged = load_packaged_zones()
    databases = [await _load(store, each) for each in await _listed(store) if each.sha256 != packaged.sha256]
    return ZoneLibrary(*databases, packaged)


async def _load(store: ObjectStore, listed: _Listed) -> ZoneDatabase:
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


async def _listed(store: ObjectStore) -> list[_Listed]:
    content = await store.get(INDEX)
    return [] if content is None else msgspec.json.decode(content, type=list[_Listed])
