"""What each user must not do is refused by the broker, by the front door and by the back door."""

import pytest
from nats.errors import NoRespondersError

from fireledger.runners.jetstream.topology import UserName, stream_table
from fireledger.runners.json_edge import Json
from tests.integration.brokers import TENANTS, Bare, RunningBroker, bare_connection
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

RUNNERS = ("control", "scheduler", "dispatcher", "projector", "shadow", "replay", "operator", "executor-acme")
BOOK, ATTEMPTS, REPORTS = "book.5.acme", "attempts.5", "reports.5"
LEASE = "$KV.leases.%s.runner"

FORBIDDEN: dict[str, tuple[str, ...]] = {
    "control": (ATTEMPTS, LEASE % "scheduler", "work.acme.report", "feed.acme.t", "$O.snapshots.C.x"),
    "scheduler": (ATTEMPTS, REPORTS, LEASE % "dispatcher", "work.acme.report", "$O.tzdb.C.x", "control.ping"),
    "dispatcher": (BOOK, REPORTS, "outcomes.acme", LEASE % "scheduler", "feed.acme.t", "$O.tzdb.C.x", "control.ping"),
    "projector": (BOOK, ATTEMPTS, REPORTS, LEASE % "projector", "work.acme.report", "control.ping"),
    "shadow": (BOOK, ATTEMPTS, REPORTS, "feed.acme.t", "work.acme.report", "$O.archive.C.x"),
    "replay": (BOOK, ATTEMPTS, REPORTS, "feed.acme.t", "work.acme.report", "$KV.digests.x", "$O.archive.C.x"),
    "operator": (BOOK, ATTEMPTS, REPORTS, "outcomes.acme", "work.acme.report", "$JS.API.STREAM.INFO.LEDGER"),
    "executor-acme": (
        BOOK,
        ATTEMPTS,
        REPORTS,
        "work.acme.report",
        "work.globex.report",
        "$KV.executor-globex.key",
        "control.ping",
        "outcomes.globex",
        "outcomes.acme.more",
        "$JS.API.STREAM.INFO.LEDGER",
        "$JS.API.STREAM.MSG.GET.KV_executor-globex",
    ),
}
"""Per user, what it might want to publish and must not."""

ADMINISTRATION = (
    "STREAM.CREATE.OTHER",
    "STREAM.UPDATE.LEDGER",
    "STREAM.DELETE.LEDGER",
    "STREAM.PURGE.LEDGER",
    "STREAM.MSG.DELETE.LEDGER",
    "STREAM.RESTORE.LEDGER",
    "STREAM.SNAPSHOT.LEDGER",
    "STREAM.PURGE.KV_leases",
    "CONSUMER.DURABLE.CREATE.LEDGER.keep",
)


async def _state(shared_broker: RunningBroker) -> Json:
    """Everything a forger could change: settings, last sequence and subjects of every stream."""
    found: dict[str, Json] = {}
    async with bare_connection(shared_broker, "admin") as admin:
        for stream in stream_table(tenants=TENANTS):
            info = await admin.ask(f"$JS.API.STREAM.INFO.{stream.name}", {"subjects_filter": ">"})
            assert isinstance(info, dict)
            assert isinstance(info["state"], dict)
            found[stream.name] = [info["config"], info["state"]["last_seq"], info["state"].get("subjects")]
    return found


async def _settle(connection: Bare) -> None:
    """Return when the broker has dealt with everything this connection sent."""
    await connection.flush()
    await connection.ask("$SYS.REQ.USER.INFO")


@pytest.mark.asyncio
@pytest.mark.parametrize("user", RUNNERS)
async def test_what_is_not_a_users_is_refused(shared_broker: RunningBroker, user: str) -> None:
    """Publishing where another writes, and administering streams, is a violation each time; nothing changes."""
    before = await _state(shared_broker)
    subjects = [*FORBIDDEN[user], *(f"$JS.API.{call}" for call in ADMINISTRATION)]
    async with bare_connection(shared_broker, user) as intruder:
        for subject in subjects:
            await intruder.client.publish(subject, b"forged")
        await _settle(intruder)
        refused = [text.lower() for text in intruder.complaints]
        assert [s for s in subjects if not any(f'publish to "{s.lower()}"' in text for text in refused)] == []
    assert await _state(shared_broker) == before


