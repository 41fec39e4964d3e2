"""When this scheduler cannot keep up: how much of the work is held back, the least urgent first.

The published order is backfill, catch-up, over-quota, on-time (DESIGN section 5, rule 4). What is measured is the
time that one round of deciding takes: from the moment it began until every book that was due then is in a page.
"""

LEVEL_AFTER_S = (1.0, 2.0, 4.0, 30.0)
"""A round this long raises the level to 1, 2, 3, 4: the last one drops on-time fires and so needs a real emergency."""
CALM_S = 2.0
"""The level falls by one after this long without a round that would have raised it as far."""


class Shedding:
    """The present level, 0 to 4."""

    def __init__(self) -> None:
        self.level = 0
        self._calm_since_s = 0.0

    def note_round(self, took_s: float, now_s: float) -> None:
        """Take in how long a round took, at its end."""
        wanted = sum(took_s >= least for least in LEVEL_AFTER_S)
        if wanted >= self.level:
            self.level = wanted
            self._calm_since_s = now_s
        elif now_s - self._calm_since_s >= CALM_S:
            self.level -= 1
            self._calm_since_s = now_s
