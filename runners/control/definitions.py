"""Options into definitions: reading texts, choosing defaults, merging an amendment.

The same code runs in the command line, for an error before anything is sent, and in control, whose word counts.
"""

from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from fireledger.domain.checks import NATS_PREFIX, check_definition, check_target
from fireledger.domain.definition import Definition, Fold, Gap, Sealed, TenantSettings, seal_plain
from fireledger.domain.instants import HOUR, SECOND, Instant, format_instant, parse_duration, parse_instant
from fireledger.domain.limits import PAYLOAD_BYTES_MAX, QUOTA_MAX_PER_SECOND
from fireledger.domain.recurrence.errors import MalformedSchedule
from fireledger.domain.recurrence.excluded_text import parse_excluded_dates
from fireledger.domain.recurrence.exclusions import with_exclusions
from fireledger.domain.recurrence.interval_text import parse_interval, parse_one_off
from fireledger.domain.recurrence.recurrence import recurrence_of
from fireledger.domain.recurrence.rule_opinion import rule_disagreement
from fireledger.domain.recurrence.rules import default_rules
from fireledger.domain.recurrence.schedule import CronSchedule, IntervalSchedule, RuleSchedule, Schedule
from fireledger.domain.recurrence.schedule_text import parse_schedule
from fireledger.domain.recurrence.second_opinion import disagreement
from fireledger.domain.rejections import RejectionCode
from fireledger.domain.zones import ZoneRules

from ..dispatcher.policy import TargetPolicy
from ..json_edge import MalformedJson, loads
from .refusals import ScheduleRefused, from_rejection, read_option, refused
from .requests import TenantOptions, TriggerOptions, malformed
from .retry_options import parse_share, retry_with

_BEFORE_ALL = Instant(-(2**62))
SECOND_OPINIONS_KEPT_MAX = 1_024
"""Answers of the other readers that are remembered, since one takes some milliseconds."""


def new_definition(options: TriggerOptions, *, now: int, zone: str) -> Definition:
    """A new trigger's definition. ``now`` anchors an interval without anchor; ``zone`` is the tenant's.

    Raises ControlRefused, and the ValueErrors that ``from_value_error`` knows.
    """
    schedule = given_schedule(options, anchor=whole_second(now))
    if schedule is None:
        raise refused("no schedule is given", hint="give one of --cron, --every and --at")
    if options.target is UNSET:
        raise refused("no target is given", hint="give --target with an http(s) URL or nats:NAME")
    gap, fold = default_rules(schedule)
    definition = Definition(
        schedule=schedule, zone=zone, gap=gap, fold=fold, target=options.target, payload=seal_plain(b"")
    )
    return _with_options(definition, options)


def amended_definition(options: TriggerOptions, current: Definition, *, now: int) -> Definition:
    """The current definition with the given options. An amended interval keeps its anchor unless one is given.

    Gap and fold rules that were declared stay; the defaults follow a new schedule. Raises what new_definition raises.
    """
    anchor = current.schedule.anchor if isinstance(current.schedule, IntervalSchedule) else whole_second(now)
    schedule = given_schedule(options, anchor=anchor)
    if schedule is None:
        schedule = _moved_anchor(options, current.schedule)
    (old_gap, old_fold), (gap, fold) = default_rules(current.schedule), default_rules(schedule)
    is_interval = isinstance(schedule, IntervalSchedule)
    definition = replace(
        current,
        schedule=schedule,
        gap=gap if is_interval or current.gap == old_gap else current.gap,
        fold=fold if is_interval or current.fold == old_fold else current.fold,
    )
    return _with_options(definition, options)


def check_options(options: TriggerOptions) -> None:
    """Refuse what is wrong whatever the book says: texts and bounds. Raises what new_definition raises."""
    schedule = given_schedule(options, anchor=0)
    if schedule is None:
        schedule = IntervalSchedule(source="1h", period=HOUR, anchor=0)
    gap, fold = default_rules(schedule)
    stand_in = Definition(schedule=schedule, zone="UTC", gap=gap, fold=fold, target="nats:any", payload=seal_plain(b""))
    rejection = check_definition(_with_options(stand_in, options))
    if rejection is not None:
        raise from_rejection(rejection)


def whole_second(now: int) -> int:
    """The instant without its fraction of a second."""
    return now - now % SECOND


def given_schedule(options: TriggerOptions, *, anchor: int) -> Schedule | None:
    """The schedule that is given, or None. Raises ControlRefused for more than one and for texts that are none."""
    given = [text for text in (options.cron, options.every, options.at) if text is not UNSET]
    if len(given) > 1:
        raise refused("more than one schedule is given", hint="give one of --cron, --every and --at")
    if options.dialect is not UNSET and options.cron is UNSET:
        raise refused("a dialect is given without a cron expression", hint="give --dialect together with --cron")
    given_anchor = anchor if options.anchor is UNSET else read_option("--anchor", options.anchor, parse_instant)
    if options.cron is not UNSET:
        return expression_schedule(
            options.cron, None if options.dialect is UNSET else options.dialect, anchor=given_anchor
        )
    if options.every is not UNSET:
        return interval_schedule(options.every, given_anchor)
    return None if options.at is UNSET else one_off_schedule(options.at)


