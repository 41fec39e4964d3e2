"""Options into definitions: defaults, merging, payloads, targets."""

import pytest

from fireledger.domain.instants import HOUR, MINUTE, parse_instant
from fireledger.domain.recurrence.schedule import CronSchedule, IntervalSchedule, OneOffSchedule, RuleSchedule
from fireledger.runners.control.definitions import (
    amended_definition,
    check_ever_due,
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
from fireledger.runners.zone_package import load_packaged_zones

NOW = parse_instant("2026-11-30T09:00:00.250000Z")
ROME = load_packaged_zones().zone("Europe/Rome")
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


@pytest.mark.parametrize("options", [{"every": "90m"}, {"cron": "rate(5 minutes)"}])
@pytest.mark.parametrize("rule", [{"gap": "skip"}, {"fold": "both"}])
def test_an_interval_has_no_rules_for_local_times(options: dict[str, Json], rule: dict[str, Json]) -> None:
    """--gap and --fold are refused with an interval, whether it is new or amended, and not kept when it becomes one."""
    with pytest.raises(ControlRefused, match="says nothing about an interval"):
        new_definition(create(**options, **rule), now=NOW, zone="UTC")
    fixed = new_definition(create(cron="0 9 * * *", gap="next-valid"), now=NOW, zone="UTC")
    with pytest.raises(ControlRefused, match="says nothing about an interval"):
        amended_definition(amend(**options, **rule), fixed, now=NOW)
    interval = amended_definition(amend(**options), fixed, now=NOW)
    assert (interval.gap, interval.fold) == ("skip", "both")


@pytest.mark.parametrize(
    "options,words,hint",
    [
        ({"at": "2026-03-29T02:30", "gap": "skip"}, "passes over every local time", "give --gap shift or --gap next"),
        (
            {"at": "2026-12-25T10:00", "exclude": ["2026-12-25"]},
            "every date that it names is excluded",
            "exclude fewer",
        ),
        (
            {"at": "2027-03-29T02:30", "not_before": "2028-01-01T00:00:00Z"},
            "from --not-before 2028-01-01",
            "an earlier",
        ),
        (
            {"cron": "0 9 1 1 *", "not_before": "2028-02-01T00:00:00Z", "not_after": "2028-03-01T00:00:00Z"},
            "to --not-after 2028-03-01",
            "or a later --not-after",
        ),
    ],
)
def test_what_is_never_due_says_why(options: dict[str, Json], words: str, hint: str) -> None:
    """The refusal names the option that takes every instant away."""
    definition = new_definition(create(**options), now=NOW, zone="Europe/Rome")
    with pytest.raises(ControlRefused, match=words) as caught:
        check_ever_due(definition, ROME, now=NOW)
    assert hint in caught.value.hint


@pytest.mark.parametrize("options", [{"at": "2026-03-29T02:30"}, {"at": "2020-01-01T00:00"}, {"cron": "30 2 * * *"}])
def test_what_was_or_will_be_due_is_not_called_impossible(options: dict[str, Json]) -> None:
    """A schedule that is over is another matter, which the book decides."""
    check_ever_due(new_definition(create(**options), now=NOW, zone="Europe/Rome"), ROME, now=NOW)


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


@pytest.mark.parametrize("request_id,words", [("x" * 129, "129 characters"), ("a\x1b[31m", "U.001B"),
                                              ("a\nb", "U.000A"), ("a\u2029b", "U.2029")])  # fmt: skip
def test_a_request_id_is_a_bounded_name_on_one_line(request_id: str, words: str) -> None:
    """It stands in the book and in refusals; one at the bound, and none, are taken."""
    with pytest.raises(ControlRefused, match=words):
        read_request({"tenant": "acme", "trigger": "t", "request_id": request_id}, AmendTrigger)
    for accepted in ("", "x" * 128, "deploy 7 é"):
        read = read_request({"tenant": "acme", "trigger": "t", "request_id": accepted}, AmendTrigger)
        assert read.request_id == accepted
