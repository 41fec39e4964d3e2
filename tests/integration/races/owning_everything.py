"""A scheduler or a dispatcher in a process of its own that believes it owns everything.

Run as ``python -m tests.integration.races.owning_everything KIND URL CREDENTIALS NAME [freeze]``. A scheduler with
``freeze`` stops itself (SIGSTOP) between the decision and the append, the first time it has pages of two books to
append at once; woken, it goes on as if nothing had happened. When told to stop, it logs what it did.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from fireledger.domain.instants import MILLISECOND, Duration
from fireledger.runners.broker.credentials import load_credentials
from fireledger.runners.clock import Clock, choose_clock
from fireledger.runners.dispatcher.dispatcher import Dispatcher
from fireledger.runners.dispatcher.policy import TargetPolicy
from fireledger.runners.entry_point import run_process
from fireledger.runners.jetstream.connection import BrokerConnection, Login
from fireledger.runners.jetstream.ledger import Append, Committed, Ledger, Lost
from fireledger.runners.jetstream.reader import PullReader
from fireledger.runners.lifecycle import run_until_signalled
from fireledger.runners.logs import configure_logs, get_log
from fireledger.runners.scheduler.scheduler import Scheduler
from tests.integration.scheduler.harness import BEGINNING, ZONES, OwnsEverything

_log = get_log("owner")


class StoppingLedger(Ledger):
    """Stops the process once, with the first pages of two books in hand."""

    armed = True

    async def append_many(self, appends: Sequence[Append]) -> list[Committed | Lost]:
        """Stop, and append only when woken."""
        if self.armed and len(appends) == 2:
            self.armed = False
            _log.warning("pages-in-hand", count=len(appends))
            os.kill(os.getpid(), signal.SIGSTOP)
        return await super().append_many(appends)


async def _run(stop: asyncio.Event) -> None:
    kind, url, path, name, *options = sys.argv[1:]
    credentials = load_credentials(Path(path))
    connection = await BrokerConnection.open(Login(url, credentials.user, credentials.password), name=name)
    try:
        if kind == "scheduler":
            await _schedule(connection, name, stop, freeze="freeze" in options)
        else:
            await _dispatch(connection, name, stop)
    finally:
        await connection.close()


def _clock() -> Clock:
    return choose_clock(declared=Duration(10 * MILLISECOND), single_machine=True, on_step="accept")


async def _schedule(connection: BrokerConnection, name: str, stop: asyncio.Event, *, freeze: bool) -> None:
    scheduler = Scheduler(
        ledger=(StoppingLedger if freeze else Ledger)(connection),
        reader=PullReader(connection, after=BEGINNING),
        clock=_clock(),
        ownership=OwnsEverything(),
        zones=ZONES,
        runner_id=name,
    )
    await scheduler.run(stop)
    _log.info("owner-ended", conflicts=scheduler.conflict_count, committed=scheduler.committed_count)


async def _dispatch(connection: BrokerConnection, name: str, stop: asyncio.Event) -> None:
    dispatcher = Dispatcher(
        connection=connection,
        ledger=Ledger(connection),
        reader_factory=lambda: PullReader(connection, after=BEGINNING),
        clock=_clock(),
        ownership=OwnsEverything(),
        policy=TargetPolicy(allow_loopback=True),
        runner_id=name,
    )
    await dispatcher.run(stop)
    _log.info("owner-ended", **dispatcher.snapshot())


async def _main() -> int:
    return await run_until_signalled(_run)


if __name__ == "__main__":
    configure_logs("scheduler")
    sys.exit(run_process(_main))
