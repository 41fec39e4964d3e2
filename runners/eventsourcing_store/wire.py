"""How a stored event looks in the log: its subject, its body, and the copies in its headers.

The body holds everything; headers are copies for the broker's and an operator's tools. Pure functions.
"""

import string
from enum import StrEnum
from urllib.parse import quote
from uuid import UUID

import msgspec
from eventsourcing.persistence import DataError, Notification, ProgrammingError, StoredEvent

TOPIC_HEADER = "Fireledger-Topic"
VERSION_HEADER = "Fireledger-Version"
ORIGINATOR_HEADER = "Fireledger-Originator-Id"
TOKEN_LENGTH_MAX = 1_024
"""Characters of an encoded id: a subject has to fit the broker's control line of 4,096."""

_TOKEN_SAFE = frozenset(string.ascii_letters + string.digits + "-_")
_HEADER_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "%")


class IdType(StrEnum):
    """What originator ids are when they are read: text, or UUIDs."""

    TEXT = "text"
    UUID = "uuid"


class Envelope(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="event.v1"):
    """The body of a stored event's message."""

    originator_id: str
    originator_version: int
    topic: str
    commit_id: str
    state: bytes


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Envelope)


def id_text(originator_id: UUID | str, id_type: IdType) -> str:
    """Return an id as it is stored. Raises ProgrammingError for one that is not of the declared type."""
    if isinstance(originator_id, UUID):
        return str(originator_id)
    if id_type is IdType.TEXT:
        return originator_id
    try:
        return str(UUID(originator_id))
    except ValueError as error:
        raise ProgrammingError(
            f'originator id "{originator_id[:80]}" is not a UUID; set ORIGINATOR_ID_TYPE to text'
        ) from error


def encode_token(text: str) -> str:
    """Write any text as one token of a subject or of a stream's name: ``=XX`` for each byte that is not allowed.

    Different texts give different tokens. Raises DataError for text that is not Unicode or is too long.
    """
    try:
        parts = [char if char in _TOKEN_SAFE else "".join(f"={byte:02X}" for byte in char.encode()) for char in text]
    except UnicodeEncodeError as error:
        raise DataError(f"an id cannot be written as UTF-8: {error.reason}") from error
    token = "".join(parts) or "="
    if len(token) > TOKEN_LENGTH_MAX:
        raise DataError(f'the id "{text[:80]}..." takes {len(token)} characters; at most {TOKEN_LENGTH_MAX}')
    return token


def encode_event(event: StoredEvent, originator_id: str, commit_id: str) -> bytes:
    """Return the body of an event's message. Raises DataError for text or a version that cannot be written."""
    envelope = Envelope(originator_id, event.originator_version, event.topic, commit_id, event.state)
    try:
        return _ENCODER.encode(envelope)
    except UnicodeEncodeError as error:
        raise DataError(f"an id or topic cannot be written as UTF-8: {error.reason}") from error
    except OverflowError as error:
        raise DataError(f"version {event.originator_version} cannot be written in 64 bits") from error


def decode_event(body: bytes) -> Envelope:
    """Read a body. Raises DataError."""
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"a message is not a stored event: {error}") from error


def event_headers(event: StoredEvent) -> dict[str, str]:
    """Return the copies that go into the headers; the id and topic percent-encoded where they are not plain ASCII."""
    return {
        TOPIC_HEADER: quote(event.topic, safe=_HEADER_SAFE),
        VERSION_HEADER: str(event.originator_version),
        ORIGINATOR_HEADER: quote(str(event.originator_id), safe=_HEADER_SAFE),
    }


def to_stored_event(envelope: Envelope, id_type: IdType) -> StoredEvent:
    """Return the event as the library knows it. Raises DataError when its id is not of the declared type."""
    return StoredEvent(
        originator_id=_typed_id(envelope, id_type),
        originator_version=envelope.originator_version,
        topic=envelope.topic,
        state=envelope.state,
    )


def to_notification(envelope: Envelope, sequence: int, id_type: IdType) -> Notification:
    """Return the event with its place in the application's sequence. Raises DataError as ``to_stored_event``."""
    return Notification(
        originator_id=_typed_id(envelope, id_type),
        originator_version=envelope.originator_version,
        topic=envelope.topic,
        state=envelope.state,
        id=sequence,
    )


def _typed_id(envelope: Envelope, id_type: IdType) -> UUID | str:
    if id_type is IdType.TEXT:
        return envelope.originator_id
    try:
        return UUID(envelope.originator_id)
    except ValueError as error:
        raise DataError(f'stored id "{envelope.originator_id[:80]}" is not a UUID; set ORIGINATOR_ID_TYPE') from error
