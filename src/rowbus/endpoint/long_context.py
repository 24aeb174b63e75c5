"""The contexts of handlers that take long: no transaction while they run, and one whenever they ask for it.

Invariants: what a handler commits it commits with a look at its lease; one that was too late commits nothing. Nothing
is taken from it that would not leave: what it says when its block, its attempt or its message is over is refused.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from rowbus.endpoint.context import Context, SyncContext
from rowbus.errors import HandlerError
from rowbus.errors.strangers import printable, printable_value
from rowbus.running.functions import calling_line
from rowbus.running.handling import awaited, refuse_forgotten
from rowbus.running.scope import Scope
from rowbus.transport.receiving.delivery import Delivery

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from typing import Any

    from rowbus.database.sessions import Database, ReceiveSession, SessionPool
    from rowbus.database.statements import Statement
    from rowbus.endpoint.sender import Sender
    from rowbus.messages.outgoing import UniqueMessageId
    from rowbus.transport.uniqueness.table import UniqueSend

T = TypeVar("T")

ENDED: Final = "The handler has ended: what it does has to end before it does."
LEFT: Final = (
    "The handler ended while a block of context.transaction() was open, which is undone: open each by `with`."
)
BLOCK_ENDED: Final = "The block of this context has ended: what is to leave with it is said within the block."
FINISHED: Final = (
    "context.transaction(finish=True) has ended the message: what is to leave is said before, or in that."
)
NOT_ENTERED: Final = (
    "{} called context.transaction() and never entered it, so nothing of it happened: write `{} "
    "context.transaction() as step:`."
)
SESSIONS: Final = 10
"""Connections, at most, for the transactions of an endpoint's handlers that take long."""
LONGEST_NOTE: Final = 1000
"""Characters of what a handler says of its progress that are kept."""

_block: ContextVar[Step | None] = ContextVar("rowbus_block", default=None)


class Outside:
    """Stands in for a message's session while its handler is in no transaction: asks on another, lends none."""

    closed = is_busy = is_occupied = False

    def __init__(self, pool: SessionPool, blocks: set[ReceiveSession]) -> None:
        """Ask on sessions of this pool; `blocks` has those of the handler's open blocks. No I/O."""
        self._pool = pool
        self._blocks = blocks
        self._abandoned: list[ReceiveSession] = []

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
        """Give the connections of the handler's blocks up, while its thread still uses them."""
        self._abandoned = list(self._blocks)
        for session in self._abandoned:
            await session.abandon()

    def discard(self) -> None:
        """Close those connections."""
        for session in self._abandoned:
            session.discard()


class BlockSessions:
    """The sessions of the transactions of handlers that take long: what one gives back, the next one has."""

    def __init__(self, database: Database) -> None:
        """Connect when one is needed. For one event loop. No I/O."""
        self._database = database
        self._idle: list[ReceiveSession] = []
        self._free = asyncio.Semaphore(SESSIONS)

    async def lend(self, held: set[ReceiveSession]) -> ReceiveSession:
        """Wait for a session, and add it to what a message holds."""
        await self._free.acquire()
        try:
            session = self._idle.pop() if self._idle else await self._database.connect_receiver()
        except BaseException:
            self._free.release()
            raise
        held.add(session)
        return session

    async def give_back(self, session: ReceiveSession, held: set[ReceiveSession], *, keep: bool) -> None:
        """Take a session from a message that still holds it, and roll back what is not committed."""
        if session not in held:
            return
        held.remove(session)
        try:
            if not session.committed:
                await session.rollback()
            session.admit(Scope())
            if session.closed or session.is_stained or not keep:
                await session.close()
            else:
                self._idle.append(session)
        finally:
            self._free.release()

    async def end_left(self, held: set[ReceiveSession]) -> int:
        """Give up the transactions that a handler has left open, and return how many."""
        left = list(held)
        for session in left:
            if not session.closed:  # or a thread that is left to itself still uses it
                await session.give_up()
            await self.give_back(session, held, keep=False)
        return len(left)

    async def close(self) -> None:
        """Close the idle sessions."""
        while self._idle:
            await self._idle.pop().close()


class Step(Delivery):
    """A delivery that may be over before its handler is: that of a block."""

    over = ""
    """Why nothing leaves with it any more."""

    def require_open(self) -> None:
        """Raise HandlerError when nothing would leave any more."""
        super().require_open()
        if self.over:
            raise HandlerError(self.over)


