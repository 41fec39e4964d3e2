"""The clock: an interval that holds true time, and the only module that reads the machine's clocks.

A reading is ``[earliest, latest]``; half its width is epsilon, the uncertainty that the source
attests or an operator declares. A due instant is reached when ``earliest`` has reached it, so a
decision can be late by epsilon and never early. Nothing outside this module may ask what time it is.
"""

import asyncio
import ctypes
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from fireledger.domain.instants import Duration, Instant, format_duration
from fireledger.domain.limits import CLOCK_BOUND_DECLARED, CLOCK_UNCERTAINTY_MAX

from .errors import ClockUnusable, ExitStatus, OperationalError
from .logs import get_log

OnStep = Literal["hold", "accept"]
"""What a node does when its wall clock steps: wait until its source attests, or go on with the new time."""

WAIT_CHUNK_S = 30.0
"""Longest single wait: a step of the wall clock is noticed within this many seconds."""
WAIT_MIN_S = 0.001
"""Shortest single wait: some loops round to milliseconds, so a shorter one could spin."""
HELD_RECHECK_S = 1.0
"""How often a wait looks at a held clock again."""
DRIFT_PPM = 500
"""The kernel's largest legal slew, and the rate at which an old bound grows."""
KERNEL_REFRESH_NS = 1_000_000_000
"""The kernel grows its bound once a second; reading it more often tells nothing new."""
KERNEL_EPSILON_MIN = Duration(1_000)
"""Some time daemons write a bound of zero at each update; no claim below one millisecond is believed."""
UNSYNCHRONISED_EPSILON = Duration(16_000_000)
"""The kernel's own word for "no idea": the least epsilon of a clock nobody attests."""
SAMPLE_TRIES_MAX = 3
SAMPLE_WIDTH_NS = 100_000
"""The two clocks are read again, a few times, when more than this passed between their readings."""
ANCHOR_AGE_NS = 1_000_000
"""Drift is credited in pieces no shorter than this, so that rounding cannot lose it."""

_STA_UNSYNC = 0x0040
_TIME_ERROR = 5
_log = get_log("clock")


class ClockHeld(OperationalError):
    """The wall clock stepped and nothing has attested the new time yet: no decision may be made."""

    exit_status = ExitStatus.UNAVAILABLE
    retryable = True


