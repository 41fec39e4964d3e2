"""Places for calls: so many in total, per owner and per target. A slow target queues behind itself only."""

from collections import Counter, deque
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Places(Generic[_T]):
    """Hands out places in the order of asking within a target, and to targets in turn.

    What waits is bounded by the log: each item is an open task that somebody released.
    """

    def __init__(
        self, *, per_target: int, total: int, granted: Callable[[_T], None], per_owner: int | None = None
    ) -> None:
        """``granted`` is called with each item whose turn has come, from within ``ask`` and ``free``.

        ``per_owner`` bounds the places of all targets of one owner together (None: only by the total).
        """
        assert per_target > 0
        assert total > 0
        self.used_count = 0
        """Places taken."""
        self.waiting_count = 0
        """Items that wait for one."""
        self._per_target = per_target
        self._per_owner = total if per_owner is None else per_owner
        self._total = total
        self._granted = granted
        self._used: Counter[str] = Counter()
        self._used_by_owner: Counter[str] = Counter()
        self._owners: dict[str, str] = {}
        self._waiting: dict[str, deque[_T]] = {}
        # Targets with somebody waiting and a place of their own left; each stands here once.
        self._turns: deque[str] = deque()
        self._in_turns: set[str] = set()
        self._handing_out = False

    def ask(self, target: str, item: _T, *, owner: str = "") -> None:
        """Wait for a place at the target, which always has the same owner."""
        self._owners[target] = owner
        self._waiting.setdefault(target, deque()).append(item)
        self.waiting_count += 1
        self._line_up(target)
        self._hand_out()

    def free(self, target: str) -> None:
        """Give a place at the target back."""
        assert self._used[target] > 0, f'no place at "{target}" is taken'
        self.used_count -= 1
        self._used[target] -= 1
        owner = self._owners[target]
        self._used_by_owner[owner] -= 1
        if not self._used[target]:
            del self._used[target]
            if target not in self._waiting:
                del self._owners[target]
        self._line_up(target)
        if self._used_by_owner[owner] == self._per_owner - 1:
            for waiting in [each for each in self._waiting if self._owners[each] == owner]:
                self._line_up(waiting)
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
        if target not in self._waiting or target in self._in_turns:
            return
        if self._used[target] < self._per_target and self._used_by_owner[self._owners[target]] < self._per_owner:
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
            if self._used_by_owner[self._owners[target]] >= self._per_owner:
                # Its owner's other targets were quicker; it lines up again when the owner gives a place back.
                continue
            waiting = self._waiting[target]
            item = waiting.popleft()
            if not waiting:
                del self._waiting[target]
            self.waiting_count -= 1
            self.used_count += 1
            self._used[target] += 1
            self._used_by_owner[self._owners[target]] += 1
            self._line_up(target)
            self._granted(item)
        self._handing_out = False