@pytest.mark.asyncio
@pytest.mark.parametrize("user", RUNNERS)
async def test_what_is_for_others_cannot_be_heard(shared_broker: RunningBroker, user: str) -> None:
    """Nobody listens to another's inbox, another tenant's work, the commands, or everything."""
    others = ["_INBOX.>", "_INBOX_admin.>", "work.globex.>", "$KV.>", "book.>", ">"]
    others += [f"_INBOX_{name}.>" for name in RUNNERS if name != user]
    others += ["control.>", "outcomes.*"] if user != "control" else ["work.acme.>"]
    async with bare_connection(shared_broker, user) as intruder:
        for subject in others:
            await intruder.listen(subject)
        await _settle(intruder)
        refused = [text.lower() for text in intruder.complaints]
        assert [s for s in others if not any(f'subscription to "{s.lower()}"' in text for text in refused)] == []


@pytest.mark.asyncio
async def test_no_answer_lands_in_a_stream(shared_broker: RunningBroker) -> None:
    """A request whose reply subject is a book, or anything else that is stored, has its answer go nowhere."""
    targets = (BOOK, REPORTS, LEASE % "scheduler", "feed.acme.t", "$JS.API.STREAM.PURGE.LEDGER")
    async with bare_connection(shared_broker, "dispatcher") as dispatcher:
        await dispatcher.ask(ATTEMPTS, {"a": "page in disguise"})
        await dispatcher.ask(
            "$JS.API.CONSUMER.CREATE.LEDGER.reader",
            {"stream_name": "LEDGER", "config": {"name": "reader", "ack_policy": "none", "deliver_policy": "all"}},
        )
        before = await _state(shared_broker)
        for target in targets:
            for call, body in (
                ("$JS.API.STREAM.INFO.LEDGER", b""),
                ("$JS.API.STREAM.MSG.GET.LEDGER", b'{"seq":1}'),
                ("$JS.API.DIRECT.GET.LEDGER", b'{"seq":1}'),
                ("$JS.API.CONSUMER.MSG.NEXT.LEDGER.reader", b'{"batch":1,"no_wait":true}'),
                ("$JS.API.CONSUMER.INFO.LEDGER.reader", b""),
            ):
                await dispatcher.client.publish(call, body, reply=target)
        await _settle(dispatcher)
        await dispatcher.ask("$JS.API.STREAM.INFO.LEDGER")
        assert dispatcher.complaints == []
    assert await _state(shared_broker) == before


@pytest.mark.asyncio
async def test_an_executors_bucket_is_no_way_into_a_book(shared_broker: RunningBroker) -> None:
    """Neither the acknowledgement of a put nor the value read back can be sent into a stream."""
    targets = (BOOK, ATTEMPTS, "control.ping", "$KV.executor-globex.key", "$JS.API.STREAM.UPDATE.LEDGER")
    async with bare_connection(shared_broker, "executor-acme") as executor:
        await executor.ask("$KV.executor-acme.key", {"name": "LEDGER"})
        before = await _state(shared_broker)
        for target in targets:
            key = b'{"last_by_subj":"$KV.executor-acme.key"}'
            await executor.client.publish("$JS.API.STREAM.MSG.GET.KV_executor-acme", key, reply=target)
            await executor.client.publish("$JS.API.DIRECT.GET.KV_executor-acme", key, reply=target)
            await executor.client.publish("$JS.API.STREAM.INFO.KV_executor-acme", b"", reply=target)
        await _settle(executor)
        await executor.ask("$JS.API.STREAM.INFO.KV_executor-acme")
        assert executor.complaints == []
    assert await _state(shared_broker) == before


