"""The time-zone databases that a scheduler has, and looking for one that a book goes by and that is not there yet."""

import asyncio
from contextlib import suppress

from fireledger.domain.state import State
from fireledger.domain.zones import ZoneLibrary

from ..errors import BrokerUnavailable
from ..known_zones import Reload, missing_zone_data

RELOAD_S = 5.0
"""Between two looks for the same database."""


class ZoneWatch:
    """``library`` grows when a book needs it to. ``reload`` looks for databases again; None: there is none to ask."""

    def __init__(self, library: ZoneLibrary, reload: Reload | None) -> None:
        self.library = library
        self._reload = reload
        self._sought: dict[str, float] = {}

    async def lacks(self, state: State) -> bool:
        """Whether the book's instants cannot be resolved.

        Looks at once when a book first goes by a database, and now and then while that is not to be found.
        """
        missing = missing_zone_data(state, self.library)
        if missing is None:
            return False
        now_s = asyncio.get_running_loop().time()
        if self._reload is not None and now_s >= self._sought.get(missing, 0.0):
            self._sought[missing] = now_s + RELOAD_S
            with suppress(BrokerUnavailable):
                self.library = await self._reload(self.library)
        return missing_zone_data(state, self.library) is not None
