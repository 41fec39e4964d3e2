"""The public-report cases of tests/cases/recurrence.jsonl, with the answers under other rules in their notes."""

import re
from pathlib import Path

import msgspec
import pytest

from fireledger.domain.instants import format_instant, parse_instant
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.errors import MalformedSchedule
from fireledger.domain.recurrence.interval_text import parse_interval
from fireledger.domain.recurrence.recurrence import recurrence_of
from fireledger.domain.recurrence.rules import FoldRule, GapRule, default_rules
from fireledger.domain.recurrence.schedule import Schedule
from fireledger.domain.recurrence.schedule_text import parse_schedule
from fireledger.runners.zone_package import load_packaged_zones

ZONES = load_packaged_zones()
DIALECTS = {
    "unix5": "unix",
    "unix6-seconds-first": "unix",
    "unix5+LW#": "unix",
    "quartz": "quartz",
    "aws": "aws",
    "aws-eventbridge": "aws",
}
"""What the file calls the dialects that are read, and what they are declared as."""
OURS = frozenset(DIALECTS)
OTHER_ANSWER = re.compile(r"Other policy: ([^:]*): ((?:[0-9T:Z-]{20}(?:, )?)+)", re.ASCII)


class Case(msgspec.Struct, frozen=True):
    """A line of the file."""

    id: str
    source: str
    expr: str
    dialect: str
    zone: str
    start_utc: str
    tzdata_sensitive: bool
    why: str
    note: str
    expect: list[str] | None = None
    error: bool = False


def cases() -> list[Case]:
    """Every case of the file."""
    path = Path(__file__).parents[2] / "cases" / "recurrence.jsonl"
    return [msgspec.json.decode(line, type=Case) for line in path.read_bytes().splitlines()]


CASES = cases()
ANSWERED = [case for case in CASES if case.dialect in OURS and case.expect is not None]
REFUSED = [case for case in CASES if case.dialect in OURS and case.error]
INTERVALS = [case for case in CASES if case.dialect == "robfig-every"]
WRAPPED = [case for case in CASES if case.dialect == "unix5-wraparound"]
FOREIGN = [case for case in CASES if case.dialect not in {*OURS, "robfig-every", "unix5-wraparound"}]
OTHERWISE = [(case, *found) for case in ANSWERED for found in OTHER_ANSWER.findall(case.note)]


def name_of(value: object) -> str:
    """A case's number in a test's name."""
    return value.id if isinstance(value, Case) else ""


def answers(case: Case, schedule: Schedule, gap: GapRule, fold: FoldRule, count: int) -> list[str]:
    """The next instants strictly after the case's start."""
    recurrence = recurrence_of(schedule, ZONES.zone(case.zone), gap, fold)
    found: list[str] = []
    instant = recurrence.next_after(parse_instant(case.start_utc))
    while instant is not None and len(found) < count:
        found.append(format_instant(instant))
        instant = recurrence.next_after(instant)
    return found


def rules_named(policy: str, gap: GapRule, fold: FoldRule) -> tuple[GapRule, FoldRule]:
    """The declared rules that a note's wording means, beside the defaults."""
    if policy.startswith("both passes"):
        return gap, "both"
    if policy.startswith("gap run at the first minute"):
        return "next-valid", fold
    if policy.startswith("gap skipped"):
        return "skip", fold
    assert "treated as fixed-time" in policy
    return "shift", "first"


def test_the_file_is_read_whole() -> None:
    """Every case is in one of the groups below, and notes give other answers for many."""
    assert len(CASES) == len(ANSWERED) + len(REFUSED) + len(INTERVALS) + len(WRAPPED) + len(FOREIGN)
    assert len(CASES) > 100
    assert len(OTHERWISE) > 25


@pytest.mark.parametrize("case", ANSWERED, ids=name_of)
def test_case_gives_its_instants(case: Case) -> None:
    """Under the default rules the case's instants come out; one with fewer than the rest has no more."""
    schedule = parse_schedule(case.expr, DIALECTS[case.dialect])
    assert case.expect is not None
    complete = not case.expect or "Complete list" in case.note
    assert answers(case, schedule, *default_rules(schedule), len(case.expect) + complete) == case.expect


@pytest.mark.parametrize("case,policy,listed", OTHERWISE, ids=name_of)
def test_case_gives_its_other_answer(case: Case, policy: str, listed: str) -> None:
    """Under the declared rule that the note names, the note's instants come out."""
    schedule = parse_schedule(case.expr, DIALECTS[case.dialect])
    wanted = re.findall(r"[0-9T:-]{19}Z", listed)
    assert answers(case, schedule, *rules_named(policy, *default_rules(schedule)), len(wanted)) == wanted


@pytest.mark.parametrize("case", REFUSED, ids=name_of)
def test_case_is_refused(case: Case) -> None:
    """The case's text is refused with a position and a hint."""
    with pytest.raises(MalformedSchedule) as caught:
        parse_schedule(case.expr, DIALECTS[case.dialect])
    assert caught.value.position is not None
    assert caught.value.hint


@pytest.mark.parametrize("case", WRAPPED, ids=name_of)
def test_wrapped_range_is_refused_with_what_to_write(case: Case) -> None:
    """A range written backwards is refused, and what the hint says to write gives the case's instants."""
    with pytest.raises(MalformedSchedule, match="runs backwards") as caught:
        parse_cron(case.expr)
    mended = case.expr.replace(caught.value.token, caught.value.hint.removeprefix("write "))
    schedule = parse_cron(mended)
    assert case.expect is not None
    assert answers(case, schedule, *default_rules(schedule), len(case.expect)) == case.expect


@pytest.mark.parametrize("case", INTERVALS, ids=name_of)
def test_interval_case(case: Case) -> None:
    """Intervals anchored at the start give the case's instants, or are refused."""
    if case.error:
        with pytest.raises(MalformedSchedule):
            parse_interval(case.expr, parse_instant(case.start_utc))
        return
    assert case.expect is not None
    schedule = parse_interval(case.expr, parse_instant(case.start_utc))
    assert answers(case, schedule, "skip", "both", len(case.expect)) == case.expect


@pytest.mark.parametrize("case", FOREIGN, ids=name_of)
def test_foreign_dialect_is_refused(case: Case) -> None:
    """A dialect that is not read is refused by name, never read wrongly."""
    with pytest.raises(MalformedSchedule) as caught:
        parse_schedule(case.expr, case.dialect)
    assert f'"{case.dialect}"' in caught.value.message
    assert "use unix" in caught.value.hint
