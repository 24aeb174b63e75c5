"""A store as the services use it: the user's, every call of it bounded and every answer looked at.

Each call is a task, so that one that neither ends nor heeds a cancellation can be left behind. The calls of one
transaction share their context variables, as if one task made them.

Invariants: nothing here trusts the store, and nothing above here calls it but through this. What it does wrong is a
StoreError that names its class and the method; what takes too long is a StoreUnavailableError. A call takes no longer
than its limit and `PATIENCE`; a cancellation reaches the caller only if it was the caller's.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from rowbus.errors import StoreError, StoreUnavailableError
from rowbus.errors.strangers import type_name
from rowbus.transport.delayed_store.decisions import wrong_message, wrong_time, wrong_truth
from rowbus.transport.delayed_store.protocol import DelayedMessageStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime, timedelta

    from rowbus.settings import TransactionMode
    from rowbus.transport.delayed_store.protocol import DelayedMessage

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
        try:
            return await self._answer(method, call)
        except (Exception, asyncio.CancelledError):
            raise
        except BaseException as error:
            raise self.broken(method, f"raised {type_name(error)}, which is no Exception") from error

    async def _answer(self, method: str, call: Call) -> object:
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


class GuardedStore(DelayedMessageStore):
    """A store whose calls end in time and whose answers are what they are said to be."""

    def __init__(
        self, store: DelayedMessageStore, calls: StoreCalls, context: contextvars.Context | None = None
    ) -> None:
        """Guard a store; `context` is that of the transaction it is in. No I/O."""
        self._store = store
        self._calls = calls
        self._context = context

    @classmethod
    def of(cls, store: DelayedMessageStore, timeout: timedelta) -> GuardedStore:
        """Guard a store, each call of which may take so long."""
        return cls(store, StoreCalls(type(store).__qualname__, timeout.total_seconds()))

    def hurry(self) -> None:
        """Shorten the calls in progress and those to come: the endpoint is stopping."""
        self._calls.hurry()

    async def setup_infrastructure(self) -> None:
        """Create what is missing."""
        await self._make("setup_infrastructure", self._store.setup_infrastructure)

    async def initialize(self, endpoint_name: str, transaction_mode: TransactionMode) -> None:
        """Learn whose messages are kept."""
        await self._make("initialize", partial(self._store.initialize, endpoint_name, transaction_mode))

    async def store(self, message: DelayedMessage) -> None:
        """Keep a message."""
        await self._make("store", partial(self._store.store, message))

    async def remove(self, message: DelayedMessage) -> bool:
        """Let go of a message."""
        return self._truth("remove", await self._make("remove", partial(self._store.remove, message)))

    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        """Count one more failure of a message."""
        method = "increment_failure_count"
        return self._truth(
            method, await self._make(method, partial(self._store.increment_failure_count, message))
        )

    async def next(self) -> datetime | None:
        """Say when the earliest message is due."""
        answer = await self._make("next", self._store.next)
        self._require("next", wrong_time(answer))
        return cast("datetime | None", answer)

    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        """Give and lock the earliest message that is due."""
        answer = await self._make("fetch_next_due", partial(self._store.fetch_next_due, at))
        self._require("fetch_next_due", wrong_message(answer, at))
        return cast("DelayedMessage | None", answer)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[DelayedMessageStore]:
        """Give this store in a transaction; an error in the block always comes out of it."""
        context = contextvars.copy_context()
        manager = self._transaction_of_the_store()
        inside = await self._make("transaction", manager.__aenter__, context)
        try:
            self._require("transaction", _not_a_store(inside))
            yield GuardedStore(cast("DelayedMessageStore", inside), self._calls, context)
        except BaseException as error:
            end = partial(manager.__aexit__, type(error), error, error.__traceback__)
            await self._make("transaction", end, context)
            raise
        else:
            await self._make("transaction", partial(manager.__aexit__, None, None, None), context)

    def enlist(self, connection: object) -> DelayedMessageStore | None:
        """Give this store on a connection, in that connection's transaction; None for a store elsewhere."""
        enlisted = self._store.enlist(connection)
        if enlisted is None:
            return None
        self._require("enlist", _not_a_store(enlisted))
        return GuardedStore(enlisted, self._calls)

    async def close(self) -> None:
        """Let go of connections."""
        await self._make("close", self._store.close)

    async def _make(self, method: str, call: Call, context: contextvars.Context | None = None) -> object:
        return await self._calls.make(method, call, context or self._context)

    def _transaction_of_the_store(self) -> AbstractAsyncContextManager[object]:
        manager: object = self._store.transaction()
        if not (hasattr(manager, "__aenter__") and hasattr(manager, "__aexit__")):
            raise self._calls.broken(
                "transaction", f"answered a {type(manager).__name__}, not an asynchronous context manager"
            )
        return cast("AbstractAsyncContextManager[object]", manager)

    def _truth(self, method: str, answer: object) -> bool:
        self._require(method, wrong_truth(answer))
        return bool(answer)

    def _require(self, method: str, wrong: str | None) -> None:
        if wrong is not None:
            raise self._calls.broken(method, f"answered {wrong}")


def _not_a_store(answer: object) -> str | None:
    if isinstance(answer, DelayedMessageStore):
        return None
    return f"a {type(answer).__name__}, not a delayed message store"
