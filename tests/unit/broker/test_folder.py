"""The data folder: made, recognised, refused, locked."""

import os
import stat
from pathlib import Path

import pytest

from fireledger.runners.broker.folder import Address, DataFolder, write_private
from fireledger.runners.errors import ExitStatus, FolderInUse, FolderUnusable


def test_a_folder_is_made_private_and_opens_again(tmp_path: Path) -> None:
    """Opening makes the folder, its parents and its layout file, for the owner only; a second time changes nothing."""
    folder = DataFolder.open(tmp_path / "a" / "data")
    layout = folder.path / "layout.json"
    assert layout.read_text() == '{"version":1}\n'
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(layout.stat().st_mode) == 0o600
    before = layout.stat().st_mtime_ns
    assert DataFolder.open(folder.path).path == folder.path
    assert layout.stat().st_mtime_ns == before


def test_a_folder_open_to_others_is_closed(tmp_path: Path) -> None:
    """A folder somebody made with wide rights loses them."""
    (tmp_path / "data").mkdir(mode=0o755)
    assert stat.S_IMODE(DataFolder.open(tmp_path / "data").path.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "layout,shown", [('{"version":2}', "2"), ('{"version":"1"}', "1"), ("{}", "none"), ("[]", "none")]
)
def test_another_layout_is_refused(tmp_path: Path, layout: str, shown: str) -> None:
    """A folder of another release is left as it is, with both versions named."""
    (tmp_path / "layout.json").write_text(layout)
    with pytest.raises(FolderUnusable, match=f'has layout version "{shown}"; this release reads 1') as refused:
        DataFolder.open(tmp_path)
    assert refused.value.exit_status == ExitStatus.CONFLICT
    assert refused.value.hint
    assert [entry.name for entry in tmp_path.iterdir()] == ["layout.json"]


def test_a_broken_layout_file_is_refused(tmp_path: Path) -> None:
    """A layout file that is no JSON is not silently replaced."""
    (tmp_path / "layout.json").write_text("not json")
    with pytest.raises(FolderUnusable, match=r'layout\.json" cannot be read'):
        DataFolder.open(tmp_path)


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    """A folder somebody else uses is a slip of the hand; nothing is written into it."""
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(FolderUnusable, match=r'holds "thesis\.txt" and no layout\.json'):
        DataFolder.open(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("place", ["file", "file/data"])
def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path, place: str) -> None:
    """Neither a file nor a path below one is a folder."""
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderUnusable, match="is not a folder") as refused:
        DataFolder.open(tmp_path / place)
    assert "--data" in refused.value.hint


def test_a_folder_that_cannot_be_made_is_refused() -> None:
    """The operating system's reason is told."""
    with pytest.raises(FolderUnusable, match='data folder "/proc/fireledger" cannot be used'):
        DataFolder.open("/proc/fireledger")


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """A write that fails is an error with a hint."""
    with pytest.raises(FolderUnusable, match="cannot be written") as refused:
        write_private(tmp_path / "absent" / "file", "text")
    assert "free space" in refused.value.hint


def test_one_lock_at_a_time(tmp_path: Path) -> None:
    """A second lock is refused at once, naming folder and holder; after a release the folder is free."""
    folder = DataFolder.open(tmp_path / "data")
    lock = folder.lock()
    with pytest.raises(FolderInUse, match=f'"{folder.path}" is in use by process {os.getpid()}') as refused:
        DataFolder.open(folder.path).lock()
    assert int(refused.value.exit_status) == 4
    assert refused.value.hint
    lock.release()
    lock.release()
    folder.lock().release()


def test_a_lock_is_held_by_whoever_inherited_it(tmp_path: Path) -> None:
    """While a copy of the descriptor is open, as in a child, releasing one's own share frees nothing."""
    folder = DataFolder.open(tmp_path / "data")
    lock = folder.lock()
    inherited = os.dup(lock.descriptor)
    lock.release()
    with pytest.raises(FolderInUse):
        folder.lock()
    os.close(inherited)
    folder.lock().release()


def test_the_address_is_written_read_and_removed(tmp_path: Path) -> None:
    """What is written is read; absent, broken or incomplete is none."""
    folder = DataFolder.open(tmp_path / "data")
    assert folder.read_address() is None
    address = Address("nats://127.0.0.1:4222", 12)
    folder.write_address(address)
    assert folder.read_address() == address
    for text in ("not json", "{}", '{"url":"nats://127.0.0.1:1"}'):
        (folder.path / "address.json").write_text(text)
        assert folder.read_address() is None
    folder.remove_address()
    folder.remove_address()
    assert folder.read_address() is None
