"""The words of an explanation against the engine's verdict, for any schedule, zone, rules and instant."""

import re

from hypothesis import given
from hypothesis import strategies as st

from fireledger.domain.instants import SECOND, parse_instant
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.explain import explain
from fireledger.domain.recurrence.recurrence import recurrence_of
from fireledger.domain.recurrence.rules import FOLD_RULES, GAP_RULES, FoldRule, GapRule
from fireledger.domain.recurrence.schedule import CronSchedule, Schedule
from fireledger.domain.zones import Transition, ZoneRules
from tests.property.test_recurrence_properties import INSTANTS, SCHEDULES, ZONE_RULES, ZONES

RULES = st.tuples(st.sampled_from(GAP_RULES), st.sampled_from(FOLD_RULES))
ALTERNATIVE = re.compile(r'"([a-z-]+)"(?: \(in force\))? gives ((?:\S+Z(?: and )?)+)')
CHANGES = st.sampled_from(
    [
        (zone, change)
        for zone in map(ZONES.zone, ("Europe/Rome", "Australia/Lord_Howe", "Europe/Dublin", "Africa/Casablanca"))
        for change in zone.transitions(0, 1 << 32)
    ]
)


@given(SCHEDULES, ZONE_RULES, RULES, INSTANTS, st.integers(0, 2))
def test_the_words_agree_with_the_engine(
    schedule: Schedule | None, zone: ZoneRules, rules: tuple[GapRule, FoldRule], instant: int, place: int
) -> None:
    """Due without a clock change means that every deciding field fits; not due always has a cause that holds."""
    assert schedule is not None
    recurrence = recurrence_of(schedule, zone, *rules)
    nearest = (instant // SECOND * SECOND, recurrence.next_after(instant), recurrence.previous_before(instant))[place]
    instant = instant if nearest is None else nearest
    found = explain(schedule, zone, *rules, instant)
    assert found.matches == (recurrence.next_after(instant - 1) == instant)
    fits = _fits(schedule, {check.name: check.ok for check in found.fields})
    if found.clock_change is None:
        assert found.matches == fits
    elif found.matches and not fits:
        assert "moves it here" in found.summary
    elif fits and not found.matches:
        assert "leaves out" in found.summary
    assert found.lines()


def _fits(schedule: Schedule, fields: dict[str, bool]) -> bool:
    """Whether the fields together name the local time."""
    if isinstance(schedule, CronSchedule) and schedule.day_rule == "or":
        either = fields.pop("day of month") or fields.pop("day of week")
        fields.pop("day of week", None)
        return either and all(fields.values())
    return all(fields.values())


@given(CHANGES, st.integers(-1, 2 * 60), RULES)
def test_what_the_other_rules_would_give_is_what_they_give(
    changed: tuple[ZoneRules, Transition], minutes: int, rules: tuple[GapRule, FoldRule]
) -> None:
    """Around a change of the clock, every instant that a rule is said to give is due under that rule."""
    zone, change = changed
    at_s = change.at_s + min(change.after_s, change.before_s) + minutes * 60
    minute, hour = at_s // 60 % 60, at_s // 3_600 % 24
    schedule = parse_cron(f"{minute} {hour} * * *")
    instant = (change.at_s + minutes * 60) * SECOND
    words = explain(schedule, zone, *rules, instant).clock_change or ""
    for rule, texts in ALTERNATIVE.findall(words):
        gap = rule if rule in GAP_RULES else rules[0]
        fold = rule if rule in FOLD_RULES else rules[1]
        for text in texts.split(" and "):
            given_at = parse_instant(text.strip().removesuffix(","))
            assert recurrence_of(schedule, zone, gap, fold).next_after(given_at - 1) == given_at, words
