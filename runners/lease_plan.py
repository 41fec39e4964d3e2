"""Who should hold which partition: what leases look like, and every decision about them that needs no broker.

Leases only spare work. Two runners that both believe they hold a partition are harmless: the log refuses the
second page. So the rules here aim at even shares and quick take-over, not at exclusion.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeVar

import msgspec

from fireledger.domain.instants import SECOND
from fireledger.domain.limits import LEASE_EXPIRY, LEASE_RENEWAL, SLOT_COUNT

from .errors import SettingsDiffer

LeaseKind = Literal["scheduler", "dispatcher"]
"""Runners that share partitions by lease; each kind has claims of its own."""

EXPIRY_S = LEASE_EXPIRY / SECOND
RENEWAL_S = LEASE_RENEWAL / SECOND
WATCH_GAP_RENEWALS_MAX = 2
"""After a longer pause in our own watching (an outage of the broker, a freeze) all peers are watched afresh."""
SILENT_SURELY_EXPIRIES = 4
"""A heartbeat unchanged for this long has lapsed whatever its wall-clock expiry says: its clock was wrong."""


class Heartbeat(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="topic", tag="lease.heartbeat.v1"
):
    """One runner's sign of life. ``expires_at`` and ``epsilon`` are microseconds; ``reason`` says why not active."""

    runner: str
    counter: int
    active: bool
    reason: str
    epsilon: int
    expires_at: int
    generation: int
    partition_count: int


class Claim(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="topic", tag="lease.claim.v1"
):
    """Who holds a partition. ``epoch`` grows with each holder and is never reset; ``successor`` may take it over."""

    runner: str
    epoch: int
    generation: int
    epsilon: int
    successor: str = ""


_Lease = TypeVar("_Lease", Heartbeat, Claim)


def read_lease(key: str, value: bytes, kind: type[_Lease]) -> _Lease:
    """Read a value of the bucket. Raises SettingsDiffer for one of another release."""
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SettingsDiffer(
            f'the lease "{key}" cannot be read: {error}', hint="stop the runners of the other release first"
        ) from error


def partition_of(slot: int, partition_count: int) -> int:
    """The partition that holds a slot: contiguous ranges, as even as they can be."""
    return slot * partition_count // SLOT_COUNT


