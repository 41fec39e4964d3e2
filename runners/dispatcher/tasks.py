"""The attempts that are still to be made or answered, folded from the log. No I/O: it only knows what was read."""

from collections.abc import Iterator
from dataclasses import dataclass

from fireledger.domain.book import Folded
from fireledger.domain.definition import Definition
from fireledger.domain.entries import (
    AttemptRecord,
    AttemptStarted,
    FireFinished,
    FireReleased,
    FireWithdrawn,
    Lane,
    TriggerAmended,
    TriggerCreated,
    TriggerDeleted,
)
from fireledger.domain.identifiers import FireKey, slot_of
from fireledger.domain.state import State
from fireledger.projections.ledger_fold import FoldedAttempts

from .lanes import rank_of


@dataclass(slots=True, kw_only=True, eq=False)
class Task:
    """A released attempt without a result.

    ``started_at``: the broker's timestamp of its last started record; ``watched_at``: that of the one whose silence
    this process watches. ``busy``: this process is on it. ``closed``: it has a result, its fire is over, or a later
    attempt was released; nothing may be sent any more.
    """

    key: FireKey
    attempt: int
    slot: int
    lane: Lane
    definition: Definition
    definition_page: int
    over_quota: bool = False
    started_at: int | None = None
    watched_at: int | None = None
    busy: bool = False
    closed: bool = False

    @property
    def target(self) -> str:
        """Where the attempt goes."""
        return self.definition.target

    @property
    def rank(self) -> int:
        """Its place in the order of the lanes."""
        return rank_of(self.lane, over_quota=self.over_quota)


@dataclass(frozen=True, slots=True)
class Start:
    """A task to be started, as it stood when that was decided: ``started_at`` is not None for a resend."""

    task: Task
    started_at: int | None

    @property
    def rank(self) -> int:
        """The task's place in the order of the lanes."""
        return self.task.rank

    @property
    def record(self) -> AttemptStarted:
        """The record that says so."""
        key = self.task.key
        return AttemptStarted(
            tenant=key.tenant,
            trigger=key.trigger,
            scheduled=key.scheduled,
            sequence=key.sequence,
            attempt=self.task.attempt,
            definition_page=self.task.definition_page,
            timeout=self.task.definition.timeout,
            resend=self.resend,
        )

    @property
    def needed(self) -> bool:
        """Whether it is still open and nobody started it in between."""
        return not self.task.closed and self.task.started_at == self.started_at

    @property
    def resend(self) -> bool:
        """Whether the same attempt began before."""
        return self.started_at is not None


class UnknownDefinition(AssertionError):
    """A released entry names a definition page that the book does not have."""


class Tasks:
    """All open tasks by slot, and the definitions they may need.

    Definitions, payloads included, are those of the folded books themselves, so nothing is held twice; older ones
    are kept while an open or a waiting fire refers to them.
    """

    def __init__(self) -> None:
        self._slots: dict[int, dict[FireKey, Task]] = {}
        self._definitions: dict[tuple[str, str], dict[int, Definition]] = {}
        self.open_count = 0
        """Tasks without a result."""

    def of_slot(self, slot: int) -> list[Task]:
        """The slot's open tasks in the order of their release."""
        return list(self._slots.get(slot, {}).values())

    def slots(self) -> list[int]:
        """The slots with open tasks."""
        return list(self._slots)

    def find(self, key: FireKey) -> Task | None:
        """The fire's open task."""
        return self._slots.get(slot_of(key.tenant), {}).get(key)

    def apply_book(self, folded: Folded) -> list[Task]:
        """Take a book page's entries, if it took effect; the tasks it released, in order."""
        if not folded.effective:
            return []
        released: list[Task] = []
        tenant, state = folded.page.tenant, folded.book.state
        for entry in folded.page.entries:
            match entry:
                case TriggerCreated() | TriggerAmended():
                    versions = self._definitions.setdefault((tenant, entry.trigger), {})
                    versions[folded.page.number] = entry.definition
                    self._forget_definitions(tenant, entry.trigger, state)
                case TriggerDeleted():
                    self._forget_definitions(tenant, entry.trigger, state)
                case FireReleased():
                    released.append(self._release(tenant, entry))
                case FireFinished() | FireWithdrawn():
                    self._close(entry.key(tenant))
                    self._forget_definitions(tenant, entry.trigger, state)
                case _:
                    pass
        return [task for task in released if not task.closed]

    def apply_attempts(self, folded: FoldedAttempts) -> Iterator[tuple[AttemptRecord, Task | None]]:
        """Take an attempts or reports page; each record with the open task it was about."""
        for record in folded.page.records:
            task = self.find(record.fire)
            if task is not None and task.attempt != record.attempt:
                task = None
            if task is not None:
                if isinstance(record, AttemptStarted):
                    task.started_at = folded.stamped_at
                else:
                    self._close(task.key)
            yield record, task

    def _release(self, tenant: str, entry: FireReleased) -> Task:
        key = entry.key(tenant)
        definition = self._definitions.get((tenant, entry.trigger), {}).get(entry.definition_page)
        if definition is None:
            raise UnknownDefinition(f'fire "{key}" refers to page {entry.definition_page}, which defines no trigger')
        self._close(key)
        task = Task(
            key=key,
            attempt=entry.attempt,
            slot=slot_of(tenant),
            lane=entry.lane,
            definition=definition,
            definition_page=entry.definition_page,
            over_quota=entry.over_quota,
        )
        self._slots.setdefault(task.slot, {})[key] = task
        self.open_count += 1
        return task

    def _close(self, key: FireKey) -> None:
        slot = slot_of(key.tenant)
        tasks = self._slots.get(slot, {})
        task = tasks.pop(key, None)
        if task is not None:
            task.closed = True
            self.open_count -= 1
            if not tasks:
                del self._slots[slot]

    def _forget_definitions(self, tenant: str, name: str, state: State) -> None:
        """Forget a trigger's definitions that nothing can refer to any more."""
        versions = self._definitions.get((tenant, name))
        trigger = state.triggers.get(name)
        if versions is None or trigger is None or (len(versions) == 1 and not trigger.deleted):
            return
        needed = {fire.definition_page for fire in trigger.open} | {fire.definition_page for fire in trigger.waiting}
        if not trigger.deleted:
            needed.add(trigger.definition_page)
        for page in [page for page in versions if page not in needed]:
            del versions[page]
        if not versions:
            del self._definitions[tenant, name]
