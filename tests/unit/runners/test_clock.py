"""The clock: choice of its source, steps, slews, and waiting, on injected time."""

import asyncio
from collections.abc import Callable
from io import StringIO

import pytest

from fireledger.domain.instants import HOUR, MILLISECOND, SECOND, Duration, Instant
from fireledger.domain.limits import CLOCK_BOUND_DECLARED, CLOCK_UNCERTAINTY_MAX
from fireledger.runners.clock import (
    WAIT_CHUNK_S,
    WAIT_MIN_S,
    ClockHeld,
    DeclaredBound,
    KernelBound,
    KernelStatus,
    MachineTime,
    OnStep,
    SystemClock,
    choose_clock,
    read_kernel,
    realtime,
    wait_for_wake,
)
from fireledger.runners.errors import ClockUnusable, ExitStatus
from fireledger.runners.logs import configure_logs
from tests.simulated_clock import SimulatedClock

EPSILON = Duration(10 * MILLISECOND)
START = Instant(1_800_000_000 * SECOND)


class FakeTime:
    """Two clocks that move only when told."""

    def __init__(self) -> None:
        self.wall_ns = START * 1_000
        self.steady_ns = 5_000_000_000

    def realtime_ns(self) -> int:
        """Wall clock."""
        return self.wall_ns

    def boottime_ns(self) -> int:
        """Steady clock."""
        return self.steady_ns

    def pass_time(self, by: int, *, slew_ppm: int = 0) -> None:
        """Let some microseconds pass on both clocks, the wall clock running fast by ``slew_ppm``."""
        self.steady_ns += by * 1_000
        self.wall_ns += by * 1_000 + by * slew_ppm // 1_000

    def step(self, by: int) -> None:
        """Step the wall clock alone."""
        self.wall_ns += by * 1_000


class FakeKernel:
    """A kernel whose status a test sets."""

    def __init__(self, *, synchronised: bool = True, error_max: int = 4 * MILLISECOND) -> None:
        self.status: KernelStatus | None = KernelStatus(synchronised, Duration(error_max))
        self.reads_count = 0

    def __call__(self) -> KernelStatus | None:
        self.reads_count += 1
        return self.status

    def set(self, *, synchronised: bool, error_max: int) -> None:
        """Change the status."""
        self.status = KernelStatus(synchronised, Duration(error_max))


class FakeWait:
    """Waits that take no time: each moves the fake clocks by ``share`` of what was asked for."""

    def __init__(self, machine: FakeTime, *, share: float = 1.0) -> None:
        self.machine = machine
        self.share = share
        self.asked_s: list[float] = []
        self.during: Callable[[], None] = lambda: None

    async def __call__(self, seconds: float, wake: asyncio.Event | None) -> bool:
        self.asked_s.append(seconds)
        self.during()
        if wake is not None and wake.is_set():
            return True
        self.machine.pass_time(max(1, round(seconds * self.share * SECOND)))
        return False


def declared_clock(machine: FakeTime, *, on_step: OnStep = "hold", wait: FakeWait | None = None) -> SystemClock:
    """A clock with a declared bound of 10 ms on fake time."""
    return SystemClock(DeclaredBound(EPSILON), on_step=on_step, machine=machine, wait=wait or FakeWait(machine))


def test_a_reading_is_the_wall_clock_give_or_take_epsilon() -> None:
    """Earliest and latest lie epsilon before and after the wall clock, under the source's name."""
    reading = declared_clock(FakeTime()).now()
    assert (reading.earliest, reading.latest) == (START - EPSILON, START + EPSILON)
    assert (reading.epsilon, reading.source, reading.step, reading.usable) == (EPSILON, "declared", 0, True)


def test_a_declared_bound_wins_over_the_kernel() -> None:
    """A declared bound is used although the kernel has a better one, and the kernel is not even asked."""
    kernel = FakeKernel(error_max=MILLISECOND)
    clock = choose_clock(declared=EPSILON, single_machine=False, on_step="hold", machine=FakeTime(), kernel=kernel)
    assert (clock.now().epsilon, clock.description, kernel.reads_count) == (EPSILON, "declared 10ms", 0)


@pytest.mark.parametrize("declared", [0, -1, CLOCK_UNCERTAINTY_MAX + 1])
def test_a_declared_bound_outside_its_range_is_refused(declared: int) -> None:
    """Zero, negative and above the ceiling are refused with exit status 5 and a hint."""
    with pytest.raises(ClockUnusable, match="the clock bound") as caught:
        choose_clock(declared=Duration(declared), single_machine=True, on_step="accept", machine=FakeTime())
    assert caught.value.exit_status == ExitStatus.REFUSED
    assert "--clock-bound" in caught.value.hint


