"""Control at its start and across an outage of the broker: nothing is lost, and what is not known is said."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack

import pytest

from fireledger.runners.errors import BrokerUnavailable, OperationalError
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.json_edge import Json
from tests.integration.brokers import RunningBroker
from tests.integration.control.running import TARGET, Service, running_control, running_service
from tests.simulated_clock import SimulatedClock
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]


async def answers(service: Service) -> bool:
    """Whether control answers again."""
    try:
        await service.ask("tenant.list")
    except OperationalError:
        return False
    return True


async def test_control_is_ready_once_requests_find_it(
    control_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that it is ready after the broker has confirmed its subscription, if need be at the second question."""
    flush, asked, confirmed = BrokerConnection.flush, asyncio.Semaphore(0), asyncio.Event()

    async def flush_late(self: BrokerConnection, *, timeout_s: float) -> None:
        """Lose the first question, and answer the second when told to."""
        asked.release()
        if not confirmed.is_set():
            await confirmed.wait()
            raise BrokerUnavailable("lost")
        await flush(self, timeout_s=timeout_s)

    monkeypatch.setattr(BrokerConnection, "flush", flush_late)
    async with AsyncExitStack() as stack:
        starting = asyncio.create_task(stack.enter_async_context(running_control(control_broker, SimulatedClock())))
        await asyncio.wait_for(asked.acquire(), PATIENCE_S)
        done, _ = await asyncio.wait({starting}, timeout=0.1)
        assert not done
        confirmed.set()
        assert (await starting).ready.is_set()
        client = await BrokerConnection.open(control_broker.login("operator"), name="client")
        stack.push_async_callback(client.close)
        assert (await client.request("control.tenant.list", b"{}", timeout_s=PATIENCE_S)).payload
        await asyncio.wait_for(asked.acquire(), PATIENCE_S)


async def test_control_goes_on_after_the_broker_was_killed(broker: RunningBroker) -> None:
    """What was acknowledged is there, the same request is carried out once, and new commands work."""
    async with running_service(broker) as service:
        await service.ask("tenant.create", tenant="acme")
        request: dict[str, Json] = {"tenant": "acme", "trigger": "t", "every": "1h", "target": TARGET}
        first = await service.ask("trigger.create", **request, request_id="one")
        os.kill(broker.pid, signal.SIGKILL)
        with pytest.raises(OperationalError):
            await service.ask("trigger.create", **{**request, "trigger": "u"})
        await broker.process.wait()
        await broker.process.restart()
        await until(lambda: answers(service), what="an answer")
        again = await service.ask("trigger.create", **request, request_id="one")
        assert (again["page"], again["repeated"]) == (first["page"], True)
        await service.ask("trigger.create", **{**request, "trigger": "v"})
        assert (await service.ask("tenant.show", tenant="acme"))["ineffective_pages"] == 0
