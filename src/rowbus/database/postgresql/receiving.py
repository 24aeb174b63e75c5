"""The transaction a message is received in, and the connection its handler gets.

One receiving slot owns one `ReceiveSession`. Committing what was handled and receiving what comes next travel in one
round trip (`commit_and_begin`), which is what makes single-message transactions fast. A savepoint is set only when a
handler first touches its connection, so handlers that do not pay nothing for it.

Invariant: between `begin` and `commit` the transaction is ours alone; the handler cannot end it, and after
`undo_attempt` nothing the handler did through its connection remains.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from rowbus.database.postgresql.connection import AsyncSession
from rowbus.database.postgresql.faults import translate
from rowbus.database.statements import Query, Row, Statement, no_rows
from rowbus.errors import HandlerError, StorageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence
    from typing import LiteralString, Self

    from psycopg.abc import Params
    from psycopg.abc import Query as DriverQuery
    from psycopg.copy import AsyncWriter

T = TypeVar("T")

_BEGIN = Statement(
    Query(b"begin transaction isolation level read committed", "Could not begin a transaction"), {}, no_rows
)
_COMMIT = Statement(Query(b"commit", "Could not commit"), {}, no_rows)
_CHECK_CONSTRAINTS = Statement(
    Query(b"set constraints all immediate", "A deferred constraint failed"), {}, no_rows
)
_SAVEPOINT = b"savepoint rowbus_message"
_SAVEPOINT_FOR_SENDS = Statement(Query(_SAVEPOINT, "Could not set a savepoint"), {}, no_rows)
_RELEASE = b"release savepoint rowbus_message"
_UNDO = b"rollback to savepoint rowbus_message"


def _forbidden(verb: str) -> NoReturn:
    raise HandlerError(
        f"A handler may not {verb} its connection: the transaction also holds the received message. "
        f"Return to commit, raise to roll back."
    )


class HandlerCursor(psycopg.AsyncCursor[TupleRow]):
    """A cursor that has the message's savepoint set before its first statement."""

    async def execute(
        self,
        query: DriverQuery,
        params: Params | None = None,
        *,
        prepare: bool | None = None,
        binary: bool | None = None,
    ) -> Self:
        """Set the savepoint if it is not yet set, then execute."""
        await _owner(self).protect()
        await super().execute(cast("LiteralString", query), params, prepare=prepare, binary=binary)
        return self

    async def executemany(
        self, query: DriverQuery, params_seq: Iterable[Params], *, returning: bool = False
    ) -> None:
        """Set the savepoint if it is not yet set, then execute many."""
        await _owner(self).protect()
        await super().executemany(query, params_seq, returning=returning)

    async def stream(
        self, query: DriverQuery, params: Params | None = None, *, binary: bool | None = None, size: int = 1
    ) -> AsyncGenerator[TupleRow]:
        """Set the savepoint if it is not yet set, then stream."""
        await _owner(self).protect()
        async for row in super().stream(query, params, binary=binary, size=size):
            yield row

    @asynccontextmanager
    async def copy(
        self, statement: DriverQuery, params: Params | None = None, *, writer: AsyncWriter | None = None
    ) -> AsyncGenerator[psycopg.AsyncCopy]:
        """Set the savepoint if it is not yet set, then copy."""
        await _owner(self).protect()
        async with super().copy(statement, params, writer=writer) as copy:
            yield copy


class HandlerServerCursor(psycopg.AsyncServerCursor[TupleRow]):
    """A named cursor that has the message's savepoint set before it is declared."""

    async def execute(
        self,
        query: DriverQuery,
        params: Params | None = None,
        *,
        binary: bool | None = None,
        **unused: object,
    ) -> Self:
        """Set the savepoint if it is not yet set, then declare the cursor."""
        await _owner(self).protect()
        await super().execute(cast("LiteralString", query), params, binary=binary, **unused)
        return self


class HandlerConnection(psycopg.AsyncConnection[TupleRow]):
    """The connection a handler works on: psycopg's, less the verbs that would end the transaction."""

    attempt_open = False
    touched = False
    savepoint_set = False

    async def protect(self) -> None:
        """Set the message's savepoint, once, before the attempt's first statement."""
        if not self.attempt_open or self.touched:
            return
        self.touched = True
        if self.savepoint_set:
            await self._control(_RELEASE)
        await self._control(_SAVEPOINT)
        self.savepoint_set = True

    @asynccontextmanager
    async def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - psycopg's signature
    ) -> AsyncGenerator[psycopg.AsyncTransaction]:
        """Open a nested transaction (a savepoint), inside the message's."""
        await self.protect()
        async with super().transaction(savepoint_name, force_rollback) as transaction:
            yield transaction

    async def commit(self) -> None:
        """Refuse: the receiver commits."""
        _forbidden("commit")

    async def rollback(self) -> None:
        """Refuse: raise in the handler to roll back."""
        _forbidden("roll back")

    async def _control(self, command: bytes) -> None:
        await psycopg.AsyncCursor(self).execute(command)


class SyncHandlerConnection(psycopg.Connection[TupleRow]):
    """The same server connection for a handler in a thread, less the verbs that would end the transaction."""

    def commit(self) -> None:
        """Refuse: the receiver commits."""
        _forbidden("commit")

    def rollback(self) -> None:
        """Refuse: raise in the handler to roll back."""
        _forbidden("roll back")

    def close(self) -> None:
        """Refuse: the connection is the receiver's."""
        _forbidden("close")


