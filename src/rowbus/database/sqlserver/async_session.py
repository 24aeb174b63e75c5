"""A session whose calls are made in a thread, so that the event loop goes on.

Invariant: each method is one call of a `Session`'s, and after a cancelled call no other is made.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rowbus.database.sqlserver.async_handler_connection import AsyncHandlerConnection
from rowbus.database.sqlserver.faults import drivers_fault
from rowbus.database.sqlserver.handler_connection import HandlerConnection
from rowbus.database.statements import no_answer
from rowbus.errors import ConnectionLostError, RowbusError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

    from rowbus.database.sqlserver.connection import Session
    from rowbus.database.sqlserver.threads import Calls
    from rowbus.database.statements import Query, Row, Statement

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
            raise ConnectionLostError("The session is closed or broken.", sqlstate="08003", transient=True)
        return await self._calls.make(call)

    async def run(self, statement: Statement[T]) -> T:
        """Run one statement and decode its answer; raises a `RowbusError` naming what failed."""
        return await self.make(partial(self._session.run, statement))

    async def run_within(self, statement: Statement[T], seconds: float) -> T:
        """Run one statement, for so many seconds at most; then it is interrupted, and the session closed."""
        try:
            async with asyncio.timeout(seconds):
                return await self.run(statement)
        except TimeoutError:
            raise no_answer(statement.query, seconds) from None

    async def ask_each(self, statements: Sequence[Statement[T]], seconds: float) -> list[T | RowbusError]:
        """Run statements that only read, one by one; return each one's answer or error."""
        answers: list[T | RowbusError] = []
        for statement in statements:
            try:
                answers.append(await self.run_within(statement, seconds))
            except RowbusError as error:
                if self.closed:
                    raise
                answers.append(error)
        return answers

    async def run_replanned(self, statement: Statement[T]) -> T:
        """Run a statement: SQL Server makes plans anew by itself when a table has changed much."""
        return await self.run(statement)

    async def run_all(self, statements: Sequence[Statement[object]]) -> None:
        """Run several statements, answers unread."""
        await self.make(partial(self._session.run_all, statements))

    async def run_following(
        self, question: Statement[T], following: Callable[[T], Sequence[Statement[object]]]
    ) -> None:
        """Ask, and run what follows from the answer, in a `transaction`."""
        async with self.transaction():
            await self.run_all(following(await self.run(question)))

    async def commit_all(self, statements: Sequence[Statement[object]]) -> None:
        """Run statements in a transaction of their own."""
        await self.make(partial(self._session.run_all_or_undo, statements))

    async def run_all_or_undo(self, statements: Sequence[Statement[object]]) -> None:
        """Run several statements; if one fails undo them, and raise.

        What was locked before stays locked, unless the server rolled everything back: then nothing runs any more until
        the transaction is left.
        """
        await self.make(partial(self._session.run_all_or_undo, statements))

    async def copy(self, query: Query, rows: Iterable[Row]) -> None:
        """Run a table's `copy` for each row; all or nothing."""
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
