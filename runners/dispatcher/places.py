"""Places for calls: so many in total, per tenant and per target, and of each a share per lane.

A freed place goes to the lane that comes first; within it to tenants in turn, and to a tenant's targets in turn. So
a slow target queues behind itself only, and a tenant's backlog behind its own.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from .lanes import LANE_NAMES, ON_TIME, lane_limit

_T = TypeVar("_T")
_RANKS = range(len(LANE_NAMES))


class _Bound:
    """So many places, of which each lane may take its share."""

    __slots__ = ("_limit", "_limits", "used", "used_by_lane")

    def __init__(self, limit: int) -> None:
        self.used = 0
        self.used_by_lane = [0 for _ in _RANKS]
        self._limit = limit
        self._limits = [lane_limit(limit, lane) for lane in _RANKS]

    def has_room(self, lane: int) -> bool:
        return self.used < self._limit and self.used_by_lane[lane] < self._limits[lane]

    def take(self, lane: int) -> None:
        self.used += 1
        self.used_by_lane[lane] += 1

    def give_back(self, lane: int) -> None:
        self.used -= 1
        self.used_by_lane[lane] -= 1


class _Turns:
    """Names in the order of their turn, each at most once."""

    __slots__ = ("_members", "_order")

    def __init__(self) -> None:
        self._order: deque[str] = deque()
        self._members: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._order)

    def line_up(self, name: str) -> None:
        if name not in self._members:
            self._members.add(name)
            self._order.append(name)

    def next(self) -> str:
        name = self._order.popleft()
        self._members.discard(name)
        return name


class _Backlog(Generic[_T]):
    """What one owner has waiting in one lane; ``turns`` are the targets that had a place left when last looked at."""

    __slots__ = ("turns", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[str, deque[_T]] = {}
        self.turns = _Turns()


class _Lane(Generic[_T]):
    """One lane's backlogs by owner; ``turns`` are the owners that had a place left when last looked at."""

    __slots__ = ("backlogs", "turns", "waiting_count")

    def __init__(self) -> None:
        self.backlogs: dict[str, _Backlog[_T]] = {}
        self.turns = _Turns()
        self.waiting_count = 0

    def put(self, owner: str, target: str, item: _T) -> None:
        backlog = self.backlogs.setdefault(owner, _Backlog())
        backlog.waiting.setdefault(target, deque()).append(item)
        self.waiting_count += 1

    def line_up(self, owner: str, target: str) -> None:
        """A place may be left at the target, if anything waits for one."""
        backlog = self.backlogs.get(owner)
        if backlog is not None and target in backlog.waiting:
            backlog.turns.line_up(target)

    def line_up_owner(self, owner: str) -> None:
        """The owner may have a place left."""
        backlog = self.backlogs.get(owner)
        if backlog is not None and backlog.turns:
            self.turns.line_up(owner)

    def take(self, owner: str, target: str) -> _T:
        backlog = self.backlogs[owner]
        items = backlog.waiting[target]
        item = items.popleft()
        self.waiting_count -= 1
        if items:
            backlog.turns.line_up(target)
        else:
            del backlog.waiting[target]
            if not backlog.waiting:
                del self.backlogs[owner]
        return item


class Places(Generic[_T]):
    """Hands out places in the order of asking within a lane and a target, else as the module says.

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
        self._per_target = per_target
        self._per_owner = total if per_owner is None else per_owner
        self._granted = granted
        self._all = _Bound(total)
        self._by_owner: dict[str, _Bound] = {}
        self._by_target: dict[str, _Bound] = {}
        self._owners: dict[str, str] = {}
        self._lanes: tuple[_Lane[_T], ...] = tuple(_Lane() for _ in _RANKS)
        self._handing_out = False

    @property
    def used_count(self) -> int:
        """Places taken."""
        return self._all.used

    @property
    def waiting_count(self) -> int:
        """Items that wait for one."""
        return sum(lane.waiting_count for lane in self._lanes)

    def counts(self) -> dict[str, tuple[int, int]]:
        """Places taken and items that wait, by lane."""
        return {
            name: (self._all.used_by_lane[rank], self._lanes[rank].waiting_count)
            for rank, name in enumerate(LANE_NAMES)
        }

    def ask(self, target: str, item: _T, *, owner: str = "", lane: int = ON_TIME) -> None:
        """Wait for a place at the target, which always has the same owner."""
        self._owners[target] = owner
        self._lanes[lane].put(owner, target, item)
        self._lanes[lane].line_up(owner, target)
        self._lanes[lane].line_up_owner(owner)
        self._hand_out()

    def free(self, target: str, *, lane: int = ON_TIME) -> None:
        """Give a place at the target back, as one of the lane it was taken in."""
        taken = self._by_target.get(target)
        assert taken is not None, f'no place at "{target}" is taken'
        assert taken.used_by_lane[lane] > 0, f'no place at "{target}" is taken in this lane'
        owner = self._owners[target]
        for bound in (self._all, self._by_owner[owner], taken):
            bound.give_back(lane)
        for each in self._lanes:
            each.line_up(owner, target)
            each.line_up_owner(owner)
        self._forget(owner, target)
        self._hand_out()

    def take_waiting(self) -> list[_T]:
        """Take everything that waits out again."""
        taken = [
            item
            for lane in self._lanes
            for backlog in lane.backlogs.values()
            for waiting in backlog.waiting.values()
            for item in waiting
        ]
        self._lanes = tuple(_Lane() for _ in _RANKS)
        return taken

    def _forget(self, owner: str, target: str) -> None:
        """Keep nothing of those that have no place."""
        if not self._by_target[target].used:
            del self._by_target[target]
            if not any(owner in lane.backlogs and target in lane.backlogs[owner].waiting for lane in self._lanes):
                del self._owners[target]
        if not self._by_owner[owner].used:
            del self._by_owner[owner]

    def _hand_out(self) -> None:
        # Whoever is granted a place may free it at once; the loop under way then goes on, however many do so.
        if self._handing_out:
            return
        self._handing_out = True
        try:
            while (item := self._next()) is not None:
                self._granted(item[0])
        finally:
            self._handing_out = False

    def _next(self) -> tuple[_T] | None:
        """The next item with a place, which is taken."""
        for rank, lane in enumerate(self._lanes):
            while lane.turns and self._all.has_room(rank):
                owner = lane.turns.next()
                target = self._next_target(rank, lane, owner)
                if target is None:
                    continue
                self._take_place(rank, owner, target)
                item = lane.take(owner, target)
                lane.line_up_owner(owner)
                return (item,)
        return None

    def _next_target(self, rank: int, lane: _Lane[_T], owner: str) -> str | None:
        """The owner's target whose turn it is. Whoever has no place left lines up again when one is given back."""
        backlog = lane.backlogs.get(owner)
        if backlog is None or not _has_room(self._by_owner.get(owner), rank):
            return None
        while backlog.turns:
            target = backlog.turns.next()
            if target in backlog.waiting and _has_room(self._by_target.get(target), rank):
                return target
        return None

    def _take_place(self, rank: int, owner: str, target: str) -> None:
        self._all.take(rank)
        self._by_owner.setdefault(owner, _Bound(self._per_owner)).take(rank)
        self._by_target.setdefault(target, _Bound(self._per_target)).take(rank)


def _has_room(bound: _Bound | None, rank: int) -> bool:
    """Whether a place is left; who has none taken has all."""
    return bound is None or bound.has_room(rank)
