"""Targets on the broker: ``nats:NAME`` is a request on ``work.TENANT.NAME``, any number of them under way at once."""

from fireledger.domain.checks import NATS_PREFIX
from fireledger.domain.entries import ResultKind
from fireledger.domain.identifiers import MalformedName, check_target_name

from ..errors import BrokerRefused, BrokerUnavailable
from ..jetstream.connection import BrokerConnection
from ..json_edge import Json
from .calls import (
    OUTCOMES,
    Call,
    CallResult,
    JsonObject,
    Uncallable,
    answer_cost,
    answer_message,
    answer_object,
    call_headers,
    short_message,
    wait_of,
)

_LATE_S = 5.0
"""Added to the request's own timeout, so that it is the caller's that ends it."""
_RESULTS: dict[str, ResultKind] = {**OUTCOMES, "final": "final"}
"""What the ``result`` of a reply means: an older name of ``outcome``, and of "failed"."""


def work_subject(tenant: str, name: str) -> str:
    """Where the executors of a tenant's NATS target NAME listen."""
    return f"work.{tenant}.{name}"


class NatsTarget:
    """Calls over a broker connection."""

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection

    async def call(self, call: Call) -> CallResult:
        """Request and wait for the reply. Nobody listening, or a lost connection, is retryable."""
        try:
            name = check_target_name(call.target.removeprefix(NATS_PREFIX))
        except MalformedName as error:
            raise Uncallable(str(error)) from error
        try:
            reply = await self._connection.request(
                work_subject(call.key.tenant, name),
                call.payload,
                timeout_s=call.timeout_s + _LATE_S,
                headers=call_headers(call),
            )
        except BrokerUnavailable as error:
            return CallResult(kind="retryable", message=short_message(error.message))
        except BrokerRefused as error:
            return CallResult(kind="final", message=short_message(error.message))
        return read_reply(reply.payload)


def read_reply(body: bytes) -> CallResult:
    """What a reply says: empty is success, else a JSON object with its ``outcome``, perhaps a message and a cost.

    ``result`` is read for ``outcome`` where that is missing; ``retry_after`` is whole seconds.
    """
    if not body.strip():
        return CallResult(kind="succeeded")
    answer = answer_object(body)
    kind = _kind_of(answer)
    if kind is None:
        return CallResult(kind="final", message=f'the reply names no "outcome" of {", ".join(OUTCOMES)}')
    return CallResult(
        kind=kind,
        retry_after=_retry_after(answer.get("retry_after")) if kind == "retryable" else None,
        cost=answer_cost(answer),
        message=answer_message(answer),
    )


def _kind_of(answer: JsonObject) -> ResultKind | None:
    kinds, told = (OUTCOMES, answer["outcome"]) if "outcome" in answer else (_RESULTS, answer.get("result"))
    return kinds.get(told) if isinstance(told, str) else None


def _retry_after(seconds: Json) -> int | None:
    return wait_of(seconds) if isinstance(seconds, int) and not isinstance(seconds, bool) else None