@dataclass(frozen=True, slots=True)
class Reading:
    """True time lies in ``[earliest, latest]`` as far as ``source`` can tell.

    ``step`` is an accepted step in microseconds (positive: forward) that nobody has taken yet.
    """

    earliest: Instant
    latest: Instant
    source: str
    step: int = 0

    @property
    def epsilon(self) -> Duration:
        """Half the width, in microseconds."""
        return Duration((self.latest - self.earliest) // 2)

    @property
    def usable(self) -> bool:
        """Whether a node with this reading may keep its leases."""
        return self.epsilon <= CLOCK_UNCERTAINTY_MAX


class Clock(Protocol):
    """What runners know of time."""

    def now(self) -> Reading:
        """Read the clock. Raises ClockHeld while a step is unattested."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed instant; never steps, and counts while the machine is suspended."""
        ...

    async def sleep_until(self, instant: Instant, wake: asyncio.Event | None = None) -> bool:
        """Wait until ``earliest`` has reached ``instant`` (True) or ``wake`` was set first (False)."""
        ...

    def take_step(self) -> int:
        """Return the accepted step that readings carry, in microseconds, and clear it."""
        ...


class TimeSource(Protocol):
    """The two raw clocks of a machine."""

    def realtime_ns(self) -> int:
        """Wall clock, nanoseconds since the Unix epoch; may step."""
        ...

    def boottime_ns(self) -> int:
        """Nanoseconds since start-up, including suspension; never steps."""
        ...


class MachineTime:
    """The clocks of this machine."""

    # Linux only; elsewhere the monotonic clock is the nearest thing.
    _STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def realtime_ns(self) -> int:
        """Wall clock in nanoseconds."""
        return time.clock_gettime_ns(time.CLOCK_REALTIME)

    def boottime_ns(self) -> int:
        """Steady clock in nanoseconds."""
        return time.clock_gettime_ns(self._STEADY)


def realtime() -> Instant:
    """Return the raw wall clock, without a bound: for measurements and records of arrival, never for decisions."""
    return Instant(time.clock_gettime_ns(time.CLOCK_REALTIME) // 1_000)


@dataclass(frozen=True, slots=True)
class Bound:
    """How far the wall clock may be off: ``attested`` tells whether a time source vouches for it just now."""

    epsilon: Duration
    source: str
    attested: bool
    description: str


class BoundSource(Protocol):
    """Something that bounds the error of the wall clock."""

    def bound(self, boottime_ns: int) -> Bound:
        """Return the bound at that boottime."""
        ...

    def forget(self) -> None:
        """Drop what was learnt before a step."""
        ...


class DeclaredBound:
    """An operator's word. It never attests a new time by itself."""

    def __init__(self, epsilon: Duration) -> None:
        self._bound = Bound(epsilon, "declared", False, f"declared {format_duration(epsilon)}")

    def bound(self, boottime_ns: int) -> Bound:
        """Return the declared bound, whatever the instant."""
        del boottime_ns
        return self._bound

    def forget(self) -> None:
        """Nothing is remembered."""


@dataclass(frozen=True, slots=True)
class KernelStatus:
    """What ``adjtimex`` says: whether a daemon keeps the clock, and its largest error in microseconds."""

    synchronised: bool
    error_max: Duration


class _Timex(ctypes.Structure):
    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        # The rest is never read; the kernel writes 208 bytes at most, and this is more.
        ("rest", ctypes.c_byte * 256),
    )


def read_kernel() -> KernelStatus | None:
    """Ask the kernel for its bound; None where the call does not exist or is forbidden."""
    try:
        adjtimex = ctypes.CDLL(None).adjtimex
    except (AttributeError, OSError, TypeError):
        return None
    answer = _Timex(modes=0)
    state = int(adjtimex(ctypes.byref(answer)))
    if state < 0:
        return None
    kept = state != _TIME_ERROR and not int(answer.status) & _STA_UNSYNC
    return KernelStatus(kept, Duration(int(answer.maxerror)))


class KernelBound:
    """The kernel's bound, read at most once a second and grown by 500 ppm in between.

    With a ``fallback`` (single machine only), that declared bound stands in whenever the kernel's is
    missing or above the ceiling: broker and runners then share the one clock, and a daemon that
    updates every half hour would otherwise take the leases away between updates.
    """

    def __init__(
        self, read: Callable[[], KernelStatus | None] = read_kernel, *, fallback: Duration | None = None
    ) -> None:
        self._read = read
        self._fallback = fallback
        self._status: KernelStatus | None = None
        self._read_at_ns: int | None = None

    def bound(self, boottime_ns: int) -> Bound:
        """Return the kernel's bound, or the fallback's, at that boottime."""
        if self._read_at_ns is None or boottime_ns - self._read_at_ns >= KERNEL_REFRESH_NS:
            self._status, self._read_at_ns = self._read(), boottime_ns
        grown = (boottime_ns - self._read_at_ns) * DRIFT_PPM // 1_000_000_000
        synchronised = self._status is not None and self._status.synchronised
        epsilon = Duration(max(self._status.error_max if self._status else 0, KERNEL_EPSILON_MIN) + grown)
        if synchronised and epsilon <= CLOCK_UNCERTAINTY_MAX:
            return Bound(epsilon, "kernel", True, "kernel")
        if self._fallback is not None:
            return self._declared(self._fallback, "above the ceiling" if synchronised else "unsynchronised")
        if synchronised:
            return Bound(epsilon, "kernel", False, "kernel (above the ceiling)")
        return Bound(Duration(max(epsilon, UNSYNCHRONISED_EPSILON)), "kernel", False, "kernel (unsynchronised)")

    def forget(self) -> None:
        """Ask the kernel anew next time."""
        self._read_at_ns = None

    @staticmethod
    def _declared(epsilon: Duration, why: str) -> Bound:
        return Bound(epsilon, "declared", False, f"declared {format_duration(epsilon)} (kernel clock {why})")


Wait = Callable[[float, asyncio.Event | None], Awaitable[bool]]
"""Wait some seconds; True as soon as the event is set."""


async def wait_for_wake(seconds: float, wake: asyncio.Event | None) -> bool:
    """Wait ``seconds``, or until ``wake`` is set; True when it was set."""
    if wake is None:
        await asyncio.sleep(seconds)
        return False
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        return False
    return True


async def wait_until(
    clock: Clock,
    instant: Instant,
    wake: asyncio.Event | None,
    *,
    wait: Wait = wait_for_wake,
    chunk_s: float = WAIT_CHUNK_S,
) -> bool:
    """Wait in chunks, looking at the clock after each, until it has reached ``instant`` or ``wake`` is set.

    A timer that fires early only shortens one chunk. A held clock has not reached anything.
    """
    remaining_s = _remaining_s(clock, instant)
    while remaining_s > 0:
        if await wait(min(max(remaining_s, WAIT_MIN_S), chunk_s), wake):
            return False
        remaining_s = _remaining_s(clock, instant)
    return True


def _remaining_s(clock: Clock, instant: Instant) -> float:
    try:
        return (instant - clock.now().earliest) / 1_000_000
    except ClockHeld:
        return HELD_RECHECK_S


@dataclass(frozen=True, slots=True)
class _Sample:
    realtime_ns: int
    boottime_ns: int
    width_ns: int

    @property
    def offset_ns(self) -> int:
        return self.realtime_ns - self.boottime_ns


class SystemClock:
    """The machine's wall clock with a bound, watched for steps against the steady clock.

    A step is a departure of the wall clock from the steady clock by more than epsilon beyond a slew
    of 500 ppm since the last reading; departures below that add up until they exceed it. One owner,
    one thread.
    """

    def __init__(
        self,
        source: BoundSource,
        *,
        on_step: OnStep,
        machine: TimeSource | None = None,
        wait: Wait = wait_for_wake,
    ) -> None:
        self._source = source
        self._on_step = on_step
        self._machine = machine or MachineTime()
        self._wait = wait
        self._pending_step = 0
        self._held = False
        self._anchor = self._sample()
        self._anchor_offset_ns = self._anchor.offset_ns
        self._bound = source.bound(self._anchor.boottime_ns)

    @property
    def description(self) -> str:
        """The source in words for a person, such as ``declared 10ms (kernel clock unsynchronised)``."""
        return self._bound.description

    @property
    def held(self) -> bool:
        """Whether the last reading found an unattested step."""
        return self._held

    def now(self) -> Reading:
        """Read the clock.

        Raises ClockHeld after a step under ``hold`` until the source attests the new time. Under
        ``accept`` the reading carries the step until ``take_step`` is called.
        """
        sample = self._sample()
        if not self._held:
            self._look_for_step(sample)
        if self._held:
            self._source.forget()
        bound = self._source.bound(sample.boottime_ns)
        if self._held:
            self._release_or_raise(sample, bound)
        self._note_source(bound)
        middle = sample.realtime_ns // 1_000
        return Reading(
            Instant(middle - bound.epsilon), Instant(middle + bound.epsilon), bound.source, self._pending_step
        )

    def monotonic(self) -> float:
        """Seconds of the steady clock."""
        return self._machine.boottime_ns() / 1_000_000_000

    async def sleep_until(self, instant: Instant, wake: asyncio.Event | None = None) -> bool:
        """Wait until ``earliest`` has reached ``instant`` (True) or ``wake`` was set first (False).

        While the clock is held it waits on, and never raises ClockHeld.
        """
        return await wait_until(self, instant, wake, wait=self._wait)

    def take_step(self) -> int:
        """Return the accepted step in microseconds, which readings then no longer carry."""
        step, self._pending_step = self._pending_step, 0
        return step

    def accept_step(self) -> None:
        """An operator vouches for the present time: end a hold. Readings carry the step. Else no effect."""
        if self._held:
            sample = self._sample()
            self._accept(sample, (sample.offset_ns - self._anchor_offset_ns) // 1_000)

    def _sample(self) -> _Sample:
        """Read both clocks as close together as a few tries allow."""
        best: _Sample | None = None
        for _ in range(SAMPLE_TRIES_MAX):
            before = self._machine.boottime_ns()
            realtime_ns = self._machine.realtime_ns()
            width = self._machine.boottime_ns() - before
            if best is None or width < best.width_ns:
                best = _Sample(realtime_ns, before + width // 2, width)
            if best.width_ns <= SAMPLE_WIDTH_NS:
                break
        assert best is not None
        return best

    def _look_for_step(self, sample: _Sample) -> None:
        elapsed_ns = sample.boottime_ns - self._anchor.boottime_ns
        allowance_ns = elapsed_ns * DRIFT_PPM // 1_000_000
        moved_ns = sample.offset_ns - self._anchor_offset_ns
        drift_ns = min(max(moved_ns, -allowance_ns), allowance_ns)
        # The bound from before the step counts: a kernel widens its own when somebody sets the clock.
        epsilon_ns = min(self._bound.epsilon, CLOCK_UNCERTAINTY_MAX) * 1_000
        if abs(moved_ns - drift_ns) > epsilon_ns + sample.width_ns:
            self._stepped(sample, moved_ns // 1_000)
        elif elapsed_ns >= ANCHOR_AGE_NS:
            self._anchor, self._anchor_offset_ns = sample, self._anchor_offset_ns + drift_ns

    def _stepped(self, sample: _Sample, step: int) -> None:
        self._source.forget()
        if self._on_step == "accept":
            self._accept(sample, step)
            return
        self._held = True
        _log.error("clock-held", step_us=step, source=self._bound.description)

    def _accept(self, sample: _Sample, step: int) -> None:
        self._pending_step += step
        self._settle(sample)
        _log.warning("clock-stepped", step_us=step, source=self._bound.description)

    def _settle(self, sample: _Sample) -> None:
        self._held = False
        self._anchor, self._anchor_offset_ns = sample, sample.offset_ns

    def _release_or_raise(self, sample: _Sample, bound: Bound) -> None:
        if bound.attested:
            self._settle(sample)
            _log.warning("clock-attested", source=bound.description, epsilon_us=bound.epsilon)
            return
        step = (sample.offset_ns - self._anchor_offset_ns) // 1_000
        sign = "-" if step < 0 else "+"
        raise ClockHeld(
            f'the wall clock stepped by "{sign}{format_duration(abs(step))}" and its source '
            f'"{bound.description}" has not attested the new time',
            hint="let the time daemon synchronise; a declared bound never attests by itself: check the clock, "
            "then accept the step, or restart this runner",
        )

    def _note_source(self, bound: Bound) -> None:
        if bound.description != self._bound.description:
            _log.info("clock-source-changed", source=bound.description, epsilon_us=bound.epsilon)
        self._bound = bound


def choose_clock(
    *,
    declared: Duration | None,
    single_machine: bool,
    on_step: OnStep,
    machine: TimeSource | None = None,
    kernel: Callable[[], KernelStatus | None] = read_kernel,
) -> SystemClock:
    """Choose the source of the bound and build the clock on it.

    A declared bound wins; else the kernel's, if synchronised and under the ceiling; else, on a single
    machine only, a declared 10 ms. Raises ClockUnusable when a declared bound is zero or above the
    ceiling, and when nothing bounds the clock.
    """
    if declared is not None:
        _check_declared(declared)
        return SystemClock(DeclaredBound(declared), on_step=on_step, machine=machine)
    fallback = CLOCK_BOUND_DECLARED if single_machine else None
    clock = SystemClock(KernelBound(kernel, fallback=fallback), on_step=on_step, machine=machine)
    reading = clock.now()
    if not reading.usable:
        raise ClockUnusable(
            f'nothing bounds this machine\'s clock below "{format_duration(CLOCK_UNCERTAINTY_MAX)}": '
            f'source "{clock.description}", uncertainty "{format_duration(reading.epsilon)}"',
            hint="run a time daemon that keeps the kernel clock synchronised, or declare a bound with --clock-bound",
        )
    return clock


def _check_declared(declared: Duration) -> None:
    hint = f"declare between 1us and {format_duration(CLOCK_UNCERTAINTY_MAX)}, such as --clock-bound 10ms"
    if declared <= 0:
        raise ClockUnusable(f'the clock bound "{declared}us" is not a bound', hint=hint)
    if declared > CLOCK_UNCERTAINTY_MAX:
        raise ClockUnusable(
            f'the clock bound "{format_duration(declared)}" is above the ceiling of '
            f'"{format_duration(CLOCK_UNCERTAINTY_MAX)}"',
            hint=hint,
        )
