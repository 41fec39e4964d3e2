"""The data folder: its layout version, its lock, and where things are in it."""

import fcntl
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ..errors import FolderInUse, FolderUnusable
from ..json_edge import MalformedJson, dumps_text, loads

LAYOUT_VERSION = 1
"""Raised whenever a release lays the folder out differently."""
_FOLDER_MODE = 0o700
_FILE_MODE = 0o600


def write_private(path: Path, text: str) -> None:
    """Replace a file readable by its owner only; a reader sees the old text or the new, never a part.

    Raises FolderUnusable when it cannot be written.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise FolderUnusable(
            f'"{path}" cannot be written: {error.strerror}',
            hint="check the folder's owner and the free space of its disk",
        ) from error


@dataclass(frozen=True, slots=True)
class Address:
    """Where the folder's broker listens, and its process."""

    url: str
    pid: int


class FolderLock:
    """The exclusive right to a data folder, held until closed *and* until every child that inherited it ended.

    The broker inherits ``descriptor``, so one that outlives its parent still keeps others out.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def release(self) -> None:
        """Let go of this process's share; doing it twice is harmless."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class DataFolder:
    """A data folder that exists, is private, and has this release's layout."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, path: Path | str) -> "DataFolder":
        """Open the folder, creating it when absent.

        Raises FolderUnusable when it is no folder, cannot be written, or is laid out by another version;
        nothing is then written into it.
        """
        folder = cls(Path(path).expanduser().absolute())
        folder._create()
        folder._check_layout()
        return folder

    def _create(self) -> None:
        try:
            self.path.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            if stat.S_IMODE(self.path.stat().st_mode) != _FOLDER_MODE:
                self.path.chmod(_FOLDER_MODE)
        except (FileExistsError, NotADirectoryError) as error:
            raise FolderUnusable(
                f'data folder "{self.path}" is not a folder', hint="name another with --data"
            ) from error
        except OSError as error:
            raise FolderUnusable(
                f'data folder "{self.path}" cannot be used: {error.strerror}',
                hint="check its owner and rights, or name another with --data",
            ) from error

    def _check_layout(self) -> None:
        layout = self.path / "layout.json"
        if not layout.exists():
            self._refuse_strangers()
            write_private(layout, dumps_text({"version": LAYOUT_VERSION}) + "\n")
            return
        version = _layout_version(layout)
        if version != LAYOUT_VERSION:
            raise FolderUnusable(
                f'data folder "{self.path}" has layout version "{version}"; this release reads {LAYOUT_VERSION}',
                hint="use the release that wrote it, or name another folder with --data",
            )

    def _refuse_strangers(self) -> None:
        """A folder with other people's files in it is a slip of the hand, not a data folder."""
        try:
            found = sorted(entry.name for entry in self.path.iterdir())
        except OSError as error:
            raise FolderUnusable(
                f'data folder "{self.path}" cannot be read: {error.strerror}', hint="check its owner and rights"
            ) from error
        strangers = [name for name in found if name not in _OURS_BEFORE_LAYOUT]
        if strangers:
            raise FolderUnusable(
                f'folder "{self.path}" holds "{strangers[0]}" and no layout.json: it is no data folder',
                hint="name an empty folder with --data",
            )

    def lock(self) -> FolderLock:
        """Take the folder's lock. Raises FolderInUse at once when another process has it."""
        path = self.path / "lock"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        except OSError as error:
            raise FolderUnusable(
                f'"{path}" cannot be opened: {error.strerror}', hint="check the folder's owner and rights"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise FolderInUse(
                f'data folder "{self.path}" is in use by process {holder} or a broker it left behind',
                hint="stop that one, or name another folder with --data",
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return FolderLock(descriptor)

    @property
    def credentials_path(self) -> Path:
        """The folder of the users' credential files."""
        return self.path / "credentials"

    @property
    def config_path(self) -> Path:
        """The broker's configuration, written anew at each start."""
        return self.path / "broker.conf"

    @property
    def log_path(self) -> Path:
        """The broker's log."""
        return self.path / "broker.log"

    @property
    def store_path(self) -> Path:
        """The folder under which the broker keeps its streams."""
        return self.path / "store"

    @property
    def executors_path(self) -> Path:
        """The list of tenants that have an executor's user."""
        return self.path / "executors.json"

    @property
    def report_key_path(self) -> Path:
        """The key that tokens of attempts are made with."""
        return self.path / "report-key"

    @property
    def outcome_port_path(self) -> Path:
        """On which port executors report outcomes over HTTP: the same at each start, since they remember it."""
        return self.path / "outcomes.json"

    @property
    def demo_port_path(self) -> Path:
        """On which port the demo's HTTP executor listens: the same at each start, since triggers name it."""
        return self.path / "demo-http.json"

    def write_address(self, address: Address) -> None:
        """Say where the folder's broker listens."""
        write_private(self.path / "address.json", dumps_text({"url": address.url, "pid": address.pid}) + "\n")

    def remove_address(self) -> None:
        """Say that no broker listens any more."""
        (self.path / "address.json").unlink(missing_ok=True)

    def read_address(self) -> Address | None:
        """Where the folder's broker was last said to listen, or None.

        After a kill -9 of its parent it may be out of date: then nobody answers there.
        """
        try:
            content = loads((self.path / "address.json").read_text("utf-8"))
        except (OSError, MalformedJson):
            return None
        match content:
            case {"url": str(url), "pid": int(pid)}:
                return Address(url, pid)
            case _:
                return None


_OURS_BEFORE_LAYOUT = frozenset({".layout.json.new", "lost+found"})
"""What may lie in a folder that is about to become a data folder: an interrupted start, a fresh disk."""


def _layout_version(layout: Path) -> object:
    try:
        content = loads(layout.read_text("utf-8"))
    except (OSError, MalformedJson) as error:
        raise FolderUnusable(
            f'"{layout}" cannot be read: {error}', hint="restore it, or name another folder with --data"
        ) from error
    match content:
        case {"version": version}:
            return version
        case _:
            return "none"
