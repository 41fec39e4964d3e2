"""Spend ceilings: set, shown, exhausted, raised and removed, of a trigger and of a tenant."""

import pytest

from fireledger.runners.errors import ExitStatus
from fireledger.runners.json_edge import Json
from tests.integration.control.observing import attempted, released
from tests.integration.control.running import Service

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


def ceilings_of(answer: dict[str, Json]) -> list[dict[str, Json]]:
    """The ceilings of an answer."""
    rows = answer["ceilings"]
    assert isinstance(rows, list)
    return [row for row in rows if isinstance(row, dict)]


async def test_a_ceiling_suspends_when_it_is_spent_and_raising_it_resumes(service: Service) -> None:
    """What the executor reports counts; the trigger says until when it is suspended; a higher one goes on."""
    await service.create("spend", overlap="allow")
    named: dict[str, Json] = {"tenant": "spend", "trigger": "nightly"}
    told = await service.ask("trigger.ceiling", **named, per="day", amount=10)
    assert told["sentence"] == "Once 10 is spent in a day, nothing fires until the next begins."
    assert (await service.ask("trigger.ceiling", **named, per="day", amount=10))["changed"] is False
    await service.ask("fires.now", **named, by="ann")
    await service.tick("spend")
    await attempted(service, "spend", released(service, "spend", "nightly"), "succeeded", cost=12)
    shown = await service.ask("trigger.show", **named)
    (ceiling,) = ceilings_of(shown)
    assert (ceiling["per"], ceiling["amount"], ceiling["spent"], ceiling["exhausted"]) == ("day", 10, 12, True)
    assert (shown["state"], shown["suspended_until"]) == ("suspended", ceiling["resumes_at"])
    listed = await service.rows("trigger", "list", "spend", "--json")
    assert (listed[0]["state"], listed[0]["next"]) == ("suspended", None)
    stopped = await service.refusal("fires.now", **named, by="ann")
    assert (stopped.code, stopped.exit_status) == ("trigger-stopped", ExitStatus.CONFLICT)
    raised = await service.ask("trigger.ceiling", **named, per="day", amount=20)
    assert raised["suspended_until"] is None
    assert (await service.ask("trigger.show", **named))["state"] == "active"


async def test_a_tenants_ceiling_holds_for_all_of_its_triggers(service: Service) -> None:
    """Nothing at all may be spent: every trigger is suspended until it is removed."""
    await service.create("frugal")
    told = await service.ask("tenant.ceiling", tenant="frugal", per="month", amount=0)
    assert str(told["sentence"]).startswith("Nothing fires for now: 0 of 0 for this month are spent; resumes at ")
    tenant = await service.ask("tenant.show", tenant="frugal")
    (ceiling,) = ceilings_of(tenant)
    assert (tenant["suspended_until"], ceiling["per"]) == (ceiling["period_end"], "month")
    assert (await service.ask("trigger.show", tenant="frugal", trigger="nightly"))["state"] == "suspended"
    removed = await service.ask("tenant.ceiling", tenant="frugal", per="month", amount=None)
    assert (removed["ceilings"], removed["suspended_until"]) == ([], None)
    gone = await service.refusal("tenant.ceiling", tenant="frugal", per="month", amount=None)
    assert (gone.code, gone.exit_status) == ("ceiling-missing", ExitStatus.NOT_FOUND)


async def test_bad_ceilings_are_refused(service: Service) -> None:
    """An amount out of bounds, a missing trigger, a missing tenant, and a subject that does not fit."""
    await service.create("bounds-of")
    large = await service.refusal("tenant.ceiling", tenant="bounds-of", per="day", amount=10**15 + 1)
    assert (large.code, large.exit_status) == ("value-refused", ExitStatus.REFUSED)
    assert large.hint.startswith("use 0 to ")
    missing = await service.refusal("trigger.ceiling", tenant="bounds-of", trigger="none", per="day", amount=1)
    assert (missing.code, missing.exit_status) == ("trigger-missing", ExitStatus.NOT_FOUND)
    assert (await service.refusal("tenant.ceiling", tenant="nobody", per="day", amount=1)).code == "tenant-missing"
    for subject, trigger in (("tenant.ceiling", "nightly"), ("trigger.ceiling", None)):
        crossed = await service.refusal(subject, tenant="bounds-of", trigger=trigger, per="day", amount=1)
        assert crossed.code == "request-malformed"


async def test_the_command_line_shows_what_is_spent(service: Service) -> None:
    """One line, one sentence and a table; ``--remove`` takes the ceiling away."""
    await service.create("told-c")
    told = await service.run("trigger", "ceiling", "told-c/nightly", "--per", "week", "--amount", "5")
    assert (told.status, told.stderr) == (0, "")
    first, sentence, heading, row = told.stdout.splitlines()
    assert first == "trigger told-c/nightly: the ceiling per week is 5, page 3"
    assert sentence.startswith("Once 5 is spent in a week")
    assert (heading.split()[0], row.split()[:3]) == ("PER", ["week", "5", "0"])
    removed = await service.run("trigger", "ceiling", "told-c/nightly", "--per", "week", "--remove")
    assert (removed.status, removed.stderr) == (0, "there is no ceiling now\n")
