"""A stock event loop whose clock jumps over idle time. Nothing waits for real; the same calls run in the same order.

The loop's ``time()`` is virtual seconds since the run began. When every task waits for something that no timer will
bring, the run is stuck, and says so at once.
"""

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_T = TypeVar("_T")

TURNS_AT_ONE_INSTANT_MAX = 200_000
"""Turns of the loop without any time passing: more is a task that spins."""


class Stuck(AssertionError):
    """Every task waits and no timer is set, or one spins without time passing: nothing will ever happen again."""


class VirtualSelector(selectors.BaseSelector):
    """Waits by moving the clock. Nothing is ever readable: a run has no sockets."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._turns = 0

    def register(self, fileobj: "FileDescriptorLike", events: int, data: object = None) -> selectors.SelectorKey:
        """Note a file; it stays silent."""
        descriptor = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = selectors.SelectorKey(fileobj, descriptor, events, data)
        self._keys[descriptor] = key
        return key

    def unregister(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        """Forget a file."""
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def get_map(self) -> "Mapping[FileDescriptorLike, selectors.SelectorKey]":
        """The noted files."""
        return {key.fileobj: key for key in self._keys.values()}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Move the clock on by ``timeout``. Raises Stuck when there is nothing to wait for."""
        if timeout is None:
            raise Stuck(f"every task waits and no timer is set, {self.now_s:.6f} s into the run")
        if timeout > 0:
            self.now_s += timeout
            self._turns = 0
        else:
            self._turns += 1
            if self._turns > TURNS_AT_ONE_INSTANT_MAX:
                # The loop is to be closed after this, which takes turns too.
                self._turns = 0
                raise Stuck(f"a task spins without time passing, {self.now_s:.6f} s into the run")
        return []

    def close(self) -> None:
        """Forget everything."""
        self._keys.clear()


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop on a virtual selector."""

    def __init__(self) -> None:
        self._virtual = VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Virtual seconds since the run began."""
        return self._virtual.now_s


def run_virtually(main: Coroutine[None, None, _T]) -> _T:
    """Run to the end on a virtual loop. Raises Stuck, and whatever ``main`` raises."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
