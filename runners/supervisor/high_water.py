"""How far the log had come when it was last seen, kept in the data folder: what a restart compares the broker with.

Runners notice a log that lost acknowledged pages while they live. When all of them ended with the broker, only
this file remembers.
"""

import asyncio
from hashlib import sha256
from pathlib import Path

import msgspec

from ..broker.folder import write_private
from ..errors import OperationalError, RolledBack
from ..jetstream.connection import BrokerConnection
from ..jetstream.leader import fetch, stream_state
from ..jetstream.topology import LEDGER
from ..lifecycle import pause
from ..logs import get_log

NOTE_EVERY_S = 1.0
"""How much of the log's newest end may be lost unnoticed if everything ends at once."""

_log = get_log("supervisor")


class _Seen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sequence: int
    sha256: str


class HighWater:
    """The highest message seen, and its hash."""

    def __init__(self, folder: Path, connection: BrokerConnection) -> None:
        """``connection`` may be any user's that may read LEDGER."""
        self._path = folder / "high-water.json"
        self._connection = connection

    async def check(self) -> None:
        """Raise RolledBack when the log no longer holds what was seen; nothing is known of a fresh folder."""
        seen = self._load()
        if seen is None:
            return
        state = await stream_state(self._connection, LEDGER)
        found = await fetch(self._connection, LEDGER, {"seq": seen.sequence})
        if state.last_sequence >= seen.sequence and found is not None and _digest(found.stored.body) == seen.sha256:
            return
        raise RolledBack(
            f"the log ends at sequence {state.last_sequence}, or holds another message at {seen.sequence} than it did",
            hint=f'recover it from its copy; to accept the loss, remove "{self._path}"',
        )

    async def keep(self, stop: asyncio.Event) -> None:
        """Note the log's end until told to stop. The broker's absence is waited out."""
        noted = 0
        while not await pause(NOTE_EVERY_S, stop):
            try:
                noted = await self._note(noted)
            except OperationalError as error:
                _log.debug("high-water-waiting", reason=error.message)

    async def _note(self, noted: int) -> int:
        last = (await stream_state(self._connection, LEDGER)).last_sequence
        if last <= noted:
            return noted
        found = await fetch(self._connection, LEDGER, {"seq": last})
        if found is not None:
            write_private(self._path, msgspec.json.encode(_Seen(last, _digest(found.stored.body))).decode() + "\n")
        return last

    def _load(self) -> _Seen | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Seen)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise RolledBack(
                f'"{self._path}" cannot be read, so it is not known how far the log had come',
                hint="restore it, or remove it to accept the log as it is",
            ) from error


def _digest(body: bytes) -> str:
    return sha256(body).hexdigest()
