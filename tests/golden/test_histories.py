"""Recorded histories are decided again, page by page, byte for byte, under any hash seed."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from fireledger.domain.book import BrokenChain
from fireledger.domain.page import decode_page, encode_page
from tests.golden.histories import FOLDER, History, read, replay

ROOT = Path(__file__).resolve().parents[2]
HISTORIES = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_a_history_is_decided_again(path: Path) -> None:
    """Every page's entries follow from the state before it and the inputs it records, to the byte."""
    assert len(replay(read(path))) == 64


def test_there_is_a_history_of_every_command() -> None:
    """The recorded books hold every command that was there when they were recorded, and at least thirty pages."""
    pages = [decode_page(page.body) for path in HISTORIES for page in read(path).pages]
    assert len(pages) >= 30
    assert len({type(page.command) for page in pages}) >= 16
    kinds = {type(entry).__name__ for page in pages for entry in page.entries}
    assert {
        "FireReleased",
        "FireDecided",
        "FireWithdrawn",
        "InstantsResolved",
        "SegmentSettled",
        "FireFinished",
    } <= kinds
    assert {"RetryScheduled", "FireHeld", "HeldFireReleased", "FireRequested", "DrainDeclared", "GrantChanged"} <= kinds
    assert {"CeilingSet", "SpendPeriodBegun", "TriggerSuspended", "SuspensionEnded", "BackfillEnded"} <= kinds


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "4242"])
def test_another_hash_seed_gives_the_same_bytes(seed: str) -> None:
    """A process with its own order of sets and dictionaries replays every history to the same digest."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.golden.histories", *map(str, HISTORIES)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == [replay(read(path)) for path in HISTORIES]


def test_a_changed_history_is_found() -> None:
    """An altered decision, an altered page, a lost one and two exchanged ones each stop the replay."""
    history = read(HISTORIES[0])
    tick = next(number for number, page in enumerate(history.pages) if len(decode_page(page.body).entries) > 2)
    page = decode_page(history.pages[tick].body)
    shorter = encode_page(msgspec.structs.replace(page, entries=page.entries[:-1]))
    renamed = encode_page(msgspec.structs.replace(page, commit_id="other"))
    before, after = history.pages[:tick], history.pages[tick + 1 :]

    def with_body(body: bytes) -> History:
        return replace(history, pages=(*before, replace(history.pages[tick], body=body), *after))

    with pytest.raises(AssertionError, match="decided otherwise"):
        replay(with_body(shorter))
    with pytest.raises(BrokenChain):
        replay(with_body(renamed))
    with pytest.raises(BrokenChain):
        replay(replace(history, pages=(*before, *after)))
    with pytest.raises(BrokenChain):
        replay(replace(history, pages=(*before, after[0], history.pages[tick], *after[1:])))
