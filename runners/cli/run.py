"""``fireledger run``: one runner in the foreground, against any broker."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from fireledger.domain.instants import Duration, MalformedDuration, parse_duration
from fireledger.domain.limits import (
    BACKFILL_RATE_DEFAULT,
    CATCH_UP_RATE_DEFAULT,
    LANE_RATE_MAX,
    PARTITION_COUNT_DEFAULT,
    SLOT_COUNT,
)

from ..assembly import RunnerOptions, run_control, run_dispatcher, run_scheduler
from ..clock import OnStep
from ..entry_point import run_process
from ..lifecycle import run_until_signalled
from ..logs import configure_logs
from ..scheduler.pacing import LaneRates
from .output import examples

STOP_WITHIN_S = 3.0
"""A runner that was told to stop drains in this time."""
PORT_MAX = 65_535


def parse_clock_bound(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """Read --clock-bound, or end with a usage error."""
    if value is None:
        return None
    try:
        return parse_duration(value)
    except MalformedDuration as error:
        raise click.BadParameter(str(error)) from error


@click.group(
    short_help="Run a single runner against any broker.",
    epilog=examples("fireledger run scheduler --nats-url nats://10.0.0.5:4222 --creds scheduler.json"),
)
def run() -> None:
    """Run a single runner in the foreground, against any broker; fireledger up runs all of them on one machine."""


_Body = Callable[..., None]
_Decorator = Callable[[_Body], _Body]

_REPORT_KEY = click.option(
    "--report-key",
    envvar="FIRELEDGER_REPORT_KEY_FILE",
    type=click.Path(path_type=Path),
    help="The file of the key for reports of outcomes; control and dispatcher need the same. [default: no reports]",
)
_REPORT_URL = click.option(
    "--report-url",
    envvar="FIRELEDGER_REPORT_URL",
    default="",
    help="Where HTTP executors report outcomes: control's address as they reach it. [default: none]",
)
_OUTCOME_PORT = click.option(
    "--outcome-port",
    type=click.IntRange(0, PORT_MAX),
    help="The port on 127.0.0.1 for reports over HTTP; 0 is a free one. [default: over the broker only]",
)

CATCH_UP_RATE = click.option(
    "--catch-up-rate",
    type=click.IntRange(1, LANE_RATE_MAX),
    default=CATCH_UP_RATE_DEFAULT,
    show_default=True,
    help="Catch-up fires released each second, all tenants together.",
)
BACKFILL_RATE = click.option(
    "--backfill-rate",
    type=click.IntRange(1, LANE_RATE_MAX),
    default=BACKFILL_RATE_DEFAULT,
    show_default=True,
    help="Backfill fires released each second, all tenants together.",
)


def _with_options(command: _Body, *more: _Decorator) -> _Body:
    options: tuple[_Decorator, ...] = (
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
        *more,
    )
    for option in reversed(options):
        command = option(command)
    return command


def _command(
    name: str,
    main: Callable[[RunnerOptions, asyncio.Event], Awaitable[None]],
    text: str,
    *more: _Decorator,
) -> click.Command:
    def start(
        *,
        nats_url: str,
        creds: Path,
        clock_bound: int | None,
        on_clock_step: OnStep,
        partitions: int,
        local: bool,
        report_key: Path | None = None,
        report_url: str = "",
        outcome_port: int | None = None,
        catch_up_rate: int = CATCH_UP_RATE_DEFAULT,
        backfill_rate: int = BACKFILL_RATE_DEFAULT,
    ) -> None:
        options = RunnerOptions(
            kind=name,
            nats_url=nats_url,
            credentials=creds,
            clock_bound=None if clock_bound is None else Duration(clock_bound),
            on_clock_step=on_clock_step,
            partition_count=partitions,
            local=local,
            report_key=report_key,
            report_url=report_url,
            outcome_port=outcome_port,
            lane_rates=LaneRates(catch_up=catch_up_rate, backfill=backfill_rate),
        )
        configure_logs(name)

        async def until_stopped(stop: asyncio.Event) -> None:
            await main(options, stop)

        raise SystemExit(run_process(lambda: run_until_signalled(until_stopped, drain_s=STOP_WITHIN_S)))

    epilog = examples(f"fireledger run {name} --nats-url nats://10.0.0.5:4222 --creds {name}.json")
    return click.command(name, help=text, epilog=epilog)(_with_options(start, *more))


run.add_command(
    _command("scheduler", run_scheduler, "Decide what is due, commit it, read it back.", CATCH_UP_RATE, BACKFILL_RATE)
)
run.add_command(
    _command(
        "dispatcher",
        run_dispatcher,
        "Make the attempts of released fires: the only runner that calls anybody.",
        _REPORT_KEY,
        _REPORT_URL,
    )
)
run.add_command(
    _command(
        "control",
        run_control,
        "Answer the command line, write commands into books, and take executors' reports.",
        _REPORT_KEY,
        _OUTCOME_PORT,
    )
)
