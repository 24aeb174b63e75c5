"""Threads for calls that block, as `def` handlers and drivers do: none keeps a stop or the process waiting for ever.

The standard library's executors join their threads when the interpreter ends; these are daemon threads, which it leaves
alone. There are as many as calls at the same time; an idle one takes the next call.

A worker does not live on for long with threads that were left to themselves: it drains, and is replaced. First it deals
with what they handled: how often that failed is known in this process only, and without it the next worker would begin
anew.

Invariant: what a call uses is used by nothing else before the call has ended, or before it was abandoned.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Protocol, TypeVar

from rowbus.errors.strangers import text_of
from rowbus.running.time_limit import GIVE_UP, exceeded
from rowbus.running.workers import have_worker_replaced

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("rowbus.endpoint")

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE: Final = 1.0
"""Seconds that a stop waits for the end of a call that was cancelled; then the call is abandoned."""

SETTLING: Final = timedelta(seconds=5)
"""The stay of a worker after the last call that it left to itself, beside twice that call's time limit: what failed
is tried again at once, here or in another worker first, or leaves its queue."""
MOST_LEFT: Final = 1000
"""Calls that a worker leaves to themselves before it stays no longer, though more of them follow."""


class Resource(Protocol):
    """The thing that a call uses, such as the connection of a message."""

    async def abandon(self) -> None:
        """Have the server undo what the call has done, though the call goes on; waits for seconds at most."""
        raise NotImplementedError

    def discard(self) -> None:
        """Close it; called in the call's own thread, at the end of a call that was abandoned."""
        raise NotImplementedError


