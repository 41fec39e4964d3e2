"""What a call carries and what an answer means."""

import pytest

from fireledger.domain.identifiers import parse_fire_key
from fireledger.domain.instants import DAY, HOUR, SECOND
from fireledger.domain.limits import MESSAGE_LENGTH_MAX
from fireledger.runners.dispatcher.calls import (
    COST_MAX,
    Call,
    Uncallable,
    answer_cost,
    answer_object,
    call_headers,
    short_message,
)
from fireledger.runners.dispatcher.http_target import endpoint, parse_retry_after, read_response
from fireledger.runners.dispatcher.nats_target import read_reply
from fireledger.runners.json_edge import Json


def _call(content_type: str = "text/plain") -> Call:
    return Call(
        key=parse_fire_key("acme/report/2026-11-30T09:00:00.250000Z/0"),
        attempt=2,
        lane="catch-up",
        target="nats:report",
        content_type=content_type,
        payload=b"secret",
        timeout_s=1.5,
    )


def test_a_call_carries_the_key_and_the_scheduled_instant() -> None:
    """Headers name the fire twice over, the attempt, the lane and the time left."""
    headers = call_headers(_call())
    assert headers["ce-id"] == headers["Idempotency-Key"] == "acme/report/2026-11-30T09:00:00.250000Z/0"
    assert headers["ce-time"] == "2026-11-30T09:00:00.250000Z"
    assert (headers["fireledger-attempt"], headers["fireledger-lane"]) == ("2", "catch-up")
    assert headers["fireledger-timeout-ms"] == "1500"


def test_a_call_does_not_show_its_payload() -> None:
    """Its representation gives the size alone."""
    assert "secret" not in repr(_call())


@pytest.mark.parametrize("content_type", ["text/plain\r\nx: y", "t\u00e9xt", "a\x00b"])
def test_a_content_type_that_is_no_header_value_cannot_be_called(content_type: str) -> None:
    """No header can be smuggled in."""
    with pytest.raises(Uncallable, match="content type"):
        call_headers(_call(content_type))


@pytest.mark.parametrize(
    "status,kind",
    [(200, "succeeded"), (202, "succeeded"), (204, "succeeded"), (301, "final"), (304, "final"), (400, "final"),
     (404, "final"), (410, "final"), (429, "retryable"), (500, "retryable"), (503, "retryable"), (599, "retryable")],
)  # fmt: skip
def test_a_status_has_one_meaning(status: int, kind: str) -> None:
    """2xx succeeded; 429 and 5xx may be tried again; everything else is final."""
    result = read_response(status, "", b"")
    assert (result.kind, result.code) == (kind, status)
    assert result.message == ("" if kind == "succeeded" else f"the target answered {status}")


def test_retry_after_counts_for_retryable_answers_only() -> None:
    """Its seconds become bounded microseconds; on a success it means nothing."""
    assert read_response(503, " 120 ", b"").retry_after == 120 * SECOND
    assert read_response(200, "120", b"").retry_after is None


@pytest.mark.parametrize(
    "text,value", [("0", 0), ("7", 7 * SECOND), ("86400", DAY), ("9" * 40, 24 * HOUR), ("-1", None), ("1.5", None),
                   ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("", None), ("\u0663", None)],
)  # fmt: skip
def test_retry_after_is_read_with_a_bound(text: str, value: int | None) -> None:
    """Whole seconds up to a day; its other forms are ignored."""
    assert parse_retry_after(text) == value


def test_an_http_answer_may_tell_message_and_cost_and_nothing_else() -> None:
    """What else the JSON object says, also a result, is ignored."""
    result = read_response(200, "", b'{"message": "done", "cost": 3, "result": "final"}')
    assert (result.kind, result.message, result.cost) == ("succeeded", "done", 3)


@pytest.mark.parametrize(
    "body,kind",
    [(b"", "succeeded"), (b" \n", "succeeded"), (b'{"result": "succeeded"}', "succeeded"),
     (b'{"result": "retryable"}', "retryable"), (b'{"result": "held", "message": "ask"}', "held"),
     (b'{"result": "final"}', "final"), (b"ok", "final"), (b"[]", "final"), (b'{"result": "timeout"}', "final"),
     (b'{"result": ["held"]}', "final"), (b'{"result": "succeeded"', "final")],
)  # fmt: skip
def test_a_reply_names_its_result_or_is_empty(body: bytes, kind: str) -> None:
    """An empty reply is success; one that names no known result is final, and says so."""
    assert read_reply(body).kind == kind


def test_messages_are_cut_and_stripped() -> None:
    """Control characters and line ends become single spaces; length is bounded."""
    assert short_message("a\r\n\x1b[31mb\u2028c\x00") == "a [31mb c"
    assert len(short_message("x" * 100_000)) == MESSAGE_LENGTH_MAX


@pytest.mark.parametrize("cost,value", [(0, 0), (COST_MAX, COST_MAX), (COST_MAX + 1, None), (-1, None), (1.5, None),
                                        (True, None), ("3", None), (None, None)])  # fmt: skip
def test_only_a_whole_cost_in_bounds_counts(cost: Json, value: int | None) -> None:
    """Anything else is ignored rather than guessed."""
    assert answer_cost({"cost": cost}) == value


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"\xff{", b"nothing"])
def test_what_is_no_json_object_says_nothing(body: bytes) -> None:
    """Such an answer counts as an empty object."""
    assert answer_object(body) == {}


@pytest.mark.parametrize(
    "url,name",
    [("http://a.example/x", "a.example:80"), ("https://A.example", "a.example:443"),
     ("http://[::1]:8080/", "::1:8080"), ("http://a.example:99999/", "malformed")],
)  # fmt: skip
def test_calls_are_bounded_by_host_and_port(url: str, name: str) -> None:
    """Scheme defaults and case make no second target."""
    assert endpoint(url) == name
