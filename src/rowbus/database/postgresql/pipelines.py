"""Several statements in few round trips on a connection that is not ours alone: psycopg's pipeline, and its plans.

`Roundtrips` keeps plans of its own, which needs a connection of our own. Here psycopg keeps them, for all cursors of
the connection, as its user's `prepare_threshold` says. Raw cursors take the server's placeholders: psycopg would look
through a long text for its own each time.

Invariant: a failure is told as that of the statement that failed, and those after it did not run.
Source: psycopg documentation, "Pipeline mode support".
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from rowbus.database.postgresql.cursors import ASCII, ASYNC_CURSORS, CURSORS, ENCODING
from rowbus.database.postgresql.faults import translate
from rowbus.database.statements import control

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.database.statements import Statement

T = TypeVar("T")


def _command(text: bytes, failing: str) -> Statement[None]:
    """Return a command without a plan, which its user may discard: the savepoint must be set then, too."""
    statement = control(text, failing)
    return statement._replace(query=statement.query._replace(prepare=False))


_SET = _command(b"savepoint rowbus_following", "Failed to set a savepoint")
_RELEASE = _command(b"release savepoint rowbus_following", "Failed to release a savepoint")
_UNDO = (b"rollback to savepoint rowbus_following", b"release savepoint rowbus_following")
_BROKEN = frozenset({TransactionStatus.INERROR, TransactionStatus.UNKNOWN})
_NOTHING_TO_UNDO = frozenset({TransactionStatus.IDLE, TransactionStatus.UNKNOWN})


def run_pipelined(connection: psycopg.Connection[Any], statements: Sequence[Statement[object]]) -> None:
    """Run statements, answers unread, in the connection's transaction; raises for the first that failed."""
    cursors: list[psycopg.RawCursor[Any]] = []
    try:
        with connection.pipeline():
            for statement in statements:
                _send(connection, statement, cursors)
    except psycopg.Error as error:
        raise translate(error, _failed(cursors, statements).query, connection=connection) from error


async def run_pipelined_async(
    connection: psycopg.AsyncConnection[Any], statements: Sequence[Statement[object]]
) -> None:
    """Do what `run_pipelined` does, on an asynchronous connection."""
    cursors: list[psycopg.AsyncRawCursor[Any]] = []
    try:
        async with connection.pipeline():
            for statement in statements:
                await _send_async(connection, statement, cursors)
    except psycopg.Error as error:
        raise translate(error, _failed(cursors, statements).query, connection=connection) from error


def is_callers(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Say whether the next statement is in a transaction that the caller is to end, perhaps begun by it."""
    status = connection.info.transaction_status
    return status not in _BROKEN and (status != TransactionStatus.IDLE or not connection.autocommit)


def run_then(
    connection: psycopg.Connection[Any],
    question: Statement[T],
    following: Callable[[T], Sequence[Statement[object]]],
) -> T:
    """Ask, and run what follows from the answer, in the caller's transaction, which stays usable when this fails.

    The savepoint travels with the question, and its release with what follows: psycopg's `transaction` would wait for
    each. Raises for the first statement that failed; nothing of the others is kept then.
    """
    statements: list[Statement[object]] = [_SET, question]
    cursors: list[psycopg.RawCursor[Any]] = []
    try:
        with connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext():
            _send(connection, _SET, cursors)
            asked = _send(connection, question, cursors)
            answer = question.decode(asked.fetchall(), asked.rowcount)
            statements += (*following(answer), _RELEASE)
            for statement in statements[2:]:
                _send(connection, statement, cursors)
    except psycopg.Error as error:
        _undo(connection)
        raise translate(error, _failed(cursors, statements).query, connection=connection) from error
    except BaseException:
        _undo(connection)
        raise
    return answer


async def run_then_async(
    connection: psycopg.AsyncConnection[Any],
    question: Statement[T],
    following: Callable[[T], Sequence[Statement[object]]],
) -> T:
    """Do what `run_then` does, on an asynchronous connection."""
    statements: list[Statement[object]] = [_SET, question]
    cursors: list[psycopg.AsyncRawCursor[Any]] = []
    try:
        async with connection.pipeline() if psycopg.AsyncPipeline.is_supported() else nullcontext():
            await _send_async(connection, _SET, cursors)
            asked = await _send_async(connection, question, cursors)
            answer = question.decode(await asked.fetchall(), asked.rowcount)
            statements += (*following(answer), _RELEASE)
            for statement in statements[2:]:
                await _send_async(connection, statement, cursors)
    except psycopg.Error as error:
        await _undo_async(connection)
        raise translate(error, _failed(cursors, statements).query, connection=connection) from error
    except BaseException:
        await _undo_async(connection)
        raise
    return answer


def _send(
    connection: psycopg.Connection[Any],
    statement: Statement[object],
    cursors: list[psycopg.RawCursor[Any]],
) -> psycopg.RawCursor[Any]:
    """Send a statement by a cursor of its own, which is put to the others: it knows the answer, once there is one."""
    query = statement.query
    kind = CURSORS[connection.pgconn.parameter_status(ENCODING) == ASCII]
    cursor = kind(connection, row_factory=tuple_row)
    cursors.append(cursor)
    return cursor.execute(
        query.native, [statement.parameters[name] for name in query.names], prepare=query.prepare
    )


async def _send_async(
    connection: psycopg.AsyncConnection[Any],
    statement: Statement[object],
    cursors: list[psycopg.AsyncRawCursor[Any]],
) -> psycopg.AsyncRawCursor[Any]:
    """Do what `_send` does, on an asynchronous connection."""
    query = statement.query
    kind = ASYNC_CURSORS[connection.pgconn.parameter_status(ENCODING) == ASCII]
    cursor = kind(connection, row_factory=tuple_row)
    cursors.append(cursor)
    return await cursor.execute(
        query.native, [statement.parameters[name] for name in query.names], prepare=query.prepare
    )


def _undo(connection: psycopg.Connection[Any]) -> None:
    """Undo what came after the savepoint, if there is one; the error that is on its way says more than one here."""
    if connection.info.transaction_status not in _NOTHING_TO_UNDO:
        with suppress(psycopg.Error):
            for command in _UNDO:
                connection.execute(command)


async def _undo_async(connection: psycopg.AsyncConnection[Any]) -> None:
    """Do what `_undo` does, on an asynchronous connection."""
    if connection.info.transaction_status not in _NOTHING_TO_UNDO:
        with suppress(psycopg.Error):
            for command in _UNDO:
                await connection.execute(command)


def _failed(
    cursors: Sequence[psycopg.RawCursor[Any]] | Sequence[psycopg.AsyncRawCursor[Any]],
    statements: Sequence[Statement[object]],
) -> Statement[object]:
    """Return the statement that failed: the first without an answer."""
    answered = sum(cursor.pgresult is not None for cursor in cursors)
    return statements[min(answered, len(statements) - 1)]
