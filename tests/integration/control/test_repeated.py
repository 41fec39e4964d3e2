"""A repeated request is answered about what it did the first time, whatever became of its trigger since."""

from collections.abc import Awaitable, Callable

import pytest

from fireledger.runners.control import policy_requests, requests
from fireledger.runners.json_edge import Json
from tests.integration.control.observing import attempted, released
from tests.integration.control.running import TARGET, Service

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

Content = dict[str, Json]
Prepare = Callable[[Service, str], Awaitable[Content]]
"""Brings a tenant to where the command fits, and returns what the request says beside tenant and request id."""

SAID = ("key", "label", "start", "end", "rate_per_second", "per", "amount", "holder", "fires", "released", "cancelled")
"""What an answer says of the command itself and not of what is so now."""
RANGE: Content = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T01:00:00Z"}
DEFINED: Content = {"trigger": "t", "cron": "*/10 * * * *", "target": TARGET}
NAMED: Content = {"trigger": "t"}
BY: Content = {"trigger": "t", "by": "ann"}


async def _trigger(service: Service, tenant: str) -> Content:
    await service.ask("tenant.create", tenant=tenant)
    await service.ask("trigger.create", tenant=tenant, **DEFINED)
    return NAMED


def _with(more: Content) -> Prepare:
    async def prepare(service: Service, tenant: str) -> Content:
        """A trigger, and a request of these fields."""
        await _trigger(service, tenant)
        return more

    return prepare


async def _tenant_alone(service: Service, tenant: str) -> Content:
    await service.ask("tenant.create", tenant=tenant)
    return {**DEFINED}


async def _paused(service: Service, tenant: str) -> Content:
    await service.ask("trigger.pause", tenant=tenant, **await _trigger(service, tenant))
    return NAMED


async def _granted(service: Service, tenant: str) -> Content:
    await _trigger(service, tenant)
    await service.ask("backfill.grant", tenant=tenant, fires=100, holder="ann")
    return {**RANGE, **BY}


async def _backfilling(service: Service, tenant: str) -> Content:
    await service.ask("backfill.start", tenant=tenant, **await _granted(service, tenant))
    return BY


async def _held(service: Service, tenant: str) -> Content:
    await _trigger(service, tenant)
    asked = await service.ask("fires.now", tenant=tenant, **BY)
    await service.tick(tenant)
    await attempted(service, tenant, released(service, tenant, "t"), "held")
    return {"key": asked["key"], "by": "ann"}


async def _no_tenant(_service: Service, _tenant: str) -> Content:
    return {}


COMMANDS: dict[str, tuple[type[requests.CommandRequest], Prepare]] = {
    "tenant.create": (requests.TenantOptions, _no_tenant),
    "tenant.amend": (requests.TenantOptions, _with({"zone": "Europe/Rome"})),
    "tenant.ceiling": (policy_requests.CeilingChange, _with({"per": "day", "amount": 5})),
    "trigger.create": (requests.CreateTrigger, _tenant_alone),
    "trigger.amend": (requests.AmendTrigger, _with({**NAMED, "cron": "*/5 * * * *"})),
    "trigger.pause": (requests.PauseTrigger, _trigger),
    "trigger.resume": (requests.ResumeTrigger, _paused),
    "trigger.delete": (requests.DeleteTrigger, _trigger),
    "trigger.ceiling": (policy_requests.CeilingChange, _with({**NAMED, "per": "day", "amount": 5})),
    "fires.now": (policy_requests.FiresNow, _with(BY)),
    "fires.release": (policy_requests.FireByHand, _held),
    "fires.cancel": (policy_requests.FireByHand, _held),
    "backfill.grant": (policy_requests.BackfillGrant, _with({**NAMED, "fires": 10, "holder": "ann"})),
    "backfill.start": (policy_requests.BackfillStart, _granted),
    "backfill.cancel": (policy_requests.BackfillCancel, _backfilling),
}


def _kinds(base: type[requests.CommandRequest]) -> set[type[requests.CommandRequest]]:
    found = set(base.__subclasses__())
    return found.union(*map(_kinds, found))


async def test_every_command_is_here() -> None:
    """Each kind of request that has an id; those that are only what others have in common aside."""
    bases = {requests.TriggerRequest, requests.TriggerOptions}
    assert {kind for kind, _ in COMMANDS.values()} == _kinds(requests.CommandRequest) - bases


async def _deleted(service: Service, tenant: str) -> None:
    if service.control.model.book(tenant).state.live("t") is not None:
        await service.ask("trigger.delete", tenant=tenant, **NAMED)


async def _created_again(service: Service, tenant: str) -> None:
    await _deleted(service, tenant)
    await service.ask("trigger.create", tenant=tenant, **DEFINED)


async def _with_another_backfill(service: Service, tenant: str) -> None:
    await _created_again(service, tenant)
    await service.ask("backfill.grant", tenant=tenant, fires=100, holder="bob")
    other: Content = {"start": "2026-02-01T00:00:00Z", "end": "2026-02-01T02:00:00Z"}
    await service.ask("backfill.start", tenant=tenant, **other, **BY)


@pytest.mark.parametrize("subject", COMMANDS)
async def test_a_repeated_request_is_about_what_it_did(service: Service, subject: str) -> None:
    """At once, after a deletion, under a new trigger of the name, and after another backfill: the same page."""
    tenant = f"repeat-{subject.replace('.', '-')}"
    _, prepare = COMMANDS[subject]
    content = {"tenant": tenant, **await prepare(service, tenant), "request_id": "one"}
    first = await service.ask(subject, **content)
    assert (first["changed"], first["repeated"]) == (True, False)
    for change in (None, _deleted, _created_again, _with_another_backfill):
        if change is not None:
            await change(service, tenant)
        again = await service.ask(subject, **content)
        assert (again["page"], again["repeated"]) == (first["page"], True)
        assert {name: again[name] for name in SAID if name in again} == {n: first[n] for n in SAID if n in first}
