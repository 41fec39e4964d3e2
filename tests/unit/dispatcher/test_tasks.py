"""What the log leaves to be done."""

from fireledger.domain.book import Folded, empty_book, fold_page, next_page
from fireledger.domain.commands import AmendTrigger, Command, CreateTenant, CreateTrigger, DeleteTrigger, Tick
from fireledger.domain.decide import decide
from fireledger.domain.definition import Definition, TenantSettings, seal_plain
from fireledger.domain.entries import AttemptRecord, AttemptResult, AttemptStarted, FireFinished
from fireledger.domain.inputs import Inputs
from fireledger.domain.instants import MINUTE, SECOND, parse_instant
from fireledger.domain.page import AttemptsPage, PageInputs, encode_page
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.zones import ZoneLibrary
from fireledger.projections.ledger_fold import FoldedAttempts
from fireledger.runners.dispatcher.tasks import Task, Tasks
from fireledger.runners.zone_package import load_packaged_zones

ZONES = load_packaged_zones()
START = parse_instant("2026-11-30T09:00:00Z")


def _definition(payload: bytes, overlap: str = "allow") -> Definition:
    return Definition(
        schedule=parse_cron("* * * * *"),
        zone="UTC",
        gap="skip",
        fold="both",
        target="nats:report",
        payload=seal_plain(payload),
        overlap="queue" if overlap == "queue" else "allow",
    )


class _Log:
    """A book and attempts that are fed to tasks as a reader would."""

    def __init__(self) -> None:
        self.tasks = Tasks()
        self.sequence = 0
        self._book = empty_book("acme")
        settings = TenantSettings()
        self.write(CreateTenant(settings=settings, zone_version=ZONES.version, zone_sha256=ZONES.sha256), START)

    def write(self, command: Command, at: int, *, stamped_at: int | None = None) -> list[Task]:
        """Decide and fold a page; the tasks it released."""
        recorded = PageInputs(now=at, earliest=at, latest=at, clock_source="test", as_of=0, owner="test")
        inputs = Inputs(recorded=recorded, zones=ZoneLibrary(ZONES))
        entries = decide(self._book.state, command, inputs)
        assert isinstance(entries, tuple), entries
        page = next_page(self._book, commit_id="c", inputs=recorded, command=command, entries=entries)
        self.sequence += 1
        folded = fold_page(
            self._book, encode_page(page), stamped_at=at if stamped_at is None else stamped_at, sequence=self.sequence
        )
        self._book = folded.book
        return self.tasks.apply_book(folded)

    def finish(self, task: Task) -> None:
        """Fold a page that ends the task's fire."""
        recorded = PageInputs(
            now=self._book.state.now, earliest=self._book.state.now, latest=0, clock_source="", as_of=0, owner=""
        )
        entry = FireFinished(
            trigger=task.key.trigger, scheduled=task.key.scheduled, outcome="unknown", cause="test", attempt=1
        )
        page = next_page(self._book, commit_id="c", inputs=recorded, command=Tick(), entries=(entry,))
        self.tasks.apply_book(Folded(self._book, page, effective=True))

    def attempts(self, *records: AttemptRecord, stamped_at: int = START) -> list[Task | None]:
        """Fold an attempts page; the tasks its records are about."""
        page = AttemptsPage(
            slot=0, number=1, commit_id="c", previous_sha256=b"", previous_stamped_at=0, owner="o", epoch=1,
            records=records,
        )  # fmt: skip
        folded = FoldedAttempts("attempts.0", page, stamped_at, self.sequence)
        return [task for _, task in self.tasks.apply_attempts(folded)]


def _started(task: Task, attempt: int = 1) -> AttemptStarted:
    return AttemptStarted(
        tenant="acme", trigger=task.key.trigger, scheduled=task.key.scheduled, attempt=attempt, definition_page=2,
        timeout=SECOND,
    )  # fmt: skip


def _result(task: Task, attempt: int = 1) -> AttemptResult:
    return AttemptResult(
        tenant="acme", trigger=task.key.trigger, scheduled=task.key.scheduled, attempt=attempt, result="succeeded"
    )


def test_a_released_fire_is_a_task_until_its_result() -> None:
    """It is open, then started at the broker's instant, then closed and forgotten."""
    log = _Log()
    log.write(CreateTrigger(trigger="report", definition=_definition(b"x")), START)
    (task,) = log.write(Tick(), START + MINUTE)
    assert (task.attempt, task.lane, task.started_at, log.tasks.open_count) == (1, "on-time", None, 1)
    assert log.attempts(_started(task), stamped_at=START + MINUTE + 5) == [task]
    assert (task.started_at, task.closed) == (START + MINUTE + 5, False)
    log.attempts(_result(task))
    assert (task.closed, log.tasks.open_count, log.tasks.slots()) == (True, 0, [])


def test_records_of_another_attempt_change_nothing() -> None:
    """A late result of an attempt that is not the released one leaves the task open."""
    log = _Log()
    log.write(CreateTrigger(trigger="report", definition=_definition(b"x")), START)
    (task,) = log.write(Tick(), START + MINUTE)
    assert log.attempts(_started(task, attempt=2), _result(task, attempt=3)) == [None, None]
    assert (task.started_at, task.closed) == (None, False)


def test_a_page_without_effect_releases_nothing() -> None:
    """The broker stamped it a minute late, so its releases are no tasks."""
    log = _Log()
    log.write(CreateTrigger(trigger="report", definition=_definition(b"x")), START)
    assert log.write(Tick(), START + MINUTE, stamped_at=START + 2 * MINUTE) == []
    assert log.tasks.open_count == 0


def test_a_fire_that_is_over_closes_its_task() -> None:
    """Whatever was started, nothing may be sent any more."""
    log = _Log()
    log.write(CreateTrigger(trigger="report", definition=_definition(b"x")), START)
    (task,) = log.write(Tick(), START + MINUTE)
    log.attempts(_started(task))
    log.finish(task)
    assert task.closed


def test_a_fire_keeps_the_definition_it_was_decided_with() -> None:
    """An amended trigger's waiting fire goes out with the old payload, the next one with the new."""
    log = _Log()
    log.write(CreateTrigger(trigger="report", definition=_definition(b"old", "queue")), START)
    (first,) = log.write(Tick(), START + MINUTE)
    assert log.write(Tick(), START + 2 * MINUTE) == []
    log.write(AmendTrigger(trigger="report", definition=_definition(b"new", "queue")), START + 2 * MINUTE)
    log.write(AmendTrigger(trigger="report", definition=_definition(b"newer")), START + 2 * MINUTE)
    released = log.write(Tick(), START + 3 * MINUTE)
    assert first.definition.payload.data == b"old"
    assert [task.definition.payload.data for task in released] == [b"old", b"newer"]


def test_a_deleted_triggers_released_fire_is_still_made() -> None:
    """Deleting cancels what is not released; an open task keeps its definition."""
    log = _Log()
    log.write(CreateTrigger(trigger="report", definition=_definition(b"x")), START)
    (task,) = log.write(Tick(), START + MINUTE)
    log.write(DeleteTrigger(trigger="report"), START + MINUTE + SECOND)
    assert log.tasks.of_slot(task.slot) == [task]
    assert (task.closed, task.target) == (False, "nats:report")
