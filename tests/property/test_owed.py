"""What is owed, counted in stretches, against a walk through every instant; and what the counting costs."""

from dataclasses import dataclass
from time import process_time
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fireledger.domain.definition import Definition, TenantSettings
from fireledger.domain.instants import DAY, HOUR, MINUTE, SECOND, parse_instant
from fireledger.domain.limits import CAP_MAX, HORIZON_MAX
from fireledger.domain.owed import Owed, Run, Timeline, count_owed, owed_runs
from fireledger.domain.state import Pause
from tests.unit.domain.given import Given, changed, create, cron, every

START = "2026-10-24T20:00:00Z"
START_AT: int = parse_instant(START)
KEEP = 3


@dataclass(frozen=True)
class Case:
    """A timeline, and when and how it is looked at."""

    timeline: Timeline
    pauses: tuple[Pause, ...]
    horizon: int
    now: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Dense and sparse schedules around Rome's autumn, with jitter far wider than their gaps, and pauses."""
    texts = ["* * * * *", "*/7 * * * *", "0,1 * * * *", "0-9 */6 * * *", "30 2 * * *", "*/40 * 8 * * *"]
    definition = cron(draw(st.sampled_from(texts)), draw(st.sampled_from(["UTC", "Europe/Rome"])))
    if draw(st.integers(0, 4)) == 0:
        definition = every(draw(st.sampled_from(["30s", "11m"])), START)
    definition = changed(
        definition,
        jitter=draw(st.sampled_from([None, 0, 50 * SECOND, HOUR, DAY])),
        tolerance=draw(st.sampled_from([None, 0, HOUR])),
        excluded=draw(st.sampled_from([(), ((START_AT // DAY) + 1,)])),
    )
    now = START_AT + draw(st.integers(0, 3 * HOUR)) + draw(st.integers(0, 14)) * HOUR
    pauses: list[Pause] = []
    at: int = START_AT
    for _ in range(draw(st.integers(0, 3))):
        at += draw(st.integers(1, 3 * HOUR))
        end = at + draw(st.integers(1, 4 * HOUR))
        if end > now:
            break
        pauses.append(
            Pause(
                at,
                end,
                draw(st.sampled_from(["policy", "policy", "skip"])),
                draw(st.sampled_from(["paused", "paused", "quarantined", "suspended"])),
            )
        )
        at = end
    horizon = draw(st.sampled_from([0, 10 * MINUTE, 2 * HOUR, int(HORIZON_MAX)]))
    return Case(timeline_of(definition, draw(st.sampled_from([0, 2 * HOUR]))), tuple(pauses), horizon, now)


def timeline_of(definition: Definition, default_jitter: int) -> Timeline:
    """The timeline of a trigger that was never decided."""
    book = Given(create(definition), start=START, settings=TenantSettings(default_jitter=default_jitter))
    return Timeline(book.state, book.trigger(), book.trigger().segments[-1], book.zones)


def walked(case: Case) -> list[tuple[str, Owed]]:
    """Every owed instant with its judgement, one by one."""
    found: list[tuple[str, Owed]] = []
    scheduled = case.timeline.next_undecided()
    while scheduled is not None and scheduled <= case.now:
        owed = case.timeline.owed(scheduled)
        if owed.release <= case.now:
            found.append((judged(case, owed), owed))
        scheduled = case.timeline.next_undecided(scheduled)
    return found


def judged(case: Case, owed: Owed) -> str:
    """The rules for one instant, written out once more."""
    around = [p for p in case.pauses if p.end is not None and p.start < owed.release <= p.end]
    for pause in around:
        if pause.cause == "quarantined":
            return "skip-quarantined"
    for pause in around:
        if pause.cause == "suspended":
            return "skip-suspended"
    for pause in around:
        if pause.on_resume == "skip":
            return "skip-paused"
    if owed.release + case.horizon < case.now:
        return "expired"
    if around:
        return "missed-paused"
    return "missed" if owed.release + owed.tolerance < case.now else "on-time"


def spread(runs: list[Run], walk: list[tuple[str, Owed]]) -> list[tuple[str, Owed]]:
    """The runs laid out over the instants of the walk; checks their ends, their counts and what they list."""
    laid: list[tuple[str, Owed]] = []
    for run in runs:
        part = [owed for _, owed in walk[len(laid) : len(laid) + run.count]]
        assert (part[0].scheduled, part[-1].scheduled, len(part)) == (run.first, run.last, run.count)
        if run.judgement in ("on-time", "missed", "missed-paused"):
            assert list(run.listed) == part[len(part) - len(run.listed) :]
            assert len(run.listed) == run.count or run.judgement != "on-time"
        laid += [(run.judgement, owed) for owed in part]
    return laid


@given(cases())
@settings(max_examples=200)
def test_runs_are_the_walk(case: Case) -> None:
    """Counted and listed, what is owed is what a walk through every instant finds, judgement by judgement."""
    walk = walked(case)
    runs = owed_runs(case.timeline, case.pauses, case.horizon, case.now, keep=KEEP)
    assert spread(runs, walk) == walk
    assert count_owed(case.timeline, case.now) == len(walk)
    may_fire = [owed for judgement, owed in walk if judgement in ("missed", "missed-paused")]
    listed = [owed for run in runs if run.judgement in ("missed", "missed-paused") for owed in run.listed]
    assert listed[-KEEP:] == may_fire[-KEEP:]


@given(cases())
@settings(max_examples=100)
def test_clear_instants_are_released(case: Case) -> None:
    """All but the last instant up to a border are clear of it, and each clear one is released by then."""
    clear = case.timeline.clear_until(case.now)
    left = 0
    scheduled = case.timeline.next_undecided()
    while scheduled is not None and scheduled <= case.now:
        left += scheduled > clear
        assert scheduled > clear or case.timeline.release(scheduled) <= case.now
        scheduled = case.timeline.next_undecided(scheduled)
    assert left <= 1


@pytest.mark.parametrize("text", ["* * * * *", "* * * * * *", "0-29 8-17 * * *"])
@pytest.mark.parametrize("cause", [None, "paused", "suspended"])
def test_a_month_of_outage_costs_milliseconds(text: str, cause: Literal["paused", "suspended"] | None) -> None:
    """However dense the schedule, wide its jitter and long the pause, what is owed is counted, not walked through."""
    timeline = timeline_of(cron(text, "Europe/Rome", jitter=int(DAY)), 0)
    now = START_AT + 31 * DAY
    pauses = () if cause is None else (Pause(START_AT + 3 * DAY, now - 1, "policy", cause),)
    begun = process_time()
    runs = owed_runs(timeline, pauses, int(HORIZON_MAX), now, keep=CAP_MAX)
    counted = count_owed(timeline, now)
    assert process_time() - begun < 0.1
    assert sum(run.count for run in runs) == counted
    assert counted >= 31 * 300