@lru_cache(maxsize=SLOT_COUNT)
def slots_of(partition: int, partition_count: int) -> frozenset[int]:
    """The slots that a partition holds."""
    first, end = (-(-n * SLOT_COUNT // partition_count) for n in (partition, partition + 1))
    return frozenset(range(first, end))


@dataclass(frozen=True, slots=True)
class Held:
    """A claim and its revision in the bucket."""

    claim: Claim
    revision: int


@dataclass(frozen=True, slots=True)
class Peer:
    """A runner's heartbeat and its revision in the bucket."""

    heartbeat: Heartbeat
    revision: int


@dataclass(slots=True)
class _Seen:
    revision: int
    since_s: float


class Watch:
    """Judges heartbeats by how long they have not changed, on this process's own steady clock.

    The wall clock alone could be stepped; a revision that stands still cannot be misread.
    """

    def __init__(self, *, expiry_s: float = EXPIRY_S, renewal_s: float = RENEWAL_S) -> None:
        self._expiry_s = expiry_s
        self._gap_max_s = WATCH_GAP_RENEWALS_MAX * renewal_s
        self._seen: dict[str, _Seen] = {}
        self._looked_at_s: float | None = None

    def look(self, peers: Mapping[str, Peer], monotonic_s: float) -> None:
        """Take note of a reading of all heartbeats made at ``monotonic_s``."""
        afresh = self._looked_at_s is None or monotonic_s - self._looked_at_s > self._gap_max_s
        self._looked_at_s = monotonic_s
        before = {} if afresh else self._seen
        self._seen = {}
        for name, peer in peers.items():
            seen = before.get(name)
            unchanged = seen is not None and seen.revision == peer.revision
            self._seen[name] = seen if seen is not None and unchanged else _Seen(peer.revision, monotonic_s)

    def silent_s(self, name: str, monotonic_s: float) -> float:
        """How long the heartbeat has been seen unchanged; 0 for one never seen."""
        seen = self._seen.get(name)
        return 0.0 if seen is None else monotonic_s - seen.since_s

    def lapsed(self, peer: Peer, monotonic_s: float, earliest: int) -> bool:
        """Whether the runner has certainly stopped owning anything. ``earliest`` is our clock's, microseconds."""
        silent_s = self.silent_s(peer.heartbeat.runner, monotonic_s)
        expired = earliest > peer.heartbeat.expires_at + peer.heartbeat.epsilon
        return silent_s >= SILENT_SURELY_EXPIRIES * self._expiry_s or (silent_s >= self._expiry_s and expired)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one runner sees: all claims of partitions, and the runners that take part (itself included), sorted.

    ``void`` are its own claims, by partition and revision, from before it last stopped owning anything: somebody may
    be taking them at this moment, so they hold nothing until it has written them again.
    """

    me: str
    active: tuple[str, ...]
    generation: int
    partition_count: int
    claims: Mapping[int, Held]
    void: Mapping[int, int] = field(default_factory=dict[int, int])

    def is_void(self, partition: int) -> bool:
        """Whether the partition's claim is this runner's and must be written again before it holds."""
        held = self.claims.get(partition)
        return held is not None and held.claim.runner == self.me and held.revision == self.void.get(partition)

    def holder(self, partition: int) -> str | None:
        """The active runner that holds the partition in this generation, or None: it is free."""
        held = self.claims.get(partition)
        if held is None or held.claim.generation < self.generation or held.claim.runner not in self.active:
            return None
        if self.is_void(partition):
            return None
        return held.claim.runner

    def successor(self, partition: int) -> str | None:
        """The active runner that was offered a held partition, or None."""
        held = self.claims.get(partition)
        if self.holder(partition) is None or held is None:
            return None
        return held.claim.successor if held.claim.successor in self.active else None

    def mine(self) -> frozenset[int]:
        """The partitions this runner holds."""
        return frozenset(n for n in range(self.partition_count) if self.holder(n) == self.me)


@dataclass(slots=True)
class Plan:
    """What a runner should do now: take partitions, offer some to others, withdraw offers nobody can take."""

    take: list[int] = field(default_factory=list[int])
    offer: dict[int, str] = field(default_factory=dict[int, str])
    withdraw: list[int] = field(default_factory=list[int])


def plan(view: View, *, oldest_first: Iterable[int], routine: bool) -> Plan:
    """Plan one runner's moves. ``oldest_first`` orders what it holds; ``routine`` asks for a regular hand-over."""
    found = Plan()
    if view.me not in view.active:
        return found
    counts = _counts(view)
    _plan_taking(view, counts, found)
    _plan_giving(view, counts, found, oldest_first=oldest_first, routine=routine)
    return found


def _counts(view: View) -> dict[str, int]:
    """Partitions of each runner, an offered one counted to its successor."""
    counts = dict.fromkeys(view.active, 0)
    for partition in range(view.partition_count):
        owner = view.successor(partition) or view.holder(partition)
        if owner is not None:
            counts[owner] += 1
    return counts


def _share(view: View) -> int:
    return -(-view.partition_count // len(view.active))


def _plan_taking(view: View, counts: dict[str, int], found: Plan) -> None:
    partitions = range(view.partition_count)
    found.take = [n for n in partitions if view.successor(n) == view.me and view.holder(n) != view.me]
    # The others go on counting these to this runner: left as they are, nobody would own them.
    again = [n for n in partitions if view.is_void(n)]
    found.take += again
    counts[view.me] += len(again)
    free = [n for n in partitions if view.holder(n) is None and n not in again]
    room = min(_share(view) - counts[view.me], len(free))
    if room <= 0:
        return
    # Each runner begins at a place of its own, so that several do not reach for the same partitions.
    start = view.active.index(view.me) * len(free) // len(view.active)
    found.take += (free[start:] + free[:start])[:room]
    counts[view.me] += room


def _plan_giving(
    view: View, counts: dict[str, int], found: Plan, *, oldest_first: Iterable[int], routine: bool
) -> None:
    mine = view.mine()
    offered = {n for n in mine if view.claims[n].claim.successor}
    found.withdraw = sorted(n for n in offered if view.successor(n) in (None, view.me))
    if len(view.active) < 2:
        return
    givable = iter([n for n in oldest_first if n in mine and n not in offered])
    for successor in _receivers(view, counts, routine=routine and not offered):
        partition = next(givable, None)
        if partition is None:
            return
        found.offer[partition] = successor


def _receivers(view: View, counts: dict[str, int], *, routine: bool) -> Iterator[str]:
    """To whom one partition each is to be given."""
    if routine and counts[view.me] > 0:
        receiver = view.active[(view.active.index(view.me) + 1) % len(view.active)]
        counts[view.me] -= 1
        counts[receiver] += 1
        yield receiver
        return
    share = _share(view)
    while counts[view.me] > share or _first_to_even_out(view, counts):
        receiver = min(view.active, key=lambda name: (counts[name], name))
        counts[view.me] -= 1
        counts[receiver] += 1
        yield receiver


def _first_to_even_out(view: View, counts: dict[str, int]) -> bool:
    """Whether shares differ by two or more and this runner is the one that gives: the first of the largest."""
    most = max(counts.values())
    first = next(name for name in view.active if counts[name] == most)
    return first == view.me and most - min(counts.values()) >= 2
