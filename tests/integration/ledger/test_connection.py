"""A connection: logging in, losing the broker, getting it back, closing."""

import asyncio
import os
import signal

import pytest

from fireledger.runners.errors import BrokerRefused, BrokerUnavailable
from fireledger.runners.jetstream import connection as module
from fireledger.runners.jetstream.connection import BrokerConnection, Login, NobodyListens
from fireledger.runners.jetstream.leader import stream_state
from fireledger.runners.jetstream.subscription import Message
from tests.integration.brokers import RunningBroker
from tests.integration.ledger.books import Connect, frozen
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]


async def test_an_unreachable_broker_is_named() -> None:
    """Nobody listens: the error names the address, gives a hint, and comes in the time allowed."""
    login = Login("nats://127.0.0.1:9", "scheduler", "hush-hush")
    with pytest.raises(BrokerUnavailable, match=r'no broker can be reached at "nats://127\.0\.0\.1:9"') as caught:
        await asyncio.wait_for(BrokerConnection.open(login, name="t", connect_timeout_s=0.2), 4)
    assert caught.value.hint
    assert "hush" not in str(caught.value)


async def test_a_flush_waits_for_a_subscription_just_made() -> None:
    """The last ping before a flush returns comes after everything handed over, whatever the library holds back."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak just enough of the protocol to answer pings, and note what was heard."""
        writer.write(b'INFO {"headers":true,"max_payload":1048576}\r\n')
        while line := await reader.readline():
            heard.append(line.split(None, 1)[0])
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection = await BrokerConnection.open(Login(f"nats://127.0.0.1:{port}", "anybody", ""), name="t")
        await connection.flush()
        heard.clear()
        await connection.subscribe("some.subject", _ignore)
        await connection.flush()
        assert b"SUB" in heard[: len(heard) - heard[::-1].index(b"PING")], heard
        await connection.close()


async def _ignore(_message: Message) -> None:
    """Take no notice."""


async def test_a_refused_login_is_told_apart_at_once(broker: RunningBroker) -> None:
    """A wrong password is not retried until the time is over."""
    login = Login(broker.url, "scheduler", "wrong")
    with pytest.raises(BrokerRefused, match='refused user "scheduler"'):
        await asyncio.wait_for(BrokerConnection.open(login, name="t", connect_timeout_s=60), 30)


async def test_a_lost_broker_fails_what_waits_and_comes_back(
    broker: RunningBroker, connection: BrokerConnection
) -> None:
    """A waiting request fails at the loss, not at its timeout; the generation grows once; callbacks are called."""
    called: list[int] = []
    forget = connection.on_reconnect(lambda: called.append(connection.generation))
    with frozen(broker):
        waiting = asyncio.create_task(connection.request("$JS.API.STREAM.INFO.LEDGER", b"", timeout_s=60))
        done, _ = await asyncio.wait({waiting}, timeout=0.1)
        assert not done
        os.kill(broker.pid, signal.SIGKILL)
    with pytest.raises(BrokerUnavailable):
        await asyncio.wait_for(waiting, 30)
    assert not connection.connected
    await broker.process.restart()
    assert await connection.wait_connected(PATIENCE_S)
    await until(lambda: called == [1], what="the callback is called")
    assert (await stream_state(connection, "LEDGER")).last_sequence == 0
    forget()
    await broker.process.restart()
    await until(lambda: connection.connected and connection.generation == 2, what="it is back")
    assert called == [1]


async def test_a_subscription_outlives_a_restart(broker: RunningBroker, connect: Connect) -> None:
    """The handler goes on after the broker is back, also after one of its calls failed."""
    admin, heard = await connect("admin"), list[bytes]()

    async def handler(message: Message) -> None:
        """Hear it."""
        heard.append(message.payload)
        if message.payload == b"bad":
            raise ValueError("a defect in a handler")

    subscription = await admin.subscribe("chatter.*", handler)
    await admin.publish("chatter.a", b"bad")
    await admin.publish("chatter.b", b"good")
    await until(lambda: heard == [b"bad", b"good"], what="both are heard")
    await broker.process.restart()
    await until(lambda: admin.connected, what="it is back")
    await admin.publish("chatter.a", b"again")
    await until(lambda: heard[-1] == b"again", what="the third is heard")
    await subscription.unsubscribe()
    await subscription.unsubscribe()


async def test_a_slow_subscriber_is_counted(connect: Connect) -> None:
    """What does not fit into the bound is dropped, and the count says so."""
    admin, release = await connect("admin"), asyncio.Event()

    async def handler(_: Message) -> None:
        """Hear it."""
        await release.wait()

    await admin.subscribe("chatter", handler, pending_max=3)
    for _ in range(10):
        await admin.publish("chatter", b"x")
    await until(lambda: admin.slow_consumer_count >= 6, what="the drops are counted")
    release.set()


async def test_nobody_listening_is_told_at_once(connect: Connect) -> None:
    """A request without a responder fails long before its timeout."""
    admin = await connect("admin")
    with pytest.raises(BrokerUnavailable, match='nobody answers on "nobody"'):
        await asyncio.wait_for(admin.request("nobody", b"", timeout_s=60), 30)


async def test_a_question_waits_for_a_listener(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may be asked twice is asked again until somebody listens; with nobody there the error comes in time."""
    admin = await connect("admin")
    asked = asyncio.create_task(admin.ask("late", b"how late?", timeout_s=60))
    done, _ = await asyncio.wait({asked}, timeout=0.1)
    assert not done

    async def answer(message: Message) -> None:
        """Answer."""
        await admin.publish(message.reply, b"this late")

    await admin.subscribe("late", answer)
    assert (await asyncio.wait_for(asked, 30)).payload == b"this late"
    monkeypatch.setattr(module, "NOBODY_S_MAX", 0.1)
    with pytest.raises(NobodyListens):
        await asyncio.wait_for(admin.ask("nobody", b"", timeout_s=60), 30)
    with pytest.raises(NobodyListens):
        await asyncio.wait_for(anext(admin.ask_many("nobody", b"", timeout_s=60)), 30)


async def test_closing_is_bounded_and_harmless_to_repeat(broker: RunningBroker, connect: Connect) -> None:
    """With the broker frozen a close comes to its end; waiting requests fail and later ones are refused."""
    connection = await connect("scheduler")
    with frozen(broker):
        waiting = asyncio.create_task(connection.request("$JS.API.STREAM.INFO.LEDGER", b"", timeout_s=60))
        await asyncio.wait({waiting}, timeout=0.05)
        await asyncio.wait_for(connection.close(), 10)
        await asyncio.wait_for(connection.close(), 10)
        with pytest.raises(BrokerUnavailable, match="closed"):
            await waiting
        with pytest.raises(BrokerUnavailable):
            await connection.publish("book.1.acme", b"x")
