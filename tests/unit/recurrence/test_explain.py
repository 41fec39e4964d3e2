"""Why a schedule is due at an instant: fields, day rules, gaps, folds, exclusions, intervals and one-offs."""

import pytest

from fireledger.domain.instants import MalformedInstant, parse_instant
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.excluded_text import parse_excluded_dates
from fireledger.domain.recurrence.explain import Explanation, explain
from fireledger.domain.recurrence.interval_text import parse_interval, parse_one_off
from fireledger.domain.recurrence.rule_text import parse_rule
from fireledger.domain.recurrence.rules import FoldRule, GapRule, default_rules
from fireledger.domain.recurrence.schedule import Schedule
from fireledger.runners.zone_package import load_packaged_zones

ZONES = load_packaged_zones()


def why(
    schedule: str | Schedule, at: str, *, gap: GapRule | None = None, fold: FoldRule | None = None, out: str = ""
) -> Explanation:
    """Explain in Rome; ``out`` is an excluded date."""
    compiled = parse_cron(schedule) if isinstance(schedule, str) else schedule
    default_gap, default_fold = default_rules(compiled)
    return explain(
        compiled,
        ZONES.zone("Europe/Rome"),
        gap or default_gap,
        fold or default_fold,
        parse_instant(at),
        excluded=parse_excluded_dates([out] if out else []),
    )


def checked(explanation: Explanation) -> dict[str, tuple[str, str, bool]]:
    """The fields by name."""
    return {check.name: (check.value, check.allowed, check.ok) for check in explanation.fields}


def test_each_field_is_told_in_words() -> None:
    """Name, value, what is allowed, and whether it fits; the summary names the ones that do not."""
    found = why("*/15 9-17 * * mon-fri", "2026-11-30T08:10:00Z")
    assert checked(found) == {
        "second": ("0", "0", True),
        "minute": ("10", "0, 15, 30, 45", False),
        "hour": ("9", "9 to 17", True),
        "day of month": ("30", "any", True),
        "month": ("November", "any", True),
        "day of week": ("Monday", "Monday to Friday", True),
    }
    assert not found.matches
    assert found.local == "2026-11-30T09:10:00+01:00"
    assert found.summary == (
        "2026-11-30T08:10:00Z is Monday 2026-11-30 09:10:00 in Europe/Rome: "
        "not due, the minute is 10 and must be 0, 15, 30, 45"
    )
    assert (found.previous, found.next) == (
        parse_instant("2026-11-30T08:00:00Z"),
        parse_instant("2026-11-30T08:15:00Z"),
    )
    assert any(line.startswith("  no  minute") for line in found.lines())
    assert why("*/15 9-17 * * mon-fri", "2026-11-30T08:15:00Z").summary.endswith(": due, every field matches")


def test_two_fields_of_days_are_joined_as_declared() -> None:
    """Both restricted: either is enough. One that begins with *: both must match."""
    either = why("0 9 13 * fri", "2026-11-27T08:00:00Z")
    assert either.matches
    assert either.day_rule is not None
    assert checked(either)["day of month"][2] is False
    assert either.summary.endswith("every field matches")
    assert why("5 9 13 * fri", "2026-11-26T08:00:00Z").summary.endswith(
        "the minute is 0 and must be 5, and the day of month is 26 and must be 13, "
        "or else the day of week is Thursday and must be Friday"
    )
    both = why("0 9 */2 * fri", "2026-11-20T08:00:00Z")
    assert not both.matches
    assert both.summary.endswith(
        "the day of month is 20 and must be 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31"
    )
    assert why("0 9 * * fri", "2026-11-20T08:00:00Z").day_rule is None


def test_special_days_have_words() -> None:
    """Last days, nearest weekdays and n-th weekdays."""
    assert checked(why("0 9 L * *", "2026-11-30T08:00:00Z"))["day of month"] == ("30", "the last day", True)
    assert checked(why("0 9 15W * *", "2026-11-16T08:00:00Z"))["day of month"] == (
        "16", "the weekday nearest to 15", True,
    )  # fmt: skip
    assert checked(why("0 9 * * 5#2", "2026-11-13T08:00:00Z"))["day of week"] == (
        "Friday", "Friday number 2 of the month", True,
    )  # fmt: skip
    assert checked(why("0 9 * * 5L", "2026-11-27T08:00:00Z"))["day of week"] == ("Friday", "the last Friday", True)


