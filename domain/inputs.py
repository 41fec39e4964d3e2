"""What a decision may look at besides the state and the command: the page's recorded inputs and resolved data."""

from dataclasses import dataclass

from .entries import AttemptObserved
from .page import PageInputs
from .zones import ZoneLibrary


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of one decision.

    ``recorded`` goes into the page as it is; ``observed`` become the page's first entries; ``zones`` is
    content-addressed by the state's time-zone hash, hence no input of its own. ``due`` names the triggers
    that may have something due beside fires that wait, and ``waiting`` those in which a waiting fire may be released:
    both only save work, and ``due`` None (look at every trigger) gives the same entries.
    """

    recorded: PageInputs
    zones: ZoneLibrary
    observed: tuple[AttemptObserved, ...] = ()
    due: frozenset[str] | None = None
    waiting: frozenset[str] = frozenset()
    request_id: str = ""
    request_sha256: bytes = b""
