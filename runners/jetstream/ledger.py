"""Appending to the log: compare-and-append on exact subjects, and the certainty about what became of it.

The rules are DESIGN section 1, "The broker is good, and is not trusted blindly". An acknowledgement is the only
answer that is taken at its word, and even it must fit what was seen before. Everything else means *unknown*: the
same bytes are sent again until our message, or another's, is found at the position they were meant for. A sign of
lost messages stops the writer; it is never taken for a conflict.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeVar

import msgspec

from fireledger.domain.limits import BATCH_PAGES_MAX, PLAIN_APPENDS_MAX

from ..errors import BrokerRefused, BrokerUnavailable, RolledBack
from ..logs import get_log
from .connection import BrokerConnection, Reply
from .headers import BATCH_COMMIT, BATCH_ID, BATCH_SEQUENCE, COMMIT_ID, EXPECTED_SUBJECT_SEQUENCE
from .leader import ApiError, Fetched, Stored, confirmed, decode, fetch, fetch_last, fetch_next, stream_state

__all__ = ["Append", "Committed", "Ledger", "Lost", "Stored"]

_log = get_log("ledger")
_T = TypeVar("_T")

APPEND_DEADLINE_S = 30.0
"""How long an append is resent before the caller is told that its outcome is unknown."""
ANSWER_TIMEOUT_S = 5.0
"""How long one send may go unanswered before the same bytes are sent again."""
BACKOFF_FIRST_S = 0.005
BACKOFF_MAX_S = 0.2
"""Pauses between resends double from the first to the last of these."""
BATCH_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of bodies in one atomic batch: what a slow disk still takes well within ANSWER_TIMEOUT_S."""
APPENDS_AT_ONCE_MAX = 64
"""Plain appends or position reads of one call that are under way together."""
CONFLICT_MEMORY_S = 1.0
"""A subject that conflicted stays out of batches for this long."""
BATCH_TROUBLE_MAX = 3
"""After this many batches in a row that failed for being batches, their members are appended one by one."""
HEADS_MAX = 65_536
"""Subjects whose highest seen head is remembered; one in use is never the oldest."""

CONFLICT_CODES = frozenset({10071, 10164})
"""Wrong last sequence: against stored data, or against a write still under way."""
TRANSIENT_CODES = frozenset({10004, 10005, 10008, 10009, 10063, 10118, 10158, 10167})
"""No leader, no quorum, a duplicate or too many in process: unknown or not yet, the same bytes may be sent again."""
BATCH_CODES = frozenset({10175, 10176, 10179, 10199, 10200, 10210})
"""The batch as such failed: incomplete, abandoned, too many open ones."""
_HINTS = {
    10023: "the broker is out of resources; free memory or disk space",
    10047: "the broker's storage limit is reached; raise it or free disk space",
    10054: "the message is above the stream's limit",
    10077: "the broker could not write; free disk space, look at its log, and restart it if the stream is frozen",
    10109: "the stream is sealed; nothing can be appended to it",
    10174: "the stream lacks atomic batches; its settings differ from the table of this release",
}
_ROLLED_BACK_HINT = "acknowledged messages are missing from the broker's store; stop writers and recover from the copy"


@dataclass(frozen=True, slots=True)
class Append:
    """A message to append after the one with ``expected_sequence`` (0: as the first) on its exact subject.

    ``commit_id`` is unique to this message; it and the bytes tell it from a rival. ``headers`` are checked copies
    for the broker and the library. The same object may be appended again until its outcome is known.
    """

    subject: str
    body: bytes
    commit_id: str
    expected_sequence: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Committed:
    """Our very bytes hold the position, at this stream sequence."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Another's message holds the position: ``rival``, the first on the subject after the expected one.

    More may follow it; read the subject from ``rival.sequence`` on.
    """

    rival: Stored | None


class _Ack(msgspec.Struct, frozen=True):
    stream: str = ""
    seq: int = 0
    batch: str = ""
    count: int = 0
    error: ApiError | None = None


