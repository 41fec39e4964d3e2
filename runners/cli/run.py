"""``fireledger run``: one runner in the foreground, against any broker."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click

from fireledger.domain.instants import Duration, MalformedDuration, parse_duration
from fireledger.domain.limits import PARTITION_COUNT_DEFAULT, SLOT_COUNT

from ..assembly import RunnerOptions, run_control, run_dispatcher, run_scheduler
from ..clock import OnStep
from ..entry_point import run_process
from ..lifecycle import run_until_signalled
from ..logs import configure_logs

STOP_WITHIN_S = 3.0
"""A runner that was told to stop drains in this time."""


def parse_clock_bound(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """Read --clock-bound, or end with a usage error."""
    if value is None:
        return None
    try:
        return parse_duration(value)
    except MalformedDuration as error:
        raise click.BadParameter(str(error)) from error


@click.group()
def run() -> None:
    r"""Run a single runner against any broker.

    \b
    fireledger run scheduler --nats-url nats://10.0.0.5:4222 --creds scheduler.json
    """


_F = TypeVar("_F", bound=Callable[..., None])


def _runner_options(command: _F) -> _F:
    options = (
        click.option("--nats-url", required=True, envvar="FIRELEDGER_NATS_URL", help="The broker's address."),
        click.option(
            "--creds",
            required=True,
            envvar="FIRELEDGER_CREDS",
            type=click.Path(path_type=Path),
            help="The runner's credentials file.",
        ),
        click.option(
            "--clock-bound",
            callback=parse_clock_bound,
            help="Declare the clock's uncertainty, such as 5ms; wins over the kernel's.",
        ),
        click.option(
            "--on-clock-step",
            type=click.Choice(["hold", "accept"]),
            default="hold",
            show_default=True,
            help="What to do when the wall clock jumps: wait for its source, or go on and note it.",
        ),
        click.option(
            "--partitions",
            type=click.IntRange(1, SLOT_COUNT),
            default=PARTITION_COUNT_DEFAULT,
            show_default=True,
            help="Contiguous ranges of tenants that runners share.",
        ),
        click.option(
            "--local", is_flag=True, hidden=True, help="The broker is on this machine: shared clock, loopback targets."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _command(name: str, main: Callable[[RunnerOptions, asyncio.Event], Awaitable[None]], text: str) -> click.Command:
    @click.command(name, help=text)
    @_runner_options
    def start(
        *, nats_url: str, creds: Path, clock_bound: int | None, on_clock_step: OnStep, partitions: int, local: bool
    ) -> None:
        options = RunnerOptions(
            kind=name,
            nats_url=nats_url,
            credentials=creds,
            clock_bound=None if clock_bound is None else Duration(clock_bound),
            on_clock_step=on_clock_step,
            partition_count=partitions,
            local=local,
        )
        configure_logs(name)

        async def until_stopped(stop: asyncio.Event) -> None:
            await main(options, stop)

        raise SystemExit(run_process(lambda: run_until_signalled(until_stopped, drain_s=STOP_WITHIN_S)))

    return start


run.add_command(_command("scheduler", run_scheduler, "Decide what is due, commit it, read it back."))
run.add_command(
    _command("dispatcher", run_dispatcher, "Make the attempts of released fires: the only runner that calls anybody.")
)
run.add_command(_command("control", run_control, "Answer the command line and write commands into books."))
