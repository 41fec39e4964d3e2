"""``fireledger fires now``, ``release`` and ``cancel``: what a person does to single fires."""

import click

from fireledger.domain.identifiers import parse_fire_key

from ..control.policy_options import check_name
from ..json_edge import Json
from .asking import Row, give
from .by_option import by_option
from .output import emit_json, examples, shown, told_again
from .place import Place, placed
from .trigger_options import command_options, trigger_named

_KEY = "acme/nightly-report/2026-11-30T02:00:00Z/0"


@click.command("now", epilog=examples("fireledger fires now acme/nightly-report"))
@click.argument("path", metavar="TENANT/TRIGGER")
@by_option
@command_options
@placed
def fire_now(
    *,
    path: str,
    by: str,
    request_id: str | None,
    as_json: bool,
    place: Place,
) -> None:
    """Fire a trigger once, now, beside its schedule. It is on time, and has a key of its own."""
    request: dict[str, Json] = {**trigger_named(path), "by": check_name("--by", by)}
    _tell(give(place, "fires.now", request, request_id), "asked for", as_json=as_json)


@click.command("release", epilog=examples(f"fireledger fires release {_KEY}"))
@click.argument("key", metavar="FIRE_KEY")
@by_option
@command_options
@placed
def release_fire(
    *,
    key: str,
    by: str,
    request_id: str | None,
    as_json: bool,
    place: Place,
) -> None:
    """Let a fire go on that is held for a person: its next attempt is made."""
    answer = give(place, "fires.release", _named(key, by), request_id)
    _tell(answer, "released", as_json=as_json)


@click.command("cancel", epilog=examples(f"fireledger fires cancel {_KEY} --by ann"))
@click.argument("key", metavar="FIRE_KEY")
@by_option
@command_options
@placed
def cancel_fire(
    *,
    key: str,
    by: str,
    request_id: str | None,
    as_json: bool,
    place: Place,
) -> None:
    """End a fire that is held, or waits for its release or for its next attempt. What is sent is not called back."""
    answer = give(place, "fires.cancel", _named(key, by), request_id)
    _tell(answer, "cancelled", as_json=as_json)


def _named(key: str, by: str) -> dict[str, Json]:
    parsed = parse_fire_key(key)
    return {"tenant": parsed.tenant, "key": str(parsed), "by": check_name("--by", by)}


def _tell(answer: Row, done: str, *, as_json: bool) -> None:
    if as_json:
        emit_json(answer)
        return
    click.echo(f"fire {answer['key']} {done}, page {shown(answer.get('page'))}{told_again(answer)}")
    click.echo(shown(answer.get("sentence")))
