"""What a call carries and what an answer means."""

from dataclasses import replace

import pytest

from fireledger.domain.identifiers import parse_fire_key
from fireledger.domain.instants import DAY, HOUR, SECOND, parse_instant
from fireledger.domain.limits import AMOUNT_MAX, MESSAGE_LENGTH_MAX, RETRY_CAP_MAX
from fireledger.runners.dispatcher.calls import (
    COST_IGNORED,
    JSON_IGNORED,
    Call,
    Uncallable,
    answer_cost,
    answer_object,
    call_headers,
    short_message,
)
from fireledger.runners.dispatcher.http_target import endpoint, parse_retry_after, read_response
from fireledger.runners.dispatcher.nats_target import read_reply
from fireledger.runners.json_edge import Json, dumps


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
    [(200, "succeeded"), (202, "accepted"), (204, "succeeded"), (301, "final"), (304, "final"), (400, "final"),
     (404, "final"), (410, "final"), (429, "retryable"), (500, "retryable"), (503, "retryable"), (599, "retryable")],
)  # fmt: skip
def test_a_status_has_one_meaning(status: int, kind: str) -> None:
    """2xx succeeded, 202 was accepted; 429 and 5xx may be tried again; everything else is final."""
    result = read_response(status, "", b"")
    assert (result.kind, result.code) == (kind, status)
    assert result.message == ("" if kind in ("succeeded", "accepted") else f"the target answered {status}")


def test_retry_after_counts_for_retryable_answers_only() -> None:
    """Its seconds become bounded microseconds; on a success it means nothing."""
    assert read_response(503, " 120 ", b"").retry_after == 120 * SECOND
    assert read_response(200, "120", b"").retry_after is None


@pytest.mark.parametrize(
    "text,value", [("0", 0), ("7", 7 * SECOND), ("86400", DAY), ("9" * 40, 24 * HOUR), ("-1", None), ("1.5", None),
                   ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("", None), ("\u0663", None)],
)  # fmt: skip
def test_retry_after_is_read_with_a_bound(text: str, value: int | None) -> None:
    """Whole seconds up to a day; without a clock its other form, and nonsense with one, are ignored."""
    assert parse_retry_after(text) == value


@pytest.mark.parametrize(
    "text,value",
    [("Wed, 21 Oct 2026 07:28:30 GMT", 30 * SECOND), ("Wednesday, 21-Oct-26 07:28:30 GMT", 30 * SECOND),
     ("Wed Oct 21 07:28:30 2026", 30 * SECOND), ("Wed, 21 Oct 2026 07:28:00 GMT", 0),
     ("Wed, 21 Oct 2026 07:27:59 GMT", None), ("Thu, 22 Oct 2099 07:28:00 GMT", RETRY_CAP_MAX),
     ("Wed, 21 Oct 2026 25:28:00 GMT", None), ("Wed, 99 Oct 2026 07:28:00 GMT", None), ("soon", None),
     ("Fri, 31 Dec 9999 23:59:59 -9999", None), ("Mon, 01 Jan 0001 00:00:00 +2359", None),
     ("Wed, 21 Oct 2026 07:28:30 GMT" + " " * 99 + "x", None)],
)  # fmt: skip
def test_a_date_in_retry_after_counts_from_the_clock(text: str, value: int | None) -> None:
    """All three forms of a date, up to a day ahead; one that is over, or none at all, is ignored."""
    assert parse_retry_after(text, now=parse_instant("2026-10-21T07:28:00Z")) == value


def test_a_wait_until_a_date_is_never_too_short() -> None:
    """Parts of a second count as a whole one."""
    now = parse_instant("2026-10-21T07:28:00.900000Z")
    assert parse_retry_after("Wed, 21 Oct 2026 07:28:30 GMT", now=now) == 30 * SECOND


def test_an_http_answer_may_tell_message_and_cost() -> None:
    """What else the JSON object says, also a result, is ignored."""
    result = read_response(200, "", b'{"message": "done", "cost": 3, "result": "final"}')
    assert (result.kind, result.message, result.cost) == ("succeeded", "done", 3)


@pytest.mark.parametrize(
    "status,outcome,kind",
    [(200, "succeeded", "succeeded"), (202, "succeeded", "succeeded"), (200, "failed", "final"),
     (200, "held", "held"), (202, "held", "held"), (200, "accepted", "accepted"), (202, "failed", "final"),
     (503, "succeeded", "retryable"), (404, "held", "final"), (429, "failed", "retryable"), (302, "accepted", "final")],
)  # fmt: skip
def test_the_outcome_in_a_body_counts_for_a_2xx_answer_only(status: int, outcome: str, kind: str) -> None:
    """It may say more than 200 or 202 does; what another status says stands."""
    assert read_response(status, "", dumps({"outcome": outcome})).kind == kind


