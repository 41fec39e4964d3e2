"""``fireledger trigger``: what fires when, and where it goes."""

import sys

import click

from fireledger.domain.identifiers import check_tenant

from ..control import requests as r
from ..control.definitions import check_options
from ..json_edge import Json
from .asking import Row, give, look, look_at_rows
from .ceiling import trigger_ceiling
from .exclusion_options import exclusion_options, given_exclusions
from .output import emit_fields, emit_json, emit_table, examples, shown, told_again
from .place import Place, placed
from .trigger_options import command_options, definition_options, given_options, schedule_options, trigger_named
from .trigger_preview import preview_trigger
from .trigger_simulation import simulate_policy
from .trigger_why import why_trigger

_LIST_COLUMNS = ("trigger", "state", "suspended_until", "schedule", "zone", "next", "target")
DATES_SHOWN_MAX = 10
"""Excluded dates that a trigger's text shows."""


@click.group(
    epilog=examples(
        "fireledger trigger create acme/nightly --cron '0 2 * * *' --target https://example.com/run",
        "fireledger trigger show acme/nightly",
    )
)
def trigger() -> None:
    """Create, change, pause, delete, look at and preview triggers.

    A trigger says when something is due and who is called then. Its name is TENANT/TRIGGER, the second part 1 to 128
    of letters, digits, "_" and "-".
    """


trigger.add_command(preview_trigger)
trigger.add_command(why_trigger)
trigger.add_command(simulate_policy)
trigger.add_command(trigger_ceiling)


@trigger.command(
    "create",
    short_help="Create a trigger.",
    epilog=examples(
        "fireledger trigger create acme/nightly --cron '0 2 * * *' --zone Europe/Rome --target https://example.com/run",
        "fireledger trigger create acme/poll --every 30s --target nats:poller --overlap queue",
    ),
)
@click.argument("path", metavar="TENANT/TRIGGER")
@schedule_options
@definition_options
@exclusion_options
@click.option("--paused", is_flag=True, help="Create it paused.")
@command_options
@placed
def create_trigger(
    *,
    path: str,
    paused: bool,
    exclude: tuple[str, ...],
    exclude_calendar: str | None,
    request_id: str | None,
    as_json: bool,
    place: Place,
    **options: str | int | None,
) -> None:
    """Create a trigger with one of --cron, --every, --at, and a --target. The first instant is after its creation.

    What holds without an option stands in brackets. A DURATION is written as 90s, 15m, 2h or 1d; an INSTANT as
    2026-11-30T09:00:00Z, or with another offset. To see when a schedule is due before creating anything, use trigger
    preview.
    """
    excluded = given_exclusions(exclude, exclude_calendar)
    request = {**trigger_named(path), **given_options(options), **excluded, **({"paused": True} if paused else {})}
    if sum(options[name] is not None for name in ("cron", "every", "at")) != 1:
        raise click.UsageError("give exactly one of --cron, --every and --at")
    if options["target"] is None:
        raise click.UsageError("missing option '--target'")
    _check(r.read_request(request, r.CreateTrigger))
    answer = give(place, "trigger.create", request, request_id)
    _tell(answer, "created", as_json=as_json)


@trigger.command(
    "amend",
    short_help="Change a trigger.",
    epilog=examples(
        'fireledger trigger amend acme/nightly-report --cron "0 3 * * *" --dry-run',
        "fireledger trigger amend acme/nightly-report --jitter default",
    ),
)
@click.argument("path", metavar="TENANT/TRIGGER")
@schedule_options
@definition_options
@exclusion_options
@click.option("--dry-run", is_flag=True, help="Write nothing; tell which of the next 10 instants change.")
@command_options
@placed
def amend_trigger(
    *,
    path: str,
    dry_run: bool,
    exclude: tuple[str, ...],
    exclude_calendar: str | None,
    request_id: str | None,
    as_json: bool,
    place: Place,
    **options: str | int | None,
) -> None:
    """Change the options that are given and keep the rest. An edit neither loses nor invents a fire.

    What stands in brackets is for create: an option that is not given keeps its value.
    "default" takes --jitter, --tolerance, --not-before, --not-after and --max-fires back to their defaults. An
    interval keeps its anchor unless --anchor is given.
    """
    if sum(options[name] is not None for name in ("cron", "every", "at")) > 1:
        raise click.UsageError("give at most one of --cron, --every and --at")
    request = {**trigger_named(path), **given_options(options), **given_exclusions(exclude, exclude_calendar)}
    _check(r.read_request(request, r.AmendTrigger))
    if dry_run:
        _tell_changes(look(place, "trigger.amend", {**request, "dry_run": True}), as_json=as_json)
        return
    _tell(give(place, "trigger.amend", request, request_id), "amended", as_json=as_json)


@trigger.command(
    "pause", short_help="Pause a trigger.", epilog=examples("fireledger trigger pause acme/nightly-report")
)
@click.argument("path", metavar="TENANT/TRIGGER")
@command_options
@placed
def pause_trigger(*, path: str, request_id: str | None, as_json: bool, place: Place) -> None:
    """Pause a trigger: once this returns, nothing of it is decided or released until it is resumed."""
    answer = give(place, "trigger.pause", trigger_named(path), request_id)
    _tell(answer, "paused", as_json=as_json)


