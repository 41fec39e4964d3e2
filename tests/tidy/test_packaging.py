"""Packaging: the linked import root, the pins, and one way to run everything."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.sources import LAYERS, ROOT

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==[0-9][\w.!+]*")


def link_faults(package: Path) -> Iterator[str]:
    """Find what keeps a folder from being the import root: a real file, the four links, and nothing else."""
    for name in LAYERS:
        link = package / name
        if not link.is_symlink() or link.readlink() != Path("../..", name):
            yield f'"{name}" is not a symbolic link to "../../{name}"'
    allowed = {*LAYERS, "__init__.py", "py.typed", "__pycache__"}
    for path in package.iterdir():
        if path.name not in allowed or (path.name not in LAYERS and path.is_symlink()):
            yield f'"{path.name}" does not belong into the import root'


def normalised(name: str) -> str:
    """Return a distribution's name in the form in which two spellings are equal."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pin_faults(lines: list[str], needed: list[str]) -> Iterator[str]:
    """Find constraints that are no exact pin, that stand twice, and requirements without one."""
    pins = [line for line in lines if line and not line.startswith("#")]
    yield from (f'"{line}" is not an exact pin' for line in pins if not _PIN.fullmatch(line))
    names = [normalised(line.partition("==")[0]) for line in pins]
    yield from (f'"{name}" is pinned twice' for name in sorted(set(names)) if names.count(name) > 1)
    wanted = {normalised(match[0]) for match in map(_NAME.match, needed) if match}
    yield from (f'"{name}" is not pinned' for name in sorted(wanted - set(names)))


def test_the_import_root_is_four_links() -> None:
    """The links are links with the expected targets, so each file has one module name."""
    assert list(link_faults(ROOT / "src" / "fireledger")) == []


def test_a_copy_in_place_of_a_link_is_found(tmp_path: Path) -> None:
    """A real folder, a link elsewhere, a missing link and a stray file are each a finding."""
    (tmp_path / "domain").mkdir()
    (tmp_path / "replay").symlink_to("../replay")
    (tmp_path / "runners").symlink_to("../../runners")
    (tmp_path / "helpers.py").touch()
    assert len(list(link_faults(tmp_path))) == 4


def test_everything_that_is_installed_is_pinned() -> None:
    """Each requirement of pyproject.toml, for running, developing and building, has one exact pin."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    needed = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    needed += project["build-system"]["requires"]
    assert list(pin_faults((ROOT / "constraints.txt").read_text("utf-8").splitlines(), needed)) == []


def test_a_loose_pin_is_found() -> None:
    """A range, an address, a second pin and a missing one are each a finding."""
    assert len(list(pin_faults(["a>=1", "--index-url x", "b==1", "B==2"], ["b>=1", "c"]))) == 4


def test_help_lists_every_command() -> None:
    """Each target of the Makefile says what it is for."""
    text = (ROOT / "Makefile").read_text("utf-8")
    phony = re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    assert phony is not None
    assert re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE) == phony[1].split()


def test_continuous_integration_calls_the_same_command() -> None:
    """.ci/run holds no logic of its own, and may be executed."""
    script = ROOT / ".ci" / "run"
    assert script.read_text("utf-8").splitlines()[-1] == "exec make test"
    assert script.stat().st_mode & 0o111
