"""A supervised process: what it is told at its start."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from fireledger.runners.identity import PREDECESSOR_VARIABLE, RUNNER_ID_VARIABLE
from fireledger.runners.supervisor import child
from fireledger.runners.supervisor.child import Child, ChildCommand
from tests.waiting import until

_TELL = f"import os; print(os.environ['{RUNNER_ID_VARIABLE}'], os.environ['{PREDECESSOR_VARIABLE}'] or '-', flush=True)"


@pytest.mark.asyncio
@pytest.mark.slow
async def test_each_process_is_told_the_name_of_the_one_that_ended_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has none before it; each gets a new name of its kind."""
    monkeypatch.setattr(child, "RESTART_FIRST_S", 0.001)
    told, stop = tmp_path / "told", asyncio.Event()

    def lines() -> list[list[str]]:
        return [line.split() for line in told.read_text("utf-8").splitlines()]

    with told.open("wb") as output:
        kept = Child(ChildCommand("scheduler", ("-c", _TELL)), output=output.fileno())
        running = asyncio.create_task(kept.run(stop, stop_within_s=1))
        await until(lambda: len(lines()) >= 3, what="it was started three times")
        stop.set()
        await running
    names = [name for name, _ in lines()]
    assert [before for _, before in lines()] == ["-", *names[:-1]]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"scheduler-[0-9a-f]{8}", name) for name in names)
    assert RUNNER_ID_VARIABLE not in os.environ
