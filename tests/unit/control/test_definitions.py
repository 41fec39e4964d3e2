"""Options into definitions: defaults, merging, payloads, targets."""

import pytest

from fireledger.domain.instants import HOUR, MINUTE, parse_instant
from fireledger.domain.recurrence.schedule import CronSchedule, IntervalSchedule, OneOffSchedule, RuleSchedule
from fireledger.runners.control.definitions import (
    amended_definition,
    check_second_opinion,
    check_target_address,
    content_type_of,
    expression_schedule,
    given_schedule,
    new_definition,
    quota_per_second,
)
from fireledger.runners.control.requests import AmendTrigger, CreateTrigger, TriggerOptions, read_request, request_hash
from fireledger.runners.dispatcher.policy import TargetPolicy
from fireledger.runners.errors import ControlRefused
from fireledger.runners.json_edge import Json

NOW = parse_instant("2026-11-30T09:00:00.250000Z")
PUBLIC = TargetPolicy(allow_loopback=False)
LOCAL = TargetPolicy(allow_loopback=True)


def create(**options: Json) -> CreateTrigger:
    """A request to create a trigger."""
    return read_request({"tenant": "acme", "trigger": "t", "target": "nats:x", **options}, CreateTrigger)


def amend(**options: Json) -> AmendTrigger:
    """A request to amend a trigger."""
    return read_request({"tenant": "acme", "trigger": "t", **options}, AmendTrigger)


def test_an_interval_hangs_on_the_creation_second() -> None:
    """Without an anchor the grid goes through the whole second of now."""
    schedule = new_definition(create(every="90m"), now=NOW, zone="UTC").schedule
    assert isinstance(schedule, IntervalSchedule)
    assert (schedule.period, schedule.anchor) == (90 * MINUTE, parse_instant("2026-11-30T09:00:00Z"))


def test_an_amendment_changes_what_is_given_and_null_resets() -> None:
    """What is absent stays; null goes back to the default; the anchor of an interval stays."""
    first = new_definition(create(every="90m", jitter="5m", max_fires=3, payload="x"), now=NOW, zone="Europe/Rome")
    second = amended_definition(amend(every="2h", jitter=None, horizon="2h"), first, now=NOW + 10 * HOUR)
    assert (second.zone, second.jitter, second.max_fires, second.horizon) == ("Europe/Rome", None, 3, 2 * HOUR)
    assert isinstance(first.schedule, IntervalSchedule)
    assert isinstance(second.schedule, IntervalSchedule)
    assert second.schedule.anchor == first.schedule.anchor
    assert second.payload == first.payload
    assert amended_definition(amend(), second, now=NOW) == second


def test_declared_rules_survive_a_new_schedule_and_defaults_follow_it() -> None:
    """Only a rule that differs from the old schedule's default was declared."""
    fixed = new_definition(create(cron="0 9 * * *", fold="both"), now=NOW, zone="UTC")
    assert (fixed.gap, fixed.fold) == ("shift", "both")
    like = amended_definition(amend(cron="*/5 * * * *"), fixed, now=NOW)
    assert (like.gap, like.fold) == ("skip", "both")


@pytest.mark.parametrize(
    "data,kind",
    [
        (b'{"a": 1}', "application/json"),
        (b"12", "application/json"),
        (b"hello", "text/plain; charset=utf-8"),
        ("grün".encode(), "text/plain; charset=utf-8"),
        (b"\xff\x00", "application/octet-stream"),
        (b"", "application/octet-stream"),
    ],
)
def test_a_payloads_kind_is_seen_from_it(data: bytes, kind: str) -> None:
    """JSON, other text, and bytes."""
    assert content_type_of(data) == kind


