"""The live view of ``fireledger up``: the newest fires of every tenant, as they happen. On a terminal only."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ..control_client import ControlClient
from ..errors import OperationalError
from ..json_edge import Json
from ..lifecycle import pause
from .following import RETRY_S, WAIT_S, Patience

ROWS_SHOWN_MAX = 24
ROWS_SHOWN_MIN = 4
LINES_AROUND = 8
"""Lines of the view that are not fires; a low terminal shows fewer fires."""
ROWS_REMEMBERED_MAX = 2_000
"""Fires that the counts are of: the newest that this view has seen."""
TENANTS_SHOWN_MAX = 8
"""Tenants that are followed; the view is for looking, ``fires follow`` is for following."""
REFRESH_PER_S = 4
TENANTS_EVERY_S = 1.0
NAME_WIDTH_MIN = 10
NAME_WIDTH_MAX = 40
OTHERS_WIDTH = 84
"""Columns that everything but the trigger's name takes; the name gets the rest, and is shortened to it."""

_COLUMNS = ("trigger", "scheduled", "decided", "dispatched", "late ms", "delay ms", "state", "outcome")
_RIGHT = frozenset({"late ms", "delay ms"})
_STYLES = {
    "succeeded": "green",
    "failed": "red",
    "retryable": "red",
    "final": "red",
    "unknown": "yellow",
    "held": "yellow",
    "calling": "cyan",
}
_Row = dict[str, Json]


