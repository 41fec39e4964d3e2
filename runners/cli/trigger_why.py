"""``fireledger trigger why``: why a schedule is due at an instant, or is not, field by field."""

from pathlib import Path

import click

from fireledger.domain.identifiers import parse_trigger_path
from fireledger.domain.instants import SECOND, parse_instant
from fireledger.domain.recurrence.explain import explain

from ..control.answers import explanation_answer
from ..json_edge import Json, dumps, loads
from .asking import Row, look
from .exclusion_options import exclusion_options, given_exclusions
from .output import emit_json, examples, shown
from .place import Place, place_options
from .trigger_options import schedule_options
from .trigger_preview import asked_schedule


@click.command(
    "why",
    epilog=examples(
        "fireledger trigger why acme/nightly-report 2026-11-30T02:00:00Z",
        'fireledger trigger why --cron "30 2 * * *" --zone Europe/Rome 2026-03-29T01:30:00Z',
    ),
)
@click.argument("arguments", nargs=-1, metavar="[TENANT/TRIGGER] INSTANT")
@schedule_options
@exclusion_options
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
@place_options
def why_trigger(
    *,
    arguments: tuple[str, ...],
    exclude: tuple[str, ...],
    exclude_calendar: str | None,
    as_json: bool,
    data: Path | None,
    nats_url: str | None,
    creds: Path | None,
    **options: str | None,
) -> None:
    """Explain why a schedule is due at INSTANT, or is not: every field, and the rules for gaps and folds.

    Of a trigger that exists, also what the book decided about the instant. With --cron, --every or --at nothing has
    to run.
    """
    given: dict[str, Json] = {name: value for name, value in options.items() if value is not None}
    given |= given_exclusions(exclude, exclude_calendar)
    of_schedule = bool(given.keys() & {"cron", "every", "at"})
    if len(arguments) != (1 if of_schedule else 2):
        raise click.UsageError("give TENANT/TRIGGER INSTANT, or one of --cron, --every and --at with INSTANT")
    if given and not of_schedule:
        raise click.UsageError(f"give --{next(iter(given))} with --cron, --every or --at, not with TENANT/TRIGGER")
    instant = parse_instant(arguments[-1])
    if of_schedule:
        answer = _of_schedule(given, instant)
    else:
        tenant, trigger = parse_trigger_path(arguments[0])
        request = {"tenant": tenant, "trigger": trigger, "instant": arguments[1]}
        answer = look(Place(data, nats_url, creds), "trigger.why", request)
    if as_json:
        emit_json({name: value for name, value in answer.items() if name != "lines"})
        return
    _tell(answer)


def _of_schedule(given: dict[str, Json], instant: int) -> Row:
    asked = asked_schedule(given, anchor=instant - instant % SECOND)
    explanation = explain(asked.schedule, asked.zone, asked.gap, asked.fold, instant, excluded=asked.excluded)
    answer = loads(dumps(explanation_answer(explanation)))
    assert isinstance(answer, dict), "an answer is an object"
    return answer


def _tell(answer: Row) -> None:
    lines = answer.get("lines")
    for line in lines if isinstance(lines, list) else []:
        click.echo(str(line))
    limits = answer.get("limits")
    for limit in limits if isinstance(limits, list) else []:
        click.echo(f"besides, {shown(limit)}")
    decided = answer.get("decided")
    if isinstance(decided, dict):
        click.echo(f"the book says: {decided['state']} ({decided['cause']}), decided {decided['decided']}")
    elif "decided" in answer:
        click.echo("the book says nothing of this instant yet, or control no longer keeps it in memory")
