"""What the scheduler asks of whoever knows which slots it owns: leases in service, anything in a test."""

from collections.abc import Callable
from typing import Protocol


class Ownership(Protocol):
    """Which slots this runner owns, now. It may be wrong for a while: the log keeps two owners from harm."""

    def owns_slot(self, slot: int) -> bool:
        """Whether decisions for the slot's books are this runner's to make."""
        ...

    def owned_slots(self) -> frozenset[int]:
        """Every slot for which ``owns_slot`` is true now."""
        ...

    def epoch_of(self, slot: int) -> int:
        """The epoch of the lease under which the slot is owned; goes into the page."""
        ...

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back, on the loop, whenever ownership may have changed. Returns what removes the callback."""
        ...
