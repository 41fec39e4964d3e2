"""Rejections: the stable codes with which a command is refused, as values rather than exceptions."""

from dataclasses import dataclass
from enum import StrEnum


class RejectionCode(StrEnum):
    """Why a command was refused. The text is a contract: scripts match on it."""

    TENANT_EXISTS = "tenant-exists"
    TENANT_MISSING = "tenant-missing"
    TRIGGER_EXISTS = "trigger-exists"
    TRIGGER_MISSING = "trigger-missing"
    ALREADY_PAUSED = "already-paused"
    NOT_PAUSED = "not-paused"
    REQUEST_ID_REUSED = "request-id-reused"
    NEVER_DUE = "never-due"
    WHOLLY_PAST = "wholly-past"
    VALUE_REFUSED = "value-refused"
    ZONE_UNKNOWN = "zone-unknown"
    TOO_MANY_TRIGGERS = "too-many-triggers"
    TOO_MANY_REQUESTS = "too-many-requests"
    TOO_MANY_SEGMENTS = "too-many-segments"
    TOO_MANY_PAUSES = "too-many-pauses"
    FIRE_MISSING = "fire-missing"
    FIRE_UNDER_WAY = "fire-under-way"
    FIRE_NOT_HELD = "fire-not-held"
    TRIGGER_STOPPED = "trigger-stopped"
    BACKFILL_RUNNING = "backfill-running"
    BACKFILL_MISSING = "backfill-missing"
    GRANT_MISSING = "grant-missing"
    CEILING_MISSING = "ceiling-missing"
    TOO_MANY_WAITING = "too-many-waiting"
    BOOK_CLOSED = "book-closed"
    NOT_SUPPORTED = "not-supported"


_MISSING = frozenset(
    {
        RejectionCode.TENANT_MISSING,
        RejectionCode.TRIGGER_MISSING,
        RejectionCode.FIRE_MISSING,
        RejectionCode.BACKFILL_MISSING,
        RejectionCode.CEILING_MISSING,
    }
)
_CONFLICT = frozenset(
    {
        RejectionCode.TENANT_EXISTS,
        RejectionCode.TRIGGER_EXISTS,
        RejectionCode.ALREADY_PAUSED,
        RejectionCode.NOT_PAUSED,
        RejectionCode.REQUEST_ID_REUSED,
        RejectionCode.TOO_MANY_SEGMENTS,
        RejectionCode.TOO_MANY_PAUSES,
        RejectionCode.FIRE_UNDER_WAY,
        RejectionCode.FIRE_NOT_HELD,
        RejectionCode.TRIGGER_STOPPED,
        RejectionCode.BACKFILL_RUNNING,
        RejectionCode.TOO_MANY_WAITING,
    }
)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A refused command: nothing was written.

    ``message`` is one lower-case sentence naming the offending part, ``hint`` says what to do.
    """

    code: RejectionCode
    message: str
    hint: str = ""

    @property
    def exit_status(self) -> int:
        """The command line's exit status: 3 not found, 4 conflict, 5 refused."""
        if self.code in _MISSING:
            return 3
        return 4 if self.code in _CONFLICT else 5


def no_trigger(tenant: str, name: str) -> Rejection:
    """The rejection of a command about a trigger that does not exist."""
    return Rejection(
        RejectionCode.TRIGGER_MISSING,
        f'trigger "{tenant}/{name[:140]}" does not exist',
        f"see what exists: fireledger trigger list {tenant}",
    )
