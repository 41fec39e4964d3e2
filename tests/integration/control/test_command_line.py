"""The command line against a running control: output, exit statuses, and idempotent commands."""

import asyncio
import os
import signal
import sys

import pytest

from fireledger.runners.json_edge import loads
from tests.integration.brokers import RunningBroker
from tests.integration.control.running import Service
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

CREATE = ("trigger", "create", "cli/nightly", "--cron", "0 2 * * *", "--target", "nats:report")


async def test_a_triggers_life_on_the_command_line(service: Service) -> None:
    """Each command prints what the contract says and ends with its exit status; the second of a kind is a conflict."""
    created = await service.run("tenant", "create", "cli", "--zone", "Europe/Rome")
    assert (created.status, created.stderr) == (0, "")
    assert (
        created.stdout == "tenant cli created: zone Europe/Rome, quota 100/s, default jitter 0s, catch-up share 10%\n"
    )
    trigger = await service.run(*CREATE, "--payload", '{"a":1}')
    lines = trigger.stdout.splitlines()
    assert (trigger.status, lines[0], lines[1], len(lines)) == (0, "trigger cli/nightly created, page 2", "next:", 6)
    assert lines[-1].startswith("After an outage, ")
    again = await service.run(*CREATE)
    assert (again.status, again.stdout) == (4, "")
    assert again.stderr == (
        'error: trigger "cli/nightly" exists\nhint: change it: fireledger trigger amend cli/nightly\n'
    )
    dry = await service.run("trigger", "amend", "cli/nightly", "--cron", "0 3 * * *", "--dry-run")
    assert (dry.status, dry.stdout.splitlines()[0]) == (0, "trigger cli/nightly: nothing was written")
    assert "vanishes" in dry.stdout
    amended = await service.run("trigger", "amend", "cli/nightly", "--cron", "0 3 * * *")
    assert amended.stdout.startswith("trigger cli/nightly amended, page 3\n")
    assert (await service.run("trigger", "pause", "cli/nightly")).stdout == "trigger cli/nightly paused, page 4\n"
    shown = await service.rows("trigger", "show", "cli/nightly", "--json")
    assert (shown[0]["state"], shown[0]["cron"], shown[0]["payload"]) == ("paused", "0 3 * * *", "7 bytes")
    resumed = await service.run("trigger", "resume", "cli/nightly", "--on-resume", "skip", "--json")
    assert '"state":"active"' in resumed.stdout
    listed = await service.rows("trigger", "list", "cli", "--json")
    assert [(row["trigger"], row["schedule"]) for row in listed] == [("nightly", "0 3 * * *")]
    deleted = await service.run("trigger", "delete", "cli/nightly", "--yes")
    assert deleted.stdout == "trigger cli/nightly deleted, page 6\n"
    gone = await service.run("trigger", "show", "cli/nightly")
    assert (gone.status, gone.stdout) == (3, "")
    assert gone.stderr.startswith('error: trigger "cli/nightly" does not exist\n')


async def test_reads_on_the_command_line(service: Service) -> None:
    """Text reads are tables, --json prints one object a line, and an ineffective page would be marked."""
    await service.create("looks", "second", cron="* * * * * *")
    await service.tick("looks")
    fires = await service.rows("fires", "list", "looks/second", "--json")
    assert fires
    assert list(fires[0])[:8] == ["key", "tenant", "trigger", "version", "scheduled", "release", "decided", "released"]
    shown = await service.run("fires", "show", str(fires[0]["key"]))
    assert (shown.status, "\nstate " in shown.stdout) == (0, True)
    table = await service.run("fires", "list", "looks")
    # Nobody was called, so there is nothing to say of attempts, delays, costs and messages.
    assert table.stdout.splitlines()[0].split() == "SCHEDULED TRIGGER STATE CAUSE LANE OUTCOME".split()
    pages = await service.rows("book", "show", "looks", "--from", "2", "--json")
    assert [(page["page"], page["command"]) for page in pages] == [(2, "create-trigger.v1"), (3, "tick.v1")]
    text = await service.run("book", "show", "looks")
    assert text.stdout.splitlines()[0].startswith("page 1  ")
    # Of one that owes nothing at the moment: what is owed would be noted on stderr.
    await service.create("looks", "yearly", cron="0 0 1 1 *")
    preview = await service.rows("trigger", "preview", "looks/yearly", "-n", "3", "--json")
    assert [list(row)[:3] for row in preview] == [["scheduled", "release", "local"]] * 3
    await service.create("looks", "hourly", cron="30 * * * *")
    many = await service.rows("trigger", "preview", "looks/hourly", "-n", "1500", "--json")
    assert len({str(row["scheduled"]) for row in many}) == 1500


async def test_the_same_request_id_is_carried_out_once(service: Service) -> None:
    """Given twice, the command says that it was carried out before."""
    await service.ask("tenant.create", tenant="twice")
    command = ("trigger", "create", "twice/t", "--every", "1h", "--target", "nats:x", "--request-id", "one")
    first, second = await service.run(*command), await service.run(*command)
    assert first.stdout.splitlines()[0] == "trigger twice/t created, page 2"
    assert second.stdout.splitlines()[0] == "trigger twice/t created, page 2 (this request was carried out before)"
    assert second.status == 0


async def test_status_and_its_exit_status(service: Service) -> None:
    """Without a scheduler the status is shown on stdout and the exit status is 6."""
    status = await service.run("status")
    assert (status.status, status.stderr) == (6, "no runners\n")
    assert status.stdout.startswith(
        "not ready\n"
        "  no scheduler is active\n"
        "    hint: start one: fireledger run scheduler, or all: fireledger up\n"
        "  no dispatcher is active\n"
    )


async def test_follow_prints_what_happens_until_it_is_interrupted(service: Service) -> None:
    """A fire decided while following appears as one JSON object; an interrupt ends it with exit status 0."""
    await service.create("follow", "second", cron="* * * * * *")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fireledger.runners.cli.main", "fires", "follow", "follow", "--json"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "FIRELEDGER_DATA": str(service.broker.folder.path)},
    )
    assert process.stdout is not None
    waiting = asyncio.create_task(process.stdout.readline())
    async with asyncio.timeout(PATIENCE_S):
        while not waiting.done():
            await service.tick("follow")
            await asyncio.wait({waiting}, timeout=0.5)
    row = loads(waiting.result())
    assert isinstance(row, dict)
    assert (row["tenant"], row["trigger"]) == ("follow", "second")
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0


async def test_without_control_the_hint_says_how_to_start(broker: RunningBroker) -> None:
    """A broker without control is exit status 6."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fireledger.runners.cli.main", "tenant", "create", "acme"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "FIRELEDGER_DATA": str(broker.folder.path)},
    )
    async with asyncio.timeout(PATIENCE_S):
        stdout, stderr = await process.communicate()
    assert (process.returncode, stdout) == (6, b"")
    assert stderr == b"error: control does not answer\nhint: start it: fireledger up\n"
