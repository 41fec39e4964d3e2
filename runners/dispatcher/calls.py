"""A call to a target and its result, whatever the transport; and the headers that every call carries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from fireledger.domain.entries import Lane, ResultKind
from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import SECOND, format_instant
from fireledger.domain.limits import AMOUNT_MAX, MESSAGE_LENGTH_MAX, RETRY_CAP_MAX

from ..json_edge import Json, MalformedJson, loads

EVENT_TYPE = "fireledger.fire.v1"
"""The CloudEvents type of every fire."""
ATTEMPT_HEADER = "fireledger-attempt"
LANE_HEADER = "fireledger-lane"
TIMEOUT_HEADER = "fireledger-timeout-ms"
"""How long the answer is waited for from now on: relative, so that no two clocks have to agree."""
KEY_HEADER = "Idempotency-Key"

JsonObject: TypeAlias = "dict[str, Json]"

OUTCOMES: dict[str, ResultKind] = {
    "succeeded": "succeeded",
    "failed": "final",
    "held": "held",
    "accepted": "accepted",
    "retryable": "retryable",
}
"""What the ``outcome`` of an answer means."""

JSON_IGNORED = "the answer begins like a JSON object and cannot be read as one"
"""The message of such an answer."""
COST_IGNORED = f"no cost is counted: it is not a whole number from 0 to {AMOUNT_MAX}"
"""What an answer's message begins with whose cost is none."""


class Uncallable(ValueError):
    """The call cannot be made as it is defined, now or later; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One attempt to be made, and how long (seconds) its answer is waited for before it is abandoned.

    ``report_headers`` are what a later report of the outcome needs; they hold a secret.
    """

    key: FireKey
    attempt: int
    lane: Lane
    target: str
    content_type: str
    payload: bytes
    timeout_s: float
    report_headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        return f"Call({self.key}, attempt {self.attempt}, {len(self.payload)} bytes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What a call gave; ``retry_after`` in microseconds, ``code`` the HTTP status or 0."""

    kind: ResultKind
    code: int = 0
    retry_after: int | None = None
    cost: int | None = None
    message: str = ""


class Target(Protocol):
    """A way to reach executors."""

    async def call(self, call: Call) -> CallResult:
        """Make the call. It is the caller that watches the time, and cancels. Raises Uncallable."""
        ...


def call_headers(call: Call) -> dict[str, str]:
    """The headers of a call: CloudEvents in binary mode, the idempotency key, attempt, lane, timeout, report.

    ``ce-id`` and ``Idempotency-Key`` are the fire key, ``ce-time`` the scheduled instant, ``ce-source``
    ``/fireledger/TENANT``, ``ce-subject`` the trigger. Raises Uncallable for a content type that is no header value.
    """
    if not call.content_type.isascii() or not call.content_type.isprintable():
        raise Uncallable("the content type is not a header value; amend it to printable ASCII")
    return {
        "ce-specversion": "1.0",
        "ce-id": str(call.key),
        "ce-source": f"/fireledger/{call.key.tenant}",
        "ce-type": EVENT_TYPE,
        "ce-subject": call.key.trigger,
        "ce-time": format_instant(call.key.scheduled),
        KEY_HEADER: str(call.key),
        "Content-Type": call.content_type or "application/octet-stream",
        ATTEMPT_HEADER: str(call.attempt),
        LANE_HEADER: call.lane,
        TIMEOUT_HEADER: str(max(1, int(call.timeout_s * 1_000))),
        **call.report_headers,
    }


def short_message(text: str) -> str:
    """An executor's or an error's text as it may be kept: one line without control characters, cut to the bound."""
    printable = "".join(character if character.isprintable() else " " for character in text[: 8 * MESSAGE_LENGTH_MAX])
    return " ".join(printable.split())[:MESSAGE_LENGTH_MAX]


def answer_object(body: bytes) -> JsonObject:
    """The JSON object in an answer's body; an empty one when there is none.

    One that begins like an object and cannot be read says so in its message, and nothing else.
    """
    if body.lstrip()[:1] != b"{":
        return {}
    try:
        found = loads(body)
    except MalformedJson:
        return {"message": JSON_IGNORED}
    return found if isinstance(found, dict) else {}


def answer_message(answer: Mapping[str, Json]) -> str:
    """The answer's ``message``, made short; before it what of the answer could not be used."""
    message = answer.get("message")
    said = message if isinstance(message, str) else ""
    if answer.get("cost") is not None and answer_cost(answer) is None:
        said = f"{COST_IGNORED}. {said}"
    return short_message(said)


def answer_cost(answer: Mapping[str, Json]) -> int | None:
    """The answer's ``cost`` if it is a whole number in bounds."""
    cost = answer.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, int):
        return None
    return cost if 0 <= cost <= AMOUNT_MAX else None


def wait_of(seconds: int) -> int | None:
    """A number of seconds to wait as microseconds, at most RETRY_CAP_MAX; None for a negative one."""
    return min(seconds * SECOND, RETRY_CAP_MAX) if seconds >= 0 else None
