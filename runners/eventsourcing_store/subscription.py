"""Following an application's events with a reader of one's own, across restarts of the broker."""

from collections import deque
from collections.abc import AsyncGenerator, Sequence

from eventsourcing.persistence import ApplicationRecorder, InterfaceError, Notification, Subscription

from ..jetstream.leader import Stored
from ..jetstream.reader import PullReader
from .event_log import EventLog
from .link import Lease


class JetStreamSubscription(Subscription[ApplicationRecorder]):
    """A blocking iterator over the events behind a position: each once, in order, until ``stop``.

    What arrives is pulled by the iteration, so a slow consumer holds up nobody and loses nothing. It waits while the
    broker is away. Raises InternalError when messages are missing, repeated or no longer what was read before (the
    position it was given counts as read), and InterfaceError when the store is closed under it. For one iterating
    thread; ``stop`` may be called from any.
    """

    def __init__(
        self, recorder: ApplicationRecorder, lease: Lease, log: EventLog, *, gt: int | None, topics: Sequence[str]
    ) -> None:
        super().__init__(recorder, gt, topics)
        self._lease = lease
        self._log = log
        self._arrived: deque[Notification] = deque()
        self._reader: PullReader | None = None
        self._batches: AsyncGenerator[list[Stored], None] | None = None
        self._pulling = False

    def __next__(self) -> Notification:
        """Wait for the next event. Raises StopIteration once stopped."""
        while not self._has_been_stopped:
            if self._arrived:
                notification = self._arrived.popleft()
                self._last_notification_id = notification.id
                return notification
            try:
                arrived = self._lease.run(lambda _: self._pull())
            except InterfaceError:
                if self._has_been_stopped:
                    break
                # The store was closed under a consumer that believes itself subscribed.
                raise
            self._arrived.extend(arrived)
        raise StopIteration

    def stop(self) -> None:
        """End the iteration, also one that is waiting in another thread. Never waits; safe to call again."""
        super().stop()
        self._lease.post(self._end)

    async def _pull(self) -> list[Notification]:
        """Wait for the next messages; an empty list is not the end, unless stopped."""
        if self._reader is None or self._batches is None:
            self._reader = self._log.follow(max(self._last_notification_id or 0, 0))
            self._batches = self._reader.batches()
        if self._has_been_stopped:
            await self._end()
            return []
        self._pulling = True
        try:
            batch: list[Stored] = await anext(self._batches, list[Stored]())
        finally:
            self._pulling = False
        notifications = [self._log.notification(stored) for stored in batch]
        return [notification for notification in notifications if self._wanted(notification)]

    def _wanted(self, notification: Notification) -> bool:
        return not self._topics or notification.topic in self._topics

    async def _end(self) -> None:
        if self._reader is not None:
            await self._reader.close()
        if self._batches is not None and not self._pulling:
            await self._batches.aclose()
