"""A world with a script instead of drawn faults: for cases that say what happens when. The oracle watches as ever."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.definition import Definition, TenantSettings
from fireledger.domain.instants import DAY, SECOND, Instant, format_instant, parse_instant
from fireledger.domain.page import Page, decode_page, is_effective
from fireledger.runners.scheduler.pacing import LaneRates
from tests.simulation.broker import wait
from tests.simulation.hooks import Hooks, database_versions
from tests.simulation.nodes import Node
from tests.simulation.virtual_time import run_virtually
from tests.simulation.workload import DENSE
from tests.simulation.world import World
from tests.unit.domain.given import create

TENANT = "acme"
Script = Callable[["Stage"], Awaitable[None]]


@dataclass(frozen=True)
class Written:
    """A book page as the log holds it; ``at`` is its timestamp."""

    page: Page
    at: int
    effective: bool


class Stage(World):
    """The script's hands: time, processes, commands; and its eyes: what the book says."""

    def __init__(self, start: str, hooks: Hooks, lanes: LaneRates) -> None:
        super().__init__(1, 0.0, DENSE, hooks, start_at=parse_instant(start))
        self.pace_lanes(lanes)
        self.executors.script = lambda _key: 0.02

    # Time

    def instant(self, when: str) -> Instant:
        """Read an instant; a time of day alone lies on the day the stage began."""
        return parse_instant(when if "T" in when else f"{format_instant(self.start_at)[:10]}T{when}Z")

    async def at(self, when: str) -> None:
        """Go on to an instant with everything running."""
        await self.pass_time(max(0.0, (self.instant(when) - self.now()) / SECOND))

    async def away_until(self, when: str) -> None:
        """Go on to an instant with no process running, and start them all: a restart, or a long and empty time."""
        await self.crash(*self.nodes)
        await self.at(when)
        await self.begin(*self.nodes)

    # Processes

    async def crash(self, *nodes: Node) -> None:
        """Kill processes."""
        for node in nodes:
            await node.crash()

    async def begin(self, *nodes: Node) -> None:
        """Start processes that do not run."""
        for node in nodes:
            if not node.running:
                node.start()

    # Commands

    async def create(
        self, definition: Definition, name: str = "t", *, paused: bool = False, tenant: str = TENANT
    ) -> None:
        """Create a trigger."""
        await self.do(tenant, create(definition, name, paused=paused))

    async def open(self, settings: TenantSettings, tenant: str = TENANT) -> None:
        """Begin a tenant's book."""
        packaged, _ = database_versions()
        opening = c.CreateTenant(settings=settings, zone_version=packaged.version, zone_sha256=packaged.sha256)
        await self.do(tenant, opening)

    async def give(self, command: c.Command) -> None:
        """Give a command."""
        await self.do(TENANT, command)

    # What the book says

    def pages(self) -> list[Written]:
        """All pages of the book."""
        found: list[Written] = []
        for message in self.broker.log:
            if message.subject.startswith("book."):
                page = decode_page(message.body)
                found.append(Written(page, message.stamped_at, is_effective(page.inputs, message.stamped_at)))
        return found

    def entries(self) -> list[tuple[int, e.BookEntry]]:
        """Entries that took effect, with their page's timestamp."""
        return [(each.at, entry) for each in self.pages() if each.effective for entry in each.page.entries]

    def short(self, at: int) -> str:
        """An instant: the time alone on the stage's first day."""
        text = format_instant(at // SECOND * SECOND)
        return text[11:-1] if at // DAY == self.start_at // DAY else text

    def story(self, trigger: str = "t") -> list[str]:
        """What was decided of a trigger, in order: kind, instant, cause."""
        lines: list[str] = []
        for _, entry in self.entries():
            match entry:
                case e.FireReleased() | e.FireDecided() | e.FireWithdrawn() if entry.trigger == trigger:
                    kind = {e.FireReleased: "released", e.FireDecided: "waits", e.FireWithdrawn: "withdrawn"}[
                        type(entry)
                    ]
                    lines.append(f"{kind} {self.short(entry.scheduled)} {entry.cause}")
                case e.InstantsResolved() if entry.trigger == trigger:
                    stretch = self.short(entry.first)
                    stretch += f"-{self.short(entry.last)} x{entry.count}" if entry.count > 1 else ""
                    lines.append(f"{entry.state} {stretch} {entry.cause}")
                case _:
                    pass
        return lines

    def released(self, trigger: str = "t") -> list[str]:
        """Scheduled instants of released fires, in order."""
        return [
            self.short(entry.scheduled)
            for _, entry in self.entries()
            if isinstance(entry, e.FireReleased) and entry.trigger == trigger
        ]

    def released_at(self, trigger: str = "t") -> list[str]:
        """When fires were released, in whole seconds of the broker's clock."""
        return [
            self.short(at)
            for at, entry in self.entries()
            if isinstance(entry, e.FireReleased) and entry.trigger == trigger
        ]

    def outcomes(self) -> list[str]:
        """The outcomes of fires, in order."""
        return [
            f"{self.short(entry.scheduled)} {entry.outcome}"
            for _, entry in self.entries()
            if isinstance(entry, e.FireFinished)
        ]

    async def play(self, script: Script, settings: TenantSettings | None) -> None:
        """Open the book, play the script, let things come to rest, and look."""
        for node in self.nodes:
            node.start()
        await self.pass_time(1.0)
        await self.open(settings or TenantSettings())
        await script(self)
        for rate in self.oracle.shared.values():
            rate.check(len(self.schedulers))
        await self.end()


def played(
    start: str, script: Script, settings: TenantSettings | None = None, *, lanes: LaneRates | None = None
) -> Stage:
    """Play a script on a stage that begins a little before ``start``, and return the stage as it is at the end."""
    hooks = Hooks(Random(start))

    async def main() -> Stage:
        """The run."""
        stage = Stage(format_instant(parse_instant(start) - 3 * SECOND), hooks, lanes or LaneRates())
        await stage.play(script, settings)
        return stage

    with hooks.placed():
        return run_virtually(main())


LONG_ENOUGH_S = 30.0
"""After this, leases have moved and what was missed is decided."""


async def rest(seconds: float = LONG_ENOUGH_S) -> None:
    """Let things come to rest."""
    await wait(seconds)
