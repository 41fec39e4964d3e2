"""``fireledger up``: everything on this machine, in the foreground."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from fireledger.domain.instants import Duration, format_duration

from ..broker.process import EmbeddedBroker
from ..clock import OnStep, choose_clock
from ..demo.scenario import DEMO_TENANT, ensure_demo
from ..entry_point import run_process
from ..errors import BrokerUnavailable, OperationalError
from ..jetstream.topology import executor_user
from ..lifecycle import pause, run_until_signalled
from ..logs import configure_logs, get_log
from ..supervisor.child import ChildCommand, module_command
from ..supervisor.kept_port import choose_port
from ..supervisor.log_output import log_path
from ..supervisor.supervisor import Running, Supervisor, UpOptions
from .live import LiveView
from .output import examples
from .place import DATA_DEFAULT, DATA_VARIABLE
from .run import BACKFILL_RATE, CATCH_UP_RATE, PORT_MAX, parse_clock_bound

DRAIN_S = 4.9
"""``up`` has stopped everything in less than this, or is cut off."""
DEMO_RETRY_S = 0.5

_log = get_log("up")


@click.command(
    epilog=examples(
        "fireledger up --demo                      with a demo tenant and executors to watch",
        "fireledger up --data /srv/fireledger --port 4333",
    )
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help=f"The data folder, created when absent. [env {DATA_VARIABLE}; {DATA_DEFAULT}]",
)
@click.option(
    "--port", type=click.IntRange(0, PORT_MAX), default=0, help="The broker's port on 127.0.0.1. [default: a free one]"
)
@click.option(
    "--outcome-port",
    type=click.IntRange(1, PORT_MAX),
    help="The port on 127.0.0.1 on which executors report outcomes. [default: a free one, kept in the data folder]",
)
@click.option("--demo", is_flag=True, help="Also run a demo tenant with an HTTP and a NATS executor.")
@click.option(
    "--clock-bound",
    callback=parse_clock_bound,
    help="Declare the clock's uncertainty, such as 5ms; wins over the kernel's. At most 100ms.",
)
@click.option(
    "--on-clock-step",
    type=click.Choice(["hold", "accept"]),
    default="accept",
    show_default=True,
    help="When the wall clock jumps: hold until its source attests again, or accept the new time and note it.",
)
@CATCH_UP_RATE
@BACKFILL_RATE
def up(
    *,
    data: Path | None,
    port: int,
    outcome_port: int | None,
    demo: bool,
    clock_bound: int | None,
    on_clock_step: OnStep,
    catch_up_rate: int,
    backfill_rate: int,
) -> None:
    """Start broker, control, scheduler and dispatcher on this machine, and keep them running.

    Prints one line on stdout when everything is ready. Logs go to stderr. The first Ctrl-C drains and stops, the
    second stops at once. A folder has at most one "up"; a second ends with status 4.
    """
    configure_logs("up")
    declared = None if clock_bound is None else Duration(clock_bound)
    clock = choose_clock(declared=declared, single_machine=True, on_step=on_clock_step)
    runner_options = ["--on-clock-step", on_clock_step]
    if declared is not None:
        runner_options += ["--clock-bound", format_duration(declared)]
    folder = data or Path(os.environ.get(DATA_VARIABLE) or DATA_DEFAULT)
    session = _Session(demo=demo, clock_text=clock.description, epsilon=clock.now().epsilon)
    options = UpOptions(
        data=folder,
        port=port,
        outcome_port=outcome_port,
        tenants=(DEMO_TENANT,) if demo else (),
        runner_options=tuple(runner_options),
        scheduler_options=("--catch-up-rate", str(catch_up_rate), "--backfill-rate", str(backfill_rate)),
        logs_to_file=sys.stdout.isatty() and sys.stderr.isatty(),
        extra=session.executors if demo else None,
        overdue=session.overdue,
    )
    status = run_process(lambda: run_until_signalled(session.main(options), drain_s=DRAIN_S))
    if session.refused is not None:
        raise session.refused
    raise SystemExit(status)


class _Session:
    """What ``up`` shows and adds around the supervisor."""

    def __init__(self, *, demo: bool, clock_text: str, epsilon: Duration) -> None:
        self.refused: OperationalError | None = None
        """Why nothing was started; told like any other command's failure."""
        self._demo = demo
        self._clock_text = clock_text
        self._epsilon = epsilon
        self._http_port = 0
        self._stop = asyncio.Event()
        self._started = False

    def main(self, options: UpOptions) -> Callable[[asyncio.Event], Awaitable[None]]:
        """The coroutine function that runs until told to stop."""

        async def run(stop: asyncio.Event) -> None:
            self._stop = stop
            try:
                await Supervisor(options, self._on_ready).run(stop)
            except OperationalError as error:
                if self._started:
                    raise
                self.refused = error

        return run

    def overdue(self) -> None:
        """Tell a person at a terminal, who does not see the logs."""
        if sys.stdout.isatty():
            click.echo("the runners are not ready yet: see the logs, or ask: fireledger status", err=True)

    async def executors(self, broker: EmbeddedBroker, taken: frozenset[int]) -> list[ChildCommand]:
        """The demo's executors."""
        self._http_port = choose_port(broker.folder.demo_port_path, leave_alone=taken)
        credentials = broker.folder.credentials_path / f"{executor_user(DEMO_TENANT)}.json"
        return [
            module_command("demo-http", "fireledger.runners.demo.serve_http", [str(self._http_port)]),
            module_command("demo-nats", "fireledger.runners.demo.serve_nats", [broker.url, str(credentials)]),
        ]

    async def _on_ready(self, running: Running) -> None:
        self._started = True
        if self._demo:
            await self._make_demo(running)
        folder, url = running.broker.folder.path, running.broker.url
        epsilon = format_duration(self._epsilon)
        clock, outcomes = self._clock_text, running.outcome_url
        click.echo(f'ready data={folder} broker={url} clock="{clock}" epsilon={epsilon} outcomes={outcomes}')
        sys.stdout.flush()
        if sys.stdout.isatty():
            logs = str(log_path(folder)) if sys.stderr.isatty() else "stderr"
            await LiveView(running.operator, broker=url, logs=logs).run(self._stop)
            click.echo("stopping; Ctrl-C again stops at once", err=True)

    async def _make_demo(self, running: Running) -> None:
        """Create the demo, however often control goes away meanwhile."""
        while not self._stop.is_set():
            try:
                await ensure_demo(running.operator, f"http://127.0.0.1:{self._http_port}")
            except BrokerUnavailable as error:
                _log.warning("demo-waits", reason=error.message)
                await pause(DEMO_RETRY_S, self._stop)
            else:
                return
