"""The transaction a message is received in.

One receiving slot owns one `ReceiveSession`. Committing what was handled and receiving what comes next travel in one
round trip (`commit_and_begin`), which is what makes single-message transactions fast.

Invariant: between `begin` and `commit` the transaction is ours alone; the handler cannot end it, and after
`undo_attempt` nothing the handler did through its connection remains.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus

from rowbus.database.postgresql.cause import NOTHING
from rowbus.database.postgresql.connection import AsyncSession, bound_sends, raise_first_failure, shut_down
from rowbus.database.postgresql.faults import last_words, translate, translate_send
from rowbus.database.postgresql.handler_connection import SAVEPOINT, UNDO, SyncHandlerConnection
from rowbus.database.statements import control
from rowbus.errors import HandlerError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.database.postgresql.handler_connection import HandlerConnection
    from rowbus.database.postgresql.roundtrip import Answer
    from rowbus.database.statements import Statement
    from rowbus.running.scope import Scope

T = TypeVar("T")

PATIENCE_WITH_CANCEL = 0.5  # seconds that an abandoned statement's cancellation may take

_NO_SAVEPOINT = {"3B001", "25P01"}  # the latter outside of any transaction

_BEGIN = control(b"begin transaction isolation level read committed", "Could not begin a transaction")
_COMMIT = control(b"commit", "Could not commit")
_CHECK_CONSTRAINTS = control(b"set constraints all immediate", "A deferred constraint failed")
_ROLLBACK = control(b"rollback", "Could not roll back")
_BOUND = bound_sends(in_transaction=True)  # not of the session: handlers wait as long as they like


class ReceiveSession(AsyncSession):
    """The connection of one receiving slot and the receive transaction on it."""

    connection: HandlerConnection
    is_stained = False
    """Whether a handler has changed what outlives its transaction, and is not put back: never."""

    def __init__(self, connection: HandlerConnection) -> None:
        """Use a connection in autocommit mode; transactions are begun and ended by the verbs below."""
        super().__init__(connection, keep_plans=True)
        connection.roundtrips = self._roundtrips
        self._sync = SyncHandlerConnection.of(connection)
        self.committed = False
        self._is_abandoned = False
        self._last_words: psycopg.Error | None = None
        connection.add_notice_handler(self._hear)
        self._views = [(view, view.ways) for view in (connection, self._sync)]
        self._are_views_restored = True
        self._close_attempt()

    @property
    def closed(self) -> bool:
        """Whether the connection is closed or broken, or was abandoned."""
        return self._is_abandoned or self.connection.closed

    async def close(self) -> None:
        """Close the connection; harmless when it is closed, broken or abandoned."""
        if not self._is_abandoned:
            await super().close()

    @property
    def handler_connection(self) -> HandlerConnection:
        """The connection that an `async def` handler works on."""
        self._restore_views()
        return self.connection

    @property
    def sync_handler_connection(self) -> SyncHandlerConnection:
        """The connection that a `def` handler works on, in its thread, while nothing else uses this session."""
        self._restore_views()
        return self._sync

    def _restore_views(self) -> None:
        """Put back what earlier handlers set of the connection (a row factory, an adapter), once a call.

        An ORM's own on it stay.
        """
        if not self._are_views_restored:
            self._are_views_restored = True
            for view, ways in self._views:
                view.restore(ways, adapts=view.orm is None)

    def keep_locks(self, take: Statement[object], keep: Sequence[Statement[object]] = ()) -> None:
        """Have the session take locks of its own again where a handler may have left some, and all are released.

        `keep` keeps them from others meanwhile, to the end of the transaction.
        """
        self.connection.locks, self.connection.kept = (take,), keep

    async def begin(self, receive: Statement[T]) -> T:
        """Begin a transaction and receive in it, in one round trip."""
        answers = await self._exchange((_BEGIN, receive))
        return answers[-1].read(receive)

    async def commit(self, last: Sequence[Statement[object]] = ()) -> None:
        """Run the last statements and commit; `committed` says whether that happened, also after an error."""
        await self._finish(last)

    async def _commit(self, statements: Sequence[Statement[object]]) -> None:
        """Send in a transaction of its own, bounded in time, which the session's other statements are not."""
        await super()._commit((_BOUND, *statements))

    async def commit_and_begin(self, last: Sequence[Statement[object]], receive: Statement[T]) -> T:
        """Run the last statements, commit, begin anew and receive, in one round trip.

        After an error `committed` tells the two halves apart: false, and this transaction is lost; true, and only
        the next receive failed.
        """
        return (await self._finish(last, _BEGIN, receive)).read(receive)

    async def _finish(self, last: Sequence[Statement[object]], *after: Statement[object]) -> Answer:
        """Run the last statements and commit, and what comes after, in one round trip; return the last answer.

        Deferred constraints are checked while the savepoint still stands, so that their failure, like that of a send,
        is a failure of this attempt and not of the whole transaction; and while the message is still locked, so that
        the failure is counted before another receiver can have the message. Raises, too, if the server answers the
        commit with a rollback, as it does for a spoilt transaction.
        """
        self.committed = False
        before = self._before_commit(last)
        checks = len(before) - len(last)
        statements = (*before, _COMMIT, *after)
        try:
            answers = await self._roundtrips.run(statements)
        except psycopg.Error as error:
            raise translate(error, _COMMIT.query, connection=self.connection) from error
        self.committed = answers[len(before)].tag == b"COMMIT"
        if self.committed:
            self._close_attempt()
        if not answers[-1].succeeded:  # nor is any that comes after a failure
            raise_first_failure(self.connection, statements[:checks], answers[:checks])
            raise_first_failure(self.connection, last, answers[checks : len(before)], translate_send)
            raise_first_failure(self.connection, statements, answers)
        if not self.committed:
            raise StorageError(
                "The server rolled the transaction back instead of committing it.",
                sqlstate="25P02",
                transient=False,
            )
        return answers[-1]

    def _before_commit(self, last: Sequence[Statement[object]]) -> Sequence[Statement[object]]:
        connection = self.connection
        check = (_CHECK_CONSTRAINTS, *connection.own_settings) if connection.own_settings else ()
        if not last:
            return check
        if connection.has_cause and not check:  # what leaves is of all messages of a batch
            check = (NOTHING,)
        if connection.touched or not connection.attempt_open:
            return (*check, _BOUND, *last)
        connection.touched = connection.savepoint_set = True
        return (*check, SAVEPOINT, _BOUND, *last)

    async def undo_completion(self) -> bool:
        """After a failed completion: undo the attempt and keep the message, if the transaction still can."""
        connection = self.connection
        if connection.closed or self.committed:
            return False
        if connection.pgconn.transaction_status == TransactionStatus.IDLE:
            return not connection.attempt_open  # mode NONE has nothing to undo; else the transaction is gone
        return await self.undo_attempt()

    async def rollback(self) -> None:
        """Put what was received back; harmless outside a transaction. Closes a connection that cannot."""
        settings, pgconn = self.connection.own_settings, self.connection.pgconn
        self._close_attempt()
        is_over = pgconn.transaction_status == TransactionStatus.IDLE  # a handler may have ended it
        statements = settings if is_over else (_ROLLBACK, *settings)
        if self.closed or not statements:
            return
        try:
            if pgconn.pipeline_status != PipelineStatus.OFF:  # interrupted in a round trip
                await super().close()
            else:
                await self._exchange(statements)
        except StorageError:
            await super().close()

    async def renew(self) -> None:
        """Put the settings back that a handler may have changed; in autocommit mode, where no commit does so."""
        settings = self.connection.own_settings
        self.connection.own_settings = self.connection.clearing = ()
        if settings and not self.closed:
            await self._exchange(settings)

    async def abandon(self) -> None:
        """Give the connection up while a handler's thread still uses it: the server rolls the transaction back.

        Its socket is shut down, not closed: then neither the thread nor the driver works on freed memory, or on another
        connection that has got the same number. A statement in progress is cancelled before, for the server would
        notice only at its end. Waits for `PATIENCE_WITH_CANCEL` seconds at most.
        """
        self._is_abandoned = True
        try:
            with suppress(
                Exception
            ):  # the driver may have the loop watch a socket that is closed already: ValueError
                await self.connection.cancel_safe(timeout=PATIENCE_WITH_CANCEL)
        finally:
            with suppress(psycopg.Error, OSError):
                shut_down(self.connection.pgconn.socket)

    def discard(self) -> None:
        """Close the connection that was abandoned; called in the thread that used it, at its end."""
        self.connection.pgconn.finish()

    async def give_up(self) -> None:
        """Abandon the connection, and close it when a statement that still runs on it has failed.

        The server may take its time to cancel that, or not do it at all. What was left half read is not waited for.
        """
        await self.abandon()
        if self.connection.waits:
            await self._close_when_failed()
        self.discard()  # not `close`, which a handler in its call may not

    def admit(self, scope: Scope) -> None:
        """Let the code of one call use the handler's connection, and that of earlier ones no more.

        What those set of it (a row factory, an adapter) it does not meet.
        """
        self.connection.scope = scope
        self._are_views_restored = False

    def start_attempt(self) -> None:
        """From here on, what a handler does through its connection can be undone."""
        self.connection.attempt_open = True
        self.connection.touched = False
        self.connection.caused_by = None

    @property
    def is_untouched(self) -> bool:
        """Whether nothing has used the connection since `admit`."""
        return not (self._are_views_restored or self.connection.touched)

    @property
    def is_occupied(self) -> bool:
        """Whether a handler that has ended left the connection in the midst of something, or in somebody's hands."""
        connection = self.connection
        return (
            bool(connection.own_settings)
            and not self.closed
            and (
                connection.lock.locked() or self._sync.lock.locked() or self.is_busy or connection.blocks > 0
            )
        )

    @property
    def is_busy(self) -> bool:
        """Whether a handler streams, copies or pipelines just now."""
        pgconn = self.connection.pgconn
        return (
            pgconn.transaction_status == TransactionStatus.ACTIVE
            or pgconn.pipeline_status != PipelineStatus.OFF
        )

    async def run(
        self,
        statement: Statement[T],
        *,
        within: float | None = None,
        then: Callable[[T], Sequence[Statement[object]]] | None = None,
        undoable: bool = False,
    ) -> T:
        """Run one statement; `undoable`: with the attempt, in one round trip with the savepoint it may need."""
        if not undoable:
            return await super().run(statement, within=within, then=then)
        answers = await self._exchange((*self.connection.before_attempt(), statement))
        return answers[-1].read(statement)

    async def undo_attempt(self) -> bool:
        """Undo what the handler did through its connection; false when that cannot be done, for want of a savepoint.

        Where the savepoint is gone, the handler has ended our transaction, and another that it began is rolled back.
        """
        if self.connection.touched:
            try:
                await self._exchange((UNDO,))
            except StorageError as error:
                if error.sqlstate not in _NO_SAVEPOINT:
                    raise
                await self._exchange((_ROLLBACK,))
                return False
        elif self.connection.pgconn.transaction_status == TransactionStatus.INERROR:
            return False
        self.start_attempt()
        return True

    @property
    def ended(self) -> bool:
        """Whether there is no transaction: after `begin` that means that a handler ended it behind our back."""
        return self.connection.pgconn.transaction_status == TransactionStatus.IDLE

    def reason(self, error: BaseException) -> BaseException:
        """Return what the server said when it ended the connection, if this error does not tell; else the error."""
        if self._last_words is None or getattr(error, "sqlstate", None) is not None:
            return error
        self._last_words.__cause__ = error
        return self._last_words

    def _hear(self, notice: psycopg.errors.Diagnostic) -> None:
        self._last_words = last_words(notice) or self._last_words

    def ensure_usable(self) -> None:
        """Raise HandlerError if the handler swallowed a database error that spoilt the transaction."""
        if self.connection.pgconn.transaction_status == TransactionStatus.INERROR:
            raise HandlerError(
                "The handler caught a database error and went on, but the error spoilt its transaction. "
                "Put the statement that may fail inside `async with context.connection.transaction():`."
            )

    def _close_attempt(self) -> None:
        connection = self.connection
        connection.own_settings = connection.clearing = ()
        connection.attempt_open = connection.touched = connection.savepoint_set = False
        connection.has_cause, connection.caused_by = False, None
