"""The engine against a plain oracle: every minute around transitions, walked with zoneinfo over the same bytes."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from fireledger.domain.instants import SECOND
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.recurrence import recurrence_of
from fireledger.domain.recurrence.rules import FOLD_RULES, GAP_RULES, FoldRule, GapRule
from fireledger.domain.zones import ZoneRules
from fireledger.runners.zone_package import load_packaged_zones

ZONES = load_packaged_zones()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SAMPLED = {
    "Africa/Cairo": 2,
    "Africa/Casablanca": 3,
    "Africa/Juba": 1,
    "America/Asuncion": 2,
    "America/Caracas": 1,
    "America/Havana": 2,
    "America/New_York": 2,
    "America/Santiago": 2,
    "America/Sao_Paulo": 2,
    "America/St_Johns": 2,
    "Antarctica/Casey": 3,
    "Antarctica/Troll": 2,
    "Asia/Amman": 2,
    "Asia/Beirut": 2,
    "Asia/Gaza": 3,
    "Asia/Kathmandu": 1,
    "Asia/Pyongyang": 1,
    "Asia/Tehran": 2,
    "Australia/Lord_Howe": 2,
    "Australia/Sydney": 2,
    "Europe/Dublin": 2,
    "Europe/Rome": 2,
    "Europe/Volgograd": 2,
    "Pacific/Apia": 4,
    "Pacific/Chatham": 2,
    "Pacific/Kwajalein": 1,
    "UTC": 0,
}
"""Zones with one-hour, half-hour, two-hour and whole-day changes, and how many of their latest ones are walked."""

# Minutes, hours, and days of the month as the oracle reads them, beside the expression that says the same.
ANY_MINUTE, ANY_HOUR, ANY_DAY = frozenset(range(60)), frozenset(range(24)), frozenset(range(1, 32))
MINUTES: list[tuple[str, frozenset[int]]] = [
    ("*", ANY_MINUTE),
    ("0", frozenset({0})),
    ("30", frozenset({30})),
    ("*/15", frozenset({0, 15, 30, 45})),
    ("5/20", frozenset({5, 25, 45})),
    ("15,45,59", frozenset({15, 45, 59})),
]
HOURS: list[tuple[str, frozenset[int]]] = [
    ("*", ANY_HOUR),
    ("0", frozenset({0})),
    ("1,2", frozenset({1, 2})),
    ("2", frozenset({2})),
    ("23", frozenset({23})),
    ("0-4", frozenset(range(5))),
    ("1/3", frozenset(range(1, 24, 3))),
]
EXPRESSIONS = [(f"{m} {h} * * *", minutes, hours) for m, minutes in MINUTES for h, hours in HOURS]


def oracle_window(zone: ZoneInfo, at_s: int, hours: int) -> tuple[dict[datetime, list[datetime]], list[datetime]]:
    """Which UTC minutes show each local minute, and every local minute from first to last, missing ones included."""
    middle = EPOCH + timedelta(seconds=at_s)
    shown: dict[datetime, list[datetime]] = {}
    for step in range(-hours * 60, hours * 60 + 1):
        instant = middle + step * MINUTE
        shown.setdefault(instant.astimezone(zone).replace(tzinfo=None, fold=0), []).append(instant)
    first, last = min(shown), max(shown)
    return shown, [first + step * MINUTE for step in range((last - first) // MINUTE + 1)]


def oracle_instants(
    zone: ZoneInfo, shown: dict[datetime, list[datetime]], matching: list[datetime], gap: GapRule, fold: FoldRule
) -> set[datetime]:
    """What the rules make of matching local minutes, one by one, straight from their definition."""
    found: set[datetime] = set()
    for local in matching:
        instants = shown.get(local, [])
        if len(instants) == 1 or fold == "both":
            found.update(instants)
        elif instants:
            found.add(instants[0] if fold == "first" else instants[1])
        if not instants and gap == "shift":
            # fold=0 of a missing time takes the offset before the gap, which moves it by the gap's length.
            found.add(local.replace(tzinfo=zone).astimezone(UTC))
        elif not instants and gap == "next-valid":
            found.add(min(instant for later, several in shown.items() if later > local for instant in several))
    return found


def sampled(name: str) -> Iterator[tuple[int, int]]:
    """The latest changes of a zone before 2027: instant in seconds and the hours that a walk must cover."""
    rules = ZONES.zone(name)
    changes = rules.transitions(0, 1_798_761_600)
    for change in changes[len(changes) - SAMPLED[name] :]:
        yield change.at_s, 4 if abs(change.after_s - change.before_s) < 4 * 3_600 else 30
    if not changes:
        yield 1_772_323_200, 4


def compared_hours(hours: int, rules: ZoneRules, at_s: int) -> tuple[int, int]:
    """The UTC seconds whose answer depends only on local times inside the walk."""
    change = abs(rules.offset_at_second(at_s) - rules.offset_at_second(at_s - 1))
    margin = max(change, 60)
    return at_s - hours * 3_600 + margin, at_s + hours * 3_600 - margin


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
def test_engine_equals_the_oracle_around_transitions(name: str) -> None:
    """Around each sampled change, 42 expressions under all nine rules give the oracle's instants and counts."""
    rules = ZONES.zone(name)
    zone = ZoneInfo.from_file(io.BytesIO(ZONES.content(name)), name)
    for at_s, walked in sampled(name):
        shown, local_minutes = oracle_window(zone, at_s, walked)
        low, high = compared_hours(walked, rules, at_s)
        for text, minutes, hours in EXPRESSIONS:
            matching = [one for one in local_minutes if one.minute in minutes and one.hour in hours]
            schedule = parse_cron(text)
            for gap in GAP_RULES:
                for fold in FOLD_RULES:
                    wanted = sorted(oracle_seconds(oracle_instants(zone, shown, matching, gap, fold), low, high))
                    recurrence = recurrence_of(schedule, rules, gap, fold)
                    after, until = low * SECOND, high * SECOND
                    got = [instant // SECOND for instant in recurrence.between(after, until)]
                    assert got == wanted, (text, gap, fold)
                    assert recurrence.count(after, until) == len(wanted)


def oracle_seconds(instants: set[datetime], low: int, high: int) -> list[int]:
    """The instants in (low, high] as seconds."""
    seconds = [(instant - EPOCH) // timedelta(seconds=1) for instant in instants]
    return [second for second in seconds if low < second <= high]


DAY_PATTERNS = ["0 0 * * 5", "30 23 * * 6", "30 0 1 * *", "0 2 L * *", "15 2 1-7 * 0", "0 1 */2 * 1,3", "0 0 15W * *"]


@pytest.mark.slow
@pytest.mark.parametrize("text", DAY_PATTERNS)
def test_stepping_equals_between_over_years(text: str) -> None:
    """Stepping forward, stepping back, between and count agree over eleven years in zones that change."""
    schedule = parse_cron(text)
    for name in ("Europe/Rome", "America/Santiago", "Pacific/Apia", "Asia/Gaza"):
        for gap in GAP_RULES:
            for fold in FOLD_RULES:
                recurrence = recurrence_of(schedule, ZONES.zone(name), gap, fold)
                after, until = 1_300_000_000 * SECOND, 1_650_000_000 * SECOND
                wanted = list(recurrence.between(after, until))
                forward: list[int] = []
                back: list[int] = []
                instant = recurrence.next_after(after)
                while instant is not None and instant <= until:
                    forward.append(instant)
                    instant = recurrence.next_after(instant)
                instant = recurrence.previous_before(until + 1)
                while instant is not None and instant > after:
                    back.append(instant)
                    instant = recurrence.previous_before(instant)
                assert forward == wanted == back[::-1]
                assert recurrence.count(after, until) == len(wanted)
