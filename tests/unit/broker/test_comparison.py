"""The comparison of a broker's report with the table."""

import pytest

from fireledger.runners.errors import ExitStatus, SettingsDiffer
from fireledger.runners.jetstream.comparison import (
    Difference,
    account_differences,
    broker_differences,
    refuse,
    rights_differences,
    stream_differences,
)
from fireledger.runners.jetstream.topology import UserName, access_table, stream_table
from fireledger.runners.json_edge import Json

LEDGER = stream_table()[0]


@pytest.mark.parametrize("setting", list(LEDGER.as_request()))
def test_every_setting_of_a_stream_is_compared(setting: str) -> None:
    """Whichever one is changed is one difference, named."""
    reported = {**LEDGER.as_request(), setting: "something else"}
    assert [difference.setting for difference in stream_differences(LEDGER, reported)] == [setting]


@pytest.mark.parametrize("setting", ["mirror", "sources", "republish", "subject_transform", "no_ack", "placement"])
def test_what_the_table_leaves_out_must_be_left_out(setting: str) -> None:
    """A feature somebody switched on is a difference; switched off in so many words it is none."""
    assert len(stream_differences(LEDGER, {**LEDGER.as_request(), setting: {"name": "x"}})) == 1
    for nothing in (None, False, 0, ""):
        assert stream_differences(LEDGER, {**LEDGER.as_request(), setting: nothing}) == []


def test_a_brokers_own_notes_are_no_difference() -> None:
    """Version notes and a description change nothing."""
    reported: Json = {**LEDGER.as_request(), "metadata": {"_nats.ver": "2.15.1"}, "description": "ours"}
    assert stream_differences(LEDGER, reported) == []


def _report(user: str) -> dict[str, Json]:
    rights = access_table().rights_of(user)
    permissions: dict[str, Json] = {
        "publish": {"allow": list(rights.publish or ())},
        "subscribe": {"allow": list(rights.subscribe or ())},
    }
    return {"user": user, "account": rights.account, "permissions": permissions}


@pytest.mark.parametrize("user", [UserName.CONTROL, UserName.SCHEDULER, UserName.DISPATCHER, UserName.OPERATOR])
def test_rights_as_in_the_table_are_no_difference(user: UserName) -> None:
    """A faithful report passes."""
    assert rights_differences(access_table().rights_of(user), _report(user)) == []


def test_every_change_of_rights_is_a_difference() -> None:
    """No permissions at all, another account, answers allowed, a denial: each is found."""
    rights = access_table().rights_of(UserName.DISPATCHER)
    report = _report("dispatcher")
    publish: Json = {"allow": list(rights.publish or ())}
    subscribe: Json = {"allow": list(rights.subscribe or ())}
    assert len(rights_differences(rights, {**report, "account": "FIRELEDGER"})) == 1
    assert rights_differences(rights, {"account": "DISPATCHER"})
    assert rights_differences(rights, None)
    answers: Json = {"publish": publish, "subscribe": subscribe, "responses": {"max": 1, "ttl": 1}}
    assert len(rights_differences(rights, {**report, "permissions": answers})) == 1
    denial: Json = {"publish": {"allow": list(rights.publish or ()), "deny": ["work.x.>"]}, "subscribe": subscribe}
    assert len(rights_differences(rights, {**report, "permissions": denial})) == 1


def test_an_administrator_with_permissions_is_a_difference() -> None:
    """A limited administrator would fail half-way through a change."""
    rights = access_table().rights_of(UserName.ADMIN)
    limited: Json = {"account": "FIRELEDGER", "permissions": {"publish": {"allow": ["book.*.*"]}}}
    assert rights_differences(rights, {"account": "FIRELEDGER"}) == []
    assert len(rights_differences(rights, limited)) == 1


def test_an_account_that_is_missing_or_has_streams_is_a_difference() -> None:
    """Streams in a runner's account would answer in the ledger's place."""
    access = access_table()
    assert len(account_differences(access, "DISPATCHER", None)) == 1
    places = [str(d) for d in account_differences(access, "DISPATCHER", {"jetstream_enabled": True})]
    assert 'account "DISPATCHER": jetstream_enabled: expected false, is true' in places
    assert 'account "DISPATCHER": import: expected "attempts.* from FIRELEDGER", is nothing' in places


def test_a_broker_must_sync_always() -> None:
    """Anything but an explicit always is a difference."""
    assert broker_differences({"jetstream": {"config": {"sync_always": True}}}) == []
    reports: list[Json] = [{}, None, {"jetstream": {"config": {"sync_interval": 1}}}]
    for report in reports:
        assert len(broker_differences(report)) == 1


def test_a_refusal_shows_a_line_each_and_is_bounded() -> None:
    """No difference is no refusal; many are cut with their number told."""
    refuse([], hint="unused")
    differences = [Difference('stream "S"', f"field{number}", 0, number) for number in range(60)]
    with pytest.raises(SettingsDiffer) as refused:
        refuse(differences, hint="put it back")
    lines = refused.value.message.splitlines()
    assert lines[1] == 'stream "S": field0: expected 0, is 0'
    assert len(lines) == 52
    assert lines[-1] == "and 10 more"
    assert refused.value.hint == "put it back"
    assert refused.value.exit_status == ExitStatus.CONFLICT
