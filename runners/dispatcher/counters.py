"""What a dispatcher has done since it started, as plain numbers for ``status``."""

from collections import Counter

TARGETS_COUNTED_MAX = 1_000
"""Targets with a duplicates count of their own; further ones share the count under ``other``."""
OTHER = "other"


class Counters:
    """Counts since the start; they only grow."""

    def __init__(self) -> None:
        self.started = 0
        """Attempts whose started record this dispatcher committed."""
        self.results: Counter[str] = Counter()
        """Results by kind."""
        self.duplicates: Counter[str] = Counter()
        """Calls sent again because an earlier one's result is not known, by target."""
        self.lost_appends = 0
        """Pages that another dispatcher's page kept from being written."""
        self.pages = 0
        """Attempts pages written."""

    def duplicate(self, target: str) -> None:
        """Count a call that was sent again."""
        known = target in self.duplicates or len(self.duplicates) < TARGETS_COUNTED_MAX
        self.duplicates[target if known else OTHER] += 1
