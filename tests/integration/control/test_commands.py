"""Commands: what they write, what they answer, and how they are refused."""

import asyncio

import pytest

from fireledger.domain.instants import SECOND
from fireledger.runners.errors import ControlRefused, ExitStatus
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.json_edge import Json
from tests.integration.brokers import RunningBroker
from tests.integration.control.running import TARGET, Service, running_control, running_service

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


async def test_a_tenant_is_created_amended_and_shown(service: Service) -> None:
    """Settings are the given ones, else the defaults; an amendment keeps the rest; the same again changes nothing."""
    created = await service.ask("tenant.create", tenant="ten-a", zone="Europe/Rome", quota="7/s")
    assert (created["zone"], created["quota_per_second"], created["default_jitter"]) == ("Europe/Rome", 7, "0s")
    assert (created["page"], created["changed"], created["repeated"]) == (1, True, False)
    amended = await service.ask("tenant.amend", tenant="ten-a", default_jitter="30s")
    assert (amended["zone"], amended["default_jitter"], amended["page"]) == ("Europe/Rome", "30s", 2)
    again = await service.ask("tenant.amend", tenant="ten-a", default_jitter="30s")
    assert (again["changed"], again["page"]) == (False, None)
    assert (await service.ask("tenant.show", tenant="ten-a"))["page"] == 2


async def test_a_trigger_goes_through_its_life(service: Service) -> None:
    """Create, amend, pause, resume and delete each write one page that takes effect, and answer with the new state."""
    created = await service.create("life", cron="0 2 * * *", zone="Europe/Rome", payload='{"a":1}')
    assert (created["state"], created["page"], created["version"]) == ("active", 2, 2)
    assert (created["content_type"], created["payload"]) == ("application/json", "7 bytes")
    assert created["sentence"] == (
        "After an outage, the newest missed instant fires once for all that were missed, and those older than 1h "
        "expire unfired; an instant due while an earlier fire is still open is skipped and recorded; an attempt "
        "that fails is made again after 1m, each wait 2 times the one before and at most 1h, up to 5 attempts of a "
        "fire in all."
    )
    rows = created["next"]
    assert isinstance(rows, list)
    assert len(rows) == 3
    named: dict[str, Json] = {"tenant": "life", "trigger": "nightly"}
    amended = await service.ask("trigger.amend", **named, overlap="queue", jitter="5m")
    assert (amended["overlap"], amended["jitter"], amended["zone"]) == ("queue", "5m", "Europe/Rome")
    assert amended["version"] == 3
    assert (await service.ask("trigger.amend", **named, jitter=None))["jitter"] is None
    assert (await service.ask("trigger.amend", **named, overlap="queue"))["changed"] is False
    assert (await service.ask("trigger.pause", **named))["state"] == "paused"
    assert (await service.refusal("trigger.pause", **named)).exit_status is ExitStatus.CONFLICT
    assert (await service.ask("trigger.resume", **named, on_resume="skip"))["state"] == "active"
    assert (await service.refusal("trigger.resume", **named)).exit_status is ExitStatus.CONFLICT
    deleted = await service.ask("trigger.delete", **named)
    assert (deleted["state"], deleted["page"]) == ("deleted", 7)
    assert (await service.refusal("trigger.delete", **named)).exit_status is ExitStatus.NOT_FOUND
    assert service.control.model.book("life").state.ineffective_count == 0


async def test_a_repeated_request_is_answered_and_not_carried_out_again(control_broker: RunningBroker) -> None:
    """The same id and request give the page of the first time, after a restart too; another request is a conflict."""
    request: dict[str, Json] = {
        "tenant": "again",
        "trigger": "t",
        "every": "10m",
        "target": TARGET,
        "request_id": "one",
    }
    async with running_service(control_broker) as service:
        await service.ask("tenant.create", tenant="again")
        first = await service.ask("trigger.create", **request)
        second = await service.ask("trigger.create", **request)
        assert (first["repeated"], second["repeated"]) == (False, True)
        assert {**second, "repeated": False} == first
    async with running_service(control_broker) as service:
        third = await service.ask("trigger.create", **request)
        assert (third["page"], third["repeated"]) == (first["page"], True)
        other = await service.refusal("trigger.create", **{**request, "every": "20m"})
        assert (other.code, other.exit_status) == ("request-id-reused", ExitStatus.CONFLICT)
        verb = await service.refusal("trigger.pause", tenant="again", trigger="t", request_id="one")
        assert verb.code == "request-id-reused"
        assert service.control.model.book("again").state.page == 2


