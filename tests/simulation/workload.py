"""What tenants ask for in a run: triggers of every kind, and commands, some aimed at the very instants that are due."""

from dataclasses import dataclass
from random import Random

from fireledger.domain import commands as c
from fireledger.domain.definition import Definition, TenantSettings
from fireledger.domain.instants import HOUR, MINUTE, SECOND, format_instant
from fireledger.domain.state import State
from tests.unit.domain.given import changed, cron, every, once

TENANTS = ("acme", "acme-north", "acme-south")
ZONES = ("UTC", "Europe/Rome", "America/New_York")
TRIGGERS_MAX = 12
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


DENSE = Pace(fires_per_hour=1_500, faults_per_hour=150, commands_per_hour=240)
"""For runs of minutes: as much goes wrong as in hours."""
REAL = Pace(fires_per_hour=250, faults_per_hour=12, commands_per_hour=20)


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
    _Form("* * * * *", 60),
    _Form("*/5 * * * *", 12),
    _Form("*/7 * * * *", 9),
    _Form("every 90s", 40),
    _Form("every 11m", 6),
    _Form("fixed", 8),
    _Form("once", 1),
)


class Workload:
    """Draws definitions and commands from the run's random numbers."""

    def __init__(self, random: Random, pace: Pace, start: int) -> None:
        self._random = random
        self._pace = pace
        self._start = start
        self._forms = _DENSE_FORMS if pace.fires_per_hour >= DENSE.fires_per_hour else _REAL_FORMS
        self.tenants = TENANTS[: random.choice((1, 2, 2, 3))]

    def settings(self) -> TenantSettings:
        """A tenant's settings."""
        return TenantSettings(default_jitter=self._random.choice((0, 0, 2 * SECOND, 20 * SECOND)))

    def first_triggers(self) -> list[tuple[str, str, Definition]]:
        """Tenant, name and definition of the triggers that a run begins with."""
        made: list[tuple[str, str, Definition]] = []
        rate = 0.0
        while rate < self._pace.fires_per_hour and len(made) < TRIGGERS_MAX:
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
            minutes = ",".join(str(minute) for minute in sorted(random.sample(range(60), count)))
            hours = ",".join(str(hour) for hour in range(24))
            definition = cron(f"{minutes} {hours} * * *", zone)
        elif form.text == "once":
            at = now + random.randrange(1, 90) * 20 * SECOND + 2 * HOUR
            definition = once(format_instant(at // SECOND * SECOND)[:19], zone)
        elif form.text.startswith("every "):
            anchor = format_instant((now // SECOND - random.randrange(60)) * SECOND)
            definition = every(form.text.removeprefix("every "), anchor)
        else:
            definition = cron(form.text, zone)
        return self._with_policies(definition)

    def _with_policies(self, definition: Definition) -> Definition:
        choice = self._random.choice
        return changed(
            definition,
            jitter=choice((None, 0, 0, 3 * SECOND, 40 * SECOND)),
            missed=choice(("fire-all", "fire-once-now", "skip")),
            cap=choice((1, 3, 25)),
            horizon=choice((30 * SECOND, 2 * MINUTE, 10 * MINUTE, HOUR)),
            tolerance=choice((None, None, SECOND, 30 * SECOND)),
            overlap=choice(("skip", "queue", "allow")),
            outcome_window=choice((20 * SECOND, MINUTE)),
            timeout=choice((5 * SECOND, 10 * SECOND)),
            max_fires=choice((None, None, None, None, 6)),
            target=choice(("nats:work", HTTP_TARGET)),
        )

    def command(self, state: State, now: int) -> c.Command | None:
        """A command that fits the book more or less; None when there is nothing to ask."""
        random = self._random
        names = sorted(state.triggers)
        if not names:
            return None
        name = random.choice(names)
        verb = random.choice(
            ("amend", "amend", "policy", "jitter", "pause", "pause", "resume", "resume", "delete", "create", "tenant")
        )
        trigger = state.live(name)
        match verb:
            case "amend":
                return c.AmendTrigger(trigger=name, definition=self.definition(now))
            case "policy" if trigger is not None:
                return c.AmendTrigger(trigger=name, definition=self._with_policies(trigger.definition))
            case "jitter" if trigger is not None:
                jitter = random.choice((None, 0, 5 * SECOND, 30 * SECOND))
                return c.AmendTrigger(trigger=name, definition=changed(trigger.definition, jitter=jitter))
            case "pause":
                return c.PauseTrigger(trigger=name)
            case "resume":
                return c.ResumeTrigger(trigger=name, on_resume=random.choice(("policy", "policy", "skip")))
            case "delete" if random.random() < 0.4:
                return c.DeleteTrigger(trigger=name)
            case "tenant":
                return c.AmendTenant(settings=self.settings())
            case _:
                dead = [each for each in names if state.triggers[each].deleted]
                new = random.choice(dead) if dead else f"n{len(names)}"
                return (
                    c.CreateTrigger(trigger=new, definition=self.definition(now), paused=random.random() < 0.2)
                    if len(names) < 2 * TRIGGERS_MAX or dead
                    else None
                )

    def repair(self, state: State) -> list[c.Command]:
        """Commands that lift every quarantine, by amending the trigger."""
        return [
            c.AmendTrigger(trigger=name, definition=trigger.definition)
            for name, trigger in sorted(state.triggers.items())
            if trigger.quarantine is not None and not trigger.deleted
        ]