def expression_schedule(text: str, dialect: str | None, *, anchor: int) -> Schedule:
    """Compile an expression of a declared dialect, or (None) of the one that it shows. Raises ScheduleRefused."""
    try:
        return parse_schedule(text, dialect, anchor=anchor)
    except MalformedSchedule as error:
        raise ScheduleRefused(error, text) from error


def interval_schedule(text: str, anchor: int) -> IntervalSchedule:
    """Compile an interval. Raises ScheduleRefused."""
    try:
        return parse_interval(text, anchor)
    except MalformedSchedule as error:
        raise ScheduleRefused(error, text) from error


def one_off_schedule(text: str) -> Schedule:
    """Compile a local date and time. Raises ScheduleRefused."""
    try:
        return parse_one_off(text)
    except MalformedSchedule as error:
        raise ScheduleRefused(error, text) from error


def check_goes_with(schedule: Schedule, options: TriggerOptions) -> None:
    """Refuse options that say nothing about this kind of schedule. Raises ControlRefused."""
    is_interval = isinstance(schedule, IntervalSchedule)
    if options.anchor is not UNSET and not is_interval:
        raise refused("an anchor is given and the schedule is no interval", hint="give --anchor together with --every")
    for name, rule in (("gap", options.gap), ("fold", options.fold)):
        if rule is not UNSET and is_interval:
            raise refused(
                f"--{name} {rule} says nothing about an interval, which is elapsed time and has no local times",
                hint=f"leave --{name} out, or give --cron",
            )


def excluded_dates(texts: Sequence[str]) -> tuple[int, ...]:
    """Read excluded dates into ascending days, each once. Raises ScheduleRefused for the first that is none."""
    days: set[int] = set()
    for text in texts:
        try:
            days.update(parse_excluded_dates((text,)))
        except MalformedSchedule as error:
            raise ScheduleRefused(error, text) from error
    return tuple(sorted(days))


def check_second_opinion(schedule: Schedule) -> None:
    """Refuse an expression that another well-known reader takes to mean something else. Raises ControlRefused."""
    if not isinstance(schedule, CronSchedule | RuleSchedule):
        return
    difference = _second_opinion(schedule)
    if difference is not None:
        raise refused(
            f'"{schedule.source}" can be read in two ways: {difference}',
            hint="write it in another form, such as two triggers",
        )


@lru_cache(maxsize=SECOND_OPINIONS_KEPT_MAX)
def _second_opinion(schedule: CronSchedule | RuleSchedule) -> str | None:
    return rule_disagreement(schedule) if isinstance(schedule, RuleSchedule) else disagreement(schedule)


def check_ever_due(definition: Definition, zone: ZoneRules, *, now: int) -> None:
    """Refuse a definition that leaves nothing to be due, with what to change. Raises ControlRefused.

    What the book decides about a definition is the same; it cannot say which option is to blame.
    """
    d = definition
    check_possible(d.schedule, zone, d.gap, d.fold, d.excluded)
    if d.not_before is None or d.not_before <= now:
        return
    due = with_exclusions(recurrence_of(d.schedule, zone, d.gap, d.fold), zone, d.excluded)
    first = due.next_after(d.not_before - 1)
    if first is None or (d.not_after is not None and first > d.not_after):
        raise refused(
            f'schedule "{d.schedule.source}" has no instant from --not-before {format_instant(d.not_before)} '
            + ("on" if d.not_after is None else f"to --not-after {format_instant(d.not_after)}"),
            hint="give an earlier --not-before" + ("" if d.not_after is None else " or a later --not-after"),
            code=RejectionCode.WHOLLY_PAST,
        )


def check_possible(schedule: Schedule, zone: ZoneRules, gap: Gap, fold: Fold, excluded: tuple[int, ...]) -> None:
    """Refuse a schedule that has no instant in any year, and say what takes them all away. Raises ControlRefused."""
    every = recurrence_of(schedule, zone, gap, fold)
    if with_exclusions(every, zone, excluded).next_after(_BEFORE_ALL) is not None:
        return
    reason, hint = "", "check its date fields"
    if every.next_after(_BEFORE_ALL) is not None:
        reason, hint = ": every date that it names is excluded", "exclude fewer dates"
    elif gap == "skip" and recurrence_of(schedule, zone, "shift", fold).next_after(_BEFORE_ALL) is not None:
        reason = f": the clock in {zone.name} passes over every local time that it names, and --gap is skip"
        hint = "give --gap shift or --gap next-valid, or name another time"
    raise refused(f'schedule "{schedule.source}" is never due{reason}', hint=hint, code=RejectionCode.NEVER_DUE)


