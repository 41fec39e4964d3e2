"""``fireledger status``: whether everything is ready."""

from pathlib import Path

import click

from ..errors import ExitStatus
from .asking import Row, look
from .output import emit_json, emit_table, examples, shown
from .place import Place, place_options


@click.command(epilog=examples("fireledger status --json"))
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
@place_options
def status(*, as_json: bool, data: Path | None, nats_url: str | None, creds: Path | None) -> None:
    """Show whether the broker, control, schedulers and dispatchers are there. Exit status 0 only if all are ready."""
    answer = look(Place(data, nats_url, creds), "status", {})
    if as_json:
        emit_json(answer)
    else:
        _show(answer)
    if answer.get("ready") is not True:
        raise click.exceptions.Exit(ExitStatus.UNAVAILABLE)


def _show(answer: Row) -> None:
    click.echo("ready" if answer.get("ready") is True else "not ready")
    problems = answer.get("problems")
    for problem in problems if isinstance(problems, list) else []:
        click.echo(f"  {shown(problem)}")
    for name in ("control", "clock", "tenants", "triggers", "ineffective_pages", "books_ahead"):
        click.echo(f"{name.replace('_', ' ')}: {shown(answer.get(name))}")
    quarantined = answer.get("quarantined")
    for one in quarantined if isinstance(quarantined, list) else []:
        click.echo(f"quarantined: {shown(one)}")
    runners = answer.get("runners")
    rows = [row for row in runners if isinstance(row, dict)] if isinstance(runners, list) else []
    emit_table(("kind", "runner", "active", "reason", "epsilon", "heartbeat"), rows, empty="no runners")
