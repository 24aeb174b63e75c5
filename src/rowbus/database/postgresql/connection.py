"""Connections that run statements: one asynchronous, one synchronous, the same few verbs.

Invariant: a session never begins or ends a transaction of the caller's; `run` happens in whatever transaction the
connection is in (its own, when the connection is in autocommit mode). Sessions are not for concurrent use.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from rowbus.database.postgresql.faults import translate

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterable, Sequence

    from rowbus.database.statements import Query, Row, Statement

T = TypeVar("T")


class AsyncSession:
    """Run statements on an asynchronous psycopg connection."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Use the connection as it is, in the transaction it is in; closing it remains the owner's business."""
        self.connection = connection
        self._cursor = self._new_cursor()

    def _new_cursor(self) -> psycopg.AsyncCursor[Row]:
        cursor = psycopg.AsyncCursor(self.connection, row_factory=tuple_row)
        cursor.format = psycopg.pq.Format.BINARY
        return cursor

    async def run(self, statement: Statement[T]) -> T:
        """Run one statement and decode its answer; raises a `RowbusError` naming what failed."""
        query = statement.query
        cursor = self._cursor
        try:
            await cursor.execute(query.text, statement.parameters, prepare=query.prepare)
            rows = await cursor.fetchall() if cursor.description else ()
        except psycopg.Error as error:
            raise translate(error, query) from error
        return statement.decode(rows, cursor.rowcount)

    async def run_all(self, statements: Sequence[Statement[object]]) -> None:
        """Run several statements, answers unread, in one round trip where libpq can pipeline."""
        if len(statements) == 1:
            await self.run(statements[0])
        elif statements:
            await self._exchange(*statements)

    async def _exchange(self, *statements: Statement[object]) -> object:
        """Run the statements in one round trip and decode the last; the first that fails names the error."""
        sent: list[tuple[psycopg.AsyncCursor[Row], Query]] = []
        try:
            async with self.connection.pipeline():
                for statement in statements:
                    query = statement.query
                    cursor = self._cursor_for(statement)
                    sent.append((cursor, query))
                    await cursor.execute(query.text, statement.parameters, prepare=query.prepare)
            return await _answer(statements[-1], sent[-1][0])
        except psycopg.Error as error:
            failed = next((query for cursor, query in sent if cursor.pgresult is None), None)
            raise translate(error, failed) from error

    def _cursor_for(self, _statement: Statement[object]) -> psycopg.AsyncCursor[Row]:
        return self._new_cursor()

    async def copy(self, query: Query, rows: Iterable[Row]) -> None:
        """Stream rows into the query's `copy … from stdin`; all or nothing."""
        try:
            async with self._cursor.copy(query.text) as copy:
                for row in rows:
                    await copy.write_row(row)
        except psycopg.Error as error:
            raise translate(error, query) from error

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """Make what runs inside one transaction; within the caller's transaction, a savepoint."""
        try:
            async with self.connection.transaction():
                yield
        except psycopg.Error as error:
            raise translate(error) from error

    async def notified(self, timeout: float) -> bool:  # noqa: ASYNC109 - the wait is the point
        """Wait up to `timeout` seconds for a notification; say whether one came. Raises ConnectionLostError."""
        try:
            async for _notification in self.connection.notifies(timeout=timeout, stop_after=1):
                return True
        except psycopg.Error as error:
            raise translate(error) from error
        return False

    async def close(self) -> None:
        """Close the connection; harmless when it is closed or broken."""
        await self.connection.close()


async def _answer(statement: Statement[T], cursor: psycopg.AsyncCursor[Row]) -> T:
    rows = await cursor.fetchall() if cursor.description else ()
    return statement.decode(rows, cursor.rowcount)


class Session:
    """Run statements on a synchronous psycopg connection; the twin of `AsyncSession`, verb for verb."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        """Use the connection as it is, in the transaction it is in; closing it remains the owner's business."""
        self.connection = connection
        self._cursor = psycopg.Cursor(connection, row_factory=tuple_row)
        self._cursor.format = psycopg.pq.Format.BINARY

    def run(self, statement: Statement[T]) -> T:
        """Run one statement and decode its answer; raises a `RowbusError` naming what failed."""
        query = statement.query
        cursor = self._cursor
        try:
            cursor.execute(query.text, statement.parameters, prepare=query.prepare)
            rows = cursor.fetchall() if cursor.description else ()
        except psycopg.Error as error:
            raise translate(error, query) from error
        return statement.decode(rows, cursor.rowcount)

    def copy(self, query: Query, rows: Iterable[Row]) -> None:
        """Stream rows into the query's `copy … from stdin`; all or nothing."""
        try:
            with self._cursor.copy(query.text) as copy:
                for row in rows:
                    copy.write_row(row)
        except psycopg.Error as error:
            raise translate(error, query) from error

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Make what runs inside one transaction; within the caller's transaction, a savepoint."""
        try:
            with self.connection.transaction():
                yield
        except psycopg.Error as error:
            raise translate(error) from error

    def close(self) -> None:
        """Close the connection; harmless when it is closed or broken."""
        self.connection.close()
