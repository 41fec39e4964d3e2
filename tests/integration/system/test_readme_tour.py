"""The README's tour, run as it stands: its shell blocks, in order, in one shell."""

import asyncio
import os
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest

from fireledger.runners.identity import new_request_id
from tests.integration.system.system import all_gone, environment

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

ROOT = Path(__file__).parents[3]
TOUR = "## A two-minute tour"
BLOCK_S = 60
"""Most that one block may take; the sleeps in it included."""
SETUP = "make setup"
"""Left out: the tests run in the environment that it makes."""
EXPECTED = (
    ("make setup", ()),
    ("fireledger up", ()),
    ("fireledger tenant create", ("acme", "acme/report", "Z", "After an outage", "still open")),
    ("--zone Europe/Rome --from", ("2027-03-27T01:30:00Z", "2027-03-28T01:30:00Z", "2027-03-29T00:30:00Z")),
    ("fireledger fires list", ("report", "on-time", "failed")),
    ("fireledger trigger pause", ("acme/report", "page 1", "trigger.paused", "fire.released")),
    ("kill %1", ()),
)
"""How each block of the tour is known, and words that must appear when it runs."""


def blocks() -> list[str]:
    """The shell blocks of the tour."""
    text = (ROOT / "README.md").read_text("utf-8")
    tour = text.partition(TOUR)[2].partition("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", tour, re.MULTILINE | re.DOTALL)


def script(marks: list[str]) -> str:
    """The tour as one script that prints a mark after each block."""
    lines = ["set -euo pipefail", f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"]
    for block, mark in zip(blocks(), marks, strict=True):
        lines += [line for line in block.splitlines() if line.strip() != SETUP]
        lines.append(f"echo {mark}")
    return "\n".join(lines) + "\n"


async def test_the_tour_works_as_it_stands(tmp_path: Path) -> None:
    """Every block succeeds within its time and says what it promises; at the end nothing runs any more."""
    marks = [f"block-{number}-ended" for number in range(len(blocks()))]
    mark = f"tour-{new_request_id()}"
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", script(marks)),
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment(mark) | {"TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        everything = ""
        for (sign, words), block, ended in zip(EXPECTED, blocks(), marks, strict=True):
            assert sign in block
            said = await _until_line(process.stdout, ended)
            everything += said
            for word in words:
                assert word in said, f"{word!r} is missing from what this printed:\n{block}\n{said}"
        async with asyncio.timeout(BLOCK_S):
            assert await process.wait() == 0
        # A command may find everything ready a moment before "up" looks and says so.
        assert "ready data=" in everything
        assert list(tmp_path.glob("tmp.*/tour/layout.json")), "the data is where the tour says"
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGTERM)
        await all_gone(mark)


async def _until_line(stream: asyncio.StreamReader, wanted: str) -> str:
    """What is printed up to a line, which must come within BLOCK_S."""
    said: list[str] = []
    async with asyncio.timeout(BLOCK_S):
        while (line := (await stream.readline()).decode()).rstrip() != wanted:
            assert line, f"the tour ended early:\n{''.join(said)}"
            said.append(line)
    return "".join(said)
