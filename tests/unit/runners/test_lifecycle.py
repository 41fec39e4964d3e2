"""The life of a runner: signals, the parent's pipe, draining, and exit statuses."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from io import StringIO

import pytest

from fireledger.runners.entry_point import LOOP_VARIABLE, run_process
from fireledger.runners.errors import BrokerUnavailable, ClockUnusable, ExitStatus, OperationalError
from fireledger.runners.lifecycle import PARENT_FD_VARIABLE, Backoff, pause, run_until_signalled
from fireledger.runners.logs import configure_logs

CHILD = """
import asyncio, sys
from fireledger.runners.entry_point import run_process
from fireledger.runners.lifecycle import run_until_signalled
from fireledger.runners.logs import configure_logs

async def run(stop):
    print("ready", flush=True)
    await stop.wait()
    print("draining", flush=True)
    if sys.argv[1] == "stuck":
        await asyncio.Event().wait()
    print("drained", flush=True)

configure_logs("child")
sys.exit(run_process(lambda: run_until_signalled(run, drain_s=float(sys.argv[2]))))
"""
LOOPS = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
Run = Callable[[asyncio.Event], Awaitable[None]]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a child runner; whatever still runs at the end is killed."""
    children: list[subprocess.Popen[str]] = []

    def start_child(
        mode: str, *, drain_s: float = 20, loop: str = "uvloop", pipe: int | None = None
    ) -> "subprocess.Popen[str]":
        environment = {**os.environ, LOOP_VARIABLE: loop}
        if pipe is not None:
            environment[PARENT_FD_VARIABLE] = str(pipe)
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, mode, str(drain_s)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            pass_fds=() if pipe is None else (pipe,),
        )
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child

    yield start_child
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def logged() -> StringIO:
    """Where this test's log lines go."""
    stream = StringIO()
    configure_logs("test", stream=stream)
    return stream


@pytest.mark.slow
@LOOPS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_drains(start: Start, loop: str, number: signal.Signals) -> None:
    """After one SIGINT or SIGTERM the runner drains to its end and exits 0, on either loop."""
    child = start("drains", loop=loop)
    child.send_signal(number)
    out, errors = child.communicate(timeout=20)
    assert (out, child.returncode) == ("draining\ndrained\n", 0)
    assert f'"reason":"{number.name}"' in errors


@pytest.mark.slow
@LOOPS
def test_the_second_signal_ends_the_process_at_once(start: Start, loop: str) -> None:
    """A runner stuck in its drain is gone at the second signal, with 128 + its number."""
    child = start("stuck", loop=loop)
    child.send_signal(signal.SIGTERM)
    assert child.stdout is not None
    assert child.stdout.readline() == "draining\n"
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=20) == 130


@pytest.mark.slow
@LOOPS
def test_a_runner_stops_when_its_parent_is_gone(start: Start, loop: str) -> None:
    """Closing the parent's end of the pipe drains the runner; mere bytes in it do not."""
    read_end, write_end = os.pipe()
    child = start("drains", loop=loop, pipe=read_end)
    os.close(read_end)
    os.write(write_end, b"still here")
    os.close(write_end)
    out, errors = child.communicate(timeout=20)
    assert (out, child.returncode) == ("draining\ndrained\n", 0)
    assert '"reason":"parent-gone"' in errors


@pytest.mark.slow
def test_a_drain_without_end_is_cut_off(start: Start) -> None:
    """A drain longer than its bound is cancelled and the process exits 1, saying so."""
    child = start("stuck", drain_s=0.05)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=20)
    assert child.returncode == ExitStatus.UNEXPECTED
    assert '"action":"drain-overran"' in errors


def failing(error: BaseException) -> Run:
    """A runner that fails at once."""

    async def run(stop: asyncio.Event) -> None:
        del stop
        raise error

    return run


