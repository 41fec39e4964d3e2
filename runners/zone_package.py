"""The time-zone database of the pinned ``tzdata`` package, and nothing of the host's."""

from importlib.resources import files

import tzdata

from fireledger.domain.zones import ZoneDatabase


def load_packaged_zones() -> ZoneDatabase:
    """Read every zone of the installed ``tzdata`` package. Raises MalformedZone when the package is damaged."""
    root = files("tzdata")
    names = root.joinpath("zones").read_text(encoding="ascii").split()
    base = root.joinpath("zoneinfo")
    return ZoneDatabase(tzdata.IANA_VERSION, {name: base.joinpath(*name.split("/")).read_bytes() for name in names})
