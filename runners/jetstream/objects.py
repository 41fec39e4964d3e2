"""A store of objects by name: bytes in chunks, checked by their SHA-256. Laid out as NATS object stores are.

An object is written once: putting other bytes under a name replaces it, and the old chunks stay until the stream is
tidied by its administrator. Meant for objects that fit in memory.
"""

import base64
from hashlib import sha256

import msgspec

from ..errors import BrokerUnavailable, LogGap
from .connection import BrokerConnection
from .headers import ROLLUP
from .leader import ApiError, decode, fetch_last, raise_error
from .reading import read_subject

CHUNK_BYTES = 128 * 1024
"""Bytes of an object in one message."""
OBJECT_BYTES_MAX = 256 * 1024 * 1024
"""Bytes of one object, which is held in memory whole."""
WRITE_TIMEOUT_S = 5.0
"""How long one chunk may go unanswered."""

_DIGEST = "SHA-256="


class _Meta(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    bucket: str
    nuid: str
    size: int
    chunks: int
    digest: str
    deleted: bool = False


class _Ack(msgspec.Struct, frozen=True):
    error: ApiError | None = None


class ObjectStore:
    """One object store."""

    def __init__(self, connection: BrokerConnection, name: str) -> None:
        """Use the store ``name``, which exists already."""
        self._connection = connection
        self._name = name
        self._stream = f"OBJ_{name}"

    async def put(self, name: str, content: bytes) -> None:
        """Store bytes under a name; the name shows them once all are there. The same bytes again change nothing.

        Raises BrokerUnavailable (nothing shows, or everything does; put again), BrokerRefused, and ValueError for an
        object above OBJECT_BYTES_MAX.
        """
        if len(content) > OBJECT_BYTES_MAX:
            raise ValueError(f'the object "{name}" has {len(content)} bytes; at most {OBJECT_BYTES_MAX} fit')
        digest = _digest(content)
        known = await self._meta(name)
        if known is not None and known.digest == digest:
            return
        nuid = self._connection.new_token()
        chunks = [content[start : start + CHUNK_BYTES] for start in range(0, len(content), CHUNK_BYTES)]
        for chunk in chunks:
            await self._write(f"$O.{self._name}.C.{nuid}", chunk, {})
        meta = _Meta(name, self._name, nuid, len(content), len(chunks), digest)
        await self._write(self._meta_subject(name), msgspec.json.encode(meta), {ROLLUP: "sub"})

    async def get(self, name: str) -> bytes | None:
        """Return an object's bytes, or None. Raises LogGap when they are not those that were put."""
        meta = await self._meta(name)
        if meta is None:
            return None
        pieces = [
            stored.body
            async for stored in read_subject(self._connection, self._stream, f"$O.{self._name}.C.{meta.nuid}")
        ]
        content = b"".join(pieces)
        if _digest(content) != meta.digest:
            message = f'the object "{name}" of "{self._name}" is not what was stored'
            raise LogGap(message, hint="put it again from its source")
        return content

    async def _meta(self, name: str) -> _Meta | None:
        fetched = await fetch_last(self._connection, self._stream, self._meta_subject(name))
        if fetched is None:
            return None
        try:
            meta = msgspec.json.decode(fetched.stored.body, type=_Meta)
        except msgspec.MsgspecError as error:
            raise LogGap(f'the description of the object "{name}" cannot be read', hint="put it again") from error
        return None if meta.deleted else meta

    def _meta_subject(self, name: str) -> str:
        return f"$O.{self._name}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    async def _write(self, subject: str, body: bytes, headers: dict[str, str]) -> None:
        reply = await self._connection.request(subject, body, timeout_s=WRITE_TIMEOUT_S, headers=headers)
        ack = decode(reply.payload, _Ack)
        if ack.error is not None:
            raise_error(ack.error, self._stream)
            raise BrokerUnavailable(f'"{subject}" was not stored')


def _digest(content: bytes) -> str:
    return _DIGEST + base64.urlsafe_b64encode(sha256(content).digest()).decode()