def test_a_runner_that_returns_gives_success(logged: StringIO) -> None:
    """A runner that ends by itself gives 0 and logs nothing."""

    async def run(stop: asyncio.Event) -> None:
        assert not stop.is_set()

    assert asyncio.run(run_until_signalled(run)) == ExitStatus.OK
    assert logged.getvalue() == ""


def test_an_operational_error_gives_its_status_and_hint(logged: StringIO) -> None:
    """The log shows message and hint, no traceback; the status is the error's own."""
    error = BrokerUnavailable('the broker "x" is away', hint="start it")
    assert asyncio.run(run_until_signalled(failing(error))) == ExitStatus.UNAVAILABLE
    assert '"hint":"start it"' in logged.getvalue()
    assert "Traceback" not in logged.getvalue()


def test_an_error_from_a_task_group_counts_the_same(logged: StringIO) -> None:
    """Operational errors inside nested groups are each logged; the first gives the status."""
    group = BaseExceptionGroup(
        "g", [BaseExceptionGroup("h", [ClockUnusable("no clock")]), BrokerUnavailable("no broker")]
    )
    assert asyncio.run(run_until_signalled(failing(group))) == ExitStatus.REFUSED
    assert logged.getvalue().count('"action":"failed"') == 2


@pytest.mark.parametrize(
    "error",
    [
        AssertionError("broken"),
        KeyError("x"),
        asyncio.CancelledError(),
        ExceptionGroup("g", [OperationalError("known"), ZeroDivisionError("unknown")]),
    ],
)
def test_anything_else_gives_one_and_a_traceback(logged: StringIO, error: BaseException) -> None:
    """A broken invariant or an unexpected exception is logged with its traceback and gives 1."""
    assert asyncio.run(run_until_signalled(failing(error))) == ExitStatus.UNEXPECTED
    assert '"action":"failed-unexpectedly"' in logged.getvalue()
    assert '"exception":' in logged.getvalue()


@pytest.mark.parametrize("text", ["x", "987654"])
def test_a_useless_parent_descriptor_is_an_error(logged: StringIO, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A descriptor that is no number or not open is named in the log, and the runner does not go on."""
    monkeypatch.setenv(PARENT_FD_VARIABLE, text)

    async def run(stop: asyncio.Event) -> None:
        await stop.wait()

    assert asyncio.run(run_until_signalled(run)) == ExitStatus.UNEXPECTED
    assert PARENT_FD_VARIABLE in logged.getvalue()


def test_a_pause_ends_by_time_or_by_stop() -> None:
    """A pause returns False after its time and True at once when stopping."""

    async def both() -> tuple[bool, bool]:
        stop = asyncio.Event()
        passed = await pause(0.001, stop)
        stop.set()
        return passed, await pause(60, stop)

    assert asyncio.run(both()) == (False, True)


def test_back_off_doubles_to_its_bound_and_can_begin_again() -> None:
    """Waits double up to the maximum, the same every time, and start over after a reset."""
    backoff = Backoff(0.1, 0.5)
    assert [backoff.next_s() for _ in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]
    backoff.reset()
    assert backoff.next_s() == 0.1


@LOOPS
def test_a_process_runs_on_the_chosen_loop(monkeypatch: pytest.MonkeyPatch, loop: str) -> None:
    """The main coroutine's status is returned, and the environment selects the loop."""
    monkeypatch.setenv(LOOP_VARIABLE, loop)
    seen: list[str] = []

    async def main() -> int:
        seen.append(type(asyncio.get_running_loop()).__module__)
        return 4

    assert run_process(main) == 4
    assert seen[0].startswith(loop)


def test_an_unknown_loop_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another name for the loop is refused with exit status 2."""
    monkeypatch.setenv(LOOP_VARIABLE, "fast")

    async def main() -> int:
        return 0

    with pytest.raises(OperationalError, match='"fast" is unknown') as caught:
        run_process(main)
    assert caught.value.exit_status == ExitStatus.USAGE
