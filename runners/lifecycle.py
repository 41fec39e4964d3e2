"""The life of a runner: start, run until told to stop, drain, end with an exit status.

Stop is told by SIGINT or SIGTERM, or by the parent closing its end of a pipe (a parent that was
killed closes it too). Draining is bounded, and a second signal, or a parent that goes while we drain, ends the
process at once.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import ExitStack, contextmanager
from typing import Protocol, TypeVar, cast

from .errors import ExitStatus, OperationalError
from .logs import get_log

PARENT_FD_VARIABLE = "FIRELEDGER_PARENT_FD"
"""Names the read end of a pipe whose write end only the parent holds."""
DRAIN_S_MAX = 4.5
"""Longest drain: a whole system stops in under five seconds."""
CANCEL_S_MAX = 0.3
"""Longest wait for a runner that was cancelled because its drain took too long."""
_PIPE_READ_BYTES = 4_096
_Result = TypeVar("_Result")

_log = get_log("lifecycle")


class Runner(Protocol):
    """A long-running part of the system."""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set; then stop taking in, drain, flush, close, and return.

        Cancellation also ends it, without draining. Raises OperationalError when it cannot go on.
        """
        ...


async def pause(seconds: float, stop: asyncio.Event) -> bool:
    """Wait ``seconds`` or until ``stop`` is set, whichever is first; True when stopping."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True


async def unless_stopped(stop: asyncio.Event, work: Coroutine[None, None, _Result]) -> _Result | None:
    """Return the work's result, or None when ``stop`` was first; the work is cancelled then."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


class Backoff:
    """Waits that double from ``first_s`` up to ``max_s`` seconds; the same every time."""

    def __init__(self, first_s: float, max_s: float) -> None:
        assert 0 < first_s <= max_s
        self._first_s = first_s
        self._max_s = max_s
        self._next_s = first_s

    def next_s(self) -> float:
        """Return the next wait in seconds."""
        wait_s, self._next_s = self._next_s, min(self._next_s * 2, self._max_s)
        return wait_s

    def reset(self) -> None:
        """Begin again at the first wait: things went well."""
        self._next_s = self._first_s


async def run_until_signalled(run: Callable[[asyncio.Event], Awaitable[None]], *, drain_s: float = DRAIN_S_MAX) -> int:
    """Run until it returns, fails, or is told to stop and has drained; return the exit status.

    An OperationalError is logged as message and hint and gives its own status; anything else gives 1
    and a traceback in the log. A drain longer than ``drain_s`` is cancelled and gives 1. A second
    signal ends the process on the spot with 128 + its number. Main thread only.
    """
    stop = asyncio.Event()
    task = asyncio.ensure_future(_awaited(run, stop))
    told = asyncio.ensure_future(stop.wait())
    try:
        with ExitStack() as watches:
            watches.enter_context(_signals(stop))
            watches.enter_context(_parent(stop))
            await asyncio.wait({task, told}, return_when=asyncio.FIRST_COMPLETED)
            overran = not await _drained(task, drain_s)
    except OperationalError as error:
        return _status_of(error)
    finally:
        told.cancel()
        task.cancel()
    if overran:
        _log.error("drain-overran", drain_s=drain_s)
        return ExitStatus.UNEXPECTED
    return _status_of(asyncio.CancelledError() if task.cancelled() else task.exception())


async def _awaited(run: Callable[[asyncio.Event], Awaitable[None]], stop: asyncio.Event) -> None:
    await run(stop)


async def _drained(task: "asyncio.Future[None]", drain_s: float) -> bool:
    """Wait for a runner that was told to stop; cancel it and return False when that takes too long."""
    await asyncio.wait({task}, timeout=drain_s)
    if task.done():
        return True
    task.cancel()
    await asyncio.wait({task}, timeout=CANCEL_S_MAX)
    return False


@contextmanager
def _signals(stop: asyncio.Event) -> Generator[None, None, None]:
    loop = asyncio.get_running_loop()
    watched = (signal.SIGINT, signal.SIGTERM)
    seen: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        if seen:
            sys.stderr.flush()
            os._exit(128 + number)
        seen.append(number)
        stop.set()
        _log.info("stopping", reason=number.name)

    for number in watched:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in watched:
            loop.remove_signal_handler(number)


@contextmanager
def _parent(stop: asyncio.Event) -> Generator[None, None, None]:
    text = os.environ.get(PARENT_FD_VARIABLE)
    if text is None:
        yield
        return
    loop = asyncio.get_running_loop()
    descriptor = _parent_descriptor(text)

    def on_readable() -> None:
        if os.read(descriptor, _PIPE_READ_BYTES):
            return
        loop.remove_reader(descriptor)
        if stop.is_set():
            # A parent that had us stop and then does not wait was itself told to end at once.
            sys.stderr.flush()
            os._exit(128 + signal.SIGTERM)
        stop.set()
        _log.warning("stopping", reason="parent-gone")

    loop.add_reader(descriptor, on_readable)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)


def _parent_descriptor(text: str) -> int:
    try:
        descriptor = int(text)
        # No child of this process may keep the pipe.
        os.set_inheritable(descriptor, False)
    except (ValueError, OSError) as error:
        raise OperationalError(
            f'the parent\'s pipe "{text[:64]}" in "{PARENT_FD_VARIABLE}" is not an open descriptor',
            hint=f"unset {PARENT_FD_VARIABLE} when starting a runner by hand",
        ) from error
    return descriptor


def _status_of(error: BaseException | None) -> int:
    """Log a runner's end and return the exit status that belongs to it."""
    if error is None:
        return ExitStatus.OK
    causes = _leaves(error)
    known = [cause for cause in causes if isinstance(cause, OperationalError)]
    if len(known) < len(causes):
        _log.error("failed-unexpectedly", error=error, exc_info=error)
        return ExitStatus.UNEXPECTED
    for cause in known:
        _log.error("failed", message=cause.message, hint=cause.hint, kind=type(cause).__name__)
    return known[0].exit_status


def _leaves(error: BaseException) -> list[BaseException]:
    """Flatten the groups that task groups raise."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return [leaf for member in group.exceptions for leaf in _leaves(member)]
    return [error]
