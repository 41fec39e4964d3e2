"""JSON where bytes leave or enter the system: the only module that imports orjson."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import orjson

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A value that was read."""

Jsonable: TypeAlias = "bool | int | float | str | Sequence[Jsonable] | Mapping[str, Jsonable] | None"
"""A value that can be written: integers within 64 bits, no bytes."""


class MalformedJson(ValueError):
    """The bytes are not one JSON value; the message tells the position."""


def dumps(value: Jsonable, *, sort_keys: bool = False) -> bytes:
    """Write compact UTF-8 JSON. Raises TypeError for a value JSON does not have."""
    return orjson.dumps(value, default=_plain, option=orjson.OPT_SORT_KEYS if sort_keys else 0)


def dumps_text(value: Jsonable, *, sort_keys: bool = False) -> str:
    """Write compact JSON as text. Raises TypeError for a value JSON does not have."""
    return dumps(value, sort_keys=sort_keys).decode()


def loads(data: bytes | str) -> Json:
    """Read one JSON value. Raises MalformedJson."""
    try:
        value: Json = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise MalformedJson(f"not a json value: {error}") from error
    return value


def _plain(value: object) -> dict[str, object]:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    raise TypeError(f'a "{type(value).__name__}" has no json form')
