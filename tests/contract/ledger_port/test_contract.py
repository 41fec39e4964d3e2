"""What the service relies on in its broker: the simulated one keeps the same promises as the real one."""

import asyncio

import pytest

from fireledger.runners.clock import realtime
from fireledger.runners.errors import RolledBack
from fireledger.runners.jetstream.leader import Stored
from fireledger.runners.jetstream.ledger import Append, Committed, Lost
from tests.contract.ledger_port.ports import LedgerPort, Ports

pytestmark = pytest.mark.asyncio
SUBJECT = "book.1.acme"


async def filled(ledger: LedgerPort, count: int, subject: str = SUBJECT) -> list[Append]:
    """Append so many messages to a subject of an empty log, one behind the other."""
    appends: list[Append] = []
    head = 0
    for number in range(count):
        appends.append(Append(subject, f"{subject} {number}".encode(), f"{subject}-{number}", head))
        outcome = await ledger.append(appends[-1])
        assert isinstance(outcome, Committed)
        head = outcome.sequence
    return appends


async def read(ports: Ports, until: int, after: int = 0) -> list[Stored]:
    """Read up to a sequence."""
    reader = await ports.reader(after)
    found: list[Stored] = []
    async with asyncio.timeout(30):
        async for batch in reader.batches():
            found.extend(batch)
            if found[-1].sequence >= until:
                break
    await reader.close()
    return found


def bodies(outcome: Committed | Lost) -> bytes | None:
    """The rival's body, None for a success."""
    return outcome.rival.body if isinstance(outcome, Lost) and outcome.rival is not None else None


async def test_the_second_with_the_same_expectation_loses(ports: Ports) -> None:
    """It is told the winner's message, and the log holds one."""
    one, two = await ports.ledger(), await ports.ledger()
    assert await one.append(Append(SUBJECT, b"one", "a", 0)) == Committed(1)
    lost = await two.append(Append(SUBJECT, b"two", "b", 0))
    assert isinstance(lost, Lost)
    assert lost.rival is not None
    assert (lost.rival.sequence, lost.rival.subject, lost.rival.body) == (1, SUBJECT, b"one")
    assert await two.last_sequence() == 1


async def test_the_same_append_again_is_told_its_place_again(ports: Ports) -> None:
    """Also when others have come behind it; with another commit id or other bytes it is a rival."""
    ledger = await ports.ledger()
    appends = await filled(ledger, 3)
    assert [await ledger.append(append) for append in appends] == [Committed(1), Committed(2), Committed(3)]
    assert bodies(await ledger.append(Append(SUBJECT, appends[1].body, "other", 1))) == appends[1].body
    assert bodies(await ledger.append(Append(SUBJECT, b"other", appends[1].commit_id, 1))) == appends[1].body
    assert await ledger.last_sequence() == 3


async def test_expectations_are_about_the_exact_subject(ports: Ports) -> None:
    """Messages on other subjects do not matter."""
    ledger = await ports.ledger()
    await filled(ledger, 2)
    assert await ledger.append(Append("book.1.other", b"x", "x", 0)) == Committed(3)
    assert await ledger.append(Append(SUBJECT, b"y", "y", 2)) == Committed(4)


async def test_heads_and_the_end_of_the_log(ports: Ports) -> None:
    """The head is the newest message on its subject; an unused subject has none."""
    ledger = await ports.ledger()
    assert await ledger.last_sequence() == 0
    assert await ledger.head(SUBJECT) is None
    appends = await filled(ledger, 3)
    head = await (await ports.ledger()).head(SUBJECT)
    assert head is not None
    assert (head.sequence, head.subject, head.body) == (3, SUBJECT, appends[-1].body)
    assert await (await ports.ledger()).last_sequence() == 3


@pytest.mark.parametrize("count", [4, 40])
async def test_many_at_once_are_all_there(ports: Ports, count: int) -> None:
    """Few and many: each outcome is where the message is."""
    ledger = await ports.ledger()
    appends = [Append(f"book.1.t{number}", f"{number}".encode(), f"c{number}", 0) for number in range(count)]
    outcomes = await ledger.append_many(appends)
    stored = {message.sequence: message.body for message in await read(ports, count)}
    assert [stored[each.sequence] for each in outcomes if isinstance(each, Committed)] == [a.body for a in appends]


@pytest.mark.parametrize("count", [4, 40])
async def test_losers_are_taken_out_of_many(ports: Ports, count: int) -> None:
    """Two whose positions are taken lose to those who have them; the others are stored, one of them before."""
    ledger, rival = await ports.ledger(), await ports.ledger()
    appends = [Append(f"book.1.t{number}", f"{number}".encode(), f"c{number}", 0) for number in range(count)]
    for number in (0, count - 1):
        await rival.append(Append(appends[number].subject, b"rival", f"r{number}", 0))
    assert await rival.append(appends[2]) == Committed(3)
    outcomes = await ledger.append_many(appends)
    assert [number for number, each in enumerate(outcomes) if isinstance(each, Lost)] == [0, count - 1]
    assert {bodies(outcomes[0]), bodies(outcomes[-1])} == {b"rival"}
    assert outcomes[2] == Committed(3)
    assert await ledger.last_sequence() == count


async def test_a_subject_twice_in_one_call_is_refused(ports: Ports) -> None:
    """Nothing is stored."""
    ledger = await ports.ledger()
    with pytest.raises(ValueError, match="twice"):
        await ledger.append_many([Append(SUBJECT, b"1", "a", 0), Append(SUBJECT, b"2", "b", 1)])
    assert await ledger.last_sequence() == 0


