"""Control across an outage of the broker: nothing is lost, and what is not known is said."""

import os
import signal

import pytest

from fireledger.runners.errors import OperationalError
from fireledger.runners.json_edge import Json
from tests.integration.brokers import RunningBroker
from tests.integration.control.running import TARGET, Service, running_service
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]


async def answers(service: Service) -> bool:
    """Whether control answers again."""
    try:
        await service.ask("tenant.list")
    except OperationalError:
        return False
    return True


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
        await until(lambda: answers(service), timeout_s=10, what="an answer")
        again = await service.ask("trigger.create", **request, request_id="one")
        assert (again["page"], again["repeated"]) == (first["page"], True)
        await service.ask("trigger.create", **{**request, "trigger": "v"})
        assert (await service.ask("tenant.show", tenant="acme"))["ineffective_pages"] == 0
