"""The judge of promises about time: it sees other processes' work, and does not take ours for theirs."""

import asyncio
import os
import sys

import pytest

from fireledger.domain.instants import SECOND
from fireledger.runners.clock import realtime
from tests.integration.others import QUIET_SHARE, Others, watching_others
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

# Starts a busy process, says that it is there and leaves it behind: then it is nobody's child of ours.
STRANGER = """
import subprocess, sys
busy = subprocess.Popen([sys.executable, "-c", "import time\\nend = time.time() + 3\\nwhile time.time() < end: pass"])
print(busy.pid, flush=True)
"""
OWN_S = 0.5
BUSY = f"import time\nwhile time.process_time() < {OWN_S}: pass"


async def after(seconds: float) -> int:
    """The present instant after some time."""
    end = realtime() + round(seconds * SECOND)
    await until(lambda: realtime() >= end, what="time passes")
    return realtime()


async def test_a_strangers_work_is_not_quiet() -> None:
    """A busy process that is not of this process's tree is seen; a stretch nobody looked at is not quiet."""
    async with watching_others() as others:
        stranger = await asyncio.create_subprocess_exec(sys.executable, "-c", STRANGER, stdout=asyncio.subprocess.PIPE)
        await stranger.communicate()
        begin = realtime()
        end = await after(1.5)
    assert others.share(begin, end) > QUIET_SHARE
    assert not others.quiet(begin, end)
    assert not others.quiet(end, end + 60 * SECOND)
    assert not Others().quiet(begin, end)


async def test_our_own_work_does_not_count() -> None:
    """What this process's own children use is told apart: the share of others is lower by it."""
    async with watching_others() as others:
        busy = await asyncio.create_subprocess_exec(sys.executable, "-c", BUSY)
        await busy.wait()
    first, last = others.looks[0], others.looks[-1]
    used, own = last.used - first.used, last.own - first.own
    assert own >= 0.9 * OWN_S * os.sysconf("SC_CLK_TCK"), "all that it used is known"
    assert used >= 0.8 * own, "and is a part of what everybody used"
