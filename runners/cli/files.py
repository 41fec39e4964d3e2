"""Files that an option names: read whole, regular ones only, up to a bound."""

import os
import stat
from pathlib import Path

from ..control.refusals import refused


def read_file(path: Path, *, what: str, bytes_max: int, too_large_hint: str) -> bytes:
    """The file's content. ``what`` names its kind in an error. Never waits, whatever stands at the path.

    Raises ControlRefused when it cannot be read, is no regular file, or has more than ``bytes_max`` bytes.
    """
    try:
        content = _content(path, bytes_max + 1)
    except OSError as error:
        raise refused(f'{what} "{path}" cannot be read: {error.strerror}', hint="name a readable file") from error
    if content is None:
        raise refused(f'{what} "{path}" is not a regular file', hint="write what it gives into a file, and name that")
    if len(content) > bytes_max:
        raise refused(f'{what} "{path}" has more than {bytes_max} bytes', hint=too_large_hint)
    return content


def _content(path: Path, bytes_max: int) -> bytes | None:
    """So much of the file, or None for what is no regular file."""
    # Opening a pipe that nobody writes to would wait for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(bytes_max)
    finally:
        os.close(descriptor)
