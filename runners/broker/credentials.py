"""The broker users' names and passwords: made once for a data folder, kept in private files."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import FolderUnusable
from ..jetstream.topology import inbox_prefix
from ..json_edge import MalformedJson, dumps_text, loads
from .folder import write_private

_PASSWORD_BYTES = 32


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
