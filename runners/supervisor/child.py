"""One supervised process: started, watched, restarted with back-off, told to stop, and killed if it does not."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ExitStatus, RunnerGaveUp
from ..identity import PREDECESSOR_VARIABLE, RUNNER_ID_VARIABLE, new_runner_id
from ..lifecycle import PARENT_FD_VARIABLE, Backoff, pause
from ..logs import get_log

RESTART_FIRST_S = 0.2
RESTART_MAX_S = 10.0
"""Waits between restarts of a process that keeps ending: doubling between these."""
STABLE_S = 20.0
"""A process that lived this long starts again with the shortest wait."""

_log = get_log("supervisor")


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """What to run: a name for people, and the arguments after the interpreter."""

    name: str
    arguments: tuple[str, ...]


class Child:
    """Keeps one process running until told to stop.

    The process is in a session of its own, so that a terminal's Ctrl-C reaches the supervisor alone, and holds
    the read end of a pipe that closes when the supervisor ends, however it ends.
    """

    def __init__(self, command: ChildCommand, *, output: int) -> None:
        """``output``: the descriptor that takes what the process says on stdout and stderr."""
        self.name = command.name
        self.restart_count = 0
        self._command = command
        self._output = output
        self._process: asyncio.subprocess.Process | None = None
        self._pipe = -1
        self._runner_id = ""

    @property
    def pid(self) -> int:
        """The process id, 0 while it is not running."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else 0

    async def run(self, stop: asyncio.Event, *, stop_within_s: float) -> None:
        """Run and restart until ``stop``; then SIGTERM, and SIGKILL after ``stop_within_s``.

        Cancelled, it lets go of the pipe, which tells the process to drain and end by itself. Raises RunnerGaveUp
        when the process ended because it must not go on: what it knew of the log would be forgotten by another.
        """
        try:
            await self._keep(stop, stop_within_s)
        finally:
            self._close_pipe()

    async def _keep(self, stop: asyncio.Event, stop_within_s: float) -> None:
        backoff = Backoff(RESTART_FIRST_S, RESTART_MAX_S)
        loop = asyncio.get_running_loop()
        while not stop.is_set():
            started_at = loop.time()
            process = await self._start()
            ended = asyncio.ensure_future(process.wait())
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if stop.is_set():
                await self._end(process, ended, stop_within_s)
                return
            if process.returncode == ExitStatus.CONFLICT:
                raise RunnerGaveUp(
                    f'the runner "{self.name}" found the log or the broker\'s settings changed, and everything stops',
                    hint="see what it logged above; if the log lost pages, recover them from the copy before a start",
                )
            if loop.time() - started_at > STABLE_S:
                backoff.reset()
            self.restart_count += 1
            wait_s = backoff.next_s()
            _log.error("runner-ended", runner=self.name, status=process.returncode, restart_in_s=wait_s)
            await pause(wait_s, stop)

    async def _start(self) -> asyncio.subprocess.Process:
        read_end, write_end = os.pipe()
        # The process before has ended, or this one would not be started.
        predecessor, self._runner_id = self._runner_id, new_runner_id(self.name)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self._command.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=(read_end,),
                env={
                    **os.environ,
                    PARENT_FD_VARIABLE: str(read_end),
                    RUNNER_ID_VARIABLE: self._runner_id,
                    PREDECESSOR_VARIABLE: predecessor,
                },
                start_new_session=True,
            )
        except BaseException:
            os.close(write_end)
            raise
        finally:
            os.close(read_end)
        # The kernel closes the write end with this process, whatever ends it.
        self._close_pipe()
        self._pipe = write_end
        self._process = process
        _log.info("runner-started", runner=self.name, pid=process.pid)
        return process

    def _close_pipe(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    async def _end(self, process: asyncio.subprocess.Process, ended: "asyncio.Future[int]", within_s: float) -> None:
        _signal(process, signal.SIGTERM)
        done, _ = await asyncio.wait({ended}, timeout=within_s)
        if not done:
            _log.warning("runner-killed", runner=self.name, pid=process.pid)
            _signal(process, signal.SIGKILL)
            await ended


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    if process.returncode is None:
        try:
            process.send_signal(number)
        except ProcessLookupError:
            return


def runner_command(kind: str, *options: str) -> ChildCommand:
    """The command of ``fireledger run KIND``."""
    return ChildCommand(kind, ("-m", "fireledger.runners.cli.main", "run", kind, *options))


def module_command(name: str, module: str, arguments: Sequence[str]) -> ChildCommand:
    """The command that runs a module, for the demo's executors."""
    return ChildCommand(name, ("-m", module, *arguments))
