"""The factory's settings, the streams it makes and refuses, and the thread its recorders stand on."""

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate
from eventsourcing.persistence import (
    InfrastructureFactory,
    InfrastructureFactoryError,
    InterfaceError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Tracking,
)
from eventsourcing.utils import Environment

from fireledger.runners.eventsourcing_store.link import lease
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.leader import call
from fireledger.runners.json_edge import Json, loads
from tests.contract.eventsourcing_store.stores import MODULE, Store, event
from tests.waiting import until_sync

pytestmark = pytest.mark.integration


def ask(store: Store, operation: str) -> Json:
    """Ask the streams' interface as the store's own user."""
    shared = lease(store.broker.login())
    try:
        return loads(shared.run(lambda connection: call(connection, operation, {})))
    finally:
        shared.close()


def store_threads() -> list[threading.Thread]:
    """The threads of all stores of this process."""
    return [thread for thread in threading.enumerate() if thread.name == "store-store"]


# Settings


@pytest.mark.parametrize(
    "key,value",
    [
        ("NATS_URL", ""),
        ("NATS_CREDS", ""),
        ("NATS_CREDS", "/nowhere/store.json"),
        ("JETSTREAM_REPLICAS", "0"),
        ("JETSTREAM_REPLICAS", "many"),
        ("JETSTREAM_MAX_BATCH", "1001"),
        ("JETSTREAM_MAX_BATCH", "1.5"),
        ("JETSTREAM_TIMEOUT", "-1"),
        ("JETSTREAM_TIMEOUT", "nan"),
        ("JETSTREAM_TIMEOUT", "soon"),
        ("JETSTREAM_CREATE_STREAMS", "perhaps"),
        ("ORIGINATOR_ID_TYPE", "number"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(store: Store, key: str, value: str) -> None:
    """A factory with a missing or impossible setting is not made, and the error names the variable."""
    with pytest.raises(InfrastructureFactoryError, match=f'"{key}"'):
        store.factory(**{key: value})


def test_a_store_needs_a_name(store: Store) -> None:
    """Without an application's name or JETSTREAM_STREAM there is no stream to speak of."""
    with pytest.raises(InfrastructureFactoryError, match='"JETSTREAM_STREAM"'):
        InfrastructureFactory.construct(Environment("", store.env()))


def test_the_applications_name_goes_before_a_setting(store: Store) -> None:
    """A variable with the application's name in front wins over the same one without."""
    recorder = store.recorder("orders", ORDERS_JETSTREAM_MAX_BATCH="1", JETSTREAM_MAX_BATCH="5")
    with pytest.raises(ProgrammingError, match="at most 1"):
        recorder.insert_events([event("a", 1), event("a", 2)])


# Streams


def test_each_application_has_its_own_streams(store: Store) -> None:
    """Names, awkward ones too, give streams of their own; JETSTREAM_STREAM makes two applications share one."""
    names = ("orders", "or.ders", "or ders", "or*")
    for name in names:
        store.recorder(name).insert_events([event("a", 1)])
    shared = store.recorder("other", JETSTREAM_STREAM="orders")
    assert shared.insert_events([event("a", 2)]) == [2]
    found = ask(store, "STREAM.NAMES")
    assert isinstance(found, dict)
    streams = found["streams"]
    assert isinstance(streams, list)
    prefix = store.prefix.upper()
    ours = sorted(str(name) for name in streams if str(name).startswith(f"{prefix}-"))
    assert ours == sorted(f"{prefix}-EVENTS-{name}" for name in ("ORDERS", "OR=2EDERS", "OR=20DERS", "OR=2A"))


def test_a_stream_is_not_created_where_that_is_forbidden(store: Store) -> None:
    """With JETSTREAM_CREATE_STREAMS off a missing stream is an error, and an existing one is used."""
    with pytest.raises(InfrastructureFactoryError, match="exists: expected true, is false"):
        store.recorder("given", JETSTREAM_CREATE_STREAMS="no")
    store.recorder("given")
    assert store.recorder("given", JETSTREAM_CREATE_STREAMS="no").max_notification_id() is None


def test_a_stream_with_other_settings_is_refused(store: Store) -> None:
    """A stream that exists is compared setting by setting and never altered."""
    store.recorder("kept")
    with pytest.raises(InfrastructureFactoryError, match="num_replicas: expected 3, is 1"):
        store.recorder("kept", JETSTREAM_REPLICAS="3")
    assert store.recorder("kept").max_notification_id() is None


def test_a_broker_that_cannot_be_reached_is_an_operational_error(store: Store, tmp_path: Path) -> None:
    """An address nobody listens on, and a password nobody has, are told apart and named."""
    stranger = tmp_path / "stranger.json"
    stranger.write_text('{"user": "store", "password": "guessed"}', "utf-8")
    with pytest.raises(OperationalError, match="refused user"):
        store.recorder(NATS_CREDS=str(stranger))


def test_positions_are_refused_until_there_are_process_recorders(store: Store) -> None:
    """An insert with a position is refused whole."""
    recorder = store.recorder()
    with pytest.raises(NotSupportedError, match="position"):
        recorder.insert_events([event("a", 1)], tracking=Tracking("upstream", 1))
    assert recorder.max_notification_id() is None


def test_an_unknown_purpose_is_refused(store: Store) -> None:
    """Only events and snapshots have streams."""
    with pytest.raises(ProgrammingError, match='"views"'):
        store.factory().aggregate_recorder("views")


# The thread


def test_a_process_shares_one_connection_until_the_last_factory_is_closed(own_store: Store) -> None:
    """Factories share a thread; it ends with the last of them, and a closed factory's recorders say so."""
    before = len(store_threads())
    first, second = own_store.factory("one"), own_store.factory("two")
    recorder, other = first.application_recorder(), second.application_recorder()
    assert len(store_threads()) == before + 1
    first.close()
    first.close()
    with pytest.raises(InterfaceError, match="closed"):
        recorder.max_notification_id()
    with pytest.raises(InterfaceError, match="closed"):
        first.application_recorder()
    assert other.max_notification_id() is None
    second.close()
    assert len(store_threads()) == before


def test_what_nobody_refers_to_is_given_back(own_store: Store) -> None:
    """An application that is dropped without being closed takes its thread with it."""
    before = len(store_threads())
    application = Application[UUID](env=own_store.env(PERSISTENCE_MODULE=MODULE))
    application.save(Aggregate())
    assert len(store_threads()) == before + 1
    del application
    gc.collect()
    until_sync(lambda: len(store_threads()) == before, what="the thread ended")


@pytest.mark.parametrize("name", ["max_notification_id", "close"])
def test_the_stores_own_loop_is_never_waited_for_from_itself(own_store: Store, name: str) -> None:
    """A call from the store's own loop is refused, and closing from there returns at once."""
    factory = own_store.factory()
    recorder = factory.application_recorder()
    calls: dict[str, Callable[[], object]] = {
        "max_notification_id": recorder.max_notification_id,
        "close": factory.close,
    }

    async def from_the_loop(_: BrokerConnection) -> object:
        return calls[name]()

    shared = lease(own_store.broker.login())
    if name == "close":
        assert shared.run(from_the_loop) is None
    else:
        with pytest.raises(ProgrammingError, match="its own event loop"):
            shared.run(from_the_loop)
    shared.close()
