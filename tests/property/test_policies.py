"""What holds of every policy: random books with everything that may happen to them, read by a witness.

A world is a few triggers and a random run of ticks, commands, outcomes, costs, allowances and levels of shedding. The
witness (``policy_witness``) reads its pages; here stands what no page shows: that nothing due is forgotten, and that
everything comes to rest once nothing holds it back.
"""

from dataclasses import dataclass
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.backfill import backfill_count
from fireledger.domain.definition import Definition, Retry, TenantSettings
from fireledger.domain.due import next_due
from fireledger.domain.inputs import Inputs
from fireledger.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant
from fireledger.domain.lanes import Allowances
from fireledger.domain.owed import Timeline
from fireledger.domain.page import PageInputs, Quarantine, decode_page
from fireledger.domain.recurrence.recurrence import recurrence_of
from fireledger.domain.rejections import Rejection
from fireledger.domain.state import Ceiling, OpenFire, TriggerState
from fireledger.domain.trigger_decision import TriggerDecision
from tests.property.policy_witness import Witness
from tests.unit.domain.given import TICK, Given, changed, create, cron, every

STARTS = ("2026-10-24T21:30:00Z", "2027-03-27T22:40:00Z", "2026-11-30T22:30:00Z", "2026-11-30T09:00:00Z")
"""Around midnight of Rome's autumn and spring and of a month's end, and a plain morning."""
ZONES = ("UTC", "Europe/Rome")
NAMES = ("a", "b", "c")
PERIODS: tuple[e.Period, ...] = ("day", "week", "month")
GENEROUS = {"catch-up": 10_000, "backfill": 10_000}
KINDS: tuple[e.ResultKind | None, ...] = (
    "succeeded", "succeeded", "retryable", "retryable", "timeout", "held", "final", "accepted", None,
)  # fmt: skip


@dataclass(frozen=True)
class Action:
    """One step: after ``jump`` microseconds ``verb`` happens to the trigger at ``place``, with numbers to choose by."""

    jump: int
    verb: str
    place: int
    number: int
    definition: Definition


def definition_by(rng: Random) -> Definition:
    """A definition with short gaps, windows and waits, so that policies meet each other."""
    if rng.random() < 0.5:
        definition = cron(rng.choice(["* * * * *", "*/7 * * * *", "30 * * * *", "0 0 * * *"]), rng.choice(ZONES))
    else:
        definition = every(rng.choice(["5s", "20s", "90s", "25m"]))
    retry = Retry(
        attempts=rng.randint(1, 4),
        base=rng.choice([SECOND, 30 * SECOND]),
        factor=rng.choice([100, 150, 1_000]),
        cap=rng.choice([30 * SECOND, HOUR]),
    )
    return changed(
        definition,
        retry=retry,
        jitter=rng.choice([0, 0, 40 * SECOND]),
        missed=rng.choice(["fire-all", "fire-all", "fire-once-now", "skip"]),
        cap=rng.choice([1, 3, 25]),
        horizon=rng.choice([10 * MINUTE, 3 * HOUR]),
        overlap=rng.choice(["skip", "queue", "allow", "allow"]),
        outcome_window=rng.choice([30 * SECOND, 15 * MINUTE]),
        max_fires=rng.choice([None, None, None, 4]),
    )


VERBS = (
    ["tick"] * 14
    + ["observe"] * 14
    + ["now", "now", "backfill", "backfill", "backfill", "ceiling", "ceiling", "release", "release", "cancel", "pause"]
    + ["resume", "resume", "resume", "amend", "amend", "delete", "create", "create", "tenant", "quarantine"]
    + ["cancel-backfill"]
)


