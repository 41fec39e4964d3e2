"""Appending several messages as one: all of them or none, on one subject or on many.

``Ledger.append_many`` is for messages that have nothing to do with each other, so it drops the losers of a refused
batch and goes on with the rest. Here a message that lost takes all the others with it. The rules are the ledger's: no
answer is taken for one, and the same bytes are sent again until it is certain what became of them.
"""

import asyncio
from collections.abc import Sequence

from fireledger.domain.limits import BATCH_PAGES_MAX

from ..errors import BrokerRefused, BrokerUnavailable
from .headers import BATCH_COMMIT, BATCH_ID, BATCH_SEQUENCE, COMMIT_ID, EXPECTED_SUBJECT_SEQUENCE
from .leader import ApiError
from .ledger import (
    ANSWER_TIMEOUT_S,
    BACKOFF_FIRST_S,
    BATCH_BYTES_MAX,
    BATCH_CODES,
    CONFLICT_CODES,
    Append,
    Committed,
    Ledger,
    Lost,
)

_BATCH_TOO_LARGE = 10199


class BatchTooLarge(ValueError):
    """More messages or bytes than one atomic batch can hold; nothing was written."""


class TransactionalLedger(Ledger):
    """A ledger that can also append several messages all or nothing."""

    async def commit_together(self, messages: Sequence[Append]) -> tuple[int, ...] | Lost:
        """Append all messages in this order, or none, and return their sequences or the rival that was in the way.

        Of the messages on one subject only the first one's ``expected_sequence`` counts; the rest follow it. All
        may have one commit id if their bodies differ. Raises BatchTooLarge, and what ``append`` raises; the outcome
        is then unknown, and the same objects may be given again.
        """
        batch = tuple(messages)
        _check_size(batch)
        if not batch:
            return ()
        if len(batch) == 1:
            outcome = await self.append(batch[0])
            return outcome if isinstance(outcome, Lost) else (outcome.sequence,)
        return await self._commit_until_certain(batch)

    async def _commit_until_certain(self, batch: tuple[Append, ...]) -> tuple[int, ...] | Lost:
        deadline, doubt, pause_s = self._deadline(), "", BACKOFF_FIRST_S
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            self._refuse_if_stopped()
            outcome: tuple[int, ...] | Lost | None = None
            try:
                answer = await self._send_together(batch, min(left, ANSWER_TIMEOUT_S))
                if not isinstance(answer, ApiError):
                    return answer
                if answer.err_code in CONFLICT_CODES:
                    outcome = await self._fate(batch, "" if doubt else answer.description)
                doubt = answer.description
            except BrokerUnavailable as error:
                doubt = error.message
            except BrokerRefused:
                # Only the last send was refused; an earlier unanswered one may have been stored.
                outcome = await self._fate(batch) if doubt else None
                if outcome is None:
                    raise
            if outcome is not None:
                return outcome
            pause_s = await self._back_off(pause_s, deadline)
        raise self._unknown(f"a transaction of {len(batch)} messages", doubt)

    async def _send_together(self, batch: tuple[Append, ...], timeout_s: float) -> tuple[int, ...] | ApiError:
        """Send the batch once: its sequences, or the broker's error when that leaves something to find out."""
        await self._verify()
        seen, batch_id = self.highest_seen, self.connection.new_token()
        subjects: set[str] = set()
        for number, message in enumerate(batch, start=1):
            headers = {**message.headers, COMMIT_ID: message.commit_id, BATCH_ID: batch_id, BATCH_SEQUENCE: str(number)}
            if message.subject not in subjects:
                # The broker refuses a second expectation on one subject within a batch.
                subjects.add(message.subject)
                headers[EXPECTED_SUBJECT_SEQUENCE] = str(message.expected_sequence)
            if number < len(batch):
                await self.connection.publish(message.subject, message.body, headers=headers)
            else:
                headers[BATCH_COMMIT] = "1"
                ack = self._read_ack(
                    await self.connection.request(message.subject, message.body, timeout_s=timeout_s, headers=headers)
                )
                if ack.error is not None:
                    return self._undecided(ack.error, message.subject)
                if (ack.batch, ack.count) == (batch_id, len(batch)):
                    self._check_ack(ack.seq - len(batch) + 1, seen)
                    return self._committed(batch, ack.seq - len(batch) + 1)
        raise BrokerUnavailable(f"the broker did not acknowledge a batch of {len(batch)} as a whole")

    def _undecided(self, error: ApiError, subject: str) -> ApiError:
        """Return an error that may be followed by the same batch. Raises BrokerRefused for one that is final."""
        if error.err_code == _BATCH_TOO_LARGE:
            raise BrokerRefused(
                f"the broker refused a batch: {error.description}", hint="its settings allow smaller batches only"
            )
        if error.err_code not in CONFLICT_CODES | BATCH_CODES:
            self._check_transient(error, subject)
        return error

    async def _fate(self, batch: tuple[Append, ...], description: str = "") -> tuple[int, ...] | Lost | None:
        """Read from the leader what holds the batch's positions: the batch itself, a rival, or nothing yet."""
        places: dict[str, int] = {}
        for place, message in enumerate(batch):
            places.setdefault(message.subject, place)
        firsts = [batch[place] for place in places.values()]
        taken = await self._taken(firsts, description)
        for subject, outcome in taken.items():
            if isinstance(outcome, Committed):
                # One of them is there, so all are, one after the other.
                return self._committed(batch, outcome.sequence - places[subject])
        return next((outcome for outcome in taken.values() if isinstance(outcome, Lost)), None)

    def _committed(self, batch: tuple[Append, ...], first: int) -> tuple[int, ...]:
        return tuple(self._commit(message, first + place).sequence for place, message in enumerate(batch))


def _check_size(batch: tuple[Append, ...]) -> None:
    if len(batch) > BATCH_PAGES_MAX:
        raise BatchTooLarge(f"{len(batch)} messages cannot be appended as one; at most {BATCH_PAGES_MAX}")
    size = sum(len(message.body) for message in batch)
    if size > BATCH_BYTES_MAX:
        raise BatchTooLarge(f"{size} bytes cannot be appended as one; at most {BATCH_BYTES_MAX}")
