"""One value, or more, of everything that is ever stored, each with every field set somewhere.

A name is a topic, or a topic, "/" and what the variant shows. Names and values never change; new ones are added.
"""

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.definition import Definition, Retry, Sealed, TenantSettings, seal_plain
from fireledger.domain.page import AttemptsPage, Page, PageInputs, Quarantine
from fireledger.domain.recurrence.schedule import CronSchedule, IntervalSchedule, OneOffSchedule, RuleSchedule

Stored = e.BookEntry | e.AttemptRecord | c.Command | Page | AttemptsPage

AT = 1_796_029_500_000_000
"""2026-11-30T09:05:00Z."""
_SHA = bytes(range(32))

CRON = CronSchedule(
    source="*/5 8-17 * * 1-5",
    dialect="unix",
    has_seconds=False,
    seconds=1,
    minutes=0x84210842108421,
    hours=0x3FF00,
    days=0xFFFFFFFE,
    months=0x1FFE,
    weekdays=0x3E,
    day_rule="and",
    interval_like=True,
    days_from_last=1,
    nearest_weekdays=2,
    nearest_weekdays_from_last=4,
    nth_weekdays=8,
    last_weekdays=16,
    years=(2026, 2027),
)
INTERVAL = IntervalSchedule(source="every 90m", period=5_400_000_000, anchor=AT)
ONE_OFF = OneOffSchedule(source="2026-12-24T18:00", local=AT)
RULE = RuleSchedule(
    source="DTSTART:20261201T090000 RRULE:FREQ=YEARLY;INTERVAL=2;BYSETPOS=-1",
    frequency="yearly",
    interval=2,
    start=AT,
    last=AT + 86_400_000_000,
    seconds=1,
    minutes=1,
    hours=512,
    interval_like=False,
    months=0x1002,
    month_days=2,
    month_days_from_last=1,
    year_days=(-1, 100),
    week_numbers=(-1, 20),
    weekdays=0x3E,
    nth_weekdays=((-1, 5), (2, 1)),
    positions=(-1, 1),
    week_start=0,
)

DEFINITION = Definition(
    schedule=CRON,
    zone="Europe/Rome",
    gap="skip",
    fold="both",
    target="https://example.org/hook",
    payload=Sealed(1, b"\x00sealed\xff"),
    content_type="application/json",
    jitter=60_000_000,
    missed="fire-all",
    cap=7,
    horizon=1_800_000_000,
    tolerance=2_000_000,
    overlap="queue",
    outcome_window=300_000_000,
    timeout=10_000_000,
    not_before=AT,
    not_after=AT + 1,
    max_fires=3,
    excluded=(20_000, 20_812),
    retry=Retry(attempts=3, base=30_000_000, factor=150, cap=600_000_000),
)
PLAIN = Definition(
    schedule=INTERVAL, zone="UTC", gap="shift", fold="first", target="nats:demo", payload=seal_plain(b"payload")
)
ONCE = Definition(
    schedule=ONE_OFF, zone="UTC", gap="next-valid", fold="second", target="nats:demo", payload=seal_plain(b"")
)
RULED = Definition(
    schedule=RULE, zone="Europe/Rome", gap="shift", fold="first", target="nats:demo", payload=seal_plain(b"")
)
SETTINGS = TenantSettings(zone="Europe/Rome", quota_per_second=50, default_jitter=5_000_000, catch_up_percent=25)
INPUTS = PageInputs(
    now=AT,
    earliest=AT - 1,
    latest=AT + 2,
    clock_source="kernel",
    as_of=77,
    owner="scheduler-1",
    epoch=3,
    as_of_read_at=AT - 2,
    allowances={"backfill": 4, "catch-up": 9},
    entry_limit=500,
    trigger_limit=200,
    shedding_level=2,
    logic_version=1,
    quarantine=(Quarantine("t", "MalformedZone: broken"),),
    step=-3_600_000_000,
)
PLAIN_INPUTS = PageInputs(now=AT, earliest=AT, latest=AT, clock_source="declared", as_of=0, owner="control-1")

