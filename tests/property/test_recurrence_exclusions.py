"""Excluded dates: the engine against plain filtering by local date."""

from dataclasses import dataclass
from itertools import islice, pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from fireledger.domain.instants import DAY, SECOND
from fireledger.domain.recurrence.exclusions import Excluding, is_excluded, with_exclusions
from fireledger.domain.recurrence.recurrence import Recurrence, recurrence_of
from fireledger.domain.recurrence.rules import FOLD_RULES, GAP_RULES
from fireledger.domain.zones import ZoneRules
from tests.property.test_recurrence_properties import INSTANTS, SCHEDULES, ZONE_RULES, ZONES

SPAN_DAYS = 12
LISTED_MAX = 2_000
AT_MIDNIGHT = ["America/Sao_Paulo", "Asia/Beirut", "Pacific/Apia", "America/Havana", "Africa/Cairo", "Asia/Amman"]
"""Zones whose clock changes at midnight, or skipped a whole day."""
MIDNIGHTS = st.sampled_from(
    [(name, change.at_s * SECOND) for name in AT_MIDNIGHT for change in ZONES.zone(name).transitions(0, 1 << 33)]
)


def shown_day(instant: int, zone: ZoneRules) -> int:
    """The local date as days since 1970-01-01, by the offset alone."""
    return (instant // SECOND + zone.utc_offset_at(instant)) // 86_400


@dataclass(frozen=True)
class Case:
    """A recurrence, the same with exclusions, and the stretch looked at."""

    recurrence: Recurrence
    zone: ZoneRules
    excluded: tuple[int, ...]
    after: int

    @property
    def until(self) -> int:
        """The end of the stretch."""
        return self.after + SPAN_DAYS * DAY

    @property
    def excluding(self) -> Excluding:
        """The recurrence with exclusions."""
        made = with_exclusions(self.recurrence, self.zone, self.excluded)
        assert isinstance(made, Excluding)
        return made

    def plain(self) -> list[int]:
        """What is left of the stretch by filtering."""
        listed = list(islice(self.recurrence.between(self.after, self.until), LISTED_MAX))
        assume(len(listed) < LISTED_MAX)
        return [instant for instant in listed if shown_day(instant, self.zone) not in self.excluded]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Days around a stretch excluded, the stretch often around a change of the clock at midnight."""
    schedule, zone, after = draw(SCHEDULES), draw(ZONE_RULES), draw(INSTANTS)
    assert schedule is not None
    if draw(st.booleans()):
        name, change_at = draw(MIDNIGHTS)
        zone, after = ZONES.zone(name), change_at - draw(st.integers(0, SPAN_DAYS * DAY))
    first = shown_day(after, zone)
    picked = draw(st.sets(st.integers(-1, SPAN_DAYS + 1), min_size=1, max_size=9))
    excluded = tuple(sorted(first + day for day in picked))
    gap, fold = draw(st.sampled_from(GAP_RULES)), draw(st.sampled_from(FOLD_RULES))
    return Case(recurrence_of(schedule, zone, gap, fold), zone, excluded, after)


@given(cases())
def test_a_range_and_its_count_are_the_filtered_ones(case: Case) -> None:
    """between, count and next_many give what filtering by local date leaves."""
    plain = case.plain()
    assert list(case.excluding.between(case.after, case.until)) == plain
    assert case.excluding.count(case.after, case.until) == len(plain)
    assert case.excluding.next_many(case.after, len(plain)) == plain


@given(cases(), st.data())
def test_steps_are_those_of_the_filtered_list(case: Case, data: st.DataObject) -> None:
    """From anywhere in the stretch, next and previous are the neighbours in the filtered list."""
    plain = case.plain()
    instant = data.draw(st.sampled_from(plain) if plain else st.just(case.after))
    instant += data.draw(st.integers(-1, 1) | st.integers(-DAY, DAY))
    assume(case.after < instant < case.until)
    later, earlier = [one for one in plain if one > instant], [one for one in plain if one < instant]
    following, preceding = case.excluding.next_after(instant), case.excluding.previous_before(instant)
    assert following == later[0] if later else following is None or following > case.until
    assert preceding == earlier[-1] if earlier else preceding is None or preceding <= case.after


@given(cases(), st.integers(0, SPAN_DAYS * DAY), st.integers(0, SPAN_DAYS * DAY))
def test_ranges_end_to_end_hold_every_instant_once(case: Case, one: int, other: int) -> None:
    """Counts of adjoining ranges add up, wherever they are cut."""
    low, high = sorted((case.after + one, case.after + other))
    cuts = [case.after, low, high, case.until]
    total = sum(case.excluding.count(start, end) for start, end in pairwise(cuts))
    assert total == case.excluding.count(case.after, case.until)


@given(ZONE_RULES, INSTANTS)
def test_the_excluded_date_is_the_one_the_clock_shows(zone: ZoneRules, instant: int) -> None:
    """The date of an instant is that of its local time."""
    day = shown_day(instant, zone)
    assert is_excluded(instant, zone, (day,))
    assert not is_excluded(instant, zone, (day - 1, day + 1))
