"""What a scheduler says about itself."""

import msgspec


class BlockedBook(msgspec.Struct, frozen=True, kw_only=True):
    """A book in which something is due and nothing can be decided for now, and why."""

    tenant: str
    reason: str


class SchedulerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler's present state. Instants and epsilon in microseconds; counts since the process began.

    ``searches`` for next instants took ``search_steps`` in all, and the dearest one ``search_steps_max``: a step is the
    same few operations, and nearly every search takes one.
    """

    runner: str
    ready: bool
    position: int
    owned_slots: int
    owned_books: int
    triggers_with_rows: int
    rows_diverged: int
    next_due_at: int | None
    pages_in_flight: int
    pages_committed: int
    entries_committed: int
    conflicts: int
    pages_ineffective: int
    outcomes_unknown: int
    leader_reads: int
    triggers_quarantined: int
    shedding_level: int
    searches: int
    search_steps: int
    search_steps_max: int
    clock_usable: bool
    clock_source: str
    epsilon: int
    blocked: tuple[BlockedBook, ...]


def figures_of(status: SchedulerStatus) -> dict[str, int]:
    """The status's counts and numbers by name; instants, texts and what ``blocked`` names left out."""
    fields = msgspec.structs.asdict(status)
    return {name: value for name, value in fields.items() if type(value) is int and not name.endswith("_at")}


BLOCKED_SHOWN_MAX = 20
"""Blocked books that a status names."""
