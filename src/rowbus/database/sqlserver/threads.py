"""A blocking driver under an event loop: each session has one thread of its own, which makes every call of its driver.

There are as many threads as sessions, and sessions are bounded: slots, a pool, a few services. A call that is cancelled
is interrupted on the server where the driver can, and nobody waits for it: its session counts as broken from then on.

Invariant: no two calls of a session overlap, and no thread keeps the interpreter from ending.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PATIENCE = 5.0  # seconds that closing waits for a call in progress, which was interrupted
_Job = tuple["Future[object]", "Callable[[], object]"]


class Calls(Protocol):
    """Where a session's calls of its driver are made."""

    abandoned: bool

    async def make(self, call: Callable[[], T]) -> T:
        """Make one call and return what it returns, without blocking the event loop."""
        raise NotImplementedError

    async def end(self, last: Callable[[], object]) -> None:
        """Make the last call, whatever it raises; harmless a second time."""
        raise NotImplementedError


class SessionThread:
    """One session's thread. It starts with the first call and ends with the last."""

    def __init__(self, interrupt: Callable[[], object]) -> None:
        """Take what interrupts a call in progress, from another thread. No I/O, no thread yet."""
        self._interrupt = interrupt
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended = False
        self.abandoned = False
        """Whether a call was left running by who waited for it: then nobody knows what the connection is up to."""

    async def make(self, call: Callable[[], T]) -> T:
        """Make one call in the thread, after those before it; when cancelled, interrupt it and do not wait."""
        job = self._submit(call)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            if not job.cancel():  # begun, or even over: nobody here knows what it did
                self.abandoned = True
                _in_background(self._interrupt)
            raise

    async def end(self, last: Callable[[], object], *, patience: float | None = None) -> None:
        """Make the last call and end the thread; after `patience` seconds (`PATIENCE`) it goes on by itself."""
        if self._ended:
            return
        self._ended = True
        over = asyncio.Event()
        tell = partial(_tell, asyncio.get_running_loop(), over)
        self._submit(last).add_done_callback(tell)
        self._jobs.put(None)
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), PATIENCE if patience is None else patience)

    def _submit(self, call: Callable[[], T]) -> Future[T]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rowbus SQL Server session", daemon=True)
            self._thread.start()
        job: Future[T] = Future()
        self._jobs.put((cast("Future[object]", job), call))
        return job

    def _run(self) -> None:
        while (entry := self._jobs.get()) is not None:
            _perform(*entry)


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

    async def end(self, last: Callable[[], object]) -> None:
        """Do nothing: the connection is its user's to close."""


def _perform(job: Future[object], call: Callable[[], object]) -> None:
    if not job.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to who waits for the call
        job.set_exception(error)
    else:
        job.set_result(result)


def _in_background(call: Callable[[], object]) -> None:
    """Make a call that might block in a thread of its own; its failure changes nothing."""
    job: Future[object] = Future()
    threading.Thread(
        target=_perform, args=(job, call), name="rowbus SQL Server interrupt", daemon=True
    ).start()


def _tell(loop: asyncio.AbstractEventLoop, over: asyncio.Event, _job: Future[object]) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(over.set)
