"""The policy pages: their pictures, books and tables are what the code says, and every policy has its page."""

import re
from pathlib import Path
from typing import get_args

import pytest

from fireledger.domain import entries as e
from fireledger.domain import limits
from fireledger.domain.page import decode_page
from ops import policy_limits, policy_pages
from ops.policy_pictures import picture
from tests.tidy.policy_scenarios import SCENARIOS, Scenario

PARTS = ["Picture", "The default, and why", "The options", "In the book", "Odd cases"]
"""What a page about a policy has, in this order; some have more."""


def policy_texts() -> dict[str, str]:
    """Return the pages about one policy each, by name."""
    return {path.stem: path.read_text("utf-8") for path in policy_pages.DOCS.glob("*.md") if path.stem != "README"}


def missing_parts(text: str) -> list[str]:
    """Find which of the parts a page lacks, or has out of order."""
    found = [title for title in re.findall(r"^## (.+)$", text, re.MULTILINE) if title in PARTS]
    return [] if found == PARTS else [part for part in PARTS if part not in found] or ["order"]


def test_the_policy_pages_are_fresh() -> None:
    """Every block says what the code says now; ``python -m ops.policy_pages`` renews them."""
    for path, text in policy_pages.pages().items():
        assert path.read_text("utf-8") == text, f"{path.name} is not fresh"


def test_a_stale_policy_page_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The check names a page whose block says something else and fails; writing it mends it."""
    page = tmp_path / "overlap.md"
    page.write_text("# Overlap\n\n<!-- made: book overlap-skip -->\nsomething else\n<!-- /made -->\n", "utf-8")
    monkeypatch.setattr(policy_pages, "DOCS", tmp_path)
    monkeypatch.setattr("sys.argv", ["policy_pages", "--check"])
    assert policy_pages.main() == 1
    assert page.name in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["policy_pages"])
    assert policy_pages.main() == 0
    assert "state=skipped cause=overlap" in page.read_text("utf-8")


@pytest.mark.parametrize("marker", ["book nothing", "picture", "sculpture overlap-skip", "limits nothing"])
def test_a_marker_that_names_nothing_is_refused(marker: str) -> None:
    """An unknown scenario, kind or page of limits is an error, not an empty block."""
    with pytest.raises(policy_limits.UnknownBlock):
        policy_pages.renewed(f"<!-- made: {marker} -->\n<!-- /made -->")


def test_every_marker_is_a_block() -> None:
    """No marker is misspelt: each is opened once, closed once, and made by the code."""
    for name, text in {**policy_texts(), "README": (policy_pages.DOCS / "README.md").read_text("utf-8")}.items():
        counts = {text.count("<!-- made:"), text.count("<!-- /made -->"), len(policy_pages.blocks(text))}
        assert len(counts) == 1, name


def test_every_scenario_is_told() -> None:
    """Each scenario stands on some page with its pages of the book."""
    told = {name for text in policy_texts().values() for kind, name in policy_pages.blocks(text) if kind == "book"}
    assert told == set(SCENARIOS)


def test_every_policy_page_has_all_its_parts() -> None:
    """A picture, the default and why, the options, the book and the odd cases."""
    assert {name: missing_parts(text) for name, text in policy_texts().items() if missing_parts(text)} == {}
    assert missing_parts("## Picture\n") == PARTS[1:]


def test_every_policy_page_is_in_the_index() -> None:
    """The index links to each page, and the project's front pages link to the index."""
    index = (policy_pages.DOCS / "README.md").read_text("utf-8")
    assert [name for name in policy_texts() if f"({name}.md)" not in index] == []
    docs = policy_pages.DOCS.parent
    assert "(docs/policies/README.md)" in (docs.parent / "README.md").read_text("utf-8")
    assert "(policies/README.md)" in (docs / "ARCHITECTURE.md").read_text("utf-8")


def test_the_index_names_every_end_of_an_instant() -> None:
    """Every state and cause that an entry can give stands in the index."""
    index = (policy_pages.DOCS / "README.md").read_text("utf-8")
    section = index[index.index("## How every instant ends") : index.index("## All defaults")]
    words = set(re.findall(r"[a-z-]+", section))
    assert {*get_args(e.Unfired), *get_args(e.UnfiredCause), *get_args(e.FireCause)} - words == set()


def test_the_tables_name_limits_that_exist() -> None:
    """Each row belongs to a page and names limits of ``domain/limits.py``; every default there is in the table."""
    named = {name for row in policy_limits.ROWS for name in (row.default, *row.bounds) if name and name[0] != "="}
    assert {name for name in named if not hasattr(limits, name)} == set()
    assert {row.page for row in policy_limits.ROWS} <= set(policy_texts())
    defaults = {name for name in vars(limits) if "_DEFAULT" in name}
    assert defaults - named == {"PARTITION_COUNT_DEFAULT"}, "a default that belongs to no policy page"


def test_what_the_tables_say_without_a_limit_is_so() -> None:
    """Defaults that are no limit are those of a definition and of a tenant's settings."""
    assert policy_limits.stated_defaults() == policy_limits.real_defaults()


def test_a_picture_shows_when_what_happened() -> None:
    """Columns follow the instants of the book, and each line ends with its fate."""
    told: Scenario = SCENARIOS["overlap-queue"]()
    lines = picture(told).splitlines()
    axis, drawn = lines[0], {line[:5]: line for line in lines[2:]}
    assert axis.index("09:30") == drawn["09:30"].index("o")
    assert drawn["09:20"].endswith("skipped, replaced")
    assert drawn["09:10"].index("1", 5) == axis.index("09:10")


def test_a_book_is_shown_without_what_changes_from_build_to_build() -> None:
    """Hashes and stamps, which follow from the time-zone data of the day, are not in a block; all entries are."""
    told: Scenario = SCENARIOS["retry"]()
    block = policy_pages.book_block("retry")
    assert "sha256" not in block
    pages = [decode_page(written.body) for written in told.book.written]
    expected = sum(len(page.entries) for page in pages if page.number >= told.first)
    assert len(re.findall(r"^  [a-z.-]+\.v1  ", block, re.MULTILINE)) == expected
