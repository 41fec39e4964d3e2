"""What the log and the executors say of a span of fires, and whether the two agree."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from fireledger.domain import entries as e
from fireledger.domain.book import Folded
from fireledger.domain.commands import Tick
from fireledger.domain.identifiers import FireKey, parse_fire_key
from fireledger.domain.instants import SECOND, Instant, format_instant
from fireledger.projections.ledger_fold import LedgerFold
from fireledger.runners.clock import realtime
from fireledger.runners.demo.http_executor import HttpExecutor
from fireledger.runners.executor import NatsExecutor, Work
from fireledger.runners.jetstream.reading import scan
from fireledger.runners.jetstream.topology import LEDGER, executor_user
from fireledger.runners.json_edge import Json
from tests.integration.others import Others
from tests.integration.system.system import System

NATS_NAME = "test"
NATS_TARGET = f"nats:{NATS_NAME}"


@dataclass
class Log:
    """The whole LEDGER, folded, with every chain checked: what was decided, released, attempted and concluded."""

    fold: LedgerFold = field(default_factory=lambda: LedgerFold(observing=False))
    decisions: Counter[FireKey] = field(default_factory=Counter[FireKey])
    """How often each instant was decided, to fire or not."""
    released: Counter[FireKey] = field(default_factory=Counter[FireKey])
    attempts: dict[FireKey, list[int]] = field(default_factory=dict[FireKey, list[int]])
    """The numbers of the attempts released, in the order of their pages."""
    started: Counter[FireKey] = field(default_factory=Counter[FireKey])
    resends: Counter[FireKey] = field(default_factory=Counter[FireKey])
    results: Counter[FireKey] = field(default_factory=Counter[FireKey])
    finished: Counter[FireKey] = field(default_factory=Counter[FireKey])
    schedulers: set[str] = field(default_factory=set[str])
    """Who has decided something."""
    ineffective: int = 0

    @property
    def retries_count(self) -> int:
        """Releases of an attempt after the first."""
        return self.released.total() - len(self.released)

    def take(self, folded: Folded) -> None:
        """Take in a book page."""
        if not folded.effective:
            self.ineffective += 1
            return
        tenant = folded.page.tenant
        if isinstance(folded.page.command, Tick):
            self.schedulers.add(folded.page.inputs.owner)
        for entry in folded.page.entries:
            match entry:
                case e.FireReleased():
                    key = _key(tenant, entry)
                    self.released[key] += 1
                    self.attempts.setdefault(key, []).append(entry.attempt)
                    self.decisions[key] += entry.decides
                case e.FireDecided():
                    self.decisions[_key(tenant, entry)] += 1
                case e.FireFinished():
                    self.finished[_key(tenant, entry)] += 1
                case e.InstantsResolved():
                    instants = range(entry.first, entry.last + 1, SECOND)
                    assert len(instants) == entry.count, "a range counts its instants"
                    for scheduled in instants:
                        self.decisions[FireKey(tenant, entry.trigger, Instant(scheduled), 0)] += 1
                case _:
                    pass

    def take_record(self, record: e.AttemptRecord) -> None:
        """Take in an attempt's record."""
        key = _key(record.tenant, record)
        if isinstance(record, e.AttemptStarted):
            self.started[key] += 1
            self.resends[key] += record.resend
        else:
            self.results[key] += 1


def _key(tenant: str, entry: e.FireReleased | e.FireDecided | e.FireFinished | e.AttemptRecord) -> FireKey:
    return FireKey(tenant, entry.trigger, Instant(entry.scheduled), entry.sequence)


async def read_log(system: System) -> Log:
    """Read the LEDGER up to its present end. Raises BrokenChain, LogGap."""
    log = Log()
    connection = await system.connect("replay")
    async for stored in scan(connection, LEDGER):
        folded = log.fold.apply(stored)
        if isinstance(folded, Folded):
            log.take(folded)
        else:
            for record in folded.page.records:
                log.take_record(record)
    await connection.close()
    return log