async def test_racers_have_one_winner(ports: Ports) -> None:
    """Of five writers with one expectation one is stored, and the others are told it."""
    ledgers = [await ports.ledger() for _ in range(5)]
    head = 0
    for turn in range(5):
        appends = [Append(SUBJECT, f"{turn} {n}".encode(), f"{turn}-{n}", head) for n in range(5)]
        outcomes = await asyncio.gather(*(w.append(a) for w, a in zip(ledgers, appends, strict=True)))
        (won,) = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Committed)]
        assert {bodies(outcome) for outcome in outcomes} == {None, appends[won].body}
        winner = outcomes[won]
        assert isinstance(winner, Committed)
        head = winner.sequence


async def test_a_reader_gets_everything_in_order(ports: Ports) -> None:
    """Old and new messages, of all subjects, each once, stamped in order and by the broker's clock."""
    ledger = await ports.ledger()
    before = realtime()
    await filled(ledger, 10)
    reading = asyncio.create_task(read(ports, 20))
    for number in range(10):
        await ledger.append(Append(f"book.1.n{number}", b"new", f"n{number}", 0))
    found = await reading
    assert [message.sequence for message in found] == list(range(1, 21))
    stamps = [message.stamped_at for message in found]
    assert stamps == sorted(stamps)
    assert before - 1_000 <= stamps[0] <= stamps[-1] <= realtime() + 1_000


async def test_a_reader_resumes_behind_a_sequence(ports: Ports) -> None:
    """What was read before does not come again."""
    ledger = await ports.ledger()
    await filled(ledger, 6)
    assert [message.sequence for message in await read(ports, 6, after=4)] == [5, 6]


async def test_a_lost_tail_stops_whoever_saw_it(ports: Ports) -> None:
    """Writer and reader raise, also once others use the sequences again; who saw nothing of it goes on."""
    ledger = await ports.ledger()
    reader = await ports.reader()
    appends = [Append(f"book.1.n{number}", b"x" * 200, f"c{number}", 0) for number in range(20)]
    for append in appends:
        assert isinstance(await ledger.append(append), Committed)
    batches, position = reader.batches(), 0
    async with asyncio.timeout(30):
        while position < len(appends):
            position = (await anext(batches))[-1].sequence
    await ports.lose_tail()
    stranger = await ports.ledger()
    left = await stranger.last_sequence()
    assert left < len(appends)
    with pytest.raises(RolledBack):
        await ledger.last_sequence()
    for number in range(30):
        assert isinstance(await stranger.append(Append(f"book.2.n{number}", b"y", f"s{number}", 0)), Committed)
    with pytest.raises(RolledBack):
        await ledger.append(Append("book.1.new", b"z", "z", 0))
    with pytest.raises(RolledBack):
        async with asyncio.timeout(30):
            await anext(batches)
    await reader.close()
    assert [stored.sequence for stored in await read(ports, left + 30)] == [*range(1, left + 31)]


async def test_keys_are_set_by_revision(ports: Ports) -> None:
    """Create, create again, set, set at an old revision: the second and the last change nothing."""
    bucket = await ports.bucket()
    first = await bucket.put_if("scheduler.a", b"one", 0)
    assert first is not None
    assert await bucket.put_if("scheduler.a", b"two", 0) is None
    second = await bucket.put_if("scheduler.a", b"two", first)
    assert second is not None
    assert second > first
    assert await bucket.put_if("scheduler.a", b"three", first) is None
    entry = await (await ports.bucket()).get("scheduler.a")
    assert entry is not None
    assert (entry.key, entry.value, entry.revision) == ("scheduler.a", b"two", second)


async def test_deleted_keys_are_gone_and_can_be_made_again(ports: Ports) -> None:
    """Only at the present revision; a new one has a higher revision."""
    bucket = await ports.bucket()
    first = await bucket.put_if("scheduler.a", b"one", 0)
    assert first is not None
    assert not await bucket.delete_if("scheduler.a", first + 1)
    assert await bucket.delete_if("scheduler.a", first)
    assert await bucket.get("scheduler.a") is None
    assert await bucket.entries() == []
    again = await bucket.put_if("scheduler.a", b"two", 0)
    assert again is not None
    assert again > first


async def test_entries_are_listed_by_the_beginning_of_their_keys(ports: Ports) -> None:
    """Those of other beginnings are left out."""
    bucket = await ports.bucket()
    for key in ("scheduler.p.1", "scheduler.p.10", "scheduler.r.1"):
        await bucket.put_if(key, key.encode(), 0)
    assert sorted(entry.key for entry in await bucket.entries("scheduler.p.")) == ["scheduler.p.1", "scheduler.p.10"]
    assert sorted(entry.value for entry in await bucket.entries("scheduler.r.")) == [b"scheduler.r.1"]
    assert await bucket.entries("dispatcher.") == []


async def test_racers_for_a_key_have_one_winner(ports: Ports) -> None:
    """Of five who would create it one does."""
    buckets = [await ports.bucket() for _ in range(5)]
    names = [f"r{number}".encode() for number in range(5)]
    found = await asyncio.gather(*(b.put_if("scheduler.a", n, 0) for b, n in zip(buckets, names, strict=True)))
    entry = await buckets[0].get("scheduler.a")
    assert entry is not None
    assert [name for name, revision in zip(names, found, strict=True) if revision is not None] == [entry.value]
