"""Preview: the coming instants with release and local time."""

import pytest

from fireledger.domain import entries as e
from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import HOUR, MINUTE, SECOND, format_instant, parse_instant
from fireledger.domain.jitter import release_of
from fireledger.domain.preview import coming, preview
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.recurrence import recurrence_of
from fireledger.runners.zone_package import load_packaged_zones
from tests.unit.domain.given import TICK, Given, amend, create, every

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


@pytest.mark.parametrize("most", [3, 4, 22, 23, 24, 30])
def test_a_maximum_counts_in_the_order_of_releases(most: int) -> None:
    """An instant that an earlier definition's jitter puts behind others is previewed only if it is among the fires."""
    start = "2026-11-30T00:00:00Z"
    book = Given(start=start)
    book.given(create(every("50m", start, jitter=25 * MINUTE, overlap="allow")))
    book.given(amend(every("40s", start, max_fires=most, overlap="allow")), at="2026-11-30T01:00:00Z")
    rows = coming(book.state, book.trigger(), book.zones, now=book.at, count=100).rows
    late = rows[0].scheduled if rows[0].release > rows[1].release else None
    assert late == (parse_instant("2026-11-30T00:50:00Z") if most > 22 else None)
    for after in (0, 1, most - 1):
        last = rows[after].scheduled
        rest = coming(book.state, book.trigger(), book.zones, now=book.at, count=100, after=last).rows
        assert rest == rows[after + 1 :]
    fired: list[int] = []
    for at in range(book.at, book.at + 2 * HOUR, 5 * SECOND):
        found = book.when(TICK, at=at).entries()
        fired += [entry.scheduled for entry in found if isinstance(entry, e.FireReleased) and entry.decides]
    assert sorted(fired) == [row.scheduled for row in rows]
    assert len(fired) == most