def action_by(rng: Random) -> Action:
    """One step; the time before it is none to more than a day."""
    jump = rng.choice([0, 0, SECOND // 5, SECOND, 5 * MINUTE, 40 * MINUTE, 3 * HOUR, 30 * HOUR])
    if rng.random() < 0.5:
        jump = rng.randint(0, 90 * SECOND)
    return Action(jump, rng.choice(VERBS), rng.randint(0, 2), rng.randint(0, 60), definition_by(rng))


class World:
    """A book in the making, driven by actions."""

    def __init__(self, start: str, tenant: TenantSettings) -> None:
        self.book = Given(settings=tenant, start=start)
        self.book.given(c.ChangeGrant(grant="backfill", trigger=None, value=500, holder="owner"), at=start)
        self.at: int = self.book.start
        self.sequence = 1_000

    def ask(self, command: c.Command) -> None:
        """Give a command, which may be refused."""
        self.book.when(command, at=self.at)
        event(f"{type(command).__name__} {'refused' if isinstance(self.book.result, Rejection) else 'accepted'}")

    def do(self, action: Action) -> None:
        """Take one step."""
        self.at += action.jump
        name, number = NAMES[action.place], action.number
        match action.verb:
            case "tick":
                self.tick(action)
            case "observe":
                self.observe(number)
            case "backfill":
                self.backfill(name, number)
            case "ceiling":
                owner = name if number % 2 else None
                if number % 4 == 0:
                    self.past_a_period()
                amounts = (None, 0, 3, 40, None)
                self.ask(c.SetCeiling(trigger=owner, per=PERIODS[number % 3], amount=amounts[number // 6 % 5]))
            case "quarantine":
                self.book.when(TICK, at=self.at, quarantine=(Quarantine(name, "broken"),))
            case "release" | "cancel":
                self.about_a_fire(action)
            case "delete":
                self.ask(self.command(action, name))
                if number % 2:
                    self.ask(create(action.definition, name))
            case _:
                self.ask(self.command(action, name))

    def past_a_period(self) -> None:
        """Let the period of a suspension end before anybody looks."""
        state = self.book.state
        ends = [state.suspended_until, *(trigger.suspended_until for trigger in state.triggers.values())]
        self.at = max(self.at, min((end for end in ends if end is not None), default=0))

    def command(self, action: Action, name: str) -> c.Command:
        """Return the command of a plain verb."""
        match action.verb:
            case "now":
                return c.FireNow(trigger=name, by="someone")
            case "pause":
                return c.PauseTrigger(trigger=name)
            case "resume":
                return c.ResumeTrigger(trigger=name, on_resume="skip" if action.number % 3 == 0 else "policy")
            case "amend":
                return c.AmendTrigger(trigger=name, definition=action.definition)
            case "delete":
                return c.DeleteTrigger(trigger=name)
            case "create":
                return create(action.definition, name)
            case "cancel-backfill":
                return c.CancelBackfill(trigger=name, by="someone")
            case _:
                quota = (1, 2, 100)[action.number % 3]
                return c.AmendTenant(
                    settings=TenantSettings(zone=ZONES[1], quota_per_second=quota, catch_up_percent=50)
                )

    def tick(self, action: Action) -> None:
        """Tick with allowances, levels and limits of every kind."""
        number = action.number
        allowances = ({}, {}, {"catch-up": 0}, {"backfill": 0}, {"catch-up": 1, "backfill": 1}, GENEROUS)[number % 6]
        self.book.when(
            TICK,
            at=self.at,
            as_of_read_at=self.at if number % 2 else 0,
            allowances=allowances,
            shedding_level=(0, 0, 0, 0, 1, 2, 3, 4)[number // 3 % 8],
            entry_limit=(10_000, 10_000, 20, 60)[action.place],
        )

    def backfill(self, name: str, number: int) -> None:
        """Start a backfill over the last minutes, perhaps without a stretch in them."""
        end = self.book.state.now - number % 3 * MINUTE
        start = end - (10 + number) * 10 * SECOND
        spans = (e.Span(start + 30 * SECOND, start + 55 * SECOND),) if number % 4 == 0 else ()
        rate = (1, 2, 1_000)[number % 3]
        self.ask(
            c.StartBackfill(
                trigger=name, backfill="b", start=start, end=end, only_missing=bool(spans), rate_per_second=rate,
                by="someone", fired=spans,
            )
        )  # fmt: skip

    def about_a_fire(self, action: Action) -> None:
        """Release or cancel some fire, or one that never was."""
        triggers = self.book.state.triggers.values()
        named = [
            *((t.name, fire.scheduled, fire.sequence) for t in triggers for fire in t.open),
            *((t.name, fire.scheduled, fire.sequence) for t in triggers for fire in t.waiting),
        ]
        held = [(t.name, fire.scheduled, fire.sequence) for t in triggers for fire in t.open if fire.held]
        wanted = held if held and action.number % 3 else named or [("a", self.at, 7)]
        trigger, scheduled, sequence = wanted[action.number % len(wanted)]
        make = c.ReleaseFire if action.verb == "release" else c.CancelFire
        self.ask(make(trigger=trigger, scheduled=scheduled, sequence=sequence, by="someone"))
        if action.number % 2:
            self.told_again(trigger, scheduled, sequence)

    def told_again(self, trigger: str, scheduled: int, sequence: int) -> None:
        """The executor says once more that it waits for a person, just after one has decided."""
        state = self.book.state.triggers.get(trigger)
        fires = (
            [fire for fire in state.open if (fire.scheduled, fire.sequence) == (scheduled, sequence)] if state else []
        )
        for fire in fires:
            _, told = self.records(trigger, fire, fire.attempt, "held", 0)
            self.book.when(TICK, at=self.at, observed=(told,), as_of_read_at=self.at)

    def observe(self, number: int) -> None:
        """Observe starts and results of some open fires, now and then of an older attempt."""
        observed: list[e.AttemptObserved] = []
        fires = [(t.name, fire) for t in self.book.state.triggers.values() for fire in t.open]
        for place, (name, fire) in enumerate(fires[number % 3 :: 1 + number % 2][:8]):
            kind = KINDS[(number + place) % len(KINDS)]
            older = fire.attempt > 1 and (number + place) % 7 == 0
            observed.extend(self.records(name, fire, fire.attempt - older, kind, number + place))
        self.book.when(TICK, at=self.at, observed=tuple(observed), as_of_read_at=self.at, entry_limit=200)

    def records(
        self, name: str, fire: OpenFire, attempt: int, kind: e.ResultKind | None, number: int
    ) -> list[e.AttemptObserved]:
        """Return the start of an attempt, and its result unless ``kind`` is None."""
        self.sequence += 1
        begun = e.AttemptObserved(
            trigger=name,
            scheduled=fire.scheduled,
            sequence=fire.sequence,
            attempt=attempt,
            record="started",
            stamped_at=self.book.state.now,
            source_sequence=self.sequence,
        )
        if kind is None:
            return [begun]
        ended = e.AttemptObserved(
            trigger=name,
            scheduled=fire.scheduled,
            sequence=fire.sequence,
            attempt=attempt,
            record="result",
            stamped_at=self.book.state.now + 1,
            source_sequence=self.sequence,
            result=kind,
            retry_after=(None, None, 7 * SECOND, 2 * DAY)[number % 4],
            cost=(None, 0, 1, 5)[number // 2 % 4],
        )
        return [begun, ended]

    # To the end

    def tick_out(self) -> None:
        """Tick at one now, with everything allowed, until nothing is left to say."""
        for _ in range(300):
            self.book.when(TICK, at=self.at, as_of_read_at=self.at, allowances=GENEROUS, entry_limit=400)
            if not self.book.result:
                return
        raise AssertionError("ticks at one now never come to an end")

    def set_free(self) -> None:
        """Undo whatever holds fires back."""
        state = self.book.state
        for owner, ceilings in [(None, state.ceilings), *((t.name, t.ceilings) for t in state.triggers.values())]:
            for ceiling in ceilings:
                self.book.given(c.SetCeiling(trigger=owner, per=ceiling.per, amount=None), at=self.at)
        for trigger in state.triggers.values():
            if trigger.paused:
                self.book.given(c.ResumeTrigger(trigger=trigger.name), at=self.at)
            if trigger.quarantine is not None:
                self.book.given(c.AmendTrigger(trigger=trigger.name, definition=trigger.definition), at=self.at)
            self.ask(c.AmendTrigger(trigger=trigger.name, definition=changed(trigger.definition, max_fires=1)))
        self.book.given(
            c.AmendTenant(settings=TenantSettings(quota_per_second=1_000, catch_up_percent=100)), at=self.at
        )

    def answer_all(self) -> None:
        """Let every open fire succeed."""
        observed: list[e.AttemptObserved] = []
        for trigger in self.book.state.triggers.values():
            for fire in trigger.open:
                observed.extend(self.records(trigger.name, fire, fire.attempt, "succeeded", 0))
        for first in range(0, len(observed), 500):
            self.book.when(TICK, at=self.at, observed=tuple(observed[first : first + 500]), as_of_read_at=self.at)

    def at_rest(self) -> bool:
        """Whether no fire waits or is open, and no backfill goes on."""
        return not any(t.open or t.waiting or t.backfill for t in self.book.state.triggers.values())


def world_by(seed: int) -> World:
    """A world with its actions done. Every number comes from the seed: all kinds of worlds are as likely."""
    rng = Random(seed)
    tenant = TenantSettings(
        zone=rng.choice(ZONES), quota_per_second=rng.choice([1, 3, 100]), catch_up_percent=rng.choice([10, 50, 100])
    )
    world = World(rng.choice(STARTS), tenant)
    for name in NAMES[: rng.randint(1, 3)]:
        world.ask(create(definition_by(rng), name))
    for _ in range(rng.randint(10, 40)):
        world.do(action_by(rng))
    return world


def worlds() -> st.SearchStrategy[World]:
    """Worlds of random seeds."""
    return st.builds(world_by, st.integers(0, 2**48))


def witnessed(world: World) -> Witness:
    """Have the whole book read."""
    witness = Witness()
    for written in world.book.written:
        witness.read(decode_page(written.body))
    witness.finish()
    return witness


@given(worlds())
@settings(max_examples=80)
def test_the_witness_finds_nothing(world: World) -> None:
    """Every entry of every page keeps the rules of lanes, retries, held fires, overlap, ceilings and backfills."""
    witness = witnessed(world)
    waiting = {
        (trigger.name, fire.scheduled, fire.sequence)
        for trigger in world.book.state.triggers.values()
        for fire in trigger.waiting
    }
    opened = {
        (trigger.name, fire.scheduled, fire.sequence): (fire.attempt, fire.held, fire.retry_at)
        for trigger in world.book.state.triggers.values()
        for fire in trigger.open
    }
    unended = {name: fire for name, fire in witness.fires.items() if not fire.ended}
    assert {name for name, fire in unended.items() if fire.attempt == 0} == waiting
    assert {name: (f.attempt, f.held, f.pending) for name, f in unended.items() if f.attempt} == opened
    for trigger in world.book.state.triggers.values():
        assert trigger.fired_count == witness.fired_counts[trigger.name]
        assert _spent(trigger.ceilings) == witness.spent(trigger.name) or trigger.deleted
    assert _spent(world.book.state.ceilings) == witness.spent(None)
    assert world.book.state.late_count == witness.late_count
    for fire in witness.fires.values():
        event(f"{fire.cause} {fire.ended or 'goes on'}")


def _spent(ceilings: tuple[Ceiling, ...]) -> dict[e.Period, tuple[int, int, int, int]]:
    return {each.per: (each.start, each.end, each.spent, each.later) for each in ceilings}


@given(worlds())
@settings(max_examples=60)
def test_what_is_due_is_decided(world: World) -> None:
    """Ticks at one now come to an end, and then nothing is due, and nothing is left to decide that is not due."""
    world.tick_out()
    state = world.book.state
    now = max(world.at, state.now)
    recorded = PageInputs(
        now=now, earliest=now, latest=now, clock_source="simulated", as_of=state.as_of, owner="w", as_of_read_at=now
    )
    inputs = Inputs(recorded=recorded, zones=world.book.zones)
    for trigger in state.triggers.values():
        at = next_due(state, trigger, world.book.zones)
        assert at is None or at > now
        decision = TriggerDecision(state, trigger, inputs, Allowances(state, now, {}, 0))
        decision.run()
        assert all(_may_wait(entry, trigger) for entry in decision.entries)


def _may_wait(entry: e.BookEntry, trigger: TriggerState) -> bool:
    """Tokens of a paced lane gather before a look is worth it; a shorter period begins when a suspension ends."""
    if isinstance(entry, e.FireReleased):
        return entry.lane != "on-time"
    return isinstance(entry, e.SpendPeriodBegun) and trigger.suspended_until is not None


@given(worlds())
@settings(max_examples=60)
def test_everything_comes_to_rest(world: World) -> None:
    """With nothing held back, and every call answered, all that waits is released and ends, and backfills complete."""
    world.set_free()
    for _ in range(600):
        world.tick_out()
        world.answer_all()
        if world.at_rest():
            break
        world.at = max(world.at, world.book.state.now) + 2 * SECOND
    assert world.at_rest()
    assert all(fire.ended for fire in witnessed(world).fires.values())


@given(worlds())
@settings(max_examples=60)
def test_backfills_decide_their_range(world: World) -> None:
    """A backfill decides each instant of its range but those left out, in order, once; what is left is counted."""
    ranges: dict[str, tuple[e.BackfillStarted, Definition]] = {}
    decided: dict[str, list[int]] = {}
    known: dict[str, Definition] = {}
    for written in world.book.written:
        for entry in decode_page(written.body).entries:
            match entry:
                case e.TriggerCreated() | e.TriggerAmended():
                    known[entry.trigger] = entry.definition
                case e.BackfillStarted():
                    ranges[entry.trigger], decided[entry.trigger] = (entry, known[entry.trigger]), []
                case e.FireDecided() if entry.lane == "backfill":
                    decided[entry.trigger].append(entry.scheduled)
                case e.BackfillEnded():
                    wanted = _instants(world, *ranges.pop(entry.trigger))
                    found = decided.pop(entry.trigger)
                    assert found == (wanted if entry.cause == "complete" else wanted[: len(found)])
                    event(f"backfill {entry.cause}, {'some' if found else 'none'} decided")
                case _:
                    pass
    for name, (entry, definition) in ranges.items():
        wanted, trigger = _instants(world, entry, definition), world.book.state.triggers[name]
        assert trigger.backfill is not None
        timeline = Timeline(world.book.state, trigger, trigger.backfill.segment, world.book.zones)
        assert wanted[: len(decided[name])] == decided[name]
        assert backfill_count(timeline, entry.fired, entry.end) == len(wanted) - len(decided[name])


def _instants(world: World, entry: e.BackfillStarted, definition: Definition) -> list[int]:
    zone = world.book.zones.current.zone(definition.zone)
    schedule = recurrence_of(definition.schedule, zone, definition.gap, definition.fold)
    found: list[int] = []
    position = schedule.next_after(Instant(entry.start - 1))
    while position is not None and position < entry.end:
        if not any(span.first <= position <= span.last for span in entry.fired):
            found.append(position)
        position = schedule.next_after(position)
    return found
