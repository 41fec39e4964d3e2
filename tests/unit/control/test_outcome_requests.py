"""Reports of outcomes as they are read, and which of them are remembered."""

import pytest

from fireledger.domain.entries import AttemptReported
from fireledger.domain.identifiers import parse_fire_key
from fireledger.domain.limits import AMOUNT_MAX, MESSAGE_LENGTH_MAX
from fireledger.runners.control.outcome_reports import REPORTS_PER_ATTEMPT_MAX, ReportMemory
from fireledger.runners.control.outcome_requests import (
    REPORT_BYTES_MAX,
    REPORT_MALFORMED,
    REPORT_TOO_LARGE,
    read_report,
)
from fireledger.runners.errors import ControlRefused
from fireledger.runners.json_edge import Json, dumps

KEY = parse_fire_key("acme/report/2026-11-30T09:00:00Z/0")


def _body(**changes: Json) -> bytes:
    fields: dict[str, Json] = {"key": str(KEY), "attempt": 2, "token": "s3cret", "outcome": "failed", **changes}
    return dumps({name: value for name, value in fields.items() if value != "left out"})


def _record(message: str = "", *, attempt: int = 1, sequence: int = 0) -> AttemptReported:
    return AttemptReported(
        tenant="acme",
        trigger="report",
        scheduled=KEY.scheduled,
        sequence=sequence,
        attempt=attempt,
        result="succeeded",
        message=message,
    )


def test_a_report_becomes_the_record_of_its_attempt() -> None:
    """Key, attempt, result, cost and a message of one bounded line."""
    report, key = read_report(_body(cost=7, message="no\nsuch  account" + "!" * 1_000))
    record = report.record(key)
    assert (record.fire, record.attempt, record.result, record.cost) == (KEY, 2, "final", 7)
    assert record.message.startswith("no such account!!")
    assert len(record.message) == MESSAGE_LENGTH_MAX


@pytest.mark.parametrize("outcome,result", [("succeeded", "succeeded"), ("failed", "final"), ("held", "held")])
def test_an_outcome_has_one_result(outcome: str, result: str) -> None:
    """A failure that is reported is final."""
    report, key = read_report(_body(outcome=outcome))
    assert report.record(key).result == result


def test_a_token_is_not_shown() -> None:
    """The report's representation leaves it out."""
    report, _ = read_report(_body())
    assert "s3cret" not in repr(report)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"{}" * 2,
        _body(outcome="unknown"),
        _body(outcome="accepted"),
        _body(attempt=0),
        _body(attempt="1"),
        _body(attempt=True),
        _body(attempt=10**9),
        _body(cost=-1),
        _body(cost=AMOUNT_MAX + 1),
        _body(cost=0.5),
        _body(message=3),
        _body(extra=1),
        _body(key="acme/report"),
        _body(key="acme/report/2026-11-30T10:00:00+01:00/0"),
        *(_body(**{name: "left out"}) for name in ("key", "attempt", "token", "outcome")),
    ],
)
def test_what_is_not_a_report_is_refused_with_a_hint(body: bytes) -> None:
    """Missing, unknown and odd fields each; nothing is guessed."""
    with pytest.raises(ControlRefused) as refused:
        read_report(body)
    assert refused.value.code == REPORT_MALFORMED
    assert refused.value.hint
    assert "s3cret" not in refused.value.message


def test_a_report_is_bounded() -> None:
    """One byte more than the bound is refused, at the bound it is read."""
    room = REPORT_BYTES_MAX - len(_body(message=""))
    report, _ = read_report(_body(message="x" * room))
    assert len(report.message) == room
    with pytest.raises(ControlRefused) as refused:
        read_report(_body(message="x" * (room + 1)))
    assert refused.value.code == REPORT_TOO_LARGE


def test_the_first_report_decides_whether_it_came_late() -> None:
    """The same report again, after its fire has ended, is no late one."""
    memory = ReportMemory()
    assert memory.late(_record()) is None
    memory.note(_record(), late=False)
    memory.note(_record(), late=True)
    assert memory.late(_record()) is False
    assert memory.late(_record("another")) is None
    assert memory.late(_record(attempt=2)) is None


def test_an_attempt_is_reported_in_so_many_ways_only() -> None:
    """Repetitions do not count; other attempts are not affected."""
    memory = ReportMemory()
    for number in range(REPORTS_PER_ATTEMPT_MAX):
        assert not memory.full(_record())
        for _ in range(2):
            memory.note(_record(str(number)), late=False)
    assert memory.full(_record())
    assert not memory.full(_record(attempt=2))


def test_the_memory_is_bounded() -> None:
    """The attempt reported longest ago is forgotten first."""
    memory = ReportMemory(attempts_max=2)
    memory.note(_record(sequence=0), late=False)
    memory.note(_record(sequence=1), late=False)
    memory.note(_record("more", sequence=0), late=False)
    memory.note(_record(sequence=2), late=False)
    assert [memory.late(_record(sequence=n)) for n in range(3)] == [False, None, False]
