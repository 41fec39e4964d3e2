"""Ports on the loopback address that a data folder keeps over its starts, because somebody remembers them."""

import socket
from pathlib import Path

from ..broker.folder import write_private
from ..errors import BrokerUnavailable
from ..json_edge import MalformedJson, dumps_text, loads
from ..logs import get_log
from ..outcome_address import HOST

PORT_MAX = 65_535
TRIES_MAX = 10
"""Free ports looked at; each is passed over only because it is one of those to be left alone."""
_log = get_log("supervisor")


def choose_port(path: Path, *, wanted: int | None = None, leave_alone: frozenset[int] = frozenset()) -> int:
    """The ``wanted`` port, else the one of the last start, else a free one; kept in the file.

    One of the last start that is taken now, or to be left alone, is given up, and the log says so: what others
    remember of it is void.
    Raises BrokerUnavailable when there is no free port, FolderUnusable when the file cannot be written.
    """
    kept = _kept(path)
    if wanted is not None:
        port = wanted
    elif kept is not None and kept not in leave_alone and _is_free(kept):
        port = kept
    else:
        port = _free_port(leave_alone)
        if kept is not None:
            _log.warning("port-changed", file=path.name, before=kept, port=port, hint="another has the one before")
    if port != kept:
        write_private(path, dumps_text({"port": port}) + "\n")
    return port


def _kept(path: Path) -> int | None:
    try:
        content = loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, MalformedJson):
        return None
    match content:
        case {"port": int(port)} if 0 < port <= PORT_MAX:
            return port
        case _:
            return None


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Connections of the control before may still be closing; that does not keep the next one from listening.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _free_port(leave_alone: frozenset[int]) -> int:
    for _ in range(TRIES_MAX):
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port = int(probe.getsockname()[1])
        if port not in leave_alone:
            return port
    raise BrokerUnavailable("no free port on the loopback address", hint="close some of its users")
