"""The secrets of a data folder, made once and kept in private files: the broker users' passwords, the report key."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..attempt_tokens import REPORT_KEY_BYTES
from ..errors import FolderUnusable
from ..jetstream.topology import inbox_prefix
from ..json_edge import MalformedJson, dumps_text, loads
from .folder import write_private

_PASSWORD_BYTES = 32
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


@dataclass(frozen=True, slots=True)
class Credentials:
    """A broker user and its password; the password never shows in ``repr``."""

    user: str
    password: str = field(repr=False)

    @property
    def inbox_prefix(self) -> str:
        """The prefix a connection of this user must use for its inboxes."""
        return inbox_prefix(self.user)


def load_credentials(path: Path | str) -> Credentials:
    """Read a credentials file. Raises FolderUnusable when it is absent, unreadable or malformed."""
    hint = "name a credentials file with --creds, or a data folder with --data"
    try:
        content = loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise FolderUnusable(f'credentials "{path}" cannot be read: {error.strerror}', hint=hint) from error
    except MalformedJson as error:
        raise FolderUnusable(f'credentials "{path}" are not JSON', hint=hint) from error
    match content:
        case {"user": str(user), "password": str(password)}:
            return Credentials(user, password)
        case _:
            raise FolderUnusable(f'credentials "{path}" name no user and password', hint=hint)


def credentials_path(folder: Path, user: str) -> Path:
    """The file of a user's credentials in a credentials folder."""
    return folder / f"{user}.json"


def ensure_credentials(folder: Path, users: Iterable[str]) -> dict[str, Credentials]:
    """Load the credentials of ``users``, making and keeping those that do not exist yet.

    Raises FolderUnusable.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise FolderUnusable(
            f'"{folder}" cannot be made: {error.strerror}', hint="check the data folder's owner and rights"
        ) from error
    return {user: _ensure(credentials_path(folder, user), user) for user in users}


def _ensure(path: Path, user: str) -> Credentials:
    if path.exists():
        return load_credentials(path)
    # The prefix keeps the broker from reading a password as one of its hash formats.
    made = Credentials(user, "fl-" + secrets.token_hex(_PASSWORD_BYTES))
    write_private(path, dumps_text({"user": made.user, "password": made.password}) + "\n")
    return made


def load_report_key(path: Path | str) -> bytes:
    """Read a report key's file: 64 hexadecimal digits. Raises FolderUnusable when it is absent or malformed."""
    hint = 'name a file of 64 hexadecimal digits with --report-key; "openssl rand -hex 32" makes one'
    try:
        text = Path(path).read_text("utf-8").strip()
    except OSError as error:
        raise FolderUnusable(f'report key "{path}" cannot be read: {error.strerror}', hint=hint) from error
    except UnicodeDecodeError as error:
        raise FolderUnusable(f'report key "{path}" is no text', hint=hint) from error
    # Without the error: it would quote what is in the file.
    key = bytes.fromhex(text) if len(text) == 2 * REPORT_KEY_BYTES and set(text) <= _HEX_DIGITS else b""
    if len(key) != REPORT_KEY_BYTES:
        raise FolderUnusable(f'report key "{path}" is not {2 * REPORT_KEY_BYTES} hexadecimal digits', hint=hint)
    return key


def ensure_report_key(path: Path) -> None:
    """Make and keep a report key unless there is one. Raises FolderUnusable, also for one that is malformed."""
    if path.exists():
        load_report_key(path)
    else:
        write_private(path, secrets.token_hex(REPORT_KEY_BYTES) + "\n")
