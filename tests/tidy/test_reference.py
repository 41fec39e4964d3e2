"""The reference pages that are made from the code."""

import pytest

from ops import reference


def test_the_reference_pages_are_fresh() -> None:
    """Every generated page says what the code says now; ``python ops/reference.py`` renews them."""
    for path, text in reference.pages().items():
        assert path.read_text("utf-8") == text, f"{path.name} is not fresh"


def test_a_stale_page_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The check names a page that says something else and fails."""
    path = next(iter(reference.pages()))
    monkeypatch.setattr(reference, "pages", lambda: {path: "something else"})
    monkeypatch.setattr("sys.argv", ["reference", "--check"])
    assert reference.main() == 1
    assert path.name in capsys.readouterr().err
