"""What a runner tells of itself beside its heartbeat, for ``status``: what it cannot get done, and its figures.

One key a runner in the bucket ``leases``, written at once when there is something to tell or no longer something to
tell, and now and then when figures have changed.
It counts while the runner's heartbeat does.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from fireledger.domain.instants import SECOND

from .clock import Clock, ClockHeld
from .errors import BrokerUnavailable, SettingsDiffer
from .jetstream.buckets import Bucket
from .lease_plan import LeaseKind
from .lifecycle import pause

LOOK_EVERY_S = 1.0
"""How often a runner is looked at."""
TELL_EVERY_S = 10.0
"""How often numbers are written anew while there is something to tell."""
FIGURES_EVERY_S = 30.0
"""How often figures are written that have changed."""
WAITING_LONG_S = 10
"""Calls that wait for less are a burst: many fires due at once wait a moment for their turn."""
STOP_WITHIN_S = 0.5
"""How long a stop may spend on taking the state back."""


class Blocked(msgspec.Struct, frozen=True, array_like=True):
    """A book in which something is due and nothing can be decided, and why."""

    tenant: str
    reason: str


class RunnerState(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="topic", tag="runner.state.v1"
):
    """What a runner cannot get done, and its ``figures`` by name: counts since the process began, and present numbers.

    ``calls_waiting`` fires wait for a place to be called from, and some have without a break since ``waiting_since``
    (microseconds); ``calls_under_way`` have one. ``blocked`` names the first books that nothing can be decided in.
    """

    runner: str
    calls_waiting: int = 0
    calls_under_way: int = 0
    waiting_since: int | None = None
    blocked: tuple[Blocked, ...] = ()
    figures: dict[str, int] = {}

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to tell."""
        return self.waiting_since is None and not self.blocked

    def news_since(self, told: "RunnerState") -> bool:
        """Whether something else than a number differs."""
        return (self.waiting_since, self.blocked) != (told.waiting_since, told.blocked)


@dataclass(frozen=True, slots=True)
class Seen:
    """A look at a runner: fires that wait for a call, calls under way, books that are blocked, and figures by name."""

    calls_waiting: int = 0
    calls_under_way: int = 0
    blocked: tuple[Blocked, ...] = ()
    figures: Mapping[str, int] = field(default_factory=dict[str, int])


def state_key(kind: LeaseKind, runner: str) -> str:
    """The key of a runner's state."""
    return f"{kind}.state.{runner}"


def read_state(key: str, value: bytes) -> RunnerState:
    """Read a value of the bucket. Raises SettingsDiffer for one of another release."""
    try:
        return msgspec.json.decode(value, type=RunnerState)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SettingsDiffer(
            f'the runner\'s state "{key}" cannot be read: {error}', hint="stop the runners of the other release first"
        ) from error


class StateReport:
    """Looks at one runner and tells what it sees."""

    def __init__(
        self, bucket: Bucket, clock: Clock, *, kind: LeaseKind, runner_id: str, look: Callable[[], Seen]
    ) -> None:
        """``look`` returns at once; it is called from the runner's loop."""
        self._bucket = bucket
        self._clock = clock
        self._kind = kind
        self._key = state_key(kind, runner_id)
        self._look = look
        self._revision = 0
        self._told = RunnerState(runner=runner_id)
        self._told_at = 0.0
        self._waiting_since: int | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Look and tell until ``stop``; then take back what was told. Waits through the broker's absence."""
        await self._forget_others()
        while not await pause(LOOK_EVERY_S, stop):
            await self.turn()
        with suppress(TimeoutError, BrokerUnavailable):
            async with asyncio.timeout(STOP_WITHIN_S):
                if self._revision:
                    await self._bucket.delete_if(self._key, self._revision)

    async def turn(self) -> None:
        """Look once, and write what is news."""
        state = self._state(self._look())
        if not (self._due(state) or state.news_since(self._told)):
            return
        with suppress(BrokerUnavailable):
            written = await self._bucket.put_if(self._key, msgspec.json.encode(state), self._revision)
            if written is None:
                # An earlier write arrived although its answer did not.
                entry = await self._bucket.get(self._key)
                self._revision = 0 if entry is None else entry.revision
                return
            self._revision, self._told, self._told_at = written, state, self._clock.monotonic()

    def _due(self, state: RunnerState) -> bool:
        """Whether numbers that have changed are old enough to be written anew."""
        waited_s = self._clock.monotonic() - self._told_at
        if not state.quiet and waited_s >= TELL_EVERY_S:
            return True
        return state.figures != self._told.figures and (waited_s >= FIGURES_EVERY_S or not self._told.figures)

    def _state(self, seen: Seen) -> RunnerState:
        waited_long = self._waits_since(seen)
        return RunnerState(
            runner=self._told.runner,
            calls_waiting=seen.calls_waiting if waited_long else 0,
            calls_under_way=seen.calls_under_way if waited_long else 0,
            waiting_since=self._waiting_since if waited_long else None,
            blocked=seen.blocked,
            figures=dict(seen.figures),
        )

    def _waits_since(self, seen: Seen) -> bool:
        """Whether calls have been waiting for long; a burst waits a moment, and that is nothing to tell."""
        if not seen.calls_waiting:
            self._waiting_since = None
            return False
        try:
            now = self._clock.now().earliest
        except ClockHeld:
            # How long is not known; a held clock is told of anyway.
            return self._told.waiting_since is not None
        if self._waiting_since is None or now < self._waiting_since:
            self._waiting_since = now
        return now - self._waiting_since >= WAITING_LONG_S * SECOND

    async def _forget_others(self) -> None:
        """Delete what runners left behind that were killed: those without a heartbeat any more."""
        with suppress(BrokerUnavailable):
            beating = {entry.key.rpartition(".")[2] for entry in await self._bucket.entries(f"{self._kind}.runner.")}
            for entry in await self._bucket.entries(f"{self._kind}.state."):
                if entry.key.rpartition(".")[2] not in beating and entry.key != self._key:
                    await self._bucket.delete_if(entry.key, entry.revision)
