"""A scheduler's tick: everything that is due in one book at one instant (DESIGN section 5, rules 1 to 7)."""

from bisect import bisect_right
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from msgspec.structs import replace

from . import entries as e
from .due import next_due
from .evolve import fold_observed
from .inputs import Inputs
from .limits import CAUSE_LENGTH_MAX, WAITING_MAX
from .owed import Judgement, Owed, Run, Timeline, owed_runs
from .page import Quarantine
from .state import OpenFire, State, TriggerState, WaitingFire

_P = ParamSpec("_P")
_T = TypeVar("_T")
_FireId = tuple[str, int, int]

_UNLISTED: dict[Judgement, tuple[e.Unfired, e.UnfiredCause]] = {
    "expired": ("expired", "beyond-horizon"),
    "skip-paused": ("skipped", "paused"),
    "skip-quarantined": ("skipped", "quarantined"),
}
"""What becomes of runs that no policy can fire."""


class UndecidableTrigger(Exception):
    """Deciding this trigger failed; the writer names it in the next try's quarantine input."""

    def __init__(self, trigger: str, cause: str) -> None:
        super().__init__(f'trigger "{trigger}" cannot be decided: {cause}')
        self.trigger = trigger
        self.cause = cause

    def quarantine(self) -> Quarantine:
        """The input with which the same decision can be tried again."""
        return Quarantine(self.trigger, self.cause[:CAUSE_LENGTH_MAX])