class Ledger:
    """One writer of a stream. Not for two event loops; any number of tasks may append different subjects at once."""

    def __init__(
        self, connection: BrokerConnection, *, stream: str = "LEDGER", deadline_s: float = APPEND_DEADLINE_S
    ) -> None:
        """``deadline_s`` bounds each call of append and append_many."""
        self.highest_seen = 0
        """The highest stream sequence that an acknowledgement or a read has shown."""
        self.stopped: RolledBack | None = None
        """Why this writer refuses to append, once messages were found to be missing."""
        self._connection = connection
        self._stream = stream
        self._deadline_s = deadline_s
        self._anchor = (0, b"")
        self._verified_generation = -1
        self._verifying = asyncio.Lock()
        self._heads: dict[str, int] = {}
        self._conflicted: dict[str, float] = {}

    @property
    def connection(self) -> BrokerConnection:
        """The connection it writes on."""
        return self._connection

    def note_seen(self, sequence: int, digest: bytes = b"") -> None:
        """Tell of a message read elsewhere, with the SHA-256 of its body if known.

        An acknowledgement must lie above what was seen before its message was sent, and after a reconnect the
        log must still hold it.
        """
        self.highest_seen = max(self.highest_seen, sequence)
        if digest and sequence > self._anchor[0]:
            self._anchor = (sequence, digest)

    async def head(self, subject: str) -> Stored | None:
        """Return the newest message on a subject, read from the leader.

        Raises RolledBack when the head is lower than one seen before, BrokerUnavailable, BrokerRefused.
        """
        seen: int = self._heads.get(subject, 0)
        fetched = await fetch_last(self._connection, self._stream, subject)
        if _sequence(fetched) < seen:
            await self._stop_if_behind(subject, seen)
            return await self.head(subject)
        if fetched is None:
            return None
        self._note_head(subject, fetched.stored.sequence)
        return fetched.stored

    async def last_sequence(self) -> int:
        """Return the stream's last sequence, read from the leader.

        Raises RolledBack when it is lower than the highest seen, BrokerUnavailable, BrokerRefused.
        """
        seen = self.highest_seen
        last = (await stream_state(self._connection, self._stream)).last_sequence
        if last < seen:
            await self._stop_if(self._shortened)
            return await self.last_sequence()
        self.note_seen(last)
        return last

    async def append(self, append: Append) -> Committed | Lost:
        """Append one message and return only what is certain.

        Raises BrokerUnavailable when the outcome is still unknown at the deadline (append the same object again to
        learn it), BrokerRefused when the broker refuses for good, RolledBack when messages are missing.
        """
        return await self._append(append, self._deadline())

    async def append_many(self, appends: Sequence[Append]) -> list[Committed | Lost]:
        """Append messages on different subjects, each by itself or in atomic batches, and return the outcomes in order.

        A conflict takes out its own message only. Raises what ``append`` raises, after all of them came to an end;
        the same objects may be appended again.
        """
        if len({append.subject for append in appends}) < len(appends):
            raise ValueError("a subject occurs twice in one call; its messages depend on each other")
        deadline = self._deadline()
        if len(appends) <= PLAIN_APPENDS_MAX:
            found = await self._append_each(appends, deadline)
        else:
            recent = self._recent_conflicts()
            alone = [append for append in appends if append.subject in recent]
            together = [append for append in appends if append.subject not in recent]
            parts = await _settled(self._append_each(alone, deadline), self._append_batches(together, deadline))
            found = {subject: outcome for part in parts for subject, outcome in part.items()}
        return [found[append.subject] for append in appends]

    # One message

    async def _append(self, append: Append, deadline: float) -> Committed | Lost:
        doubt, pause_s = "", BACKOFF_FIRST_S
        while (left := deadline - _now()) > 0:
            self._refuse_if_stopped()
            try:
                outcome = await self._try(append, min(left, ANSWER_TIMEOUT_S))
            except BrokerUnavailable as error:
                doubt, outcome = error.message, None
            except BrokerRefused:
                # Only the last send was refused; an earlier unanswered one may have been stored.
                outcome = await self._occupant(append) if doubt else None
                if outcome is None:
                    raise
            if outcome is not None:
                return outcome
            doubt = doubt or "the broker gave no definite answer"
            pause_s = await self._back_off(pause_s, deadline)
        raise self._unknown(f'the append on "{append.subject}"', doubt)

    async def _try(self, append: Append, timeout_s: float) -> Committed | Lost | None:
        """Send once. None: unknown, send again."""
        await self._verify()
        seen = self.highest_seen
        reply = await self._connection.request(
            append.subject, append.body, timeout_s=timeout_s, headers=_headers(append)
        )
        ack = self._read_ack(reply)
        if ack.error is None:
            self._check_ack(ack.seq, seen)
            return self._commit(append, ack.seq)
        if ack.error.err_code in CONFLICT_CODES:
            outcome = await self._occupant(append)
            if outcome is None:
                await self._check_vacant(append)
            return outcome
        self._check_transient(ack.error, append.subject)
        return None

    async def _occupant(self, append: Append) -> Committed | Lost | None:
        """Read from the leader what holds the position of an append; None when nothing does."""
        found = await fetch_next(self._connection, self._stream, append.subject, append.expected_sequence + 1)
        if found is None:
            return None
        if found.stored.body == append.body and found.headers.get(COMMIT_ID) == append.commit_id:
            return self._commit(append, found.stored.sequence)
        self._note_head(append.subject, found.stored.sequence)
        self._conflicted[append.subject] = _now()
        return Lost(found.stored)

    async def _check_vacant(self, append: Append) -> None:
        """The broker spoke of a conflict but the position is free: a rival under way, or lost messages."""
        head = await fetch_last(self._connection, self._stream, append.subject)
        if _sequence(head) < append.expected_sequence:
            await self._stop_if_behind(append.subject, append.expected_sequence)

    def _commit(self, append: Append, sequence: int) -> Committed:
        self._note_head(append.subject, sequence)
        if sequence > self._anchor[0]:
            self._anchor = (sequence, sha256(append.body).digest())
        return Committed(sequence)

    # Many messages

    async def _append_each(self, appends: Sequence[Append], deadline: float) -> dict[str, Committed | Lost]:
        places = asyncio.Semaphore(APPENDS_AT_ONCE_MAX)

        async def one(append: Append) -> Committed | Lost:
            async with places:
                return await self._append(append, deadline)

        outcomes = await _settled(*(one(append) for append in appends))
        return {append.subject: outcome for append, outcome in zip(appends, outcomes, strict=True)}

    async def _append_batches(self, appends: Sequence[Append], deadline: float) -> dict[str, Committed | Lost]:
        found: dict[str, Committed | Lost] = {}
        for batch in cut_batches(appends):
            found |= await self._append_batch(batch, deadline)
        return found

    async def _append_batch(self, members: list[Append], deadline: float) -> dict[str, Committed | Lost]:
        """Append a batch; after a refusal take the losers out and send the rest again at once."""
        found: dict[str, Committed | Lost] = {}
        doubt, thorough, trouble, pause_s = "", False, 0, BACKOFF_FIRST_S
        while (left := deadline - _now()) > 0:
            rest = [member for member in members if member.subject not in found]
            if len(rest) <= PLAIN_APPENDS_MAX or trouble >= BATCH_TROUBLE_MAX:
                return found | await self._append_each(rest, deadline)
            self._refuse_if_stopped()
            try:
                answer = await self._send_batch(rest, min(left, ANSWER_TIMEOUT_S))
                if isinstance(answer, dict):
                    return found | answer
                if answer.err_code in CONFLICT_CODES:
                    taken = await self._taken(rest, "" if thorough else answer.description)
                    found, thorough = found | taken, True
                    if taken:
                        continue
                else:
                    trouble += answer.err_code in BATCH_CODES
                doubt = answer.description
            except BrokerUnavailable as error:
                doubt, thorough = error.message, True
            except BrokerRefused:
                # Only the last send was refused; an earlier unanswered one may have been stored.
                found |= await self._taken(rest) if doubt else {}
                if len(found) < len(members):
                    raise
                return found
            pause_s = await self._back_off(pause_s, deadline)
        raise self._unknown(f"a batch of {len(members)} appends", doubt)

    async def _send_batch(self, members: list[Append], timeout_s: float) -> dict[str, Committed | Lost] | ApiError:
        """Send one atomic batch: all but the last without asking for an answer."""
        await self._verify()
        seen, batch_id = self.highest_seen, self._connection.new_token()
        for number, member in enumerate(members[:-1], start=1):
            headers = {**_headers(member), BATCH_ID: batch_id, BATCH_SEQUENCE: str(number)}
            await self._connection.publish(member.subject, member.body, headers=headers)
        last = members[-1]
        headers = {**_headers(last), BATCH_ID: batch_id, BATCH_SEQUENCE: str(len(members)), BATCH_COMMIT: "1"}
        ack = self._read_ack(
            await self._connection.request(last.subject, last.body, timeout_s=timeout_s, headers=headers)
        )
        if ack.error is not None:
            if ack.error.err_code not in CONFLICT_CODES | BATCH_CODES:
                self._check_transient(ack.error, last.subject)
            return ack.error
        if (ack.batch, ack.count) != (batch_id, len(members)):
            raise BrokerUnavailable(f"the broker acknowledged {ack.count} of a batch of {len(members)}")
        first = ack.seq - len(members) + 1
        self._check_ack(first, seen)
        return {member.subject: self._commit(member, first + place) for place, member in enumerate(members)}

    async def _taken(self, members: list[Append], description: str = "") -> dict[str, Committed | Lost]:
        """Return the outcomes of the members whose positions are taken: the one the broker described, else all."""
        named = await self._named(members, description)
        outcome = await self._occupant(named) if named is not None else None
        if named is not None and outcome is not None:
            return {named.subject: outcome}
        places = asyncio.Semaphore(APPENDS_AT_ONCE_MAX)

        async def one(append: Append) -> Committed | Lost | None:
            async with places:
                return await self._occupant(append)

        outcomes = await _settled(*(one(member) for member in members))
        taken = {member.subject: outcome for member, outcome in zip(members, outcomes, strict=True) if outcome}
        if not taken:
            for member in members:
                await self._check_vacant(member)
        return taken

    async def _named(self, members: list[Append], description: str) -> Append | None:
        """Find the member in the way by the sequence in the broker's text ("wrong last sequence: 17")."""
        number = description.rpartition(" ")[2]
        if not number.isdecimal() or number == "0":
            return None
        fetched = await fetch(self._connection, self._stream, {"seq": int(number)})
        subject = fetched.stored.subject if fetched is not None else ""
        return next((member for member in members if member.subject == subject), None)

    def _recent_conflicts(self) -> frozenset[str]:
        since = _now() - CONFLICT_MEMORY_S
        self._conflicted = {subject: at for subject, at in self._conflicted.items() if at > since}
        return frozenset(self._conflicted)

    # What the answers mean

    def _read_ack(self, reply: Reply) -> _Ack:
        ack = decode(reply.payload, _Ack)
        if ack.error is None and (ack.stream != self._stream or ack.seq <= 0):
            message = f'a message meant for the stream "{self._stream}" was answered by "{ack.stream[:64]}"'
            raise BrokerRefused(message, hint="the subject belongs to another stream; compare the streams' settings")
        return ack

    def _check_transient(self, error: ApiError, subject: str) -> None:
        if error.err_code in TRANSIENT_CODES:
            return
        message = f'the broker refused a message on "{subject}": {error.description} ({error.err_code})'
        raise BrokerRefused(message, hint=_HINTS.get(error.err_code, "look at the broker's log"))

    def _check_ack(self, sequence: int, seen: int) -> None:
        """A new message lies above all that was seen before it was sent, or sequences are being used again."""
        if sequence <= seen:
            raise self._stop(f"a new message got sequence {sequence}, but {seen} was seen before")

    def _unknown(self, what: str, doubt: str) -> BrokerUnavailable:
        hint = "send the same again to learn it; check that the broker runs: fireledger status"
        return BrokerUnavailable(f"the outcome of {what} is unknown after {self._deadline_s:g} s: {doubt}", hint=hint)

    # Lost messages

    def _refuse_if_stopped(self) -> None:
        if self.stopped is not None:
            raise RolledBack(self.stopped.message, hint=self.stopped.hint)

    def _stop(self, finding: str) -> RolledBack:
        message = f'the stream "{self._stream}" is rolled back: {finding}'
        self.stopped = RolledBack(message, hint=_ROLLED_BACK_HINT)
        _log.error("ledger-rolled-back", stream=self._stream, finding=finding)
        return RolledBack(message, hint=_ROLLED_BACK_HINT)

    async def _verify(self) -> None:
        """Check, before the first append of each connection, that the log still holds what was seen."""
        if self._verified_generation == self._connection.generation:
            return
        async with self._verifying:
            generation = self._connection.generation
            if self._verified_generation != generation:
                await self._stop_if(self._shortened)
                self._verified_generation = generation

    async def _stop_if(self, find: Callable[[], Awaitable[str]]) -> None:
        finding = await confirmed(self._connection, find)
        if finding:
            raise self._stop(finding)

    async def _stop_if_behind(self, subject: str, seen: int) -> None:
        async def behind() -> str:
            head = _sequence(await fetch_last(self._connection, self._stream, subject))
            return f'the head of "{subject}" is {head}, but {seen} was seen before' if head < seen else ""

        await self._stop_if(behind)

    async def _shortened(self) -> str:
        seen, (anchor, digest) = self.highest_seen, self._anchor
        state = await stream_state(self._connection, self._stream)
        if state.last_sequence < seen:
            return f"its last sequence is {state.last_sequence}, but {seen} was seen before"
        if anchor >= max(state.first_sequence, 1):
            found = await fetch(self._connection, self._stream, {"seq": anchor})
            if found is None or sha256(found.stored.body).digest() != digest:
                return f"sequence {anchor} no longer holds the message that was seen there"
        return ""

    def _note_head(self, subject: str, sequence: int) -> None:
        self.note_seen(sequence)
        seen = self._heads.pop(subject, 0)
        if len(self._heads) >= HEADS_MAX:
            del self._heads[next(iter(self._heads))]
        self._heads[subject] = max(seen, sequence)

    # Time

    def _deadline(self) -> float:
        self._refuse_if_stopped()
        return _now() + self._deadline_s

    async def _back_off(self, pause_s: float, deadline: float) -> float:
        left = max(0.0, deadline - _now())
        if self._connection.closed:
            raise BrokerUnavailable("the connection was closed", hint="open another one")
        if self._connection.connected:
            await self._connection.pause(min(pause_s, left))
        else:
            await self._connection.wait_connected(left)
        return min(pause_s * 2, BACKOFF_MAX_S)


def _headers(append: Append) -> dict[str, str]:
    return {
        **append.headers,
        COMMIT_ID: append.commit_id,
        EXPECTED_SUBJECT_SEQUENCE: str(append.expected_sequence),
    }


def _sequence(fetched: Fetched | None) -> int:
    return 0 if fetched is None else fetched.stored.sequence


def cut_batches(appends: Sequence[Append]) -> list[list[Append]]:
    """Cut into batches within the broker's count and our bytes."""
    batches: list[list[Append]] = []
    size = 0
    for append in appends:
        if not batches or len(batches[-1]) >= BATCH_PAGES_MAX or size + len(append.body) > BATCH_BYTES_MAX:
            batches.append([])
            size = 0
        batches[-1].append(append)
        size += len(append.body)
    return batches


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _settled(*tasks: Awaitable[_T]) -> list[_T]:
    """Wait for all, then raise the first error or return all results: nothing goes on behind the caller's back."""
    results = await asyncio.gather(*tasks, return_exceptions=True)
    good: list[_T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        good.append(result)
    return good
