"""An ownership for tests: of everything, or of what the test says."""

from collections.abc import Callable

from fireledger.domain.limits import SLOT_COUNT


class Owned:
    """Owns every slot but those in ``without``. ``change`` tells whoever asked to be told."""

    def __init__(self, without: set[int] | None = None) -> None:
        self.without = without if without is not None else set[int]()
        self.callbacks: list[Callable[[], None]] = []

    def owns_slot(self, slot: int) -> bool:
        """Whether the slot is owned."""
        return slot not in self.without

    def owned_slots(self) -> frozenset[int]:
        """Every slot for which ``owns_slot`` is true."""
        return frozenset(slot for slot in range(SLOT_COUNT) if self.owns_slot(slot))

    def epoch_of(self, slot: int) -> int:
        """A constant epoch for what is owned."""
        return 7 if self.owns_slot(slot) else 0

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back at each change."""
        self.callbacks.append(callback)
        return lambda: self.callbacks.remove(callback)

    def change(self, without: set[int]) -> None:
        """Own everything but these from now on, and say so."""
        self.without = without
        for callback in tuple(self.callbacks):
            callback()