def guarded(trigger: str, decided: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call ``decided``; raise UndecidableTrigger with the trigger's name for whatever it raises."""
    try:
        return decided(*args, **kwargs)
    except Exception as error:
        raise UndecidableTrigger(trigger, f"{type(error).__name__}: {error}") from error


def tick(state: State, inputs: Inputs) -> tuple[e.BookEntry, ...]:
    """The entries of one tick: what was observed, what follows from it, and what is due, oldest due first.

    Raises UndecidableTrigger when one trigger's decision fails, and UnknownZoneData when the book's
    time-zone database is not loaded; nothing is decided then.
    """
    recorded = inputs.recorded
    limit = recorded.entry_limit
    assert 2 * len(inputs.observed) <= limit, "observed entries need room for what follows from them"
    # Looked up before any trigger is: data that this node has not loaded is no reason to quarantine.
    inputs.zones.database(state.zone_sha256)
    entries: list[e.BookEntry] = list(inputs.observed)
    if recorded.step:
        entries.append(e.ClockNoted(step=recorded.step, source=recorded.clock_source))
    observed_state = fold_observed(state, inputs.observed, recorded.now)
    conclusions = _conclusions(observed_state, inputs.observed)
    entries.extend(conclusions)
    quarantined = {item.trigger: item.cause for item in recorded.quarantine}
    for name in sorted(quarantined):
        trigger = observed_state.live(name)
        if trigger is not None and trigger.quarantine is None:
            entries.append(e.TriggerQuarantined(trigger=name, cause=quarantined[name]))
    concluded = {_fire_id(entry): entry for entry in conclusions}
    for trigger in _due_in_order(observed_state, inputs, quarantined):
        decision = _TriggerDecision(observed_state, trigger, _still_open(trigger, concluded), inputs)
        guarded(trigger.name, decision.run)
        room = limit - len(entries)
        if len(decision.entries) > room:
            entries.extend(decision.entries[: decision.cut(room)])
            break
        entries.extend(decision.entries)
    return tuple(entries)


def _due_in_order(state: State, inputs: Inputs, quarantined: dict[str, str]) -> list[TriggerState]:
    observed = {entry.trigger for entry in inputs.observed}
    names = set(state.triggers) if inputs.due is None else inputs.due | observed
    due: list[tuple[int, str]] = []
    for name in names - quarantined.keys():
        trigger = state.triggers.get(name)
        if trigger is None:
            continue
        at = guarded(name, next_due, state, trigger, inputs.zones)
        if at is not None and at <= inputs.recorded.now:
            due.append((at, name))
        elif trigger.waiting and trigger.deciding and name in observed:
            due.append((inputs.recorded.now, name))
    return [state.triggers[name] for _, name in sorted(due)]


def _still_open(trigger: TriggerState, concluded: dict[_FireId, e.FireFinished | e.FireHeld]) -> list[OpenFire]:
    """The open fires as the conclusions leave them: finished ones gone, held ones open without a window."""
    if not concluded:
        return list(trigger.open)
    left: list[OpenFire] = []
    for fire in trigger.open:
        match concluded.get((trigger.name, fire.scheduled, fire.sequence)):
            case None:
                left.append(fire)
            case e.FireHeld():
                left.append(replace(fire, held=True))
            case e.FireFinished():
                pass
    return left


def _fire_id(entry: e.FireEntry) -> _FireId:
    return entry.trigger, entry.scheduled, entry.sequence


def _conclusions(state: State, observed: tuple[e.AttemptObserved, ...]) -> list[e.FireFinished | e.FireHeld]:
    """What results say about open fires; a result after the window's end, or of another attempt, says nothing."""
    found: list[e.FireFinished | e.FireHeld] = []
    finished: set[_FireId] = set()
    held: set[_FireId] = set()
    for entry in observed:
        identity = _fire_id(entry)
        fire = _open_fire(state, entry)
        if entry.result is None or fire is None or identity in finished:
            continue
        is_held = fire.held or identity in held
        if not is_held and fire.deadline is not None and entry.stamped_at >= fire.deadline:
            continue
        match _conclusion(entry):
            case e.FireFinished() as conclusion:
                found.append(conclusion)
                finished.add(identity)
            case e.FireHeld() as conclusion if not is_held:
                found.append(conclusion)
                held.add(identity)
            case _:
                pass
    return found


def _open_fire(state: State, entry: e.AttemptObserved) -> OpenFire | None:
    trigger = state.triggers.get(entry.trigger)
    for fire in trigger.open if trigger else ():
        if (fire.scheduled, fire.sequence, fire.attempt) == (entry.scheduled, entry.sequence, entry.attempt):
            return fire
    return None


def _conclusion(entry: e.AttemptObserved) -> e.FireFinished | e.FireHeld | None:
    match entry.result:
        case "succeeded":
            return _finished(entry, "succeeded", "executor")
        case "final":
            return _finished(entry, "failed", "refused by the executor")
        case "retryable":
            return _finished(entry, "failed", "no attempts left")
        case "timeout":
            return _finished(entry, "unknown", "the last attempt timed out")
        case "held":
            return e.FireHeld(
                trigger=entry.trigger,
                scheduled=entry.scheduled,
                sequence=entry.sequence,
                attempt=entry.attempt,
                message=entry.message,
            )
        case _:
            return None


def _finished(entry: e.AttemptObserved, outcome: e.Outcome, cause: str) -> e.FireFinished:
    return e.FireFinished(
        trigger=entry.trigger,
        scheduled=entry.scheduled,
        sequence=entry.sequence,
        outcome=outcome,
        cause=cause,
        attempt=entry.attempt,
    )


class _TriggerDecision:
    """The decision about one trigger: ``entries``, which may be cut where ``cut`` says and nowhere else.

    Missed instants are written together with the fire they are coalesced into: a later page might
    coalesce that one into yet another.
    """

    def __init__(self, state: State, trigger: TriggerState, still_open: list[OpenFire], inputs: Inputs) -> None:
        self.entries: list[e.BookEntry] = []
        self._starts: list[int] = []
        self._state = state
        self._trigger = trigger
        self._definition = trigger.definition
        self._now = inputs.recorded.now
        self._as_of_read_at = inputs.recorded.as_of_read_at
        self._zones = inputs.zones
        self._open: list[e.Lane] = []
        self._still_open = still_open
        self._waiting = list(trigger.waiting)
        self._fired_count = trigger.fired_count
        self._awaited: int | None = None
        self._joined = False

    def run(self) -> None:
        """Fill ``entries``."""
        self._close_windows()
        if not self._trigger.deciding:
            return
        self._release_waiting()
        for segment in self._trigger.segments:
            if self._exhausted():
                return
            timeline = Timeline(self._state, self._trigger, segment, self._zones)
            last = self._decide_segment(timeline)
            if segment.until is not None and not self._exhausted() and timeline.next_undecided(last) is None:
                self._emit(e.SegmentSettled(trigger=self._trigger.name, until=segment.until))

    def cut(self, room: int) -> int:
        """How many of the first ``entries`` fit into ``room`` and may be written without the others."""
        return self._starts[bisect_right(self._starts, room) - 1]

    def _emit(self, *entries: e.BookEntry) -> None:
        """Write entries that belong together, and to the ones before if these still await their fire."""
        if not self._joined:
            self._starts.append(len(self.entries))
        self.entries.extend(entries)

    def _exhausted(self) -> bool:
        return self._definition.max_fires is not None and self._fired_count >= self._definition.max_fires

    def _close_windows(self) -> None:
        """Rule 7: an outcome window over, and the leader asked for later results, ends the fire as unknown."""
        for fire in self._still_open:
            deadline = fire.deadline
            if deadline is None or deadline > min(self._now, self._as_of_read_at):
                self._open.append(fire.lane)
                continue
            self._emit(
                e.FireFinished(
                    trigger=self._trigger.name,
                    scheduled=fire.scheduled,
                    sequence=fire.sequence,
                    outcome="unknown",
                    cause="outcome window over",
                    attempt=fire.attempt,
                )
            )

    def _release_waiting(self) -> None:
        """Rule 5: what waits goes on when nothing is open: a waiting on-time fire first, then the oldest."""
        while self._waiting and (self._definition.overlap == "allow" or not self._open):
            fire = min(self._waiting, key=lambda each: (each.lane != "on-time", each.scheduled, each.sequence))
            self._waiting.remove(fire)
            self._open.append(fire.lane)
            self._emit(
                e.FireReleased(
                    trigger=self._trigger.name,
                    scheduled=fire.scheduled,
                    sequence=fire.sequence,
                    release=fire.release,
                    definition_page=fire.definition_page,
                    lane=fire.lane,
                    cause=fire.cause,
                    decides=False,
                    over_quota=fire.over_quota,
                )
            )

    def _decide_segment(self, timeline: Timeline) -> int | None:
        """Decide what the segment owes; the last instant decided, if any."""
        d = self._definition
        keep = {"fire-all": d.cap, "fire-once-now": 1, "skip": 0}[d.missed]
        runs = owed_runs(timeline, self._trigger.pauses, d.horizon, self._now, keep=keep)
        on_time = [owed for run in runs if run.judgement == "on-time" for owed in run.listed]
        missed = [owed for run in runs if run.judgement in ("missed", "missed-paused") for owed in run.listed]
        firing = self._caught_up(missed, has_on_time=bool(on_time))
        into = on_time[0].scheduled if on_time else (missed[-1].scheduled if missed else None)
        self._awaited = into
        for run in runs:
            if run.judgement == "on-time":
                self._fire_on_time(run)
            elif run.judgement == "taken":
                self._resolve(run, "coalesced", "coalesced", run.first)
            elif run.judgement in ("missed", "missed-paused"):
                self._resolve_missed(run, timeline, firing, into)
            else:
                self._resolve(run, *_UNLISTED[run.judgement])
            if self._exhausted():
                break
        return runs[-1].last if runs else None

    def _caught_up(self, missed: list[Owed], *, has_on_time: bool) -> frozenset[int]:
        """Which missed instants the policy fires."""
        room = len(missed) if self._definition.max_fires is None else self._definition.max_fires - self._fired_count
        if self._definition.missed == "fire-all":
            count = min(self._definition.cap, room)
        elif self._definition.missed == "fire-once-now" and not has_on_time:
            count = min(1, room)
        else:
            count = 0
        return frozenset(owed.scheduled for owed in missed[len(missed) - min(count, len(missed)) :])

    def _resolve_missed(self, run: Run, timeline: Timeline, firing: frozenset[int], into: int | None) -> None:
        """Join what does not fire into ranges; fire the rest in order."""
        first, last, count = run.first, run.last, run.count - len(run.listed)
        if count and run.listed:
            before = timeline.last_until(run.listed[0].scheduled - 1)
            assert before is not None, "counted instants come before the listed ones"
            last = before
        for owed in run.listed:
            if owed.scheduled not in firing:
                first, last, count = first if count else owed.scheduled, owed.scheduled, count + 1
                continue
            self._resolve_idle(Run(run.judgement, first, last, count), into)
            count = 0
            self._fire_caught_up(owed)
        self._resolve_idle(Run(run.judgement, first, last, count), into)

    def _resolve_idle(self, joined: Run, into: int | None) -> None:
        if not joined.count:
            return
        if self._definition.missed == "fire-all":
            self._resolve(joined, "dropped", "over-cap")
        elif self._definition.missed == "fire-once-now":
            self._resolve(joined, "coalesced", "coalesced", into)
            self._joined = self._awaited is not None
        else:
            self._resolve(joined, "skipped", "paused" if joined.judgement == "missed-paused" else "missed")

    def _resolve(self, run: Run, state: e.Unfired, cause: e.UnfiredCause, into: int | None = None) -> None:
        self._emit(
            e.InstantsResolved(
                trigger=self._trigger.name,
                first=run.first,
                last=run.last,
                count=run.count,
                state=state,
                cause=cause,
                into=into,
            )
        )

    def _fire_caught_up(self, owed: Owed) -> None:
        if self._definition.overlap == "allow" or not (self._open or self._waiting):
            self._release(owed, "catch-up", "caught-up")
        elif len(self._waiting) >= WAITING_MAX:
            self._resolve(Run("missed", owed.scheduled, owed.scheduled, 1), "dropped", "over-cap")
        else:
            self._wait(owed, "catch-up", "caught-up")
        self._settle_awaited(owed)

    def _fire_on_time(self, run: Run) -> None:
        for owed in run.listed:
            if self._exhausted():
                return
            self._on_time(owed)
            self._settle_awaited(owed)

    def _settle_awaited(self, owed: Owed) -> None:
        if owed.scheduled == self._awaited:
            self._awaited = None
            self._joined = False

    def _on_time(self, owed: Owed) -> None:
        overlap = self._definition.overlap
        if overlap == "allow" or not self._open:
            self._release(owed, "on-time", "on-time")
        elif overlap == "skip" and "on-time" in self._open:
            self._resolve(Run("on-time", owed.scheduled, owed.scheduled, 1), "skipped", "overlap")
        else:
            self._wait(owed, "on-time", "on-time")

    def _release(self, owed: Owed, lane: e.Lane, cause: e.FireCause) -> None:
        self._fired_count += 1
        self._open.append(lane)
        self._emit(
            e.FireReleased(
                trigger=self._trigger.name,
                scheduled=owed.scheduled,
                release=owed.release,
                definition_page=self._trigger.definition_page,
                lane=lane,
                cause=cause,
            )
        )

    def _wait(self, owed: Owed, lane: e.Lane, cause: e.FireCause) -> None:
        """Let a decided fire wait; an on-time one replaces the on-time one that waits already."""
        replaced = [fire for fire in self._waiting if lane == fire.lane == "on-time"]
        for fire in replaced:
            self._waiting.remove(fire)
        self._fired_count += 1 - len(replaced)
        waiting = WaitingFire(
            scheduled=owed.scheduled,
            sequence=0,
            release=owed.release,
            lane=lane,
            cause=cause,
            definition_page=self._trigger.definition_page,
            over_quota=False,
        )
        self._waiting.append(waiting)
        self._emit(
            *(self._replaced(fire) for fire in replaced),
            e.FireDecided(
                trigger=self._trigger.name,
                scheduled=owed.scheduled,
                release=owed.release,
                definition_page=self._trigger.definition_page,
                lane=lane,
                cause=cause,
            ),
        )

    def _replaced(self, fire: WaitingFire) -> e.FireWithdrawn:
        return e.FireWithdrawn(
            trigger=self._trigger.name,
            scheduled=fire.scheduled,
            sequence=fire.sequence,
            state="skipped",
            cause="replaced",
        )