_ENTRIES: dict[str, e.BookEntry] = {
    "tenant.created.v1": e.TenantCreated(settings=TenantSettings()),
    "tenant.amended.v1": e.TenantAmended(settings=SETTINGS),
    "zone-data.adopted.v1": e.ZoneDataAdopted(
        version="2026f", sha256="ab" * 32, moved=(e.MovedInstant(trigger="t", old=AT, new=None),), moved_count=3
    ),
    "trigger.created.v1": e.TriggerCreated(trigger="t", definition=DEFINITION, paused=True),
    "trigger.created.v1/interval": e.TriggerCreated(trigger="t", definition=PLAIN),
    "trigger.created.v1/one-off": e.TriggerCreated(trigger="t", definition=ONCE),
    "trigger.created.v1/rule": e.TriggerCreated(trigger="t", definition=RULED),
    "trigger.amended.v1": e.TriggerAmended(trigger="t", definition=PLAIN),
    "segment.settled.v1": e.SegmentSettled(trigger="t", until=AT),
    "trigger.paused.v1": e.TriggerPaused(trigger="t"),
    "trigger.resumed.v1": e.TriggerResumed(trigger="t", on_resume="skip", owed_count=12),
    "trigger.deleted.v1": e.TriggerDeleted(trigger="t"),
    "trigger.quarantined.v1": e.TriggerQuarantined(trigger="t", cause="MalformedZone: broken"),
    "trigger.suspended.v1": e.TriggerSuspended(trigger="t", until=AT, message="ceiling of the day"),
    "trigger.suspended.v1/tenant": e.TriggerSuspended(trigger=None, until=AT, message="ceiling of the day"),
    "suspension.ended.v1": e.SuspensionEnded(trigger="t", cause="period-over"),
    "ceiling.set.v1": e.CeilingSet(trigger=None, amount=1000, per="month", before=500),
    "spend.period-begun.v1": e.SpendPeriodBegun(trigger="t", per="week", start=AT, end=AT + 604_800_000_000),
    "grant.changed.v1": e.GrantChanged(grant="backfill", trigger="t", value=10, before=None, holder="operator"),
    "backfill.started.v1": e.BackfillStarted(
        trigger="t",
        backfill="b1",
        start=AT,
        end=AT + 1,
        only_missing=True,
        rate_per_second=5,
        grant_holder="operator",
        fired=(e.Span(AT - 9, AT - 3), e.Span(AT, AT)),
    ),
    "backfill.ended.v1": e.BackfillEnded(trigger="t", backfill="b1", cause="complete", fired_count=9),
    "lane.drain-declared.v1": e.DrainDeclared(lane="catch-up", until=AT, why="restore"),
    "payload-key.destroyed.v1": e.PayloadKeyDestroyed(key_version=2),
    "fire.decided.v1": e.FireDecided(
        trigger="t",
        scheduled=AT,
        sequence=0,
        release=AT + 5,
        definition_page=2,
        lane="catch-up",
        cause="caught-up",
        over_quota=True,
    ),
    "fire.requested.v1": e.FireRequested(trigger="t", scheduled=AT, sequence=5, definition_page=2, by="operator"),
    "fire.released.v1": e.FireReleased(
        trigger="t", scheduled=AT, release=AT, definition_page=2, lane="on-time", cause="on-time"
    ),
    "fire.released.v1/every-field": e.FireReleased(
        trigger="t",
        scheduled=AT,
        sequence=4,
        release=AT + 5,
        definition_page=2,
        lane="backfill",
        cause="by-hand",
        attempt=2,
        decides=False,
        over_quota=True,
    ),
    "instants.resolved.v1": e.InstantsResolved(
        trigger="t",
        first=AT,
        last=AT + 600_000_000,
        count=3,
        state="coalesced",
        cause="coalesced",
        into=AT + 900_000_000,
    ),
    "instants.resolved.v1/expired": e.InstantsResolved(
        trigger="t", first=AT, last=AT, count=1, state="expired", cause="beyond-horizon"
    ),
    "fire.withdrawn.v1": e.FireWithdrawn(trigger="t", scheduled=AT, sequence=1, state="skipped", cause="replaced"),
    "fire.retry-scheduled.v1": e.RetryScheduled(trigger="t", scheduled=AT, attempt=2, at=AT + 60_000_000),
    "fire.held.v1": e.FireHeld(trigger="t", scheduled=AT, attempt=1, message="approve me"),
    "fire.held-released.v1": e.HeldFireReleased(trigger="t", scheduled=AT, by="operator"),
    "fire.finished.v1": e.FireFinished(
        trigger="t", scheduled=AT, outcome="unknown", cause="outcome window over", attempt=1
    ),
    "attempt.observed.v1": e.AttemptObserved(
        trigger="t", scheduled=AT, attempt=1, record="started", stamped_at=AT + 9, source_sequence=78, resend=True
    ),
    "attempt.observed.v1/result": e.AttemptObserved(
        trigger="t",
        scheduled=AT,
        sequence=2,
        attempt=1,
        record="result",
        stamped_at=AT + 9,
        source_sequence=79,
        result="retryable",
        retry_after=30_000_000,
        cost=17,
        message="busy",
    ),
    "clock.noted.v1": e.ClockNoted(step=-3_600_000_000, source="kernel"),
    "rollback.recorded.v1": e.RollbackRecorded(origin="book", body=b"\x80", stamped_at=AT, surviving_sequence=60),
    "loss.accepted.v1": e.LossAccepted(first_page=9, surviving_sequence=60, by="operator", why="disk lost"),
    "book.closed.v1": e.BookClosed(state_sha256=_SHA, object_name="acme-9"),
}

