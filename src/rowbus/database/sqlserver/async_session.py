"""A session whose calls are made in a thread, so that the event loop goes on.

Invariant: each method is one call of a `Session`'s, and after a cancelled call no other is made.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from rowbus.database.sqlserver.async_handler_connection import AsyncHandlerConnection
from rowbus.database.sqlserver.faults import drivers_fault
from rowbus.database.sqlserver.handler_connection import HandlerConnection
from rowbus.database.sqlserver.threads import is_over
from rowbus.database.statements import no_answer
from rowbus.errors import RowbusError

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
