"""The cost of the next instant: 2,000 mixed expressions in 12 zones, beside croniter and cronsim in one run.

Run as ``make bench``. All are timed in turns on the same expressions, zones and starts, several rounds; of each
question the best round counts, so that a busy machine disturbs all alike. The other two have rules of their own for
gaps and folds; a line says how often the answers are the same.
"""

import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, croniter
from cronsim import CronSim

from fireledger.domain.definition import Definition, seal_plain
from fireledger.domain.instants import DAY, SECOND, Instant, parse_instant, to_datetime
from fireledger.domain.limits import CAP_DEFAULT, HORIZON_MAX
from fireledger.domain.owed import Timeline, count_owed, owed_runs
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.errors import MalformedSchedule
from fireledger.domain.recurrence.recurrence import Recurrence, recurrence_of
from fireledger.domain.recurrence.rules import GapRule, default_rules
from fireledger.domain.state import Adoption, Pause, State, TriggerState, segment_of
from fireledger.domain.zones import ZoneLibrary
from fireledger.runners.zone_package import load_packaged_zones

EXPRESSIONS = 2_000
SEED = 3
ROUNDS = 5
STARTS = 8
OUTAGE, OUTAGE_START = 31 * DAY, parse_instant("2026-10-01T00:00:00Z")
STEPS = 8
BLOCK = 100
SEARCH_P50_MAX_US, SEARCH_P999_MAX_US, COUNT_MAX_US = 5.0, 200.0, 100.0
ARBITRARY_TIMES_MIN, STEPPING_TIMES_MIN = 10.0, 3.0
ZONE_NAMES = [
    "Africa/Casablanca",
    "America/New_York",
    "America/Santiago",
    "America/St_Johns",
    "Asia/Gaza",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Europe/Rome",
    "Pacific/Apia",
    "UTC",
]
RARE = [
    "0 0 29 2 *",
    "0 0 31 2,4,12 *",
    "0 0 31 12 *",
    "0 0 * 2 1#5",
    "0 12 */28 2 mon",
    "30 2 * 3 0#5",
    "0 0 1 1 *",
    "0 0 */30 1,5 sun",
    "59 23 L 2 *",
    "15 4 29 2 *",
]
FIRST, LAST = parse_instant("2000-01-01T00:00:00Z"), parse_instant("2040-01-01T00:00:00Z")
PAST = parse_instant("1970-01-01T00:00:00Z")
ZONES = load_packaged_zones()


@dataclass(frozen=True, slots=True)
class Case:
    """One expression in one zone."""

    text: str
    zone: ZoneInfo
    recurrence: Recurrence


def drawn_expression(draw: random.Random) -> str:
    """An expression as people write them: from every minute to once in 28 years."""

    def some(low: int, high: int) -> str:
        return ",".join(map(str, sorted(draw.sample(range(low, high + 1), draw.randint(2, 4)))))

    def span(low: int, high: int) -> str:
        first, last = sorted(draw.sample(range(low, high + 1), 2))
        return f"{first}-{last}"

    minute, hour, day, month = draw.randrange(60), draw.randrange(24), draw.randint(1, 31), draw.randint(1, 12)
    kinds: list[tuple[int, str]] = [
        (8, f"*/{draw.choice([1, 2, 5, 10, 15, 20, 30])} * * * *"),
        (8, f"{minute} * * * *"),
        (8, f"{minute} */{draw.choice([2, 3, 4, 6, 8, 12])} * * *"),
        (20, f"{minute} {hour} * * *"),
        (10, f"{minute} {hour} * * 1-5"),
        (10, f"{minute} {hour} * * {draw.randrange(7)}"),
        (8, f"{minute} {hour} {day} * *"),
        (4, f"{minute} {hour} {some(1, 31)} * *"),
        (6, f"{some(0, 59)} {span(0, 23)} * * {span(1, 6)}"),
        (3, f"{minute} {hour} {day} * {draw.randrange(7)}"),
        (3, f"{minute} {hour} {min(day, 28)} {month} *"),
        (3, f"{minute} {hour} L * *"),
        (3, f"{minute} {hour} * * {draw.randrange(1, 7)}#{draw.randint(1, 5)}"),
        (3, f"{some(0, 59)} {some(0, 23)} {span(1, 31)} {some(1, 12)} *"),
        (3, draw.choice(RARE)),
    ]
    return draw.choices([text for _, text in kinds], [weight for weight, _ in kinds])[0]


