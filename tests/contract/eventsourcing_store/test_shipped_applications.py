"""The application cases that the library ships, and one application on two persistence modules."""

from decimal import Decimal
from uuid import UUID

import pytest
from eventsourcing.persistence import IntegrityError
from eventsourcing.tests import application as shipped

from tests.contract.eventsourcing_store.stores import MODULE, Store

pytestmark = [pytest.mark.integration, pytest.mark.slow]


class TestExampleApplication(shipped.ExampleApplicationTestCase):
    """Bank accounts, with snapshots."""

    expected_factory_topic = f"{MODULE}.factory:JetStreamFactory"

    @pytest.fixture(autouse=True)
    def use(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        for key, value in store.env().items():
            monkeypatch.setenv(key, value)


class TestApplication(shipped.ApplicationTestCase):
    """Names, environment, recordings, the cache and its fast-forward under 100 threads."""

    @pytest.fixture(autouse=True)
    def use(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        for key, value in store.env().items():
            monkeypatch.setenv(key, value)

    @pytest.mark.filterwarnings("always:'log' is deprecated:DeprecationWarning")
    def test_application_log(self) -> None:
        """The case records a warning, which must not have become an error before."""
        super().test_application_log()


def run_bank(env: dict[str, str]) -> list[object]:
    """Use the example application in every way its callers can, and return what they can see."""
    with shipped.BankAccounts(env=env) as bank:
        first, second = (bank.open_account(name, f"{name}@example.com") for name in ("alice", "bob"))
        for _ in range(5):
            bank.credit_account(first, Decimal("10.50"))
        stale, fresh = bank.get_account(second), bank.get_account(second)
        fresh.append_transaction(Decimal(1))
        bank.save(fresh)
        stale.append_transaction(Decimal(2))
        both = bank.get_account(first)
        both.append_transaction(Decimal(3))
        with pytest.raises(IntegrityError):
            bank.save(both, stale)
        bank.take_snapshot(first, version=3)
        bank.credit_account(first, Decimal(4))
        places: dict[UUID | str, int] = {first: 1, second: 2}
        log = bank.notification_log.select(start=1, limit=10)
        with bank.recorder.subscribe(gt=3) as subscription:
            followed = [next(subscription).id for _ in range(4)]
        return [
            bank.get_balance(first),
            bank.get_balance(second),
            bank.repository.get(first, version=4).version,
            [(item.id, places[UUID(str(item.originator_id))], item.originator_version, item.topic) for item in log],
            bank.recorder.max_notification_id(),
            followed,
        ]


def test_swapping_the_persistence_module_changes_nothing(store: Store) -> None:
    """One application behaves the same in memory and on JetStream; only PERSISTENCE_MODULE differs."""
    snapshots = {"IS_SNAPSHOTTING_ENABLED": "y"}
    in_memory = run_bank({**store.env(**snapshots), "PERSISTENCE_MODULE": "eventsourcing.popo"})
    assert run_bank(store.env(**snapshots)) == in_memory
    assert in_memory[4] == 9
