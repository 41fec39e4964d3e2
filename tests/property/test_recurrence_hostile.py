"""Hostile text: every string ends quickly, as a schedule or as a refusal with place and hint."""

import random
from collections.abc import Callable, Iterator
from time import process_time

import pytest

from fireledger.domain.instants import parse_instant
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.errors import MalformedSchedule
from fireledger.domain.recurrence.interval_text import parse_interval, parse_one_off
from fireledger.domain.recurrence.recurrence import recurrence_of
from fireledger.domain.recurrence.schedule import Schedule
from fireledger.runners.zone_package import load_packaged_zones

UTC = load_packaged_zones().zone("UTC")
START = parse_instant("2026-01-01T00:00:00Z")
SEEDS = [
    "0 9 * * 1-5",
    "*/15 * * * * *",
    "0 0 L-3,15W,LW feb-dec/2 fri#2,5L",
    "@hourly",
    "0 22-5 * * *",
    "CRON_TZ=UTC 0 9 * * *",
    "every 90m",
    "2026-12-24T18:00",
]
ALPHABET = "0123456789*/,-LWHR#?@= \t\nabcsunfri.:TZ\u00b2\u0663\uff15\u2010\x00\U0001f552"
STRINGS = 2_000
EACH_S_MAX = 0.05


def hostile() -> Iterator[str]:
    """Valid texts with pieces replaced, repeated, removed, and some huge ones."""
    draw = random.Random(20)
    for _ in range(STRINGS):
        text = list(draw.choice(SEEDS))
        for _ in range(draw.randint(1, 6)):
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


def parse_interval_from_start(text: str) -> Schedule:
    """An interval anchored at the start."""
    return parse_interval(text, START)


@pytest.mark.slow
def test_hostile_text_is_read_or_refused() -> None:
    """Nothing crashes, hangs or is refused without saying where and what to write."""
    for text in hostile():
        begun = process_time()
        for parse in (parse_cron, parse_interval_from_start, parse_one_off):
            outcome = outcome_of(parse, text)
            if isinstance(outcome, MalformedSchedule):
                assert outcome.hint, text[:80]
                assert outcome.position is not None, text[:80]
                assert len(str(outcome)) < 900, text[:80]
            else:
                recurrence_of(outcome, UTC, "shift", "first").next_after(START)
        assert process_time() - begun < EACH_S_MAX, text[:80]
