"""The decision about one trigger at one instant (DESIGN section 5, rules 1 to 7)."""

from bisect import bisect_right

from msgspec.structs import replace

from . import entries as e
from .backfill import backfill_next
from .ceilings import ceiling_entries
from .evolve import fold_entries
from .fire_ends import finished, withdrawn
from .inputs import Inputs
from .lanes import Allowances, backfill_pace, release_order
from .limits import BACKFILL_WAITING_MAX, FIRES_OPEN_MAX, WAITING_MAX
from .owed import Judgement, Owed, Run, Timeline, owed_runs
from .state import OpenFire, State, TriggerState, WaitingFire

_UNLISTED: dict[Judgement, tuple[e.Unfired, e.UnfiredCause]] = {
    "expired": ("expired", "beyond-horizon"),
    "skip-paused": ("skipped", "paused"),
    "skip-quarantined": ("skipped", "quarantined"),
    "skip-suspended": ("skipped", "ceiling"),
}
"""What becomes of runs that no policy can fire."""


class TriggerDecision:
    """The decision about one trigger: ``entries``, which may be cut where ``cut`` says and nowhere else.

    Missed instants are written together with the fire they are coalesced into: a later page might
    coalesce that one into yet another.
    """

    def __init__(self, state: State, trigger: TriggerState, inputs: Inputs, allowances: Allowances) -> None:
        self.entries: list[e.BookEntry] = []
        self._starts: list[int] = []
        self._state = state
        self._trigger = trigger
        self._definition = trigger.definition
        self._now = inputs.recorded.now
        self._as_of_read_at = inputs.recorded.as_of_read_at
        self._zones = inputs.zones
        self._allowances = allowances
        self._open: list[e.Lane] = []
        self._waiting = list(trigger.waiting)
        self._fired_count = trigger.fired_count
        self._run_number = trigger.next_run_number
        self._backfilled_count = 0
        backfill = trigger.backfill
        self._backfill_tokens = 0 if backfill is None else backfill_pace(backfill).tokens(backfill.pace, self._now)
        self._awaited: int | None = None
        self._joined = False
        self._on_time_left = 0

    def run(self) -> None:
        """Fill ``entries``."""
        self._close_windows()
        self._look_at_ceilings()
        if not self._state.deciding(self._trigger):
            return
        self._release_retries()
        owing = self._owing()
        self._on_time_left = sum(run.count for _, runs in owing for run in runs if run.judgement == "on-time")
        # What else waits would block the instants of this tick that are on time, so it goes after them.
        self._release_waiting(on_time_only=self._on_time_left > 0)
        self._decide_segments(owing)
        self._release_waiting()
        self._go_on_with_backfill()

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

    def _blocked(self) -> bool:
        """Whether the overlap rule, or the bound of open fires, lets no further fire of the trigger go."""
        return bool(self._open) and (self._definition.overlap != "allow" or len(self._open) >= FIRES_OPEN_MAX)

    def _close_windows(self) -> None:
        """Rule 7: an outcome window over, and the leader asked for later results, ends the fire as unknown."""
        for fire in self._trigger.open:
            deadline = fire.deadline
            if deadline is None or deadline > min(self._now, self._as_of_read_at):
                self._open.append(fire.lane)
                continue
            self._emit(finished(self._trigger.name, fire, "unknown", "outcome window over"))

    def _look_at_ceilings(self) -> None:
        """Rule 5: a ceiling that is used up suspends the trigger; a new period lets it go on."""
        trigger = self._trigger
        if not trigger.ceilings and trigger.suspended_until is None:
            return
        zone = self._zones.database(self._state.zone_sha256).zone(self._definition.zone)
        found = tuple(ceiling_entries(trigger.name, trigger.ceilings, trigger.suspended_until, self._now, zone))
        self._emit(*found)
        # Folded over this trigger alone: the periods of all may be over at one instant.
        alone = replace(self._state, triggers={trigger.name: trigger})
        self._trigger = fold_entries(alone, found, self._now).triggers[trigger.name]

    def _release_retries(self) -> None:
        """Rule 6: further attempts whose instant has come, the longest due first."""
        due = [(fire.retry_at, fire) for fire in self._trigger.open if fire.retry_at is not None]
        for at, fire in sorted(due, key=lambda each: each[0]):
            if at <= self._now and self._allows(fire):
                self._release_again(fire, attempt=fire.attempt + 1)

    def _release_waiting(self, *, on_time_only: bool = False) -> None:
        """Rule 5: what waits goes on when nothing is open and its lane's pace allows it."""
        for fire in sorted(self._waiting, key=release_order):
            if self._blocked() or (on_time_only and fire.cause != "on-time"):
                return
            if self._allows(fire):
                self._waiting.remove(fire)
                self._open.append(fire.lane)
                self._backfilled_count += fire.lane == "backfill"
                self._release_again(fire, attempt=1)

    def _allows(self, fire: OpenFire | WaitingFire) -> bool:
        """Whether the fire's lane, and its backfill's own rate, let it go now."""
        if fire.lane == "backfill" and self._trigger.backfill is not None and self._backfill_tokens <= 0:
            return False
        return self._allowances.allows(fire.lane, over_quota=fire.over_quota)

    def _release_again(self, fire: OpenFire | WaitingFire, *, attempt: int) -> None:
        """Release an attempt of a fire that was decided before."""
        self._allowances.take(fire.lane, over_quota=fire.over_quota)
        self._backfill_tokens -= fire.lane == "backfill"
        self._emit(
            e.FireReleased(
                trigger=self._trigger.name,
                scheduled=fire.scheduled,
                sequence=fire.sequence,
                release=fire.release,
                definition_page=fire.definition_page,
                lane=fire.lane,
                cause=fire.cause,
                attempt=attempt,
                decides=False,
                over_quota=fire.over_quota,
            )
        )

    def _owing(self) -> list[tuple[Timeline, list[Run]]]:
        """Rule 1: what each segment owes; nothing once the maximum of fires is reached."""
        if self._exhausted():
            return []
        d, pauses = self._definition, self._state.pauses_of(self._trigger)
        keep = {"fire-all": d.cap, "fire-once-now": 1, "skip": 0}[d.missed]
        timelines = [Timeline(self._state, self._trigger, each, self._zones) for each in self._trigger.segments]
        return [(each, owed_runs(each, pauses, d.horizon, self._now, keep=keep)) for each in timelines]

    def _decide_segments(self, owing: list[tuple[Timeline, list[Run]]]) -> None:
        """Rules 2 to 5 for what is owed; a closed schedule that owes nothing more is settled."""
        for segment, (timeline, runs) in zip(self._trigger.segments, owing, strict=False):
            self._decide_runs(timeline, runs)
            if self._exhausted():
                return
            last = runs[-1].last if runs else None
            if segment.until is not None and timeline.next_undecided(last) is None:
                self._emit(e.SegmentSettled(trigger=self._trigger.name, until=segment.until))

    def _decide_runs(self, timeline: Timeline, runs: list[Run]) -> None:
        """Decide what one segment owes, in order, until the maximum of fires is reached."""
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
                return

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
        alone = self._definition.overlap != "allow"
        ahead = (alone and self._on_time_left > 0) or any(alone or fire.lane == "catch-up" for fire in self._waiting)
        if not (ahead or self._blocked()) and self._allowances.allows("catch-up", over_quota=False):
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
        self._on_time_left -= 1
        over_quota = self._allowances.over_quota()
        if self._allowances.sheds("on-time", over_quota=over_quota):
            self._shed(owed, over_quota=over_quota)
        elif not self._blocked():
            self._release(owed, "on-time", "on-time", over_quota=over_quota)
        elif self._definition.overlap == "allow" or (self._definition.overlap == "skip" and "on-time" in self._open):
            self._resolve(Run("on-time", owed.scheduled, owed.scheduled, 1), "skipped", "overlap")
        else:
            self._wait(owed, "on-time", "on-time", over_quota=over_quota)

    def _shed(self, owed: Owed, *, over_quota: bool) -> None:
        """Rule 4: over-quota fires wait for better times; those within the quota are shed last, and do not fire."""
        if over_quota and len(self._waiting) < WAITING_MAX:
            self._wait(owed, "on-time", "on-time", over_quota=True)
        else:
            self._resolve(Run("on-time", owed.scheduled, owed.scheduled, 1), "skipped", "shed")

    def _release(self, owed: Owed, lane: e.Lane, cause: e.FireCause, *, over_quota: bool = False) -> None:
        self._fired_count += 1
        self._open.append(lane)
        self._allowances.take(lane, over_quota=over_quota)
        self._emit(
            e.FireReleased(
                trigger=self._trigger.name,
                scheduled=owed.scheduled,
                release=owed.release,
                definition_page=self._trigger.definition_page,
                lane=lane,
                cause=cause,
                over_quota=over_quota,
            )
        )

    def _wait(self, owed: Owed, lane: e.Lane, cause: e.FireCause, *, over_quota: bool = False) -> None:
        """Let a decided fire wait; unless fires may overlap, an on-time one replaces the one that waits already."""
        replaced: list[WaitingFire] = []
        if cause == "on-time" and self._definition.overlap != "allow":
            replaced = [fire for fire in self._waiting if fire.cause == "on-time"]
        for fire in replaced:
            self._waiting.remove(fire)
        self._fired_count += 1 - len(replaced)
        decided = e.FireDecided(
            trigger=self._trigger.name,
            scheduled=owed.scheduled,
            release=owed.release,
            definition_page=self._trigger.definition_page,
            lane=lane,
            cause=cause,
            over_quota=over_quota,
        )
        self._waiting.append(WaitingFire.decided(decided))
        self._emit(*(withdrawn(self._trigger.name, fire, "skipped", "replaced") for fire in replaced), decided)

    # Backfill

    def _go_on_with_backfill(self) -> None:
        """Decide the next instants of a backfill, release what its pace allows, and end it when nothing is left."""
        backfill = self._trigger.backfill
        if backfill is None:
            return
        timeline = Timeline(self._state, self._trigger, backfill.segment, self._zones)
        position = backfill_next(timeline, backfill.fired)
        waiting = sum(fire.lane == "backfill" for fire in self._waiting)
        if waiting <= BACKFILL_WAITING_MAX // 2:
            while position is not None and waiting < BACKFILL_WAITING_MAX:
                self._decide_backfilled(position)
                waiting += 1
                position = backfill_next(timeline, backfill.fired, position)
            self._release_waiting()
        if position is None and not any(fire.lane == "backfill" for fire in self._waiting):
            self._emit(
                e.BackfillEnded(
                    trigger=self._trigger.name,
                    backfill=backfill.label,
                    cause="complete",
                    fired_count=backfill.released_count + self._backfilled_count,
                )
            )

    def _decide_backfilled(self, scheduled: int) -> None:
        decided = e.FireDecided(
            trigger=self._trigger.name,
            scheduled=scheduled,
            sequence=self._run_number,
            release=self._now,
            definition_page=self._trigger.definition_page,
            lane="backfill",
            cause="backfilled",
        )
        self._run_number += 1
        self._waiting.append(WaitingFire.decided(decided))
        self._emit(decided)
