"""croniter as the second opinion: what it may say, and the table of known differences."""

import random

import msgspec
import pytest

from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.errors import MalformedSchedule
from fireledger.domain.recurrence.second_opinion import KNOWN_DIFFERENCES, KnownDifference, compare, disagreement

USUAL = [
    "0 9 * * 1-5",
    "*/15 * * * *",
    "*/15 * * * * *",
    "30 2 1,15 * 5",
    "0 9 */2 * 1",
    "5/15 8-18/2 * jan-jun mon,wed,fri",
    "0 0 29 2 *",
    "@hourly",
    "@weekly",
    "0 0 L * *",
    "0 12 * * 1#1",
    "0 0 * * sat-sun",
]


@pytest.mark.parametrize("text", USUAL)
def test_usual_expressions_agree(text: str) -> None:
    """Nothing is said against what people usually write."""
    assert disagreement(parse_cron(text)) is None


@pytest.mark.parametrize("known", KNOWN_DIFFERENCES, ids=lambda known: known.example)
def test_each_known_difference_is_real(known: KnownDifference) -> None:
    """Every line of the table still shows a difference, is recognised, and is not reported."""
    schedule = parse_cron(known.example, known.dialect)
    assert known.applies(schedule)
    assert compare(schedule) is not None
    assert disagreement(schedule) is None


@pytest.mark.parametrize(
    "text,dialect",
    [
        ("0 0 13 ? * 1-5", "quartz"),
        ("0 0 13 ? * L", "quartz"),
        ("0 0 13 ? * FRI-MON 2026-2030", "quartz"),
        ("0 0 22-2 * * ?", "quartz"),
        ("0 15 10 ? * 6#3", "quartz"),
        ("00 015 010 ? * 03,005-7/02", "quartz"),
        ("cron(0 12 ? * 2-6 *)", "aws"),
        ("0/15 9 1,15 * ? 2027", "aws"),
    ],
)
def test_other_dialects_agree(text: str, dialect: str) -> None:
    """Written with 0 for Sunday, what other dialects say is the same to croniter."""
    schedule = parse_cron(text, dialect)
    assert not any(known.applies(schedule) for known in KNOWN_DIFFERENCES)
    assert compare(schedule) is None


def test_an_unlisted_difference_is_described() -> None:
    """A schedule whose masks say otherwise than its text is reported in one sentence."""
    forged = msgspec.structs.replace(parse_cron("0 10 * * *"), source="0 9 * * *")
    said = disagreement(forged)
    assert said is not None
    assert "2026-01-01T10:00:00 here and 2026-01-01T09:00:00 to croniter" in said


def test_random_expressions_agree() -> None:
    """Over mixed expressions, every difference is a listed one."""
    draw = random.Random(11)
    compared = 0
    for _ in range(400):
        try:
            schedule = parse_cron(_expression(draw))
        except MalformedSchedule:
            continue
        compared += not any(known.applies(schedule) for known in KNOWN_DIFFERENCES)
        assert disagreement(schedule) is None
    assert compared > 100


def _expression(draw: random.Random) -> str:
    fields = [_part(draw, 0, 59), _part(draw, 0, 23), _part(draw, 1, 31), _part(draw, 1, 12), _part(draw, 0, 6)]
    return " ".join([_part(draw, 0, 59), *fields] if draw.random() < 0.3 else fields)


def _part(draw: random.Random, low: int, high: int) -> str:
    first, last = sorted((draw.randint(low, high), draw.randint(low, high)))
    step = draw.randint(1, high - low)
    shapes = ("*", "*", "*", f"*/{step}", f"{first}", f"{first}-{last}", f"{first}-{last}/{step}", f"{first}/{step}")
    return ",".join(draw.choice(shapes) for _ in range(draw.choice((1, 1, 1, 2))))