_RECORDS: dict[str, e.AttemptRecord] = {
    "attempt.started.v1": e.AttemptStarted(
        tenant="acme", trigger="t", scheduled=AT, attempt=1, definition_page=2, timeout=30_000_000, resend=True
    ),
    "attempt.result.v1": e.AttemptResult(
        tenant="acme",
        trigger="t",
        scheduled=AT,
        sequence=3,
        attempt=1,
        result="succeeded",
        code=204,
        took=12_345,
        retry_after=1,
        cost=2,
        message="done",
    ),
    "attempt.reported.v1": e.AttemptReported(
        tenant="acme", trigger="t", scheduled=AT, attempt=1, result="held", cost=5, message="approve me"
    ),
}

_COMMANDS: dict[str, c.Command] = {
    "tick.v1": c.Tick(),
    "create-tenant.v1": c.CreateTenant(settings=SETTINGS, zone_version="2026f", zone_sha256="ab" * 32),
    "amend-tenant.v1": c.AmendTenant(settings=TenantSettings()),
    "adopt-zone-data.v1": c.AdoptZoneData(version="2026g", sha256="cd" * 32),
    "create-trigger.v1": c.CreateTrigger(trigger="t", definition=PLAIN, paused=True),
    "amend-trigger.v1": c.AmendTrigger(trigger="t", definition=DEFINITION),
    "pause-trigger.v1": c.PauseTrigger(trigger="t"),
    "resume-trigger.v1": c.ResumeTrigger(trigger="t", on_resume="skip"),
    "delete-trigger.v1": c.DeleteTrigger(trigger="t"),
    "fire-now.v1": c.FireNow(trigger="t", by="operator"),
    "release-fire.v1": c.ReleaseFire(trigger="t", scheduled=AT, sequence=1, by="operator"),
    "cancel-fire.v1": c.CancelFire(trigger="t", scheduled=AT, sequence=0, by="operator"),
    "set-ceiling.v1": c.SetCeiling(trigger="t", per="month", amount=500),
    "change-grant.v1": c.ChangeGrant(grant="backfill", trigger=None, value=1_000, holder="operator"),
    "start-backfill.v1": c.StartBackfill(
        trigger="t",
        backfill="b1",
        start=AT,
        end=AT + 1,
        only_missing=True,
        rate_per_second=5,
        by="operator",
        fired=(e.Span(AT, AT),),
    ),
    "cancel-backfill.v1": c.CancelBackfill(trigger="t", by="operator"),
    "declare-drain.v1": c.DeclareDrain(lane="catch-up", until=AT, why="restore"),
}

_PAGES: dict[str, Page | AttemptsPage] = {
    "fireledger.page.v1": Page(
        tenant="acme",
        number=12,
        commit_id="c-12",
        previous_sha256=_SHA,
        previous_stamped_at=AT - 5,
        inputs=INPUTS,
        command=_COMMANDS["create-trigger.v1"],
        request_id="r-1",
        request_sha256=_SHA[::-1],
        entries=(_ENTRIES["trigger.created.v1/interval"],),
    ),
    "fireledger.page.v1/tick": Page(
        tenant="acme",
        number=13,
        commit_id="c-13",
        previous_sha256=_SHA,
        previous_stamped_at=AT,
        inputs=PLAIN_INPUTS,
        command=_COMMANDS["tick.v1"],
        entries=(_ENTRIES["attempt.observed.v1"], _ENTRIES["fire.released.v1"]),
    ),
    "fireledger.attempts.v1": AttemptsPage(
        slot=815,
        number=3,
        commit_id="a-3",
        previous_sha256=_SHA,
        previous_stamped_at=AT,
        owner="dispatcher-1",
        epoch=4,
        records=tuple(_RECORDS.values()),
    ),
}

SAMPLES: dict[str, Stored] = {**_ENTRIES, **_RECORDS, **_COMMANDS, **_PAGES}
