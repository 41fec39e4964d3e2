"""What holds for the arguments of every command: they are UTF-8, and an option that takes a value stands once."""

import os
from collections.abc import Mapping, Sequence

import click

from .place import CREDENTIALS_VARIABLE, DATA_VARIABLE, URL_VARIABLE
from .usage import HintedUsageError

_HINT = "write it in UTF-8; hand over other bytes in a file: --payload @FILE"
_VARIABLES = (DATA_VARIABLE, URL_VARIABLE, CREDENTIALS_VARIABLE)


def check_text(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    """Refuse an argument, or a variable that stands for one, that is not UTF-8. Raises UsageError naming it."""
    for number, argument in enumerate(arguments, start=1):
        if not _is_text(argument):
            raise HintedUsageError(f"argument {number} is not UTF-8: {_readable(argument)}", hint=_HINT)
    for name in _VARIABLES:
        if not _is_text(environment.get(name, "")):
            raise HintedUsageError(
                f"{name} in the environment is not UTF-8: {_readable(environment[name])}", hint=_HINT
            )


def check_repeats(command: click.Command, context: click.Context, arguments: Sequence[str]) -> None:
    """Refuse an option given twice whose second value would silently replace the first. Raises UsageError naming it.

    Follows the arguments from a group to its command. Whatever else is wrong with them is left to the parsing itself.
    """
    try:
        _, rest, given = command.make_parser(context).parse_args(list(arguments))
    except click.UsageError:
        return
    seen: set[click.Parameter] = set()
    for parameter in given:
        if parameter in seen and _takes_one_value(parameter):
            raise click.UsageError(f"option '{parameter.opts[0]}' is given more than once", ctx=context)
        seen.add(parameter)
    if not isinstance(command, click.Group) or not rest:
        return
    below = command.get_command(context, rest[0])
    if below is not None:
        check_repeats(below, click.Context(below, parent=context, info_name=rest[0]), rest[1:])


def _takes_one_value(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and not (parameter.multiple or parameter.is_flag or parameter.count)


def _is_text(text: str) -> bool:
    """Python keeps a byte that is not UTF-8 as half of a surrogate pair, which no encoder takes."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _readable(text: str) -> str:
    """The argument with its unreadable bytes in hexadecimal."""
    return '"' + "".join(_shown(character) for character in text[:80]) + '"'


def _shown(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character if character.isprintable() else f"\\u{ord(character):04x}"
