"""A task as the log would give it."""

from fireledger.domain.definition import Definition, seal_plain
from fireledger.domain.entries import Lane
from fireledger.domain.identifiers import FireKey, slot_of
from fireledger.domain.instants import SECOND, Instant
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.runners.dispatcher.tasks import Task


def task_of(
    tenant: str = "acme",
    *,
    number: int = 0,
    target: str = "nats:report",
    timeout: int = 5 * SECOND,
    lane: Lane = "on-time",
    over_quota: bool = False,
) -> Task:
    """A task of a tenant; ``number`` tells its instant."""
    definition = Definition(
        schedule=parse_cron("* * * * *"),
        zone="UTC",
        gap="skip",
        fold="both",
        target=target,
        payload=seal_plain(b"x"),
        timeout=timeout,
    )
    key = FireKey(tenant, "report", Instant(1_796_029_200 * SECOND + number * SECOND))
    return Task(
        key=key,
        attempt=1,
        slot=slot_of(tenant),
        lane=lane,
        over_quota=over_quota,
        definition=definition,
        definition_page=2,
    )
