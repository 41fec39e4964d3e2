"""``fireledger status``: whether everything is ready."""

import click

from ..errors import ExitStatus
from .asking import Row, look
from .output import emit_json, emit_table, examples, shown
from .place import Place, placed


@click.command(
    short_help="Show whether everything works, and problems.",
    epilog=examples(
        "fireledger status",
        "fireledger status --json --nats-url nats://10.0.0.5:4222 --creds operator.json",
    ),
)
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
@placed
def status(*, as_json: bool, place: Place) -> None:
    """Show whether everything is there and does its work, and what a person should look at.

    Exit status 0 only if the broker, control, a scheduler and a dispatcher are ready and there is no problem; else 6.
    Each problem comes with a hint: a trigger in quarantine, a book that cannot be decided, calls that wait for long,
    a lane that is behind, a page of the last hour that took no effect. Open fires are released and have no outcome,
    waiting ones are decided and not released. Held fires wait for a person, and suspended triggers for their spend
    ceiling: of both the tenants are named with their numbers, and neither is a problem.
    """
    answer = look(place, "status", {})
    if as_json:
        emit_json(answer)
    else:
        _show(answer)
    if answer.get("ready") is not True or answer.get("problems"):
        raise click.exceptions.Exit(ExitStatus.UNAVAILABLE)


_SHOWN = (
    "control", "clock", "tenants", "triggers", "open_fires", "waiting_fires", "held_fires", "suspended_triggers",
    "ineffective_pages", "books_ahead",
)  # fmt: skip


def _show(answer: Row) -> None:
    details = answer.get("details")
    problems = [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    click.echo(_headline(ready=answer.get("ready") is True, problem_count=len(problems)))
    for problem in problems:
        click.echo(f"  {shown(problem.get('problem'))}")
        if problem.get("hint"):
            click.echo(f"    hint: {shown(problem['hint'])}")
    for name in _SHOWN:
        click.echo(f"{name.replace('_', ' ')}: {shown(answer.get(name))}")
    runners = answer.get("runners")
    rows = [row for row in runners if isinstance(row, dict)] if isinstance(runners, list) else []
    emit_table(("kind", "runner", "active", "reason", "epsilon", "heartbeat"), rows, empty="no runners")


def _headline(*, ready: bool, problem_count: int) -> str:
    if not ready:
        return "not ready"
    match problem_count:
        case 0:
            return "ready"
        case 1:
            return "ready, with a problem"
        case _:
            return f"ready, with {problem_count} problems"
