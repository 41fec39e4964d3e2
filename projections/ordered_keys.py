"""Keys kept in order, for looking at the newest without looking at all of them."""

from bisect import bisect_left, insort
from collections.abc import Iterator

Key = tuple[int, str, int]
"""Scheduled instant, trigger and sequence."""

BLOCK_MAX = 512
"""Keys in one block: adding and removing move no more than these."""


class OrderedKeys:
    """A set of keys in ascending order: adding, removing and finding a place cost the logarithm of its size."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        # Each block is ascending and not empty, and ends before the next begins.
        self._blocks: list[list[Key]] = []

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def add(self, key: Key) -> None:
        """Add a key that is not there."""
        blocks = self._blocks
        if not blocks:
            blocks.append([key])
            return
        place = min(bisect_left(blocks, key, key=_last), len(blocks) - 1)
        block = blocks[place]
        insort(block, key)
        if len(block) > BLOCK_MAX:
            half = len(block) // 2
            blocks.insert(place + 1, block[half:])
            del block[half:]

    def remove(self, key: Key) -> None:
        """Remove a key that is there."""
        place = bisect_left(self._blocks, key, key=_last)
        block = self._blocks[place]
        index = bisect_left(block, key)
        assert block[index] == key, f"{key} is not there"
        del block[index]
        if not block:
            del self._blocks[place]

    def descending(self, before: Key | None) -> Iterator[Key]:
        """The keys strictly before ``before`` (None: all), the last one first. Not to be changed meanwhile."""
        place = len(self._blocks) if before is None else bisect_left(self._blocks, before, key=_last)
        if before is not None and place < len(self._blocks):
            block = self._blocks[place]
            yield from reversed(block[: bisect_left(block, before)])
        for block in reversed(self._blocks[:place]):
            yield from reversed(block)


def _last(block: list[Key]) -> Key:
    return block[-1]
