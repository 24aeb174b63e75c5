"""Sessions, which run statements on connections: one asynchronous, one synchronous, the same few verbs; one that reads.

`ReadSession` reads many rows with bounded memory: through a cursor on the server, in a transaction of its own that
writes nothing.

Invariants: a session never begins or ends a transaction of the caller's; `run` happens in the transaction that the
connection is in (its own, when the connection is in autocommit mode); sessions are not for concurrent use; what looks
names up in pg_catalog alone runs no function of another role; the opener of a cursor ends its transaction before the
session runs anything else.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from rowbus.database.postgresql.cursors import ASCII, ASYNC_CURSORS, CURSORS, ENCODING
from rowbus.database.postgresql.driver_hooks import forget_plans
from rowbus.database.postgresql.faults import FAULTS, translate, translate_send
from rowbus.database.postgresql.pipelines import is_callers, run_pipelined, run_then
from rowbus.database.postgresql.readiness import has_come, readable
from rowbus.database.postgresql.roundtrip import UNKNOWN_PLAN, Roundtrips
from rowbus.database.statements import Statement, control, load, no_answer, no_rows
from rowbus.errors import ConfigurationError, ConnectionLostError, StorageError
from rowbus.errors.strangers import sqlstate_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Sequence

    from rowbus.database.postgresql.roundtrip import Answer
    from rowbus.database.statements import Query, Row
    from rowbus.errors import RowbusError


T = TypeVar("T")

_IN_TRANSACTION = frozenset({TransactionStatus.INTRANS, TransactionStatus.INERROR})
_TIME_TO_FAIL = 1.0
"""Seconds that a statement gets to fail when its connection is closed."""

BLOCK_SIZE = 2**20
"""Bytes and characters of one COPY, about."""

_SET = control(b"savepoint rowbus_undoable", "Failed to set a savepoint")
_UNDO = control(b"rollback to savepoint rowbus_undoable", "Failed to undo what failed")

_BEGIN = control(b"begin transaction isolation level read committed read only", "Could not begin to read")
_END = control(b"commit", "Could not end reading")


def look_up_in_catalog() -> Statement[None]:
    """Have every unqualified name of this session mean what pg_catalog says."""
    query = load(
        "database/sql/postgresql/look_up_in_catalog.sql",
        failing="Failed to set the search path",
        prepare=False,
    )
    return Statement(query, {}, no_rows)


def bound_sends(*, in_transaction: bool) -> Statement[None]:
    """Bound how long what sends waits for a lock: from here on in this transaction, or in the session."""
    query = load("database/sql/postgresql/bound_sends.sql", failing="Failed to bound the time of sends")
    return Statement(query, {"in_transaction": in_transaction}, no_rows)


class AsyncSession:
    """Run statements on an asynchronous psycopg connection."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], *, keep_plans: bool = False) -> None:
        """Use the connection as it is, in the transaction it is in; closing it remains the owner's business.

        `keep_plans` is for the connection's only session: a second one would give its plans the same names.
        """
        self.connection = connection
        kind = ASYNC_CURSORS[not connection.closed and connection.pgconn.parameter_status(ENCODING) == ASCII]
        self._cursor = kind(connection, row_factory=tuple_row)
        self._cursor.format = psycopg.pq.Format.BINARY
        self._roundtrips = Roundtrips(
            connection, prepare=keep_plans and connection.prepare_threshold is not None
        )

    async def run(
        self,
        statement: Statement[T],
        *,
        within: float | None = None,
        then: Callable[[T], Sequence[Statement[object]]] | None = None,
    ) -> T:
        """Run one statement and decode its answer; raises a `RowbusError` naming what failed.

        After so many seconds the connection is given up, and its end is the error. Not by a cancellation: psycopg would
        first wait for the server to answer that.
        """
        with self._answered_within(within, statement.query) if within is not None else nullcontext():
            return await (self._run(statement) if then is None else self._run_then(statement, then))

    async def _run(self, statement: Statement[T]) -> T:
        query = statement.query
        cursor = self._cursor
        _refuse_pipeline(self.connection, statement)
        try:
            await cursor.execute(
                query.native, [statement.parameters[name] for name in query.names], prepare=query.prepare
            )
            rows = await cursor.fetchall() if cursor.rownumber is not None else ()
        except FAULTS as error:
            if sqlstate_of(error) == UNKNOWN_PLAN:
                forget_plans(self.connection)
            raise translate(error, query, connection=self.connection) from error
        return statement.decode(rows, cursor.rowcount)

    async def _run_then(
        self, question: Statement[T], following: Callable[[T], Sequence[Statement[object]]]
    ) -> T:
        async with self.transaction():
            answer = await self._run(question)
            await self.run_all(following(answer))
        return answer

    @contextmanager
    def _answered_within(self, seconds: float, query: Query) -> Generator[None]:
        giving_up = asyncio.get_running_loop().call_later(seconds, self._give_up)
        try:
            yield
        except ConnectionLostError as error:
            if giving_up.cancelled() or giving_up.when() > asyncio.get_running_loop().time():
                raise
            raise no_answer(query, seconds) from error
        finally:
            giving_up.cancel()

    def _give_up(self) -> None:
        with suppress(psycopg.Error, OSError):
            shut_down(self.connection.pgconn.socket)

    async def run_all(self, statements: Sequence[Statement[object]], *, atomic: bool = False) -> None:
        """Run several statements, answers unread, in one round trip where libpq can pipeline."""
        if atomic:
            await (self._run_or_undo if self._is_in_transaction else self._commit)(statements)
        elif len(statements) == 1:
            await self.run(statements[0])
        elif statements:
            await self._exchange(statements)

    async def _commit(self, statements: Sequence[Statement[object]]) -> None:
        """Run statements in a transaction of their own, in one round trip.

        What is sent together, without a BEGIN, is one transaction to the server, which commits it before it answers. If
        a plan is gone, deallocated by the driver after a rollback perhaps, nothing was done and the plans are known.
        """
        try:
            await self._send_all(statements)
        except StorageError as error:
            if error.sqlstate != UNKNOWN_PLAN:
                raise
            await self._send_all(statements)

    async def _send_all(self, statements: Sequence[Statement[object]]) -> None:
        """Run statements that send: a lock that was not to be had in time is an outage."""
        try:
            answers = await self._roundtrips.run(statements)
        except psycopg.Error as error:
            raise translate_send(error, statements[0].query, connection=self.connection) from error
        raise_first_failure(self.connection, statements, answers, translate_send)

    async def _run_or_undo(self, statements: Sequence[Statement[object]]) -> None:
        """Run statements in one round trip; if one fails undo them, leaving the transaction usable."""
        try:
            await self._send_all([_SET, *statements])
        except Exception:
            if not self.closed:
                await self._exchange([_UNDO])  # the driver would deallocate all plans, not its own alone
            raise

    @property
    def _is_in_transaction(self) -> bool:
        return self.connection.pgconn.transaction_status in _IN_TRANSACTION

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
        """Run statements in one round trip and decode their answers; `each`: those after a failure in another."""
        answers: list[Any] = []
        while left := statements[len(answers) :]:
            with self._answered_within(within, left[0].query) if within is not None else nullcontext():
                answers += await (self._run_until_failure if each else self._run_unless_failing)(left)
        return answers

    async def _run_unless_failing(self, statements: Sequence[Statement[T]]) -> list[T]:
        answers = await self._exchange(statements)
        return [answer.read(statement) for statement, answer in zip(statements, answers, strict=True)]

    async def _run_until_failure(self, statements: Sequence[Statement[T]]) -> list[T | RowbusError]:
        answers: list[T | RowbusError] = []
        for statement, answer in zip(statements, await self._ask(statements), strict=True):
            if not answer.succeeded:
                return [*answers, translate(answer.error, statement.query, connection=self.connection)]
            answers.append(answer.read(statement))
        return answers

    async def _exchange(self, statements: Sequence[Statement[object]]) -> list[Answer]:
        """Run statements in one round trip and return their answers; raises for the first that failed."""
        answers = await self._ask(statements)
        raise_first_failure(self.connection, statements, answers)
        return answers

    async def _ask(self, statements: Sequence[Statement[object]]) -> list[Answer]:
        """Run statements in one round trip and return their answers, also of those that failed."""
        try:
            return await self._roundtrips.run(statements)
        except psycopg.Error as error:
            raise translate(error, statements[0].query, connection=self.connection) from error

    async def copy(self, query: Query, rows: Iterable[Row]) -> None:
        """Stream rows into the query's `copy … from stdin`; all or nothing."""
        try:
            async with self._cursor.copy(query.native) as copy:
                for row in rows:
                    await copy.write_row(row)
        except psycopg.Error as error:
            raise translate(error, query, connection=self.connection) from error

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """Make what runs inside one transaction; within the caller's transaction, a savepoint.

        Outside autocommit mode the first statement begins a transaction that the caller is to end, so nothing is
        committed here.
        """
        try:
            async with nullcontext() if _begins_by_itself(self.connection) else self.connection.transaction():
                yield
        except psycopg.Error as error:
            raise translate(error, connection=self.connection) from error
        except BaseException:
            self._roundtrips.doubt_plans()  # which the driver deallocates with its own when it rolls back
            raise

    async def notified(self, timeout: float) -> bool:  # noqa: ASYNC109 - the wait is the point
        """Wait up to `timeout` seconds for a notification; say whether one came. Raises ConnectionLostError."""
        return bool(await self.heard(timeout))

    async def _read_notifications(self) -> set[str]:
        """Return the channels of notifications that are there to be read: all of them, or none if this is cancelled."""
        # To its end: left early, the driver's generator would drop what comes until it is collected.
        return {heard.channel async for heard in self.connection.notifies(timeout=0, stop_after=1)}

    async def heard(self, seconds: float) -> set[str]:
        """Wait up to so many seconds for notifications; return their channels. Raises ConnectionLostError."""
        pgconn, until = self.connection.pgconn, asyncio.get_running_loop().time() + seconds
        try:
            while not (come := _come(self.connection) or await self._read_notifications()):
                if not await readable(pgconn, until):
                    break
        except psycopg.Error as error:
            raise translate(error, connection=self.connection) from error
        return come

    def has_ended(self) -> bool:
        """Say whether the server has sent something unasked: its end, as a rule, and seldom a changed parameter."""
        return self.closed or has_come(self.connection.pgconn)

    @property
    def is_idle(self) -> bool:
        """Whether the connection works and is in no transaction."""
        pgconn = self.connection.pgconn
        return (
            pgconn.transaction_status == TransactionStatus.IDLE  # also false when the connection is closed
            and pgconn.pipeline_status == PipelineStatus.OFF
        )

    @property
    def closed(self) -> bool:
        """Whether the connection is closed or broken."""
        return self.connection.closed

    async def close(self) -> None:
        """Close the connection after its running statement has failed; harmless when it is closed or broken.

        It is closed also if the caller is cancelled meanwhile.
        """
        if self.connection.lock.locked():
            self._give_up()
            await asyncio.shield(self._close_when_failed())
        else:
            await close(self.connection)

    async def _close_when_failed(self) -> None:
        """Wait until what runs on the connection has failed, as its traffic has ended; then close it.

        Closing frees memory of libpq's that a running statement still reads. A stream that was left half read holds the
        driver's lock without running: it delays the close by a second at most.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_TIME_TO_FAIL), self.connection.lock:
                pass
        await close(self.connection)


def raise_first_failure(
    connection: psycopg.BaseConnection[Any],
    statements: Sequence[Statement[object]],
    answers: Sequence[Answer],
    fault: Callable[..., RowbusError] = translate,
) -> None:
    """Raise our error for the first statement that failed; those after it did not run."""
    for statement, answer in zip(statements, answers, strict=True):
        if not answer.succeeded:
            error = answer.error
            raise fault(error, statement.query, connection=connection) from error


class Session:
    """Run statements on a synchronous psycopg connection; the twin of `AsyncSession`, verb for verb."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        """Use the connection as it is, in the transaction it is in; closing it remains the owner's business."""
        self.connection = connection
        kind = CURSORS[not connection.closed and connection.pgconn.parameter_status(ENCODING) == ASCII]
        self._cursor = kind(connection, row_factory=tuple_row)
        self._cursor.format = psycopg.pq.Format.BINARY

    def run(
        self, statement: Statement[T], *, then: Callable[[T], Sequence[Statement[object]]] | None = None
    ) -> T:
        """Run one statement and decode its answer; raises a `RowbusError` naming what failed.

        What follows takes two round trips in the caller's transaction, which may also be one that the first statement
        begins, outside autocommit mode.
        """
        if then is not None:
            return self._run_then(statement, then)
        query = statement.query
        cursor = self._cursor
        _refuse_pipeline(self.connection, statement)
        try:
            cursor.execute(
                query.native, [statement.parameters[name] for name in query.names], prepare=query.prepare
            )
            rows = cursor.fetchall() if cursor.rownumber is not None else ()
        except FAULTS as error:
            raise translate(error, query, connection=self.connection) from error
        return statement.decode(rows, cursor.rowcount)

    def _run_then(self, question: Statement[T], following: Callable[[T], Sequence[Statement[object]]]) -> T:
        if is_callers(self.connection):
            return run_then(self.connection, question, following)
        with self.transaction():
            answer = self.run(question)
            self.run_all(following(answer))
        return answer

    def run_all(self, statements: Sequence[Statement[object]]) -> None:
        """Run several statements, answers unread, in one round trip where libpq can pipeline."""
        if len(statements) > 1 and psycopg.Pipeline.is_supported():
            run_pipelined(self.connection, statements)
            return
        for statement in statements:
            self.run(statement)

    def copy(self, query: Query, rows: Iterable[Row]) -> None:
        """Stream rows into the query's `copy … from stdin`, in a transaction, which is to be rolled back if this fails.

        What gives the rows may use the connection.
        """
        for block in _blocks(rows):
            try:
                with self._cursor.copy(query.native) as copy:
                    for row in block:
                        copy.write_row(row)
            except psycopg.Error as error:
                raise translate(error, query, connection=self.connection) from error

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Make what runs inside one transaction; see `AsyncSession.transaction`."""
        begins_by_itself = _begins_by_itself(self.connection)
        try:
            with nullcontext() if begins_by_itself else self.connection.transaction():
                yield
        except BaseException as error:
            if begins_by_itself and self.connection.info.transaction_status == TransactionStatus.INTRANS:
                self.connection.rollback()  # it could be committed
            if isinstance(error, psycopg.Error):
                raise translate(error, connection=self.connection) from error
            raise

    def notified(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a notification; say whether one came. Raises ConnectionLostError."""
        try:
            return bool(list(self.connection.notifies(timeout=timeout, stop_after=1)))
        except psycopg.Error as error:
            raise translate(error, connection=self.connection) from error

    def close(self) -> None:
        """Close the connection; harmless when it is closed or broken."""
        self.connection.close()


