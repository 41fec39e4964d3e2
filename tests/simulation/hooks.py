"""What a run takes from outside its world: zone data, and what stands in the place of the machine's own."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import cast
from unittest import mock

from fireledger.domain.due import due_beside_waiting
from fireledger.domain.state import State, TriggerState
from fireledger.domain.zones import ZoneDatabase, ZoneLibrary
from fireledger.runners.clock import Reading
from fireledger.runners.scheduler.scheduler import Scheduler
from fireledger.runners.zone_package import load_packaged_zones
from tests.simulation.broker import wait
from tests.simulation.sharing import SharedFolds
from tests.simulation.workload import ZONES

_Round = Callable[[Scheduler, asyncio.TaskGroup, Reading], Awaitable[None]]
_DECIDE_ROUND = cast("_Round", Scheduler.__dict__["_decide_round"])


def partialmethod_of(round_of: _Round) -> _Round:
    """A function that, in a class, becomes a method again."""

    async def method(scheduler: Scheduler, tasks: asyncio.TaskGroup, reading: Reading) -> None:
        """Pass on."""
        await round_of(scheduler, tasks, reading)

    return method


@cache
def zone_library() -> ZoneLibrary:
    """The zones of runs: the packaged data, and a later version in which Rome and New York have moved by an hour."""
    packaged = load_packaged_zones()
    now = {name: packaged.content(name) for name in ZONES}
    moved = {**now, "Europe/Rome": packaged.content("Etc/GMT-3"), "America/New_York": packaged.content("Etc/GMT+3")}
    return ZoneLibrary(ZoneDatabase("2026z", moved), ZoneDatabase(packaged.version, now))


def database_versions() -> tuple[ZoneDatabase, ZoneDatabase]:
    """The packaged zones, and the moved ones."""
    moved, packaged = sorted(zone_library(), key=lambda database: database.version, reverse=True)
    return packaged, moved


@dataclass
class Hooks:
    """What a run puts in the place of what runners take from the machine, or what never fails by itself."""

    random: Random
    actions: Counter[str] = field(default_factory=Counter[str])
    """Log lines by their action."""
    poisoned: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Triggers that nobody can decide at present."""
    slow_rounds: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds by which each round of deciding of a scheduler takes longer, by its runner id."""
    shared: SharedFolds = field(default_factory=SharedFolds)

    def token_hex(self, size: int) -> str:
        """As ``secrets.token_hex``, from the seed."""
        return self.random.randbytes(size).hex()

    def due_beside_waiting(self, state: State, trigger: TriggerState, zones: ZoneLibrary) -> int | None:
        """When the trigger is due, unless it is poisoned."""
        if (state.tenant, trigger.name) in self.poisoned:
            raise ValueError("poisoned")
        return due_beside_waiting(state, trigger, zones)

    async def decide_round(self, scheduler: Scheduler, tasks: asyncio.TaskGroup, reading: Reading) -> None:
        """As the scheduler's own, and then the machine is busy with something else."""
        await _DECIDE_ROUND(scheduler, tasks, reading)
        slow_s = self.slow_rounds.get(scheduler.snapshot().runner, 0.0)
        if slow_s:
            await wait(slow_s)

    @contextmanager
    def placed(self) -> Generator[None, None, None]:
        """Put them in place."""

        def note(_log: object, _level: int, action: str, _fields: dict[str, object]) -> None:
            """Count a log line."""
            self.actions[action] += 1

        with (
            mock.patch("fireledger.runners.identity.secrets", self),
            mock.patch("fireledger.runners.logs._NamedLog._write", note),
            mock.patch("fireledger.domain.tick.due_beside_waiting", self.due_beside_waiting),
            mock.patch.object(Scheduler, "_decide_round", partialmethod_of(self.decide_round)),
            self.shared.placed(),
        ):
            yield
