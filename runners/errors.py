"""Operational errors: what can go wrong outside the domain, each with an exit status and a hint.

A rejection is a value (``domain.rejections``), a broken invariant is an assertion; everything here is
an exception raised by an adapter or a runner and shown to a person as *message*, *detail*, *hint*.
"""

from enum import IntEnum


class ExitStatus(IntEnum):
    """The command line's exit statuses; a contract."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    REFUSED = 5
    UNAVAILABLE = 6


class OperationalError(Exception):
    """Something outside the domain failed.

    ``message`` is one lower-case sentence, ``hint`` a command or setting to try, ``exit_status`` what
    the command line ends with, ``retryable`` whether the same call may succeed later unchanged.
    """

    exit_status: ExitStatus = ExitStatus.UNEXPECTED
    retryable: bool = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BrokerUnavailable(OperationalError):
    """The broker cannot be reached or did not give a definite answer in time."""

    exit_status = ExitStatus.UNAVAILABLE
    retryable = True


class BrokerRefused(OperationalError):
    """The broker refused a request for good: missing rights, a limit, a full disk."""

    exit_status = ExitStatus.UNAVAILABLE


class SettingsDiffer(OperationalError):
    """Streams, buckets or users differ from the table this release needs; the message is the diff."""

    exit_status = ExitStatus.CONFLICT


class RolledBack(OperationalError):
    """The broker's log is shorter than what was seen before: acknowledged pages are missing. Writers stop."""

    exit_status = ExitStatus.CONFLICT


class LogGap(OperationalError):
    """A reader met a missing, repeated or altered message. It stops rather than guess."""

    exit_status = ExitStatus.CONFLICT


class RunnerGaveUp(OperationalError):
    """A runner found the log, or the broker's settings, changed: starting it afresh would only forget that."""

    exit_status = ExitStatus.CONFLICT


class FolderInUse(OperationalError):
    """Another process holds the data folder's lock."""

    exit_status = ExitStatus.CONFLICT


class FolderUnusable(OperationalError):
    """The data folder cannot be used: not writable, or laid out by another version."""

    exit_status = ExitStatus.CONFLICT


class ClockUnusable(OperationalError):
    """No clock source gives a bound below the ceiling, or a declared bound is refused."""

    exit_status = ExitStatus.REFUSED


class ControlRefused(OperationalError):
    """Control answered a command with a rejection; carries its code and exit status."""

    def __init__(
        self, code: str, message: str, *, hint: str = "", exit_status: ExitStatus = ExitStatus.REFUSED
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.exit_status = exit_status