def check_target_address(target: str, policy: TargetPolicy) -> None:
    """Refuse a target whose host is written as an address that must not be called. Raises ControlRefused.

    A name is resolved and checked when it is called, not here; only ``localhost`` needs no resolver.
    """
    rejection = check_target(target)
    if rejection is not None:
        raise from_rejection(rejection)
    if target.startswith(NATS_PREFIX):
        return
    host = (urlsplit(target).hostname or "").rstrip(".")
    name = "127.0.0.1" if host == "localhost" or host.endswith(".localhost") else host
    reason = policy.refusal(name)
    is_address = ":" in name or name.rpartition(".")[2][:1].isdigit()
    if reason and is_address:
        hint = "loopback targets need a local fireledger up; use a public address" if "loopback" in reason else ""
        raise refused(f'--target host "{host}" {reason}', hint=hint or "use a public host name or address")


def new_settings(options: TenantOptions, base: TenantSettings) -> TenantSettings:
    """A tenant's settings: ``base`` with what is given. Raises ControlRefused."""
    if options.zone is not UNSET:
        base = replace(base, zone=options.zone)
    if options.quota is not UNSET:
        base = replace(base, quota_per_second=quota_per_second(options.quota))
    if options.default_jitter is not UNSET:
        base = replace(base, default_jitter=read_option("--default-jitter", options.default_jitter, parse_duration))
    if options.catch_up_share is not UNSET:
        base = replace(base, catch_up_percent=parse_share(options.catch_up_share))
    return base


def quota_per_second(text: str) -> int:
    """Read ``100/s`` or ``100``. Raises ControlRefused."""
    number = text.removesuffix("/s")
    if not (number.isascii() and number.isdigit() and len(number) <= 9):
        raise refused(
            f'--quota "{text[:64]}" is not a quota', hint=f"write it as 100/s, from 1/s to {QUOTA_MAX_PER_SECOND}/s"
        )
    return int(number)


def content_type_of(data: bytes) -> str:
    """What a payload is, by looking at it: JSON, text in UTF-8, or bytes."""
    if not data:
        return "application/octet-stream"
    try:
        data.decode("utf-8")
        loads(data)
    except UnicodeDecodeError:
        return "application/octet-stream"
    except MalformedJson:
        return "text/plain; charset=utf-8"
    return "application/json"


def _moved_anchor(options: TriggerOptions, schedule: Schedule) -> Schedule:
    if options.anchor is UNSET:
        return schedule
    if not isinstance(schedule, IntervalSchedule):
        raise refused("an anchor is given and the schedule is no interval", hint="give --anchor together with --every")
    return replace(schedule, anchor=read_option("--anchor", options.anchor, parse_instant))


def _with_options(definition: Definition, options: TriggerOptions) -> Definition:
    """Everything but the schedule."""
    check_goes_with(definition.schedule, options)
    payload = _payload(options)
    if payload is not None:
        definition = replace(definition, payload=payload, content_type=content_type_of(payload.data))
    d, o = definition, options
    return replace(
        d,
        zone=_kept(o.zone, d.zone),
        gap=d.gap if o.gap is UNSET else o.gap,
        fold=d.fold if o.fold is UNSET else o.fold,
        target=_kept(o.target, d.target),
        jitter=_duration("--jitter", o.jitter, d.jitter),
        missed=d.missed if o.missed is UNSET else o.missed,
        cap=d.cap if o.cap is UNSET else o.cap,
        horizon=_kept_duration("--horizon", o.horizon, d.horizon),
        tolerance=_duration("--tolerance", o.tolerance, d.tolerance),
        overlap=d.overlap if o.overlap is UNSET else o.overlap,
        outcome_window=_kept_duration("--outcome-window", o.outcome_window, d.outcome_window),
        timeout=_kept_duration("--timeout", o.timeout, d.timeout),
        not_before=_instant("--not-before", o.not_before, d.not_before),
        not_after=_instant("--not-after", o.not_after, d.not_after),
        max_fires=d.max_fires if o.max_fires is UNSET else o.max_fires,
        excluded=d.excluded if o.exclude is UNSET else excluded_dates(o.exclude or ()),
        retry=retry_with(o, d.retry),
    )


def _payload(options: TriggerOptions) -> Sealed | None:
    if options.payload is not UNSET and options.payload_base64 is not UNSET:
        raise malformed("payload and payload_base64 exclude each other")
    data = options.payload_base64 if options.payload is UNSET else options.payload.encode()
    if data is UNSET:
        return None
    if len(data) > PAYLOAD_BYTES_MAX:
        raise refused(f"--payload is {len(data)} bytes; at most {PAYLOAD_BYTES_MAX}", hint=_PAYLOAD_HINT)
    return seal_plain(data)


_PAYLOAD_HINT = "send a reference to the data instead of the data"


def _kept(given: str | UnsetType, current: str) -> str:
    return current if given is UNSET else given


def _kept_duration(option: str, given: str | UnsetType, current: int) -> int:
    return current if given is UNSET else read_option(option, given, parse_duration)


def _duration(option: str, given: str | UnsetType | None, current: int | None) -> int | None:
    if given is UNSET:
        return current
    return None if given is None else read_option(option, given, parse_duration)


def _instant(option: str, given: str | UnsetType | None, current: int | None) -> int | None:
    if given is UNSET:
        return current
    return None if given is None else read_option(option, given, parse_instant)
