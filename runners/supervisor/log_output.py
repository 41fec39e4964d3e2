"""Where the logs of ``up`` and its runners go: to stderr, or to a file when a live view has the terminal."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import FolderUnusable
from ..logs import configure_logs

LOG_NAME = "up.log"
LOG_BYTES_MAX = 8 * 1024 * 1024
"""A log file larger than this at the start is put aside, in the place of the one put aside before."""


def log_path(folder: Path) -> Path:
    """The log file in a data folder."""
    return folder / LOG_NAME


@contextmanager
def log_output(folder: Path, *, to_file: bool) -> Generator[int, None, None]:
    """The descriptor for the runners' logs; this process's own go there too, until the end of the context.

    Raises FolderUnusable when the file cannot be written.
    """
    if not to_file:
        yield sys.stderr.fileno()
        return
    path = log_path(folder)
    try:
        _put_aside(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise FolderUnusable(
            f'"{path}" cannot be written: {error.strerror}', hint="check the data folder's owner and its disk"
        ) from error
    with os.fdopen(descriptor, "w", buffering=1, encoding="utf-8") as file:
        configure_logs("up", stream=file)
        try:
            yield descriptor
        finally:
            configure_logs("up")


def _put_aside(path: Path) -> None:
    with suppress(FileNotFoundError):
        if path.stat().st_size > LOG_BYTES_MAX:
            path.replace(path.with_suffix(".log.1"))
