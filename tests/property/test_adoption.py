"""Adoptions held against an enumeration of their own: local times one by one, by clocks made up for the purpose.

A trigger of random local times lives for some days in a zone that has changes of offset near by; the book ticks, and
adopts one database after another whose zones differ from each other in offsets and changes.
"""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from fireledger.domain import entries as e
from fireledger.domain.commands import AdoptZoneData
from fireledger.domain.definition import Definition, Fold, Gap
from fireledger.domain.instants import SECOND, parse_instant
from fireledger.domain.limits import HORIZON_MAX
from fireledger.domain.page import decode_page
from fireledger.domain.zones import ZoneDatabase, ZoneLibrary
from tests.unit.domain.given import TICK, Given, create, cron
from tests.zone_data import MadeZone, made_database

ZONE = "Test/Zone"
START = "2026-11-30T00:00:00Z"
START_S = parse_instant(START) // SECOND
DAYS = 4
OFFSETS_S = [-7 * 3_600, -6 * 3_600, -5 * 3_600, -5 * 3_600 - 1_800, 0, 2 * 3_600]
GAPS: list[Gap] = ["shift", "shift", "skip", "next-valid"]
FOLDS: list[Fold] = ["first", "first", "second", "both"]
PATIENT: dict[str, object] = {"overlap": "allow", "missed": "fire-all", "cap": 1_000, "horizon": int(HORIZON_MAX)}
"""Policies under which whatever is owed fires."""


@dataclass(frozen=True)
class Plan:
    """What happens: the zones of the databases, the schedule with its rules, and steps of minutes with adoptions."""

    zones: tuple[MadeZone, ...]
    minutes: frozenset[int]
    hours: frozenset[int]
    gap: Gap
    fold: Fold
    steps: tuple[tuple[int, int | None], ...]

    @property
    def text(self) -> str:
        """The schedule in the unix dialect."""
        minutes, hours = (",".join(str(each) for each in sorted(part)) for part in (self.minutes, self.hours))
        return f"{minutes} {hours} * * *"

    def named(self, local_s: int) -> bool:
        """Whether the schedule names this local second."""
        minute, second = divmod(local_s % 86_400, 60)
        return second == 0 and minute % 60 in self.minutes and minute // 60 in self.hours

    def passes(self, local_s: int, zone: MadeZone) -> list[tuple[int, int, int]]:
        """(pass, of how many, instant) at which a local time is due under the rules."""
        shown = zone.shown_at(local_s)
        if len(shown) == 2:
            counted = {"first": (0,), "second": (1,), "both": (0, 1)}[self.fold]
            return [(place, 2, shown[place]) for place in counted]
        if shown:
            return [(0, 1, shown[0])]
        gap = zone.gap_of(local_s)
        assert gap is not None
        if self.gap == "skip":
            return []
        return [(0, 1, gap[0] if self.gap == "next-valid" else local_s - gap[1])]

    def position(self, local_s: int, zone: MadeZone) -> int:
        """Where a local time that is not due for the rule on gaps would have been."""
        gap = zone.gap_of(local_s)
        assert gap is not None
        return local_s - gap[1]


