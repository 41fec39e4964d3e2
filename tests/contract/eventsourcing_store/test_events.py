"""What the library's cases leave out about events: every selection, long logs, conflicts, and doubtful answers."""

import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from eventsourcing.persistence import (
    ApplicationRecorder,
    DataError,
    IntegrityError,
    OperationalError,
    ProgrammingError,
    StoredEvent,
)
from eventsourcing.popo import POPOApplicationRecorder

from fireledger.runners.jetstream import ledger, transaction
from fireledger.runners.jetstream.connection import BrokerConnection, Reply
from tests.contract.eventsourcing_store.stores import Store, event, events
from tests.waiting import until_sync

pytestmark = pytest.mark.integration

AWKWARD_IDS = (
    "a.b",
    "a b",
    " a",
    "a ",
    "a*",
    "a>",
    ">",
    "*",
    "",
    "=",
    "a=2Eb",
    "ä",
    "A",
    "a",
    "a\nb",
    "a\x00",
    "日本/€",
    "%41",
)


def recorded(recorder: ApplicationRecorder) -> list[tuple[int, str, int]]:
    """Everything in the log: id, originator and version."""
    found = recorder.select_notifications(None, 100_000)
    return [(item.id, str(item.originator_id), item.originator_version) for item in found]


# Selections


def fill(recorder: ApplicationRecorder) -> None:
    """Two interleaved originators, one from version 1 and one from 0, and two topics."""
    recorder.insert_events(events("a", range(1, 4), "odd"))
    recorder.insert_events([*events("b", range(3), "even"), event("a", 4, "even")])
    recorder.insert_events([event("a", 5, "odd"), event("b", 3, "odd")])


def test_events_are_selected_as_in_memory(store: Store) -> None:
    """Every combination of gt, lte, desc and limit gives what the in-memory recorder gives, remembered heads or not."""
    memory, warm = POPOApplicationRecorder(), store.recorder("grid")
    for recorder in (memory, warm):
        fill(recorder)
    bounds = (None, -1, 0, 1, 3, 5, 9)
    grid = list(itertools.product(("a", "b", "none"), bounds, bounds, (False, True), (None, 1, 2, 10)))
    for recorder in (warm, store.recorder("grid")):
        for originator, gt, lte, desc, limit in grid:
            wanted = memory.select_events(originator, gt=gt, lte=lte, desc=desc, limit=limit)
            found = recorder.select_events(originator, gt=gt, lte=lte, desc=desc, limit=limit)
            assert list(found) == list(wanted), (originator, gt, lte, desc, limit)


def test_notifications_are_selected_as_in_memory(store: Store) -> None:
    """Every combination of the arguments gives what the in-memory recorder gives."""
    memory, recorder = POPOApplicationRecorder(), store.recorder()
    for each in (memory, recorder):
        fill(each)
    starts, stops, topics = (None, -3, 0, 1, 4, 9, 12), (None, 0, 1, 5, 12), ((), ("odd",), ("none",), ("odd", "even"))
    for start, stop, limit, wanted, inclusive in itertools.product(starts, stops, (1, 3, 50), topics, (True, False)):
        expected, found = (
            each.select_notifications(start, limit, stop, wanted, inclusive_of_start=inclusive)
            for each in (memory, recorder)
        )
        assert list(found) == list(expected), (start, stop, limit, wanted, inclusive)


def test_a_limit_of_nothing_gives_nothing(store: Store) -> None:
    """A limit of 0 selects nothing, as in the library's databases."""
    recorder = store.recorder()
    recorder.insert_events(events("a", range(1, 3)))
    assert (list(recorder.select_events("a", limit=0)), list(recorder.select_notifications(1, 0))) == ([], [])


@pytest.mark.slow
def test_long_logs_are_read_whole(store: Store) -> None:
    """Nothing is cut at 1,000 or 1,024 messages: not an originator's events, not the log, not a search by topic."""
    recorder = store.recorder("long")
    for start in (1, 1001, 2001):
        recorder.insert_events(events("a", range(start, start + 1000)))
    recorder.insert_events([event("b", 1, "rare"), *events("a", range(3001, 3101)), event("b", 2, "rare")])
    for each in (recorder, store.recorder("long")):
        assert [item.originator_version for item in each.select_events("a")] == list(range(1, 3101))
        assert [item.originator_version for item in each.select_events("a", gt=1500, limit=1200)] == list(
            range(1501, 2701)
        )
        assert [item.originator_version for item in each.select_events("a", desc=True, lte=2050, limit=1030)] == list(
            range(2050, 1020, -1)
        )
        assert [place for place, _, _ in recorded(each)] == list(range(1, 3103))
        assert [item.id for item in each.select_notifications(1, 10, topics=("rare",))] == [3001, 3102]


# Refusals