def _owner(cursor: HandlerCursor | HandlerServerCursor) -> HandlerConnection:
    connection = cursor.connection
    assert isinstance(connection, HandlerConnection)  # noqa: S101 - only HandlerConnection makes these cursors
    return connection


class ReceiveSession(AsyncSession):
    """The connection of one receiving slot and the receive transaction on it."""

    connection: HandlerConnection

    def __init__(self, connection: HandlerConnection) -> None:
        """Use a connection in autocommit mode; transactions are begun and ended by the verbs below."""
        super().__init__(connection)
        connection.cursor_factory = HandlerCursor
        connection.server_cursor_factory = HandlerServerCursor
        self._sync = SyncHandlerConnection(connection.pgconn, row_factory=tuple_row)
        self._sync.autocommit = True
        self._sync.prepare_threshold = None  # both views would give prepared statements the same names
        self._commit_cursor = self._new_cursor()
        self.committed = False

    @property
    def handler_connection(self) -> HandlerConnection:
        """What an `async def` handler works on."""
        return self.connection

    @property
    def sync_handler_connection(self) -> SyncHandlerConnection:
        """What a `def` handler works on, in its thread, while nothing else uses this session."""
        return self._sync

    async def begin(self, receive: Statement[T]) -> T:
        """Begin a transaction and receive in it, in one round trip."""
        return cast("T", await self._exchange(_BEGIN, receive))

    async def commit(self, last: Sequence[Statement[object]] = ()) -> None:
        """Run the last statements and commit; `committed` says whether that happened, also after an error."""
        await self._finish(last)
        self._check_committed()

    async def commit_and_begin(self, last: Sequence[Statement[object]], receive: Statement[T]) -> T:
        """Run the last statements, commit, begin anew and receive, in one round trip.

        After an error `committed` tells the two halves apart: false, and this transaction is lost; true, and only
        the next receive failed.
        """
        answer = await self._finish(last, _BEGIN, receive)
        self._check_committed()
        return cast("T", answer)

    async def _finish(self, last: Sequence[Statement[object]], *after: Statement[object]) -> object:
        """Run the last statements and commit, and what comes after in the same round trip.

        Deferred constraints are checked while the savepoint still stands, so that their failure, like that of a send,
        is a failure of this attempt and not of the whole transaction.
        """
        self.committed = False
        self._commit_cursor = self._new_cursor()
        try:
            return await self._exchange(*self._before_commit(last), _COMMIT, *after)
        finally:
            self.committed = self._commit_cursor.statusmessage == "COMMIT"
            if self.committed:
                self._close_attempt()

    def _before_commit(self, last: Sequence[Statement[object]]) -> Sequence[Statement[object]]:
        connection = self.connection
        if connection.touched:
            return (*last, _CHECK_CONSTRAINTS)
        if last and connection.attempt_open:
            connection.touched = connection.savepoint_set = True
            return (_SAVEPOINT_FOR_SENDS, *last)
        return last

    async def undo_completion(self) -> bool:
        """After a failed completion: undo the attempt and keep the message, if the transaction still can."""
        connection = self.connection
        if connection.closed or self.committed:
            return False
        if connection.pgconn.transaction_status == TransactionStatus.IDLE:
            return not connection.attempt_open  # mode NONE has nothing to undo; else the transaction is gone
        await self.undo_attempt()
        return True

    @property
    def closed(self) -> bool:
        """Whether the connection is closed or broken."""
        return self.connection.closed

    async def rollback(self) -> None:
        """Put what was received back; harmless outside a transaction. Closes a connection that cannot."""
        self._close_attempt()
        if self.connection.closed or self.connection.pgconn.transaction_status == TransactionStatus.IDLE:
            return
        try:
            await self._new_cursor().execute(b"rollback")
        except psycopg.Error:
            await self.connection.close()

    def start_attempt(self) -> None:
        """From here on, what a handler does through its connection can be undone."""
        self.connection.attempt_open = True
        self.connection.touched = False

    async def protect(self) -> None:
        """Set the savepoint now, for handlers that cannot do so lazily (those in threads)."""
        try:
            await self.connection.protect()
        except psycopg.Error as error:
            raise translate(error) from error

    async def undo_attempt(self) -> None:
        """Undo what the handler did through its connection; raises when the transaction cannot be kept."""
        connection = self.connection
        try:
            if connection.touched:
                await self._new_cursor().execute(_UNDO)
        except psycopg.Error as error:
            raise translate(error) from error
        self.start_attempt()

    def ensure_usable(self) -> None:
        """Raise HandlerError if the handler swallowed a database error that spoilt the transaction."""
        if self.connection.pgconn.transaction_status == TransactionStatus.INERROR:
            raise HandlerError(
                "The handler caught a database error and went on, but the error spoilt its transaction. "
                "Put the statement that may fail inside `async with context.connection.transaction():`."
            )

    def _cursor_for(self, statement: Statement[object]) -> psycopg.AsyncCursor[Row]:
        return self._commit_cursor if statement is _COMMIT else self._new_cursor()

    def _check_committed(self) -> None:
        """Raise if the server answered the commit with a rollback, as it does for a spoilt transaction."""
        if not self.committed:
            raise StorageError(
                "The server rolled the transaction back instead of committing it.",
                sqlstate="25P02",
                transient=False,
            )

    def _close_attempt(self) -> None:
        connection = self.connection
        connection.attempt_open = connection.touched = connection.savepoint_set = False
