"""Appends for tests, and what a stream holds of them."""

import os
import signal
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.leader import Stored
from fireledger.runners.jetstream.ledger import Append, Committed, Lost
from fireledger.runners.jetstream.reading import scan
from tests.integration.brokers import RunningBroker
from tests.waiting import until, until_sync

Connect = Callable[[str], Awaitable[BrokerConnection]]
"""Connect as a user of the table."""


class Book:
    """Makes the next append of one subject, each with bytes and commit id of its own."""

    def __init__(self, subject: str, writer: str = "") -> None:
        self.subject = subject
        self.head = 0
        self.count = 0
        self._writer = writer or subject

    def next(self, size: int = 0) -> Append:
        """The append after the head that is known."""
        self.count += 1
        name = f"{self._writer}#{self.count}"
        return Append(self.subject, name.encode().ljust(size, b"."), name, self.head)

    def settle(self, outcome: Committed | Lost) -> bool:
        """Take an outcome's head over; whether it was committed."""
        if isinstance(outcome, Committed):
            self.head = outcome.sequence
            return True
        assert outcome.rival is not None
        self.head = outcome.rival.sequence
        return False


def books(count: int, slot: int = 1) -> list[Book]:
    """Books of as many tenants in one slot."""
    return [Book(f"book.{slot}.t{number}") for number in range(count)]


async def everything(connection: BrokerConnection, stream: str = "LEDGER") -> list[Stored]:
    """All that a stream holds."""
    return [stored async for stored in scan(connection, stream)]


def sequences(outcomes: list[Committed | Lost]) -> list[int]:
    """The sequences of outcomes that must all be committed."""
    committed = [outcome for outcome in outcomes if isinstance(outcome, Committed)]
    assert len(committed) == len(outcomes)
    return [outcome.sequence for outcome in committed]


async def until_above(count: Callable[[], int], bound: int, *, what: str) -> None:
    """Wait until a count is above a bound."""
    await until(lambda: count() > bound, what=what)


@contextmanager
def frozen(broker: RunningBroker) -> Generator[None, None, None]:
    """Stop the broker's every thread for the block, without ending it."""
    pid = broker.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        until_sync(lambda: _stopped(pid), what="the broker is frozen")
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _stopped(pid: int) -> bool:
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in threads)
