"""The time-zone databases that a process knows at present: renewed when a book uses one that it does not know."""

from collections.abc import Awaitable, Callable

from fireledger.domain.state import State
from fireledger.domain.zones import ZoneDatabase, ZoneLibrary

Reload = Callable[[ZoneLibrary], Awaitable[ZoneLibrary]]
"""Looks for databases again, given the ones that are known. Raises LogGap, BrokerUnavailable, BrokerRefused."""


class KnownZones:
    """A library that grows. ``library`` is the present one, for a decision that must not change under way."""

    def __init__(self, library: ZoneLibrary, reload: Reload | None = None) -> None:
        self.library = library
        self._reload = reload

    @property
    def current(self) -> ZoneDatabase:
        """The database with the newest version."""
        return self.library.current

    def database(self, sha256_hex: str) -> ZoneDatabase:
        """The database with that hash. Raises UnknownZoneData."""
        return self.library.database(sha256_hex)

    def add(self, database: ZoneDatabase) -> None:
        """Know one more."""
        if database.sha256 not in self.library:
            self.library = ZoneLibrary(*self.library, database)

    async def need(self, state: State) -> None:
        """Look again when the book goes by a database that is not known. Raises what ``Reload`` raises."""
        if missing_zone_data(state, self.library):
            await self.renew()

    async def renew(self) -> None:
        """Look again. Raises what ``Reload`` raises."""
        if self._reload is not None:
            self.library = await self._reload(self.library)


def missing_zone_data(state: State, library: ZoneLibrary) -> str | None:
    """The hash of a database that the book's instants may have to be resolved with and that is not in the library."""
    return next((each.zone_sha256 for each in state.adoptions if each.zone_sha256 not in library), None)
