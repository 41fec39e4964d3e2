"""Keyed deadlines on the event loop's clock, in seconds."""

import heapq
from collections.abc import Iterator

STALE_ENTRIES_MIN = 1_024
"""Below this many entries, stale ones are not worth clearing out."""


class Deadlines:
    """At most one deadline a key. A changed one stays in the heap until it comes up or half of the heap is stale."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def get(self, key: str) -> float | None:
        """The key's deadline, or None."""
        return self._at.get(key)

    def set(self, key: str, at_s: float) -> None:
        """Give the key this deadline instead of any other."""
        if self._at.get(key) == at_s:
            return
        self._at[key] = at_s
        heapq.heappush(self._heap, (at_s, key))
        if len(self._heap) > max(STALE_ENTRIES_MIN, 2 * len(self._at)):
            self._heap = [(at, name) for name, at in self._at.items()]
            heapq.heapify(self._heap)

    def discard(self, key: str) -> None:
        """Forget the key's deadline."""
        self._at.pop(key, None)

    def next_s(self) -> float | None:
        """The earliest deadline, or None."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_s: float) -> Iterator[str]:
        """Remove and yield every key whose deadline is over."""
        while (at_s := self.next_s()) is not None and at_s <= now_s:
            _, key = heapq.heappop(self._heap)
            del self._at[key]
            yield key
