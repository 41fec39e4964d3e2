"""What another database would change, held against every local time looked at by itself."""

from hypothesis import given
from hypothesis import strategies as st

from fireledger.domain.instants import SECOND, Instant
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.rezone import Rules
from fireledger.domain.zone_changes import ChangedInstant, Changes, Zoned, changes_between
from fireledger.domain.zones import ZoneRules
from tests.property.test_adoption import DAYS, START_S, Plan, plans
from tests.zone_data import MadeZone

AFTER_S = START_S
UNTIL_S = START_S + (DAYS + 1) * 86_400


def found_by_the_engine(plan: Plan, text: str, excluded: tuple[int, ...], limit: int) -> Changes:
    """What the engine says."""
    old, new = (ZoneRules("made", zone.tzif()) for zone in plan.zones[:2])
    zoned = Zoned(Rules(parse_cron(text), plan.gap, plan.fold), excluded)
    return changes_between(zoned, old, new, after=AFTER_S * SECOND, until=UNTIL_S * SECOND, limit=limit)


def _kept(at_s: int | None, zone: MadeZone, excluded: tuple[int, ...]) -> int | None:
    return None if at_s is None or (at_s + zone.offset_at(at_s)) // 86_400 in excluded else at_s


def moved_local_times(plan: Plan, excluded: tuple[int, ...]) -> list[tuple[int | None, int | None]]:
    """Old and new instant of every local time that is coming by the old zone, or comes by the new zone alone."""
    old, new = plan.zones[:2]
    found: list[tuple[int | None, int | None]] = []
    for local_s in range(START_S - 2 * 86_400, UNTIL_S + 2 * 86_400, 900):
        if not plan.named(local_s):
            continue
        olds = [at_s for _, _, at_s in plan.passes(local_s, old)]
        news = [at_s for _, _, at_s in plan.passes(local_s, new)]
        for place in range(max(len(olds), len(news))):
            before = olds[place] if place < len(olds) else None
            after = news[place] if place < len(news) else None
            if before is None:
                counts = after is not None and AFTER_S < after <= UNTIL_S and not (olds and olds[-1] <= AFTER_S)
            else:
                counts = AFTER_S < before <= UNTIL_S
            pair = (_kept(before, old, excluded), _kept(after, new, excluded))
            if counts and pair[0] != pair[1]:
                found.append(pair)
    return found


def as_pair(change: ChangedInstant) -> tuple[int | None, int | None]:
    """The change in seconds."""
    return (_seconds(change.old), _seconds(change.new))


def _seconds(instant: Instant | None) -> int | None:
    return None if instant is None else instant // SECOND


@given(plans(), st.booleans())
def test_moved_local_times_are_counted_and_listed(plan: Plan, excluding: bool) -> None:
    """Every local time that moves, comes or goes is listed once, and the count is exact when fewer are listed."""
    excluded = (START_S // 86_400 + 1, START_S // 86_400 + 2) if excluding else ()
    wanted = moved_local_times(plan, excluded)
    found = found_by_the_engine(plan, plan.text, excluded, 10_000)
    assert sorted(map(as_pair, found.shown), key=str) == sorted(wanted, key=str)
    assert found.count == len(wanted)
    few = found_by_the_engine(plan, plan.text, excluded, 3)
    assert (few.count, few.shown) == (len(wanted), found.shown[:3])


@given(plans(), st.sampled_from(["*/15 * * * *", "15 */3 * * *", "20 8-20/2 * * *", "0 30 */2 * * *"]), st.booleans())
def test_instants_of_one_zone_alone_are_counted_and_listed(plan: Plan, text: str, excluding: bool) -> None:
    """Of an interval-like schedule, the instants that only one zone has are listed once, and counted exactly."""
    excluded = (START_S // 86_400 + 1,) if excluding else ()
    schedule = parse_cron(text)
    assert schedule.interval_like
    fields = Plan(
        plan.zones,
        frozenset(minute for minute in range(60) if schedule.minutes >> minute & 1),
        frozenset(hour for hour in range(24) if schedule.hours >> hour & 1),
        plan.gap,
        plan.fold,
        (),
    )
    due: list[set[int]] = []
    for zone in plan.zones[:2]:
        instants = {
            at_s
            for local_s in range(START_S - 2 * 86_400, UNTIL_S + 2 * 86_400, 300)
            if fields.named(local_s)
            for _, _, at_s in fields.passes(local_s, zone)
            if AFTER_S < at_s <= UNTIL_S
        }
        due.append({at_s for at_s in instants if _kept(at_s, zone, excluded) is not None})
    found = found_by_the_engine(plan, text, excluded, 100_000)
    pairs = [as_pair(change) for change in found.shown]
    assert sorted(pairs, key=str) == sorted(
        [*((at_s, None) for at_s in due[0] - due[1]), *((None, at_s) for at_s in due[1] - due[0])], key=str
    )
    assert found.count == len(pairs)


def test_a_year_of_every_second_is_counted_quickly() -> None:
    """A schedule of every second in business hours that moves by an hour for 400 days is counted, not listed."""
    old, new = (ZoneRules("made", MadeZone(first_s).tzif()) for first_s in (0, 3_600))
    zoned = Zoned(Rules(parse_cron("* * 9-16 * * *"), "skip", "both"))
    found = changes_between(zoned, old, new, after=0, until=400 * 86_400 * SECOND - 1, limit=5)
    assert (found.count, len(found.shown)) == (400 * 2 * 3_600, 5)
