"""Places for calls: so many at once in total, so many per target. A slow target queues behind itself only."""

from collections import Counter, deque
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Places(Generic[_T]):
    """Hands out places in the order of asking within a target, and to targets in turn.

    What waits is bounded by the log: each item is an open task that somebody released.
    """

    def __init__(self, *, per_target: int, total: int, granted: Callable[[_T], None]) -> None:
        """``granted`` is called with each item whose turn has come, from within ``ask`` and ``free``."""
        assert per_target > 0
        assert total > 0
        self.used_count = 0
        """Places taken."""
        self.waiting_count = 0
        """Items that wait for one."""
        self._per_target = per_target
        self._total = total
        self._granted = granted
        self._used: Counter[str] = Counter()
        self._waiting: dict[str, deque[_T]] = {}
        # Targets with somebody waiting and a place of their own left; each stands here once.
        self._turns: deque[str] = deque()
        self._in_turns: set[str] = set()
        self._handing_out = False

    def ask(self, target: str, item: _T) -> None:
        """Wait for a place at the target."""
        self._waiting.setdefault(target, deque()).append(item)
        self.waiting_count += 1
        self._line_up(target)
        self._hand_out()

    def free(self, target: str) -> None:
        """Give a place at the target back."""
        assert self._used[target] > 0, f'no place at "{target}" is taken'
        self.used_count -= 1
        self._used[target] -= 1
        if not self._used[target]:
            del self._used[target]
        self._line_up(target)
        self._hand_out()

    def take_waiting(self) -> list[_T]:
        """Take everything that waits out again."""
        taken = [item for waiting in self._waiting.values() for item in waiting]
        self._waiting.clear()
        self._turns.clear()
        self._in_turns.clear()
        self.waiting_count = 0
        return taken

    def _line_up(self, target: str) -> None:
        if target in self._waiting and self._used[target] < self._per_target and target not in self._in_turns:
            self._turns.append(target)
            self._in_turns.add(target)

    def _hand_out(self) -> None:
        # Whoever is granted a place may free it at once; the loop under way then goes on, however many do so.
        if self._handing_out:
            return
        self._handing_out = True
        while self._turns and self.used_count < self._total:
            target = self._turns.popleft()
            self._in_turns.discard(target)
            waiting = self._waiting[target]
            item = waiting.popleft()
            if not waiting:
                del self._waiting[target]
            self.waiting_count -= 1
            self.used_count += 1
            self._used[target] += 1
            self._line_up(target)
            self._granted(item)
        self._handing_out = False
