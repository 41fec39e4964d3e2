"""How much of the machine others used, and when: a promise about time on an idle machine is judged by what was idle.

Other tests run at the same time, and other people's work may. What they do can begin at any moment, so it is looked
at all along, and only what happened in a quiet stretch is judged.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fireledger.domain.instants import SECOND
from fireledger.runners.clock import realtime
from fireledger.runners.lifecycle import pause

LOOK_EVERY_S = 0.5
QUIET_SHARE = 0.15
"""Others may use this share of all processors: less than a third of one of two."""
BEFORE = SECOND
"""So long before a stretch it must have been quiet already: what piled up takes time to be done."""


@dataclass(frozen=True)
class _Look:
    """Processor time so far, in the kernel's ticks: all there was, what anybody used, what this process's tree used."""

    at: int
    all: int
    used: int
    own: int


@dataclass
class Others:
    """What others used while ``watching_others`` looked."""

    looks: list[_Look] = field(default_factory=list[_Look])

    def look(self) -> None:
        """Look now. A look right after another takes its place: so short a time tells nothing."""
        now = _look()
        if len(self.looks) > 1 and now.at - self.looks[-1].at < LOOK_EVERY_S * SECOND / 2:
            self.looks.pop()
        self.looks.append(now)

    def share(self, begin: int, end: int) -> float:
        """The largest share of the processors that others used in any part of a stretch; 1 where nobody looked."""
        pairs = [(a, b) for a, b in zip(self.looks, self.looks[1:], strict=False) if b.at > begin and a.at < end]
        if not pairs or pairs[0][0].at > begin or pairs[-1][1].at < end:
            return 1.0
        return max((b.used - a.used - (b.own - a.own)) / (b.all - a.all) if b.all > a.all else 1.0 for a, b in pairs)

    def quiet(self, begin: int, end: int) -> bool:
        """Whether nobody else worked between two instants, in microseconds, nor right before."""
        known_since = self.looks[0].at if self.looks else begin
        return self.share(min(max(begin - BEFORE, known_since), begin), end) <= QUIET_SHARE

    def within(self, began: int, limit_s: float) -> bool:
        """Whether at most ``limit_s`` have passed since ``began``. If others worked meanwhile, any time will do."""
        now = realtime()
        self.look()
        return now - began <= limit_s * SECOND or not self.quiet(began, now)


@asynccontextmanager
async def watching_others() -> AsyncGenerator[Others, None]:
    """Look again and again while the block runs, and once more at its end."""
    others, stop = Others(), asyncio.Event()
    others.look()

    async def watch() -> None:
        """Look until told to stop."""
        while not await pause(LOOK_EVERY_S, stop):
            others.look()

    watch_task = asyncio.create_task(watch())
    try:
        yield others
    finally:
        stop.set()
        await watch_task
        others.look()


def _look() -> _Look:
    ticks = [int(text) for text in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return _Look(realtime(), sum(ticks), sum(ticks) - idle, _own_ticks())


def _own_ticks() -> int:
    """Processor time of this process and of everything it started, what has ended and was waited for included."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(int(text) for text in fields[11:15])
    return sum(used for pid, used in ticks.items() if _descends(pid, parents))


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid == os.getpid():
            return True
        pid = parents.get(pid, 0)
    return False
