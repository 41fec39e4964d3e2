"""Reading a time-zone database from files: a folder in zoneinfo layout, or a tzdata wheel or other zip of one.

Everything is bounded, and nothing outside the folder is followed.
"""

import os
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from fireledger.domain.zones import ZONES_MAX, MalformedZone, ZoneDatabase

from .errors import ExitStatus, OperationalError

ZONE_BYTES_MAX = 64 * 1024
"""Bytes of one zone's file: the longest real one has under 4,000."""
FILES_MAX = 4 * ZONES_MAX
"""Files looked at: a folder may hold each zone three times, and a few lists."""
VERSION_BYTES_MAX = 4_096
"""Bytes looked at for the version."""
VERSION_UNKNOWN = "0.local"
"""The version of files that name none: older than every released one, so that nothing takes it by itself."""
_OTHER_FORMS = frozenset({"posix", "right"})
"""Folders that hold every zone once more."""
_ROOT = "zoneinfo"
_MAGIC = b"TZif"
_LAYOUT_HINT = "give a folder such as tzdata/zoneinfo, or a tzdata wheel"


class ZoneFilesUnusable(OperationalError):
    """The files are no time-zone database, or too large for one; the message names the part."""

    exit_status = ExitStatus.REFUSED


def read_zone_files(path: Path) -> ZoneDatabase:
    """The database in a folder or zip, every zone of it read once. Raises ZoneFilesUnusable."""
    try:
        contents, version = _read_folder(path) if path.is_dir() else _read_zip(path)
    except (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        message = f'"{path}" cannot be read as a time-zone database: {error}'
        raise ZoneFilesUnusable(message, hint=_LAYOUT_HINT) from error
    if not contents:
        raise ZoneFilesUnusable(f'there is no time zone in "{path}"', hint=_LAYOUT_HINT)
    try:
        database = ZoneDatabase(version or VERSION_UNKNOWN, contents)
        for name in database.names:
            database.zone(name)
    except MalformedZone as error:
        raise ZoneFilesUnusable(f'"{path}": {error}', hint="use a released tzdata package") from error
    return database


def _read_folder(path: Path) -> tuple[dict[str, bytes], str]:
    root = path / _ROOT if (path / _ROOT).is_dir() else path
    contents: dict[str, bytes] = {}
    version = ""
    for file in _files_in(root):
        name = file.relative_to(root).as_posix()
        if _is_version(name):
            version = version or _version_in(_first_bytes(file, VERSION_BYTES_MAX))
        elif _may_be_zone(name):
            content = _first_bytes(file, ZONE_BYTES_MAX + 1)
            _take(contents, name, content)
    return contents, version


def _files_in(root: Path) -> Iterator[Path]:
    """The files below a folder, in order; links to folders are not followed, and links to files only inside it."""
    count = 0
    inside = root.resolve()
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(each for each in folders if each not in _OTHER_FORMS)
        for each in sorted(files):
            count += 1
            if count > FILES_MAX:
                raise ZoneFilesUnusable(f'"{root}" holds more than {FILES_MAX} files', hint=_LAYOUT_HINT)
            file = Path(folder) / each
            if file.is_file() and file.resolve().is_relative_to(inside):
                yield file


def _first_bytes(file: Path, count: int) -> bytes:
    with file.open("rb") as opened:
        return opened.read(count)


def _read_zip(path: Path) -> tuple[dict[str, bytes], str]:
    contents: dict[str, bytes] = {}
    version = ""
    with zipfile.ZipFile(path) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        if len(infos) > FILES_MAX:
            raise ZoneFilesUnusable(f'"{path}" holds more than {FILES_MAX} files', hint=_LAYOUT_HINT)
        rooted = any(_ROOT in PurePosixPath(info.filename).parts for info in infos)
        for info in sorted(infos, key=lambda info: info.filename):
            name = _below_root(info.filename) if rooted else info.filename
            if name is not None and (_is_version(name) or _may_be_zone(name)):
                with archive.open(info) as opened:
                    content = opened.read(ZONE_BYTES_MAX + 1)
                if _is_version(name):
                    version = version or _version_in(content[:VERSION_BYTES_MAX])
                else:
                    _take(contents, name, content)
    return contents, version


def _below_root(filename: str) -> str | None:
    parts = PurePosixPath(filename).parts
    return "/".join(parts[parts.index(_ROOT) + 1 :]) if _ROOT in parts else None


def _is_version(name: str) -> bool:
    return name in ("+VERSION", "tzdata.zi")


def _may_be_zone(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and parts[0] not in _OTHER_FORMS and not any(part.startswith((".", "_")) for part in parts)


def _take(contents: dict[str, bytes], name: str, content: bytes) -> None:
    """Keep a zone; lists, licences and the like are passed over."""
    if not content.startswith(_MAGIC) or name in ("posixrules", "localtime"):
        return
    if len(content) > ZONE_BYTES_MAX:
        raise ZoneFilesUnusable(f'time zone "{name}" has more than {ZONE_BYTES_MAX} bytes', hint=_LAYOUT_HINT)
    contents[name] = content


def _version_in(content: bytes) -> str:
    """The version in "+VERSION" (alone) or in "tzdata.zi" (``# version 2026f``), or an empty text."""
    words = content.decode("ascii", errors="replace").split()
    if words[:2] == ["#", "version"]:
        words = words[2:]
    return words[0] if words else ""
