"""Sessions, and connections of `async def` handlers, whose calls are made in a thread: the event loop goes on.

    orders = await (await context.connection.execute(statement, day)).fetchall()

Invariants: each method of a session is one call of a `Session`'s, and after a cancelled call no other is made; a
handler's connection and its cursors do nothing but have their twins' calls made in the session's thread.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from rowbus.database.sqlserver.faults import drivers_fault
from rowbus.database.sqlserver.handler_connection import HandlerConnection, forbidden
from rowbus.database.sqlserver.threads import is_over
from rowbus.database.statements import no_answer
from rowbus.errors import RowbusError
from rowbus.running.handling import Awaiting, awaited

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
    from typing import Protocol, Self

    from rowbus.database.sqlserver.connection import Session
    from rowbus.database.sqlserver.handler_connection import HandlerCursor
    from rowbus.database.sqlserver.threads import Calls
    from rowbus.database.statements import Query, Row, Statement

    class Make(Protocol):
        """A maker of calls in a session's thread."""

        def __call__(self, call: Callable[[], T], /) -> Awaitable[T]:
            """Make it."""
            raise NotImplementedError


T = TypeVar("T")


class AsyncSession:
    """Run statements on a connection of the DB-API, in a thread; the twin of `Session`."""

    def __init__(self, session: Session, calls: Calls) -> None:
        """Have the session's calls made there. No I/O."""
        self._session = session
        self._calls = calls
        self._closed = False

    @property
    def connection(self) -> AsyncHandlerConnection:
        """The connection, as those get it who take part in our transaction."""
        return AsyncHandlerConnection(HandlerConnection(self._session), self.make)

    async def make(self, call: Callable[[], T]) -> T:
        """Make a call in the session's thread; raises ConnectionLostError when the session is of no use any more.

        Cancelled while it runs, it leaves the session `closed`, because its state is unknown.
        """
        if self.closed:
            raise is_over()
        return await self._calls.make(call)

    async def run(
        self,
        statement: Statement[T],
        *,
        within: float | None = None,
        then: Callable[[T], Sequence[Statement[object]]] | None = None,
    ) -> T:
        """Run one statement and decode its answer; raises a `RowbusError` naming what failed.

        After so many seconds it is interrupted, and the session closed.
        """
        if within is not None:
            return await self._run_within(statement, within, then)
        if then is not None:
            return await self._run_then(statement, then)
        return await self.make(partial(self._session.run, statement))

    async def _run_within(
        self,
        statement: Statement[T],
        seconds: float,
        then: Callable[[T], Sequence[Statement[object]]] | None = None,
    ) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await self.run(statement, then=then)
        except TimeoutError:
            raise no_answer(statement.query, seconds) from None

    async def _run_then(
        self, question: Statement[T], following: Callable[[T], Sequence[Statement[object]]]
    ) -> T:
        async with self.transaction():
            answer = await self.run(question)
            await self.run_all(following(answer))
        return answer

    async def run_all(self, statements: Sequence[Statement[object]], *, atomic: bool = False) -> None:
        """Run several statements, answers unread; `atomic`: if one fails undo them, and raise.

        What was locked before stays locked, unless the server rolled everything back: then nothing runs any more until
        the transaction is left.
        """
        await self.make(partial(self._session.run_all, statements, atomic=atomic))

    @overload
    async def run_together(
        self, statements: Sequence[Statement[T]], *, within: float | None = None, each: Literal[False] = False
    ) -> list[T]: ...

    @overload
    async def run_together(
        self, statements: Sequence[Statement[T]], *, within: float | None = None, each: Literal[True]
    ) -> list[T | RowbusError]: ...

    async def run_together(
        self, statements: Sequence[Statement[Any]], *, within: float | None = None, each: bool = False
    ) -> list[Any]:
        """Run statements one by one: SQL Server makes plans anew by itself when a table has changed much."""
        run = self._run_or_tell if each else self.run
        return [await run(statement, within=within) for statement in statements]

    async def _run_or_tell(self, statement: Statement[T], *, within: float | None) -> T | RowbusError:
        """Return the answer, or the error if that leaves the session of use."""
        try:
            return await self.run(statement, within=within)
        except RowbusError as error:
            if self.closed:
                raise
            return error

    async def copy(self, query: Query, rows: Iterable[Row]) -> None:
        """Run a table's `copy` for all rows; all or nothing."""
        await self.make(partial(self._session.copy, query, rows))

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """Make what runs inside one transaction; see `Session.transaction`."""
        await self.make(self._session.enter)
        try:
            yield
        except BaseException as error:
            if not self.closed:
                await self.make(partial(self._session.leave, succeeded=False))
            ours = drivers_fault(error, self._session.modules)
            if ours is None:
                raise
            raise ours from error
        else:
            await self.make(partial(self._session.leave, succeeded=True))

    async def notified(self, timeout: float) -> bool:  # noqa: ASYNC109 - the wait is the point
        """Wait; SQL Server has no notifications."""
        await asyncio.sleep(timeout)
        return False

    async def heard(self, seconds: float) -> set[str]:
        """Wait; SQL Server has no notifications."""
        await asyncio.sleep(seconds)
        return set()

    def has_ended(self) -> bool:
        """Say whether the connection is closed: the driver says no more of it before a statement."""
        return self.closed

    @property
    def is_idle(self) -> bool:
        """Whether the connection works and is in no transaction."""
        return not self.closed and not self._session.in_transaction

    @property
    def closed(self) -> bool:
        """Whether the connection is closed or broken, or a cancelled call left it in an unknown state."""
        return self._closed or self._calls.abandoned or self._session.lost

    async def close(self) -> None:
        """Close the connection; harmless when it is closed or broken."""
        self._closed = True
        await self._calls.end()


