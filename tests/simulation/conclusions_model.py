"""What observed results must lead to, by the plain rules: an outcome, a wait for a person, or the next attempt."""

from collections.abc import Sequence
from dataclasses import dataclass

from fireledger.domain import entries as e
from fireledger.domain.definition import Retry
from tests.simulation.invariants import Invariant, require
from tests.simulation.trigger_model import FireId, Opened, TriggerModel

SPREAD_PERCENT = 25


@dataclass(frozen=True, slots=True)
class Record:
    """An attempt record of a tenant as the log holds it."""

    sequence: int
    stamped_at: int
    record: e.AttemptRecord

    @property
    def fire(self) -> FireId:
        """Which fire of its trigger it is about."""
        return self.record.scheduled, self.record.sequence


@dataclass(slots=True)
class Expected:
    """A conclusion that a page must hold: ``kind`` is an outcome, "held" or "retry"."""

    trigger: str
    fire: FireId
    kind: str
    attempt: int
    earliest: int = 0
    latest: int = 0
    """Of a retry: the bounds of its instant."""


def nominal(retry: Retry, attempt: int) -> int:
    """The wait after a failed attempt without spread: rounded down at each step, cut at the cap."""
    wait = retry.base
    for _ in range(1, attempt):
        wait = min(wait, retry.cap) * retry.factor // 100
    return min(wait, retry.cap)


def expected(triggers: dict[str, TriggerModel], observed: Sequence[Record]) -> list[Expected]:
    """The conclusions from a page's observed records, in their order; the starts among them are noted."""
    for each in observed:
        if isinstance(each.record, e.AttemptStarted):
            fire = _open(triggers, each)
            if fire is not None:
                fire.started_at = max(each.stamped_at, fire.started_at or 0)
    found: list[Expected] = []
    last: dict[tuple[str, FireId], str] = {}
    for each in observed:
        record, fire = each.record, _open(triggers, each)
        name = (record.trigger, each.fire)
        before = last.get(name, "held" if fire and fire.held else "retry" if fire and fire.retry_at is not None else "")
        if fire is None or isinstance(record, e.AttemptStarted) or before in ("succeeded", "failed", "unknown"):
            continue
        if not before and fire.deadline is not None and each.stamped_at >= fire.deadline:
            continue
        conclusion = _conclusion(triggers[record.trigger], fire, each, record, before)
        if conclusion is not None:
            found.append(conclusion)
            last[name] = conclusion.kind
    return found


def _open(triggers: dict[str, TriggerModel], each: Record) -> Opened | None:
    """The open fire of a record that is about its present attempt."""
    trigger = triggers.get(each.record.trigger)
    fire = None if trigger is None else trigger.open.get(each.fire)
    return fire if fire is not None and fire.attempt == each.record.attempt else None


def _conclusion(
    trigger: TriggerModel, fire: Opened, each: Record, record: e.AttemptResult | e.AttemptReported, before: str
) -> Expected | None:
    told = Expected(trigger.name, each.fire, "", record.attempt)
    match record.result:
        case "succeeded":
            told.kind = "succeeded"
        case "final":
            told.kind = "failed"
        case "held" if before != "held" and not fire.let_go:
            told.kind = "held"
        case "retryable" | "timeout" if not before:
            retry = trigger.definition.retry
            told.kind = "unknown" if record.result == "timeout" else "failed"
            if record.attempt < retry.attempts and not fire.of_deleted:
                asked = record.retry_after or 0 if isinstance(record, e.AttemptResult) else 0
                wait = max(nominal(retry, record.attempt), min(asked, retry.cap))
                told.kind, told.earliest = "retry", each.stamped_at + wait
                told.latest = told.earliest + wait * SPREAD_PERCENT // 100
        case _:
            return None
    return told


def check_conclusion(entry: e.FireFinished | e.FireHeld | e.RetryScheduled, due: Expected | None, text: str) -> None:
    """Hold an entry against the conclusion that is due. Raises Violation."""
    invariant: Invariant = "retry-instant" if isinstance(entry, e.RetryScheduled) else "outcome-true"
    found = f"{text} has {entry}, due is {due}"
    require(due is not None, invariant, found)
    assert due is not None
    same = (entry.trigger, (entry.scheduled, entry.sequence)) == (due.trigger, due.fire)
    right = False
    match entry:
        case e.FireFinished():
            right = entry.outcome == due.kind and entry.attempt == due.attempt
        case e.FireHeld():
            right = due.kind == "held" and entry.attempt == due.attempt
        case e.RetryScheduled():
            right = due.kind == "retry" and entry.attempt == due.attempt + 1
            require(not right or due.earliest <= entry.at <= due.latest, "retry-instant", found)
    require(same and right, invariant, found)