@pytest.mark.parametrize(
    "gap, at, matches, reason",
    [
        ("shift", "2026-03-29T01:30:00Z", True, '"shift" moves it here'),
        ("skip", "2026-03-29T01:30:00Z", False, '"skip" leaves it out'),
        ("next-valid", "2026-03-29T01:30:00Z", False, '"next-valid" moves it elsewhere'),
        ("shift", "2026-03-29T01:00:00Z", False, '"shift" moves it elsewhere'),
        ("next-valid", "2026-03-29T01:00:00Z", True, '"next-valid" moves it here'),
    ],
)
def test_a_gap_tells_every_rule(gap: GapRule, at: str, matches: bool, reason: str) -> None:
    """Which rule applied, and what each of the others would have given."""
    found = why("30 2 * * *", at, gap=gap)
    assert found.matches is matches
    assert found.clock_change == (
        "the clock in Europe/Rome went forward by 1h from 2026-03-29 02:00:00 to 2026-03-29 03:00:00, "
        "so 2026-03-29 02:30:00 does not exist; gap rules: "
        + ", ".join(
            f'"{rule}"{" (in force)" if rule == gap else ""} gives {given}'
            for rule, given in (
                ("shift", "2026-03-29T01:30:00Z"), ("skip", "nothing"), ("next-valid", "2026-03-29T01:00:00Z"),
            )
        )
    )  # fmt: skip
    assert found.summary.endswith(reason)


@pytest.mark.parametrize("fold, matches", [("first", (True, False)), ("second", (False, True)), ("both", (True, True))])
def test_a_fold_tells_every_rule(fold: FoldRule, matches: tuple[bool, bool]) -> None:
    """Both passes, the rule in force and what the others would have given."""
    first, second = (why("30 2 * * *", f"2026-10-25T0{hour}:30:00Z", fold=fold) for hour in (0, 1))
    assert (first.matches, second.matches) == matches
    assert first.clock_change is not None
    assert "this is the first pass" in first.clock_change
    assert f'"{fold}" (in force) gives' in first.clock_change
    assert '"both"' in first.clock_change
    assert "the second pass" in second.summary


def test_a_change_that_is_no_matter_is_told_and_decides_nothing() -> None:
    """In a repeated hour that the schedule does not name, the fields decide."""
    found = why("30 4 * * *", "2026-10-25T00:30:00Z")
    assert found.clock_change is not None
    assert found.clock_change.endswith("the schedule does not name it")
    assert found.summary.endswith("the hour is 2 and must be 4")


def test_an_excluded_date_is_the_reason() -> None:
    """The fields match and the date is out; the next instant is on another date."""
    found = why("0 9 * * *", "2026-12-25T08:00:00Z", out="2026-12-25")
    assert (found.matches, found.excluded) == (False, True)
    assert all(check.ok for check in found.fields)
    assert found.summary.endswith("its local date 2026-12-25 is excluded")
    assert (found.previous, found.next) == (
        parse_instant("2026-12-24T08:00:00Z"),
        parse_instant("2026-12-26T08:00:00Z"),
    )
    assert "the local date 2026-12-25 is excluded" in found.lines()


def test_an_interval_tells_periods_and_remainder() -> None:
    """The anchor, how many whole periods lie between, and what is left over; before the anchor too."""
    schedule = parse_interval("90m", parse_instant("2026-01-01T00:00:00Z"))
    off = why(schedule, "2026-01-01T05:00:00Z")
    assert checked(off)["whole periods"] == ("3", "any number of 1h30m", True)
    assert off.summary.endswith("the remainder is 30m and must be 0s")
    before = why(schedule, "2025-12-31T22:30:00Z")
    assert (before.matches, checked(before)["whole periods"][0]) == (True, "-1")


def test_a_one_off_tells_its_local_time() -> None:
    """The local time, also where a gap moved it."""
    schedule = parse_one_off("2026-03-29T02:30")
    assert why(schedule, "2026-03-29T01:30:00Z").matches
    assert why(schedule, "2026-03-29T02:30:00Z").summary.endswith(
        "the local time is 2026-03-29 04:30:00 and must be 2026-03-29 02:30:00"
    )


def test_a_fraction_and_a_far_year_are_told() -> None:
    """Cron names whole seconds; outside the years that schedules know nothing is explained."""
    assert checked(why("* * * * *", "2026-11-30T08:00:00.250000Z"))["fraction of a second"] == ("250ms", "none", False)
    with pytest.raises(MalformedInstant, match="outside the years"):
        why("* * * * *", "2300-01-01T00:00:00Z")


def test_a_rule_tells_the_parts_that_restrict() -> None:
    """Its start, times of day and days; where they all fit, the interval or the positions are the reason."""
    rule = parse_rule("DTSTART:20261102T090000\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO")
    due = why(rule, "2026-11-16T08:00:00Z")
    assert due.matches
    assert checked(due)["day of week"] == ("Monday", "Monday", True)
    assert why(rule, "2026-11-23T08:00:00Z").summary.endswith(
        "not due, every field matches, and the rule's interval or positions leave it out"
    )
    assert why(rule, "2026-11-17T08:00:00Z").summary.endswith("the day of week is Tuesday and must be Monday")
    assert checked(why(rule, "2026-10-26T08:00:00Z"))["start"][2] is False
