"""A wrong command line, told with what to write instead."""

import click


class HintedUsageError(click.UsageError):
    """A wrong command line for which there is better advice than the command's help."""

    def __init__(self, message: str, *, hint: str, ctx: click.Context | None = None) -> None:
        super().__init__(message, ctx)
        self.hint = hint
