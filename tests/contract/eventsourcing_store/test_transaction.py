"""Transactions: all messages or none, and certainty about which."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

import pytest
import pytest_asyncio

from fireledger.runners.errors import BrokerUnavailable
from fireledger.runners.eventsourcing_store.streams import ensure_stream
from fireledger.runners.jetstream import transaction
from fireledger.runners.jetstream.connection import BrokerConnection, Reply
from fireledger.runners.jetstream.headers import BATCH_COMMIT, BATCH_ID, BATCH_SEQUENCE
from fireledger.runners.jetstream.ledger import Append, Lost
from fireledger.runners.jetstream.reading import scan
from fireledger.runners.jetstream.topology import StreamSettings
from fireledger.runners.jetstream.transaction import BatchTooLarge, TransactionalLedger
from tests.contract.eventsourcing_store.stores import Store

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


@dataclass(frozen=True)
class Stream:
    """A fresh stream and a writer of it."""

    name: str
    prefix: str
    ledger: TransactionalLedger

    def message(self, subject: str, body: str, expected: int = 0, commit_id: str = "c1") -> Append:
        """A message on one of the stream's subjects."""
        return Append(f"{self.prefix}.{subject}", body.encode(), commit_id, expected)

    async def bodies(self) -> list[str]:
        """What the stream holds."""
        return [stored.body.decode() async for stored in scan(self.ledger.connection, self.name)]


@pytest_asyncio.fixture
async def stream(store: Store) -> AsyncGenerator[Stream, None]:
    """A fresh stream and a writer of it."""
    connection = await BrokerConnection.open(store.broker.login(), name="transactions")
    name = f"{store.prefix}-TRANSACTIONS".upper()
    settings = StreamSettings(name=name, subjects=(f"{store.prefix}.*",), allow_atomic=True, deny_purge=True)
    await ensure_stream(connection, settings, create=True, timeout_s=10)
    yield Stream(name, store.prefix, TransactionalLedger(connection, stream=name))
    await connection.close()


async def test_messages_on_one_and_on_many_subjects_are_appended_in_order(stream: Stream) -> None:
    """One expectation for each subject is enough for several messages on it, and none for no message at all."""
    ledger = stream.ledger
    assert await ledger.commit_together([]) == ()
    assert await ledger.commit_together([stream.message("a", "1")]) == (1,)
    chain = [stream.message("a", "2", 1), stream.message("b", "3"), stream.message("a", "4", 1)]
    assert await ledger.commit_together(chain) == (2, 3, 4)
    assert await stream.bodies() == ["1", "2", "3", "4"]


async def test_the_same_transaction_given_again_is_recognised(stream: Stream) -> None:
    """A transaction that is already in the log is answered with the same sequences, not written again."""
    chain = [stream.message("a", "1"), stream.message("a", "2"), stream.message("b", "3")]
    assert await stream.ledger.commit_together(chain) == (1, 2, 3)
    assert await stream.ledger.commit_together(chain) == (1, 2, 3)
    assert await stream.bodies() == ["1", "2", "3"]


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_one_lost_message_takes_all_the_others_with_it(stream: Stream, place: int) -> None:
    """Wherever in the transaction the rival is, nothing is appended, and the rival is named."""
    await stream.ledger.append(stream.message("abc"[place], "rival", commit_id="other"))
    chain = [stream.message(subject, subject) for subject in "abc"]
    outcome = await stream.ledger.commit_together([*chain, stream.message("c", "more")])
    assert isinstance(outcome, Lost)
    assert outcome.rival is not None
    assert outcome.rival.body == b"rival"
    assert await stream.bodies() == ["rival"]


async def test_an_equal_body_of_another_writer_is_a_rival(stream: Stream) -> None:
    """The commit id, not the bytes alone, tells our own messages."""
    await stream.ledger.append(stream.message("b", "same", commit_id="other"))
    assert isinstance(
        await stream.ledger.commit_together([stream.message("a", "x"), stream.message("b", "same")]), Lost
    )


async def test_racing_transactions_over_the_same_subjects_never_mix(stream: Stream) -> None:
    """Of transactions at once on two subjects exactly one succeeds in each round."""
    head = (0, 0)
    for number in range(20):
        rivals = [
            [stream.message("a", f"a{number}", head[0], writer), stream.message("b", f"b{number}", head[1], writer)]
            for writer in ("one", "two", "three", "four")
        ]
        outcomes = await asyncio.gather(*(stream.ledger.commit_together(rival) for rival in rivals))
        (head,) = [(outcome[0], outcome[1]) for outcome in outcomes if isinstance(outcome, tuple)]
    assert await stream.bodies() == [f"{letter}{number}" for number in range(20) for letter in "ab"]


async def test_an_abandoned_batch_is_never_seen_and_blocks_nobody(stream: Stream) -> None:
    """Members of a batch that its writer never finished use no sequence and stop no other writer."""
    for number in (1, 2):
        headers = {BATCH_ID: "abandoned", BATCH_SEQUENCE: str(number)}
        await stream.ledger.connection.publish(f"{stream.prefix}.a", b"left", headers=headers)
    await stream.ledger.connection.flush()
    assert await stream.ledger.commit_together([stream.message("a", "1"), stream.message("a", "2")]) == (1, 2)
    assert await stream.bodies() == ["1", "2"]


async def test_an_answer_lost_on_the_way_is_looked_up(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the acknowledgement does not come, the transaction is found in the log and not written twice."""
    request = BrokerConnection.request
    losses = [BrokerUnavailable("lost on the way")]

    async def lossy(
        connection: BrokerConnection,
        subject: str,
        payload: bytes,
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        reply = await request(connection, subject, payload, timeout_s=timeout_s, headers=headers)
        if losses and headers is not None and BATCH_COMMIT in headers:
            raise losses.pop()
        return reply

    monkeypatch.setattr(BrokerConnection, "request", lossy)
    chain = [stream.message("a", "1"), stream.message("b", "2"), stream.message("b", "3")]
    assert await stream.ledger.commit_together(chain) == (1, 2, 3)
    assert (losses, await stream.bodies()) == ([], ["1", "2", "3"])


async def test_what_no_batch_can_hold_is_refused(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many messages or bytes are refused before anything is sent."""
    with pytest.raises(BatchTooLarge, match="1001 messages"):
        await stream.ledger.commit_together([stream.message("a", str(number)) for number in range(1_001)])
    monkeypatch.setattr(transaction, "BATCH_BYTES_MAX", 3)
    with pytest.raises(BatchTooLarge, match="4 bytes"):
        await stream.ledger.commit_together([stream.message("a", "12"), stream.message("a", "34")])
    assert await stream.bodies() == []
