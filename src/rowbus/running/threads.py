"""Threads for calls that block, as `def` handlers and drivers do: none keeps a stop or the process waiting for ever.

The standard library's executors join their threads when the interpreter ends; these are daemon threads, which it leaves
alone. There are as many as calls at the same time; an idle one takes the next call.

Invariant: what a call uses is used by nothing else before the call has ended, or before it was abandoned.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("rowbus.endpoint")

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE: Final = 1.0
"""Seconds that a stop waits for the end of a call that was cancelled; then the call is abandoned."""

_Job = tuple["Future[Any]", "Callable[[], Any]"]


class Used(Protocol):
    """What a call uses, such as the connection of a message."""

    async def abandon(self) -> None:
        """Have the server undo what the call has done, though the call goes on; waits for seconds at most."""
        raise NotImplementedError

    def discard(self) -> None:
        """Close it; called in the call's own thread, at the end of a call that was abandoned."""
        raise NotImplementedError


class Threads:
    """The threads of one service. `submit` from any thread, the others on one event loop."""

    def __init__(self, name: str) -> None:
        """Begin without threads; `name` is the beginning of theirs."""
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._number = 0
        self._idle = 0
        self._is_stopping = asyncio.Event()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Have a call made in a thread, at once."""
        job: Future[T] = Future()
        with self._lock:
            is_new = self._idle == 0
            self._idle -= not is_new
            self._number += is_new
        if is_new:
            threading.Thread(target=self._run, name=f"{self._name}_{self._number}", daemon=True).start()
        self._jobs.put((job, call))
        return job

    async def run(self, call: Callable[[], T], used: Used) -> T:
        """Make a call in a thread and wait for its end, also when cancelled: it uses what its caller owns.

        Only while the service stops a call that was cancelled is abandoned, with what it uses: after `PATIENCE`
        seconds, or when it is cancelled once more.
        """
        job = self.submit(call)
        running = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if not await self._has_ended(running):
                logger.warning(
                    "A call did not end within %s s of its cancellation. What it did in the database is undone; the "
                    "thread is left to itself.",
                    PATIENCE,
                )
                job.add_done_callback(lambda _job: used.discard())
                await used.abandon()
            raise

    def stop(self) -> None:
        """From now on abandon what is cancelled and does not end; harmless a second time."""
        self._is_stopping.set()

    def close(self) -> None:
        """Let the threads end, each after its call."""
        self.stop()
        with self._lock:
            for _thread in range(self._number):
                self._jobs.put(None)
            self._number = 0

    async def _has_ended(self, running: asyncio.Future[T]) -> bool:
        """Wait for the end of a call that was cancelled; say whether it came."""
        stopping = asyncio.ensure_future(self._is_stopping.wait())
        until_stop: list[asyncio.Future[Any]] = [running, stopping]
        try:
            while not (running.done() or self._is_stopping.is_set()):
                with suppress(asyncio.CancelledError):  # once more; the first one is raised in the end
                    await asyncio.wait(until_stop, return_when=asyncio.FIRST_COMPLETED)
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running], timeout=PATIENCE)
        finally:
            stopping.cancel()
        return running.done()

    def _run(self) -> None:
        while (entry := self._jobs.get()) is not None:
            _perform(*entry)
            del entry  # or it would keep the answer until the next call
            with self._lock:
                self._idle += 1


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
        job.set_exception(RuntimeError(f"a call in a thread raised {error!r}"))
    except BaseException as error:  # noqa: BLE001 - it belongs to the one who waits for the call
        job.set_exception(error)
    else:
        job.set_result(result)
