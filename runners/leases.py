"""Leases: how runners of one kind share the partitions of the slots.

One heartbeat a runner, one claim a partition, all changed by compare-and-set on the revision. A claim counts
while its holder's heartbeat does, so giving everything up is a single write, and epochs outlive their holders.
Leases are allowed to be imperfect: the log, not they, keeps two owners from deciding the same instant.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

import msgspec

from fireledger.domain.instants import SECOND
from fireledger.domain.limits import PARTITION_COUNT_DEFAULT, SLOT_COUNT

from .clock import Clock, ClockHeld, Reading
from .errors import BrokerUnavailable
from .jetstream.buckets import Bucket
from .lease_plan import (
    EXPIRY_S,
    RENEWAL_S,
    Claim,
    Heartbeat,
    Held,
    LeaseKind,
    Peer,
    View,
    Watch,
    partition_of,
    plan,
    read_lease,
    slots_of,
)
from .lifecycle import pause
from .logs import get_log

__all__ = ["LeaseKind", "LeaseStatus", "PartitionLeases"]

HANDOVER_EVERY_S = 60.0
"""How often a runner with peers gives one partition away, so that moving ownership is nothing special."""
LAPSE_MARGIN_S = 0.5
"""A holder stops owning this much before others may judge its heartbeat lapsed."""
OFFER_POLL_S = 0.25
"""How soon to look again while a partition is offered, or after something was taken or lost."""
RETRY_S = 0.2
"""Between two attempts while the broker cannot be reached."""
WRITES_AT_ONCE_MAX = 32
"""Claims written at the same time: 256 of them take well under two seconds."""
RELEASE_S_MAX = 1.0
"""How long a clean stop may spend on telling the others."""
FORGET_AFTER_S = 60.0
"""A heartbeat silent for this long, whose runner holds no claim any more, is deleted."""

Write = Callable[[], Awaitable[None]]
"""A write to make when its turn comes; one that is cancelled before has not begun."""
_log = get_log("leases")


class LeaseStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What status shows of a runner's leases. ``reason`` says why it takes no part; durations in seconds."""

    kind: str
    runner: str
    active: bool
    reason: str
    generation: int
    partition_count: int
    owned_count: int
    peers: tuple[str, ...]
    valid_for_s: float
    handover_count: int


