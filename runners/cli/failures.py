"""The one place where a failure becomes words on stderr and an exit status."""

import click

from ..control.refusals import ScheduleRefused, from_value_error
from ..errors import ExitStatus, OperationalError

INTERRUPTED = 130


class FailingGroup(click.Group):
    """The root: whatever a command raises ends as ``error:``, ``hint:`` and the contract's exit status."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Read the root's own options."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            raise click.exceptions.Exit(_tell_usage(error)) from error

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            status = _tell_usage(error)
        except OperationalError as error:
            status = tell(error)
        except ValueError as error:
            status = tell(from_value_error(error))
        except click.Abort:
            click.echo("error: not confirmed; nothing was changed", err=True)
            status = ExitStatus.REFUSED
        except KeyboardInterrupt:
            status = INTERRUPTED
        raise click.exceptions.Exit(status)


def tell(error: OperationalError) -> int:
    """Say what failed on stderr and return the exit status."""
    click.echo(f"error: {error.message}", err=True)
    if isinstance(error, ScheduleRefused) and error.position is not None:
        # Tabs would move the mark away from what it points at.
        click.echo(f"  {error.text}".replace("\t", " "), err=True)
        click.echo(f"  {' ' * error.position}{'^' * max(1, len(error.token))}", err=True)
    if error.hint:
        click.echo(f"hint: {error.hint}", err=True)
    return int(error.exit_status)


def _tell_usage(error: click.UsageError) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return ExitStatus.USAGE
    message = error.format_message().rstrip(".")
    click.echo(f"error: {message[:1].lower()}{message[1:]}", err=True)
    path = error.ctx.command_path if error.ctx is not None else "fireledger"
    click.echo(f"hint: see {path} --help", err=True)
    return ExitStatus.USAGE
