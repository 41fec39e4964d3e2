"""Streams, rights and borders that are not as the table says are refused with a diff."""

import asyncio
import os
import signal

import pytest

from fireledger.runners.errors import BrokerUnavailable, ExitStatus, SettingsDiffer
from fireledger.runners.jetstream.connection import Login
from fireledger.runners.jetstream.provisioning import provision, verify, verify_accounts
from fireledger.runners.jetstream.topology import access_table, stream_table
from tests.integration.brokers import TENANTS, RunningBroker, bare_connection
from tests.waiting import until

pytestmark = pytest.mark.integration


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
    altered = {**settings, "max_age": 3_600_000_000_000, "republish": {"src": "book.>", "dest": "copy.>"}}
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

    async def refused() -> bool:
        try:
            await verify(dispatcher)
        except SettingsDiffer as differ:
            assert 'user "dispatcher": publish.allow: expected nothing, is "book.*.*"' in differ.message
            return True
        return False

    await until(refused, timeout_s=3.0, what="the refusal of the altered rights")
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

    async def refused() -> bool:
        try:
            await verify_accounts(broker.login("system"), tenants=TENANTS)
        except SettingsDiffer as differ:
            assert 'is "book.*.* to CONTROL,DISPATCHER,SCHEDULER"' in differ.message
            return True
        return False

    await until(refused, timeout_s=3.0, what="the refusal of the opened border")


@pytest.mark.asyncio
async def test_a_broker_without_disk_syncs_is_refused(bare_broker: RunningBroker) -> None:
    """An acknowledgement from the page cache is none."""
    path = bare_broker.folder.config_path
    path.write_text(path.read_text().replace('"sync_interval":"always"', '"sync_interval":"2m"'))
    os.kill(bare_broker.pid, signal.SIGHUP)
    with pytest.raises((SettingsDiffer, BrokerUnavailable)):
        await until(lambda: _syncs(bare_broker), timeout_s=0.5, what="nothing")


async def _syncs(broker: RunningBroker) -> bool:
    await verify_accounts(broker.login("system"), tenants=TENANTS)
    return False


@pytest.mark.asyncio
async def test_an_unreachable_broker_and_a_wrong_password_are_told(bare_broker: RunningBroker) -> None:
    """Both are errors that name user and address, never the password."""
    for login in (
        Login("nats://127.0.0.1:1", "scheduler", "not-the-password"),
        Login(bare_broker.url, "scheduler", "not-the-password"),
    ):
        with pytest.raises(BrokerUnavailable, match=f'user "scheduler" at "{login.url}"') as refused:
            await verify(login)
        assert "not-the-password" not in str(refused.value)
        assert refused.value.hint
