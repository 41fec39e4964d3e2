"""The engine: order, bounds, counts, intervals and one-offs."""

import os
import subprocess
import sys

import pytest

from fireledger.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant, format_instant, parse_instant
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.interval_text import parse_interval, parse_one_off
from fireledger.domain.recurrence.recurrence import Recurrence, recurrence_of
from fireledger.domain.recurrence.rules import FoldRule, GapRule, default_rules
from fireledger.runners.zone_package import load_packaged_zones

ZONES = load_packaged_zones()


def cron(text: str, zone: str = "UTC", gap: GapRule | None = None, fold: FoldRule | None = None) -> Recurrence:
    """A cron recurrence, under the default rules unless declared."""
    schedule = parse_cron(text)
    default_gap, default_fold = default_rules(schedule)
    return recurrence_of(schedule, ZONES.zone(zone), gap or default_gap, fold or default_fold)


def at(text: str) -> Instant:
    """An instant from its text."""
    return parse_instant(text)


def texts(recurrence: Recurrence, after: str, until: str) -> list[str]:
    """The instants between two texts."""
    return [format_instant(one) for one in recurrence.between(at(after), at(until))]


def test_after_and_before_are_strict() -> None:
    """The instant asked from is never the answer, in either direction, down to the microsecond."""
    daily = cron("0 9 * * *")
    nine = at("2026-11-30T09:00:00Z")
    assert daily.next_after(nine) == nine + DAY
    assert daily.next_after(nine - 1) == nine
    assert daily.previous_before(nine) == nine - DAY
    assert daily.previous_before(nine + 1) == nine


def test_ranges_are_open_at_the_start_and_closed_at_the_end() -> None:
    """Ranges placed end to end hold every instant once, and counts agree."""
    hourly = cron("0 * * * *")
    first, middle, last = at("2026-01-01T00:00:00Z"), at("2026-01-01T05:00:00Z"), at("2026-01-01T10:00:00Z")
    assert list(hourly.between(first, middle))[-1] == middle
    assert next(hourly.between(middle, last)) == middle + HOUR
    assert (hourly.count(first, middle), hourly.count(middle, last), hourly.count(first, last)) == (5, 5, 10)
    assert hourly.count(last, first) == 0
    assert list(hourly.between(last, first)) == []


def test_memory_of_the_last_answer_never_lies() -> None:
    """Asking in any order around a remembered answer gives what a fresh search gives."""
    remembered, base = cron("*/7 3 * * *"), at("2026-05-05T03:10:00Z")
    for shift in (0, 60, -60, 3_600, -3_600, 90_000, 1, -1):
        instant = base + shift * SECOND
        fresh = next(remembered.between(instant, instant + 3 * DAY))
        assert remembered.next_after(instant) == fresh


def test_equal_arguments_share_one_recurrence() -> None:
    """The same schedule, zone and rules give the same object."""
    assert cron("0 9 * * *", "Europe/Rome") is cron("0 9 * * *", "Europe/Rome")


def test_shifted_and_real_occurrences_are_ordered_and_merged() -> None:
    """Times moved out of a gap are woven into the real ones, coinciding ones count once."""
    woven = cron("10,40 2,3 * * *", "Europe/Rome")
    wanted = ["2026-03-29T01:10:00Z", "2026-03-29T01:40:00Z"]
    assert texts(woven, "2026-03-29T00:00:00Z", "2026-03-29T03:00:00Z") == wanted
    woven = cron("10 3 * * *", "Europe/Rome")
    late = cron("5 2,3 * * *", "Australia/Lord_Howe")
    assert texts(woven, "2026-03-29T00:00:00Z", "2026-03-29T03:00:00Z") == ["2026-03-29T01:10:00Z"]
    wanted = ["2026-10-03T15:35:00Z", "2026-10-03T16:05:00Z"]
    assert texts(late, "2026-10-03T15:00:00Z", "2026-10-03T17:00:00Z") == wanted


@pytest.mark.parametrize(
    "fold,hours",
    [("first", ["00:30", "02:30"]), ("second", ["01:30", "02:30"]), ("both", ["00:30", "01:30", "02:30"])],
)
def test_fold_rules(fold: FoldRule, hours: list[str]) -> None:
    """The declared pass of a repeated hour counts."""
    recurrence = cron("30 2,3 * * *", "Europe/Rome", fold=fold)
    got = texts(recurrence, "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z")
    assert got == [f"2026-10-25T{hour}:00Z" for hour in hours]


@pytest.mark.parametrize("gap,hours", [("shift", ["01:15", "01:45"]), ("skip", []), ("next-valid", ["01:00"])])
def test_gap_rules_apply_to_interval_like_schedules_when_declared(gap: GapRule, hours: list[str]) -> None:
    """A declared rule holds for a stepped schedule too."""
    recurrence = cron("15/30 2 * * *", "Europe/Rome", gap=gap)
    got = texts(recurrence, "2026-03-29T00:00:00Z", "2026-03-29T04:00:00Z")
    assert got == [f"2026-03-29T{hour}:00Z" for hour in hours]


