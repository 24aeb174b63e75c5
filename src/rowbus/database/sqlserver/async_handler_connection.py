"""The connection an `async def` handler gets; the asynchronous twin of `handler_connection`.

    orders = await (await context.connection.execute(statement, day)).fetchall()

Invariant: it does nothing but have the twin's calls made in the session's thread.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rowbus.database.sqlserver.handler_connection import forbidden
from rowbus.running.handling import Awaiting, awaited

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
    from typing import Protocol, Self

    from rowbus.database.sqlserver.handler_connection import HandlerConnection, HandlerCursor

    class Make(Protocol):
        """What makes a call in a session's thread."""

        def __call__(self, call: Callable[[], T], /) -> Awaitable[T]:
            """Make it."""
            raise NotImplementedError


T = TypeVar("T")


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
        """How many rows the current answer's statement touched; -1 if that is not known."""
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
        """What an ORM keeps with the connection: SQLAlchemy's engine."""

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
