"""What stands still in the books because of its executors or its costs: told in ``status``, by tenant."""

from collections import Counter
from collections.abc import Iterable, Iterator

from fireledger.domain.book import Book
from fireledger.domain.limits import FIRES_OPEN_MAX
from fireledger.domain.state import TriggerState

from .policy_answers import suspended_until


def held_fires(books: Iterable[Book]) -> Counter[str]:
    """How many fires of each tenant wait for a person, those of deleted triggers included."""
    return Counter(
        book.tenant for book in books for each in book.state.triggers.values() for fire in each.open if fire.held
    )


def suspended_triggers(books: Iterable[Book]) -> Counter[str]:
    """How many triggers of each tenant a spend ceiling of their own or of the tenant keeps from firing."""
    return Counter(book.tenant for book in books for each in _live(book) if suspended_until(book.state, each))


def full_triggers(books: Iterable[Book]) -> list[str]:
    """The triggers, as TENANT/TRIGGER, with as many fires without an outcome as there may be."""
    return [f"{book.tenant}/{each.name}" for book in books for each in _live(book) if len(each.open) >= FIRES_OPEN_MAX]


def worst_first(counts: Counter[str], most: int) -> dict[str, int]:
    """The tenants with the highest counts, at most so many."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most])


def _live(book: Book) -> Iterator[TriggerState]:
    return (trigger for trigger in book.state.triggers.values() if not trigger.deleted)
