"""Streams, rights and borders that are not as the table says are refused with a diff."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

import pytest

from fireledger.runners.errors import BrokerRefused, BrokerUnavailable, ExitStatus, SettingsDiffer
from fireledger.runners.jetstream import provisioning
from fireledger.runners.jetstream.connection import Login
from fireledger.runners.jetstream.provisioning import provision, verify, verify_accounts
from fireledger.runners.jetstream.topology import access_table, stream_table
from fireledger.runners.json_edge import Json
from tests.integration.brokers import TENANTS, RunningBroker, bare_connection
from tests.waiting import until

pytestmark = pytest.mark.integration


async def _refusal(check: Callable[[], Awaitable[None]]) -> SettingsDiffer:
    """Repeat a check until it is refused: in the moment of a reload nobody answers, or every login is refused."""
    refusals: list[SettingsDiffer] = []

    async def refused() -> bool:
        try:
            await check()
        except SettingsDiffer as differs:
            refusals.append(differs)
        except (BrokerUnavailable, BrokerRefused):
            return False
        return bool(refusals)

    await until(refused, what="the refusal")
    return refusals[0]


@pytest.mark.asyncio
async def test_provisioning_twice_changes_nothing(bare_broker: RunningBroker) -> None:
    """The second time finds everything as the table says and makes nothing."""
    admin = bare_broker.login("admin")
    await provision(admin, tenants=TENANTS)
    async with bare_connection(bare_broker, "admin") as connection:
        before = await connection.ask("$JS.API.STREAM.LIST")
        await provision(admin, tenants=TENANTS)
        after = await connection.ask("$JS.API.STREAM.LIST")
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert before["streams"] == [] or before["total"] == after["total"] == len(stream_table(tenants=TENANTS))


@pytest.mark.asyncio
async def test_two_provisioners_at_once_agree(bare_broker: RunningBroker) -> None:
    """Who comes second finds what the first has made."""
    admin = bare_broker.login("admin")
    await asyncio.gather(*(provision(admin, tenants=TENANTS) for _ in range(4)))


@pytest.mark.asyncio
async def test_every_user_finds_its_rights_as_in_the_table(broker: RunningBroker) -> None:
    """What the broker reports for each user's own connection equals the table."""
    users = [rights.user for rights in access_table(TENANTS).users]
    assert len(users) == 10 + len(TENANTS)
    for user in users:
        await verify(broker.login(user), tenants=TENANTS)


@pytest.mark.asyncio
async def test_an_altered_stream_is_refused_with_a_diff(broker: RunningBroker) -> None:
    """A changed limit and an added feature are each one line: stream, setting, expected, actual."""
    settings = stream_table()[0].as_request()
    altered: dict[str, Json] = {
        **settings,
        "max_age": 3_600_000_000_000,
        "republish": {"src": "book.>", "dest": "copy.>"},
    }
    async with bare_connection(broker, "admin") as connection:
        answer = await connection.ask("$JS.API.STREAM.UPDATE.LEDGER", altered)
    assert isinstance(answer, dict)
    assert "error" not in answer
    for refusing in (verify(broker.login("scheduler")), provision(broker.login("admin"), tenants=TENANTS)):
        with pytest.raises(SettingsDiffer) as refused:
            await refusing
        assert refused.value.message.splitlines()[1:] == [
            'stream "LEDGER": max_age: expected 0, is 3600000000000',
            'stream "LEDGER": republish: expected nothing, is {"src":"book.>","dest":"copy.>"}',
        ]
        assert refused.value.exit_status == ExitStatus.CONFLICT
        assert refused.value.hint
    await verify(broker.login("operator"))


@pytest.mark.asyncio
async def test_a_missing_stream_is_refused(bare_broker: RunningBroker) -> None:
    """A runner makes no stream; it says which is missing."""
    with pytest.raises(SettingsDiffer, match='stream "LEDGER": exists: expected true, is false'):
        await verify(bare_broker.login("dispatcher"))


@pytest.mark.asyncio
async def test_altered_rights_are_refused_with_a_diff(broker: RunningBroker) -> None:
    """A user that got a right more, and a border that was opened, are each found and named."""
    path = broker.folder.config_path
    text = path.read_text()
    right = '"attempts.*","$KV.leases.dispatcher.>"'
    assert text.count(right) == 1
    path.write_text(text.replace(right, '"attempts.*","book.*.*","$KV.leases.dispatcher.>"'))
    os.kill(broker.pid, signal.SIGHUP)
    dispatcher = broker.login("dispatcher")

    differs = await _refusal(lambda: verify(dispatcher))
    assert 'user "dispatcher": publish.allow: expected nothing, is "book.*.*"' in differs.message
    await verify(broker.login("scheduler"))


@pytest.mark.asyncio
async def test_an_opened_border_is_refused_with_a_diff(broker: RunningBroker) -> None:
    """An import that is not in the table is found by the system's user."""
    path = broker.folder.config_path
    export = '{"service":"book.*.*","accounts":["CONTROL","SCHEDULER"]}'
    text = path.read_text()
    assert text.count(export) == 1
    path.write_text(text.replace(export, export.replace('"SCHEDULER"', '"SCHEDULER","DISPATCHER"')))
    os.kill(broker.pid, signal.SIGHUP)

    differs = await _refusal(lambda: verify_accounts(broker.login("system"), tenants=TENANTS))
    assert 'is "book.*.* to CONTROL,DISPATCHER,SCHEDULER"' in differs.message


@pytest.mark.asyncio
async def test_an_unreachable_broker_and_a_wrong_password_are_told(
    bare_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are errors that name the address, never the password."""
    monkeypatch.setattr(provisioning, "CONNECT_TIMEOUT_S", 0.3)
    for url in ("nats://127.0.0.1:1", bare_broker.url):
        with pytest.raises((BrokerUnavailable, BrokerRefused), match=f'broker .*at "{url}"') as refused:
            await verify(Login(url, "scheduler", "not-the-password"))
        assert refused.value.exit_status == ExitStatus.UNAVAILABLE
        assert "not-the-password" not in str(refused.value)
        assert refused.value.hint
