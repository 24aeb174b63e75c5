"""A blocking driver under an event loop: each session has one thread of its own, which makes every call of its driver.

There are as many threads as sessions, and sessions are bounded: slots, a pool, a few services. A call that is cancelled
is interrupted on the server where the driver can, and not waited for: its session counts as broken from then on. What
cannot be interrupted is left behind, the thread with its connection; nothing is ever closed from beside.

Invariant: a connection is made, used and closed in its session's thread alone, no two calls of a session overlap, and
no thread keeps the interpreter from ending.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from rowbus.errors import ConnectionLostError
from rowbus.running.waiting import pause

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PATIENCE = 5.0  # seconds that closing waits for a call in progress, which is interrupted
AGAIN = 0.2  # seconds until a call that goes on is interrupted again: it may have been about to begin
NAME = "rowbus SQL Server session"  # of each thread
PATIENCE_AT_EXIT = 2.0  # seconds that the interpreter's end waits for all calls in progress
_Job = tuple["Future[object]", "Callable[[], object]"]


class Calls(Protocol):
    """Where a session's calls of its driver are made."""

    abandoned: bool

    async def make(self, call: Callable[[], T]) -> T:
        """Make one call and return what it returns, without blocking the event loop."""
        raise NotImplementedError

    def wait_for(self, call: Callable[[], T]) -> T:
        """Make one call and return what it returns, blocking the thread of the one who asks."""
        raise NotImplementedError

    def give_up(self) -> None:
        """Interrupt the call in progress, and make none from now on but the last."""
        raise NotImplementedError

    async def end(self) -> None:
        """Make the last call, which closes the connection, and ignore its errors; harmless a second time."""
        raise NotImplementedError


class Closing(Protocol):
    """The worker of a thread's calls."""

    def interrupt(self) -> object:
        """Ask the server to give up the call in progress; called from another thread, perhaps in vain.

        Once `close` has begun this does nothing.
        """

    def close(self) -> object:
        """Close the connection, in the thread; the last call."""


class SessionThread:
    """One session's thread. It starts with the first call and ends with the last."""

    def __init__(self, session: Closing) -> None:
        """Take what the calls are made for. No I/O, no thread yet."""
        self._session = session
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()  # of what is put there, so that nothing comes after the last
        self._thread: threading.Thread | None = None
        self._interrupter: threading.Thread | None = None
        self._current: Future[object] | None = None
        self._last: Future[object] | None = None
        self.abandoned = False
        """Whether a cancelled call was left running: then the state of the connection is unknown."""

    async def make(self, call: Callable[[], T]) -> T:
        """Make one call in the thread, after those before it; when cancelled, interrupt it and do not wait."""
        job = self._submit(call)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            if not job.cancel():  # begun, or even over: its effects are unknown
                self.give_up()
            raise

    def wait_for(self, call: Callable[[], T]) -> T:
        """Make one call in the thread, after those before it, for code in another thread, which waits."""
        return self._submit(call).result()

    def give_up(self) -> None:
        """Interrupt the call in progress, from a thread of its own, because even that might block."""
        self.abandoned = True
        work = partial(self._interrupt, PATIENCE)
        self._interrupter = threading.Thread(target=work, name="rowbus SQL Server interrupt", daemon=True)
        self._interrupter.start()

    async def end(self, *, patience: float | None = None) -> None:
        """Close the connection and end the thread; after `patience` seconds (`PATIENCE`) it goes on by itself."""
        if self._last is not None:
            return
        over = asyncio.Event()
        self._close().add_done_callback(partial(_tell, asyncio.get_running_loop(), over))
        await pause(over, PATIENCE if patience is None else patience)

    def end_now(self, patience: float) -> None:
        """Close the connection and end the thread, interrupting what it does; waits `patience` seconds at most."""
        deadline = monotonic() + patience
        with suppress(ConnectionLostError):  # its end has begun
            self._close()
        self._interrupt(patience)
        for thread in (self._interrupter, self._thread):
            if thread is not None:
                thread.join(max(0.0, deadline - monotonic()))

    def _close(self) -> Future[object]:
        return self._submit(self._session.close, is_last=True)

    def _submit(self, call: Callable[[], T], *, is_last: bool = False) -> Future[T]:
        job: Future[T] = Future()
        with self._lock:
            if self._last is not None:
                raise is_over()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
                self._thread.start()
                _LIVE.add(self)
            untyped = cast("Future[object]", job)
            self._last = untyped if is_last else None
            self._jobs.put((untyped, call))
            if is_last:
                self._jobs.put(None)
        return job

    def _run(self) -> None:
        while (entry := self._jobs.get()) is not None:
            job, call = entry
            self._current = job
            _perform(job, _refuse if self.abandoned and job is not self._last else call)
            self._current = None
            del entry, job, call  # or they would keep the answer until the next call
        _LIVE.discard(self)

    def _interrupt(self, patience: float) -> None:
        """Interrupt the call in progress, over and over until it is over; but not the last one."""
        deadline = monotonic() + patience
        job = self._current
        while job is not None and job is not self._last and not job.done() and monotonic() < deadline:
            with suppress(Exception):  # every driver has errors of its own, and its thread raises them too
                self._session.interrupt()
            wait([job], AGAIN)


class SharedThreads:
    """The event loop's own threads, for a connection that stays its user's: a call that was begun is waited for."""

    abandoned = False

    async def make(self, call: Callable[[], T]) -> T:
        """Make one call in some thread; when cancelled, wait until it is over: the user goes on with the connection."""
        running = asyncio.ensure_future(asyncio.to_thread(call))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            if not running.cancelled():
                running.exception()  # fetched, so that asyncio does not report it: who asked has gone
            raise

    def wait_for(self, call: Callable[[], T]) -> T:
        """Make the call in the thread of the one who asks."""
        return call()

    def give_up(self) -> None:
        """Do nothing: the user goes on with the connection."""

    async def end(self) -> None:
        """Do nothing: the connection is its user's to close."""


def _refuse() -> object:
    raise is_over()


def is_over() -> ConnectionLostError:
    """Return the error of a call that a session makes no more."""
    return ConnectionLostError("The session is closed or broken.", sqlstate="08003", transient=True)


def _perform(job: Future[object], call: Callable[[], object]) -> None:
    if not job.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - the caller that waits gets it
        job.set_exception(error)
    else:
        job.set_result(result)


def end_all() -> None:
    """End all threads: a driver that comes back from a call after the interpreter has ended takes the process down."""
    deadline = monotonic() + PATIENCE_AT_EXIT
    for thread in list(_LIVE):
        thread.end_now(max(0.0, deadline - monotonic()))


def _tell(loop: asyncio.AbstractEventLoop, over: asyncio.Event, _job: Future[object]) -> None:
    with suppress(RuntimeError):  # the loop is closed: there is no waiter any more
        loop.call_soon_threadsafe(over.set)


_LIVE: set[SessionThread] = set()
atexit.register(end_all)
