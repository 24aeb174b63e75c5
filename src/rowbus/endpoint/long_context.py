"""The contexts of handlers that take long: no transaction while they run, and one whenever they ask for it.

Invariant: what a handler commits it commits with a look at its lease; one that was too late commits nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, NoReturn, TypeVar

from rowbus.endpoint.context import Context, SyncContext
from rowbus.errors import HandlerError
from rowbus.running.handling import awaited, refuse_forgotten
from rowbus.transport.receiving.delivery import Delivery

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
    from contextlib import AbstractAsyncContextManager
    from typing import Any

    from rowbus.database.sessions import SessionPool
    from rowbus.database.statements import Statement
    from rowbus.endpoint.sender import Sender
    from rowbus.messages.outgoing import UniqueMessageId
    from rowbus.transport.uniqueness.table import UniqueSend

T = TypeVar("T")


class Outside:
    """Stands in for a message's session while its handler is in no transaction: asks on another, lends none."""

    closed = is_busy = False

    def __init__(self, pool: SessionPool) -> None:
        """Ask on sessions of this pool. No I/O."""
        self._pool = pool

    async def run(self, statement: Statement[T], *, undoable: bool = False) -> T:  # noqa: ARG002 - nothing is undone
        """Run a statement, in a transaction of its own."""
        async with self._pool.session() as session:
            return await session.run(statement)

    def ensure_usable(self) -> None:
        """Return: no transaction can be spoilt."""

    @property
    def handler_connection(self) -> NoReturn:
        """Raise HandlerError."""
        raise HandlerError(
            "A handler that takes long is in no transaction while it runs, and has no context.connection: open one by "
            "`async with context.transaction() as step:` (`def`: `with`), and use step.connection."
        )

    sync_handler_connection = handler_connection

    async def abandon(self) -> None:
        """Return: there is no connection to give up."""

    def discard(self) -> None:
        """Return: there is no connection to close."""


class LongDelivery(Delivery):
    """One attempt at a message whose handler takes long."""

    step: Callable[[bool], AbstractAsyncContextManager[Delivery]]
    """Opens a transaction, which ends the work too if that is asked for."""

    async def send_once(self, unique: UniqueSend, *, immediate: bool) -> UniqueMessageId:
        """Send a unique message in a transaction of its own; raises HandlerError without `immediate`."""
        if not immediate:
            raise HandlerError(
                "A handler that takes long is in no transaction that a unique message could leave with: send it within "
                "`context.transaction()`, or with immediate=True."
            )
        return await super().send_once(unique, immediate=True)

    note_progress: Callable[[float, str], Coroutine[Any, Any, None]]


class LongContext(Context):
    """The context of an `async def` handler that takes long.

    What it sends leaves with the transaction that ends its work. `connection` raises HandlerError.
    """

    _delivery: LongDelivery

    @asynccontextmanager
    async def transaction(self, *, finish: bool = False) -> AsyncGenerator[Context]:
        """Open a transaction of the endpoint's database; give a context of it, with `connection` and all verbs.

        What is done and sent through that commits at the end of the block, if this process still has the message:
        else LeaseLostError, and nothing of it happens. The message's row stays locked meanwhile. With `finish` the
        block ends the message, too: what the handler sent so far leaves with it. Waits for one of the endpoint's
        sessions. Raises StorageError, QueueNotFoundError.
        """
        async with self._delivery.step(finish) as delivery:
            context = Context(delivery, self._sender)
            yield context
            refuse_forgotten(context)

    @awaited
    async def progress(self, fraction: float, note: str = "") -> None:
        """Say how far the work is, from 0 to 1, for people to see; in a transaction of its own.

        Raises LeaseLostError when another process has the message, and StorageError.
        """
        await self._delivery.note_progress(fraction, note)


class SyncLongContext(SyncContext):
    """The context of a `def` handler that takes long; see `LongContext`."""

    _delivery: LongDelivery
    _sender: Sender
    _loop: asyncio.AbstractEventLoop

    @contextmanager
    def transaction(self, *, finish: bool = False) -> Generator[SyncContext]:
        """Open a transaction of the endpoint's database; see `LongContext.transaction`."""
        step = self._delivery.step(finish)
        delivery = self._wait(step.__aenter__())
        try:
            yield SyncContext(delivery, self._sender, self._loop)
        except BaseException as error:
            self._wait(step.__aexit__(type(error), error, error.__traceback__))
            raise
        self._wait(step.__aexit__(None, None, None))

    def progress(self, fraction: float, note: str = "") -> None:
        """Say how far the work is; see `LongContext.progress`."""
        self._wait(self._delivery.note_progress(fraction, note))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
