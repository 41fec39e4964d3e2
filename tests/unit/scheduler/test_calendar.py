"""The due index and the deadlines: ordered, one row a key, cheap to change."""

from hypothesis import given
from hypothesis import strategies as st

from fireledger.runners.scheduler.calendar import STALE_ROWS_MIN, DueCalendar
from fireledger.runners.scheduler.deadlines import Deadlines


def popped(calendar: DueCalendar, until: int) -> list[tuple[str, str]]:
    """Tenant and trigger of the rows that come up."""
    return [(tenant, trigger) for _, tenant, trigger in calendar.pop_due(until)]


def test_rows_come_up_in_order_and_once() -> None:
    """Rows are popped by due instant, up to and including the given one, and are gone then."""
    calendar = DueCalendar()
    calendar.set("acme", "late", 30)
    calendar.set("acme", "early", 10)
    calendar.set("globex", "early", 20)
    assert calendar.next_at() == 10
    assert popped(calendar, 20) == [("acme", "early"), ("globex", "early")]
    assert popped(calendar, 20) == []
    assert (calendar.next_at(), len(calendar)) == (30, 1)


def test_a_changed_row_replaces_the_old_one() -> None:
    """Moved later, earlier, back again and removed: only the last word counts."""
    calendar = DueCalendar()
    for due_at in (10, 20, 5, 10):
        calendar.set("acme", "a", due_at)
    assert popped(calendar, 9) == []
    assert popped(calendar, 10) == [("acme", "a")]
    calendar.set("acme", "a", 1)
    calendar.set("acme", "a", None)
    assert (calendar.next_at(), len(calendar)) == (None, 0)


def test_a_dropped_tenant_has_no_rows() -> None:
    """All rows of a tenant go at once, and may come back."""
    calendar = DueCalendar()
    calendar.set("acme", "a", 10)
    calendar.set("acme", "b", 11)
    calendar.set("globex", "a", 12)
    calendar.drop("acme")
    assert (calendar.next_at(), len(calendar)) == (12, 1)
    calendar.set("acme", "a", 10)
    assert popped(calendar, 99) == [("acme", "a"), ("globex", "a")]


def test_a_tenants_rows_can_be_taken_alone() -> None:
    """Rows of one tenant up to an instant, leaving the others and the later ones."""
    calendar = DueCalendar()
    calendar.set("acme", "a", 10)
    calendar.set("acme", "b", 20)
    calendar.set("globex", "a", 5)
    assert calendar.has_due("acme", 10)
    assert not calendar.has_due("acme", 9)
    assert calendar.pop_tenant("acme", 15).keys() == {"a"}
    assert len(calendar) == 2
    assert popped(calendar, 99) == [("globex", "a"), ("acme", "b")]


def test_stale_rows_do_not_pile_up() -> None:
    """A row moved for ever leaves a bounded heap behind."""
    calendar = DueCalendar()
    for due_at in range(20 * STALE_ROWS_MIN):
        calendar.set("acme", "a", due_at)
    assert len(calendar._heap) <= STALE_ROWS_MIN + 1  # pyright: ignore[reportPrivateUsage]
    assert popped(calendar, 10**9) == [("acme", "a")]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.none() | st.integers(0, 20))))
def test_the_calendar_is_a_sorted_table(changes: list[tuple[str, str, int | None]]) -> None:
    """Whatever was set, popping everything gives the last rows, sorted by instant."""
    calendar, table = DueCalendar(), dict[tuple[str, str], int]()
    for tenant, trigger, due_at in changes:
        calendar.set(tenant, trigger, due_at)
        table.pop((tenant, trigger), None)
        if due_at is not None:
            table[tenant, trigger] = due_at
    assert len(calendar) == len(table)
    assert calendar.next_at() == min(table.values(), default=None)
    assert popped(calendar, 20) == sorted(table, key=lambda key: (table[key], key))


def test_deadlines_keep_the_last_word() -> None:
    """A deadline can be moved either way and withdrawn; what is over is handed out once, earliest first."""
    deadlines = Deadlines()
    deadlines.set("a", 3.0)
    deadlines.set("b", 1.0)
    deadlines.set("c", 2.0)
    deadlines.set("b", 2.5)
    deadlines.discard("c")
    assert (deadlines.get("b"), deadlines.get("c"), deadlines.next_s()) == (2.5, None, 2.5)
    assert list(deadlines.pop_due(2.9)) == ["b"]
    assert list(deadlines.pop_due(float("inf"))) == ["a"]
    assert deadlines.next_s() is None