def test_versions_follow_each_other(store: Store) -> None:
    """A first version other than 0 and 1, a gap, a repetition and a wrong order are refused, and leave nothing."""
    recorder = store.recorder("strict")
    recorder.insert_events(events("a", range(1, 3)))
    refused = (
        [event("b", 2)],
        [event("b", -1)],
        [event("a", 4)],
        [event("a", 2)],
        [event("a", 1)],
        [event("a", 3), event("a", 3)],
        [event("a", 4), event("a", 3)],
        [event("b", 1), event("b", 3)],
    )
    for each in (recorder, store.recorder("strict")):
        for batch in refused:
            with pytest.raises(IntegrityError, match="version"):
                each.insert_events(batch)
    assert recorded(recorder) == [(1, "a", 1), (2, "a", 2)]


def test_a_conflict_in_the_second_aggregate_leaves_nothing(store: Store) -> None:
    """When the broker refuses one aggregate of an insert, nothing of the others is recorded and no id is used."""
    mine, others = store.recorder("two"), store.recorder("two")
    mine.insert_events([event("a", 1), event("b", 1)])
    others.insert_events([event("b", 2)])
    with pytest.raises(IntegrityError):
        mine.insert_events([event("a", 2), event("a", 3), event("b", 2)])
    assert recorded(mine) == [(1, "a", 1), (2, "b", 1), (3, "b", 2)]
    assert mine.insert_events([event("a", 2), event("b", 3)]) == [4, 5]


def test_what_another_recorder_wrote_is_noticed(store: Store) -> None:
    """A remembered head that is out of date refuses what was decided on it, and does not refuse what was not."""
    mine, others = store.recorder("stale"), store.recorder("stale")
    mine.insert_events([event("a", 1)])
    others.insert_events(events("a", range(2, 4)))
    with pytest.raises(IntegrityError):
        mine.insert_events([event("a", 2)])
    mine.insert_events([event("a", 4)])
    others.select_events("a", gt=3)
    assert others.insert_events([event("a", 5)]) == [5]
    assert [item.originator_version for item in mine.select_events("a", gt=1)] == [2, 3, 4, 5]


def test_a_creation_is_refused_when_another_was_faster(store: Store) -> None:
    """Two recorders that create one aggregate: one succeeds, and from version 0 the other may go on with 1."""
    mine, others = store.recorder("first"), store.recorder("first")
    others.insert_events([event("a", 0)])
    with pytest.raises(IntegrityError):
        mine.insert_events([event("a", 0), event("a", 1)])
    assert mine.insert_events([event("a", 1)]) == [2]


def test_racing_recorders_leave_gapless_sequences(store: Store) -> None:
    """Eight writers with recorders of their own, each inserting into two aggregates at once, lose and never mix."""
    recorders = [store.recorder("race") for _ in range(8)]

    def write(recorder: ApplicationRecorder) -> int:
        conflicts = 0
        for _ in range(10):
            version = len(recorder.select_events("a")) + 1
            try:
                recorder.insert_events([event("a", version), event("b", version)])
            except IntegrityError:
                conflicts += 1
        return conflicts

    with ThreadPoolExecutor(8) as threads:
        conflicts = sum(threads.map(write, recorders))
    count = 80 - conflicts
    assert conflicts
    assert [version for _, name, version in recorded(recorders[0]) if name == "a"] == list(range(1, count + 1))
    assert [name for _, name, _ in recorded(recorders[0])] == ["a", "b"] * count


def test_more_events_than_one_transaction_holds_are_refused(store: Store) -> None:
    """1,001 events in one insert are refused with the limit named, 1,000 are not; the limit can be lowered."""
    recorder = store.recorder("big")
    with pytest.raises(ProgrammingError, match="at most 1000"):
        recorder.insert_events(events("a", range(1, 1002)))
    assert recorder.max_notification_id() is None
    assert recorder.insert_events(events("a", range(1, 1001))) == list(range(1, 1001))
    small = store.recorder("big", JETSTREAM_MAX_BATCH="2")
    with pytest.raises(ProgrammingError, match="at most 2"):
        small.insert_events(events("b", range(1, 4)))


def test_more_bytes_than_one_transaction_holds_are_refused(store: Store) -> None:
    """An insert above the bound in bytes, and one event above the broker's message, are refused; nothing is written."""
    recorder = store.recorder()
    half = b"x" * 900_000
    with pytest.raises(ProgrammingError, match="bytes"):
        recorder.insert_events([event("a", version, state=half) for version in range(1, 21)])
    with pytest.raises(OperationalError, match="above the broker's"):
        recorder.insert_events([event("a", 1, state=half + half)])
    assert recorder.max_notification_id() is None


def test_any_text_is_an_id(store: Store) -> None:
    """Ids that no subject can hold come back as they were, and no two of them share a sequence."""
    recorder = store.recorder("ids")
    for name in AWKWARD_IDS:
        recorder.insert_events(events(name, range(1, 3)))
    fresh = store.recorder("ids")
    for name in AWKWARD_IDS:
        assert [(item.originator_id, item.originator_version) for item in fresh.select_events(name)] == [
            (name, 1),
            (name, 2),
        ]
    assert [name for _, name, version in recorded(fresh) if version == 1] == list(AWKWARD_IDS)


