"""An event loop whose clock jumps over idle time. Nothing waits for real; the same calls run in the same order.

The loop's ``time()`` is virtual seconds since the run began. Tasks, futures, locks and timeouts are asyncio's own;
only the turning of the loop is replaced: no selector is asked, and timers are compared by numbers alone. When every
task waits for something that no timer will bring, the run is stuck, and says so at once.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from typing import TypeVar, TypeVarTuple, Unpack

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

TURNS_AT_ONE_INSTANT_MAX = 200_000
"""Turns of the loop without any time passing: more is a task that spins."""
STALE_TIMERS_MIN = 256
"""Below this many timers, cancelled ones are not worth clearing out."""


class Stuck(AssertionError):
    """Every task waits and no timer is set, or one spins without time passing: nothing will ever happen again."""


class _Call(asyncio.TimerHandle):
    """A call to be made in the next turn or at an instant. Holds no more than that takes."""

    __slots__ = ("act", "arguments", "at_s", "gone", "inside", "loop", "timed")

    def __init__(
        self,
        loop: "VirtualLoop",
        act: Callable[..., object],
        arguments: Sequence[object],
        context: Context | None,
        at_s: float,
        *,
        timed: bool,
    ) -> None:
        # Nothing of the base class is used but its type: what it prepares for debugging costs more than the call.
        self.loop = loop
        self.act = act
        self.arguments = arguments
        self.inside = copy_context() if context is None else context
        self.at_s = at_s
        self.timed = timed
        self.gone = False

    def cancel(self) -> None:
        """Not make it."""
        if not self.gone:
            self.gone = True
            if self.timed:
                self.loop.note_stale()

    def cancelled(self) -> bool:
        """Whether it will not be made."""
        return self.gone

    def when(self) -> float:
        """The virtual second at which it is made."""
        return self.at_s

    def make(self) -> None:
        """Make it. Tasks keep their errors; one of anything else ends the run."""
        self.timed = False
        self.inside.run(self.act, *self.arguments)


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop. Timers of one instant run in the order in which they were set."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._soon: deque[_Call] = deque()
        self._timers: list[tuple[float, int, _Call]] = []
        self._timer_count = 0
        self._stale_count = 0
        self._turns = 0

    def time(self) -> float:
        """Virtual seconds since the run began."""
        return self._now_s

    # What tasks, futures and timeouts ask for

    def call_soon(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call in the next turn."""
        call = _Call(self, callback, args, context, self._now_s, timed=False)
        self._soon.append(call)
        return call

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As ``call_soon``: only the handler of an interrupt comes from outside, and the loop never sleeps."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call after so many virtual seconds."""
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call when ``time()`` has reached ``when``."""
        timer = _Call(self, callback, args, context, when, timed=True)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, timer))
        return timer

    def note_stale(self) -> None:
        """A timer was cancelled; it stays in the heap until it comes up or half of them are."""
        self._stale_count += 1
        if self._stale_count > max(STALE_TIMERS_MIN, len(self._timers) // 2):
            self._timers = [each for each in self._timers if not each[2].gone]
            heapq.heapify(self._timers)
            self._stale_count = 0

    # Turning

    def _run_once(self) -> None:
        """One turn: what is due now, all of it, and nothing that it brings about."""
        soon, timers = self._soon, self._timers
        if soon:
            self._turns += 1
            if self._turns > TURNS_AT_ONE_INSTANT_MAX:
                # The loop is to be closed after this, which takes turns too.
                self._turns = 0
                raise Stuck(f"a task spins without time passing, {self._now_s:.6f} s into the run")
        else:
            self._move_on()
        while timers and timers[0][0] <= self._now_s:
            soon.append(heapq.heappop(timers)[2])
        for _ in range(len(soon)):
            call = soon.popleft()
            if not call.gone:
                call.make()

    def _move_on(self) -> None:
        """Move the clock to the next timer. Raises Stuck when there is none."""
        timers = self._timers
        while timers and timers[0][2].gone:
            heapq.heappop(timers)
            self._stale_count -= 1
        if not timers:
            raise Stuck(f"every task waits and no timer is set, {self._now_s:.6f} s into the run")
        if timers[0][0] > self._now_s:
            self._now_s = timers[0][0]
            self._turns = 0

    def _write_to_self(self) -> None:
        """Nothing has to be woken: the loop never sleeps."""

    def close(self) -> None:
        """Forget everything."""
        self._soon.clear()
        self._timers.clear()
        super().close()


def run_virtually(main: Coroutine[None, None, _T]) -> _T:
    """Run to the end on a virtual loop. Raises Stuck, and whatever ``main`` raises."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
