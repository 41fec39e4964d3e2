"""Fires by hand: asked for, let go on, and cancelled by a person; each is in the book and says what happens next."""

import pytest

from fireledger.runners.errors import ExitStatus
from fireledger.runners.json_edge import Json
from tests.integration.control.observing import attempted, released
from tests.integration.control.running import Service

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


async def row(service: Service, key: Json) -> dict[str, Json]:
    """The fire as control shows it."""
    return await service.ask("fires.show", key=key)


async def test_a_person_fires_a_trigger_beside_its_schedule(service: Service) -> None:
    """It gets the next run number, waits until the scheduler releases it, and stands in the book with the name."""
    await service.create("hand")
    asked = await service.ask("fires.now", tenant="hand", trigger="nightly", by="ann", request_id="one")
    assert (asked["sequence"], asked["sentence"], asked["changed"]) == (1, "The scheduler releases it at once.", True)
    waiting = await row(service, asked["key"])
    assert (waiting["state"], waiting["cause"], waiting["lane"]) == ("waiting", "by-hand", "on-time")
    await service.tick("hand")
    assert (await row(service, asked["key"]))["state"] == "fired"
    again = await service.ask("fires.now", tenant="hand", trigger="nightly", by="ann", request_id="one")
    assert (again["key"], again["page"], again["repeated"]) == (asked["key"], asked["page"], True)
    assert again["sentence"] == f"See what became of it: fireledger fires show {asked['key']}."
    second = await service.ask("fires.now", tenant="hand", trigger="nightly", by="ann")
    assert second["sequence"] == 2
    assert second["sentence"] == "It waits for the trigger's open fire to end; then the scheduler releases it."
    (page,) = [page for page in await service.rows("book", "show", "hand", "--json") if page["page"] == asked["page"]]
    assert "'by': 'ann'" in str(page["entries"])


async def test_nothing_is_fired_while_the_trigger_stands_still(service: Service) -> None:
    """Paused, missing or nameless: each refusal says what to do."""
    await service.create("still", paused=True)
    named: dict[str, Json] = {"tenant": "still", "trigger": "nightly", "by": "ann"}
    paused = await service.refusal("fires.now", **named)
    assert (paused.code, paused.exit_status) == ("trigger-stopped", ExitStatus.CONFLICT)
    assert paused.hint == "resume it first: fireledger trigger resume still/nightly"
    assert (await service.refusal("fires.now", **{**named, "trigger": "none"})).exit_status is ExitStatus.NOT_FOUND
    assert (await service.refusal("fires.now", **{**named, "tenant": "no-one"})).code == "tenant-missing"
    nameless = await service.refusal("fires.now", **{**named, "by": " "})
    assert (nameless.message, nameless.exit_status) == ("--by is empty", ExitStatus.REFUSED)
    assert service.control.model.book("still").state.page == 2


async def test_a_held_fire_goes_on_or_ends_by_hand(service: Service) -> None:
    """Released, its next attempt is due at once; cancelled, it has failed and its cost still counts."""
    await service.create("held", max_attempts=1)
    asked = await service.ask("fires.now", tenant="held", trigger="nightly", by="ann")
    await service.tick("held")
    await attempted(service, "held", released(service, "held", "nightly"), "held", cost=7, message="approve me")
    shown = await row(service, asked["key"])
    assert (shown["state"], shown["outcome"], shown["message"], shown["cost"]) == ("held", "held", "approve me", 7)
    assert (await service.ask("trigger.show", tenant="held", trigger="nightly"))["held"] == 1
    told = await service.ask("fires.release", tenant="held", key=asked["key"], by="bob")
    assert told["sentence"] == "The scheduler releases its next attempt at once."
    shown = await row(service, asked["key"])
    assert (shown["state"], shown["outcome"], shown["retry_at"] is None) == ("fired", None, False)
    not_held = await service.refusal("fires.release", tenant="held", key=asked["key"], by="bob")
    assert (not_held.code, not_held.exit_status) == ("fire-not-held", ExitStatus.CONFLICT)
    await service.tick("held")
    under_way = await service.refusal("fires.cancel", tenant="held", key=asked["key"], by="bob")
    assert (under_way.code, under_way.exit_status) == ("fire-under-way", ExitStatus.CONFLICT)
    fire = released(service, "held", "nightly")
    assert fire.attempt == 2
    await attempted(service, "held", fire, "held", cost=3)
    ended = await service.ask("fires.cancel", tenant="held", key=asked["key"], by="bob")
    assert ended["sentence"] == "It ends as failed, cause cancelled: no further attempt is made."
    shown = await row(service, asked["key"])
    assert (shown["outcome"], shown["outcome_cause"], shown["attempts"], shown["cost"]) == (
        "failed",
        "cancelled",
        2,
        10,
    )


async def test_a_fire_that_waits_is_cancelled(service: Service) -> None:
    """Before its release it is withdrawn; waiting for a retry it ends as failed; ended it is not there any more."""
    await service.create("waits", retry_base="1h")
    first = await service.ask("fires.now", tenant="waits", trigger="nightly", by="ann")
    await service.tick("waits")
    second = await service.ask("fires.now", tenant="waits", trigger="nightly", by="ann")
    cancelled = await service.ask("fires.cancel", tenant="waits", key=second["key"], by="ann", request_id="c")
    assert cancelled["sentence"] == "It was not released and does not fire."
    status = await service.ask("status")
    assert int(str(status["open_fires"])) >= 1
    assert int(str(status["waiting_fires"])) >= 0
    again = await service.ask("fires.cancel", tenant="waits", key=second["key"], by="ann", request_id="c")
    assert (again["sentence"], again["repeated"]) == (cancelled["sentence"], True)
    shown = await row(service, second["key"])
    assert (shown["state"], shown["cause"]) == ("cancelled", "by-person")
    await attempted(service, "waits", released(service, "waits", "nightly"), "retryable")
    shown = await row(service, first["key"])
    assert (shown["state"], shown["result"], shown["finished"]) == ("fired", "retryable", None)
    assert shown["retry_at"] is not None
    assert (await service.ask("trigger.show", tenant="waits", trigger="nightly"))["retrying"] == 1
    await service.ask("fires.cancel", tenant="waits", key=first["key"], by="ann")
    shown = await row(service, first["key"])
    assert (shown["outcome"], shown["retry_at"]) == ("failed", None)
    gone = await service.refusal("fires.cancel", tenant="waits", key=first["key"], by="ann")
    assert (gone.code, gone.exit_status) == ("fire-missing", ExitStatus.NOT_FOUND)
    other = await service.refusal("fires.cancel", tenant="still-other", key=first["key"], by="ann")
    assert other.code == "request-malformed"


async def test_the_command_line_says_what_happens_next(service: Service) -> None:
    """The key and the page, then one sentence; or one object."""
    await service.create("saying")
    told = await service.run("fires", "now", "saying/nightly", "--by", "ann")
    assert (told.status, told.stderr) == (0, "")
    line, sentence = told.stdout.splitlines()
    assert line.startswith("fire saying/nightly/")
    assert line.endswith("/1 asked for, page 3")
    assert sentence == "The scheduler releases it at once."
    key = line.split()[1]
    (answer,) = await service.rows("fires", "cancel", key, "--json")
    assert (answer["key"], answer["changed"]) == (key, True)
    listed = await service.run("fires", "list", "saying")
    assert "cancelled" in listed.stdout
    assert "by-person" in listed.stdout
