"""A report of an attempt's outcome: its fields, how it is read, and why it is refused."""

from typing import Annotated, Literal

import msgspec

from fireledger.domain.entries import AttemptReported, ResultKind
from fireledger.domain.identifiers import FireKey, MalformedName, parse_fire_key
from fireledger.domain.limits import AMOUNT_MAX

from ..dispatcher.calls import short_message
from ..errors import ControlRefused, ExitStatus
from .refusals import refused

REPORT_BYTES_MAX = 16 * 1024
"""Bytes of one report."""
ATTEMPT_MAX = 1_000_000
"""The highest attempt's number; a person may let a held fire go on more often than a fire is retried."""

REPORT_MALFORMED = "report-malformed"
REPORT_TOO_LARGE = "report-too-large"
REPORT_KEY_MISSING = "report-key-missing"
"""This control checks no tokens, so it takes no reports."""
TOKEN_REFUSED = "token-refused"
"""The token is not that of the attempt, or the tenant is another's."""
ATTEMPT_NOT_RELEASED = "attempt-not-released"
TOO_MANY_REPORTS = "too-many-reports"
"""The attempt has been reported in so many different ways that no further one is recorded."""

_FIELDS_HINT = 'send {"key", "attempt", "token", "outcome"} and, if you like, "cost" and "message"'
_RESULTS: dict[str, ResultKind] = {"succeeded": "succeeded", "failed": "final", "held": "held"}


class OutcomeReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an executor says of an attempt later than in its answer. ``token`` is the one the call carried."""

    key: str
    attempt: Annotated[int, msgspec.Meta(ge=1, le=ATTEMPT_MAX)]
    token: str
    outcome: Literal["succeeded", "failed", "held"]
    cost: Annotated[int, msgspec.Meta(ge=0, le=AMOUNT_MAX)] | None = None
    message: str = ""

    def __repr__(self) -> str:
        return f"OutcomeReport({self.key}, attempt {self.attempt}, {self.outcome})"

    def record(self, key: FireKey) -> AttemptReported:
        """The record of it; its message cut to what is kept of one."""
        return AttemptReported(
            tenant=key.tenant,
            trigger=key.trigger,
            scheduled=key.scheduled,
            sequence=key.sequence,
            attempt=self.attempt,
            result=_RESULTS[self.outcome],
            cost=self.cost,
            message=short_message(self.message),
        )


_DECODER = msgspec.json.Decoder(OutcomeReport)


def read_report(body: bytes) -> tuple[OutcomeReport, FireKey]:
    """A report and its fire's key. Raises ControlRefused for one that is too large or not what it should be."""
    if len(body) > REPORT_BYTES_MAX:
        raise too_large()
    try:
        report = _DECODER.decode(body)
        return report, parse_fire_key(report.key)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = short_message(str(error))
        raise refused(f"the report is malformed: {text}", hint=_FIELDS_HINT, code=REPORT_MALFORMED) from error
    except MalformedName as error:
        raise refused(
            "the report's key is not a fire key",
            hint="send back the Idempotency-Key of the call",
            code=REPORT_MALFORMED,
        ) from error


def too_large() -> ControlRefused:
    """More bytes than a report may have."""
    return refused(
        f"the report has more than {REPORT_BYTES_MAX} bytes", hint="shorten its message", code=REPORT_TOO_LARGE
    )


def key_missing() -> ControlRefused:
    """No report key, so no report can be checked."""
    return refused(
        "this control takes no reports: it has no report key",
        hint="start control and dispatcher with the same --report-key",
        code=REPORT_KEY_MISSING,
    )


def token_refused() -> ControlRefused:
    """Not the attempt's token."""
    return refused(
        "the token is not that of this attempt",
        hint="send back the fireledger-attempt-token of the call, with its key and attempt",
        code=TOKEN_REFUSED,
    )


def other_tenant(tenant: str) -> ControlRefused:
    """A tenant's executor reports for another tenant."""
    return refused(
        f'the report is not of tenant "{tenant}"',
        hint="each tenant's executors report with their own broker user",
        code=TOKEN_REFUSED,
    )


def not_released(key: FireKey, attempt: int) -> ControlRefused:
    """The fire is known, and this attempt of it has not been made."""
    return ControlRefused(
        ATTEMPT_NOT_RELEASED,
        f'attempt {attempt} of fire "{key}" was never released',
        hint="send back the fireledger-attempt of the call",
        exit_status=ExitStatus.CONFLICT,
    )


def too_many_reports(key: FireKey, attempt: int) -> ControlRefused:
    """The attempt's outcome has been told in too many ways."""
    return ControlRefused(
        TOO_MANY_REPORTS,
        f'attempt {attempt} of fire "{key}" has been reported too often, each time otherwise',
        hint="report an outcome once, and repeat the same report only",
        exit_status=ExitStatus.CONFLICT,
    )
