"""The store's own streams: made when missing and allowed, then compared setting by setting."""

from ..errors import BrokerUnavailable
from ..jetstream.comparison import refuse, stream_differences
from ..jetstream.connection import BrokerConnection
from ..jetstream.leader import ApiError, raise_error
from ..jetstream.topology import StreamSettings
from ..json_edge import Json, MalformedJson, dumps, loads

_NOT_FOUND = 10059
_IN_USE = 10058
_HINT = "create it as this release needs it, set JETSTREAM_CREATE_STREAMS, or name another with JETSTREAM_STREAM"


async def ensure_stream(
    connection: BrokerConnection, settings: StreamSettings, *, create: bool, timeout_s: float
) -> None:
    """Create the stream when it is missing and ``create`` allows it; refuse one with other settings.

    Nothing is ever altered. Raises SettingsDiffer with a line per difference, BrokerUnavailable, BrokerRefused.
    """
    config = await _config(connection, settings.name, timeout_s)
    if config is None and create:
        answer = await _ask(connection, f"STREAM.CREATE.{settings.name}", settings.as_request(), timeout_s)
        # Another process may have been faster; the comparison judges what it made.
        if _error(answer).err_code != _IN_USE:
            _check(answer, settings.name)
        config = await _config(connection, settings.name, timeout_s)
    refuse(stream_differences(settings, config), hint=_HINT)


async def _config(connection: BrokerConnection, stream: str, timeout_s: float) -> Json:
    answer = await _ask(connection, f"STREAM.INFO.{stream}", None, timeout_s)
    if _error(answer).err_code == _NOT_FOUND:
        return None
    _check(answer, stream)
    return answer.get("config")


async def _ask(connection: BrokerConnection, operation: str, content: Json, timeout_s: float) -> dict[str, Json]:
    body = b"" if content is None else dumps(content)
    reply = await connection.request(f"$JS.API.{operation}", body, timeout_s=timeout_s)
    try:
        answer = loads(reply.payload)
    except MalformedJson as error:
        raise BrokerUnavailable(f'the broker\'s answer to "{operation}" is {error}') from error
    return answer if isinstance(answer, dict) else {}


def _check(answer: dict[str, Json], stream: str) -> None:
    error = _error(answer)
    raise_error(error if error.code else None, stream)


def _error(answer: dict[str, Json]) -> ApiError:
    match answer.get("error"):
        case {"code": int(code), "err_code": int(err_code), "description": str(description)}:
            return ApiError(code, err_code, description)
        case _:
            return ApiError()