async def test_defaults_follow_the_schedule_and_the_tenant(service: Service) -> None:
    """Zone from the tenant, gap and fold from the kind of schedule, an interval's anchor from the page's now."""
    await service.ask("tenant.create", tenant="defaults", zone="Europe/Rome")
    fixed = await service.create("defaults", "fixed", cron="0 2 * * *")
    assert (fixed["zone"], fixed["gap"], fixed["fold"]) == ("Europe/Rome", "shift", "first")
    like = await service.create("defaults", "like", cron="*/5 * * * *")
    assert (like["gap"], like["fold"]) == ("skip", "both")
    interval = await service.create("defaults", "interval", every="90m")
    anchor = str(interval["anchor"])
    assert anchor.endswith("Z")
    assert "." not in anchor
    named: dict[str, Json] = {"tenant": "defaults", "trigger": "interval"}
    assert (await service.ask("trigger.amend", **named, every="60m"))["anchor"] == anchor
    moved = await service.ask("trigger.amend", **named, anchor="2026-01-01T00:00:00Z")
    assert (moved["anchor"], moved["every"]) == ("2026-01-01T00:00:00Z", "1h")
    declared = await service.ask("trigger.amend", tenant="defaults", trigger="fixed", gap="skip", cron="*/5 * * * *")
    assert (declared["gap"], declared["fold"]) == ("skip", "both")


async def test_a_dry_run_tells_what_changes_and_writes_nothing(service: Service) -> None:
    """Each of the next ten instants stays, vanishes, appears or moves; a refused amendment is refused dry as well."""
    await service.create("dry", cron="0 9 * * 1-5")
    named: dict[str, Json] = {"tenant": "dry", "trigger": "nightly", "dry_run": True}
    answer = await service.ask("trigger.amend", **named, cron="0 9 * * 1-4,6")
    found = {str(row["change"]) for row in _rows(answer["changes"])}
    assert found == {"stays", "vanishes", "appears"}
    moved = await service.ask("trigger.amend", **named, jitter="1h")
    assert {str(row["change"]) for row in _rows(moved["changes"])} == {"moves"}
    refused = await service.refusal("trigger.amend", **named, cron="0 9 30 2 *")
    assert refused.exit_status is ExitStatus.REFUSED
    assert service.control.model.book("dry").state.page == 2


def _rows(value: Json) -> list[dict[str, Json]]:
    assert isinstance(value, list)
    return [row for row in value if isinstance(row, dict)]


REFUSALS: list[tuple[str, dict[str, Json], str, ExitStatus]] = [
    ("tenant.create", {"tenant": "Bad"}, "value-refused", ExitStatus.REFUSED),
    ("tenant.create", {"tenant": "refuse", "zone": "Mars/Base"}, "zone-unknown", ExitStatus.REFUSED),
    ("tenant.create", {"tenant": "refuse", "quota": "many"}, "value-refused", ExitStatus.REFUSED),
    ("tenant.create", {"tenant": "refuse", "colour": "red"}, "request-malformed", ExitStatus.REFUSED),
    ("tenant.create", {}, "request-malformed", ExitStatus.REFUSED),
    ("tenant.create", {"tenant": "refuse", "request_id": "x" * 129}, "value-refused", ExitStatus.REFUSED),
    ("tenant.show", {"tenant": "refuse"}, "tenant-missing", ExitStatus.NOT_FOUND),
    ("tenant.amend", {"tenant": "refuse"}, "tenant-missing", ExitStatus.NOT_FOUND),
    ("trigger.pause", {"tenant": "refuse", "trigger": "t"}, "tenant-missing", ExitStatus.NOT_FOUND),
    ("fires.list", {"tenant": "refuse"}, "tenant-missing", ExitStatus.NOT_FOUND),
    ("book.show", {"tenant": "refuse"}, "tenant-missing", ExitStatus.NOT_FOUND),
    ("fires.show", {"key": "x"}, "value-refused", ExitStatus.REFUSED),
    ("nothing.known", {}, "request-malformed", ExitStatus.REFUSED),
]


@pytest.mark.parametrize("subject,request_fields,code,status", REFUSALS, ids=[f"{r[0]}-{r[2]}" for r in REFUSALS])
async def test_a_request_is_refused_with_a_stable_code(
    service: Service, subject: str, request_fields: dict[str, Json], code: str, status: ExitStatus
) -> None:
    """Each refusal has its code and exit status, and nothing is written."""
    before = service.control.model.position
    refused = await service.refusal(subject, **request_fields)
    assert (refused.code, refused.exit_status) == (code, status)
    assert service.control.model.position == before


