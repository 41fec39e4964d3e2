"""The demo's tenant and triggers: what ``fireledger up --demo`` creates, and leaves alone when it is there."""

from dataclasses import dataclass

from ..control_client import ControlClient
from ..errors import ControlRefused, ExitStatus
from ..json_edge import Json
from ..logs import get_log

DEMO_TENANT = "demo"
DEMO_NATS_NAME = "demo"
_log = get_log("demo")


@dataclass(frozen=True, slots=True)
class DemoTrigger:
    """One trigger of the demo and the options it is created with."""

    name: str
    options: dict[str, Json]


def demo_triggers(http_url: str) -> tuple[DemoTrigger, ...]:
    """The demo's triggers: both kinds of target, both kinds of schedule, jitter, and an executor that is slow.

    Retries come soon, so that a restarted executor is fired at again before anybody thinks that the demo is over.
    """
    return (
        DemoTrigger(
            "every-2-seconds", {"every": "2s", "target": f"nats:{DEMO_NATS_NAME}", "payload": '{"hello":"nats"}'}
        ),
        DemoTrigger(
            "every-5-seconds",
            {"cron": "*/5 * * * * *", "target": f"{http_url}/ok", "payload": "hello", "retry_base": "2s"},
        ),
        DemoTrigger(
            "every-15-seconds-spread",
            {
                "cron": "*/15 * * * * *",
                "target": f"{http_url}/ok",
                "payload": "hello",
                "jitter": "10s",
                "retry_base": "2s",
            },
        ),
        DemoTrigger(
            "slow-executor",
            {"cron": "*/10 * * * * *", "target": f"{http_url}/slow?ms=12000", "payload": "", "timeout": "20s"},
        ),
        DemoTrigger(
            "weekday-mornings",
            {
                "cron": "0 9 * * 1-5",
                "zone": "Europe/Rome",
                "target": f"nats:{DEMO_NATS_NAME}",
                "payload": "good morning",
            },
        ),
    )


async def ensure_demo(client: ControlClient, http_url: str) -> None:
    """Create what is missing of the demo. A trigger whose HTTP port has changed is amended; nothing else is."""
    await _unless_there(client, "control.tenant.create", {"tenant": DEMO_TENANT})
    for trigger in demo_triggers(http_url):
        named: dict[str, Json] = {"tenant": DEMO_TENANT, "trigger": trigger.name}
        created = await _unless_there(client, "control.trigger.create", {**named, **trigger.options})
        if not created and str(trigger.options["target"]).startswith("http"):
            await client.ask("control.trigger.amend", {**named, "target": trigger.options["target"]})


async def _unless_there(client: ControlClient, subject: str, request: dict[str, Json]) -> bool:
    try:
        await client.ask(subject, request)
    except ControlRefused as error:
        if error.exit_status is not ExitStatus.CONFLICT:
            raise
        return False
    _log.info("demo-created", subject=subject, trigger=request.get("trigger", ""))
    return True