async def close(connection: psycopg.AsyncConnection[Any]) -> None:
    """Close a connection that is ours, also one whose own verb refuses that to handlers."""
    await psycopg.AsyncConnection.close(connection)


def shut_down(descriptor: int) -> None:
    """End a connection's traffic in both directions; its descriptor stays open."""
    with socket.socket(fileno=os.dup(descriptor)) as same:
        same.shutdown(socket.SHUT_RDWR)


def _come(connection: psycopg.AsyncConnection[Any]) -> set[str]:
    """Return the channels of notifications that came with the answers of a round trip: the driver waits past them.

    Who waits for anything before they are handed on loses them if that is cancelled.
    """
    come = set[str]()
    while not connection.closed and (notification := connection.pgconn.notifies()) is not None:
        come.add(notification.relname.decode())
    return come


def _refuse_pipeline(
    connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], statement: Statement[object]
) -> None:
    """Raise ConfigurationError for a question in a pipeline of the user's, in which no answer comes before its end."""
    if statement.decode is not no_rows and connection.pgconn.pipeline_status != PipelineStatus.OFF:
        raise ConfigurationError(
            f"{statement.query.failing}: the connection is in a pipeline, in which no answer comes before its end. Do "
            "this before or after `with connection.pipeline()`; single sends can be in it."
        )


