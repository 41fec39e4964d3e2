"""The start of a process: the only module that imports uvloop. Nothing may depend on which loop runs."""

import asyncio
import os
from collections.abc import Callable, Coroutine

import uvloop

from .errors import ExitStatus, OperationalError

LOOP_VARIABLE = "FIRELEDGER_LOOP"
"""``asyncio`` selects the standard loop, for debugging; ``uvloop`` or nothing the fast one."""


def run_process(main: Callable[[], Coroutine[None, None, int]]) -> int:
    """Run ``main`` to its end on a new event loop and return its exit status.

    Raises OperationalError when the environment names an unknown loop.
    """
    loop = os.environ.get(LOOP_VARIABLE, "uvloop")
    if loop == "asyncio":
        return asyncio.run(main())
    if loop == "uvloop":
        return uvloop.run(main())
    error = OperationalError(
        f'the event loop "{loop[:64]}" is unknown', hint=f"set {LOOP_VARIABLE} to uvloop or asyncio"
    )
    error.exit_status = ExitStatus.USAGE
    raise error