class LiveView:
    """Follows fires and draws them until told to stop."""

    def __init__(self, client: ControlClient, *, broker: str, logs: str) -> None:
        """``broker`` and ``logs`` are shown: where it runs, and where its logs are."""
        self._client = client
        self._broker = broker
        self._logs = logs
        self._tenants: list[str] = []
        self._rows: OrderedDict[str, _Row] = OrderedDict()
        self._trouble = ""

    async def run(self, stop: asyncio.Event) -> None:
        """Draw until ``stop``. Control being away is shown, not raised."""
        console = Console()
        with Live(
            self.drawn(console.width, console.height), console=console, auto_refresh=False, transient=True
        ) as live:
            watching = asyncio.create_task(self._watch_tenants(stop))
            try:
                while not await pause(1 / REFRESH_PER_S, stop):
                    live.update(self.drawn(console.width, console.height), refresh=True)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    async def _watch_tenants(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            followed: set[str] = set()
            while not stop.is_set():
                await self._look_for_tenants()
                for tenant in self._tenants[:TENANTS_SHOWN_MAX]:
                    if tenant not in followed:
                        followed.add(tenant)
                        group.create_task(self._follow(tenant, stop))
                await pause(TENANTS_EVERY_S, stop)

    async def _look_for_tenants(self) -> None:
        try:
            answer = await self._client.ask("control.tenant.list", {}, timeout_s=2.0)
        except OperationalError as error:
            self._trouble = error.message
            return
        self._trouble = ""
        names = [str(row["tenant"]) for row in _rows(answer)]
        # Those who are followed already stay, whoever comes before them by name.
        self._tenants += [name for name in names if name not in self._tenants]

    async def _follow(self, tenant: str, stop: asyncio.Event) -> None:
        """Show the newest fires there are, then what changes."""
        position: Json = None
        patience = Patience()
        while not stop.is_set():
            asked: dict[str, Json] = {"tenant": tenant, "after": position, "wait_s": WAIT_S}
            try:
                answer = await self._client.ask("control.fires.follow", asked, timeout_s=patience.timeout_s)
                if position is None:
                    known: dict[str, Json] = {"tenant": tenant, "limit": ROWS_SHOWN_MAX}
                    self.note(reversed(_rows(await self._client.ask("control.fires.list", known))))
            except OperationalError as error:
                patience.failed(error)
                await pause(RETRY_S, stop)
                continue
            patience.answered()
            position = answer.get("position", position) if isinstance(answer, dict) else position
            self.note(_rows(answer))

    def note(self, rows: Iterable[_Row]) -> None:
        """Take in fires, or what has changed of them."""
        for row in rows:
            key = str(row.get("key"))
            self._rows[key] = row
            while len(self._rows) > ROWS_REMEMBERED_MAX:
                self._rows.popitem(last=False)

    def drawn(self, width: int, height: int) -> RenderableType:
        """The view as it is now, for a terminal of so many columns and lines."""
        count = max(ROWS_SHOWN_MIN, min(ROWS_SHOWN_MAX, height - LINES_AROUND))
        newest = sorted(self._rows.values(), key=_order, reverse=True)[:count]
        table = _table(newest, several=len(self._tenants) > 1, name_width=width - OTHERS_WIDTH)
        return Group(self._header(), Text(), table, Text(), self._footer())

    def _header(self) -> Text:
        return Text.from_markup(
            f"[bold]Fireledger[/] on {escape(self._broker)}\n{_counts(self._rows.values())}", overflow="ellipsis"
        )

    def _footer(self) -> Text:
        if self._trouble:
            return Text(self._trouble, style="yellow", no_wrap=True, overflow="ellipsis")
        if not self._tenants:
            return Text("no tenant yet; in another terminal: fireledger tenant create acme", style="dim")
        return Text(f"times are UTC   Ctrl-C stops   logs: {self._logs}", style="dim", overflow="fold")


def _counts(rows: Iterable[_Row]) -> str:
    """What became of the fires, and how late they were, in one line."""
    outcomes: Counter[str] = Counter()
    lateness: list[float] = []
    for row in rows:
        outcomes[_outcome(row) if row.get("state") == "fired" else str(row.get("state"))] += _count(row)
        late = row.get("delay_ms")
        if isinstance(late, int | float) and row.get("lane") == "on-time":
            lateness.append(late)
    counts = " · ".join(f"[{_STYLES.get(name, 'default')}]{name} {number:,}[/]" for name, number in outcomes.items())
    if not lateness:
        return counts or "nothing was due yet"
    lateness.sort()
    middle, high = lateness[len(lateness) // 2], lateness[min(len(lateness) - 1, len(lateness) * 99 // 100)]
    return f"{counts} · delay p50 {middle:,.0f} ms, p99 {high:,.0f} ms"


def _table(rows: list[_Row], *, several: bool, name_width: int) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold underline")
    width = max(NAME_WIDTH_MIN, min(NAME_WIDTH_MAX, name_width))
    for name in _COLUMNS:
        most = width if name == "trigger" else None
        table.add_column(name, no_wrap=True, justify="right" if name in _RIGHT else "left", max_width=most)
    for row in rows:
        outcome = _outcome(row)
        style = _STYLES.get(outcome, "dim")
        table.add_row(*map(escape, _cells(row, several=several)), f"[{style}]{escape(outcome)}[/]")
    return table


def _cells(row: _Row, *, several: bool) -> tuple[str, ...]:
    name = f"{row.get('tenant')}/{row.get('trigger')}" if several else str(row.get("trigger"))
    times = (_time(row.get(column)) for column in ("scheduled", "decided", "dispatched"))
    late, delay = (_milliseconds(row.get(column)) for column in ("lateness_ms", "delay_ms"))
    return (name, *times, late, delay, _state(row))


def _state(row: _Row) -> str:
    """How the instant ended, and why."""
    state, cause, count = str(row.get("state")), row.get("cause"), _count(row)
    said = str(cause) if state in ("fired", cause) else f"{state}: {cause}"
    return f"{said} x{count:,}" if count > 1 else said


def _outcome(row: _Row) -> str:
    known = row.get("outcome") or row.get("result")
    if known is not None or row.get("state") != "fired":
        return str(known or "-")
    return "calling" if row.get("dispatched") else "released"


def _count(row: _Row) -> int:
    count = row.get("count")
    return count if isinstance(count, int) else 1


def _order(row: _Row) -> tuple[str, str]:
    return (str(row.get("scheduled")), str(row.get("key")))


def _time(value: object) -> str:
    """The time of day of an instant, to the millisecond."""
    return value[11:23].rstrip("Z") if isinstance(value, str) else "-"


def _milliseconds(value: object) -> str:
    return f"{value:,.0f}" if isinstance(value, int | float) else "-"


def _rows(answer: Json) -> list[_Row]:
    rows = answer.get("rows") if isinstance(answer, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
