"""Makes what is missing of the streams and buckets, and refuses a broker that differs from the table.

Nothing is ever altered: a stream with other settings is somebody's decision or somebody's mistake, and a person
has to say which.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from ..errors import BrokerRefused, BrokerUnavailable
from ..json_edge import Json, MalformedJson, dumps, loads
from .comparison import (
    Difference,
    account_differences,
    broker_differences,
    refuse,
    rights_differences,
    stream_differences,
)
from .connection import BrokerConnection, Login
from .topology import (
    LEDGER_ACCOUNT,
    USER_INFO_SUBJECT,
    VOID_ACCOUNT,
    AccessTable,
    Rights,
    StreamSettings,
    access_table,
    stream_table,
)

CONNECT_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 5.0
"""A stream's creation includes a few disk syncs, and an election on a cluster."""

_STREAM_NOT_FOUND = 10059
_STREAM_IN_USE = 10058
_STREAM_HINT = "put the stream's settings back with an administrator's user, or use another broker"
_RIGHTS_HINT = "render the broker's configuration with this release and reload it"


async def provision(login: Login, *, replicas: int = 1, tenants: Sequence[str] = ()) -> None:
    """Create the streams and buckets that are missing, then compare all of them with the table.

    ``login`` must be the administrator's; ``tenants`` get a deduplication bucket for their executors. Doing it
    twice is harmless. Raises SettingsDiffer with a line per difference, BrokerUnavailable, BrokerRefused.
    """
    async with _connection(login) as connection:
        table = stream_table(replicas=replicas, tenants=tenants)
        for settings in table:
            if await _stream_config(connection, settings.name) is None:
                await _create(connection, settings)
        await _refuse_streams(connection, table)


async def verify(login: Login, *, replicas: int = 1, tenants: Sequence[str] = ()) -> None:
    """Compare a user's own rights, and the settings of every stream it may look at, with the table.

    Every runner does this before anything else. ``tenants`` matter for an executor's own user and for the
    administrator. Raises SettingsDiffer with a line per difference, BrokerUnavailable, BrokerRefused.
    """
    rights = access_table(tenants).rights_of(login.user)
    async with _connection(login) as connection:
        reported = _field(await _request(connection, USER_INFO_SUBJECT), "data")
        refuse(rights_differences(rights, reported), hint=_RIGHTS_HINT)
        table = stream_table(replicas=replicas, tenants=tenants)
        await _refuse_streams(connection, [settings for settings in table if _may_look(rights, settings.name)])


async def verify_accounts(login: Login, *, tenants: Sequence[str] = ()) -> None:
    """Compare the borders between the accounts, and the broker's own settings, with the table.

    ``login`` must be the system account's. On a cluster one server answers for itself. Raises SettingsDiffer with a
    line per difference, BrokerUnavailable, BrokerRefused.
    """
    access = access_table(tenants)
    async with _connection(login) as connection:
        server = _field(await _request(connection, "$SYS.REQ.SERVER.PING.VARZ"), "data")
        differences = broker_differences(server)
        for account in _accounts(access):
            differences += await _account_differences(connection, access, account)
        refuse(differences, hint=_RIGHTS_HINT)


def _accounts(access: AccessTable) -> list[str]:
    return [*(rights.account for rights in access.users), VOID_ACCOUNT]


async def _account_differences(connection: BrokerConnection, access: AccessTable, account: str) -> list[Difference]:
    answer = await _request(connection, "$SYS.REQ.SERVER.PING.ACCOUNTZ", {"account": account})
    return account_differences(access, account, _field(_field(answer, "data"), "account_detail"))


def _may_look(rights: Rights, stream: str) -> bool:
    if rights.publish is None:
        return rights.account == LEDGER_ACCOUNT
    return f"$JS.API.STREAM.INFO.{stream}" in rights.publish


async def _refuse_streams(connection: BrokerConnection, table: Sequence[StreamSettings]) -> None:
    differences: list[Difference] = []
    for settings in table:
        differences += stream_differences(settings, await _stream_config(connection, settings.name))
    refuse(differences, hint=_STREAM_HINT)


async def _stream_config(connection: BrokerConnection, stream: str) -> Json:
    """A stream's settings as the broker reports them, or None when it does not exist."""
    answer = await _request(connection, f"$JS.API.STREAM.INFO.{stream}")
    if _error_code(answer) == _STREAM_NOT_FOUND:
        return None
    _check(answer, f'stream "{stream}" cannot be looked at')
    return _field(answer, "config")


async def _create(connection: BrokerConnection, settings: StreamSettings) -> None:
    answer = await _request(connection, f"$JS.API.STREAM.CREATE.{settings.name}", settings.as_request())
    # Another start may have been faster; the comparison that follows judges what it made.
    if _error_code(answer) != _STREAM_IN_USE:
        _check(answer, f'stream "{settings.name}" cannot be created')


def _error_code(answer: Json) -> int:
    code = _field(_field(answer, "error"), "err_code")
    return code if isinstance(code, int) else 0


def _check(answer: Json, what: str) -> None:
    error = _field(answer, "error")
    if error is None:
        return
    text = f"{what}: {_field(error, 'description')} ({_error_code(answer)})"
    status = _field(error, "code")
    if isinstance(status, int) and status >= 500:
        raise BrokerUnavailable(text, hint="check the broker's log, its disk and, on a cluster, its other servers")
    raise BrokerRefused(text, hint="check the user's rights and the broker's limits")


def _field(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None


async def _request(connection: BrokerConnection, subject: str, content: Json = None) -> Json:
    body = b"" if content is None else dumps(content)
    answer = await connection.request(subject, body, timeout_s=REQUEST_TIMEOUT_S)
    try:
        return loads(answer.payload)
    except MalformedJson as error:
        raise BrokerUnavailable(f'the broker\'s answer to "{subject}" is {error}') from error


@asynccontextmanager
async def _connection(login: Login) -> AsyncGenerator[BrokerConnection, None]:
    connection = await BrokerConnection.open(login, name=f"{login.user} checking", connect_timeout_s=CONNECT_TIMEOUT_S)
    try:
        yield connection
    finally:
        await connection.close()
