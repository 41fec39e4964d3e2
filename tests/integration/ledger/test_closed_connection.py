"""What a ledger does when its own connection was closed under it."""

import pytest

from fireledger.runners.errors import BrokerUnavailable
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.ledger import Append, Ledger
from tests.integration.brokers import RunningBroker

pytestmark = pytest.mark.integration


@pytest.mark.asyncio
async def test_an_append_on_a_closed_connection_fails_at_once(broker: RunningBroker) -> None:
    """A closed connection never comes back, so an append says so instead of waiting out its deadline."""
    connection = await BrokerConnection.open(broker.login("scheduler"), name="closing")
    ledger = Ledger(connection)
    await connection.close()
    with pytest.raises(BrokerUnavailable, match="closed"):
        await ledger.append(Append(subject="book.1.acme", body=b"x", commit_id="c", expected_sequence=0))