@pytest.mark.asyncio
@pytest.mark.parametrize("target", [BOOK, LEASE % "scheduler", "$JS.API.STREAM.UPDATE.LEDGER", "work.acme.report"])
@pytest.mark.parametrize("stream", ["LEDGER", "KV_leases"])
async def test_a_push_consumer_writes_nowhere(shared_broker: RunningBroker, stream: str, target: str) -> None:
    """A consumer that delivers to a stored subject is refused, or what it delivers is stored nowhere."""
    async with (
        bare_connection(shared_broker, "executor-acme") as executor,
        bare_connection(shared_broker, "dispatcher") as dispatcher,
    ):
        work = await executor.listen("work.acme.>")
        await dispatcher.ask(ATTEMPTS, stream_table()[1].as_request())
        await dispatcher.ask(LEASE % "dispatcher", {"a": "lease"})
        before = await _state(shared_broker)
        name = f"push-{target}".translate({ord("."): "-", ord("$"): "-"})
        config: dict[str, Json] = {
            "name": name,
            "ack_policy": "none",
            "deliver_policy": "all",
            "deliver_subject": target,
        }
        await dispatcher.ask(f"$JS.API.CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})
        await _settle(dispatcher)
        await dispatcher.ask(f"$JS.API.STREAM.INFO.{stream}")
        assert await _state(shared_broker) == before
        assert work.pending_msgs == 0


@pytest.mark.asyncio
async def test_what_is_a_users_is_allowed(shared_broker: RunningBroker) -> None:
    """Each writer reaches its own subjects, is acknowledged, and reads the ledger back."""
    own = {
        "control": (BOOK, REPORTS, "$O.tzdb.C.x"),
        "scheduler": (BOOK, LEASE % "scheduler", "$O.snapshots.C.x"),
        "dispatcher": (ATTEMPTS, LEASE % "dispatcher"),
        "projector": ("feed.acme.t", "$KV.digests.x", "$O.snapshots.C.y", "$O.archive.C.x"),
        "shadow": ("$KV.digests.y",),
        "executor-acme": ("$KV.executor-acme.key",),
    }
    for user, subjects in own.items():
        async with bare_connection(shared_broker, user) as connection:
            for subject in subjects:
                acknowledged = await connection.ask(subject, "written")
                assert isinstance(acknowledged, dict)
                assert acknowledged.get("seq"), f"{user} {subject}"
            assert connection.complaints == []
    for user in (UserName.CONTROL, UserName.SCHEDULER, UserName.PROJECTOR, UserName.SHADOW, UserName.REPLAY):
        async with bare_connection(shared_broker, user) as connection:
            answer = await connection.ask("$JS.API.STREAM.MSG.GET.LEDGER", {"last_by_subj": BOOK})
            assert isinstance(answer, dict)
            assert "message" in answer


@pytest.mark.asyncio
async def test_work_is_asked_for_and_answered_across_the_border(shared_broker: RunningBroker) -> None:
    """The dispatcher's request reaches the tenant's executor and its answer comes back, once."""
    async with bare_connection(shared_broker, "dispatcher") as dispatcher:
        with pytest.raises(NoRespondersError):
            await dispatcher.client.request("work.acme.report", b"", timeout=1)
        async with bare_connection(shared_broker, "executor-acme") as executor:
            work = await executor.listen("work.acme.>")
            inbox = dispatcher.client.new_inbox()
            answers = await dispatcher.listen(inbox)
            await dispatcher.client.publish("work.acme.report", b"do it", reply=inbox)
            message = await work.next_msg(PATIENCE_S)
            await message.respond(b"done")
            await message.respond(b"done again")
            await _settle(executor)
            await _settle(dispatcher)
            assert (await answers.next_msg(PATIENCE_S)).data == b"done"
            assert answers.pending_msgs == 0
            assert executor.complaints == []


@pytest.mark.asyncio
async def test_a_command_is_answered_as_often_as_control_likes(shared_broker: RunningBroker) -> None:
    """The operator's request reaches control, and a follower gets many answers; a reply into a book gets nowhere."""
    async with (
        bare_connection(shared_broker, "control") as control,
        bare_connection(shared_broker, "operator") as operator,
    ):
        commands = await control.listen("control.>")
        inbox = operator.client.new_inbox()
        answers = await operator.listen(inbox)
        await operator.client.publish("control.follow", b"", reply=inbox)
        message = await commands.next_msg(PATIENCE_S)
        for number in range(100):
            await message.respond(str(number).encode())
        assert [(await answers.next_msg(PATIENCE_S)).data for _ in range(100)] == [str(n).encode() for n in range(100)]
        before = await _state(shared_broker)
        await operator.client.publish("control.ping", b"", reply=BOOK)
        await (await commands.next_msg(PATIENCE_S)).respond(b"pong")
        await _settle(control)
        assert await _state(shared_broker) == before


@pytest.mark.asyncio
async def test_the_store_is_shut_off_from_the_ledger(shared_broker: RunningBroker) -> None:
    """The store's user makes streams of its own, the ledger's name included, and none of it is the ledger's."""
    before = await _state(shared_broker)
    async with bare_connection(shared_broker, "store") as store:
        answer = await store.ask("$JS.API.STREAM.CREATE.LEDGER", stream_table()[0].as_request())
        assert isinstance(answer, dict)
        assert "error" not in answer
        await store.ask(BOOK, "forged")
        await store.ask("$JS.API.STREAM.DELETE.LEDGER")
    assert await _state(shared_broker) == before