class AsyncHandlerCursor:
    """The asynchronous twin of `HandlerCursor`."""

    def __init__(self, cursor: HandlerCursor, make: Make) -> None:
        """Have the cursor's batches run there."""
        self._cursor = cursor
        self._make = make

    @property
    def description(self) -> Any:  # noqa: ANN401 - as the driver describes columns
        """The columns of the current answer, None if it has none."""
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        """The number of rows the current answer's statement touched; -1 if that is not known."""
        return self._cursor.rowcount

    async def execute(self, operation: str, /, *parameters: object) -> Self:
        """Run one batch, with the driver's marks; raises the driver's errors."""
        await self._make(partial(self._cursor.execute, operation, *parameters))
        return self

    async def executemany(self, operation: str, rows: Sequence[Sequence[object]], /) -> None:
        """Run one batch for each row of parameters."""
        await self._make(partial(self._cursor.executemany, operation, rows))

    async def fetchone(self) -> Any:  # noqa: ANN401 - a row of the driver's
        """Return the next row, None when there is none."""
        return self._cursor.fetchone()

    async def fetchmany(self, size: int | None = None) -> list[Any]:
        """Return the next rows."""
        return self._cursor.fetchmany(size)

    async def fetchall(self) -> list[Any]:
        """Return the remaining rows."""
        return self._cursor.fetchall()

    async def nextset(self) -> bool:
        """Go on to the batch's next answer; false when there is none."""
        return self._cursor.nextset()

    async def close(self) -> None:
        """Forget the answers."""
        self._cursor.close()

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Iterate over the remaining rows."""
        for row in self._cursor:
            yield row

    async def __aenter__(self) -> Self:
        """Return the cursor."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Forget the answers."""
        self._cursor.close()


class AsyncHandlerConnection(Awaiting):
    """The connection for an `async def` handler: `rows = await (await connection.execute("…", 1)).fetchall()`."""

    backend: Final = "sqlserver"
    _called = "context.connection"

    def __init__(self, connection: HandlerConnection, make: Make) -> None:
        """Have the connection's calls made there."""
        self.blocking = connection
        """The same connection for who is in its session's thread already."""
        self.make = make
        self.orm: object = None
        """The place of things that an ORM keeps with the connection: SQLAlchemy's engine."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, as the receiver's is but in mode NONE."""
        return self.blocking.in_transaction

    @property
    def autocommit(self) -> bool:
        """Whether each statement is a transaction of its own: only outside any."""
        return self.blocking.autocommit

    def cursor(self) -> AsyncHandlerCursor:
        """Make a cursor."""
        return AsyncHandlerCursor(self.blocking.cursor(), self.make)

    @awaited
    async def execute(self, operation: str, /, *parameters: object) -> AsyncHandlerCursor:
        """Run one batch and return a cursor on its answers; raises the driver's errors."""
        return await self.cursor().execute(operation, *parameters)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """Make what runs inside a savepoint: after an error the handler can go on, unless the server rolled back."""
        block = self.blocking.transaction()
        await self.make(block.__enter__)
        try:
            yield
        except BaseException as error:
            await self.make(partial(block.__exit__, type(error), error, error.__traceback__))
            raise
        else:
            await self.make(partial(block.__exit__, None, None, None))

    async def commit(self) -> None:
        """Refuse: the receiver commits."""
        forbidden("commit")

    async def rollback(self) -> None:
        """Refuse: raise in the handler to roll back."""
        forbidden("roll back")

    async def close(self) -> None:
        """Refuse: the connection is the receiver's."""
        forbidden("close")