@st.composite
def made_zones(draw: st.DrawFn, base: int) -> MadeZone:
    """A zone near ``base`` with up to one change of offset in the days of the run, or with none."""
    first = base + draw(st.sampled_from([0, 0, 3_600, -3_600, 1_800]))
    if draw(st.booleans()):
        return MadeZone(first)
    by = draw(st.sampled_from([3_600, -3_600, 7_200, -7_200, 1_800, -1_800]))
    at_s = START_S + draw(st.integers(0, 2 * DAYS * 24)) * 1_800
    return MadeZone(first, ((at_s, first + by),))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A plan with two or three databases."""
    base = draw(st.sampled_from(OFFSETS_S))
    zones = tuple(draw(st.lists(made_zones(base), min_size=2, max_size=3)))
    hours = draw(st.sets(st.integers(0, 23), min_size=1, max_size=24))
    minutes = draw(st.sets(st.sampled_from([0, 15, 30, 45]), min_size=1, max_size=3))
    step = st.tuples(
        st.one_of(st.integers(1, 90), st.sampled_from([180, 600])),
        st.one_of(st.none(), st.none(), st.none(), st.integers(0, len(zones) - 1)),
    )
    steps = draw(st.lists(step, min_size=8, max_size=40))
    gap: Gap = draw(st.sampled_from(GAPS))
    fold: Fold = draw(st.sampled_from(FOLDS))
    return Plan(zones, frozenset(minutes), frozenset(hours), gap, fold, tuple(steps))


@dataclass
class Counted:
    """What the enumeration knows: of each local time the decided passes, and every decided key."""

    plan: Plan
    begun_s: int
    locals: list[int] = field(default_factory=list[int])
    decided: set[tuple[int, int, int]] = field(default_factory=set[tuple[int, int, int]])
    alone: set[int] = field(default_factory=set[int])
    keys: set[int] = field(default_factory=set[int])
    decisions: Counter[int] = field(default_factory=Counter[int])

    def __post_init__(self) -> None:
        low, high = START_S - 2 * 86_400, START_S + (DAYS + 30) * 86_400
        self.locals = [local_s for local_s in range(low, high, 900) if self.plan.named(local_s)]

    def is_decided(self, local_s: int, place: int, count: int) -> bool:
        """Whether this pass of a local time is decided already."""
        if local_s in self.alone:
            return True
        if count == 2:
            return (local_s, place, 2) in self.decided
        return (local_s, int(self.plan.fold == "second"), 2) in self.decided

    def owed(self, zone: MadeZone, now_s: int) -> list[tuple[int, bool]]:
        """The instants owed at a tick, and whether their key is decided already; they are decided with this."""
        found: dict[int, list[int]] = {}
        for local_s in self._near(now_s):
            for place, count, at_s in self.plan.passes(local_s, zone):
                if self.begun_s < at_s <= now_s and not self.is_decided(local_s, place, count):
                    found.setdefault(at_s, []).append(local_s)
        if found:
            self._decide(zone, max(found))
        for served in found.values():
            self.decisions.update(served)
        owed = [(at_s, at_s in self.keys) for at_s in sorted(found)]
        self.keys.update(found)
        return owed

    def _decide(self, zone: MadeZone, until_s: int) -> None:
        for local_s in self._near(until_s):
            shown = zone.shown_at(local_s)
            if len(shown) == 2:
                self.decided.update((local_s, place, 2) for place in (0, 1) if shown[place] <= until_s)
                continue
            passes = self.plan.passes(local_s, zone)
            if (passes[0][2] if passes else self.plan.position(local_s, zone)) <= until_s:
                self.alone.add(local_s)

    def _near(self, now_s: int) -> list[int]:
        return [local_s for local_s in self.locals if local_s <= now_s + 86_400]


def decided_entries(book: Given) -> list[tuple[int, bool]]:
    """The instants that the last command decided, one by one, and whether their key was taken."""
    found: list[tuple[int, bool]] = []
    for entry in book.entries():
        match entry:
            case e.FireReleased(decides=True) | e.FireDecided():
                found.append((entry.scheduled // SECOND, False))
            case e.FireReleased():
                # Decided before, when its lane's pace had nothing left.
                pass
            case e.InstantsResolved(state="expired"):
                pass
            case e.InstantsResolved():
                assert entry.count == 1 or entry.first < entry.last
                assert (entry.state, entry.count, entry.into) == ("coalesced", 1, entry.first)
                found.append((entry.first // SECOND, True))
            case e.ZoneDataAdopted():
                pass
            case _:
                raise AssertionError(f"{entry} was not expected")
    return found


def expired(book: Given) -> list[tuple[int, int, int]]:
    """The ranges of the last command that are beyond the horizon."""
    ranges = (entry for entry in book.entries() if isinstance(entry, e.InstantsResolved) and entry.state == "expired")
    return [(entry.first // SECOND, entry.last // SECOND, entry.count) for entry in ranges]


def is_late(owed: tuple[int, bool], now_s: int) -> bool:
    """Whether an owed instant is beyond the horizon: new data may bring one that nobody could decide before."""
    at_s, taken = owed
    return not taken and now_s - at_s > HORIZON_MAX // SECOND


def book_of(plan: Plan, definition: Definition) -> tuple[Given, list[ZoneDatabase]]:
    """A book that uses the plan's first database and has the trigger."""
    made = [made_database(f"2026{letter}", zone) for letter, zone in zip("abc", plan.zones, strict=False)]
    book = Given(start=START, library=ZoneLibrary(made[0]))
    book.zones = ZoneLibrary(*made)
    return book.given(create(definition)), made


@given(plans())
def test_every_local_time_is_decided_once(plan: Plan) -> None:
    """Whatever is adopted when: each tick decides what the enumeration owes, no local time twice and no key twice."""
    book, made = book_of(plan, cron(plan.text, ZONE, gap=plan.gap, fold=plan.fold, **PATIENT))
    counted, present, now_s = Counted(plan, START_S), 0, START_S
    for minutes, adopting in plan.steps:
        now_s += minutes * 60
        if adopting is not None:
            database = made[adopting]
            book.given(AdoptZoneData(version=database.version, sha256=database.sha256), at=now_s * SECOND)
            present = adopting
        book.when(TICK, at=now_s * SECOND)
        owed = counted.owed(plan.zones[present], now_s)
        late = [at_s for at_s, taken in owed if is_late((at_s, taken), now_s)]
        assert decided_entries(book) == [one for one in owed if not is_late(one, now_s)]
        assert sum(count for _, _, count in expired(book)) == len(late)
        assert all(first in late and last in late for first, last, _ in expired(book))
    fires = Counter(at for entry in _all_entries(book) if isinstance(entry, e.FireReleased) for at in [entry.scheduled])
    assert set(fires.values()) <= {1}
    most = 2 if plan.fold == "both" else 1
    assert all(count <= most for count in counted.decisions.values())


@given(plans())
def test_an_interval_like_schedule_goes_by_eras(plan: Plan) -> None:
    """Every instant up to an adoption is the old rules', every later one the new rules', each decided once."""
    book, made = book_of(plan, cron("*/15 * * * *", ZONE, gap="skip", fold="both", **PATIENT))
    quarters = Plan(plan.zones, frozenset({0, 15, 30, 45}), frozenset(range(24)), "skip", "both", ())
    wanted: set[int] = set()
    present, now_s, begun_s = 0, START_S, START_S
    fired: list[int] = []

    def era(end_s: int) -> set[int]:
        """The instants in (begun, end] of the present rules."""
        zone = plan.zones[present]
        return {
            at_s
            for at_s in range(begun_s - begun_s % 900, end_s + 1, 900)
            if at_s > begun_s and quarters.named(at_s + zone.offset_at(at_s))
        }

    for minutes, adopting in plan.steps:
        now_s += minutes * 60
        if adopting is not None and adopting != present:
            book.given(AdoptZoneData(version=made[adopting].version, sha256=made[adopting].sha256), at=now_s * SECOND)
            wanted |= era(now_s)
            present, begun_s = adopting, now_s
        book.when(TICK, at=now_s * SECOND)
        fired += [at_s for at_s, _ in decided_entries(book)]
    assert fired == sorted(wanted | era(now_s))


def _all_entries(book: Given) -> list[e.BookEntry]:
    return [entry for written in book.written for entry in decode_page(written.body).entries]
