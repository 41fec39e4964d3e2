"""The targets of a run: HTTP and NATS executors that work, fail, dawdle, never answer, and are watched at it."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from random import Random
from types import TracebackType
from typing import Literal

from fireledger.domain.identifiers import FireKey, parse_fire_key
from fireledger.runners.dispatcher.calls import ATTEMPT_HEADER, KEY_HEADER, Call, CallResult
from fireledger.runners.dispatcher.http_target import read_response
from fireledger.runners.jetstream.connection import Reply
from tests.simulation.broker import wait

Mood = Literal["healthy", "slow", "failing", "refusing", "silent"]
"""How an executor behaves at present."""
WORK_S_MEAN = 0.15
WORK_S_MAX = 3.0
SLOW_S_MAX = 25.0
SILENT_S = 120.0
"""A silent executor works this long and then answers nobody."""


@dataclass(slots=True)
class Work:
    """One call as the executor sees it. It goes on although its caller may have died."""

    key: FireKey
    attempt: int
    caller: str
    position: int
    began_at: int
    ends_at: int
    abandoned: bool = False


@dataclass
class Executors:
    """All executors. ``began`` is told of each call."""

    random: Random
    now: Callable[[], int]
    began: Callable[[Work], None]
    mood: Mood = "healthy"
    call_count: int = 0
    calls: Counter[tuple[FireKey, int]] = field(default_factory=Counter[tuple[FireKey, int]])
    position_of: dict[str, Callable[[], int]] = field(default_factory=dict[str, Callable[[], int]])
    script: Callable[[FireKey], float] | None = None
    """Given, tells how long each run takes (seconds); moods do not matter then."""
    beat_s: float = 0.0
    """Runs end at whole multiples of this, if it is not 0, so that many results come at once."""

    async def perform(self, key: FireKey, attempt: int, caller: str) -> Mood:
        """Do the work of one call and tell how it went."""
        mood: Mood = self.mood if self.random.random() < 0.8 else "healthy"
        took_s = self._takes_s(mood)
        if self.script is not None:
            mood, took_s = "healthy", self.script(key)
        now = self.now()
        self.call_count += 1
        self.calls[key, attempt] += 1
        work = Work(key, attempt, caller, self.position_of[caller](), now, now + round(took_s * 1_000_000))
        self.began(work)
        try:
            await wait(took_s)
        except asyncio.CancelledError:
            # Whoever called died or gave up; the work goes on, and nobody knows of it.
            work.abandoned = True
            raise
        return mood

    def _takes_s(self, mood: Mood) -> float:
        if mood == "silent":
            return SILENT_S
        if mood == "slow":
            return self.random.uniform(0.5, SLOW_S_MAX)
        took_s = min(0.001 + self.random.expovariate(1 / WORK_S_MEAN), WORK_S_MAX)
        if self.beat_s == 0.0:
            return took_s
        now_s = asyncio.get_running_loop().time()
        return ceil((now_s + took_s) / self.beat_s) * self.beat_s - now_s


class ExecutorConnection:
    """The part of a broker connection that carries calls to NATS targets."""

    def __init__(self, executors: Executors, caller: str) -> None:
        self._executors = executors
        self._caller = caller

    async def request(self, subject: str, payload: bytes, *, timeout_s: float, headers: Mapping[str, str]) -> Reply:
        """Have an executor do the work and return its reply."""
        assert subject.startswith("work."), subject
        del payload, timeout_s
        key, attempt = parse_fire_key(headers[KEY_HEADER]), int(headers[ATTEMPT_HEADER])
        mood = await self._executors.perform(key, attempt, self._caller)
        result = {"failing": "retryable", "refusing": "final"}.get(mood, "succeeded")
        return Reply(b'{"result": "%s"}' % result.encode(), {})


class SimulatedHttpTarget:
    """Stands in for the HTTP target: the same answers, read by the same function, without a socket."""

    def __init__(self, executors: Executors, caller: str) -> None:
        self._executors = executors
        self._caller = caller

    async def __aenter__(self) -> "SimulatedHttpTarget":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def call(self, call: Call) -> CallResult:
        """Have an executor do the work and return what its response means."""
        mood = await self._executors.perform(call.key, call.attempt, self._caller)
        return read_response({"failing": 503, "refusing": 400}.get(mood, 200), "", b"")
