"""What the house rules look at: the project's files, read and parsed once.

A rule is a function from one of them to findings, so that it can be shown a bad sample as well as the project.
"""

import ast
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("domain", "projections", "replay", "runners")
CODE = (*LAYERS, "tests", "ops")

_MADE_BY_TOOLS = frozenset({"__pycache__", "build", "dist", "node_modules"})
_TEXT = frozenset(
    {"", ".cfg", ".conf", ".css", ".html", ".ini", ".js", ".json", ".jsonl", ".md", ".py", ".service", ".sh", ".sql"}
    | {".toml", ".txt", ".yaml", ".yml"}
)
_TEXT_BYTES_MAX = 2_000_000
"""Larger files are recorded data, not something a person wrote."""


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file: its path from the root with ``/``, its text and its syntax tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def folder(self) -> str:
        """The top-level folder it lies in."""
        return self.path.partition("/")[0]

    @property
    def module(self) -> str:
        """Its dotted name from the root: ``domain.recurrence.cron``; a package has its folder's name."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


Rule = Callable[[Source], Iterable[str]]


def sample(path: str, text: str) -> Source:
    """Make a source that is not in the project, to show a rule."""
    return Source(path, text, ast.parse(text))


@cache
def python_sources(*folders: str) -> tuple[Source, ...]:
    """Return every Python file of these top-level folders."""
    found = (path for folder in folders for path in _walk(ROOT / folder) if path.suffix == ".py")
    return tuple(sample(_name(path), path.read_text("utf-8")) for path in sorted(found))


@cache
def text_files() -> tuple[tuple[str, str], ...]:
    """Return path and text of every file that a person wrote, whatever its kind."""
    found = (path for path in _walk(ROOT) if path.suffix in _TEXT and path.stat().st_size <= _TEXT_BYTES_MAX)
    return tuple((_name(path), path.read_text("utf-8", errors="replace")) for path in sorted(found))


def findings(rule: Rule, *folders: str) -> list[str]:
    """Apply a rule to every Python file of these folders."""
    return [finding for source in python_sources(*folders) for finding in rule(source)]


def at(source: Source, node: ast.stmt | ast.expr | ast.excepthandler, message: str) -> str:
    """Write one finding."""
    return f"{source.path}:{node.lineno}: {message}"


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method, nested ones too."""
    return (node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def called_name(call: ast.Call) -> str:
    """Return the last part of what is called: ``Queue`` of ``asyncio.Queue[int]()``; empty when it has no name."""
    called = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def _walk(top: Path) -> Iterator[Path]:
    """Yield regular files below a folder, without what tools made, hidden folders (but .ci) and the links in src/."""
    for parent, folders, names in os.walk(top):
        folders[:] = [
            name
            for name in folders
            if name not in _MADE_BY_TOOLS
            and not name.endswith(".egg-info")
            and (not name.startswith(".") or name == ".ci")
            and not Path(parent, name).is_symlink()
        ]
        yield from (path for path in (Path(parent, name) for name in names) if not path.is_symlink() and path.is_file())


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
