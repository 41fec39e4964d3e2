"""Short-lived pull consumers: created by name, kept in the broker's memory, gone by themselves when unused."""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from ..errors import BrokerRefused, BrokerUnavailable
from .connection import BrokerConnection
from .leader import ApiError, call, decode, raise_error

INACTIVE_NS = 30 * 1_000_000_000
"""A consumer nobody asks for this long is removed by the broker."""


class _Created(msgspec.Struct, frozen=True):
    name: str = ""
    error: ApiError | None = None


async def create_consumer(
    connection: BrokerConnection, stream: str, name: str, *, start_sequence: int, subjects: Sequence[str] = ()
) -> None:
    """Create a consumer that delivers from ``start_sequence`` on, without acknowledgements.

    Raises BrokerUnavailable and BrokerRefused.
    """
    config: dict[str, object] = {
        "name": name,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": start_sequence,
        "ack_policy": "none",
        "replay_policy": "instant",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": INACTIVE_NS,
    }
    operation = f"CONSUMER.CREATE.{stream}.{name}"
    if len(subjects) == 1:
        config["filter_subject"] = subjects[0]
        operation += f".{subjects[0]}"
    elif subjects:
        config["filter_subjects"] = list(subjects)
    request = {"stream_name": stream, "config": config, "action": "create"}
    raise_error(decode(await call(connection, operation, request), _Created).error, stream)


async def delete_consumer(connection: BrokerConnection, stream: str, name: str) -> None:
    """Ask for a consumer's removal without waiting; one that stays is removed when it has been unused for a while."""
    with suppress(BrokerUnavailable, BrokerRefused):
        await connection.publish(f"$JS.API.CONSUMER.DELETE.{stream}.{name}", b"")
