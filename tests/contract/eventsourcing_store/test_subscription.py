"""Subscriptions: nothing lost, nothing twice, in order; ended from anywhere."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest
from eventsourcing.persistence import ApplicationRecorder, InterfaceError, InternalError, Notification

from fireledger.runners.eventsourcing_store import event_log
from tests.contract.eventsourcing_store.stores import Store, event, events
from tests.waiting import until_sync

pytestmark = pytest.mark.integration


def take(recorder: ApplicationRecorder, count: int, gt: int | None = None, topics: tuple[str, ...] = ()) -> list[int]:
    """Follow the log for so many events and return their ids."""
    with recorder.subscribe(gt=gt, topics=topics) as subscription:
        return [item.id for item in islice(subscription, count)]


def note(notifications: Iterable[Notification], seen: list[int]) -> None:
    """Write down the ids of what comes."""
    for item in notifications:
        seen += [item.id]


@pytest.mark.slow
def test_restarts_of_the_broker_are_not_noticed(own_store: Store) -> None:
    """While the broker is killed and restarted twice among inserts, each event is delivered once, in order."""
    recorder = own_store.recorder("follow")
    recorder.insert_events(events("a", range(1, 101)))
    with ThreadPoolExecutor(1) as thread, recorder.subscribe(gt=None) as subscription:
        seen: list[int] = []
        following = thread.submit(note, islice(subscription, 1_300), seen)
        for start in (101, 501):
            for first in range(start, start + 400, 100):
                recorder.insert_events(events("a", range(first, first + 100)))
            until_sync(lambda: len(seen) >= 50, what="the first events")
            own_store.broker.kill_and_restart()
        recorder.insert_events(events("a", range(901, 1_301)))
        following.result(30)
    assert seen == list(range(1, 1_301))


@pytest.mark.slow
def test_a_slow_consumer_misses_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that stands still while far more arrives than is held for it gets everything, once, in order."""
    monkeypatch.setattr(event_log, "SUBSCRIPTION_MESSAGES", 20)
    recorder = store.recorder()
    recorder.insert_events(events("a", range(1, 101)))
    with recorder.subscribe(gt=10) as subscription:
        seen = [next(subscription).id for _ in range(5)]
        for first in range(101, 3_101, 500):
            recorder.insert_events(events("a", range(first, first + 500)))
        seen += [item.id for item in islice(subscription, 3_085)]
        recorder.insert_events([event("b", 1)])
        seen.append(next(subscription).id)
    assert seen == list(range(11, 3_102))


def test_topics_are_chosen_across_long_stretches_of_others(store: Store) -> None:
    """Events of other topics are passed over however many there are."""
    recorder = store.recorder()
    recorder.insert_events([event("b", 1, "rare"), *events("a", range(1, 1_000))])
    recorder.insert_events([*events("a", range(1_000, 1_999)), event("b", 2, "rare")])
    assert take(recorder, 2, topics=("rare", "never")) == [1, 2_000]


def test_two_subscriptions_do_not_share_anything(store: Store) -> None:
    """Each subscription has a reader of its own, at its own place."""
    recorder = store.recorder()
    recorder.insert_events(events("a", range(1, 11)))
    with recorder.subscribe(gt=0) as one, recorder.subscribe(gt=5) as other:
        assert [(next(one).id, next(other).id) for _ in range(5)] == [(n, n + 5) for n in range(1, 6)]


def test_stop_ends_an_iteration_that_waits(store: Store) -> None:
    """A thread that waits for the next event is let go by another thread's stop."""
    recorder = store.recorder()
    recorder.insert_events([event("a", 1)])
    subscription = recorder.subscribe(gt=None)
    seen: list[int] = []
    with ThreadPoolExecutor(1) as thread, subscription:
        following = thread.submit(note, subscription, seen)
        until_sync(lambda: seen == [1], what="the first event")
        subscription.stop()
        following.result(5)
    with pytest.raises(StopIteration):
        next(subscription)


def test_closing_the_store_under_a_subscription_is_an_error(store: Store) -> None:
    """A consumer does not mistake a closed store for the end of the events."""
    factory = store.factory()
    with ThreadPoolExecutor(1) as thread:
        subscription = factory.application_recorder().subscribe(gt=None)
        following = thread.submit(next, subscription)
        factory.close()
        with pytest.raises(InterfaceError, match="closed"):
            following.result(5)


def test_a_position_behind_the_end_is_refused(store: Store) -> None:
    """A position that the log does not have means that events are missing; it is not waited for."""
    recorder = store.recorder()
    recorder.insert_events([event("a", 1)])
    with pytest.raises(InternalError, match="rolled back"):
        take(recorder, 1, gt=5)
