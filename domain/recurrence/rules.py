"""The declared rules for local times that do not exist or happen twice."""

from typing import Literal, TypeAlias

from .schedule import CronSchedule, IntervalSchedule, RuleSchedule, Schedule

GapRule: TypeAlias = Literal["shift", "skip", "next-valid"]
"""A local time inside a gap: moved forward by the gap's length, left out, or moved to the gap's end."""
FoldRule: TypeAlias = Literal["first", "second", "both"]
"""A local time that happens twice: which passes count."""

GAP_RULES: tuple[GapRule, ...] = ("shift", "skip", "next-valid")
FOLD_RULES: tuple[FoldRule, ...] = ("first", "second", "both")


def default_rules(schedule: Schedule) -> tuple[GapRule, FoldRule]:
    """The rules that hold when none is declared.

    Interval-like schedules skip gaps and run in both passes of a fold; fixed-time ones shift and run
    once, at the first. Intervals are real elapsed time, so their rules change nothing.
    """
    match schedule:
        case CronSchedule(interval_like=True) | RuleSchedule(interval_like=True) | IntervalSchedule():
            return "skip", "both"
        case _:
            return "shift", "first"
