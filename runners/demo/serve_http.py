"""The demo's HTTP executor as a process: ``python -m fireledger.runners.demo.serve_http PORT``."""

import asyncio
import sys

from ..entry_point import run_process
from ..errors import BrokerUnavailable
from ..lifecycle import run_until_signalled
from ..logs import configure_logs
from .http_executor import HttpExecutor


async def _serve(stop: asyncio.Event) -> None:
    port = int(sys.argv[1])
    try:
        await HttpExecutor(port=port, arrivals_max=1).run(stop)
    except OSError as error:
        raise BrokerUnavailable(
            f'the demo\'s HTTP executor cannot listen on port "{port}": {error.strerror}',
            hint="stop what uses that port; the demo tries again",
        ) from error


if __name__ == "__main__":
    configure_logs("demo-http", level="warning")
    sys.exit(run_process(lambda: run_until_signalled(_serve)))