def _begins_by_itself(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return not connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE


def _blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Give rows in blocks: what gives them may run statements on the connection, which waits during a COPY."""
    size, block = 0, list["Row"]()
    for row in rows:
        block.append(row)
        for value in row:
            if type(value) is bytes or type(value) is str:
                size += len(value)
        if size >= BLOCK_SIZE:
            yield block
            size, block = 0, []
    if block:
        yield block


class ReadSession(AsyncSession):
    """A session in autocommit mode that reads through a server-side cursor, one at a time."""

    async def open(self, opening: Statement[object], fetch: Statement[T]) -> T:
        """Begin, open a cursor and fetch from it, in one round trip; the transaction stays open."""
        answers = await self._exchange((_BEGIN, opening, fetch))
        return answers[-1].read(fetch)

    async def fetch(self, fetch: Statement[T]) -> T:
        """Fetch on."""
        (answer,) = await self._exchange((fetch,))
        return answer.read(fetch)

    async def end(self) -> None:
        """End the transaction and with it the cursor; harmless outside one. Closes a connection that cannot."""
        pgconn = self.connection.pgconn
        if self.connection.closed or pgconn.transaction_status == TransactionStatus.IDLE:
            return
        try:
            if pgconn.pipeline_status != PipelineStatus.OFF:  # interrupted in a round trip
                await self.close()
            else:
                await self._exchange((_END,))
        except StorageError:
            await self.close()
