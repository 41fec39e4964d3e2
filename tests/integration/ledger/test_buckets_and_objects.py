"""Compare-and-set on keys, and objects by name, on the real broker."""

import asyncio

import pytest

from fireledger.runners.errors import BrokerRefused, LogGap
from fireledger.runners.jetstream import objects as objects_module
from fireledger.runners.jetstream.buckets import Bucket
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.leader import fetch_last
from fireledger.runners.jetstream.objects import CHUNK_BYTES, ObjectStore
from tests.integration.brokers import RunningBroker
from tests.integration.ledger.books import Connect, frozen

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]


async def test_a_key_is_set_only_at_the_expected_revision(connection: BrokerConnection) -> None:
    """Create, create again, set, set with an old revision: the second and the last are lost and change nothing."""
    bucket = Bucket(connection, "leases")
    first = await bucket.put_if("scheduler.a", b"one", 0)
    assert first is not None
    assert await bucket.put_if("scheduler.a", b"two", 0) is None
    second = await bucket.put_if("scheduler.a", b"two", first)
    assert second is not None
    assert await bucket.put_if("scheduler.a", b"three", first) is None
    entry = await bucket.get("scheduler.a")
    assert entry is not None
    assert (entry.key, entry.value, entry.revision) == ("scheduler.a", b"two", second)
    assert await bucket.get("scheduler.b") is None


async def test_one_of_several_racers_gets_the_key_each_time(connect: Connect) -> None:
    """Five racers on three connections, 20 rounds of create, take over, delete: one winner in each step."""
    buckets = [Bucket(await connect("scheduler"), "leases") for _ in range(3)]
    for number in range(20):
        key, revision = f"scheduler.p.{number % 2}", 0
        for step in range(2):
            names = [f"r{number}-{step}-{racer}".encode() for racer in range(5)]
            outcomes = await asyncio.gather(
                *(buckets[racer % 3].put_if(key, name, revision) for racer, name in enumerate(names))
            )
            won = [name for name, outcome in zip(names, outcomes, strict=True) if outcome is not None]
            entry = await buckets[0].get(key)
            assert entry is not None
            assert [entry.value] == won
            revision = entry.revision
        deleted = await asyncio.gather(*(bucket.delete_if(key, revision) for bucket in buckets))
        assert deleted.count(True) == 1
        assert await buckets[1].get(key) is None


async def test_an_unanswered_write_is_found_out(broker: RunningBroker, connection: BrokerConnection) -> None:
    """With the broker frozen for a moment the write is stored once, and its revision is the one returned."""
    bucket = Bucket(connection, "leases")
    with frozen(broker):
        writing = asyncio.create_task(bucket.put_if("scheduler.a", b"one", 0))
        done, _ = await asyncio.wait({writing}, timeout=2.3)
        assert not done
    revision = await writing
    entry = await bucket.get("scheduler.a")
    assert entry is not None
    assert (entry.value, entry.revision, revision) == (b"one", 1, 1)


async def test_entries_are_listed_by_the_beginning_of_their_keys(connection: BrokerConnection) -> None:
    """Whole parts or parts of parts; deleted keys are not listed."""
    bucket = Bucket(connection, "leases")
    for key in ("scheduler.p.1", "scheduler.p.2", "scheduler.p.10", "scheduler.r.1"):
        await bucket.put_if(key, key.encode(), 0)
    assert await bucket.delete_if("scheduler.p.2", 2)
    for prefix, expected in (
        ("", ["scheduler.p.1", "scheduler.p.10", "scheduler.r.1"]),
        ("scheduler.p.", ["scheduler.p.1", "scheduler.p.10"]),
        ("scheduler.p.10", ["scheduler.p.10"]),
        ("scheduler.r.1", ["scheduler.r.1"]),
        ("dispatcher.", []),
    ):
        entries = sorted(await bucket.entries(prefix), key=lambda entry: entry.key)
        assert [entry.key for entry in entries] == expected
        assert entries == [await bucket.get(entry.key) for entry in entries]


async def test_another_kinds_leases_are_out_of_reach(connection: BrokerConnection) -> None:
    """The scheduler's user cannot write a dispatcher's lease."""
    with pytest.raises(BrokerRefused, match="no right"):
        await Bucket(connection, "leases").put_if("dispatcher.a", b"mine", 0)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES * 3 + 17])
async def test_an_object_comes_back_as_it_was(connection: BrokerConnection, size: int) -> None:
    """Empty, small, one chunk, several; a name of any characters; replaced by another put."""
    store, content = ObjectStore(connection, "snapshots"), bytes(number % 251 for number in range(size))
    assert await store.get("a b/c.ä") is None
    await store.put("a b/c.ä", content)
    await store.put("a b/c.ä", content)
    assert await store.get("a b/c.ä") == content
    await store.put("a b/c.ä", content + b"!")
    assert await store.get("a b/c.ä") == content + b"!"


async def test_an_altered_object_is_noticed(connection: BrokerConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk too many under the object's name is an error, not another object."""
    store = ObjectStore(connection, "snapshots")
    await store.put("tz", b"rules")
    chunk = await fetch_last(connection, "OBJ_snapshots", "$O.snapshots.C.*")
    assert chunk is not None
    await connection.request(chunk.stored.subject, b"more", timeout_s=2)
    with pytest.raises(LogGap, match='"tz"'):
        await store.get("tz")
    monkeypatch.setattr(objects_module, "OBJECT_BYTES_MAX", 3)
    with pytest.raises(ValueError, match="at most 3"):
        await store.put("tz", b"rules")
