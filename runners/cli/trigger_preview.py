"""``fireledger trigger preview``: the coming instants, by the very code that decides them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click
from msgspec import UNSET

from fireledger.domain.definition import Fold, Gap
from fireledger.domain.identifiers import parse_trigger_path
from fireledger.domain.instants import SECOND, Instant, parse_instant
from fireledger.domain.preview import preview
from fireledger.domain.recurrence.exclusions import with_exclusions
from fireledger.domain.recurrence.recurrence import recurrence_of
from fireledger.domain.recurrence.rules import default_rules
from fireledger.domain.recurrence.schedule import Schedule
from fireledger.domain.zones import UnknownZone, ZoneRules

from ..clock import realtime
from ..control import requests as r
from ..control.answers import preview_answer
from ..control.definitions import check_goes_with, check_possible, excluded_dates, given_schedule
from ..control.refusals import read_option, refused, unknown_zone
from ..json_edge import Json
from .asking import Asker, Row, asking, rows_of
from .exclusion_options import exclusion_options, given_exclusions
from .output import emit_json, emit_table, examples
from .place import Place, place_options
from .trigger_options import schedule_options

COUNT_MAX = 10_000


@click.command(
    "preview",
    epilog=examples(
        'fireledger trigger preview --cron "30 2 * * *" --zone Europe/Rome --from 2026-10-24T00:00:00Z -n 3',
        "fireledger trigger preview acme/nightly-report --json",
    ),
)
@click.argument("path", metavar="[TENANT/TRIGGER]", required=False)
@schedule_options
@exclusion_options
@click.option("-n", "count", type=int, default=10, show_default=True, help="How many instants.")
@click.option("--from", "start", metavar="INSTANT", help="Instants strictly after this one.  [now]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: scheduled, release, local.")
@place_options
def preview_trigger(
    *,
    path: str | None,
    count: int,
    start: str | None,
    exclude: tuple[str, ...],
    exclude_calendar: str | None,
    as_json: bool,
    data: Path | None,
    nats_url: str | None,
    creds: Path | None,
    **options: str | None,
) -> None:
    """Preview the coming instants of a schedule, or of a trigger that exists.

    With --cron, --every or --at nothing has to run. A schedule that is wholly in the past previews as empty.
    """
    given: dict[str, Json] = {name: value for name, value in options.items() if value is not None}
    given |= given_exclusions(exclude, exclude_calendar)
    if (path is None) == (not given.keys() & {"cron", "every", "at"}):
        raise click.UsageError("give TENANT/TRIGGER, or one of --cron, --every and --at")
    if not 1 <= count <= COUNT_MAX:
        raise refused(f"-n {count} is out of bounds", hint=f"use 1 to {COUNT_MAX}")
    notes: list[str] = []
    if path is None:
        rows = _of_schedule(given, count, start)
    elif given:
        raise click.UsageError(f"give --{next(iter(given))} with --cron, --every or --at, not with TENANT/TRIGGER")
    else:
        rows, notes = _of_trigger(Place(data, nats_url, creds), path, count, start)
    for note in notes:
        click.echo(f"note: {note}", err=True)
    if as_json:
        for row in rows:
            emit_json(row)
        return
    emit_table(("scheduled", "release", "local"), rows, empty="nothing is due after that")


def _of_trigger(place: Place, path: str, count: int, start: str | None) -> tuple[list[Row], list[str]]:
    """The rows, and what control says besides."""
    tenant, trigger = parse_trigger_path(path)
    request: dict[str, Json] = {"tenant": tenant, "trigger": trigger}
    if start is not None:
        read_option("--from", start, parse_instant)
        request["after"] = start

    async def coming(asker: Asker) -> tuple[list[Row], list[str]]:
        """Ask for instants until there are enough or no more."""
        found: list[Row] = []
        notes: Json = None
        asked = request
        while len(found) < count:
            answer = await asker.ask("trigger.preview", {**asked, "count": count - len(found)})
            found.extend(rows_of(answer))
            notes = answer.get("notes") if notes is None else notes
            if answer.get("next") is None:
                break
            asked = {**request, "after": answer["next"]}
        return found, [str(note) for note in notes] if isinstance(notes, list) else []

    return asking(place, coming)


@dataclass(frozen=True, slots=True)
class AskedSchedule:
    """A schedule from the command line, with its zone, rules and excluded dates."""

    schedule: Schedule
    zone: ZoneRules
    gap: Gap
    fold: Fold
    excluded: tuple[int, ...]


def asked_schedule(given: Mapping[str, Json], *, anchor: int) -> AskedSchedule:
    """Read the options of a schedule; its zone is looked up in the packaged data. Raises ControlRefused."""
    from ..zone_package import load_packaged_zones

    request = r.read_request({"tenant": "preview", "trigger": "preview", **given}, r.TriggerOptions)
    schedule = given_schedule(request, anchor=anchor)
    assert schedule is not None, "the caller looked"
    check_goes_with(schedule, request)
    try:
        zone = load_packaged_zones().zone("UTC" if request.zone is UNSET else request.zone)
    except UnknownZone as error:
        raise unknown_zone(error) from error
    gap, fold = _rules(schedule, request)
    excluded = () if request.exclude is UNSET else excluded_dates(request.exclude or ())
    return AskedSchedule(schedule, zone, gap, fold, excluded)


def _of_schedule(given: Mapping[str, Json], count: int, start: str | None) -> list[Row]:
    after = realtime() if start is None else read_option("--from", start, parse_instant)
    asked = asked_schedule(given, anchor=after - after % SECOND)
    check_possible(asked.schedule, asked.zone, asked.gap, asked.fold, asked.excluded)
    recurrence = recurrence_of(asked.schedule, asked.zone, asked.gap, asked.fold)
    found = preview(
        with_exclusions(recurrence, asked.zone, asked.excluded),
        asked.zone,
        tenant="preview",
        trigger="preview",
        jitter_window=0,
        after=Instant(after),
        count=count,
    )
    return [{name: str(value) for name, value in preview_answer(one).items()} for one in found]


def _rules(schedule: Schedule, request: r.TriggerOptions) -> tuple[Gap, Fold]:
    gap, fold = default_rules(schedule)
    return (gap if request.gap is UNSET else request.gap, fold if request.fold is UNSET else request.fold)
