"""``fireledger``: the root of the command line. Commands are loaded when they are used, so that each starts quickly."""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import click

from .failures import FailingGroup
from .output import examples
from .place import Place, place_options


def _up() -> click.Command:
    from .up import up

    return up


def _run() -> click.Command:
    from .run import run

    return run


def _status() -> click.Command:
    from .status import status

    return status


def _tenant() -> click.Command:
    from .tenant import tenant

    return tenant


def _trigger() -> click.Command:
    from .trigger import trigger

    return trigger


def _fires() -> click.Command:
    from .fires import fires

    return fires


def _lanes() -> click.Command:
    from .lanes import lanes

    return lanes


def _backfill() -> click.Command:
    from .backfill import backfill

    return backfill


def _book() -> click.Command:
    from .book import book

    return book


def _tz() -> click.Command:
    from .tz import tz

    return tz


COMMANDS: dict[str, Callable[[], click.Command]] = {
    "up": _up,
    "status": _status,
    "tenant": _tenant,
    "trigger": _trigger,
    "fires": _fires,
    "lanes": _lanes,
    "backfill": _backfill,
    "book": _book,
    "tz": _tz,
    "run": _run,
}
"""Every command, in the order of the help."""
_WITH_OWN_PLACE = frozenset({"up", "run"})


class Root(FailingGroup):
    """The root, which loads a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command, or None."""
        del ctx
        load = COMMANDS.get(cmd_name)
        return None if load is None else load()


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "fireledger up --demo                                  start everything on this machine",
        'fireledger trigger create acme/nightly --cron "0 2 * * *" --target https://example.com/run',
        "fireledger fires follow acme                          watch what fires",
        'fireledger trigger preview --cron "0 9 * * 1-5" --zone Europe/Rome',
    ),
)
@click.version_option(version("fireledger"), prog_name="fireledger")
@place_options
@click.pass_context
def cli(context: click.Context, data: Path | None, nats_url: str | None, creds: Path | None) -> None:
    """Fireledger: scheduled triggers whose every instant ends as a recorded decision.

    A tenant's triggers say when something is due and who is called; each instant becomes a fire or a non-fire with a
    cause. COMMAND --help tells more, and shows examples.

    Data goes to stdout, everything else to stderr. Exit status: 0 ok, 1 unexpected, 2 wrong command line,
    3 not found, 4 conflict, 5 refused value or command, 6 dependency unavailable.
    """
    context.obj = Place(data, nats_url, creds)
    if context.obj != Place() and context.invoked_subcommand in _WITH_OWN_PLACE:
        raise click.UsageError(f'give --data, --nats-url and --creds after "{context.invoked_subcommand}"')


def main() -> None:
    """Run the command line of this process."""
    cli(prog_name="fireledger")


if __name__ == "__main__":
    main()
