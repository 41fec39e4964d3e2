"""The table of streams and rights, held to the design's."""

import pytest

from fireledger.domain.identifiers import MalformedName
from fireledger.runners.jetstream.topology import UserName, access_table, stream_table

READ_CALLS = ("$JS.API.", "$SYS.REQ.USER.INFO")

WRITES = {
    UserName.CONTROL: {"book.*.*", "reports.*", "$O.tzdb.>", "_R_.>"},
    UserName.SCHEDULER: {"book.*.*", "$KV.leases.scheduler.>", "$O.snapshots.>"},
    UserName.DISPATCHER: {"attempts.*", "$KV.leases.dispatcher.>", "work.>"},
    UserName.PROJECTOR: {"feed.*.*", "$KV.digests.>", "$O.snapshots.>", "$O.archive.>"},
    UserName.SHADOW: {"$KV.digests.>"},
    UserName.REPLAY: set[str](),
    UserName.OPERATOR: {"control.>"},
}
"""The design's paragraph on broker rights, besides read calls and an own inbox; who serves may answer."""


@pytest.mark.parametrize("user", list(WRITES))
def test_a_runner_may_write_what_the_design_says(user: UserName) -> None:
    """No more and no less."""
    publish = access_table().rights_of(user).publish
    assert publish is not None
    assert {subject for subject in publish if not subject.startswith(READ_CALLS)} == WRITES[user]


def test_nobody_administers_streams_but_the_administrator() -> None:
    """The only calls of the streams' interface that others have read, or make and drop a reading position."""
    allowed = ("STREAM.INFO.", "STREAM.MSG.GET.", "DIRECT.GET.", "CONSUMER.")
    for rights in access_table(["acme"]).users:
        for subject in rights.publish or ():
            if subject.startswith("$JS.API."):
                assert subject.removeprefix("$JS.API.").startswith(allowed), (rights.user, subject)
                assert "*." not in subject, "a wildcard would cover every stream"


def test_everybody_hears_its_own_inbox_and_what_it_serves() -> None:
    """Control hears commands and reports, an executor its tenant's work, nobody else anything."""
    heard = {
        rights.user: {s for s in rights.subscribe if s != f"_INBOX_{rights.user}.>"}
        for rights in access_table(["acme"]).users
        if rights.subscribe is not None
    }
    assert {user: subjects for user, subjects in heard.items() if subjects} == {
        "control": {"control.>", "outcomes.*"},
        "executor-acme": {"work.acme.>"},
    }


def test_an_executor_reports_for_its_own_tenant_only() -> None:
    """Its right and its way across to control are one subject each; nobody else has either."""
    access = access_table(["acme", "globex"])
    for tenant in ("acme", "globex"):
        publish = access.rights_of(f"executor-{tenant}").publish
        assert publish is not None
        assert [subject for subject in publish if subject.startswith("outcomes.")] == [f"outcomes.{tenant}"]
    ways = {(each.subject, each.provider, each.consumer) for each in access.services if "outcomes" in each.subject}
    assert ways == {
        ("outcomes.acme", "CONTROL", "EXECUTOR-ACME"),
        ("outcomes.globex", "CONTROL", "EXECUTOR-GLOBEX"),
    }


def test_the_ledger_keeps_everything() -> None:
    """No limit by age, size or subject; nothing deleted or purged; batches and direct reads."""
    ledger = stream_table()[0].as_request()
    expected = {
        "name": "LEDGER",
        "subjects": ["book.*.*", "attempts.*", "reports.*"],
        "storage": "file",
        "retention": "limits",
        "max_age": 0,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_msgs_per_subject": -1,
        "deny_delete": True,
        "deny_purge": True,
        "allow_atomic": True,
        "allow_direct": True,
        "allow_rollup_hdrs": False,
        "allow_msg_ttl": False,
    }
    assert {name: ledger[name] for name in expected} == expected


def test_every_stream_is_there_once() -> None:
    """The design's table, and a bucket for each executor's tenant."""
    names = [settings.name for settings in stream_table(tenants=["acme"])]
    assert names == [
        "LEDGER",
        "FEED",
        "KV_leases",
        "KV_digests",
        "OBJ_tzdb",
        "OBJ_snapshots",
        "OBJ_archive",
        "KV_executor-acme",
    ]


@pytest.mark.parametrize("replicas", [1, 3])
def test_replicas_are_one_or_three(replicas: int) -> None:
    """All streams have the same number; any other number is a mistake."""
    assert all(s.as_request()["num_replicas"] == replicas for s in stream_table(replicas=replicas))
    with pytest.raises(ValueError, match='"2" replicas'):
        stream_table(replicas=2)


def test_a_tenants_name_is_checked() -> None:
    """A name with a wildcard or a dot would widen a right."""
    for name in ("*", ">", "a.b", "A", ""):
        with pytest.raises(MalformedName):
            access_table([name])
        with pytest.raises(MalformedName):
            stream_table(tenants=[name])


def test_an_unknown_user_has_no_rights() -> None:
    """Asking for somebody who is not in the table is an error, not an empty list."""
    with pytest.raises(KeyError):
        access_table().rights_of("executor-acme")
