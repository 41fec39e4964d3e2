"""Faults and invariants have names, and docs/testing.md lists exactly these."""

import re
from typing import get_args

from tests.simulation.faults import FAULTS, Fault
from tests.simulation.invariants import INVARIANTS
from tests.tidy.sources import ROOT

_ROW = re.compile(r"^\| `([a-z-]+)` \|", re.MULTILINE)


def listed(heading: str) -> list[str]:
    """The names in the table under a heading of docs/testing.md."""
    text = (ROOT / "docs" / "testing.md").read_text("utf-8")
    section = re.split(r"^#+ ", text.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return _ROW.findall(section)


def test_the_document_lists_the_faults() -> None:
    """All of them, each once, and no other."""
    assert sorted(listed("Faults")) == sorted(FAULTS)
    assert set(get_args(Fault)) == set(FAULTS)


def test_the_document_lists_the_invariants() -> None:
    """All of them, each once, and no other."""
    assert sorted(listed("Invariants")) == sorted(INVARIANTS)
