"""A scheduler's tick: everything that is due in one book at one instant (DESIGN section 5, rules 1 to 7)."""

from . import entries as e
from .due import exhausted, next_due
from .evolve import fold_observed
from .inputs import Inputs
from .limits import WAITING_MAX
from .owed import Judgement, Owed, Run, Timeline, owed_runs
from .state import OpenFire, State, TriggerState, WaitingFire


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


def tick(state: State, inputs: Inputs) -> tuple[e.BookEntry, ...]:
    """The entries of one tick: what was observed, what follows from it, and what is due, oldest due first.

    Raises UndecidableTrigger when one trigger's decision fails; nothing is decided then.
    """
    recorded = inputs.recorded
    limit = recorded.entry_limit
    assert 2 * len(inputs.observed) <= limit, "observed entries need room for what follows from them"
    entries: list[e.BookEntry] = list(inputs.observed)
    if recorded.step:
        entries.append(e.ClockNoted(step=recorded.step, source=recorded.clock_source))
    observed_state = fold_observed(state, inputs.observed, recorded.now)
    conclusions = _conclusions(observed_state, inputs.observed)
    entries.extend(conclusions)
    finished = {(entry.trigger, entry.scheduled, entry.sequence) for entry in conclusions}
    quarantined = {item.trigger: item.cause for item in recorded.quarantine}
    for name in sorted(quarantined):
        trigger = observed_state.live(name)
        if trigger is not None and trigger.quarantine is None:
            entries.append(e.TriggerQuarantined(trigger=name, cause=quarantined[name]))
    for trigger in _due_in_order(observed_state, inputs, quarantined):
        whole, rest = _decide_trigger(observed_state, trigger, inputs, finished)
        if len(entries) + len(whole) > limit:
            break
        entries.extend(whole)
        room = limit - len(entries)
        entries.extend(rest[:room])
        if len(rest) > room:
            break
    return tuple(entries)


def _due_in_order(state: State, inputs: Inputs, quarantined: dict[str, str]) -> list[TriggerState]:
    names = set(state.triggers) if inputs.due is None else set(inputs.due)
    names.update(entry.trigger for entry in inputs.observed)
    due: list[tuple[int, str]] = []
    for name in names - set(quarantined):
        trigger = state.triggers.get(name)
        if trigger is None:
            continue
        at = _guarded_next_due(state, trigger, inputs)
        if at is not None and at <= inputs.recorded.now:
            due.append((at, name))
        elif trigger.waiting and trigger.deciding and any(entry.trigger == name for entry in inputs.observed):
            due.append((inputs.recorded.now, name))
    return [state.triggers[name] for _, name in sorted(due)]


def _guarded_next_due(state: State, trigger: TriggerState, inputs: Inputs) -> int | None:
    try:
        return next_due(state, trigger, inputs.zones)
    except Exception as error:  # noqa: BLE001 - whatever one trigger raises must not stop the others
        raise UndecidableTrigger(trigger.name, f"{type(error).__name__}: {error}") from error


def _decide_trigger(
    state: State, trigger: TriggerState, inputs: Inputs, finished: set[tuple[str, int, int]]
) -> tuple[list[e.BookEntry], list[e.BookEntry]]:
    still_open = [f for f in trigger.open if (trigger.name, f.scheduled, f.sequence) not in finished]
    decision = _TriggerDecision(state, trigger, still_open, inputs)
    try:
        decision.run()
    except Exception as error:  # noqa: BLE001 - whatever one trigger raises must not stop the others
        raise UndecidableTrigger(trigger.name, f"{type(error).__name__}: {error}") from error
    return decision.whole, decision.rest


