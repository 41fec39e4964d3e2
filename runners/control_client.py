"""Asking control: one JSON request, one JSON answer, over the broker."""

from collections.abc import Mapping

from .errors import BrokerUnavailable, ControlRefused, ExitStatus
from .jetstream.connection import BrokerConnection
from .json_edge import Json, MalformedJson, dumps, loads

ASK_TIMEOUT_S = 15.0
"""Longer than control tries a command on a busy book."""

_ONE_RELEASE = "use one release for both"


class ControlAbsent(BrokerUnavailable):
    """No control was there to hear the request: it was not carried out."""


class ControlClient:
    """Sends requests to whichever control answers first."""

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection

    async def ask(self, subject: str, request: Mapping[str, Json], *, timeout_s: float = ASK_TIMEOUT_S) -> Json:
        """Return the answer's value.

        Raises ControlRefused with the rejection's code and exit status, ControlAbsent when there is no control, and
        BrokerUnavailable when none answers in time or the connection is lost.
        """
        try:
            reply = await self._connection.ask(subject, dumps(dict(request)), timeout_s=timeout_s)
        except BrokerUnavailable as error:
            kind = ControlAbsent if error.message.startswith("nobody answers") else BrokerUnavailable
            raise kind("control does not answer", hint="start it: fireledger up") from error
        match _read(reply.payload):
            case {"ok": True, "value": value}:
                return value
            case {"ok": False, "error": {"code": str(code), "message": str(message), "hint": str(hint), **rest}}:
                raise ControlRefused(code, message, hint=hint, exit_status=_status(rest.get("exit_status")))
            case _:
                raise BrokerUnavailable(f'control answered "{subject}" in another form', hint=_ONE_RELEASE)


def _read(payload: bytes) -> Json:
    try:
        return loads(payload)
    except MalformedJson as error:
        raise BrokerUnavailable("control's answer is not JSON", hint=_ONE_RELEASE) from error


def _status(value: object) -> ExitStatus:
    try:
        return ExitStatus(value) if isinstance(value, int) else ExitStatus.UNEXPECTED
    except ValueError:
        return ExitStatus.UNEXPECTED