class _Call(Generic[T]):
    """A call in a thread, and what its event loop waits for: one future, where the library's would take three."""

    def __init__(self, call: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop
        self._lock = threading.Lock()
        self._is_over = False  # as the thread sees it
        self._last: Callable[[], None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._result: T
        self._error: BaseException | None = None
        self.thread = ""
        """The name of the one that makes it."""
        self.has_ended = False
        """As the loop sees it."""

    def make(self) -> None:
        """Make the call, in its thread; what it returns or raises is for the one who waits."""
        self.thread = threading.current_thread().name
        try:
            self._result = self._call()
        except StopIteration as error:  # which no coroutine may raise
            self._error = RuntimeError(f"a call in a thread raised {text_of(error, repr)}")
        except BaseException as error:  # noqa: BLE001 - it belongs to the one who waits for the call
            self._error = error
        with self._lock:
            self._is_over, last = True, self._last
        if last is not None:
            last()

    def tell(self) -> None:
        """Tell the loop that the call has ended; in its thread."""
        with suppress(RuntimeError):  # the loop is closed: nothing waits any more
            self._loop.call_soon_threadsafe(self._note_end)

    def _note_end(self) -> None:
        self.has_ended = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self) -> asyncio.Future[None]:
        """Return what is done when the call has ended. A later one takes its place."""
        self._waiter = self._loop.create_future()
        if self.has_ended:
            self._waiter.set_result(None)
        return self._waiter

    def outcome(self) -> T:
        """Return what the call returned, once; raises what it raised."""
        error, self._error = self._error, None
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del error  # or its traceback would keep this frame, and that the error

    def then(self, last: Callable[[], None]) -> None:
        """Have this called at the call's end, in its thread; at once if it has ended."""
        with self._lock:
            if not self._is_over:
                self._last = last
                return
        last()


class Threads:
    """The threads of one service, for the calls of one event loop."""

    def __init__(self, name: str) -> None:
        """Begin without threads; `name` is the beginning of theirs."""
        self._name = name
        self._calls: SimpleQueue[_Call[Any] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._number = 0
        self._idle = 0
        self._is_stopping = asyncio.Event()
        self._left = 0
        self._replacement: asyncio.TimerHandle | None = None

    async def run(
        self,
        call: Callable[[], T],
        used: Resource,
        hurry: Callable[[], None] | None = None,
        limit: timedelta | None = None,
        name: str = "",
    ) -> T:
        """Make a call in a thread and wait for its end, also when cancelled: it uses what its caller owns.

        `hurry` is called when it is cancelled, on the loop, to have a long call end early. Only while the service stops
        a call that was cancelled is abandoned, with what it uses: after `PATIENCE` seconds, or when it is cancelled
        once more; at other times when it is cancelled again with the text `GIVE_UP`. One that is not over after `limit`
        is abandoned too: TimeLimitExceededError, which names it.
        """
        running = _Call(call, asyncio.get_running_loop())
        self._begin(running)
        try:
            await _wait_for(running, limit)
        except asyncio.CancelledError:
            if hurry is not None:
                hurry()
            if not await self._has_ended(running):
                await self._abandon(
                    running, used, f"did not end within {PATIENCE} s of its cancellation", limit
                )
            raise
        if not running.has_ended:
            await self._abandon(running, used, f"did not end within its time limit ({limit})", limit)
            assert limit is not None  # noqa: S101 - or it would be waited for
            raise exceeded(name, limit)
        return running.outcome()

    def stop(self) -> None:
        """From now on abandon what is cancelled and does not end; harmless a second time."""
        self._is_stopping.set()

    def close(self) -> None:
        """Let the threads end, each after its call."""
        self.stop()
        with self._lock:
            for _thread in range(self._number):
                self._calls.put(None)
            self._number = 0

    def _begin(self, call: _Call[Any]) -> None:
        """Have a call made at once: in an idle thread, or in a new one."""
        with self._lock:
            is_new = self._idle == 0
            self._idle -= not is_new
            self._number += is_new
        if is_new:
            threading.Thread(target=self._run, name=f"{self._name}_{self._number}", daemon=True).start()
        self._calls.put(call)

    async def _has_ended(self, call: _Call[Any]) -> bool:
        """Wait for the end of a call that was cancelled; say whether it came."""
        stopping = asyncio.ensure_future(self._is_stopping.wait())
        try:
            while not (call.has_ended or self._is_stopping.is_set()):
                try:
                    until_stop: list[asyncio.Future[Any]] = [call.end(), stopping]
                    await asyncio.wait(until_stop, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError as again:  # the first one is raised in the end
                    if GIVE_UP in again.args:
                        return call.has_ended
            with suppress(asyncio.CancelledError):
                await asyncio.wait([call.end()], timeout=PATIENCE)
        finally:
            stopping.cancel()
        return call.has_ended

    async def _abandon(self, call: _Call[Any], used: Resource, why: str, limit: timedelta | None) -> None:
        logger.warning(
            "A call in the thread %s %s. What it did in the database is undone; the thread is left to itself.",
            call.thread,
            why,
        )
        call.then(used.discard)
        await used.abandon()
        self._leave_soon(SETTLING + 2 * (limit or timedelta()))

    def _leave_soon(self, stay: timedelta) -> None:
        """Have a worker replaced when it has left no other call to itself for so long."""
        self._left += 1
        if self._replacement is not None:
            self._replacement.cancel()
        seconds = stay.total_seconds() if self._left < MOST_LEFT else 0.0
        self._replacement = asyncio.get_running_loop().call_later(seconds, self._leave)

    def _leave(self) -> None:
        if not self._is_stopping.is_set() and have_worker_replaced():
            logger.warning("This worker ends when its other messages are handled; another takes its place.")

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call.make()
            with self._lock:
                self._idle += 1  # before the loop is told, or its next call would start another thread
            call.tell()
            del call  # or it would keep the answer until the next call


async def _wait_for(call: _Call[Any], limit: timedelta | None) -> None:
    """Wait for the end of a call, or until its time is over."""
    if limit is None:
        await call.end()
    else:
        await asyncio.wait([call.end()], timeout=limit.total_seconds())


async def run_in_thread(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Make a blocking call in a daemon thread of its own, and return what it returns; raises what it raises.

    For a store whose driver blocks. A call that hangs holds up neither the event loop, nor the stop of the endpoint,
    nor the end of the process, for which `asyncio.to_thread` would wait. Cancelled, this returns at once and the call
    goes on: have it bounded by itself too.
    """
    job: Future[T] = Future()
    work = partial(copy_context().run, call, *args, **kwargs)
    threading.Thread(target=_perform, args=(job, work), name="rowbus blocking call", daemon=True).start()
    return await asyncio.wrap_future(job)


def _perform(job: Future[T], call: Callable[[], T]) -> None:
    """Make a call; what it returns or raises is its job's."""
    if not job.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except StopIteration as error:  # which no future of asyncio takes: its waiter would wait for ever
        job.set_exception(RuntimeError(f"a call in a thread raised {text_of(error, repr)}"))
    except BaseException as error:  # noqa: BLE001 - it belongs to the one who waits for the call
        job.set_exception(error)
    else:
        job.set_result(result)