def test_the_ceiling_itself_may_be_declared() -> None:
    """Exactly 100 ms is accepted and usable."""
    clock = choose_clock(
        declared=CLOCK_UNCERTAINTY_MAX, single_machine=False, on_step="hold", machine=FakeTime(), kernel=FakeKernel()
    )
    assert clock.now().usable


def test_a_synchronised_kernel_is_chosen() -> None:
    """Without a declaration the kernel's bound is used when it is synchronised and small."""
    clock = choose_clock(
        declared=None, single_machine=True, on_step="hold", machine=FakeTime(), kernel=FakeKernel(error_max=4_000)
    )
    assert (clock.now().epsilon, clock.now().source, clock.description) == (4_000, "kernel", "kernel")


def test_a_kernel_claim_of_zero_is_not_believed() -> None:
    """A kernel that claims no error at all counts as one millisecond off."""
    clock = choose_clock(
        declared=None, single_machine=False, on_step="hold", machine=FakeTime(), kernel=FakeKernel(error_max=0)
    )
    assert clock.now().epsilon == MILLISECOND


def no_kernel() -> KernelStatus | None:
    """A machine whose kernel does not answer."""
    return None


@pytest.mark.parametrize(
    "kernel, why",
    [
        (FakeKernel(synchronised=False, error_max=16 * SECOND), "unsynchronised"),
        (FakeKernel(synchronised=True, error_max=150 * MILLISECOND), "above the ceiling"),
        (no_kernel, "unsynchronised"),
    ],
)
def test_a_single_machine_falls_back_on_a_declared_bound_and_says_so(
    kernel: Callable[[], KernelStatus | None], why: str
) -> None:
    """Without a usable kernel bound a single machine declares 10 ms, plainly; a cluster's node refuses."""
    clock = choose_clock(declared=None, single_machine=True, on_step="accept", machine=FakeTime(), kernel=kernel)
    assert (clock.now().epsilon, clock.now().source) == (CLOCK_BOUND_DECLARED, "declared")
    assert clock.description == f"declared 10ms (kernel clock {why})"
    with pytest.raises(ClockUnusable, match="nothing bounds") as caught:
        choose_clock(declared=None, single_machine=False, on_step="hold", machine=FakeTime(), kernel=kernel)
    assert caught.value.hint


