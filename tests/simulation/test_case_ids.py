"""Every published behaviour case is a simulation test by its id, and docs/testing.md lists exactly these."""

import re

from tests.tidy.sources import ROOT

PUBLISHED = (
    "001", "003", "004", "006", "007", "009", "010", "012", "013", "015", "016", "018", "019", "021", "022", "024",
    "025", "027", "028", "030", "031", "033", "034", "036", "037", "039", "040", "042", "043", "045", "046", "048",
    "049", "051", "052", "054", "055",
)  # fmt: skip
"""The cases' numbers as they were published."""
_TEST = re.compile(r"^def test_beh_((?:\d{3}_(?:and_)?)+)", re.MULTILINE)
_ID = re.compile(r"\b\d{3}\b")


def simulated() -> list[str]:
    """The numbers in the names of simulation tests."""
    folder = ROOT / "tests" / "simulation"
    names = (match[1] for path in sorted(folder.glob("test_*.py")) for match in _TEST.finditer(path.read_text("utf-8")))
    return [number for name in names for number in re.findall(r"\d{3}", name)]


def test_every_published_case_is_simulated() -> None:
    """All 37 of them, and no other."""
    assert sorted(set(simulated())) == list(PUBLISHED)
    assert len(PUBLISHED) == 37


def test_the_document_lists_the_cases() -> None:
    """Each of them once."""
    text = (ROOT / "docs" / "testing.md").read_text("utf-8").partition("## The behaviour cases")[2]
    rows = [line for line in text.splitlines() if line.startswith("| BEH-")]
    assert sorted(_ID.findall(" ".join(rows))) == list(PUBLISHED)
