"""Refusals: how control says no, with a stable code and the command line's exit status."""

from collections.abc import Callable
from typing import TypeVar

from fireledger.domain.identifiers import MalformedName
from fireledger.domain.instants import MalformedDuration, MalformedInstant
from fireledger.domain.recurrence.errors import MalformedSchedule, NeverDue
from fireledger.domain.rejections import Rejection, RejectionCode
from fireledger.domain.zones import UnknownZone, UnknownZoneData

from ..errors import ControlRefused, ExitStatus, OperationalError
from ..json_edge import Jsonable

REQUEST_MALFORMED = "request-malformed"
"""The request's JSON is not one, lacks a field, or has one that is unknown or of another type."""
FIRE_MISSING = "fire-missing"
PAGE_MISSING = "page-missing"
SCHEDULE_MALFORMED = "schedule-malformed"
TENANT_BUSY = "tenant-busy"
"""Other writers of the same book were quicker every time within the deadline."""
PAGE_INEFFECTIVE = "page-ineffective"
"""The command is in the book and the broker's timestamp shows that it came too early or too late to take effect."""
CONTROL_BUSY = "control-busy"
CLOCK_UNCERTAIN = "clock-uncertain"
ZONE_DATA_MISSING = "zone-data-missing"
UNEXPECTED = "unexpected"

_Value = TypeVar("_Value")


class ScheduleRefused(ControlRefused):
    """A schedule's text is refused; ``text`` is the whole of it and ``position`` where the offending part begins."""

    def __init__(self, error: MalformedSchedule, text: str) -> None:
        code = RejectionCode.NEVER_DUE if isinstance(error, NeverDue) else SCHEDULE_MALFORMED
        place = "" if error.position is None else f" (at position {error.position})"
        super().__init__(code, f"{error.message}{place}", hint=error.hint)
        self.text = text
        self.position = error.position
        self.token = error.token


def refused(message: str, *, hint: str = "", code: str = RejectionCode.VALUE_REFUSED) -> ControlRefused:
    """A value or command is refused: exit status 5."""
    return ControlRefused(code, message, hint=hint, exit_status=ExitStatus.REFUSED)


def missing(code: str, message: str, *, hint: str) -> ControlRefused:
    """What is named does not exist: exit status 3."""
    return ControlRefused(code, message, hint=hint, exit_status=ExitStatus.NOT_FOUND)


def unavailable(code: str, message: str, *, hint: str = "") -> ControlRefused:
    """The command may succeed later: exit status 6."""
    return ControlRefused(code, message, hint=hint, exit_status=ExitStatus.UNAVAILABLE)


def unexpected() -> ControlRefused:
    """A defect of control's own; its log tells."""
    message = "control failed unexpectedly"
    return ControlRefused(UNEXPECTED, message, hint="see its log", exit_status=ExitStatus.UNEXPECTED)


def refuse_unprintable(what: str, text: str, hint: str) -> None:
    """Refuse a text that has more than one line or other characters that do not print. Raises ControlRefused."""
    odd = next((character for character in text if not character.isprintable()), None)
    if odd is not None:
        not_taken = "line breaks, control characters and spaces other than the plain one are not taken"
        raise refused(f"{what} has the character U+{ord(odd):04X}", hint=f"{hint}; {not_taken}")


def from_rejection(rejection: Rejection) -> ControlRefused:
    """The domain refused a command."""
    return ControlRefused(
        rejection.code, rejection.message, hint=rejection.hint, exit_status=ExitStatus(rejection.exit_status)
    )


def unknown_zone(error: UnknownZone) -> ControlRefused:
    """No such zone in the database that the tenant's book uses."""
    return refused(error.message, hint=error.hint, code=RejectionCode.ZONE_UNKNOWN)


def read_option(option: str, text: str, read: Callable[[str], _Value]) -> _Value:
    """Read an option's text as an instant or a duration. Raises ControlRefused that names the option."""
    try:
        return read(text)
    except (MalformedInstant, MalformedDuration) as error:
        refusal = from_value_error(error)
        raise refused(f"{option} {refusal.message}", hint=refusal.hint) from error


def from_value_error(error: ValueError) -> ControlRefused:
    """What the domain raises for texts that are not what they should be. Raises the error again if it is another."""
    match error:
        case MalformedName() | MalformedInstant() | MalformedDuration():
            message, semicolon, hint = str(error).rpartition("; ")
            return refused(message, hint=hint) if semicolon else refused(hint)
        case UnknownZone():
            return unknown_zone(error)
        case UnknownZoneData():
            return unavailable(
                ZONE_DATA_MISSING, str(error), hint="restart control: it loads every stored database when it starts"
            )
        case _:
            raise error


def code_of(error: OperationalError) -> str:
    """The stable code of any operational error: a refusal's own, else its kind in kebab-case."""
    if isinstance(error, ControlRefused):
        return error.code
    name = type(error).__name__
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")


def failure_answer(error: OperationalError) -> dict[str, Jsonable]:
    """The answer to a request that failed."""
    return {
        "ok": False,
        "error": {
            "code": code_of(error),
            "message": error.message,
            "hint": error.hint,
            "exit_status": int(error.exit_status),
            "retryable": error.retryable,
        },
    }
