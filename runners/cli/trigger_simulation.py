"""``fireledger trigger simulate-policy``: what each missed-fire policy makes of an outage."""

import click

from fireledger.domain.instants import parse_instant

from ..control.refusals import read_option
from ..json_edge import Json
from .asking import Row, look
from .output import emit_json, examples, shown
from .place import Place, placed
from .trigger_options import trigger_named


@click.command(
    "simulate-policy",
    short_help="Compare the missed-fire policies on an outage.",
    epilog=examples(
        "fireledger trigger simulate-policy acme/nightly-report",
        "fireledger trigger simulate-policy acme/poll --outage 2026-11-30T02:00:00Z..2026-11-30T04:00:00Z --json",
    ),
)
@click.argument("path", metavar="TENANT/TRIGGER")
@click.option("--outage", metavar="FROM..TO", help="Nothing was decided between these instants.  [the last recorded]")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
@placed
def simulate_policy(*, path: str, outage: str | None, as_json: bool, place: Place) -> None:
    """Show what each policy of --missed would have done about an outage. Nothing is written and nothing fires.

    The trigger's present definition decides, by the scheduler's own code, as if the scheduler came back at TO.
    """
    request = trigger_named(path)
    if outage is not None:
        start, dots, end = outage.partition("..")
        if not dots:
            raise click.UsageError("write --outage as FROM..TO")
        for text in (start, end):
            read_option("--outage", text, parse_instant)
        request |= {"start": start, "end": end}
    answer = look(place, "trigger.simulate-policy", request)
    if as_json:
        emit_json(answer)
        return
    which = "the last recorded outage" if answer.get("recorded") else "an outage"
    click.echo(f"{which} from {answer['start']} to {answer['end']}; the trigger's policy is {answer['policy']}")
    policies = answer.get("policies")
    for policy in policies if isinstance(policies, list) else []:
        if isinstance(policy, dict):
            _tell(policy)


def _tell(policy: Row) -> None:
    click.echo(f"{policy['policy']}: {policy['fired_count']} would fire, {policy['unfired_count']} would not")
    fired, unfired = _listed(policy, "fired"), _listed(policy, "unfired")
    if isinstance(policy["fired_count"], int) and policy["fired_count"] > len(fired):
        click.echo(f"  the newest {len(fired)} of those that would fire:")
    for instant in fired:
        click.echo(f"  {shown(instant)}  fires")
    for run in unfired:
        if isinstance(run, dict):
            stretch = f"{run['first']}" if run["count"] == 1 else f"{run['first']} to {run['last']}, {run['count']}"
            click.echo(f"  {stretch}  {run['state']} ({run['cause']})")


def _listed(policy: Row, name: str) -> list[Json]:
    listed = policy.get(name)
    return list(listed) if isinstance(listed, list) else []
