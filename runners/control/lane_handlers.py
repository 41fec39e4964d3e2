"""The requests about lanes: how deep they are, how fast they drain, and declaring that one is expected to be behind."""

from collections.abc import Iterator

from fireledger.domain.commands import Command, DeclareDrain
from fireledger.domain.entries import Lane
from fireledger.domain.identifiers import check_tenant
from fireledger.domain.instants import SECOND, format_instant
from fireledger.domain.state import State
from fireledger.projections.lanes import LANES, LaneDepth, together

from ..clock import Clock
from ..errors import ControlRefused
from ..json_edge import Json, Jsonable
from . import policy_requests as p
from . import requests as r
from .answers import Answer
from .command_handlers import no_tenant
from .commands import Asked, CommandWriter
from .lane_health import lane_now, stopped_count, undispatched_since
from .model import Model
from .policy_options import check_reason, check_worst, read_until

BOOKS_MAX = 50
"""Books that one request declares a drain in; the caller goes on with ``next``."""


class LaneHandlers:
    """One method for each subject. Each raises ControlRefused and other OperationalErrors."""

    def __init__(self, *, writer: CommandWriter, model: Model, clock: Clock) -> None:
        self._writer = writer
        self._model = model
        self._clock = clock

    async def show(self, content: dict[str, Json]) -> Answer:
        """The lanes of all tenants together, then those of the worst tenants; or those of one tenant."""
        request = r.read_request(content, p.LanesShow)
        check_worst(request.worst)
        now = lane_now(self._clock, self._model.lanes)
        if request.tenant is not None:
            return self._of_tenant(request.tenant, now)
        depths = self._model.lanes.depths(now)
        shown = [*together(depths), *_worst(depths, now, request.worst)]
        return {"now": format_instant(now), "rows": [self._row(depth, now) for depth in shown]}

    def _of_tenant(self, tenant: str, now: int) -> Answer:
        if self._model.book(check_tenant(tenant)).state.settings is None:
            raise no_tenant(tenant)
        found = {depth.lane: depth for depth in self._model.lanes.depths(now, tenant)}
        depths = [found.get(lane, LaneDepth(lane, tenant)) for lane in LANES]
        return {"now": format_instant(now), "rows": [self._row(depth, now) for depth in depths]}

    def _row(self, depth: LaneDepth, now: int) -> Answer:
        stopped = self._stopped(depth, now)
        ends = depth.ends_at(now, stopped=stopped)
        oldest = undispatched_since(depth)
        return {
            "lane": depth.lane,
            "tenant": depth.tenant,
            "waiting": depth.waiting,
            "stopped": stopped,
            "released": depth.released,
            "over_quota": depth.over_quota,
            "waiting_age_s": _age_s(depth.waiting_since, now),
            "released_age_s": _age_s(depth.released_since, now),
            "undispatched_age_s": _age_s(oldest, now),
            "releases_per_minute": depth.releases,
            "starts_per_minute": depth.starts,
            "drain_per_s": depth.drain_rate,
            "ends": None if ends is None else format_instant(-(-ends // SECOND) * SECOND),
            "drain": self._drains(depth, now),
        }

    def _stopped(self, depth: LaneDepth, now: int) -> int:
        """How many of the waiting fires their triggers keep; of all tenants the sum."""
        if not depth.waiting:
            return 0
        tenants = self._model.books if depth.tenant is None else (depth.tenant,)
        lanes, books = self._model.lanes, self._model.books
        return sum(stopped_count(lanes, books, depth.lane, tenant, now) for tenant in tenants)

    def _drains(self, depth: LaneDepth, now: int) -> Jsonable:
        """The tenant's declared drain; of all tenants how many declared one, and the longest."""
        if depth.tenant is not None:
            drain = self._model.lanes.drain(depth.tenant, depth.lane, now)
            return None if drain is None else {"until": format_instant(drain.until), "why": drain.why}
        declared = [drain for _, drain in self._model.lanes.drains(depth.lane, now)]
        if not declared:
            return None
        longest = max(declared, key=lambda each: each.until)
        return {"until": format_instant(longest.until), "why": longest.why, "tenants": len(declared)}

    # Declaring a drain

    async def declare_drain(self, content: dict[str, Json]) -> Answer:
        """Declare in every open book that a lane is expected to be behind; one that says so already is left alone."""
        request = r.read_request(content, p.LanesDeclareDrain)
        now = lane_now(self._clock, self._model.lanes)
        until = read_until(request.until, now)
        check_reason(request.why)
        command = DeclareDrain(lane=request.lane, until=until, why=request.why)
        rows: list[Answer] = []
        following: str | None = None
        for tenant in self._tenants(request.after):
            if len(rows) >= BOOKS_MAX:
                following = str(rows[-1]["tenant"])
                break
            rows.append(await self._declare_in(tenant, command))
        return {"lane": request.lane, "until": format_instant(until), "rows": rows, "next": following}

    def _tenants(self, after: str) -> Iterator[str]:
        """Every open book with a tenant, by name."""
        for tenant in sorted(self._model.books):
            state = self._model.books[tenant].state
            if tenant > after and state.settings is not None and not state.closed:
                yield tenant

    async def _declare_in(self, tenant: str, command: DeclareDrain) -> Answer:
        """Declare in one book; a book that refuses does not keep the others from it."""
        await self._writer.catch_up(tenant)
        if self._declared(tenant, command.lane) == (command.until, command.why):
            return {"tenant": tenant, "changed": False, "page": None, "error": None}

        def build(_state: State, _now: int) -> Command:
            """The same whatever the book says."""
            return command

        try:
            done = await self._writer.execute(Asked(tenant, "", b""), build)
        except ControlRefused as error:
            return {"tenant": tenant, "changed": False, "page": None, "error": error.message, "hint": error.hint}
        return {"tenant": tenant, "changed": done.page is not None, "page": done.page, "error": None}

    def _declared(self, tenant: str, lane: Lane) -> tuple[int, str] | None:
        drain = self._model.lanes.drain(tenant, lane, self._model.lanes.stamped_at)
        return None if drain is None else (drain.until, drain.why)


def _worst(depths: list[LaneDepth], now: int, count: int) -> list[LaneDepth]:
    """All lanes of the tenants with the oldest undispatched fire, then with the most; the worst first."""
    behind: dict[str, tuple[int, int]] = {}
    for depth in depths:
        if depth.depth and depth.tenant is not None:
            age, total = behind.get(depth.tenant, (0, 0))
            since = undispatched_since(depth)
            behind[depth.tenant] = (max(age, 0 if since is None else now - since), total + depth.depth)
    worst = sorted(behind, key=lambda tenant: (behind[tenant], tenant), reverse=True)[:count]
    of_tenant: dict[str | None, list[LaneDepth]] = {}
    for depth in depths:
        of_tenant.setdefault(depth.tenant, []).append(depth)
    return [depth for tenant in worst for depth in of_tenant[tenant]]


def _age_s(since: int | None, now: int) -> float | None:
    return None if since is None else max(0, now - since) / SECOND