@trigger.command(
    "resume",
    short_help="Resume a paused trigger.",
    epilog=examples("fireledger trigger resume acme/nightly-report --on-resume skip"),
)
@click.argument("path", metavar="TENANT/TRIGGER")
@click.option(
    "--on-resume",
    type=click.Choice(["policy", "skip"]),
    default="policy",
    show_default=True,
    help='Instants inside the pause: "policy" treats them as missed (see --missed of create), "skip" skips them all.',
)
@command_options
@placed
def resume_trigger(*, path: str, on_resume: str, request_id: str | None, as_json: bool, place: Place) -> None:
    """Resume a paused trigger. What was due inside the pause is decided at once, as --on-resume says."""
    request: dict[str, Json] = {**trigger_named(path), "on_resume": on_resume}
    answer = give(place, "trigger.resume", request, request_id)
    _tell(answer, "resumed", as_json=as_json)


@trigger.command(
    "delete", short_help="Delete a trigger.", epilog=examples("fireledger trigger delete acme/nightly-report --yes")
)
@click.argument("path", metavar="TENANT/TRIGGER")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@command_options
@placed
def delete_trigger(*, path: str, yes: bool, request_id: str | None, as_json: bool, place: Place) -> None:
    """Delete a trigger and cancel what is not released. Its history stays, and no fire key is ever used again."""
    request = trigger_named(path)
    if not yes:
        _confirm(path)
    answer = give(place, "trigger.delete", request, request_id)
    _tell(answer, "deleted", as_json=as_json)


@trigger.command(
    "show",
    short_help="Show a trigger and what comes next.",
    epilog=examples("fireledger trigger show acme/nightly-report"),
)
@click.argument("path", metavar="TENANT/TRIGGER")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
@placed
def show_trigger(*, path: str, as_json: bool, place: Place) -> None:
    """Show a trigger: its definition, its state and its next instants."""
    answer = look(place, "trigger.show", trigger_named(path))
    if as_json:
        emit_json(answer)
        return
    emit_fields({**answer, "excluded": _shortened(answer.get("excluded"))}, skip=("next",))
    _tell_next(answer)


@trigger.command(
    "list",
    short_help="List a tenant's triggers.",
    epilog=examples("fireledger trigger list acme", "fireledger trigger list acme --json"),
)
@click.argument("tenant")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object a line.")
@placed
def list_triggers(*, tenant: str, as_json: bool, place: Place) -> None:
    """List TENANT's triggers by name: state, schedule, zone, the next instant, and who is called."""
    rows = look_at_rows(place, "trigger.list", {"tenant": check_tenant(tenant)})
    if as_json:
        for row in rows:
            emit_json(row)
        return
    emit_table(_LIST_COLUMNS, rows, empty=f"no triggers in {tenant}")


def _shortened(dates: Json) -> Json:
    """Excluded dates on one line."""
    if not isinstance(dates, list) or len(dates) <= DATES_SHOWN_MAX:
        return dates
    return [*dates[:DATES_SHOWN_MAX], f"and {len(dates) - DATES_SHOWN_MAX} more (--json shows all)"]


def _check(options: r.TriggerOptions) -> None:
    """Say what is wrong before anything is sent, with its place in the text; control checks everything again."""
    check_options(options)


def _confirm(path: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("deleting asks for confirmation, and this is no terminal; give --yes")
    click.confirm(f"delete trigger {path} for good?", abort=True, err=True)


def _tell(answer: Row, verb: str, *, as_json: bool) -> None:
    if as_json:
        emit_json(answer)
        return
    done = verb if answer.get("changed") else "unchanged"
    page = "" if answer.get("page") is None else f", page {answer['page']}"
    click.echo(f"trigger {answer['tenant']}/{answer['trigger']} {done}{page}{told_again(answer)}")
    if verb in ("created", "amended", "resumed"):
        _tell_next(answer)
    if answer.get("sentence") and (verb in ("created", "amended") or answer.get("state") == "deleted"):
        click.echo(str(answer["sentence"]))


def _tell_next(answer: Row) -> None:
    rows = answer.get("next")
    if isinstance(rows, list) and rows:
        state = answer.get("state")
        click.echo("next:" if state in ("active", "backfilling") else f"next, once it is no longer {shown(state)}:")
        for row in rows:
            if isinstance(row, dict):
                late = "" if row["release"] == row["scheduled"] else f"  release {row['release']}"
                click.echo(f"  {row['scheduled']}  {row['local']}{late}")
    elif isinstance(rows, list):
        click.echo("next: nothing more is due")


def _tell_changes(answer: Row, *, as_json: bool) -> None:
    if as_json:
        emit_json(answer)
        return
    rows = answer.get("changes")
    changes = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    click.echo(f"trigger {answer['tenant']}/{answer['trigger']}: nothing was written")
    emit_table(("change", "scheduled", "local", "release", "was_release"), changes, empty="no coming instants")
    click.echo(str(answer["sentence"]))