@pytest.mark.parametrize(
    "options,code",
    [
        ({"cron": "0 25 * * *"}, "schedule-malformed"),
        ({"cron": "0 0 30 2 *"}, "never-due"),
        ({"cron": "0 9 * * *", "dialect": "quartz"}, "schedule-malformed"),
        ({"at": "2020-01-01T00:00"}, "wholly-past"),
        ({"cron": "0 9 * * *", "zone": "Mars/Base"}, "zone-unknown"),
        ({"cron": "0 9 * * *", "every": "5m"}, "value-refused"),
        ({"cron": "0 9 * * *", "jitter": "2d"}, "value-refused"),
        ({"cron": "0 9 * * *", "missed": "never"}, "request-malformed"),
        ({"cron": "0 9 * * *", "payload": "x" * 65_537}, "value-refused"),
        ({"cron": "0 9 * * *", "target": "http://127.0.0.1/"}, "value-refused"),
        ({"cron": "0 9 * * *", "target": "http://localhost:80/"}, "value-refused"),
        ({"cron": "0 9 * * *", "target": "http://[::ffff:10.0.0.1]/"}, "value-refused"),
        ({"cron": "0 9 * * *", "target": "http://2130706433/"}, "value-refused"),
        (
            {"cron": "0 9 * * *", "not_before": "2030-01-01T00:00:00Z", "not_after": "2029-01-01T00:00:00Z"},
            "value-refused",
        ),
    ],
    ids=str,
)
async def test_a_definition_is_refused_and_nothing_is_written(
    service: Service, options: dict[str, Json], code: str
) -> None:
    """Whatever is wrong with a definition is said with exit status 5 and changes no book."""
    if "strict" not in service.control.model.books:
        await service.ask("tenant.create", tenant="strict")
    request: dict[str, Json] = {"tenant": "strict", "trigger": "t", "target": TARGET, **options}
    refused = await service.refusal("trigger.create", **request)
    assert (refused.code, refused.exit_status) == (code, ExitStatus.REFUSED)
    assert service.control.model.book("strict").state.page == 1


async def test_bytes_that_are_no_request_get_a_clear_answer(service: Service) -> None:
    """Malformed JSON, and JSON that is no object, are answered rather than ignored."""
    connection = await BrokerConnection.open(service.broker.login("operator"), name="bytes")
    try:
        for payload in (b"{", b"[1]", b"\xff\xfe"):
            reply = await connection.request("control.tenant.list", payload, timeout_s=5)
            assert b'"code":"request-malformed"' in reply.payload
    finally:
        await connection.close()


async def test_commands_that_race_on_one_book_all_take_effect_in_some_order(control_broker: RunningBroker) -> None:
    """Forty commands through two controls at once: each is carried out once, and each page takes effect."""
    async with running_service(control_broker) as service, running_control(control_broker, service.clock):
        await service.ask("tenant.create", tenant="race")
        answers = await asyncio.gather(*(service.create("race", f"t{n}", every="10m") for n in range(40)))
        pages = sorted(int(str(answer["page"])) for answer in answers)
        assert pages == list(range(2, 42))
        state = await service.ask("tenant.show", tenant="race")
        assert (state["triggers"], state["ineffective_pages"]) == (40, 0)


async def test_one_of_two_rival_commands_wins(control_broker: RunningBroker) -> None:
    """The same trigger created by ten callers at once exists once; the others are told so."""
    async with running_service(control_broker) as service, running_control(control_broker, service.clock):
        await service.ask("tenant.create", tenant="rival")
        outcomes = await asyncio.gather(
            *(service.create("rival", "t", every=f"{n}m") for n in range(1, 11)), return_exceptions=True
        )
        refused = [outcome for outcome in outcomes if isinstance(outcome, ControlRefused)]
        assert len(refused) == 9
        assert {error.code for error in refused} == {"trigger-exists"}


@pytest.mark.parametrize("offset_s,word", [(1.0, "early"), (-20.0, "late")])
async def test_a_page_without_effect_is_reported(service: Service, offset_s: float, word: str) -> None:
    """With a clock that is wrong the command is in the chain, changes nothing, and is answered with exit status 6."""
    tenant = f"wrong-{word}"
    await service.ask("tenant.create", tenant=tenant)
    right = service.clock.offset
    service.clock.offset = right + int(offset_s * SECOND)
    request: dict[str, Json] = {"tenant": tenant, "trigger": "t", "every": "10m", "target": TARGET, "request_id": "r"}
    refused = await service.refusal("trigger.create", **request)
    assert (refused.code, refused.exit_status) == ("page-ineffective", ExitStatus.UNAVAILABLE)
    assert f"too {word}" in refused.message
    service.clock.offset = right
    shown = await service.ask("tenant.show", tenant=tenant)
    assert (shown["page"], shown["triggers"], shown["ineffective_pages"]) == (2, 0, 1)
    pages = _rows((await service.ask("book.show", tenant=tenant))["rows"])
    assert [page["effective"] for page in pages] == [True, False]
    again = await service.ask("trigger.create", **request)
    assert (again["page"], again["repeated"]) == (3, False)


async def test_an_uncertain_clock_refuses_commands_and_not_reads(service: Service) -> None:
    """Above the ceiling no page is written; tenants are still shown."""
    await service.ask("tenant.create", tenant="unsure")
    service.clock.epsilon = 150_000
    refused = await service.refusal("tenant.amend", tenant="unsure", quota="5/s")
    assert (refused.code, refused.exit_status) == ("clock-uncertain", ExitStatus.UNAVAILABLE)
    assert (await service.ask("tenant.show", tenant="unsure"))["page"] == 1
