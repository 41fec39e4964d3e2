"""Pages, entries and definitions for people: plain values with instants and durations in their outside forms.

Payloads are never shown, only their size. Field names are those of the entries, so that what is read here can be
looked up in the documentation of entry types.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import msgspec

from fireledger.domain import commands as c
from fireledger.domain.definition import Definition, Sealed, TenantSettings
from fireledger.domain.entries import BookEntry
from fireledger.domain.instants import format_duration, format_instant
from fireledger.domain.page import Page, body_hash, is_effective
from fireledger.domain.recurrence.excluded_text import format_excluded_dates
from fireledger.domain.recurrence.schedule import CronSchedule, IntervalSchedule, OneOffSchedule, RuleSchedule, Schedule

Readable: TypeAlias = "bool | int | float | str | Sequence[Readable] | Mapping[str, Readable] | None"
"""A plain value that has a JSON form."""

_INSTANTS = frozenset(
    {"scheduled", "release", "first", "last", "into", "until", "at", "stamped_at", "start", "end", "old", "new"}
)
"""Fields of entries that hold an instant."""
_DURATIONS = frozenset({"step", "retry_after", "took", "timeout"})
"""Fields of entries that hold a duration; a step may be negative."""


def page_readable(page: Page, body: bytes, *, stamped_at: int, sequence: int) -> dict[str, Readable]:
    """A page with everything but its entries: where it stands, what went into it, and whether it took effect."""
    inputs = page.inputs
    return {
        "tenant": page.tenant,
        "page": page.number,
        "sequence": sequence,
        "stamped_at": format_instant(stamped_at),
        "effective": is_effective(inputs, stamped_at),
        "command": _topic(page.command),
        "asked_by": _asked_by(page.command),
        "now": format_instant(inputs.now),
        "earliest": format_instant(inputs.earliest),
        "latest": format_instant(inputs.latest),
        "clock_source": inputs.clock_source,
        "as_of": inputs.as_of,
        "as_of_read_at": format_instant(inputs.as_of_read_at) if inputs.as_of_read_at else None,
        "allowances": {**inputs.allowances},
        "entry_limit": inputs.entry_limit,
        "trigger_limit": inputs.trigger_limit,
        "shedding_level": inputs.shedding_level,
        "step": signed_duration(inputs.step) if inputs.step else None,
        "owner": inputs.owner,
        "epoch": inputs.epoch,
        "logic_version": inputs.logic_version,
        "quarantine": [item.trigger for item in inputs.quarantine],
        "request_id": page.request_id or None,
        "commit_id": page.commit_id,
        "previous_sha256": page.previous_sha256.hex(),
        "sha256": body_hash(body).hex(),
        "entry_count": len(page.entries),
    }


def _asked_by(command: c.Command) -> str | None:
    """The person whom a command names; None if it names nobody."""
    match command:
        case c.FireNow() | c.ReleaseFire() | c.CancelFire() | c.StartBackfill() | c.CancelBackfill():
            return command.by
        case _:
            return None


def entry_readable(entry: BookEntry) -> dict[str, Readable]:
    """An entry: its topic, then its fields; what is absent is left out."""
    shown: dict[str, Readable] = {"topic": _topic(entry)}
    for name in entry.__struct_fields__:
        value = cast("object", getattr(entry, name))
        if value not in (None, "", ()):
            shown[name] = _size(value) if name == "body" and isinstance(value, bytes) else _field(name, value)
    return shown


def _field(name: str, value: object) -> Readable:
    match value:
        case bool() | str() | None:
            return value
        case int():
            if name in _INSTANTS:
                return format_instant(value)
            return signed_duration(value) if name in _DURATIONS else value
        case bytes():
            return value.hex()
        case Definition():
            return definition_readable(value)
        case TenantSettings():
            return settings_readable(value)
        case tuple():
            return [_field(name, item) for item in cast("tuple[object, ...]", value)]
        case msgspec.Struct():
            return {each: _field(each, cast("object", getattr(value, each))) for each in value.__struct_fields__}
        case _:
            return str(value)


def _topic(tagged: BookEntry | c.Command) -> str:
    return str(tagged.__struct_config__.tag)


def signed_duration(value: int) -> str:
    """A duration that may be negative, such as ``-1h``."""
    return f"-{format_duration(-value)}" if value < 0 else format_duration(value)


def settings_readable(settings: TenantSettings) -> dict[str, Readable]:
    """A tenant's settings."""
    return {
        "zone": settings.zone,
        "quota_per_second": settings.quota_per_second,
        "default_jitter": format_duration(settings.default_jitter),
        "catch_up_share": f"{settings.catch_up_percent}%",
    }


def definition_readable(definition: Definition) -> dict[str, Readable]:
    """A trigger's definition; the payload as its size."""
    d = definition
    return {
        **_schedule_readable(d.schedule),
        "zone": d.zone,
        "gap": d.gap,
        "fold": d.fold,
        "target": d.target,
        "payload": _size(d.payload),
        "content_type": d.content_type,
        "jitter": _duration(d.jitter),
        "missed": d.missed,
        "cap": d.cap,
        "horizon": format_duration(d.horizon),
        "tolerance": _duration(d.tolerance),
        "overlap": d.overlap,
        "outcome_window": format_duration(d.outcome_window),
        "timeout": format_duration(d.timeout),
        "max_attempts": d.retry.attempts,
        "retry_base": format_duration(d.retry.base),
        "retry_factor": factor_text(d.retry.factor),
        "retry_cap": format_duration(d.retry.cap),
        "not_before": _instant(d.not_before),
        "not_after": _instant(d.not_after),
        "max_fires": d.max_fires,
        "excluded": format_excluded_dates(d.excluded) or None,
    }


def factor_text(hundredths: int) -> str:
    """A factor in hundredths as people write it: ``2``, ``1.5``."""
    whole, rest = divmod(hundredths, 100)
    return f"{whole}.{rest:02d}".rstrip("0") if rest else str(whole)


def schedule_text(schedule: Schedule) -> str:
    """A schedule in one short line."""
    match schedule:
        case CronSchedule() | RuleSchedule():
            return schedule.source
        case IntervalSchedule():
            return f"every {format_duration(schedule.period)}"
        case OneOffSchedule():
            return f"at {schedule.source}"


def _schedule_readable(schedule: Schedule) -> dict[str, Readable]:
    match schedule:
        case CronSchedule():
            return {"cron": schedule.source, "dialect": schedule.dialect}
        case IntervalSchedule():
            return {"every": format_duration(schedule.period), "anchor": format_instant(schedule.anchor)}
        case OneOffSchedule():
            return {"at": schedule.source}
        case RuleSchedule():
            return {"cron": schedule.source, "dialect": "rrule"}


def _size(content: Sealed | bytes) -> str:
    return f"{len(content.data if isinstance(content, Sealed) else content)} bytes"


def _duration(value: int | None) -> str | None:
    return None if value is None else format_duration(value)


def _instant(value: int | None) -> str | None:
    return None if value is None else format_instant(value)