def test_bytes_travel_as_base64() -> None:
    """A payload that is no text arrives as the bytes it was, and excludes a text payload."""
    definition = new_definition(create(every="1h", payload_base64="/wA="), now=NOW, zone="UTC")
    assert (definition.payload.data, definition.content_type) == (b"\xff\x00", "application/octet-stream")
    with pytest.raises(ControlRefused, match="exclude"):
        new_definition(create(every="1h", payload="x", payload_base64="/wA="), now=NOW, zone="UTC")


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:8080/x",
        "http://localhost/",
        "http://api.localhost./",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
    ],
)
def test_loopback_targets_need_a_local_service(target: str) -> None:
    """Every way to write this machine is refused, and allowed under a local up."""
    with pytest.raises(ControlRefused, match="loopback"):
        check_target_address(target, PUBLIC)
    check_target_address(target, LOCAL)


@pytest.mark.parametrize(
    "target",
    [
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest",
        "http://0.0.0.0/",
        "http://[fc00::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://127.1/",
        "http://[::1%25eth0]/",
    ],
)
def test_other_addresses_are_refused_even_locally(target: str) -> None:
    """Private, link-local and unspecified addresses, and numbers that some resolvers take for addresses."""
    with pytest.raises(ControlRefused):
        check_target_address(target, PUBLIC)
    if "::1%" not in target:
        with pytest.raises(ControlRefused):
            check_target_address(target, LOCAL)


@pytest.mark.parametrize(
    "target", ["https://example.com/run", "http://93.184.215.14/", "nats:report", "http://3com.example/"]
)
def test_public_targets_are_accepted(target: str) -> None:
    """Names are resolved and checked when they are called."""
    check_target_address(target, PUBLIC)


def test_an_expression_that_reads_in_two_ways_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another reader says about it is in the message."""
    from fireledger.runners.control import definitions

    check_second_opinion(expression_schedule("0 9 * * 1-5", None, anchor=0))

    def differs(_schedule: object) -> str:
        return "after X it is Y to croniter"

    monkeypatch.setattr(definitions, "_second_opinion", differs)
    with pytest.raises(ControlRefused, match="after X it is Y") as caught:
        check_second_opinion(expression_schedule("0 9 * * 1-5", None, anchor=0))
    assert caught.value.code == "value-refused"


@pytest.mark.parametrize("text,value", [("100/s", 100), ("7", 7)])
def test_a_quota_is_fires_a_second(text: str, value: int) -> None:
    """With or without the unit."""
    assert quota_per_second(text) == value


@pytest.mark.parametrize("text", ["", "/s", "-1/s", "1/m", "1.5/s", "٣/s", "9999999999"])
def test_another_quota_is_refused(text: str) -> None:
    """Anything else is no quota."""
    with pytest.raises(ControlRefused, match="is not a quota"):
        quota_per_second(text)


def test_a_requests_hash_ignores_its_id_and_nothing_else() -> None:
    """The order of fields and the id do not count; the subject and every value do."""
    base: dict[str, Json] = {"tenant": "acme", "trigger": "t", "request_id": "one"}
    same: dict[str, Json] = {"request_id": "two", "trigger": "t", "tenant": "acme"}
    assert request_hash("control.trigger.pause", base) == request_hash("control.trigger.pause", same)
    assert request_hash("control.trigger.pause", base) != request_hash("control.trigger.delete", base)
    assert request_hash("control.trigger.pause", base) != request_hash("control.trigger.pause", {**base, "x": 1})


@pytest.mark.parametrize(
    "options,kind",
    [
        ({"cron": "0 0 9 ? * 2-6", "dialect": "quartz"}, CronSchedule),
        ({"cron": "cron(0 9 ? * 2-6 *)"}, CronSchedule),
        ({"cron": "rate(5 minutes)"}, IntervalSchedule),
        ({"cron": "at(2027-01-01T09:00:00)"}, OneOffSchedule),
        ({"cron": "RRULE:FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9"}, RuleSchedule),
    ],
)
def test_a_dialect_is_declared_or_shows_itself(options: dict[str, Json], kind: type) -> None:
    """Every dialect reaches the definition through --cron, and the second readers agree with ours."""
    request = read_request({"tenant": "acme", "trigger": "t", **options}, TriggerOptions)
    schedule = given_schedule(request, anchor=0)
    assert schedule is not None
    assert isinstance(schedule, kind)
    check_second_opinion(schedule)