class LongDelivery(Step):
    """One attempt at a message whose handler takes long."""

    step: Callable[[bool], AbstractAsyncContextManager[Step]]
    """Opens a transaction, which ends the work too if that is asked for."""

    @cached_property
    def not_entered(self) -> dict[object, str]:
        """A sentence about each block that the handler has made, until it enters it."""
        return {}

    @property
    def misuse(self) -> HandlerError | None:
        """The error of a handler that never entered one of its blocks."""
        return next(map(HandlerError, self.not_entered.values()), None)

    def announce(self, statement: str) -> object:
        """Note that a block was made, which is entered by such a statement; return what to forget when that is done."""
        block = object()
        self.not_entered[block] = NOT_ENTERED.format(calling_line(), statement)
        return block

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

    def transaction(self, *, finish: bool = False) -> AbstractAsyncContextManager[Context]:
        """Open a transaction of the endpoint's database; give a context of it, with `connection` and all verbs.

        What is done and sent through that commits at the end of the block, if this process still has the message:
        else LeaseLostError, and nothing of it happens. The message's row stays locked meanwhile. With `finish` the
        block ends the message, too: what the handler sent so far leaves with it. Waits for one of the endpoint's
        sessions. Raises StorageError, QueueNotFoundError, and HandlerError within another block. One that is made and
        not entered fails the attempt.
        """
        return self._transaction(self._delivery.announce("async with"), finish)

    @asynccontextmanager
    async def _transaction(self, block: object, finish: bool) -> AsyncGenerator[Context]:  # noqa: FBT001 - of one caller
        del self._delivery.not_entered[block]
        _refuse_within_block()
        async with self._delivery.step(finish) as step:
            _block.set(step)
            context = Context(step, self._sender)
            yield context
            refuse_forgotten(context)

    @awaited
    async def progress(self, fraction: float, note: str = "") -> None:
        """Say how far the work is, from 0 to 1, for people to see; in a transaction of its own.

        Of a note the first 1,000 characters are kept. Raises LeaseLostError when another process has the message,
        StorageError, and HandlerError for what is no such fraction.
        """
        await self._delivery.note_progress(*_progress(fraction, note))


class SyncLongContext(SyncContext):
    """The context of a `def` handler that takes long; see `LongContext`."""

    _delivery: LongDelivery
    _sender: Sender
    _loop: asyncio.AbstractEventLoop

    def transaction(self, *, finish: bool = False) -> AbstractContextManager[SyncContext]:
        """Open a transaction of the endpoint's database; see `LongContext.transaction`."""
        return self._transaction(self._delivery.announce("with"), finish)

    @contextmanager
    def _transaction(self, entered: object, finish: bool) -> Generator[SyncContext]:  # noqa: FBT001 - of one caller
        del self._delivery.not_entered[entered]
        _refuse_within_block()
        block = self._delivery.step(finish)
        step = self._wait(block.__aenter__())
        _block.set(step)
        try:
            yield SyncContext(step, self._sender, self._loop)
        except GeneratorExit:  # left open: given up at the handler's end, and perhaps collected on the loop
            raise
        except BaseException as error:
            self._wait(block.__aexit__(type(error), error, error.__traceback__))
            raise
        self._wait(block.__aexit__(None, None, None))

    def progress(self, fraction: float, note: str = "") -> None:
        """Say how far the work is; see `LongContext.progress`."""
        self._wait(self._delivery.note_progress(*_progress(fraction, note)))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _refuse_within_block() -> None:
    """Raise HandlerError in a block: it would commit before the one around it, or wait for that for ever."""
    outer = _block.get()
    if outer is not None and not outer.over:
        raise HandlerError(
            "A block of context.transaction() is open already: work with its context, or open another after its end."
        )


def _progress(fraction: object, note: object) -> tuple[float, str]:
    """Return what is noted; raises HandlerError for what people could not read. A sum of parts may miss 1 a little."""
    if not isinstance(fraction, int | float) or not 0 <= round(fraction, 6) <= 1:
        raise HandlerError(
            f"Progress is a number from 0 to 1, and not {printable_value(fraction, repr)}: 0.4 for 40 %."
        )
    if not isinstance(note, str):
        raise HandlerError(f"The note of a progress is a str, and not {printable_value(note, repr)}.")
    return min(max(float(fraction), 0.0), 1.0), printable(note, LONGEST_NOTE)
