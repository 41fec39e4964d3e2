"""Reading a time-zone database from a folder or a wheel: what is taken, what is passed over, what is refused."""

import shutil
import zipfile
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from fireledger.runners import zone_files
from fireledger.runners.zone_files import VERSION_UNKNOWN, ZoneFilesUnusable, read_zone_files
from fireledger.runners.zone_package import load_packaged_zones
from tests.zone_data import MadeZone

ROME = MadeZone(3_600).tzif()
UTC = MadeZone(0).tzif()


def folder(path: Path, **contents: bytes) -> Path:
    """A folder with UTC and these files; two underscores stand for a slash."""
    for name, content in {"UTC": UTC, **contents}.items():
        file = path / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return path


def test_the_packages_own_folder_gives_the_packaged_database() -> None:
    """The same zones, version and hash as the loader of the package has."""
    with as_file(files("tzdata")) as path:
        assert read_zone_files(path).sha256 == load_packaged_zones().sha256
        assert read_zone_files(path / "zoneinfo").sha256 == load_packaged_zones().sha256


def test_a_wheel_gives_the_packaged_database(tmp_path: Path) -> None:
    """A zip of the package, as a wheel is one, gives the same database."""
    with as_file(files("tzdata")) as path:
        shutil.copytree(path, tmp_path / "wheel" / "tzdata")
    wheel = shutil.make_archive(str(tmp_path / "tzdata"), "zip", tmp_path / "wheel")
    assert read_zone_files(Path(wheel)).sha256 == load_packaged_zones().sha256


def test_lists_and_other_forms_are_passed_over(tmp_path: Path) -> None:
    """Only zones are taken, once each; the version is what "+VERSION" says."""
    path = folder(tmp_path, Europe__Rome=ROME, posix__UTC=UTC, right__UTC=UTC, posixrules=UTC, leapseconds=b"# no zone")
    assert read_zone_files(path).version == VERSION_UNKNOWN
    (path / "+VERSION").write_text("2026g\n")
    database = read_zone_files(path)
    assert (database.version, database.names) == ("2026g", ("Europe/Rome", "UTC"))


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    """A link to a file elsewhere, or to a folder, is passed over; one inside is a zone."""
    outside = folder(tmp_path / "outside", Elsewhere=ROME)
    path = folder(tmp_path / "inside", Europe__Rome=ROME)
    (path / "Leaving").symlink_to(outside / "Elsewhere")
    (path / "Away").symlink_to(outside)
    (path / "Rome").symlink_to(path / "Europe" / "Rome")
    assert read_zone_files(path).names == ("Europe/Rome", "Rome", "UTC")


@pytest.mark.parametrize(
    "contents,part",
    [
        ({"Europe__Rome": b"TZif2 and then nothing"}, "Europe/Rome"),
        ({"Europe__Rome": ROME + bytes(zone_files.ZONE_BYTES_MAX)}, "Europe/Rome"),
        ({"+VERSION": b"no/version"}, "no/version"),
        ({"UTC": b"no zone"}, "no time zone"),
        ({"UTC": b"", "Europe__Rome": ROME}, "UTC"),
    ],
)
def test_what_is_no_database_is_refused(tmp_path: Path, contents: dict[str, bytes], part: str) -> None:
    """The message names the offending part, and a hint says what to give."""
    with pytest.raises(ZoneFilesUnusable, match=part) as caught:
        read_zone_files(folder(tmp_path, **contents))
    assert caught.value.hint


def test_a_file_that_is_no_zip_is_refused(tmp_path: Path) -> None:
    """A path to anything else is refused."""
    (tmp_path / "text").write_text("hello")
    for name in ("text", "missing"):
        with pytest.raises(ZoneFilesUnusable):
            read_zone_files(tmp_path / name)


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder or zip that holds more than a database can is not read to its end."""
    monkeypatch.setattr(zone_files, "FILES_MAX", 2)
    path = folder(tmp_path / "many", a=UTC, b=UTC)
    with pytest.raises(ZoneFilesUnusable, match="more than 2 files"):
        read_zone_files(path)
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for name in ("UTC", "a", "b"):
            archive.writestr(name, UTC)
    with pytest.raises(ZoneFilesUnusable, match="more than 2 files"):
        read_zone_files(tmp_path / "many.zip")
