"""The live view of ``fireledger up``: the newest fires of every tenant, as they happen. On a terminal only."""

import asyncio
from collections import OrderedDict

from rich.console import Console
from rich.live import Live
from rich.table import Table

from ..control_client import ControlClient
from ..errors import OperationalError
from ..json_edge import Json
from ..lifecycle import pause

ROWS_SHOWN_MAX = 18
TENANTS_SHOWN_MAX = 8
"""Tenants that are followed; the view is for looking, ``fires follow`` is for following."""
REFRESH_PER_S = 4
RETRY_S = 1.0

_COLUMNS = ("fire", "scheduled", "decided", "dispatched", "late", "delay", "state", "outcome")
_STYLES = {"succeeded": "green", "failed": "red", "unknown": "yellow"}
_Row = dict[str, Json]


class LiveView:
    """Follows fires and draws them until told to stop."""

    def __init__(self, client: ControlClient, title: str) -> None:
        self._client = client
        self._title = title
        self._rows: OrderedDict[str, _Row] = OrderedDict()
        self._trouble = ""

    async def run(self, stop: asyncio.Event) -> None:
        """Draw until ``stop``. Control being away is shown, not raised."""
        followed: dict[str, asyncio.Task[None]] = {}
        with Live(self._table(), console=Console(), refresh_per_second=REFRESH_PER_S, transient=True) as live:
            try:
                while not await pause(1 / REFRESH_PER_S, stop):
                    for tenant in await self._tenants():
                        if tenant not in followed and len(followed) < TENANTS_SHOWN_MAX:
                            followed[tenant] = asyncio.create_task(self._follow(tenant, stop))
                    live.update(self._table())
            finally:
                for task in followed.values():
                    task.cancel()
                await asyncio.gather(*followed.values(), return_exceptions=True)

    async def _tenants(self) -> list[str]:
        try:
            answer = await self._client.ask("control.tenant.list", {}, timeout_s=2.0)
        except OperationalError as error:
            self._trouble = error.message
            return []
        self._trouble = ""
        return [str(row["tenant"]) for row in _rows(answer)]

    async def _follow(self, tenant: str, stop: asyncio.Event) -> None:
        position: Json = None
        while not stop.is_set():
            try:
                answer = await self._client.ask("control.fires.follow", {"tenant": tenant, "after": position})
            except OperationalError:
                await pause(RETRY_S, stop)
                continue
            position = answer.get("position", position) if isinstance(answer, dict) else position
            for row in _rows(answer):
                self._note(row)

    def _note(self, row: _Row) -> None:
        key = str(row.get("key"))
        self._rows[key] = row
        self._rows.move_to_end(key)
        while len(self._rows) > ROWS_SHOWN_MAX:
            self._rows.popitem(last=False)

    def _table(self) -> Table:
        table = Table(title=self._title, caption=self._trouble or "Ctrl-C stops", expand=True)
        for name in _COLUMNS:
            table.add_column(name, no_wrap=name != "fire", justify="right" if name in ("late", "delay") else "left")
        for row in reversed(self._rows.values()):
            outcome = _outcome(row)
            table.add_row(*_cells(row), f"[{_STYLES.get(outcome, 'dim')}]{outcome}[/]")
        return table


def _cells(row: _Row) -> tuple[str, ...]:
    name = f"{row.get('tenant')}/{row.get('trigger')}"
    count = row.get("count")
    times = (_time(row.get(column)) for column in ("scheduled", "decided", "dispatched"))
    late, delay = (_milliseconds(row.get(column)) for column in ("lateness_ms", "delay_ms"))
    state = str(row.get("state")) + (f" ×{count}" if isinstance(count, int) and count > 1 else "")
    return (name, *times, late, delay, f"{state} ({row.get('cause')})")


def _outcome(row: _Row) -> str:
    return str(row.get("outcome") or row.get("result") or ("in progress" if row.get("dispatched") else "–"))


def _time(value: object) -> str:
    """The time of day of an instant, to the millisecond."""
    return value[11:23].rstrip("Z") if isinstance(value, str) else "–"


def _milliseconds(value: object) -> str:
    return f"{value:,.0f} ms" if isinstance(value, int | float) else "–"


def _rows(answer: Json) -> list[_Row]:
    rows = answer.get("rows") if isinstance(answer, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
