"""The recorder and factory cases that the library ships, on a real broker.

Not here: the cases of tracking and process recorders, and the two of the factory's cases that make one. These
recorders come with the projections; until then the factory refuses them, which is tested instead.
"""

import itertools
from uuid import UUID

import pytest
from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    NotSupportedError,
    ProcessRecorder,
    TrackingRecorder,
)
from eventsourcing.tests import persistence as shipped
from eventsourcing.utils import Environment

from fireledger.runners.eventsourcing_store import JetStreamFactory
from fireledger.runners.eventsourcing_store.recorders import JetStreamAggregateRecorder, JetStreamApplicationRecorder
from tests.contract.eventsourcing_store.stores import Store

pytestmark = [pytest.mark.integration, pytest.mark.slow]

_numbers = itertools.count()


class TestAggregateRecorder(shipped.AggregateRecorderTestCase):
    """UUIDs, the first version 1."""

    id_type = "uuid"

    @pytest.fixture(autouse=True)
    def use(self, store: Store) -> None:
        self.store = store

    def create_recorder(self) -> AggregateRecorder:
        return self.store.factory(ORIGINATOR_ID_TYPE=self.id_type).aggregate_recorder()


class TestAggregateRecorderFromZero(TestAggregateRecorder):
    """The first version 0."""

    INITIAL_VERSION = 0


class TestAggregateRecorderOfText(TestAggregateRecorder):
    """Ids of text that a subject cannot hold as they are."""

    id_type = "text"

    def new_originator_id(self) -> UUID | str:
        return f"acme.eu/* > ü {next(_numbers)} "


class TestSnapshotRecorder(TestAggregateRecorder):
    """The stream of snapshots keeps the same contract."""

    def create_recorder(self) -> AggregateRecorder:
        return self.store.factory(ORIGINATOR_ID_TYPE=self.id_type).aggregate_recorder("snapshots")


class TestApplicationRecorder(shipped.ApplicationRecorderTestCase[ApplicationRecorder]):
    """UUIDs, the first version 1."""

    id_type = "uuid"

    @pytest.fixture(autouse=True)
    def use(self, store: Store) -> None:
        self.store = store

    def create_recorder(self) -> ApplicationRecorder:
        return self.store.recorder(ORIGINATOR_ID_TYPE=self.id_type)

    def test_insert_subscribe(self) -> None:
        """The case the library leaves to recorders that can be subscribed to."""
        self.optional_test_insert_subscribe()


class TestApplicationRecorderOfText(TestApplicationRecorder):
    """Ids of text, the first version 0."""

    id_type = "text"
    INITIAL_VERSION = 0

    def new_originator_id(self) -> UUID | str:
        return f"acme.eu/* > ü {next(_numbers)} "


class TestNonInterleavingNotificationIDs(shipped.NonInterleavingNotificationIDsBaseCase):
    """Two racing inserts of 1,000 events each, the most that one insert holds."""

    @pytest.fixture(autouse=True)
    def use(self, store: Store) -> None:
        self.store = store

    def create_recorder(self) -> ApplicationRecorder:
        return self.store.recorder(ORIGINATOR_ID_TYPE="uuid")


class TestFactory(shipped.InfrastructureFactoryTestCase[JetStreamFactory]):
    """The factory; see this module's docstring for the two cases that are replaced."""

    @pytest.fixture(autouse=True)
    def use(self, store: Store) -> None:
        self.env = Environment("TestCase", store.env())

    def expected_factory_class(self) -> type[JetStreamFactory]:
        return JetStreamFactory

    def expected_aggregate_recorder_class(self) -> type[AggregateRecorder]:
        return JetStreamAggregateRecorder

    def expected_application_recorder_class(self) -> type[ApplicationRecorder]:
        return JetStreamApplicationRecorder

    def expected_tracking_recorder_class(self) -> type[TrackingRecorder]:
        raise NotImplementedError

    def tracking_recorder_subclass(self) -> type[TrackingRecorder]:
        raise NotImplementedError

    def expected_process_recorder_class(self) -> type[ProcessRecorder]:
        raise NotImplementedError

    def test_create_tracking_recorder(self) -> None:
        """It is refused with the reason."""
        with pytest.raises(NotSupportedError, match="comes with the projections"):
            self.factory.tracking_recorder()

    def test_create_process_recorder(self) -> None:
        """It is refused with the reason."""
        with pytest.raises(NotSupportedError, match="comes with the projections"):
            self.factory.process_recorder()
