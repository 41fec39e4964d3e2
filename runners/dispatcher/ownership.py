"""Which slots a dispatcher may start attempts for. Leases give the answer; a test may give another."""

from collections.abc import Callable
from typing import Protocol


class Ownership(Protocol):
    """The slots this runner holds. The log, not this, decides what is done twice."""

    def owns_slot(self, slot: int) -> bool:
        """Whether the slot is held just now: False as soon as the own lease might have expired."""
        ...

    def epoch_of(self, slot: int) -> int:
        """The lease epoch under which the slot is held; 0 when it is not."""
        ...

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back whenever slots were gained or lost. Returns what removes the callback."""
        ...
