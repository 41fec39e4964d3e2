"""The library's recorders over the event log: synchronous, safe to use from any number of threads."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    Notification,
    NotSupportedError,
    StoredEvent,
)

from .event_log import EventLog
from .link import Lease
from .settings import StreamPlan
from .subscription import JetStreamSubscription


class JetStreamAggregateRecorder(AggregateRecorder):
    """Events by aggregate.

    All methods raise OperationalError when the broker gave no definite answer in time (an insert may then have been
    done or not: load again to see), InternalError when messages are missing from its store, InterfaceError once
    closed, and ProgrammingError when called from the store's own event loop.
    """

    def __init__(self, lease: Lease, plan: StreamPlan) -> None:
        """Make sure of the stream. Raises InfrastructureFactoryError when it differs from the plan."""
        self._lease = lease
        self._log = lease.run(lambda connection: EventLog.open(connection, plan))

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Insert all events or none.

        Raises IntegrityError when an event is recorded already, does not follow its aggregate's last one, or another
        writer was faster; ProgrammingError for more events than one transaction holds.
        """
        self._insert(stored_events, kwargs)
        return None

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Return an aggregate's events in the order of their versions, or the reverse."""
        return self._lease.run(lambda _: self._log.select(originator_id, gt=gt, lte=lte, desc=desc, limit=limit))

    def _insert(self, stored_events: Sequence[StoredEvent], kwargs: dict[str, Any]) -> list[int]:
        if kwargs.get("tracking") is not None:
            raise NotSupportedError("a position cannot be recorded with events; process recorders are not available")
        if not stored_events:
            return []
        return self._lease.run(lambda _: self._log.insert(stored_events))


class JetStreamApplicationRecorder(JetStreamAggregateRecorder, ApplicationRecorder):
    """Events by aggregate and by their place in the application's sequence: the stream's, from 1 without holes."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Insert all events or none, and return their notification ids. Raises as the aggregate recorder."""
        return self._insert(stored_events, kwargs)

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Return up to ``limit`` events from ``start`` (or behind it) up to ``stop``, of ``topics`` only if given."""
        after = 0 if start is None else max(start - 1 if inclusive_of_start else start, 0)
        return self._lease.run(lambda _: self._log.notifications(after=after, stop=stop, limit=limit, topics=topics))

    def max_notification_id(self) -> int | None:
        """Return the last event's notification id, or None when there is none."""
        return self._lease.run(lambda _: self._log.last_sequence()) or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> JetStreamSubscription:
        """Return an iterator of the events behind ``gt``, recorded and to come."""
        return JetStreamSubscription(self, self._lease, self._log, gt=gt, topics=topics)
