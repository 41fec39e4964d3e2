"""The due index: one row a trigger, ordered by the instant from which there is something to decide about it."""

import heapq
from collections.abc import Iterator

STALE_ROWS_MIN = 1_024
"""Below this many rows, stale ones are not worth clearing out."""


class DueCalendar:
    """Rows (due instant in microseconds, tenant, trigger), at most one for each trigger.

    A changed or removed row stays in the heap until it comes up or until half of the heap is stale.
    """

    def __init__(self) -> None:
        self._due: dict[str, dict[str, int]] = {}
        self._heap: list[tuple[int, str, str]] = []
        self._count = 0

    def __len__(self) -> int:
        """How many triggers have a row."""
        return self._count

    def set(self, tenant: str, trigger: str, due_at: int | None) -> None:
        """Give the trigger this row instead of any other; None: no row."""
        rows = self._due.setdefault(tenant, {})
        before = rows.get(trigger)
        if before == due_at:
            return
        if due_at is None:
            del rows[trigger]
            self._count -= 1
            return
        self._count += before is None
        rows[trigger] = due_at
        heapq.heappush(self._heap, (due_at, tenant, trigger))
        if len(self._heap) > max(STALE_ROWS_MIN, 2 * self._count):
            self._rebuild()

    def row(self, tenant: str, trigger: str) -> int | None:
        """The trigger's row, None if it has none."""
        return self._due.get(tenant, {}).get(trigger)

    def drop(self, tenant: str) -> None:
        """Remove every row of the tenant."""
        self._count -= len(self._due.pop(tenant, {}))

    def next_at(self) -> int | None:
        """The earliest due instant, or None when there is no row."""
        while self._heap and self._stale(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def has_due(self, tenant: str, until: int) -> bool:
        """Whether a row of the tenant is due at or before ``until``."""
        return any(due_at <= until for due_at in self._due.get(tenant, {}).values())

    def pop_due(self, until: int) -> Iterator[tuple[int, str, str]]:
        """Remove and yield due instant, tenant and trigger of every row due at or before ``until``, earliest first."""
        while self._heap and self._heap[0][0] <= until:
            row = heapq.heappop(self._heap)
            if not self._stale(row):
                _, tenant, trigger = row
                del self._due[tenant][trigger]
                self._count -= 1
                yield row

    def pop_tenant(self, tenant: str, until: int) -> dict[str, int]:
        """Remove and return the tenant's rows due at or before ``until``; costs a look at each of them."""
        rows = self._due.get(tenant, {})
        found = {trigger: due_at for trigger, due_at in rows.items() if due_at <= until}
        for trigger in found:
            del rows[trigger]
        self._count -= len(found)
        return found

    def _stale(self, row: tuple[int, str, str]) -> bool:
        due_at, tenant, trigger = row
        rows = self._due.get(tenant)
        return rows is None or rows.get(trigger) != due_at

    def _rebuild(self) -> None:
        self._heap = [(due_at, tenant, name) for tenant, rows in self._due.items() for name, due_at in rows.items()]
        heapq.heapify(self._heap)
