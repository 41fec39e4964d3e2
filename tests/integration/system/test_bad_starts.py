"""Starts that cannot work: each says why, gives a hint, ends with the right status and leaves things as they were."""

import asyncio
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fireledger.runners.broker.folder import DataFolder
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.topology import LEDGER
from fireledger.runners.json_edge import Json, dumps, dumps_text, loads
from tests.integration.brokers import RunningBroker
from tests.integration.system.system import FIRELEDGER, Ended, environment, run
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]


def said(ended: Ended, status: int, *words: str) -> None:
    """Assert the status, an error and a hint on stderr, nothing on stdout, and the words in the error."""
    assert (ended.status, ended.stdout) == (status, ""), ended
    lines = ended.stderr.splitlines()
    assert lines[0].startswith("error: "), ended.stderr
    assert lines[-1].startswith("hint: "), ended.stderr
    for word in words:
        assert word in ended.stderr


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_a_folder_of_another_layout_is_left_alone(tmp_path: Path) -> None:
    """A layout version of another release is refused and nothing is written."""
    (tmp_path / "layout.json").write_text('{"version":99}')
    before = contents(tmp_path)
    said(await run("up", "--data", str(tmp_path)), 4, 'layout version "99"', "this release reads 1")
    assert contents(tmp_path) == before


async def test_a_file_is_no_data_folder(tmp_path: Path) -> None:
    """A path that is a file is refused, and stays what it was."""
    path = tmp_path / "data"
    path.write_text("mine")
    said(await run("up", "--data", str(path)), 4, f'"{path}" is not a folder')
    assert path.read_text() == "mine"


async def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """A folder with other files in it is refused."""
    (tmp_path / "thesis.txt").write_text("mine")
    said(await run("up", "--data", str(tmp_path)), 4, '"thesis.txt"')
    assert set(contents(tmp_path)) == {"thesis.txt"}


async def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    """A port that another process has ends the start."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said(await run("up", "--data", str(tmp_path / "data"), "--port", str(port)), 6, f'port "{port}"', "--port")


async def test_a_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Something that is no folder in the place of the streams ends the start."""
    folder = DataFolder.open(tmp_path / "data")
    folder.store_path.write_text("no folder")
    said(await run("up", "--data", str(folder.path)), 6, "the broker did not start", "no folder")


async def test_a_clock_bound_above_the_ceiling_is_refused(tmp_path: Path) -> None:
    """500 ms of uncertainty are refused before anything is touched; so is what is no duration."""
    data = tmp_path / "data"
    said(await run("up", "--data", str(data), "--clock-bound", "500ms"), 5, '"500ms"', "100ms")
    said(await run("up", "--data", str(data), "--clock-bound", "soon"), 2, '"soon"')
    said(await run("up", "--data", str(data), "--port", "70000"), 2, "70000")
    said(await run("--data", str(data), "up"), 2, "after")
    assert not data.exists()


async def test_altered_stream_settings_are_shown_as_a_difference(bare_broker: RunningBroker) -> None:
    """A stream that was altered while nobody looked keeps ``up`` from starting, and the difference is readable."""
    admin = await BrokerConnection.open(bare_broker.login("admin"), name="test")
    config: dict[str, Json] = {"name": LEDGER, "subjects": ["book.*.*"], "max_age": 3_600_000_000_000}
    await admin.request(f"$JS.API.STREAM.CREATE.{LEDGER}", dumps(config), timeout_s=5)
    await admin.close()
    await bare_broker.process.stop()
    bare_broker.lock.release()
    ended = await run("up", "--data", str(bare_broker.folder.path))
    said(ended, 4, f"{LEDGER}", "max_age", "attempts.*")


@asynccontextmanager
async def runner(kind: str, url: str, creds: Path) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A single runner, killed in the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *FIRELEDGER,
        *("run", kind, "--nats-url", url, "--creds", str(creds), "--clock-bound", "10ms"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment("runner"),
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def write_credentials(path: Path, user: str) -> Path:
    """Credentials that no broker knows."""
    path.write_text(dumps_text({"user": user, "password": "fl-wrong"}))
    return path


async def test_a_runner_with_wrong_credentials_ends(shared_broker: RunningBroker, tmp_path: Path) -> None:
    """A refused login ends the runner: waiting would not help. The password is nowhere in the log."""
    creds = write_credentials(tmp_path / "scheduler.json", "scheduler")
    async with runner("scheduler", shared_broker.url, creds) as process:
        async with asyncio.timeout(PATIENCE_S):
            stdout, stderr = await process.communicate()
    assert (process.returncode, stdout) == (6, b"")
    last = loads(stderr.splitlines()[-1])
    assert isinstance(last, dict)
    assert last["action"] == "failed"
    assert 'refused user "scheduler"' in str(last["message"])
    assert last["hint"]
    assert b"fl-wrong" not in stderr


async def test_a_runner_waits_for_its_broker_and_can_be_stopped(tmp_path: Path) -> None:
    """A broker that is not there is waited for, said in the log with the next try, until SIGTERM: status 0."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"nats://127.0.0.1:{nobody.getsockname()[1]}"
        async with runner("dispatcher", url, write_credentials(tmp_path / "d.json", "dispatcher")) as process:
            assert process.stderr is not None
            async with asyncio.timeout(PATIENCE_S):
                line = loads(await process.stderr.readline())
            assert isinstance(line, dict)
            assert (line["action"], line["level"]) == ("broker-unavailable", "warning")
            assert url in str(line["reason"])
            assert isinstance(line["retry_in_s"], float)
            process.send_signal(signal.SIGTERM)
            await until(lambda: process.returncode is not None, what="it stops")
            assert process.returncode == 0


async def test_credentials_that_are_no_file_are_named(tmp_path: Path) -> None:
    """A credentials file that is missing ends the runner with a hint."""
    ended = await run(
        *("run", "control", "--nats-url", "nats://127.0.0.1:1", "--creds", str(tmp_path / "none"), "--clock-bound"),
        "1ms",
    )
    assert ended.status == 4
    assert "cannot be read" in ended.stderr
    assert "--creds" in ended.stderr
