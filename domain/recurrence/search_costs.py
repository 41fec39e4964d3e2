"""What searches for next instants have cost in this process: a count beside the answers, which no answer depends on."""


class SearchCosts:
    """``count`` searches took ``steps`` in all, the dearest of them ``largest``.

    A step is the same few operations. Answers that were still known from the search before are no searches.
    """

    __slots__ = ("_beyond_one", "_dearest", "count")

    def __init__(self) -> None:
        self.count = 0
        self._beyond_one = 0
        self._dearest = 1

    @property
    def steps(self) -> int:
        """All steps of all searches."""
        return self.count + self._beyond_one

    @property
    def largest(self) -> int:
        """The most steps of one search; 0 before the first."""
        return self._dearest if self.count else 0

    def add_long(self, steps: int) -> None:
        """Note the steps of a search, which is counted already, beyond one: nearly all searches take one."""
        self._beyond_one += steps - 1
        self._dearest = max(self._dearest, steps)


SEARCH_COSTS = SearchCosts()
"""Of this process, since it began."""