class PartitionLeases:
    """One runner's leases. ``run`` keeps them; everything else answers at once from memory."""

    def __init__(
        self,
        bucket: Bucket,
        clock: Clock,
        *,
        kind: LeaseKind,
        runner_id: str,
        predecessor: str = "",
        partition_count: int = PARTITION_COUNT_DEFAULT,
        generation: int = 1,
        handover_every_s: float = HANDOVER_EVERY_S,
        expiry_s: float = EXPIRY_S,
        renewal_s: float = RENEWAL_S,
    ) -> None:
        """``partition_count`` is 1 to SLOT_COUNT; a higher ``generation`` than the running ones changes it for all.

        ``expiry_s`` and ``renewal_s`` must be the same for all runners of a kind. ``predecessor`` is a runner that has
        surely ended: what it held is free at once instead of when its heartbeat lapses.
        """
        if not 1 <= partition_count <= SLOT_COUNT:
            raise ValueError(f'"{partition_count}" partitions; use 1 to {SLOT_COUNT}')
        self.looked = asyncio.Event()
        """Set once the claims have been read for the first time."""
        self.owned: frozenset[int] = frozenset()
        """The partitions held, as of the last look; ``owns_slot`` also knows when they lapsed."""
        self.handover_count = 0
        """Partitions given to others by offer."""
        self._bucket = bucket
        self._clock = clock
        self._kind = kind
        self._runner_id = runner_id
        self._predecessor = predecessor
        self._partition_count = partition_count
        self._generation = generation
        self._handover_every_s = handover_every_s
        self._handover_at = clock.monotonic() + handover_every_s
        self._expiry_s = expiry_s
        self._renewal_s = renewal_s
        self._watch = Watch(expiry_s=expiry_s, renewal_s=renewal_s)
        self._claims: dict[int, Held] = {}
        self._void: dict[int, int] = {}
        self._held_since: dict[int, float] = {}
        self._peers: dict[str, Peer] = {}
        self._active: tuple[str, ...] = ()
        self._revision = 0
        self._counter = 0
        self._epsilon = 0
        self._reason = "starting"
        self._valid_until = 0.0
        self._renew_at = 0.0
        self._lapse_timer: asyncio.TimerHandle | None = None
        self._callbacks: list[Callable[[], None]] = []

    # What others ask

    def owns_slot(self, slot: int) -> bool:
        """Whether this runner owns the slot now; False at once when its own heartbeat has lapsed."""
        if self._clock.monotonic() >= self._valid_until:
            return False
        return partition_of(slot, self._partition_count) in self.owned

    def owned_slots(self) -> frozenset[int]:
        """Every slot for which ``owns_slot`` is true now."""
        if self._clock.monotonic() >= self._valid_until:
            return frozenset()
        return frozenset[int]().union(*(slots_of(n, self._partition_count) for n in self.owned))

    def epoch_of(self, slot: int) -> int:
        """The epoch of the claim under which the slot is owned; 0 when it is not."""
        held = self._claims.get(partition_of(slot, self._partition_count))
        return held.claim.epoch if held is not None and self.owns_slot(slot) else 0

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back, on the loop, after ownership changed. Returns what removes the callback."""
        self._callbacks.append(callback)

        def remove() -> None:
            with suppress(ValueError):
                self._callbacks.remove(callback)

        return remove

    def snapshot(self) -> LeaseStatus:
        """The present state for ``status``."""
        return LeaseStatus(
            kind=self._kind,
            runner=self._runner_id,
            active=not self._reason,
            reason=self._reason,
            generation=self._generation,
            partition_count=self._partition_count,
            owned_count=len(self.owned),
            peers=tuple(name for name in self._active if name != self._runner_id),
            valid_for_s=max(0.0, self._valid_until - self._clock.monotonic()),
            handover_count=self.handover_count,
        )

    # The runner

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the leases until ``stop`` is set, then give them up at once. Cancelled, they lapse by themselves.

        Waits through the broker's absence. Raises BrokerRefused, and SettingsDiffer for leases of another release.
        """
        try:
            while not stop.is_set():
                await pause(await self._turn(), stop)
            await self._release()
        finally:
            self._disown("stopped")

    async def _turn(self) -> float:
        """Renew if it is time, look, act. Returns how long to wait, in seconds."""
        try:
            await self._bury_predecessor()
            if self._clock.monotonic() >= self._renew_at and not await self._renew():
                return 0.0
            acted = await self._look_and_act()
        except BrokerUnavailable as error:
            _log.warning("leases-wait-for-broker", message=error.message)
            return RETRY_S
        left_s = max(0.0, self._renew_at - self._clock.monotonic())
        return min(left_s, OFFER_POLL_S) if acted or self._offers() else min(left_s, self._next_lapse_s())

    # The heartbeat

    async def _renew(self) -> bool:
        """Write the heartbeat. False when its revision had to be learnt again."""
        reading, reason = self._read_clock()
        self._check_lapse()
        if reason:
            self._disown(reason)
        began = self._clock.monotonic()
        key, value = self._heartbeat_key(self._runner_id), msgspec.json.encode(self._heartbeat(reading, reason))
        revision = await self._bucket.put_if(key, value, self._revision)
        if revision is None:
            entry = await self._bucket.get(key)
            self._revision = 0 if entry is None else entry.revision
            return False
        self._revision, self._reason = revision, reason
        self._renew_at = began + self._renewal_s
        if not reason:
            self._valid_until = began + self._expiry_s - LAPSE_MARGIN_S
            self._set_lapse_timer()
        return True

    def _read_clock(self) -> tuple[Reading | None, str]:
        """The clock's reading, and why nothing may be owned with it."""
        try:
            reading = self._clock.now()
        except ClockHeld:
            return None, "clock-held"
        self._epsilon = reading.epsilon
        return reading, "" if reading.usable else "clock-uncertain"

    def _heartbeat(self, reading: Reading | None, reason: str) -> Heartbeat:
        self._counter += 1
        return Heartbeat(
            runner=self._runner_id,
            counter=self._counter,
            active=not reason,
            reason=reason,
            epsilon=self._epsilon,
            expires_at=0 if reading is None else reading.latest + round(self._expiry_s * SECOND),
            generation=self._generation,
            partition_count=self._partition_count,
        )

    def _set_lapse_timer(self) -> None:
        if self._lapse_timer is not None:
            self._lapse_timer.cancel()
        wait_s = max(0.0, self._valid_until - self._clock.monotonic())
        self._lapse_timer = asyncio.get_running_loop().call_later(wait_s, self._check_lapse)

    def _check_lapse(self) -> None:
        """Forget what is owned once the own heartbeat is too old; it is learnt again by the next look."""
        if self.owned and self._clock.monotonic() >= self._valid_until:
            _log.warning("leases-lapsed", owned=len(self.owned))
            self._disown("lapsed")

    def _disown(self, reason: str) -> None:
        if reason != self._reason:
            _log.info("leases-given-up", reason=reason, owned=len(self.owned))
        self._reason = reason
        self._valid_until = 0.0
        # From now on others may take these, also after having read what this runner writes next.
        self._void |= {n: held.revision for n, held in self._claims.items() if held.claim.runner == self._runner_id}
        if self._lapse_timer is not None:
            self._lapse_timer.cancel()
        self._set_owned(frozenset())

    async def _release(self) -> None:
        """Delete the heartbeat: every claim that names this runner is free from then on."""
        self._disown("stopped")
        with suppress(BrokerUnavailable, TimeoutError):
            async with asyncio.timeout(RELEASE_S_MAX):
                await self._bucket.delete_if(self._heartbeat_key(self._runner_id), self._revision)

    async def _bury_predecessor(self) -> None:
        """Do for the process before this one what it would have done in a clean stop."""
        if self._predecessor:
            key = self._heartbeat_key(self._predecessor)
            entry = await self._bucket.get(key)
            if entry is not None:
                await self._bucket.delete_if(key, entry.revision)
            self._predecessor = ""

    # Looking and acting

    async def _look_and_act(self) -> bool:
        """Read all leases, follow a newer generation, and do what the plan says. Whether anything was done."""
        before = self.owned
        await self._look()
        if self._follow_generation():
            return True
        view = self._view()
        self._set_owned(view.mine() if not self._reason else frozenset())
        self.looked.set()
        now = self._clock.monotonic()
        routine = now >= self._handover_at
        if routine:
            self._handover_at = now + self._handover_every_s
        todo = plan(view, oldest_first=sorted(self.owned, key=lambda n: (self._held_since[n], n)), routine=routine)
        writes: list[Write] = [partial(self._take, n) for n in todo.take]
        writes += [partial(self._offer, n, successor) for n, successor in todo.offer.items()]
        writes += [partial(self._offer, n, "") for n in todo.withdraw]
        try:
            await _some_at_once(writes)
        finally:
            self._log_change(before)
        await self._forget_the_dead()
        return bool(writes)

    async def _look(self) -> None:
        # Claims first: whoever is named in one wrote its heartbeat before, so the second reading has it.
        claims = await self._bucket.entries(f"{self._kind}.partition.")
        heartbeats = await self._bucket.entries(f"{self._kind}.runner.")
        monotonic = self._clock.monotonic()
        for entry in claims:
            partition = int(entry.key.rpartition(".")[2])
            known = self._claims.get(partition)
            # A replica may answer with something older than what this runner wrote itself.
            if known is None or known.revision < entry.revision:
                self._note_claim(partition, Held(read_lease(entry.key, entry.value, Claim), entry.revision))
        peers = [Peer(read_lease(e.key, e.value, Heartbeat), e.revision) for e in heartbeats]
        self._peers = {peer.heartbeat.runner: peer for peer in peers if peer.heartbeat.runner != self._runner_id}
        self._watch.look(self._peers, monotonic)
        reading, _ = self._read_clock()
        earliest = 0 if reading is None else reading.earliest
        alive = [p.heartbeat for p in self._peers.values() if not self._watch.lapsed(p, monotonic, earliest)]
        takers = [each.runner for each in alive if each.active]
        self._active = tuple(sorted([*takers, *([] if self._reason else [self._runner_id])]))

    def _note_claim(self, partition: int, held: Held) -> None:
        before = self._claims.get(partition)
        self._claims[partition] = held
        if before is not None and before.claim.runner == self._runner_id != held.claim.runner:
            self.handover_count += held.claim.runner == before.claim.successor

    def _follow_generation(self) -> bool:
        """Adopt the partition count of a higher generation that another runner announces."""
        leader = max(
            (self._peers[name].heartbeat for name in self._active if name in self._peers),
            key=lambda heartbeat: heartbeat.generation,
            default=None,
        )
        if leader is None or leader.generation <= self._generation:
            return False
        _log.info("leases-generation-followed", generation=leader.generation, partitions=leader.partition_count)
        self._set_owned(frozenset())
        self._generation, self._partition_count = leader.generation, leader.partition_count
        self._renew_at = 0.0
        return True

    def _view(self) -> View:
        return View(
            me=self._runner_id,
            active=self._active,
            generation=self._generation,
            partition_count=self._partition_count,
            claims=self._claims,
            void=self._void,
        )

    async def _take(self, partition: int) -> None:
        held = self._claims.get(partition)
        epoch = 1 if held is None else held.claim.epoch + 1
        await self._write_claim(partition, self._claim(epoch))

    async def _offer(self, partition: int, successor: str) -> None:
        held = self._claims.get(partition)
        if held is not None and held.claim.runner == self._runner_id:
            await self._write_claim(partition, self._claim(held.claim.epoch, successor))

    def _claim(self, epoch: int, successor: str = "") -> Claim:
        return Claim(
            runner=self._runner_id,
            epoch=epoch,
            generation=self._generation,
            epsilon=self._epsilon,
            successor=successor,
        )

    async def _write_claim(self, partition: int, claim: Claim) -> None:
        """Write if nobody was quicker; the next look shows who was."""
        held = self._claims.get(partition)
        key = f"{self._kind}.partition.{partition}"
        revision = await self._bucket.put_if(key, msgspec.json.encode(claim), 0 if held is None else held.revision)
        if revision is not None:
            self._note_claim(partition, Held(claim, revision))
            if self._reason:
                self._void[partition] = revision
            else:
                # At once: the one who offered it may see that it was taken before the rest is written.
                self._set_owned(self.owned | {partition})

    async def _forget_the_dead(self) -> None:
        now = self._clock.monotonic()
        holders = {held.claim.runner for held in self._claims.values()}
        for name, peer in self._peers.items():
            silent_s = self._watch.silent_s(name, now)
            if name not in self._active and name not in holders and silent_s > FORGET_AFTER_S:
                await self._bucket.delete_if(self._heartbeat_key(name), peer.revision)

    # State

    def _set_owned(self, owned: frozenset[int]) -> None:
        if owned == self.owned:
            return
        now = self._clock.monotonic()
        self._held_since = {n: self._held_since.get(n, now) for n in owned}
        self.owned = owned
        for callback in tuple(self._callbacks):
            callback()

    def _log_change(self, before: frozenset[int]) -> None:
        gained, lost = len(self.owned - before), len(before - self.owned)
        if gained or lost:
            _log.info("leases-changed", gained=gained, lost=lost, owned=len(self.owned))

    def _offers(self) -> bool:
        return any(self._claims[n].claim.successor for n in self.owned)

    def _next_lapse_s(self) -> float:
        """How long until some active peer could be found lapsed."""
        now = self._clock.monotonic()
        left = [self._expiry_s - self._watch.silent_s(name, now) for name in self._active if name in self._peers]
        return max(OFFER_POLL_S, min(left, default=self._expiry_s))

    def _heartbeat_key(self, runner: str) -> str:
        return f"{self._kind}.runner.{runner}"


async def _some_at_once(writes: Iterable[Write]) -> None:
    """Await all of them, WRITES_AT_ONCE_MAX at a time; the first error is raised after all came to an end."""
    places = asyncio.Semaphore(WRITES_AT_ONCE_MAX)

    async def one(write: Write) -> None:
        async with places:
            await write()

    results = await asyncio.gather(*(one(write) for write in writes), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