@dataclass
class Arrivals:
    """What reached the executors of a test: raw, before anything is recognised as a duplicate."""

    http: HttpExecutor
    nats: list[NatsExecutor] = field(default_factory=list[NatsExecutor])
    worked: list[tuple[FireKey, Instant]] = field(default_factory=list[tuple[FireKey, Instant]])

    async def work(self, work: Work) -> None:
        """Do the work of a NATS executor."""
        self.worked.append((work.key, realtime()))

    def all(self) -> list[tuple[FireKey, Instant]]:
        """Fire key and instant of each arrival; a NATS executor's duplicates do not get this far."""
        return [(parse_fire_key(each.key), each.arrived_at) for each in tuple(self.http.arrivals)] + self.worked

    def count(self) -> int:
        """How many arrived."""
        return len(self.http.arrivals) + len(self.worked)

    def early(self) -> list[FireKey]:
        """Those that arrived before their scheduled instant."""
        return [key for key, arrived_at in self.all() if arrived_at < key.scheduled]

    def lateness_ms(self, *, while_quiet: Others | None = None) -> list[float]:
        """Arrival minus scheduled instant of each, sorted; only of those due while nobody else worked, if wanted.

        That is judged up to a second after the instant, and not up to the arrival: a late one must not excuse itself.
        """
        return sorted(
            (arrived_at - key.scheduled) / 1_000
            for key, arrived_at in self.all()
            if while_quiet is None or while_quiet.quiet(key.scheduled, key.scheduled + SECOND)
        )

    def per_key(self) -> Counter[FireKey]:
        """How often each key arrived."""
        return Counter(key for key, _ in self.all())


@asynccontextmanager
async def executors(system: System, *tenants: str) -> AsyncGenerator[Arrivals, None]:
    """An HTTP executor, and a NATS executor for each tenant, in this process."""
    arrivals, stop = Arrivals(HttpExecutor()), asyncio.Event()
    async with AsyncExitStack() as stack:
        await arrivals.http.start()
        stack.push_async_callback(arrivals.http.stop)
        running: list[asyncio.Task[None]] = []
        for tenant in tenants:
            connection = await system.connect(executor_user(tenant))
            executor = NatsExecutor(connection, tenant, NATS_NAME, arrivals.work)
            arrivals.nats.append(executor)
            running.append(asyncio.create_task(executor.run(stop)))
        try:
            yield arrivals
        finally:
            stop.set()
            await asyncio.gather(*running)


@dataclass(frozen=True)
class Span:
    """Per-second triggers that are due at the whole seconds from ``first`` to ``last``, both included."""

    first: Instant
    last: Instant

    @classmethod
    def of(cls, seconds: int, *, begins_in_s: float) -> "Span":
        """A span of so many instants that begins about then."""
        first = (realtime() + round(begins_in_s * SECOND)) // SECOND * SECOND + SECOND
        return cls(Instant(first), Instant(first + (seconds - 1) * SECOND))

    @property
    def left_s(self) -> float:
        """Seconds until the last instant."""
        return (self.last - realtime()) / SECOND

    def bounds(self) -> Mapping[str, Json]:
        """The options that keep a trigger within the span."""
        return {"not_before": format_instant(self.first), "not_after": format_instant(self.last)}

    def keys(self, tenant: str, trigger: str) -> set[FireKey]:
        """The keys that must have a decision each."""
        return {FireKey(tenant, trigger, Instant(at), 0) for at in range(self.first, self.last + 1, SECOND)}


def per_second(
    tenants: tuple[str, ...], each: int, span: Span, targets: tuple[str, ...], **options: Json
) -> tuple[list[dict[str, Json]], set[FireKey]]:
    """Triggers that fire each second, at the targets in turn, and the keys they owe."""
    triggers: list[dict[str, Json]] = []
    keys: set[FireKey] = set()
    for tenant in tenants:
        for number in range(each):
            name, target = f"tick-{number}", targets[number % len(targets)]
            named: dict[str, Json] = {"tenant": tenant, "trigger": name, "cron": "* * * * * *", "target": target}
            triggers.append({**named, "overlap": "allow", **span.bounds(), **options})
            keys |= span.keys(tenant, name)
    return triggers, keys


def quantile(sorted_values: list[float], share: float) -> float:
    """The value below which that share of the sorted values lies."""
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))]