def _conclusions(state: State, observed: tuple[e.AttemptObserved, ...]) -> list[e.FireFinished | e.FireHeld]:
    """What results say about open fires; a result after the window's end, or of another attempt, says nothing."""
    found: list[e.FireFinished | e.FireHeld] = []
    done: set[tuple[str, int, int]] = set()
    for entry in observed:
        identity = (entry.trigger, entry.scheduled, entry.sequence)
        fire = _open_fire(state, entry)
        if entry.result is None or fire is None or identity in done:
            continue
        if not fire.held and fire.deadline is not None and entry.stamped_at >= fire.deadline:
            continue
        conclusion = _conclusion(entry)
        if conclusion is not None:
            found.append(conclusion)
            done.add(identity)
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
    """The decision about one trigger. ``whole`` is written together or not at all, ``rest`` may be cut anywhere."""

    def __init__(self, state: State, trigger: TriggerState, still_open: list[OpenFire], inputs: Inputs) -> None:
        self.whole: list[e.BookEntry] = []
        self.rest: list[e.BookEntry] = []
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
        self._out = self.whole

    def run(self) -> None:
        """Fill ``whole`` and ``rest``."""
        self._close_windows()
        if not self._trigger.deciding:
            return
        self._release_waiting()
        if exhausted(self._trigger):
            return
        database = self._zones.database(self._state.zone_sha256)
        for segment in self._trigger.segments:
            timeline = Timeline(self._state, self._trigger, segment, database)
            last = self._decide_segment(timeline)
            if segment.until is not None and timeline.next_undecided(last) is None:
                self._out.append(e.SegmentSettled(trigger=self._trigger.name, until=segment.until))

    def _close_windows(self) -> None:
        """Rule 7: an outcome window over, and the leader asked for later results, ends the fire as unknown."""
        for fire in self._still_open:
            deadline = fire.deadline
            if deadline is None or deadline > min(self._now, self._as_of_read_at):
                self._open.append(fire.lane)
                continue
            self.whole.append(
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
            self.whole.append(
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
        runs = owed_runs(timeline, self._trigger.pauses, self._definition.horizon, self._now)
        on_time = [owed for run in runs if run.judgement == "on-time" for owed in run.listed]
        missed = [owed for run in runs if run.judgement in ("missed", "missed-paused") for owed in run.listed]
        firing = self._caught_up(missed, has_on_time=bool(on_time))
        into = on_time[0].scheduled if on_time else (missed[-1].scheduled if missed else None)
        for run in runs:
            if run.judgement == "on-time":
                self._fire_on_time(run, after_missed=bool(missed))
            elif run.listed:
                self._resolve_missed(run, firing, into)
            else:
                self._resolve(run, *_UNLISTED[run.judgement])
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

    def _resolve_missed(self, run: Run, firing: frozenset[int], into: int | None) -> None:
        """Join what does not fire into ranges; fire the rest in order."""
        idle: list[Owed] = []
        for owed in run.listed:
            if owed.scheduled not in firing:
                idle.append(owed)
                continue
            self._resolve_idle(run, idle, into)
            idle = []
            self._fire_caught_up(owed)
        self._resolve_idle(run, idle, into)

    def _resolve_idle(self, run: Run, idle: list[Owed], into: int | None) -> None:
        if not idle:
            return
        joined = Run(run.judgement, idle[0].scheduled, idle[-1].scheduled, len(idle))
        if self._definition.missed == "fire-all":
            self._resolve(joined, "dropped", "over-cap")
        elif self._definition.missed == "fire-once-now":
            self._resolve(joined, "coalesced", "coalesced", into)
        else:
            self._resolve(joined, "skipped", "paused" if run.judgement == "missed-paused" else "missed")

    def _resolve(self, run: Run, state: e.Unfired, cause: e.UnfiredCause, into: int | None = None) -> None:
        self._out.append(
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

    def _fire_on_time(self, run: Run, *, after_missed: bool) -> None:
        for place, owed in enumerate(run.listed):
            if self._definition.max_fires is not None and self._fired_count >= self._definition.max_fires:
                return
            if not (after_missed and place == 0):
                # Only what missed instants were coalesced into has to be written together with them.
                self._out = self.rest
            self._on_time(owed)

    def _on_time(self, owed: Owed) -> None:
        overlap = self._definition.overlap
        if overlap == "allow" or not self._open:
            self._release(owed, "on-time", "on-time")
        elif overlap == "skip" and "on-time" in self._open:
            self._resolve(Run("on-time", owed.scheduled, owed.scheduled, 1), "skipped", "overlap")
        else:
            for fire in [each for each in self._waiting if each.lane == "on-time"]:
                self._replace(fire)
            self._wait(owed, "on-time", "on-time")

    def _replace(self, fire: WaitingFire) -> None:
        self._waiting.remove(fire)
        self._fired_count -= 1
        self._out.append(
            e.FireWithdrawn(
                trigger=self._trigger.name,
                scheduled=fire.scheduled,
                sequence=fire.sequence,
                state="skipped",
                cause="replaced",
            )
        )

    def _release(self, owed: Owed, lane: e.Lane, cause: e.FireCause) -> None:
        self._fired_count += 1
        self._open.append(lane)
        self._out.append(
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
        self._fired_count += 1
        fire = WaitingFire(
            scheduled=owed.scheduled,
            sequence=0,
            release=owed.release,
            lane=lane,
            cause=cause,
            definition_page=self._trigger.definition_page,
            over_quota=False,
        )
        self._waiting.append(fire)
        self._out.append(
            e.FireDecided(
                trigger=self._trigger.name,
                scheduled=owed.scheduled,
                release=owed.release,
                definition_page=self._trigger.definition_page,
                lane=lane,
                cause=cause,
            )
        )
