"""The demo's NATS executor as a process: ``python -m fireledger.runners.demo.serve_nats URL CREDENTIALS``."""

import asyncio
import sys
from pathlib import Path

from ..broker.credentials import load_credentials
from ..entry_point import run_process
from ..errors import BrokerUnavailable
from ..executor import Answer, NatsExecutor, Work
from ..jetstream.connection import BrokerConnection, Login
from ..lifecycle import Backoff, pause, run_until_signalled, unless_stopped
from ..logs import configure_logs, get_log
from .scenario import DEMO_NATS_NAME, DEMO_TENANT

_log = get_log("demo")


async def _work(work: Work) -> Answer:
    return Answer(message=f"took {len(work.payload)} bytes")


async def _serve(stop: asyncio.Event) -> None:
    credentials = load_credentials(Path(sys.argv[2]))
    login = Login(sys.argv[1], credentials.user, credentials.password)
    connection = await _connected(login, stop)
    if connection is None:
        return
    try:
        await NatsExecutor(connection, DEMO_TENANT, DEMO_NATS_NAME, _work).run(stop)
    finally:
        await connection.close()


async def _connected(login: Login, stop: asyncio.Event) -> BrokerConnection | None:
    backoff = Backoff(0.1, 1.0)
    while not stop.is_set():
        try:
            return await unless_stopped(stop, BrokerConnection.open(login, name="demo-nats"))
        except BrokerUnavailable as error:
            _log.warning("broker-unavailable", reason=error.message)
            await pause(backoff.next_s(), stop)
    return None


if __name__ == "__main__":
    configure_logs("demo-nats", level="warning")
    sys.exit(run_process(lambda: run_until_signalled(_serve)))
