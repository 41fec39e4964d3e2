"""Our zone reader against zoneinfo over the same bytes, for every zone."""

import io
import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from fireledger.domain.instants import SECOND
from fireledger.domain.limits import YEAR_MAX
from fireledger.runners.zone_package import load_packaged_zones

ZONES = load_packaged_zones()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_S, LAST_S = -5_000_000_000, (YEAR_MAX - 1970) * 31_556_952 + 10**10


def theirs(zone: ZoneInfo, at_s: int) -> int:
    """The offset of zoneinfo at an instant."""
    offset = (EPOCH + timedelta(seconds=at_s)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


def samples(name: str) -> list[int]:
    """Random instants, those around some changes and beyond the searched years."""
    draw = random.Random(name)
    changes = [change.at_s for change in ZONES.zone(name).transitions(FIRST_S, LAST_S)]
    chosen = draw.sample(changes, min(len(changes), 30))
    return [at_s + step for at_s in chosen for step in (-1, 0)] + [draw.randrange(FIRST_S, LAST_S) for _ in range(30)]


@pytest.mark.slow
def test_offsets_equal_zoneinfo_in_every_zone() -> None:
    """At and around changes and anywhere else, all zones have zoneinfo's offsets."""
    for name in ZONES.names:
        ours, zone = ZONES.zone(name), ZoneInfo.from_file(io.BytesIO(ZONES.content(name)), name)
        for at_s in samples(name):
            assert ours.utc_offset_at(at_s * SECOND) == theirs(zone, at_s), (name, at_s)


@pytest.mark.slow
def test_changes_are_complete() -> None:
    """Between two listed changes zoneinfo sees none: every fifth day of 60 years is compared."""
    for name in ("Europe/Rome", "Africa/Casablanca", "America/Sao_Paulo", "Pacific/Apia", "Asia/Gaza"):
        ours, zone = ZONES.zone(name), ZoneInfo.from_file(io.BytesIO(ZONES.content(name)), name)
        for at_s in range(0, 60 * 31_556_952, 5 * 86_400):
            assert ours.offset_at_second(at_s) == theirs(zone, at_s), (name, at_s)


@pytest.mark.slow
def test_local_times_equal_zoneinfo_around_changes() -> None:
    """Local times map to the instants that zoneinfo's two folds give, and to none exactly in its gaps."""
    for name in ZONES.names[::3]:
        ours, zone = ZONES.zone(name), ZoneInfo.from_file(io.BytesIO(ZONES.content(name)), name)
        for change in ours.transitions(0, 2_500_000_000)[-6:]:
            for step in range(-3, 4):
                local_s = change.at_s + change.before_s + step * 1_200
                naive = EPOCH.replace(tzinfo=None) + timedelta(seconds=local_s)
                both = {
                    (naive.replace(tzinfo=zone, fold=fold).astimezone(UTC) - EPOCH) // timedelta(seconds=1)
                    for fold in (0, 1)
                }
                wanted = sorted(at_s for at_s in both if at_s + theirs(zone, at_s) == local_s)
                got = [instant // SECOND for instant in ours.local_to_instants(local_s * SECOND)]
                assert got == wanted, (name, local_s)
                assert (ours.gap_at(local_s * SECOND) is None) is bool(wanted)
