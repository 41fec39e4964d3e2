"""Add golden bytes for what has none yet. What is recorded is never changed: a difference is an error.

Run it from the root as ``.venv/bin/python -m ops.golden``; commit what it adds.
"""

import json
import sys
from pathlib import Path

import msgspec

from tests.golden.first_book import first_book
from tests.golden.histories import FOLDER as HISTORIES
from tests.golden.histories import history_of, to_text
from tests.golden.samples import SAMPLES
from tests.golden.schema import fields_of, layout_of
from tests.golden.second_book import second_book

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden"


class Changed(Exception):
    """A recorded line would change; stored books depend on it."""


def added(recorded: dict[str, str], found: dict[str, str]) -> dict[str, str]:
    """Return the recorded lines and the new ones after them. Raises Changed if one of the recorded differs."""
    for name, line in recorded.items():
        if found.get(name, line) != line:
            raise Changed(f'"{name}" is stored otherwise now; give the new form a topic of its own')
    return {**recorded, **{name: line for name, line in found.items() if name not in recorded}}


def extend(path: Path, found: dict[str, str]) -> int:
    """Add new lines to a recorded file, and return how many."""
    recorded: dict[str, str] = json.loads(path.read_text("ascii")) if path.exists() else {}
    lines = added(recorded, found)
    path.write_text(json.dumps(lines, indent=1) + "\n", "ascii")
    return len(lines) - len(recorded)


def main() -> int:
    """Add what is missing; return the exit status."""
    try:
        entries = extend(
            GOLDEN / "entries.json", {name: msgspec.msgpack.encode(value).hex() for name, value in SAMPLES.items()}
        )
        schema = {
            name: f"{layout_of(type(value))}: {'; '.join(fields_of(type(value)))}"
            for name, value in SAMPLES.items()
            if "/" not in name
        }
        layouts = extend(GOLDEN / "schema.json", schema)
    except Changed as error:
        print(f"error: {error}", file=sys.stderr)
        return 5
    print(f"{entries} values and {layouts} layouts added")
    for name, book in {"first-book": first_book, "second-book": second_book}.items():
        history = HISTORIES / f"{name}.json"
        if not history.exists():
            history.write_text(to_text(history_of(book())), "ascii")
            print(f"{history.name} recorded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
