"""The demo's NATS executor as a process: ``python -m fireledger.runners.demo.serve_nats URL CREDENTIALS``."""

import asyncio
import sys
from pathlib import Path

from ..broker.credentials import load_credentials
from ..entry_point import run_process
from ..executor import Answer, NatsExecutor, Work
from ..jetstream.connection import Login
from ..joining import join_broker
from ..lifecycle import run_until_signalled
from ..logs import configure_logs
from .scenario import DEMO_NATS_NAME, DEMO_TENANT


async def _work(work: Work) -> Answer:
    return Answer(message=f"took {len(work.payload)} bytes")


async def _serve(stop: asyncio.Event) -> None:
    credentials = load_credentials(Path(sys.argv[2]))
    login = Login(sys.argv[1], credentials.user, credentials.password)
    connection = await join_broker(login, "demo-nats", stop)
    if connection is None:
        return
    try:
        await NatsExecutor(connection, DEMO_TENANT, DEMO_NATS_NAME, _work).run(stop)
    finally:
        await connection.close()


if __name__ == "__main__":
    configure_logs("demo-nats", level="warning")
    sys.exit(run_process(lambda: run_until_signalled(_serve)))
