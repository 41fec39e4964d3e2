"""The oracle's reading of spend ceilings: periods by the standard library's calendar, and what was spent in them."""

from dataclasses import dataclass
from datetime import date, timedelta

from fireledger.domain.entries import Period
from tests.simulation.brute_force import SECOND, Offsets

_EPOCH = date(1970, 1, 1)
DAY_S = 86_400


@dataclass
class Spending:
    """What counts under one ceiling in its period [start, end), and what was spent since."""

    amount: int
    start: int = 0
    end: int = 0
    spent: int = 0
    later: int = 0

    @property
    def exhausted(self) -> bool:
        """Whether the amount is used up."""
        return self.spent >= self.amount

    def charge(self, cost: int, now: int) -> None:
        """A page of this now observes a cost."""
        if now >= self.end:
            self.later += cost
        else:
            self.spent += cost

    def begin(self, start: int, end: int) -> None:
        """The next period begins with what was spent since the last one."""
        self.start, self.end, self.spent, self.later = start, end, self.later, 0


def period(per: Period, now: int, offsets: Offsets) -> tuple[int, int]:
    """The period around ``now``; the first of two passes of an hour begins a day, whatever the second shows."""
    today = _EPOCH + timedelta(days=(now // SECOND + offsets.at(now // SECOND)) // DAY_S)
    first = {"day": today, "week": today - timedelta(days=today.isoweekday() - 1), "month": today.replace(day=1)}[per]
    following = _next(per, first)
    if _midnight(following, offsets) <= now:
        first, following = following, _next(per, following)
    return _midnight(first, offsets), _midnight(following, offsets)


def _next(per: Period, first: date) -> date:
    if per == "month":
        return (first + timedelta(days=31)).replace(day=1)
    return first + timedelta(days=1 if per == "day" else 7)


def _midnight(day: date, offsets: Offsets) -> int:
    return offsets.instant_of((day - _EPOCH).days * DAY_S * SECOND)
