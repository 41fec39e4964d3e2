"""The same seed is the same run: in the same process, in another, and whatever Python's own hashes are."""

import os
import subprocess
import sys

import pytest

from tests.simulation import run
from tests.simulation.planted import PLANTS
from tests.simulation.world import simulate
from tests.tidy.sources import ROOT

SEED = 7
HOURS = 0.05


def digest_elsewhere(hash_seed: str) -> str:
    """The digest that a process with this hash seed comes to."""
    found = subprocess.run(
        [sys.executable, "-m", "tests.simulation.run", str(SEED), str(HOURS)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return found.stdout.split()[-1]


@pytest.mark.slow
def test_a_seed_repeats_to_the_byte() -> None:
    """Every byte, sequence and timestamp of the log is the same again, also under other hash seeds."""
    here = simulate(SEED, HOURS).digest
    assert simulate(SEED, HOURS).digest == here
    assert {digest_elsewhere("1"), digest_elsewhere("4242")} == {here}


@pytest.mark.slow
def test_another_seed_is_another_run() -> None:
    """Two seeds differ."""
    assert simulate(1, 0.01).digest != simulate(2, 0.01).digest


@pytest.mark.slow
def test_a_run_tells_what_it_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    """The report names fires, faults and the digest; the exit status is 0."""
    assert run.main(["3", "0.02"]) == 0
    shown = capsys.readouterr().out
    assert "every invariant held" in shown
    assert "fires and" in shown
    assert "faults injected" in shown


def test_a_failing_run_prints_the_line_that_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    """With a bug planted the exit status is 1, and the last line is the command."""
    with PLANTS["jitter-early"]():
        assert run.main(["1", "0.03"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "repeat with: make sim SEED=1 HOURS=0.03"


@pytest.mark.parametrize("arguments", [[], ["x", "1"], ["1"], ["1", "long"]])
def test_arguments_that_are_no_numbers_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2 and the usage."""
    assert run.main(arguments) == 2
    assert "usage" in capsys.readouterr().err