def test_searches_end_with_the_years() -> None:
    """Beyond the last year there is nothing, before the first neither, and the search says so."""
    daily = cron("0 9 * * *", "Asia/Tokyo")
    assert daily.next_after(at("2199-12-31T00:00:00Z")) is None
    assert daily.next_after(at("9999-01-01T00:00:00Z")) is None
    assert daily.previous_before(at("1970-01-01T00:00:00Z")) is None
    assert daily.previous_before(at("9999-01-01T00:00:00Z")) == at("2199-12-31T00:00:00Z")
    assert daily.next_after(at("0001-01-02T00:00:00Z")) == at("1970-01-01T00:00:00Z")
    days = (at("2200-01-01T00:00:00Z") - at("1970-01-01T00:00:00Z")) // DAY
    assert daily.count(at("0001-01-02T00:00:00Z"), at("9999-01-01T00:00:00Z")) == days


def test_counts_do_not_enumerate() -> None:
    """A century of seconds is counted exactly, changes of offset included."""
    recurrence = cron("* * * * * *", "Europe/Rome")
    first, last = at("2050-01-01T00:00:00Z"), at("2150-01-01T00:00:00Z")
    assert recurrence.count(first, last) == (last - first) // SECOND


def test_interval_grid_extends_both_ways() -> None:
    """The grid hangs on its anchor, also before it, and knows no zone."""
    anchor = at("2026-03-29T00:10:00Z")
    recurrence = recurrence_of(parse_interval("45m", anchor), ZONES.zone("Europe/Rome"), "shift", "first")
    assert recurrence.next_after(anchor) == anchor + 45 * MINUTE
    assert recurrence.next_after(anchor - 1) == anchor
    assert recurrence.previous_before(anchor) == anchor - 45 * MINUTE
    assert recurrence.count(anchor - DAY, anchor + DAY) == 64
    assert len(list(recurrence.between(anchor - DAY, anchor + DAY))) == 64
    assert recurrence.next_after(at("2200-01-01T00:00:00Z")) is None
    assert recurrence.previous_before(at("1970-01-01T00:00:00Z")) is None
    first = recurrence.next_after(at("1900-01-01T00:00:00Z"))
    assert first is not None
    assert 0 <= first < 45 * MINUTE


@pytest.mark.parametrize(
    "text,gap,fold,instants",
    [
        ("2026-12-24T18:00", "shift", "first", ["2026-12-24T17:00:00Z"]),
        ("2026-03-29T02:30:00.5", "shift", "first", ["2026-03-29T01:30:00.500000Z"]),
        ("2026-03-29T02:30", "next-valid", "first", ["2026-03-29T01:00:00Z"]),
        ("2026-03-29T02:30", "skip", "first", []),
        ("2026-10-25T02:30", "shift", "first", ["2026-10-25T00:30:00Z"]),
        ("2026-10-25T02:30", "shift", "second", ["2026-10-25T01:30:00Z"]),
        ("2026-10-25T02:30", "shift", "both", ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]),
        ("2026-12-24T18:00", "skip", "second", ["2026-12-24T17:00:00Z"]),
    ],
)
def test_one_off(text: str, gap: GapRule, fold: FoldRule, instants: list[str]) -> None:
    """A one-off follows the same rules, and is over after its instants."""
    recurrence = recurrence_of(parse_one_off(text), ZONES.zone("Europe/Rome"), gap, fold)
    first, last = at("1970-01-01T00:00:00Z"), at("2199-01-01T00:00:00Z")
    assert [format_instant(one) for one in recurrence.between(first, last)] == instants
    assert recurrence.count(first, last) == len(instants)
    assert recurrence.next_after(last) is None
    assert recurrence.previous_before(first) is None
    forward = recurrence.next_after(first)
    assert (None if forward is None else format_instant(forward)) == (instants[0] if instants else None)


_PROGRAM = """
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.recurrence import recurrence_of
from fireledger.runners.zone_package import load_packaged_zones
zones = load_packaged_zones()
for zone in ("UTC", "Europe/Rome"):
    recurrence = recurrence_of(parse_cron("0 */2 * * *"), zones.zone(zone), "skip", "both")
    print(list(recurrence.between(1790000000000000, 1795000000000000)))
"""


@pytest.mark.slow
def test_the_host_zone_has_no_say() -> None:
    """Whatever TZ says, the answers are the same bytes."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, "TZ": zone},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for zone in ("Australia/Sydney", "America/New_York", "UTC")
    }
    assert len(outputs) == 1
    assert len(outputs.pop()) > 1_000
