"""Several statements in one round trip on a connection that is not ours alone: psycopg's pipeline, and its plans.

`Roundtrips` keeps plans of its own, which needs a connection of our own. Here psycopg keeps them, for all cursors of
the connection, as its user's `prepare_threshold` says.

Invariant: a failure is told as that of the statement that failed, and those after it did not run.
Source: psycopg documentation, "Pipeline mode support".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from rowbus.database.postgresql.faults import translate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement

Cursor = TypeVar("Cursor", psycopg.Cursor[Any], psycopg.AsyncCursor[Any])


def run_pipelined(connection: psycopg.Connection[Any], statements: Sequence[Statement[object]]) -> None:
    """Run statements, answers unread, in the connection's transaction; raises for the first that failed."""
    cursors = [psycopg.Cursor(connection, row_factory=tuple_row) for _ in statements]
    try:
        with connection.pipeline():
            for cursor, statement in zip(cursors, statements, strict=True):
                query = statement.query
                cursor.execute(query.text, statement.parameters, prepare=query.prepare)
    except psycopg.Error as error:
        raise translate(error, _failed(cursors, statements).query) from error


async def run_pipelined_async(
    connection: psycopg.AsyncConnection[Any], statements: Sequence[Statement[object]]
) -> None:
    """Do what `run_pipelined` does, on an asynchronous connection."""
    cursors = [psycopg.AsyncCursor(connection, row_factory=tuple_row) for _ in statements]
    try:
        async with connection.pipeline():
            for cursor, statement in zip(cursors, statements, strict=True):
                query = statement.query
                await cursor.execute(query.text, statement.parameters, prepare=query.prepare)
    except psycopg.Error as error:
        raise translate(error, _failed(cursors, statements).query) from error


def _failed(cursors: Sequence[Cursor], statements: Sequence[Statement[object]]) -> Statement[object]:
    """Return the statement that failed: the first without an answer."""
    answered = sum(cursor.pgresult is not None for cursor in cursors)
    return statements[min(answered, len(statements) - 1)]
