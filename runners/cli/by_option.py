"""``--by``: the name under which something done by hand stands in the book."""

import getpass
from collections.abc import Callable
from typing import TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., None])


def by_option(command: _Command) -> _Command:
    """Give a command --by, which is this system's user unless another name is given."""
    return click.option(
        "--by", metavar="NAME", default=_user, help="Who does this, for the book.  [the operating system's user]"
    )(command)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        # A container without an entry for its user.
        raise click.UsageError("missing option '--by': the operating system does not name its user") from error