def drawn_cases(draw: random.Random) -> list[Case]:
    """The mixed set. Expressions that can never match are drawn again, at most as often as there are any."""
    cases: list[Case] = []
    for _ in range(2 * EXPRESSIONS):
        text, name = drawn_expression(draw), draw.choice(ZONE_NAMES)
        try:
            schedule = parse_cron(text)
        except MalformedSchedule:
            continue
        cases.append(Case(text, ZoneInfo(name), recurrence_of(schedule, ZONES.zone(name), *default_rules(schedule))))
        if len(cases) == EXPRESSIONS:
            break
    return cases


def clocked(call: Callable[..., object], *arguments: object) -> float:
    """Microseconds of one call."""
    started = time.perf_counter_ns()
    call(*arguments)
    return (time.perf_counter_ns() - started) / 1_000


def quantile(values: Iterable[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def verdict(good: bool) -> str:
    """One word for a target."""
    return "met" if good else "MISSED"


def search(cases: list[Case], draw: random.Random) -> None:
    """Quantiles of a search that remembers nothing, over every expression and several starts."""
    best: list[float] = []
    steps_max = 0
    questions = [(case.recurrence, draw.randrange(FIRST, LAST)) for case in cases for _ in range(STARTS)]
    for number in range(ROUNDS):
        for index, (recurrence, start) in enumerate(questions):
            recurrence.next_after(PAST)
            cost = clocked(recurrence.next_after, start)
            if number == 0:
                best.append(cost)
                recurrence.next_after(PAST)
                steps_max = max(steps_max, recurrence.next_after_counted(start)[1])
            else:
                best[index] = min(best[index], cost)
    p50, p999 = quantile(best, 0.5), quantile(best, 0.999)
    print(f"next instant, {len(cases):,} expressions x {STARTS} arbitrary starts, best of {ROUNDS} rounds")
    print(f"  p50 {p50:7.2f} µs   (under {SEARCH_P50_MAX_US:g}: {verdict(p50 < SEARCH_P50_MAX_US)})")
    print(f"  p99 {quantile(best, 0.99):7.2f} µs")
    print(f"  p99.9 {p999:5.2f} µs   (under {SEARCH_P999_MAX_US:g}: {verdict(p999 < SEARCH_P999_MAX_US)})")
    print(f"  max {max(best):7.2f} µs   most steps of one search: {steps_max}")


Timed: TypeAlias = Callable[[Sequence["Question"]], list[float]]
"""Microseconds for each of some questions, by one engine."""


@dataclass(frozen=True, slots=True)
class Question:
    """A case from an instant, which the peers take as a local time with a zone."""

    case: Case
    start: Instant
    moment: datetime


def our_search(questions: Sequence[Question]) -> list[float]:
    """Our next instant, nothing remembered."""
    costs: list[float] = []
    for one in questions:
        one.case.recurrence.next_after(PAST)
        next_after, start = one.case.recurrence.next_after, one.start
        started = time.perf_counter_ns()
        next_after(start)
        costs.append((time.perf_counter_ns() - started) / 1_000)
    return costs


def croniter_search(questions: Sequence[Question]) -> list[float]:
    """The next instant by croniter from a start it has not seen; made and parsed before."""
    costs: list[float] = []
    for one in questions:
        search = croniter(one.case.text, one.moment)
        costs.append(clocked(taken, partial(search.get_next, datetime), 1))
    return costs


def croniter_whole(questions: Sequence[Question]) -> list[float]:
    """The same with its parsing."""
    return [clocked(taken, partial(croniter_next, one.case, one.moment), 1) for one in questions]


def cronsim_search(questions: Sequence[Question]) -> list[float]:
    """The next instant by cronsim; made and parsed before, though it has no other way to start elsewhere."""
    costs: list[float] = []
    for one in questions:
        search = CronSim(one.case.text, one.moment)
        costs.append(clocked(taken, partial(next, search), 1))
    return costs


def cronsim_whole(questions: Sequence[Question]) -> list[float]:
    """The same with its parsing, which every new start needs."""
    return [clocked(taken, partial(cronsim_next, one.case, one.moment), 1) for one in questions]


def our_stepping(questions: Sequence[Question]) -> list[float]:
    """Per result: each next instant asked from the last."""
    costs: list[float] = []
    for one in questions:
        one.case.recurrence.next_after(PAST)
        next_after, instant = one.case.recurrence.next_after, one.start
        started = time.perf_counter_ns()
        for _ in range(STEPS):
            found = next_after(instant)
            if found is None:
                break
            instant = found
        costs.append((time.perf_counter_ns() - started) / 1_000 / STEPS)
    return costs


def our_bulk(questions: Sequence[Question]) -> list[float]:
    """Per result: all at once."""
    return [clocked(one.case.recurrence.next_many, one.start, STEPS) / STEPS for one in questions]


def croniter_stepping(questions: Sequence[Question]) -> list[float]:
    """Per result, stepping on."""
    costs: list[float] = []
    for one in questions:
        search = croniter(one.case.text, one.moment)
        costs.append(clocked(taken, partial(search.get_next, datetime), STEPS) / STEPS)
    return costs


def cronsim_stepping(questions: Sequence[Question]) -> list[float]:
    """Per result, stepping on."""
    costs: list[float] = []
    for one in questions:
        search = CronSim(one.case.text, one.moment)
        costs.append(clocked(taken, partial(next, search), STEPS) / STEPS)
    return costs


def croniter_next(case: Case, moment: datetime) -> datetime:
    """Parse and search."""
    return croniter(case.text, moment).get_next(datetime)


def cronsim_next(case: Case, moment: datetime) -> datetime:
    """Parse and search."""
    return next(CronSim(case.text, moment))


def taken(take: Callable[[], object], count: int) -> int:
    """Take up to ``count`` results; how many there were."""
    for number in range(count):
        try:
            take()
        except (CroniterBadDateError, StopIteration):
            return number
    return count


def medians(questions: Sequence[Question], engines: Sequence[Timed]) -> list[float]:
    """For each engine, the median over the questions of the best round; in turns, a block of questions each."""
    best = [[float("inf")] * len(questions) for _ in engines]
    for _ in range(ROUNDS):
        for first in range(0, len(questions), BLOCK):
            block = questions[first : first + BLOCK]
            for costs, engine in zip(best, engines, strict=True):
                costs[first : first + BLOCK] = map(min, costs[first : first + BLOCK], engine(block))
    return [statistics.median(costs) for costs in best]


def peers(cases: list[Case]) -> None:
    """All comparisons, as one table."""
    draw = random.Random(SEED)
    starts = [Instant(draw.randrange(FIRST, LAST)) for _ in cases]
    questions = [
        Question(case, start, to_datetime(start).astimezone(case.zone))
        for case, start in zip(cases, starts, strict=True)
    ]
    rows: list[tuple[str, float | None, tuple[Timed, Timed, Timed]]] = [
        ("arbitrary start", ARBITRARY_TIMES_MIN, (our_search, croniter_whole, cronsim_whole)),
        ("the same, their parsing left out", None, (our_search, croniter_search, cronsim_search)),
        ("stepping on, one by one", STEPPING_TIMES_MIN, (our_stepping, croniter_stepping, cronsim_stepping)),
        (f"stepping on, next_many of {STEPS}", STEPPING_TIMES_MIN, (our_bulk, croniter_stepping, cronsim_stepping)),
    ]
    print(f"medians in µs over {len(cases):,} expressions, best of {ROUNDS} rounds in turns of {BLOCK}")
    print(f"  {'':34} {'ours':>8} {'croniter':>9} {'cronsim':>9} {'croniter':>10} {'cronsim':>9}")
    for title, at_least, engines in rows:
        ours, first, second = medians(questions, engines)
        target = "" if at_least is None else f"at least {at_least:g}x: {verdict(min(first, second) >= at_least * ours)}"
        print(
            f"  {title:34} {ours:8.2f} {first:9.2f} {second:9.2f} {first / ours:9.1f}x {second / ours:8.1f}x   {target}"
        )


def agreement(cases: list[Case]) -> None:
    """How often the next instant of all is the same."""
    draw = random.Random(SEED)
    same_first = same_second = 0
    for case in cases:
        start = Instant(draw.randrange(FIRST, LAST) // SECOND * SECOND)
        moment = to_datetime(start).astimezone(case.zone)
        found = case.recurrence.next_after(start)
        ours = None if found is None else to_datetime(found)
        same_first += ours == their_next(partial(croniter_next, case, moment))
        same_second += ours == their_next(partial(cronsim_next, case, moment))
    print(f"same next instant: croniter {same_first:,}, cronsim {same_second:,} of {len(cases):,}")


def their_next(take: Callable[[], datetime]) -> datetime | None:
    """A peer's answer; None when it gives up."""
    try:
        return take()
    except (CroniterBadDateError, StopIteration):
        return None


def counting() -> None:
    """Counts over a month and a year with a change of offset in them, and results one by one."""
    print("count and results one by one, best of many")
    samples: list[tuple[str, str, GapRule | None, timedelta]] = [
        ("* * * * *", "Europe/Rome", None, timedelta(days=31)),
        ("* * * * *", "Europe/Rome", "shift", timedelta(days=31)),
        ("* * * * *", "Europe/Rome", "next-valid", timedelta(days=31)),
        ("* * * * *", "Europe/Rome", "shift", timedelta(days=366)),
        ("* * * * * *", "Australia/Lord_Howe", "shift", timedelta(days=366)),
        ("* * * * * *", "Pacific/Apia", "shift", timedelta(days=31)),
        ("*/7 3-9 * * 1-5", "America/New_York", "shift", timedelta(days=366)),
    ]
    for text, name, gap, span in samples:
        schedule = parse_cron(text)
        default_gap, fold = default_rules(schedule)
        recurrence = recurrence_of(schedule, ZONES.zone(name), gap or default_gap, fold)
        after = parse_instant("2011-12-15T00:00:00Z" if name == "Pacific/Apia" else "2026-03-15T00:00:00Z")
        until = after + span.days * DAY
        count = recurrence.count(after, until)
        cost = min(clocked(recurrence.count, after, until) for _ in range(50))
        many = min(clocked(recurrence.next_many, after, 1_000) for _ in range(9)) / 1_000
        print(
            f"  {text:16} {name:20} {gap or default_gap:11} {span.days:4} days: {count:10,} in {cost:6.1f} µs"
            f" (under {COUNT_MAX_US:g}: {verdict(cost < COUNT_MAX_US)}); next_many of 1,000: {many:.2f} µs each"
        )


def outage() -> None:
    """What is owed after a month in which nothing was decided, and how many: jitter of a day, of what may fire 25."""
    print(f"owed after {OUTAGE // DAY} days without a decision, jitter 24h, horizon 24h, best of {ROUNDS}")
    for text in ("* * * * *", "* * * * * *"):
        timeline = outage_timeline(text)
        now = OUTAGE_START + OUTAGE
        paused = (Pause(OUTAGE_START + DAY, now, "policy", "paused"),)
        runs, with_pause, counted = (
            min(clocked(owed, *arguments) for _ in range(ROUNDS)) / 1_000
            for owed, arguments in (
                (partial(owed_runs, keep=CAP_DEFAULT), (timeline, (), HORIZON_MAX, now)),
                (partial(owed_runs, keep=CAP_DEFAULT), (timeline, paused, HORIZON_MAX, now)),
                (count_owed, (timeline, now)),
            )
        )
        print(
            f"  {text:12} {count_owed(timeline, now):>10,} instants: judged in {runs:.2f} ms, "
            f"at the end of a pause {with_pause:.2f} ms, counted in {counted:.2f} ms"
        )


def outage_timeline(text: str) -> Timeline:
    """A trigger that was created when the outage began."""
    schedule = parse_cron(text)
    gap, fold = default_rules(schedule)
    definition = Definition(
        schedule=schedule, zone="Europe/Rome", gap=gap, fold=fold, target="nats:x", payload=seal_plain(b""), jitter=DAY
    )
    segment = segment_of(definition, OUTAGE_START, ZONES.sha256)
    trigger = TriggerState(name="t", definition=definition, definition_page=2, segments=(segment,))
    state = State(tenant="bench", adoptions=(Adoption(0, ZONES.sha256),), triggers={"t": trigger})
    return Timeline(state, trigger, segment, ZoneLibrary(ZONES))


def main() -> None:
    """Measure and print."""
    draw = random.Random(SEED)
    cases = drawn_cases(draw)
    print(
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} processors, tzdata {ZONES.version}"
    )
    search(cases, draw)
    peers(cases)
    agreement(cases)
    counting()
    outage()


if __name__ == "__main__":
    main()
