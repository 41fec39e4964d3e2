"""A real broker with the store's user, and a store of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.eventsourcing_store.stores import Broker, Store, running_broker


@pytest.fixture(scope="session")
def store_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for the session, for tests that stop nothing."""
    with running_broker(tmp_path_factory.mktemp("store") / "data") as broker:
        yield broker


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that the test may freeze, kill and restart."""
    with running_broker(tmp_path / "data") as broker:
        yield broker


@pytest.fixture
def store(store_broker: Broker) -> Iterator[Store]:
    """A store on the session's broker."""
    with Store(store_broker) as made:
        yield made


@pytest.fixture
def own_store(own_broker: Broker) -> Iterator[Store]:
    """A store on the test's own broker."""
    with Store(own_broker) as made:
        yield made
