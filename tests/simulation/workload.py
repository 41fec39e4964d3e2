"""What tenants ask for in a run: triggers of every kind, and commands, some aimed at the very instants that are due."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from fireledger.domain import commands as c
from fireledger.domain.definition import Definition, Retry, TenantSettings
from fireledger.domain.instants import HOUR, MINUTE, SECOND, format_instant
from fireledger.domain.state import OpenFire, State
from fireledger.runners.lease_plan import EXPIRY_S
from tests.unit.domain.given import changed, cron, every, once

TENANTS = ("acme", "acme-north", "acme-south")
ZONES = ("UTC", "Europe/Rome", "America/New_York")
PERSON = "a person"
HTTP_TARGET = "http://executor.test/run"
STARTS = (
    "2026-10-24T23:40:00Z",
    "2026-10-25T00:52:00Z",
    "2027-03-28T00:50:00Z",
    "2026-11-01T05:40:00Z",
    "2027-03-14T06:50:00Z",
    "2026-11-30T08:58:30Z",
)
"""Around the changes of the clocks in Rome and New York, and a plain day."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much happens: scheduled instants and faults an hour, over all tenants."""

    fires_per_hour: float
    faults_per_hour: float
    commands_per_hour: float
    looks_per_hour: float
    """How often a person looks after what waits for one."""
    rushes_per_hour: float
    """How often all tenants have something to catch up and to backfill at once."""
    triggers_max: int
    skipping: bool
    """Whether quiet stretches are skipped (quiet.py), and faults and commands aimed at what lies between them."""
    beat_s: float = 0.0
    """Executors' runs end at multiples of this, in seconds; 0 for any time."""
    expiry_s: float = EXPIRY_S
    """When leases expire, in seconds."""
    jittered: float = 0.6
    """How many of the drawn jitter windows are not 0."""


DENSE = Pace(
    fires_per_hour=850,
    faults_per_hour=150,
    commands_per_hour=240,
    looks_per_hour=120,
    rushes_per_hour=20,
    triggers_max=12,
    skipping=False,
)
"""For runs of minutes: as much goes wrong as in hours."""
REAL = Pace(
    fires_per_hour=390,
    faults_per_hour=12,
    commands_per_hour=20,
    looks_per_hour=6,
    rushes_per_hour=1,
    triggers_max=60,
    skipping=True,
    beat_s=0.25,
    jittered=0.15,
    expiry_s=10.0,
)
"""For runs of hours: most of what is scheduled is due together, every five minutes, as people like it."""


@dataclass(frozen=True, slots=True)
class _Form:
    text: str
    per_hour: float


_DENSE_FORMS = (
    _Form("*/20 * * * * *", 180),
    _Form("*/30 * * * * *", 120),
    _Form("7,31 * * * * *", 120),
    _Form("every 10s", 360),
    _Form("every 25s", 144),
    _Form("every 45s", 80),
    _Form("* * * * *", 60),
    _Form("fixed", 30),
    _Form("once", 1),
)
_REAL_FORMS = (
    *(_Form("*/5 * * * *", 12),) * 3,
    *(_Form("*/10 * * * *", 6),) * 6,
    *(_Form("*/15 * * * *", 4),) * 2,
    *(_Form("every 10m", 6),) * 3,
    _Form("every 11m", 6),
    *(_Form("fixed", 6),) * 2,
    _Form("once", 1),
)


