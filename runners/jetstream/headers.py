"""Names of message headers, and what the broker writes into its messages: statuses, times, positions.

Pure functions; nothing here talks to a broker. Broker instants become integer microseconds by dropping the
nanoseconds, the same way on every read path, so that one message has one instant however it was read.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

EXPECTED_SUBJECT_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
BATCH_ID = "Nats-Batch-Id"
BATCH_SEQUENCE = "Nats-Batch-Sequence"
BATCH_COMMIT = "Nats-Batch-Commit"
ROLLUP = "Nats-Rollup"
KV_OPERATION = "KV-Operation"
MARKER_REASON = "Nats-Marker-Reason"
SEQUENCE = "Nats-Sequence"
SUBJECT = "Nats-Subject"
TIME_STAMP = "Nats-Time-Stamp"
COMMIT_ID = "Fireledger-Commit-Id"
"""A checked copy of the page's commit id: what tells our own message from a rival's."""

STATUS = "Status"
"""Where the client library puts the number of a status message."""
DESCRIPTION = "Description"
"""Where the client library puts the text of a status message."""

STATUS_END = "204"
STATUS_NOT_FOUND = "404"
STATUS_EXPIRED = "408"
STATUS_CONFLICT = "409"
STATUS_NO_RESPONDERS = "503"

_RFC3339 = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})", re.ASCII)


class MalformedBrokerText(ValueError):
    """The broker wrote something this release cannot read; the message shows it."""


def parse_header_block(block: bytes) -> dict[str, str]:
    """Read a stored header block (``NATS/1.0`` and ``Name: value`` lines). Of a repeated name the last counts."""
    headers: dict[str, str] = {}
    for line in block.decode("utf-8", "replace").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip()] = value.strip()
    return headers


def header_block_size(headers: Mapping[str, str]) -> int:
    """Bytes the headers take on the wire."""
    return 12 + sum(len(name) + len(value.encode()) + 4 for name, value in headers.items()) if headers else 0


def parse_time(text: str) -> int:
    """Read the broker's RFC 3339 time (up to nanoseconds) as microseconds since the epoch, rounded down."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise MalformedBrokerText(f'"{text[:64]}" is not a time as the broker writes it')
    moment = datetime.fromisoformat(match[1] + ("+00:00" if match[3] == "Z" else match[3]))
    seconds = round((moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    return seconds * 1_000_000 + int((match[2] or "").ljust(9, "0")) // 1_000


class Delivery(NamedTuple):
    """Where a delivered message stands: its consumer, stream sequence, delivery number and instant (microseconds)."""

    consumer: str
    sequence: int
    delivered: int
    stamped_at: int


def parse_delivery(reply: str) -> Delivery:
    """Read the acknowledgement subject of a delivered message, in its old (9 parts) or new form (11 or more)."""
    parts = reply.split(".")
    shift = 2 if len(parts) >= 11 else 0
    if len(parts) < 9 or parts[0] != "$JS":
        raise MalformedBrokerText(f'"{reply[:128]}" is not the reply subject of a delivered message')
    return Delivery(parts[3 + shift], int(parts[5 + shift]), int(parts[6 + shift]), int(parts[7 + shift]) // 1_000)
