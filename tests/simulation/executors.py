"""The targets of a run: HTTP and NATS executors that work, fail, dawdle, ask a person, report later, or never answer.

They are watched at it. An executor that accepts a call reports its outcome when it is done: once or twice, in time
or not, and now and then with a token that is not the attempt's.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from random import Random
from types import TracebackType
from typing import Literal

from fireledger.domain.entries import AttemptReported
from fireledger.domain.identifiers import FireKey, parse_fire_key
from fireledger.runners.attempt_tokens import TOKEN_HEADER
from fireledger.runners.dispatcher.calls import ATTEMPT_HEADER, KEY_HEADER, Call, CallResult
from fireledger.runners.dispatcher.http_target import read_response
from fireledger.runners.jetstream.connection import Reply
from fireledger.runners.json_edge import Jsonable, dumps
from tests.simulation.broker import wait

Mood = Literal["healthy", "slow", "failing", "refusing", "silent", "busy", "asking", "reporting"]
"""How an executor behaves at present: ``busy`` asks to come again later, ``asking`` waits for a person."""
Reported = Literal["succeeded", "failed", "held"]
Told = Literal["succeeded", "failed", "held", "accepted", "retryable"]
WORK_S_MEAN = 0.15
WORK_S_MAX = 3.0
SLOW_S_MAX = 25.0
SILENT_S = 120.0
"""A silent executor works this long and then answers nobody."""


COST_MAX = 40
RETRY_AFTER_S = (1, 5, 20, 90)
REPORTED_AFTER_S = (0.05, 0.3, 0.8, 2.0, 12.0, 70.0)
"""The last is longer than most outcome windows."""
REPORTS: tuple[Reported, ...] = ("succeeded", "succeeded", "failed", "held")
SURPRISES: tuple[tuple[float, Mood], ...] = (
    (0.012, "failing"),
    (0.017, "busy"),
    (0.021, "asking"),
    (0.034, "reporting"),
)
"""Also a healthy executor does this now and then: up to the first number of a draw, the first that fits."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an executor says of a call; ``retry_after`` in seconds."""

    told: Told = "succeeded"
    retry_after: int | None = None
    cost: int | None = None

    def http(self) -> tuple[int, str, bytes]:
        """Status, Retry-After and body."""
        status = {"succeeded": 200, "held": 200, "accepted": 202, "failed": 400, "retryable": 503}[self.told]
        after = "" if self.retry_after is None else str(self.retry_after)
        body = self._body("held") if self.told == "held" else self._body()
        return (429 if after else status), after, body

    def reply(self) -> bytes:
        """The payload of a reply over NATS."""
        return self._body(self.told, retry_after=self.retry_after)

    def _body(self, outcome: str | None = None, *, retry_after: int | None = None) -> bytes:
        fields: dict[str, Jsonable] = {"outcome": outcome, "cost": self.cost, "retry_after": retry_after}
        return dumps({name: value for name, value in fields.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Report:
    """What an executor reports of an attempt that it had accepted; ``rightly``: the token is the attempt's."""

    key: FireKey
    attempt: int
    token: str
    outcome: Reported
    cost: int
    rightly: bool = True

    def record(self) -> AttemptReported:
        """What the log should hold of it."""
        key = self.key
        return AttemptReported(
            tenant=key.tenant,
            trigger=key.trigger,
            scheduled=key.scheduled,
            sequence=key.sequence,
            attempt=self.attempt,
            result="final" if self.outcome == "failed" else self.outcome,
            cost=self.cost,
        )

    def body(self) -> bytes:
        """As it is sent to control."""
        return dumps(
            {
                "key": str(self.key),
                "attempt": self.attempt,
                "token": self.token,
                "outcome": self.outcome,
                "cost": self.cost,
            }
        )


Script = Callable[[FireKey, int], tuple[float, Answer]]
"""Tells of an attempt's call how long it takes (seconds) and how it is answered."""


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
    answers: Script | None = None
    """Given, counts more than ``script``."""
    reported: Callable[[Report], Awaitable[None]] | None = None
    """Takes a report to control, and returns once it is recorded or refused."""
    surprising: bool = True
    """Whether healthy executors do something else now and then."""
    beat_s: float = 0.0
    """Runs end at whole multiples of this, if it is not 0, so that many results come at once."""
    _reports: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def perform(self, key: FireKey, attempt: int, caller: str, token: str = "") -> Answer:
        """Do the work of one call and answer it."""
        took_s, answer = self._answer(key, attempt)
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
        if answer.told == "accepted" and self.answers is None:
            self._report_later(key, attempt, token)
        return answer

    def _answer(self, key: FireKey, attempt: int) -> tuple[float, Answer]:
        if self.answers is not None:
            return self.answers(key, attempt)
        if self.script is not None:
            return self.script(key), Answer()
        random = self.random
        mood: Mood = self.mood if random.random() < 0.8 else "healthy"
        if mood == "healthy" and self.surprising:
            draw = random.random()
            mood = _surprise(draw)
        told: Told = "succeeded"
        match mood:
            case "failing" | "busy":
                told = "retryable"
            case "refusing":
                told = "failed"
            case "asking":
                told = "held"
            case "reporting":
                told = "accepted"
            case _:
                pass
        after = random.choice(RETRY_AFTER_S) if mood == "busy" else None
        cost = random.randrange(COST_MAX) if random.random() < 0.5 else None
        return self._takes_s(mood), Answer(told, after, cost)

    # Reports

    def _report_later(self, key: FireKey, attempt: int, token: str) -> None:
        random = self.random
        outcome = random.choice(REPORTS)
        report = Report(key, attempt, token, outcome, random.randrange(COST_MAX))
        delays_s = [random.choice(REPORTED_AFTER_S)]
        reports = [report]
        if random.random() < 0.3:
            # The same once more, or something else.
            reports.append(replace(report, outcome=random.choice((outcome, *REPORTS))))
            delays_s.append(random.choice(REPORTED_AFTER_S))
        if random.random() < 0.25:
            reports.append(replace(report, token=token[::-1], outcome="failed", rightly=False))
            delays_s.append(random.choice(REPORTED_AFTER_S))
        for delay_s, each in zip(delays_s, reports, strict=True):
            self.report_soon(each, delay_s)

    def report_soon(self, report: Report, delay_s: float) -> None:
        """Report after a while, whatever becomes of the call."""
        task = asyncio.get_running_loop().create_task(self._report(report, delay_s))
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    async def _report(self, report: Report, delay_s: float) -> None:
        await wait(delay_s)
        assert self.reported is not None, "an executor that accepts needs somebody who takes reports"
        await self.reported(report)

    def give_up_reports(self) -> None:
        """Report nothing more."""
        for task in tuple(self._reports):
            task.cancel()

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


def _surprise(draw: float) -> Mood:
    """What a healthy executor does at this draw from [0, 1)."""
    for until, mood in SURPRISES:
        if draw < until:
            return mood
    return "healthy"


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
        answer = await self._executors.perform(key, attempt, self._caller, headers.get(TOKEN_HEADER, ""))
        return Reply(answer.reply(), {})


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
        token = call.report_headers.get(TOKEN_HEADER, "")
        answer = await self._executors.perform(call.key, call.attempt, self._caller, token)
        return read_response(*answer.http())
