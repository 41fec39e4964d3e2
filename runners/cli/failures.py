"""The one place where a failure becomes words on stderr and an exit status."""

import click

from ..control.refusals import ScheduleRefused, from_value_error
from ..errors import ExitStatus, OperationalError
from .arguments import check_repeats, check_text
from .output import on_one_line
from .usage import HintedUsageError

INTERRUPTED = 130
TEXT_SHOWN_MAX = 300
"""Characters of a refused schedule that are repeated: more than any that is read."""


class FailingGroup(click.Group):
    """The root: whatever a command raises ends as ``error:``, ``hint:`` and the contract's exit status."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Check what holds for the arguments of every command, and read the root's own options."""
        given = list(args)
        try:
            check_text(given)
            context = super().make_context(info_name, args, parent, **extra)
            check_repeats(self, context, given)
            return context
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
    click.echo(f"error: {on_one_line(error.message)}", err=True)
    if isinstance(error, ScheduleRefused) and error.position is not None:
        # Tabs and line breaks would move the mark away from what it points at.
        text = "".join(each if each.isprintable() else " " for each in error.text[:TEXT_SHOWN_MAX])
        click.echo(f"  {text}", err=True)
        click.echo(f"  {' ' * error.position}{'^' * max(1, len(error.token))}", err=True)
    if error.hint:
        click.echo(f"hint: {on_one_line(error.hint)}", err=True)
    return int(error.exit_status)


def _tell_usage(error: click.UsageError) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return ExitStatus.USAGE
    message = error.format_message().rstrip(".")
    lines = (on_one_line(line.expandtabs(2)) for line in f"{message[:1].lower()}{message[1:]}".splitlines())
    click.echo("error: " + "\n".join(lines), err=True)
    path = error.ctx.command_path if error.ctx is not None else "fireledger"
    hint = error.hint if isinstance(error, HintedUsageError) else f"see {path} --help"
    click.echo(f"hint: {hint}", err=True)
    return ExitStatus.USAGE
