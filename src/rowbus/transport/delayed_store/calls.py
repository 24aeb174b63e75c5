"""Calls of a store that need not be trusted: each is bounded in time, and none ends who makes it.

Each call is a task, so that one that neither ends nor heeds a cancellation can be left behind. The calls of one
transaction share their context variables, as if one task made them.

Invariant: a call takes no longer than its limit and `PATIENCE`; a cancellation reaches the caller only if it was the
caller's.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import TYPE_CHECKING, Final

from rowbus.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Call = Callable[[], Awaitable[object]]

logger = logging.getLogger("rowbus.delaying")

PATIENCE: Final = 2.0
"""Seconds that a call has to end after it was cancelled."""

WHEN_STOPPING: Final = 5.0
"""Seconds that a call may take at most once the endpoint is stopping."""


class StoreCalls:
    """Makes the calls of one store; `seconds` is how long one may take."""

    def __init__(self, store: str, seconds: float) -> None:
        """Take the name of the store's class, for errors. No I/O."""
        self.store = store
        self._seconds = seconds
        self._limits: set[asyncio.Timeout] = set()

    def hurry(self) -> None:
        """Give every call `WHEN_STOPPING` from now on, those in progress too: the endpoint is stopping."""
        self._seconds = min(self._seconds, WHEN_STOPPING)
        soon = asyncio.get_running_loop().time() + self._seconds
        for limit in self._limits:
            when = limit.when()
            if when is not None and when > soon:
                limit.reschedule(soon)

    async def make(self, method: str, call: Call, context: contextvars.Context | None = None) -> object:
        """Make one call and return its answer.

        Raises what the store raises, StoreUnavailableError after the limit, and StoreError for what is no asynchronous
        method or was cancelled by itself.
        """
        task = asyncio.create_task(self._awaited(method, call), name=f"rowbus {method}", context=context)
        try:
            late = await self._is_late(task)
        finally:
            if not task.done():
                await self._give_up(task, method)
        if late and not _succeeded(task):
            raise StoreUnavailableError(f"{self.store}.{method} was given up after {self._seconds:g} s.")
        if task.cancelled():
            raise self.broken(method, "ended with CancelledError, though nothing cancelled it")
        return task.result()

    def broken(self, method: str, what: str) -> StoreError:
        """Return the error of a method that broke the contract."""
        return StoreError(f"{self.store}.{method} {what}.", store=self.store, method=method)

    async def _awaited(self, method: str, call: Call) -> object:
        answer = call()
        if not hasattr(answer, "__await__"):
            raise self.broken(
                method, f"is not asynchronous: it returned {type(answer).__name__} (write `async def`)"
            )
        return await answer

    async def _is_late(self, task: asyncio.Task[object]) -> bool:
        """Wait for a call until it is over, or its limit is reached."""
        limit = asyncio.timeout(self._seconds)
        self._limits.add(limit)
        try:
            async with limit:
                await asyncio.wait([task])
        except TimeoutError:
            return True
        finally:
            self._limits.discard(limit)
        return False

    async def _give_up(self, task: asyncio.Task[object], method: str) -> None:
        """Cancel a call whose caller was cancelled or has waited long enough."""
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE)
        if not task.done():
            logger.warning("%s.%s does not end when it is cancelled; it is left behind.", self.store, method)
            task.add_done_callback(_forget)


def _succeeded(task: asyncio.Task[object]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _forget(task: asyncio.Task[object]) -> None:
    """Fetch what became of a call that was left behind, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()