def test_ids_that_cannot_be_stored_are_refused(store: Store) -> None:
    """A lone surrogate, an endless id, and text where UUIDs are declared are refused by name."""
    recorder, strict = store.recorder(), store.recorder(ORIGINATOR_ID_TYPE="uuid")
    with pytest.raises(DataError, match="UTF-8"):
        recorder.insert_events([event("\ud800", 1)])
    with pytest.raises(DataError, match="at most 1024"):
        recorder.insert_events([event("x" * 1_025, 1)])
    with pytest.raises(ProgrammingError, match="not a UUID"):
        strict.insert_events([event("acme", 1)])


def test_ids_are_read_as_the_declared_type(store: Store) -> None:
    """A UUID is text to one recorder and a UUID to another, and names the same aggregate for both."""
    identity = UUID("0b2b9f3c-6f0e-4d53-9b5e-0d6b8f6c5a10")
    text, uuids = store.recorder("typed"), store.recorder("typed", ORIGINATOR_ID_TYPE="uuid")
    text.insert_events([StoredEvent(identity, 1, "topic", b"")])
    uuids.insert_events([StoredEvent(str(identity).upper(), 2, "topic", b"")])
    assert [item.originator_id for item in text.select_events(identity)] == [str(identity)] * 2
    assert [item.originator_id for item in uuids.select_events(str(identity))] == [identity] * 2


def test_older_snapshots_are_not_kept(store: Store) -> None:
    """Snapshots may skip versions; one below the newest changes nothing, the same one again is refused."""
    recorder = store.factory("snap").aggregate_recorder("snapshots")
    recorder.insert_events([event("a", 5)])
    recorder.insert_events([event("a", 3)])
    recorder.insert_events([event("a", 9)])
    with pytest.raises(IntegrityError):
        recorder.insert_events([event("a", 9)])
    assert [item.originator_version for item in recorder.select_events("a")] == [5, 9]
    assert [item.originator_version for item in recorder.select_events("a", lte=8, desc=True, limit=1)] == [5]


# Doubtful answers


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3])
def test_an_answer_that_comes_too_late_is_not_a_second_write(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A broker that freezes during an insert gets the same bytes again, stores them once, and the insert succeeds."""
    recorder = own_store.recorder("frozen")
    recorder.insert_events([event("a", 1)])
    for module in (ledger, transaction):
        monkeypatch.setattr(module, "ANSWER_TIMEOUT_S", 0.1)
    sent: list[str] = []
    request = BrokerConnection.request

    async def counted(
        connection: BrokerConnection,
        subject: str,
        payload: bytes,
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        sent.append(subject)
        return await request(connection, subject, payload, timeout_s=timeout_s, headers=headers)

    monkeypatch.setattr(BrokerConnection, "request", counted)
    batch = events("a", range(2, 2 + count))
    with ThreadPoolExecutor(1) as thread:
        with own_store.broker.frozen():
            insert = thread.submit(recorder.insert_events, batch)
            until_sync(lambda: len(sent) >= 3, what="two resends")
        assert insert.result(20) == list(range(2, 2 + count))
    assert [version for _, _, version in recorded(recorder)] == list(range(1, 2 + count))


@pytest.mark.slow
def test_an_insert_without_any_answer_says_that_its_outcome_is_unknown(own_store: Store) -> None:
    """At the deadline the caller learns that the outcome is unknown; later the log shows it, once at most."""
    recorder = own_store.recorder("silent", JETSTREAM_TIMEOUT="0.5")
    recorder.insert_events([event("a", 1)])
    with own_store.broker.frozen(), pytest.raises(OperationalError, match="unknown"):
        recorder.insert_events([event("a", 2), event("b", 1)])
    patient = own_store.recorder("silent")
    try:
        patient.insert_events([event("a", 2), event("b", 1)])
    except IntegrityError:
        assert len(recorded(patient)) == 3
    assert sorted((name, version) for _, name, version in recorded(patient)) == [("a", 1), ("a", 2), ("b", 1)]


@pytest.mark.slow
def test_inserts_and_reads_wait_for_a_broker_that_restarts(own_store: Store) -> None:
    """Killed and started again in the midst of it, the broker costs time only: all is recorded once, in order."""
    recorder = own_store.recorder("restart")

    def write() -> list[Sequence[int] | None]:
        return [recorder.insert_events([event("a", 2 * n + 1), event("a", 2 * n + 2)]) for n in range(100)]

    with ThreadPoolExecutor(1) as thread:
        inserts = thread.submit(write)
        until_sync(lambda: (recorder.max_notification_id() or 0) >= 20, what="twenty events")
        own_store.broker.kill_and_restart()
        assert inserts.result(60) == [[2 * n + 1, 2 * n + 2] for n in range(100)]
    assert [version for _, _, version in recorded(recorder)] == list(range(1, 201))