def test_a_failure_told_in_a_body_is_final() -> None:
    """Also with a Retry-After, which then means nothing; its cost and message count."""
    result = read_response(200, "9", b'{"outcome": "failed", "cost": 2, "message": "no such account"}')
    assert (result.kind, result.retry_after, result.cost, result.message) == ("final", None, 2, "no such account")


@pytest.mark.parametrize("outcome", ["done", "FAILED", "", 3, None, ["held"], "final"])
def test_an_outcome_nobody_knows_leaves_the_status_and_says_so(outcome: Json) -> None:
    """It is not guessed at."""
    for status, kind in ((200, "succeeded"), (202, "accepted")):
        result = read_response(status, "", dumps({"outcome": outcome}))
        assert result.kind == kind
        assert result.message.startswith("the status counts")


@pytest.mark.parametrize(
    "body,kind",
    [(b"", "succeeded"), (b" \n", "succeeded"), (b'{"result": "succeeded"}', "succeeded"),
     (b'{"result": "retryable"}', "retryable"), (b'{"result": "held", "message": "ask"}', "held"),
     (b'{"result": "final"}', "final"), (b"ok", "final"), (b"[]", "final"), (b'{"result": "timeout"}', "final"),
     (b'{"result": ["held"]}', "final"), (b'{"result": "succeeded"', "final"),
     (b'{"result": "accepted"}', "accepted"), (b'{"outcome": "accepted"}', "accepted"),
     (b'{"outcome": "succeeded"}', "succeeded"), (b'{"outcome": "failed"}', "final"), (b'{"outcome": "held"}', "held"),
     (b'{"outcome": "retryable"}', "retryable"), (b'{"outcome": "final"}', "final"),
     (b'{"outcome": "odd", "result": "succeeded"}', "final"),
     (b'{"outcome": "held", "result": "succeeded"}', "held")],
)  # fmt: skip
def test_a_reply_names_its_result_or_is_empty(body: bytes, kind: str) -> None:
    """An empty reply is success; one that names no known result is final, and says so. The outcome goes first."""
    assert read_reply(body).kind == kind


@pytest.mark.parametrize("told,wait", [("7", 7 * SECOND), ("-1", None), ("1.5", None), ("true", None), ('"7"', None),
                                       ("99999999999", RETRY_CAP_MAX)])  # fmt: skip
def test_a_retryable_reply_may_say_when(told: str, wait: int | None) -> None:
    """Whole seconds within the bound; with another outcome they mean nothing."""
    assert read_reply(b'{"outcome": "retryable", "retry_after": %s}' % told.encode()).retry_after == wait
    assert read_reply(b'{"outcome": "failed", "retry_after": %s}' % told.encode()).retry_after is None


def test_a_call_carries_what_a_report_needs() -> None:
    """The token and where to send it are headers; neither shows in the call's representation."""
    secret = {"fireledger-attempt-token": "s3cret", "fireledger-report-to": "outcomes.acme"}
    call = replace(_call(), report_headers=secret)
    assert secret.items() <= call_headers(call).items()
    assert "s3cret" not in repr(call)
    assert not set(secret) & set(call_headers(_call()))


def test_messages_are_cut_and_stripped() -> None:
    """Control characters and line ends become single spaces; length is bounded."""
    assert short_message("a\r\n\x1b[31mb\u2028c\x00") == "a [31mb c"
    assert len(short_message("x" * 100_000)) == MESSAGE_LENGTH_MAX


@pytest.mark.parametrize("cost,value", [(0, 0), (AMOUNT_MAX, AMOUNT_MAX), (AMOUNT_MAX + 1, None), (-1, None),
                                        (1.5, None), (True, None), ("3", None), (None, None)])  # fmt: skip
def test_only_a_whole_cost_in_bounds_counts(cost: Json, value: int | None) -> None:
    """Anything else is ignored rather than guessed."""
    assert answer_cost({"cost": cost}) == value


@pytest.mark.parametrize("cost,said", [(12, "done"), (None, "done"), (-1, f"{COST_IGNORED}. done"),
                                       ("12", f"{COST_IGNORED}. done"), (1.5, f"{COST_IGNORED}. done")])  # fmt: skip
def test_a_cost_that_does_not_count_is_not_passed_over_in_silence(cost: Json, said: str) -> None:
    """Its fire's message says so, over HTTP and NATS alike: a ceiling that never fills would be a surprise."""
    body = dumps({"outcome": "succeeded", "cost": cost, "message": "done"})
    assert read_response(200, "", body).message == read_reply(body).message == said


@pytest.mark.parametrize("body", [b"{", b'{"outcome":"failed","cost":NaN}', b'{"cost":1e400}', b'{"outcome"'])
def test_an_object_that_cannot_be_read_is_not_passed_over_in_silence(body: bytes) -> None:
    """Its fire's message says so: what the executor meant to tell is lost."""
    assert read_response(200, "", body).message == read_response(500, "", body).message == JSON_IGNORED


@pytest.mark.parametrize("body", [b"", b"[1]", b"\xff{", b"nothing"])
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