def test_the_kernels_bound_grows_between_readings_and_is_read_once_a_second() -> None:
    """Within a second the bound grows by 500 ppm without another call; after it the kernel is asked again."""
    machine, kernel = FakeTime(), FakeKernel(error_max=4_000)
    clock = SystemClock(KernelBound(kernel), on_step="hold", machine=machine)
    machine.pass_time(SECOND // 2)
    assert (clock.now().epsilon, kernel.reads_count) == (4_250, 1)
    kernel.set(synchronised=True, error_max=5_000)
    machine.pass_time(SECOND // 2)
    assert (clock.now().epsilon, kernel.reads_count) == (5_000, 2)


def test_a_clock_that_loses_its_source_widens_and_is_not_usable() -> None:
    """On a cluster, 150 ms or a lost daemon give a wide reading that is not usable, and recovery a usable one."""
    machine, kernel = FakeTime(), FakeKernel()
    clock = SystemClock(KernelBound(kernel), on_step="hold", machine=machine)
    for synchronised, error_max, usable in ((True, 150_000, False), (False, 5_000, False), (True, 4_000, True)):
        kernel.set(synchronised=synchronised, error_max=error_max)
        machine.pass_time(SECOND)
        assert clock.now().usable is usable
    kernel.set(synchronised=False, error_max=5_000)
    machine.pass_time(SECOND)
    assert clock.now().epsilon == 16 * SECOND


@pytest.mark.parametrize("ppm", [500, -500])
def test_a_legal_slew_is_never_a_step(ppm: int) -> None:
    """500 ppm for ten hours, far more than epsilon in sum, raises nothing at any reading rate."""
    machine = FakeTime()
    clock = declared_clock(machine)
    for interval in (100, 10 * MILLISECOND, SECOND, 30 * SECOND):
        for _ in range(1_200):
            machine.pass_time(interval, slew_ppm=ppm)
            assert clock.now().step == 0


@pytest.mark.parametrize("by", [HOUR, -HOUR, 10_001, -10_001])
def test_a_step_is_held_until_somebody_vouches(by: int) -> None:
    """Under hold with a declared bound every reading raises, for as long as it takes, until the step is accepted."""
    machine = FakeTime()
    clock = declared_clock(machine)
    machine.step(by)
    for _ in range(3):
        with pytest.raises(ClockHeld, match="stepped by") as caught:
            clock.now()
        assert clock.held
        assert caught.value.retryable
        machine.pass_time(HOUR)
    clock.accept_step()
    reading = clock.now()
    assert (reading.step, clock.held) == (by, False)
    assert reading.earliest == START + 3 * HOUR + by - EPSILON


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_an_accepted_step_is_carried_until_taken(by: int) -> None:
    """Under accept the new time is used at once; the step is on every reading until it is taken, once."""
    machine = FakeTime()
    clock = declared_clock(machine, on_step="accept")
    machine.step(by)
    reading = clock.now()
    assert (reading.earliest, reading.step) == (START + by - EPSILON, by)
    assert clock.now().step == by
    assert (clock.take_step(), clock.take_step(), clock.now().step) == (by, 0, 0)


def test_an_accepted_step_is_alerted_once() -> None:
    """Accepting logs one warning with the action clock-stepped and the size."""
    stream, machine = StringIO(), FakeTime()
    configure_logs("test", stream=stream)
    clock = declared_clock(machine, on_step="accept")
    machine.step(HOUR)
    clock.now()
    clock.now()
    assert stream.getvalue().count('"action":"clock-stepped"') == 1
    assert f'"step_us":{HOUR}' in stream.getvalue()


def test_a_move_within_epsilon_is_no_step_but_moves_add_up() -> None:
    """A move below epsilon passes; a second one that takes the sum above it does not."""
    machine = FakeTime()
    clock = declared_clock(machine)
    machine.step(8 * MILLISECOND)
    assert clock.now().step == 0
    machine.step(8 * MILLISECOND)
    with pytest.raises(ClockHeld):
        clock.now()


@pytest.mark.parametrize("by", [HOUR, -HOUR, SECOND])
def test_a_kernel_ends_a_hold_by_attesting_again(by: int) -> None:
    """Setting the clock unsynchronises the kernel; the hold ends once it is synchronised and below the ceiling."""
    machine, kernel = FakeTime(), FakeKernel()
    clock = SystemClock(KernelBound(kernel), on_step="hold", machine=machine)
    machine.step(by)
    for synchronised, error_max in ((False, 16 * SECOND), (True, 150 * MILLISECOND)):
        kernel.set(synchronised=synchronised, error_max=error_max)
        machine.pass_time(SECOND)
        with pytest.raises(ClockHeld):
            clock.now()
    kernel.set(synchronised=True, error_max=4_000)
    reading = clock.now()
    assert (reading.earliest, reading.step) == (START + 2 * SECOND + by - 4_000, 0)


def test_a_fallback_bound_does_not_attest() -> None:
    """On a single machine under hold, the declared stand-in keeps the hold; the kernel ends it."""
    machine, kernel = FakeTime(), FakeKernel()
    clock = SystemClock(KernelBound(kernel, fallback=EPSILON), on_step="hold", machine=machine)
    machine.step(HOUR)
    kernel.set(synchronised=False, error_max=16 * SECOND)
    with pytest.raises(ClockHeld, match="declared 10ms"):
        clock.now()
    kernel.set(synchronised=True, error_max=4_000)
    assert clock.now().source == "kernel"


def test_a_step_is_not_hidden_by_the_uncertainty_it_causes() -> None:
    """A one-second step is found although the kernel's own bound, read after it, is already 16 s."""
    machine, kernel = FakeTime(), FakeKernel()
    clock = SystemClock(KernelBound(kernel), on_step="accept", machine=machine)
    machine.pass_time(2 * SECOND)
    machine.step(SECOND)
    kernel.set(synchronised=False, error_max=16 * SECOND)
    reading = clock.now()
    assert (reading.step, reading.usable) == (SECOND, False)


def test_accepting_without_a_step_changes_nothing() -> None:
    """accept_step on a clock that is not held is without effect."""
    clock = declared_clock(FakeTime())
    clock.accept_step()
    assert clock.now().step == 0


def test_a_wait_ends_when_earliest_has_reached_the_instant() -> None:
    """A wait is epsilon late and never early, in chunks of at most thirty seconds."""
    machine = FakeTime()
    wait = FakeWait(machine)
    clock = declared_clock(machine, wait=wait)
    due = Instant(START + 70 * SECOND)
    assert asyncio.run(clock.sleep_until(due))
    assert due <= clock.now().earliest < due + MILLISECOND
    assert wait.asked_s == [WAIT_CHUNK_S, WAIT_CHUNK_S, pytest.approx(10.01)]


def test_a_timer_that_fires_early_does_not_end_a_wait() -> None:
    """Timers that fire at 99.9 % of their time cause more waits, few, none below a millisecond."""
    machine = FakeTime()
    wait = FakeWait(machine, share=0.999)
    clock = declared_clock(machine, wait=wait)
    due = Instant(START + 20 * SECOND)
    assert asyncio.run(clock.sleep_until(due))
    assert clock.now().earliest >= due
    assert len(wait.asked_s) < 6
    assert min(wait.asked_s) >= WAIT_MIN_S


def test_an_instant_already_reached_needs_no_wait() -> None:
    """A past instant returns True at once, even when the event is set."""
    machine = FakeTime()
    wait = FakeWait(machine)
    wake = asyncio.Event()
    wake.set()
    assert asyncio.run(declared_clock(machine, wait=wait).sleep_until(Instant(START - SECOND), wake))
    assert wait.asked_s == []


def test_a_wake_ends_a_wait_early() -> None:
    """An event set during the wait returns False before the instant."""
    machine = FakeTime()
    wait = FakeWait(machine)
    wake = asyncio.Event()
    wait.during = wake.set
    clock = declared_clock(machine, wait=wait)
    assert not asyncio.run(clock.sleep_until(Instant(START + HOUR), wake))
    assert clock.now().earliest < START


def test_a_step_forward_during_a_wait_is_noticed_within_a_chunk() -> None:
    """An accepted step past the instant ends an hour's wait at the next look."""
    machine = FakeTime()
    wait = FakeWait(machine)
    wait.during = lambda: machine.step(2 * HOUR if len(wait.asked_s) == 1 else 0)
    clock = declared_clock(machine, on_step="accept", wait=wait)
    assert asyncio.run(clock.sleep_until(Instant(START + HOUR)))
    assert wait.asked_s == [WAIT_CHUNK_S]
    assert clock.take_step() == 2 * HOUR


def test_a_step_back_during_a_wait_prolongs_it() -> None:
    """After an accepted step back the wait lasts until the clock itself has reached the instant."""
    machine = FakeTime()
    wait = FakeWait(machine)
    wait.during = lambda: machine.step(-HOUR if len(wait.asked_s) == 1 else 0)
    clock = declared_clock(machine, on_step="accept", wait=wait)
    due = Instant(START + 10 * SECOND)
    assert asyncio.run(clock.sleep_until(due))
    assert clock.now().earliest >= due
    assert sum(wait.asked_s) == pytest.approx(3_610, abs=0.1)


def test_a_held_clock_reaches_nothing() -> None:
    """A wait sits through a hold without raising, looking once a second, and ends after attestation."""
    machine, kernel = FakeTime(), FakeKernel()
    wait = FakeWait(machine)
    clock = SystemClock(KernelBound(kernel), on_step="hold", machine=machine, wait=wait)
    machine.step(HOUR)
    kernel.set(synchronised=False, error_max=16 * SECOND)
    wait.during = lambda: kernel.set(synchronised=len(wait.asked_s) > 4, error_max=4_000)
    assert asyncio.run(clock.sleep_until(Instant(START + SECOND)))
    assert wait.asked_s == [1.0] * 5


def test_the_real_wait_tells_time_from_wake() -> None:
    """On a real loop a short wait returns False, and True when its event is set."""

    async def both() -> tuple[bool, bool, bool]:
        wake = asyncio.Event()
        passed = await wait_for_wake(0.001, wake), await wait_for_wake(0.001, None)
        wake.set()
        return (*passed, await wait_for_wake(30, wake))

    assert asyncio.run(both()) == (False, False, True)


def test_the_machines_own_clocks_can_be_read() -> None:
    """On this machine the wall clock moves on, the steady clock counts, and the kernel's answer is readable."""
    machine = MachineTime()
    clock = choose_clock(declared=EPSILON, single_machine=True, on_step="hold")
    first, steady = clock.now(), clock.monotonic()
    assert first.earliest <= realtime() <= clock.now().latest
    assert steady <= machine.boottime_ns() / 1e9
    status = read_kernel()
    assert status is None or status.error_max >= 0


def test_a_simulated_clock_moves_by_its_offset() -> None:
    """A waiting simulated clock ends its wait as soon as its offset passes the instant, and carries the step."""

    async def scenario() -> tuple[bool, int]:
        clock = SimulatedClock()
        due = Instant(clock.now().latest + HOUR)
        waiting = asyncio.ensure_future(clock.sleep_until(due))
        await asyncio.wait({waiting}, timeout=0.001)
        assert not waiting.done()
        clock.step(2 * HOUR)
        return await waiting, clock.take_step()

    assert asyncio.run(scenario()) == (True, 2 * HOUR)
