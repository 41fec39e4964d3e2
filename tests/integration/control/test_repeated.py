"""A repeated request is answered about what it did the first time, whatever became of its trigger since."""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from fireledger.runners import cli
from fireledger.runners.control import policy_requests, requests
from fireledger.runners.errors import ControlRefused
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

OTHER: dict[str, Content] = {
    "tenant.amend": {"zone": "Europe/Paris"},
    "tenant.ceiling": {"amount": 7},
    "trigger.amend": {"cron": "*/3 * * * *"},
    "trigger.ceiling": {"amount": 7},
    "backfill.grant": {"fires": 20, "holder": "bob"},
}
"""What another such command says otherwise."""
NOW_OF_A_TRIGGER = ("version", "schedule", "ceilings", "next", "backfill_grant", "count", "pace_per_second")
"""What an answer says only of a trigger that is there."""


def _kinds(base: type[requests.CommandRequest]) -> set[type[requests.CommandRequest]]:
    found = set(base.__subclasses__())
    return found.union(*map(_kinds, found))


async def test_every_command_is_here() -> None:
    """Each kind of request that has an id; those that are only what others have in common aside."""
    bases = {requests.TriggerRequest, requests.TriggerOptions}
    assert {kind for kind, _ in COMMANDS.values()} == _kinds(requests.CommandRequest) - bases


async def test_every_subject_of_a_command_is_here() -> None:
    """Those that the command line gives with a request id."""
    sources = [path.read_text() for path in Path(cli.__file__).parent.glob("*.py")]
    given = [found for source in sources for found in re.findall(r"\bgive\(\s*place,\s*(\S+?),", source)]
    assert set(given) == {f'"{subject}"' for subject in COMMANDS}


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


async def _given_otherwise(service: Service, subject: str, content: Content) -> None:
    """Another such command, under an id of its own; where only one is possible it is refused."""
    with suppress(ControlRefused):
        await service.ask(subject, **{**content, **OTHER.get(subject, {}), "request_id": "two"})


@pytest.mark.parametrize("subject", COMMANDS)
async def test_a_repeated_request_is_about_what_it_did(service: Service, subject: str) -> None:
    """At once, after another such command, after a deletion, under a new trigger, after another backfill: its page."""
    tenant = f"repeat-{subject.replace('.', '-')}"
    _, prepare = COMMANDS[subject]
    content = {"tenant": tenant, **await prepare(service, tenant), "request_id": "one"}
    first = await service.ask(subject, **content)
    assert (first["changed"], first["repeated"]) == (True, False)
    said = {name: first[name] for name in SAID if name in first}

    async def repeat() -> Content:
        """The request again, answered with the same page and the same words about the command."""
        again = await service.ask(subject, **content)
        assert (again["page"], again["changed"], again["repeated"]) == (first["page"], True, True)
        assert {name: again.get(name) for name in said} == said
        return again

    await repeat()
    await _given_otherwise(service, subject, content)
    await repeat()
    for change in (_deleted, _created_again, _with_another_backfill):
        await change(service, tenant)
        again = await repeat()
        if subject.startswith("trigger.") or subject == "backfill.start":
            assert again.keys().isdisjoint(NOW_OF_A_TRIGGER), "that would be another trigger's"
            assert again.get("state", "deleted") == "deleted"
            assert subject == "trigger.delete" or again["sentence"] == "The trigger was deleted since."
    await _given_otherwise(service, subject, content)
    await repeat()


async def test_a_repeated_ceiling_that_was_changed_since_says_so(service: Service) -> None:
    """Of a trigger and of a tenant; the ceilings themselves are shown as they are now."""
    await service.create("ceilings", "t")
    for subject, named in (("trigger.ceiling", {"trigger": "t"}), ("tenant.ceiling", {})):
        asked: Content = {"tenant": "ceilings", **named, "per": "day", "amount": 5, "request_id": subject}
        first = await service.ask(subject, **asked)
        assert first["sentence"] == "Once 5 is spent in a day, nothing fires until the next begins."
        assert (await service.ask(subject, **asked))["sentence"] == first["sentence"]
        await service.ask(subject, **{**asked, "amount": 7, "request_id": ""})
        again = await service.ask(subject, **asked)
        assert (again["amount"], again["sentence"]) == (5, "The ceiling per day was changed since.")
        assert isinstance(again["ceilings"], list)
        assert isinstance(again["ceilings"][0], dict)
        assert again["ceilings"][0]["amount"] == 7


async def test_a_repeated_backfill_says_how_it_ended(service: Service) -> None:
    """And how many fires it was to make only if that is known; after another one, which that is not."""
    await _granted(service, "ended")
    asked: Content = {"tenant": "ended", **RANGE, **BY, "request_id": "one"}
    first = await service.ask("backfill.start", **asked)
    assert (await service.ask("backfill.start", **asked))["count"] == first["count"] == 6
    await service.ask("backfill.cancel", tenant="ended", **BY)
    again = await service.ask("backfill.start", **asked)
    assert ("count" in again, again["sentence"]) == (False, "It has ended: cancelled. Fires released: 0.")
    short: Content = {"tenant": "ended", **BY, "start": RANGE["start"], "end": "2026-01-01T00:10:00Z"}
    short["request_id"] = "short"
    await service.ask("backfill.start", **short)
    other = await service.ask("backfill.start", **asked)
    assert (other["page"], other["label"], "count" in other) == (first["page"], first["label"], False)
    assert other["sentence"] == "It has ended, and the trigger had another backfill since."
    await service.tick("ended")
    complete = await service.ask("backfill.start", **short)
    assert (complete["count"], complete["sentence"]) == (1, "It has ended: complete. Fires released: 1.")


async def test_a_repeated_withdrawal_says_what_is_granted_since(service: Service) -> None:
    """Not that the tenant grants what the trigger was granted anew."""
    await _trigger(service, "regranted")
    withdraw = ("backfill", "grant", "regranted/t", "--fires", "0", "--holder", "ann", "--request-id", "w")
    await service.ask("backfill.grant", tenant="regranted", **NAMED, fires=10, holder="ann")
    assert "regranted/t: no backfill is granted, holder ann" in (await service.run(*withdraw)).stdout
    await service.ask("backfill.grant", tenant="regranted", fires=90, holder="ann")
    of_tenant = "no grant of its own; the tenant's still allows backfills of 90 fires at most"
    assert of_tenant in (await service.run(*withdraw)).stdout
    await service.ask("backfill.grant", tenant="regranted", **NAMED, fires=20, holder="bob")
    told = (await service.run(*withdraw)).stdout
    assert "the grant was withdrawn; since then backfills of 20 fires at most are granted, holder ann" in told
    assert "(this request was carried out before)" in told


async def test_the_command_line_says_that_a_trigger_was_deleted_since(service: Service) -> None:
    """Instead of the next instants of the one that has its name now."""
    await service.ask("tenant.create", tenant="told")
    create = ("trigger", "create", "told/t", "--every", "1h", "--target", TARGET, "--request-id", "c")
    first = await service.run(*create)
    assert "next:" in first.stdout
    await _created_again(service, "told")
    again = await service.run(*create)
    assert again.stdout == (
        "trigger told/t created, page 2 (this request was carried out before)\nThe trigger was deleted since.\n"
    )
