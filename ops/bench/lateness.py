"""Lateness of a single trigger at its executor: 60 one-second fires through a real ``fireledger up``.

Run as ``make bench``, on an idle machine. Lateness is the arrival at an HTTP executor minus the scheduled instant, so
it includes the clock's uncertainty, which is waited out.
"""

import asyncio
import re
import statistics
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from fireledger.domain.identifiers import parse_fire_key
from fireledger.domain.instants import MILLISECOND
from fireledger.runners.broker.credentials import credentials_path, load_credentials
from fireledger.runners.broker.folder import DataFolder
from fireledger.runners.control_client import ControlClient
from fireledger.runners.demo.http_executor import HttpExecutor
from fireledger.runners.jetstream.connection import BrokerConnection, Login
from fireledger.runners.jetstream.topology import UserName
from fireledger.runners.lifecycle import pause

FIRES = 60
READY_S = 60
ARRIVALS_S = FIRES + 30
TENANT = "bench"
_READY = re.compile(r'ready data=\S+ broker=(?P<url>\S+) clock="(?P<clock>[^"]+)" epsilon=(?P<epsilon>\S+) .*')


@asynccontextmanager
async def up(data: Path) -> AsyncGenerator[re.Match[str], None]:
    """A whole Fireledger; what its ready line says."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fireledger.runners.cli.main", "up", "--data", str(data)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(READY_S):
            line = (await process.stdout.readline()).decode().strip()
        ready = _READY.fullmatch(line)
        assert ready is not None, f"no ready line but {line!r}"
        yield ready
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def arrivals(url: str, data: Path, executor: HttpExecutor) -> None:
    """Create the trigger and wait until all its fires have arrived."""
    credentials = load_credentials(credentials_path(DataFolder(data).credentials_path, UserName.OPERATOR))
    connection = await BrokerConnection.open(Login(url, credentials.user, credentials.password), name="bench")
    client, never = ControlClient(connection), asyncio.Event()
    await client.ask("control.tenant.create", {"tenant": TENANT})
    await client.ask(
        "control.trigger.create",
        {"tenant": TENANT, "trigger": "tick", "cron": "* * * * * *", "target": executor.url, "max_fires": FIRES},
    )
    async with asyncio.timeout(ARRIVALS_S):
        while executor.requests_count < FIRES:
            await pause(0.2, never)
    await connection.close()


async def main() -> None:
    """Measure and print one line."""
    executor = HttpExecutor()
    await executor.start()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        async with up(data) as ready:
            await arrivals(ready["url"], data, executor)
    await executor.stop()
    late = sorted((each.arrived_at - parse_fire_key(each.key).scheduled) / MILLISECOND for each in executor.arrivals)
    p50, p99 = statistics.median(late), late[len(late) * 99 // 100]
    print(
        f"lateness: {len(late)} one-second fires of one trigger at an HTTP executor: "
        f"p50 {p50:.1f} ms, p99 {p99:.1f} ms (clock {ready['clock']}, epsilon {ready['epsilon']})"
    )


if __name__ == "__main__":
    asyncio.run(main())