class Workload:
    """Draws definitions and commands from the run's random numbers."""

    def __init__(self, random: Random, pace: Pace, start: int) -> None:
        self._random = random
        self._pace = pace
        self._start = start
        self._forms = _REAL_FORMS if pace.skipping else _DENSE_FORMS
        self._minutes = range(0, 60, 5 if pace.skipping else 1)
        self.tenants = TENANTS[: random.choice((1, 2, 3, 3))]

    def settings(self) -> TenantSettings:
        """A tenant's settings."""
        choice = self._random.choice
        return TenantSettings(
            zone=choice(ZONES),
            default_jitter=self.jitter((2 * SECOND, 20 * SECOND)) or 0,
            quota_per_second=choice((1, 2, 5, 100)),
            catch_up_percent=choice((50, 100)),
        )

    def first_triggers(self) -> list[tuple[str, str, Definition]]:
        """Tenant, name and definition of the triggers that a run begins with."""
        made: list[tuple[str, str, Definition]] = []
        rate = 0.0
        while rate < self._pace.fires_per_hour and len(made) < self._pace.triggers_max:
            form = self._random.choice(self._forms)
            rate += form.per_hour
            name = f"t{len(made)}"
            made.append((self._random.choice(self.tenants), name, self._definition(form, self._start)))
        return made

    def definition(self, now: int) -> Definition:
        """Some definition, made at ``now``."""
        return self._definition(self._random.choice(self._forms), now)

    def _definition(self, form: _Form, now: int) -> Definition:
        random = self._random
        zone = random.choice(ZONES)
        if form.text == "fixed":
            count = max(1, round(form.per_hour))
            minutes = ",".join(str(minute) for minute in sorted(random.sample(self._minutes, count)))
            hours = ",".join(str(hour) for hour in range(24))
            definition = cron(f"{minutes} {hours} * * *", zone)
        elif form.text == "once":
            at = now + random.randrange(1, 90) * 20 * SECOND + 2 * HOUR
            definition = once(format_instant(at // SECOND * SECOND)[:19], zone)
        elif form.text.startswith("every "):
            anchor = format_instant(self._anchor(now))
            definition = every(form.text.removeprefix("every "), anchor)
        else:
            definition = cron(form.text, zone)
        return self.policies(definition)

    def _anchor(self, now: int) -> int:
        if self._pace.skipping:
            return now // (10 * MINUTE) * 10 * MINUTE
        return (now // SECOND - self._random.randrange(60)) * SECOND

    def jitter(self, windows: tuple[int | None, ...]) -> int | None:
        """One of the windows, or 0."""
        return self._random.choice(windows) if self._random.random() < self._pace.jittered else 0

    def policies(self, definition: Definition) -> Definition:
        """The definition with every policy drawn anew."""
        choice = self._random.choice
        return changed(
            definition,
            jitter=self.jitter((None, 3 * SECOND, 40 * SECOND)),
            missed=choice(("fire-all", "fire-once-now", "skip")),
            cap=choice((1, 3, 25)),
            horizon=choice((30 * SECOND, 2 * MINUTE, 10 * MINUTE, HOUR)),
            tolerance=choice((None, None, SECOND, 30 * SECOND)),
            overlap=choice(("skip", "queue", "allow")),
            outcome_window=choice((20 * SECOND, 40 * SECOND)),
            timeout=choice((5 * SECOND, 10 * SECOND)),
            retry=self._retry(),
            max_fires=choice((None, None, None, None, 6)),
            target=choice(("nats:work", HTTP_TARGET)),
        )

    def _retry(self) -> Retry:
        choice = self._random.choice
        return Retry(
            attempts=choice((1, 2, 3, 5)),
            base=choice((SECOND, 4 * SECOND, 30 * SECOND) if self._pace.skipping else (SECOND, 3 * SECOND)),
            factor=choice((100, 200, 350)),
            cap=choice((10 * SECOND, 2 * MINUTE) if self._pace.skipping else (4 * SECOND, 15 * SECOND)),
        )

    def command(self, state: State, now: int) -> c.Command | None:
        """A command that fits the book more or less; None when there is nothing to ask."""
        names = sorted(state.triggers)
        if not names:
            return None
        asked = Asked(self, state, now, self._random, self._random.choice(names))
        return self._random.choice(ACTIONS)(asked) or _create(asked)

    @property
    def sparse(self) -> bool:
        """Whether instants are minutes apart, not seconds."""
        return self._pace.skipping

    @property
    def backfilled_s(self) -> int:
        """How long the range of a backfill is at most, in seconds."""
        return 3_600 if self._pace.skipping else 300

    def room_for(self, count: int) -> bool:
        """Whether a book may have one more trigger than so many."""
        return count < 2 * self._pace.triggers_max

    def attend(self, state: State) -> list[c.Command]:
        """What a person does who looks in: answers held fires, and mostly raises ceilings that are used up."""
        random, found = self._random, list[c.Command]()
        for name in (None, *sorted(state.triggers)):
            owner = state if name is None else state.triggers[name]
            if owner.suspended_until is not None and random.random() < 0.7:
                ceiling = random.choice(owner.ceilings) if owner.ceilings else None
                if ceiling is not None:
                    amount = random.choice((None, ceiling.spent + 300))
                    found.append(c.SetCeiling(trigger=name, per=ceiling.per, amount=amount))
        for name, trigger in sorted(state.triggers.items()):
            for fire in trigger.open:
                if fire.held and random.random() < 0.8:
                    found.append(_answered(name, fire, release=random.random() < 0.5))
        return found

    def repair(self, state: State) -> list[c.Command]:
        """Commands that let everything go on: no quarantine, ceiling or pause, no fire that waits for a person."""
        found: list[c.Command] = [
            c.SetCeiling(trigger=None, per=ceiling.per, amount=None) for ceiling in state.ceilings
        ]
        for name, trigger in sorted(state.triggers.items()):
            found.extend(c.SetCeiling(trigger=name, per=ceiling.per, amount=None) for ceiling in trigger.ceilings)
            if trigger.quarantine is not None:
                found.append(c.AmendTrigger(trigger=name, definition=trigger.definition))
            if trigger.paused:
                found.append(c.ResumeTrigger(trigger=name))
            found.extend(
                c.CancelFire(trigger=name, scheduled=fire.scheduled, sequence=fire.sequence, by=PERSON)
                for fire in trigger.open
                if fire.held
            )
        return found


@dataclass(frozen=True, slots=True)
class Asked:
    """What an action is given: the book as control has it, and the name of one of its triggers, dead or alive."""

    workload: Workload
    state: State
    now: int
    random: Random
    name: str


Action = Callable[[Asked], c.Command | None]
"""Makes a command, or None when it does not fit the trigger: one is created then."""


def _amend(asked: Asked) -> c.Command:
    return c.AmendTrigger(trigger=asked.name, definition=asked.workload.definition(asked.now))


def _amend_policy(asked: Asked) -> c.Command | None:
    trigger = asked.state.live(asked.name)
    if trigger is None:
        return None
    return c.AmendTrigger(trigger=asked.name, definition=asked.workload.policies(trigger.definition))


def _amend_jitter(asked: Asked) -> c.Command | None:
    trigger = asked.state.live(asked.name)
    if trigger is None:
        return None
    jitter = asked.workload.jitter((None, 5 * SECOND, 30 * SECOND))
    return c.AmendTrigger(trigger=asked.name, definition=changed(trigger.definition, jitter=jitter))


def _pause(asked: Asked) -> c.Command:
    return c.PauseTrigger(trigger=asked.name)


def _resume(asked: Asked) -> c.Command:
    return c.ResumeTrigger(trigger=asked.name, on_resume=asked.random.choice(("policy", "policy", "skip")))


def _delete(asked: Asked) -> c.Command | None:
    return c.DeleteTrigger(trigger=asked.name) if asked.random.random() < 0.4 else None


def _amend_tenant(asked: Asked) -> c.Command:
    return c.AmendTenant(settings=asked.workload.settings())


def _create(asked: Asked) -> c.Command | None:
    """A trigger of a new name, or of one that was deleted."""
    triggers = asked.state.triggers
    dead = [name for name in sorted(triggers) if triggers[name].deleted]
    if not dead and not asked.workload.room_for(len(triggers)):
        return None
    name = asked.random.choice(dead) if dead else f"n{len(triggers)}"
    definition = asked.workload.definition(asked.now)
    return c.CreateTrigger(trigger=name, definition=definition, paused=asked.random.random() < 0.2)


def _fire_now(asked: Asked) -> c.Command:
    return c.FireNow(trigger=asked.name, by=PERSON)


def _single_fire(asked: Asked) -> c.Command | None:
    """Let a held fire go on, or cancel one that waits for anything."""
    held = [(name, fire) for name, fire in _open_fires(asked) if fire.held]
    retrying = [(name, fire) for name, fire in _open_fires(asked) if fire.retry_at is not None]
    if held and asked.random.random() < 0.7:
        name, fire = asked.random.choice(held)
        return _answered(name, fire, release=asked.random.random() < 0.7)
    waiting = [(name, fire) for name, trigger in sorted(asked.state.triggers.items()) for fire in trigger.waiting]
    found = [(name, fire.scheduled, fire.sequence) for name, fire in (*held, *retrying)]
    found.extend((name, fire.scheduled, fire.sequence) for name, fire in waiting)
    if not found:
        return None
    name, scheduled, sequence = asked.random.choice(found)
    return c.CancelFire(trigger=name, scheduled=scheduled, sequence=sequence, by=PERSON)


def _answered(trigger: str, fire: OpenFire, *, release: bool) -> c.Command:
    """A person's answer to a held fire."""
    if release:
        return c.ReleaseFire(trigger=trigger, scheduled=fire.scheduled, sequence=fire.sequence, by=PERSON)
    return c.CancelFire(trigger=trigger, scheduled=fire.scheduled, sequence=fire.sequence, by=PERSON)


def _open_fires(asked: Asked) -> list[tuple[str, OpenFire]]:
    return [(name, fire) for name, trigger in sorted(asked.state.triggers.items()) for fire in trigger.open]


def _ceiling(asked: Asked) -> c.Command:
    """Set a ceiling that will be used up; raise or remove one that is."""
    state, choice = asked.state, asked.random.choice
    for name in (None, *sorted(state.triggers)):
        owner = state if name is None else state.triggers[name]
        if owner.ceilings and owner.suspended_until is not None and asked.random.random() < 0.6:
            ceiling = choice(owner.ceilings)
            amount = choice((None, ceiling.spent + choice((1, 60, 600))))
            return c.SetCeiling(trigger=name, per=ceiling.per, amount=amount)
    name = choice((None, asked.name, asked.name))
    amounts = (0, 20, 100, 500) if name else (600, 3_000)
    return c.SetCeiling(trigger=name, per=choice(("day", "week", "month")), amount=choice((None, *amounts)))


def _backfill(asked: Asked) -> c.Command | None:
    """Grant a backfill, start one, or cancel the one that is under way."""
    state, random, name = asked.state, asked.random, asked.name
    trigger = state.live(name)
    if trigger is None:
        return None
    if trigger.backfill is not None and random.random() < 0.3:
        return c.CancelBackfill(trigger=name, by=PERSON)
    if state.granted("backfill", name) is None or random.random() < 0.1:
        owner, value = random.choice((None, name)), random.choice((3, 40, 400, 400))
        return c.ChangeGrant(grant="backfill", trigger=owner, value=value, holder=PERSON)
    longest = asked.workload.backfilled_s
    start = asked.now - random.randrange(60, 2 * longest) * SECOND
    return c.StartBackfill(
        trigger=name,
        backfill=f"from {format_instant(start)}",
        start=start,
        end=min(asked.now - SECOND, start + random.randrange(30, longest) * SECOND),
        only_missing=random.random() < 0.5,
        rate_per_second=random.choice((1, 2, 50)),
        by=PERSON,
    )


ACTIONS: tuple[Action, ...] = (
    _amend, _amend, _amend_policy, _amend_jitter, _pause, _pause, _resume, _resume, _delete, _create, _amend_tenant,
    _fire_now, _single_fire, _single_fire, _single_fire, _ceiling, _ceiling, _backfill, _backfill,
)  # fmt: skip
"""What tenants ask for; an action is drawn as often as it is listed."""
