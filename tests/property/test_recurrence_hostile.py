"""Hostile text: every string ends quickly, as a schedule or as a refusal with place and hint."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time

import pytest

from fireledger.domain.instants import parse_instant
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.errors import MalformedSchedule
from fireledger.domain.recurrence.interval_text import parse_interval, parse_one_off
from fireledger.domain.recurrence.recurrence import recurrence_of
from fireledger.domain.recurrence.schedule import Schedule
from fireledger.domain.recurrence.schedule_text import parse_schedule
from fireledger.runners.zone_package import load_packaged_zones

UTC = load_packaged_zones().zone("UTC")
START = parse_instant("2026-01-01T00:00:00Z")
SEEDS = [
    "0 0 22-2 ? NOV-FEB 6#3 2026/2",
    "0 0/5 9 L-3W,15W * ?",
    "cron(0 12 ? * MON-FRI 2026-2030)",
    "rate(5 minutes)",
    "at(2026-12-24T18:00:00)",
    "RRULE:FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=9,17;BYSETPOS=-1",
    "DTSTART:20260105T090000 RRULE:FREQ=MONTHLY;INTERVAL=3;BYDAY=-1FR;COUNT=10",
    "DTSTART:20260105T090000 RRULE:FREQ=SECONDLY;INTERVAL=7;UNTIL=20270101T000000",
    "DTSTART:20260105T090000 RRULE:FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO,TU;BYYEARDAY=-1,140",
    "0 9 * * 1-5",
    "*/15 * * * * *",
    "0 0 L-3,15W,LW feb-dec/2 fri#2,5L",
    "@hourly",
    "0 22-5 * * *",
    "CRON_TZ=UTC 0 9 * * *",
    "every 90m",
    "2026-12-24T18:00",
]
ALPHABET = "0123456789*/,-LWHR#?@=;() \t\nabcsunfri.:TZ\u00b2\u0663\uff15\u2010\x00\U0001f552"
STRINGS, STRINGS_LONG = 1_500, 10_000
DIALECTS = (None, "unix", "quartz", "aws", "rrule")
EACH_S_MAX = 0.05


def hostile(count: int) -> Iterator[str]:
    """Valid texts, most with pieces replaced, repeated or removed, and some huge ones."""
    draw = random.Random(20)
    for _ in range(count):
        text = list(draw.choice(SEEDS))
        for _ in range(draw.choice((0, 1, 1, 1, 2, 3, 6))):
            at = draw.randrange(len(text) + 1)
            text[at : at + draw.randint(0, 3)] = draw.choices(ALPHABET, k=draw.randint(0, 4))
        yield "".join(text) * draw.choice((1, 1, 1, 1, 30))
    huge = ("9", "*", "0 ", ",", "@", "L-", "\u0663", "1-", "*/1", "\n", "/")
    yield from (piece * (1_000_000 // len(piece)) for piece in huge)
    yield from (
        f"{'9' * 200} * * * *",
        f"*/{'9' * 200} * * * *",
        f"{'0' * 200}5 * * * *",
        ",".join("*" * 100) + " * * * *",
    )


def outcome_of(parse: Callable[[str], Schedule], text: str) -> Schedule | MalformedSchedule:
    """The schedule or the refusal."""
    try:
        return parse(text)
    except MalformedSchedule as error:
        return error


def check(parse: Callable[[str], Schedule], text: str) -> bool:
    """Whether the text is read; in time, and a refusal says where and what to write."""
    outcome, took_s = timed(parse, text)
    if isinstance(outcome, MalformedSchedule):
        assert outcome.hint, text[:80]
        assert outcome.position is not None, text[:80]
        assert 0 <= outcome.position <= len(text), text[:80]
        assert len(outcome.token) <= len(text), text[:80]
        assert len(str(outcome)) < 900, text[:80]
    # Once more when it took long: a collection of garbage may have come between, never twice.
    assert took_s < EACH_S_MAX or timed(parse, text)[1] < EACH_S_MAX, text[:200]
    return not isinstance(outcome, MalformedSchedule)


def timed(parse: Callable[[str], Schedule], text: str) -> tuple[Schedule | MalformedSchedule, float]:
    """Read the text and search once; the outcome and the processor's seconds."""
    begun = process_time()
    outcome = outcome_of(parse, text)
    if not isinstance(outcome, MalformedSchedule):
        recurrence_of(outcome, UTC, "shift", "first").next_after(START)
    return outcome, process_time() - begun


def check_all(count: int) -> None:
    """Try every reader on so many texts."""
    readers: list[Callable[[str], Schedule]] = [parse_cron, lambda text: parse_interval(text, START), parse_one_off]
    readers += [partial(parse_schedule, dialect=dialect, anchor=START) for dialect in DIALECTS]
    read = 0
    for text in hostile(count):
        for reader in readers:
            read += check(reader, text)
    assert read > count // 20


@pytest.mark.slow
def test_hostile_text_is_read_or_refused() -> None:
    """Nothing crashes, hangs or is refused without saying where and what to write."""
    check_all(STRINGS)


@pytest.mark.long
def test_much_hostile_text_is_read_or_refused() -> None:
    """As above, over ten thousand texts."""
    check_all(STRINGS_LONG)
