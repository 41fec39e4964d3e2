"""Where control is looked for, and what is said when it is not known whether a command was carried out."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from fireledger.runners.cli.asking import Asker
from fireledger.runners.cli.main import cli
from fireledger.runners.cli.place import Place
from fireledger.runners.control_client import ControlAbsent, ControlClient
from fireledger.runners.errors import BrokerUnavailable
from fireledger.runners.json_edge import Json

A, B, URL, CREDS = Path("a"), Path("b"), "nats://127.0.0.1:4222", Path("creds.json")


class Silent(ControlClient):
    """A client whose questions end with this kind of error."""

    def __init__(self, kind: type[BrokerUnavailable]) -> None:
        self._kind = kind

    async def ask(self, subject: str, request: Mapping[str, Json], *, timeout_s: float = 1.0) -> Json:
        """Fail as the real one does."""
        raise self._kind("control does not answer", hint="start it")


def test_what_was_said_closest_to_the_command_counts() -> None:
    """A folder and an address are two ways of saying where; credentials are completed from further away."""
    assert Place(data=A).or_else(Place(data=B, nats_url=URL, creds=CREDS)) == Place(data=A, creds=CREDS)
    assert Place(nats_url=URL).or_else(Place(data=B)) == Place(nats_url=URL)
    assert Place().or_else(Place(data=B)) == Place(data=B)
    assert Place(creds=CREDS).or_else(Place(nats_url=URL)) == Place(nats_url=URL, creds=CREDS)


def test_a_place_may_be_named_before_the_command(tmp_path: Path) -> None:
    """Options of the root hold for every command, and those of the command win."""
    early, late = tmp_path / "early", tmp_path / "late"
    runner = CliRunner(env={"FIRELEDGER_DATA": str(tmp_path / "environment")})
    result = runner.invoke(cli, ["--data", str(early), "tenant", "list"])
    assert f'"{early}"' in result.stderr
    result = runner.invoke(cli, ["--data", str(early), "tenant", "list", "--data", str(late)])
    assert f'"{late}"' in result.stderr


def test_a_command_without_an_answer_names_its_request_id() -> None:
    """Whether it was carried out is not known; giving it again under the same id is safe."""
    asker = Asker(Silent(BrokerUnavailable))
    with pytest.raises(BrokerUnavailable) as caught:
        asyncio.run(asker.command("trigger.pause", {"request_id": "one"}))
    assert caught.value.message == "control did not answer: whether the command was carried out is not known"
    assert caught.value.hint == "give it again with --request-id one: it is carried out once"


def test_a_command_that_nobody_heard_was_not_carried_out() -> None:
    """The hint is how to start."""
    asker = Asker(Silent(ControlAbsent))
    with pytest.raises(BrokerUnavailable, match="control does not answer") as caught:
        asyncio.run(asker.command("trigger.pause", {"request_id": "one"}))
    assert caught.value.hint == "start it"
