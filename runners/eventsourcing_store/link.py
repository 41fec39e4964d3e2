"""An event loop in a thread of its own, with one connection: what synchronous recorders stand on.

All factories of one process that log in at one broker as one user share a loop and a connection. It ends with its last
lease. Nothing here may be called from the loop's own thread, where waiting would wait for itself; giving a lease back
is the exception, since the garbage collector does so wherever it happens to run.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from typing import TypeVar

from eventsourcing.persistence import (
    InfrastructureFactoryError,
    InterfaceError,
    InternalError,
    OperationalError,
    ProgrammingError,
)

from ..errors import BrokerRefused, BrokerUnavailable, LogGap, RolledBack, SettingsDiffer
from ..errors import OperationalError as OwnError
from ..jetstream.connection import BrokerConnection, Login

_T = TypeVar("_T")

JOIN_TIMEOUT_S = 5.0
"""How long closing waits for the thread: longer than the connection takes to close."""

_LIBRARY_ERRORS: dict[type[OwnError], type[Exception]] = {
    BrokerUnavailable: OperationalError,
    BrokerRefused: OperationalError,
    RolledBack: InternalError,
    LogGap: InternalError,
    SettingsDiffer: InfrastructureFactoryError,
}
"""What the library's callers catch instead of our own errors."""


class BrokerLink:
    """The loop's thread and its connection. Use ``lease``."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._lock = threading.RLock()
        self._users = 0
        self._closing = False
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._opening = asyncio.Lock()
        self._connection: BrokerConnection | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self._thread = threading.Thread(target=self._work, name=f"store-{login.user}", daemon=True)

    def start(self) -> None:
        """Start the thread; the connection is made when it is first needed."""
        self._thread.start()

    def retain(self) -> bool:
        """Count one more user. False: it is closing, make another."""
        with self._lock:
            if self._closing:
                return False
            self._users += 1
            return True

    def release(self) -> None:
        """Count one user less; without any the thread ends by itself. Never waits."""
        with self._lock:
            self._users -= 1
            if self._users == 0 and not self._closing:
                self._closing = True
                self._loop.call_soon_threadsafe(self._stop.set)

    def join(self) -> None:
        """Wait for the thread to end if it has no users left; from the thread itself, return at once."""
        if self._closing and not self._is_own_thread():
            self._thread.join(JOIN_TIMEOUT_S)

    def run(self, work: Callable[[BrokerConnection], Awaitable[_T]]) -> _T:
        """Do the work on the loop and wait for it. Raises the library's errors for our own."""
        if self._is_own_thread():
            raise ProgrammingError("the store was called from its own event loop, which would wait for itself")
        coroutine = self._with_connection(work)
        with self._lock:
            if self._closing:
                coroutine.close()
                raise InterfaceError("the store is closed")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise InterfaceError("the store was closed before the work was done") from None
        except OwnError as error:
            kind = _LIBRARY_ERRORS.get(type(error), InternalError)
            raise kind(f"{error.message} ({error.hint})" if error.hint else error.message) from error
        finally:
            future.cancel()

    def post(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work on the loop some time soon, from any thread; nothing is waited for, nothing is raised."""
        with self._lock:
            if not self._closing:
                self._loop.call_soon_threadsafe(lambda: self._track(asyncio.ensure_future(work())))

    def _is_own_thread(self) -> bool:
        return threading.get_ident() == self._thread.ident

    def _track(self, task: asyncio.Future[None]) -> None:
        if isinstance(task, asyncio.Task):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _with_connection(self, work: Callable[[BrokerConnection], Awaitable[_T]]) -> _T:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with self._opening:
                if self._connection is None:
                    name = f"{self._login.user} store"
                    self._connection = await BrokerConnection.open(self._login, name=name)
            return await work(self._connection)
        finally:
            self._tasks.discard(task)

    def _work(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        await self._stop.wait()
        # Before the connection: work that finds it closed would try again until its deadline.
        tasks = [task for task in self._tasks if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()


class Lease:
    """One user's share of a link, given back by ``close`` or when nobody refers to it any more."""

    def __init__(self, link: BrokerLink) -> None:
        self._link = link
        self._give_back = weakref.finalize(self, link.release)

    def run(self, work: Callable[[BrokerConnection], Awaitable[_T]]) -> _T:
        """Do the work on the loop and wait for it. Raises the library's errors; InterfaceError when closed."""
        if not self._give_back.alive:
            raise InterfaceError("the store is closed")
        return self._link.run(work)

    def post(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work on the loop some time soon, from any thread, or not at all once closed."""
        if self._give_back.alive:
            self._link.post(work)

    def close(self) -> None:
        """Give the share back; the last one closes the connection and waits for it. Safe to call again."""
        self._give_back()
        self._link.join()


_links: dict[tuple[int, Login], BrokerLink] = {}
_links_lock = threading.RLock()


def lease(login: Login) -> Lease:
    """Return a share of this process's link for ``login``, made when there is none."""
    # A forked child inherits the table but not the threads.
    key = (os.getpid(), login)
    with _links_lock:
        link = _links.get(key)
        if link is None or not link.retain():
            link = BrokerLink(login)
            link.retain()
            link.start()
            _links[key] = link
        return Lease(link)
