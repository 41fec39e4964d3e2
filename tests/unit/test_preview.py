"""Preview: the coming instants with release and local time."""

from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import HOUR, format_instant, parse_instant
from fireledger.domain.jitter import release_of
from fireledger.domain.preview import preview
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.recurrence import recurrence_of
from fireledger.runners.zone_package import load_packaged_zones

ROME = load_packaged_zones().zone("Europe/Rome")
DAILY = recurrence_of(parse_cron("0 9 * * *"), ROME, "shift", "first")
START = parse_instant("2026-03-27T08:00:00Z")


def test_preview_is_strictly_after_and_local() -> None:
    """The start itself is left out; local time shows the change of offset."""
    rows = preview(DAILY, ROME, tenant="acme", trigger="report", jitter_window=0, after=START, count=2)
    assert [row.local for row in rows] == ["2026-03-28T09:00:00+01:00", "2026-03-29T09:00:00+02:00"]
    assert [format_instant(row.scheduled) for row in rows] == ["2026-03-28T08:00:00Z", "2026-03-29T07:00:00Z"]
    assert all(row.release == row.scheduled for row in rows)


def test_preview_release_is_the_jittered_one() -> None:
    """Release uses the window, no wider than the gap to the next instant."""
    rows = preview(DAILY, ROME, tenant="acme", trigger="report", jitter_window=48 * HOUR, after=START, count=3)
    for row in rows:
        following = DAILY.next_after(row.scheduled)
        assert following is not None
        key = FireKey("acme", "report", row.scheduled)
        assert row.release == release_of(key, 48 * HOUR, following - row.scheduled)
        assert row.scheduled <= row.release < following
