"""What is not there: instants that were never scheduled, pages beyond the end, fires that control let go."""

import pytest

from fireledger.domain.instants import SECOND, format_instant, parse_instant
from fireledger.projections.fires import FireRows
from tests.integration.brokers import RunningBroker
from tests.integration.control.running import Service, running_service
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


@pytest.mark.slow
async def test_an_instant_between_those_of_a_range_is_missing(service: Service) -> None:
    """Of a range only its own instants are shown; any other ends with 3 and with whom to ask."""
    await service.create("ranges", "second", every="1s", missed="skip", tolerance="0s")
    begun = service.clock.now().latest
    await until(lambda: service.clock.now().earliest > begun + 4 * SECOND, timeout_s=10, what="four instants missed")
    await service.tick("ranges")
    listed = await service.rows("fires", "list", "ranges/second", "--json")
    (skipped,) = [row for row in listed if row["state"] == "skipped"]
    inside = parse_instant(str(skipped["first"])) + SECOND
    assert inside < parse_instant(str(skipped["last"]))
    shown = await service.rows("fires", "show", f"ranges/second/{format_instant(inside)}/0", "--json")
    assert shown == [skipped]
    beside = f"ranges/second/{format_instant(inside + SECOND // 2)}/0"
    missing = await service.run("fires", "show", beside)
    assert (missing.status, missing.stdout) == (3, "")
    assert missing.stderr == (
        f'error: fire "{beside}" is not known\n'
        "hint: it is not decided yet, or was never scheduled; ask: "
        f"fireledger trigger why ranges/second {format_instant(inside + SECOND // 2)}\n"
    )


async def test_a_page_beyond_the_end_is_missing(service: Service) -> None:
    """The hint names the last page; the last page itself is shown."""
    await service.create("short")
    missing = await service.run("book", "show", "short", "--from", "99")
    assert (missing.status, missing.stdout) == (3, "")
    assert missing.stderr == (
        "error: the book of short has no page 99\nhint: its last page is 2: fireledger book show short --from 2\n"
    )
    last = await service.run("book", "show", "short", "--from", "2")
    assert (last.status, last.stderr) == (0, "")
    refusal = await service.refusal("book.show", tenant="short", page=3)
    assert (refusal.code, int(refusal.exit_status)) == ("page-missing", 3)


async def test_crossed_bounds_are_refused_by_control_too(service: Service) -> None:
    """Whoever asks without the command line is told the same."""
    await service.create("crossed")
    refusal = await service.refusal(
        "fires.list", tenant="crossed", since="2026-11-30T09:00:01Z", until="2026-11-30T09:00:00Z"
    )
    assert (refusal.code, int(refusal.exit_status)) == ("value-refused", 5)
    assert "is later than --until" in refusal.message


async def test_an_answer_says_that_older_fires_were_let_go(broker: RunningBroker) -> None:
    """The list's answer names since when it is complete, and the command says so unless only newer ones were asked."""
    async with running_service(broker) as service:
        service.control.model.rows = FireRows(rows_max=8)
        for n in range(6):
            await service.create("noisy", f"t{n}", cron="* * * * * *", overlap="allow")
        await service.create("quiet", cron="* * * * * *", overlap="allow")
        await service.tick("quiet")
        for _ in range(2):
            await service.tick("noisy")
        answer = await service.ask("fires.list", tenant="noisy")
        complete = str(answer["complete_since"])
        shown = await service.run("fires", "list", "noisy", "--json")
        assert (shown.status, len(shown.stdout.splitlines())) == (0, 7)
        assert shown.stderr == (
            f"of fires scheduled before {complete} not all are listed: control keeps the newest only; every one is in "
            "the book: fireledger book show noisy\n"
        )
        for narrower in (("--since", complete), ("--limit", "1")):
            assert (await service.run("fires", "list", "noisy", *narrower)).stderr == ""
        quiet = await service.ask("fires.list", tenant="quiet")
        assert quiet["complete_since"] is None
        assert (await service.run("fires", "list", "quiet")).stderr == ""
        gone = format_instant(parse_instant(complete) - 3 * SECOND)
        missing = await service.refusal("fires.show", key=f"noisy/t0/{gone}/0")
        assert f"only fires scheduled since {complete} are all kept in memory" in missing.hint
