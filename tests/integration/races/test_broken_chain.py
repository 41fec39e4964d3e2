"""A book that was tampered with: whoever reads it stops before acting on it."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from msgspec import structs

from fireledger.domain import entries as e
from fireledger.domain.book import BrokenChain
from fireledger.domain.commands import AmendTrigger
from fireledger.domain.identifiers import book_subject
from fireledger.domain.instants import MINUTE
from fireledger.domain.page import Page, body_hash, decode_attempts, decode_page, encode_page
from fireledger.projections.ledger_fold import LedgerFold
from fireledger.runners.errors import ExitStatus
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.leader import Stored
from fireledger.runners.jetstream.reading import scan
from tests.integration.brokers import RunningBroker, bare_connection
from tests.integration.races.processes import RUNNERS, WITHIN_S, running
from tests.integration.scheduler.harness import Desk, definition, opened_desk
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]

BOOK = book_subject("acme")


async def log_of(broker: RunningBroker) -> list[Stored]:
    """Everything the LEDGER holds."""
    connection = await BrokerConnection.open(broker.login("scheduler"), name="copy")
    try:
        return [stored async for stored in scan(connection, "LEDGER")]
    finally:
        await connection.close()


async def history(desk: Desk) -> None:
    """A book of six pages and a slot's attempts of four."""
    await desk.create("acme", "t")
    for number in range(4):
        await desk.do("acme", AmendTrigger(trigger="t", definition=definition(window=(number + 1) * MINUTE)))
    fires = [
        e.FireReleased(trigger="t", scheduled=at, release=at, definition_page=2, lane="on-time", cause="on-time")
        for at in (1_000_000, 2_000_000)
    ]
    for fire in fires:
        await desk.attempt("acme", fire)
        await desk.attempt("acme", fire, result="succeeded")


def apply_all(fold: LedgerFold, pages: list[Stored]) -> None:
    """Fold them in order."""
    for page in pages:
        fold.apply(page)


def removed(pages: list[Stored]) -> list[Stored]:
    """Without the third; sequences without a hole."""
    return _numbered([*pages[:2], *pages[3:]])


def reordered(pages: list[Stored]) -> list[Stored]:
    """The third and fourth changed places."""
    return _numbered([*pages[:2], pages[3], pages[2], *pages[4:]])


def altered(pages: list[Stored]) -> list[Stored]:
    """One bit of the second's body is another, which can still be read."""
    body = pages[1].body
    place = body.index(b"desk")
    return [pages[0], replace(pages[1], body=body[:place] + b"dest" + body[place + 4 :]), *pages[2:]]


def restamped(pages: list[Stored]) -> list[Stored]:
    """The second got another broker timestamp, as in a stream that was written anew."""
    return [pages[0], replace(pages[1], stamped_at=pages[1].stamped_at + 1), *pages[2:]]


def _numbered(pages: list[Stored]) -> list[Stored]:
    return [replace(page, sequence=number) for number, page in enumerate(pages, start=1)]


async def test_a_tampered_copy_is_refused(broker: RunningBroker) -> None:
    """Pages of a real log, of a book as of attempts, with one removed, moved, altered or restamped do not fold."""
    async with opened_desk(broker) as desk:
        await history(desk)
    log = await log_of(broker)
    parts = [[m for m in log if m.subject == BOOK], [m for m in log if m.subject != BOOK]]
    assert [len(part) for part in parts] == [6, 4]
    for part in parts:
        apply_all(LedgerFold(), part)
        for tamper in (removed, reordered, altered, restamped):
            fold = LedgerFold()
            with pytest.raises(BrokenChain, match="page"):
                apply_all(fold, tamper(part))
            assert fold.position <= part[1].sequence, f"{tamper.__name__}: nothing behind the break was folded"


def skipping(head: Stored, page: Page) -> Page:
    """The page after the next: one was removed before it."""
    return structs.replace(page, number=page.number + 2, previous_sha256=bytes(32))


def repeating(head: Stored, page: Page) -> Page:
    """The newest page again, in another's place."""
    return page


def after_another(head: Stored, page: Page) -> Page:
    """A page that follows an altered version of the newest."""
    other = structs.replace(page, commit_id="other")
    return structs.replace(page, number=page.number + 1, previous_sha256=body_hash(encode_page(other)))


def after_another_stamp(head: Stored, page: Page) -> Page:
    """A page that follows the newest as it would be had the broker stamped it a microsecond later."""
    return structs.replace(
        page,
        number=page.number + 1,
        previous_sha256=body_hash(head.body),
        previous_stamped_at=head.stamped_at + 1,
    )


def check_nothing_follows(log: list[Stored], forged: bytes) -> None:
    """Nothing was written because of the forged page: the book ends with it.

    A dispatcher that was frozen between a release and its attempt may begin that before it reads on.
    """
    book = [stored.body for stored in log if stored.subject == BOOK]
    assert book[-1] == forged, "the book ends with it"
    pages = [decode_page(body) for body in book[:-1]]
    released = {entry.scheduled for page in pages for entry in page.entries if isinstance(entry, e.FireReleased)}
    records = [record for stored in log if stored.subject != BOOK for record in decode_attempts(stored.body).records]
    started = Counter(record.scheduled for record in records if isinstance(record, e.AttemptStarted))
    assert set(started) <= released, "what was released before may be attempted, and nothing else"
    assert set(started.values()) <= {1}


@pytest.mark.parametrize("forge", [skipping, repeating, after_another, after_another_stamp])
async def test_runners_stop_at_a_forged_page(
    broker: RunningBroker, forge: Callable[[Stored, Page], Page], measured: Callable[[str], None]
) -> None:
    """An administrator writes a page that does not follow: scheduler, dispatcher and control end, and do not act."""
    async with AsyncExitStack() as stack:
        async with opened_desk(broker) as desk:
            await desk.create("acme", "t")
            runners = {kind: await stack.enter_async_context(running(broker, kind)) for kind in RUNNERS}
            await asyncio.gather(*(runner.until_logged(RUNNERS[kind]) for kind, runner in runners.items()))
            await until(lambda: len(desk.decided("acme")) >= 2, what="decisions")
        for runner in runners.values():
            await runner.freeze()
        head = [stored for stored in await log_of(broker) if stored.subject == BOOK][-1]
        body = encode_page(forge(head, decode_page(head.body)))
        async with bare_connection(broker, "admin") as admin:
            await admin.client.request(BOOK, body, timeout=PATIENCE_S)
        for runner in runners.values():
            runner.wake()
        statuses = {kind: await runner.status(WITHIN_S) for kind, runner in runners.items()}
    said = {str(line["message"]) for runner in runners.values() for line in runner.logged("failed", kind="LogGap")}
    assert statuses == dict.fromkeys(RUNNERS, ExitStatus.CONFLICT)
    assert all(runner.logged("failed", kind="LogGap") for runner in runners.values())
    assert [runner.noise for runner in runners.values()] == [[], [], []]
    check_nothing_follows(await log_of(broker), body)
    measured(f"{sorted(said)}")
