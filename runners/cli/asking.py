"""Asking control from the command line: one connection, one event loop, for one command."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from ..control.refusals import refused
from ..errors import BrokerUnavailable
from ..identity import new_request_id
from ..json_edge import Json
from .place import START_HINT, Place

if TYPE_CHECKING:
    from ..control_client import ControlClient

CONNECT_WITHIN_S = 3.0
READ_ANSWER_S = 15.0
COMMAND_ANSWER_S = 35.0
"""How long a command's answer is waited for: longer than control tries to learn what became of its page."""

_Result = TypeVar("_Result")
Row = dict[str, Json]


class Asker:
    """Asks control, and checks the form of what it answers."""

    def __init__(self, client: "ControlClient") -> None:
        self._client = client

    async def ask(self, subject: str, request: Mapping[str, Json], *, timeout_s: float = READ_ANSWER_S) -> Row:
        """Ask for one object. Raises ControlRefused, BrokerUnavailable."""
        answer = await self._client.ask(f"control.{subject}", request, timeout_s=timeout_s)
        if not isinstance(answer, dict):
            raise BrokerUnavailable(f'control answered "{subject}" in another form', hint="use one release for both")
        return answer

    async def command(self, subject: str, request: Mapping[str, Json]) -> Row:
        """Give a command; the request's id lets it be given again. Raises ControlRefused, BrokerUnavailable."""
        try:
            return await self.ask(subject, request, timeout_s=COMMAND_ANSWER_S)
        except BrokerUnavailable as error:
            if isinstance(error, _control_absent()):
                raise
            raise BrokerUnavailable(
                "control did not answer: whether the command was carried out is not known",
                hint=f"give it again with --request-id {request.get('request_id')}: it is carried out once",
            ) from error

    async def rows(self, subject: str, request: Mapping[str, Json]) -> AsyncGenerator[Row, None]:
        """Ask for rows, page after page; ``after`` is where an answer's ``next`` goes in the next request."""
        answer = await self.ask(subject, request)
        for row in rows_of(answer):
            yield row
        while answer.get("next") is not None:
            answer = await self.ask(subject, {**request, "after": answer["next"]})
            for row in rows_of(answer):
                yield row


def _control_absent() -> type[BrokerUnavailable]:
    """Loaded when something failed: what needs no broker pays for no client."""
    from ..control_client import ControlAbsent

    return ControlAbsent


def rows_of(answer: Row) -> list[Row]:
    """The rows of an answer."""
    rows = answer.get("rows")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def asking(place: Place | None, work: Callable[[Asker], Awaitable[_Result]]) -> _Result:
    """Connect, do the work, disconnect. Raises OperationalError."""
    chosen = merged(place)
    return asyncio.run(_asking(chosen, work))


def merged(place: Place | None) -> Place:
    """The place as said after the command, completed by what was said before it."""
    context = click.get_current_context(silent=True)
    before = context.find_object(Place) if context is not None else None
    return (place or Place()).or_else(before or Place())


async def _asking(place: Place, work: Callable[[Asker], Awaitable[_Result]]) -> _Result:
    async with _connected(place) as asker:
        return await work(asker)


@asynccontextmanager
async def _connected(place: Place) -> AsyncGenerator[Asker, None]:
    from ..control_client import ControlClient
    from ..jetstream.connection import BrokerConnection

    login = place.login()
    try:
        connection = await BrokerConnection.open(login, name="fireledger-command", connect_timeout_s=CONNECT_WITHIN_S)
    except BrokerUnavailable as error:
        raise BrokerUnavailable(error.message, hint=START_HINT) from error
    try:
        yield Asker(ControlClient(connection))
    finally:
        await connection.close()


def give(place: Place, subject: str, request: Mapping[str, Json], request_id: str | None) -> Row:
    """Give one command under a request id, a fresh one if none is named. Raises ControlRefused for an empty one."""
    if request_id == "":
        raise refused("--request-id is empty", hint="give a name of your choice, or leave the option out")
    named: dict[str, Json] = {**request, "request_id": request_id or new_request_id()}

    async def work(asker: Asker) -> Row:
        """Ask over the open connection."""
        return await asker.command(subject, named)

    return asking(place, work)


def look(place: Place, subject: str, request: Mapping[str, Json]) -> Row:
    """Ask for one object."""

    async def work(asker: Asker) -> Row:
        """Ask over the open connection."""
        return await asker.ask(subject, request)

    return asking(place, work)


def look_at_rows(place: Place, subject: str, request: Mapping[str, Json]) -> list[Row]:
    """Ask for all rows of a list."""

    async def work(asker: Asker) -> list[Row]:
        """Ask over the open connection."""
        return [row async for row in asker.rows(subject, request)]

    return asking(place, work)
