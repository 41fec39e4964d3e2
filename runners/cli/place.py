"""Where control is asked: a data folder's broker on this machine, or a cluster."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from ..errors import BrokerUnavailable
from .usage import HintedUsageError

if TYPE_CHECKING:
    from ..broker.folder import DataFolder
    from ..jetstream.connection import Login

DATA_VARIABLE = "FIRELEDGER_DATA"
URL_VARIABLE = "FIRELEDGER_NATS_URL"
CREDENTIALS_VARIABLE = "FIRELEDGER_CREDS"
DATA_DEFAULT = Path("~/.local/share/fireledger")
START_HINT = "start it: fireledger up"
_OPERATOR = "operator"

_Command = TypeVar("_Command", bound=Callable[..., None])


@dataclass(frozen=True, slots=True)
class Place:
    """What the command line said about where control is; None where it said nothing."""

    data: Path | None = None
    nats_url: str | None = None
    creds: Path | None = None

    def or_else(self, other: "Place") -> "Place":
        """This place, completed by another. A folder and an address are two ways of saying the same thing."""
        if self.data is None and self.nats_url is None:
            return replace(other, creds=self.creds or other.creds)
        return replace(self, creds=self.creds or other.creds)

    def login(self) -> "Login":
        """The operator's login. Raises BrokerUnavailable, FolderUnusable, and UsageError for an address alone."""
        from ..broker.credentials import credentials_path, load_credentials
        from ..jetstream.connection import Login

        place = self.or_else(from_environment())
        if place.nats_url is not None and place.creds is None and place.data is None:
            raise HintedUsageError(
                "--nats-url is given without --creds",
                hint=f"name the operator's credentials file: --creds FILE, or in {CREDENTIALS_VARIABLE}",
            )
        folder = _folder(place.data or DATA_DEFAULT)
        creds = place.creds or credentials_path(folder.credentials_path, _OPERATOR)
        url = place.nats_url
        if url is None:
            address = folder.read_address()
            if address is None:
                raise BrokerUnavailable(f'no fireledger runs in data folder "{folder.path}"', hint=START_HINT)
            url = address.url
        credentials = load_credentials(creds)
        return Login(url, credentials.user, credentials.password)


def from_environment() -> Place:
    """What the environment says."""
    data, url, creds = (os.environ.get(name) for name in (DATA_VARIABLE, URL_VARIABLE, CREDENTIALS_VARIABLE))
    return Place(Path(data) if data else None, url or None, Path(creds) if creds else None)


def place_options(command: _Command) -> _Command:
    """Give a command --data, --nats-url and --creds."""
    options = (
        click.option(
            "--data",
            metavar="FOLDER",
            type=click.Path(path_type=Path),
            help=f"The data folder of the local fireledger. [env {DATA_VARIABLE}; {DATA_DEFAULT}]",
        ),
        click.option(
            "--nats-url",
            metavar="URL",
            help=f"A cluster's broker instead: nats://10.0.0.5:4222. Needs --creds. [env {URL_VARIABLE}]",
        ),
        click.option(
            "--creds",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help=f"The operator's credentials, a JSON file with user and password. [env {CREDENTIALS_VARIABLE}]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def placed(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command --data, --nats-url and --creds, and hand them over as one argument, ``place``."""

    @wraps(command)
    def with_place(*, data: Path | None, nats_url: str | None, creds: Path | None, **rest: object) -> None:
        command(place=Place(data, nats_url, creds), **rest)

    return place_options(with_place)


def _folder(path: Path) -> "DataFolder":
    """The data folder; one that is not there yet is not made by a question."""
    from ..broker.folder import DataFolder

    absolute = path.expanduser().absolute()
    return DataFolder.open(absolute) if (absolute / "layout.json").exists() else DataFolder(absolute)
