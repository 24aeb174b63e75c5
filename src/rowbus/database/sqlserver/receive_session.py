"""The transaction a message is received in.

`MessageTransaction` is what happens on the connection, in the slot's thread; `ReceiveSession` is its asynchronous face,
each verb one call in that thread. After some errors the server keeps no transaction: the attempt failed as a whole, the
message is back in its queue, and another slot may have it before this one has said so.

Invariant: between `begin` and `commit` the transaction is ours alone; a handler that ended it is found out before
anything is sent, and after `undo_attempt` nothing the handler did through its connection remains.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rowbus.database.sqlserver.async_session import AsyncHandlerConnection, AsyncSession
from rowbus.database.sqlserver.connection import Session
from rowbus.database.sqlserver.faults import DOOMED, WAITED_FOR_LOCK
from rowbus.database.sqlserver.handler_connection import HandlerConnection
from rowbus.database.sqlserver.threads import is_over
from rowbus.database.sqlserver.transactions import (
    AS_BEFORE,
    FOR_EVER,
    MESSAGE,
    SHORTLY,
    changes_session,
    commit_and_receive,
    may_travel,
    save,
    undo,
)
from rowbus.errors import HandlerError, RowbusError, StorageError
from rowbus.running.scope import require

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.database.sqlserver.batches import Answer
    from rowbus.database.sqlserver.driver import DriverConnection
    from rowbus.database.sqlserver.threads import Calls
    from rowbus.database.statements import Statement
    from rowbus.running.scope import Scope

T = TypeVar("T")


class MessageTransaction(Session):
    """The connection of one receiving slot and the receive transaction on it. Blocks."""

    def __init__(self, connection: DriverConnection) -> None:
        """Use a connection in autocommit mode; transactions are begun and ended by the verbs below."""
        super().__init__(connection)
        self.committed = False
        self.attempt_open = False
        self._touched = False  # whether the message's savepoint is set for this attempt
        self._ended_within = False  # whether the transaction ended while an attempt was made in it
        self.is_stained = False
        """Whether a handler may have changed what outlives its transaction."""
        self.takes_turns = False
        """Whether READPAST passes over nothing on this server, so that a receive waits for who has a message."""
        self.rolled_back = False
        """Whether an error made the server roll the transaction back: the message is in its queue again."""

    def begin(self, receive: Statement[T]) -> T:
        """Begin a transaction and receive in it."""
        self.begin_transaction()
        if not self.takes_turns:
            return self.run(receive)
        self.control(SHORTLY)
        try:
            return self.run(receive)
        except StorageError as error:
            if not self._has_to_wait(error):
                raise
            return receive.decode((), 0)
        finally:
            if not self.lost:
                self.control(AS_BEFORE)

    @property
    def _turn(self) -> tuple[str, str]:
        """The statements that a receive runs between."""
        return (SHORTLY, FOR_EVER) if self.takes_turns else ("", "")

    def _has_to_wait(self, error: RowbusError) -> bool:
        """Say whether a receive found the oldest message in another's hands, where it cannot pass over it."""
        return self.takes_turns and isinstance(error, StorageError) and error.sqlstate == WAITED_FOR_LOCK

    def commit(self, last: Sequence[Statement[object]]) -> None:
        """Run the last statements and commit; a failure of theirs can be undone with the attempt."""
        self.committed = False
        self._begin_after_handler()
        self._refuse_if_ended()
        if last:
            self.protect()
        self.run_all(last)
        self._refuse_if_ended()
        try:
            self.commit_transaction()
        except RowbusError:
            self._look_after_error()
            raise
        self.committed = True
        self._close_attempt()

    def commit_and_begin(self, last: Sequence[Statement[object]], receive: Statement[T]) -> T:
        """Run the last statements, commit, begin anew and receive: in one round trip, unless they are large."""
        if not (self.in_transaction and may_travel([*last, receive])):
            self.commit(last)
            return self.begin(receive)
        return self._commit_and_begin(
            [self._batches.fitted(each) for each in last], self._batches.fitted(receive)
        )

    def _commit_and_begin(self, last: Sequence[Statement[object]], receive: Statement[T]) -> T:
        self.committed = False
        savepoint = save(MESSAGE) if last and self.attempt_open and not self._touched else ""
        call = self._batches.prepared(receive)
        text = commit_and_receive(savepoint, last, self._levels, call, around=self._turn)
        self._touched = self._touched or bool(savepoint)
        answer = self._batches.together(text, [*(each.query for each in last), receive.query])
        if self.takes_turns and answer.error is not None and not self.lost:
            self.control(AS_BEFORE)
        if answer.committed:
            self.committed, self._levels = True, 1
            self._close_attempt()
        if answer.error is None:
            return receive.decode(answer.rows, len(answer.rows))
        self._look_after_error()
        if answer.committed and self._has_to_wait(answer.error):
            return receive.decode((), 0)
        raise answer.error

    def undo_completion(self) -> bool:
        """After a failed completion: undo the attempt and keep the message, if the transaction still can."""
        if self.lost or self.committed:
            return False
        if not self.in_transaction:
            return not self.attempt_open  # mode NONE has nothing to undo; else the transaction is gone
        return self.undo_attempt()

    def roll_back(self) -> None:
        """Put what was received back; harmless outside a transaction."""
        self._close_attempt()
        super().roll_back()

    def start_attempt(self) -> None:
        """From here on, what a handler does through its connection can be undone."""
        self.attempt_open = True
        self._touched = False

    def protect(self) -> None:
        """Set the message's savepoint, once, before the attempt's first statement."""
        if self.attempt_open and self.in_transaction and not self._touched:
            self.control(save(MESSAGE))
            self._touched = True

    def run_undoable(self, statement: Statement[T]) -> T:
        """Run a statement of ours that is undone with the attempt (mode NONE, where none is open: is not undone)."""
        if self.attempt_open:
            self._refuse_if_ended()
        self.protect()
        return self.run(statement)

    def undo_attempt(self) -> bool:
        """Undo what the handler did through its connection; false when the transaction was rolled back as a whole."""
        if self.rolled_back:
            return False
        self._refuse_if_ended()
        self._blocks.clear()
        if self._touched:
            try:
                self.control(undo(MESSAGE))
            except RowbusError:
                self._look_after_error()
                raise
        self.start_attempt()
        return True

    def answers(self, operation: str, parameters: Sequence[object]) -> list[Answer]:
        """Run a handler's batch, after the message's savepoint."""
        self._refuse_to_go_on()
        self.protect()
        self.is_stained = self.is_stained or changes_session(operation)
        return super().answers(operation, parameters)

    def enter(self) -> None:
        """Begin a savepoint of the handler's, after the message's."""
        self._refuse_to_go_on()
        self.protect()
        super().enter()

    def ensure_usable(self) -> None:
        """Raise HandlerError if an error that the handler swallowed made the server roll its transaction back."""
        self._refuse_to_go_on()

    def _transaction_ended(self, *, by_error: bool) -> None:
        self.in_transaction = False
        self.rolled_back = by_error
        self._ended_within = self.attempt_open
        self._blocks.clear()

    def _refuse_to_go_on(self) -> None:
        """Refuse what would run in autocommit, though it was meant to be part of the transaction."""
        if self._ended_within:
            raise HandlerError(
                "The transaction that held the message has ended, by a commit or rollback of the handler's own or by "
                "an error after which the server keeps no transaction. Let such an error leave the handler."
            )

    def _begin_after_handler(self) -> None:
        """Begin anew where a handler has ended the transaction: what becomes of its message is still to be sent."""
        if self._ended_within and not self.rolled_back and not self.lost:
            self._close_attempt()
            self.begin_transaction()

    def _refuse_if_ended(self) -> None:
        if not self.in_transaction:
            raise StorageError(
                "The server rolled the transaction back instead of committing it.",
                sqlstate=DOOMED,
                transient=False,
            )

    def _close_attempt(self) -> None:
        self.attempt_open = self._touched = self._ended_within = self.rolled_back = False


class ReceiveSession(AsyncSession):
    """The connection of one receiving slot and the receive transaction on it."""

    def __init__(self, transaction: MessageTransaction, calls: Calls) -> None:
        """Have the transaction's calls made there. No I/O."""
        super().__init__(transaction, calls)
        self._transaction = transaction
        self._scope: Scope | None = None  # of the call that may use the handler's connection

    @property
    def committed(self) -> bool:
        """Whether the last commit went through, also after an error."""
        return self._transaction.committed

    @committed.setter
    def committed(self, value: bool) -> None:
        self._transaction.committed = value

    @property
    def handler_connection(self) -> AsyncHandlerConnection:
        """The connection that an `async def` handler works on."""
        return AsyncHandlerConnection(HandlerConnection(self._transaction), self._make_in_scope)

    @property
    def sync_handler_connection(self) -> HandlerConnection:
        """The connection that a `def` handler works on: its calls wait for the session's thread, which makes them."""
        return HandlerConnection(
            self._transaction, lambda: require(self._scope, in_loop=False), self._make_for_thread
        )

    def _make_for_thread(self, call: Callable[[], T]) -> T:
        if self.closed:
            raise is_over()
        return self._calls.wait_for(call)

    async def _make_in_scope(self, call: Callable[[], T]) -> T:
        require(self._scope, in_loop=True)
        return await self.make(call)

    def keep_locks(self, take: Statement[object], keep: Sequence[Statement[object]] = ()) -> None:
        """Do nothing: a session in which a handler may have left locks `is_stained`."""

    async def begin(self, receive: Statement[T]) -> T:
        """Begin a transaction and receive in it."""
        return await self.make(partial(self._transaction.begin, receive))

    async def commit(self, last: Sequence[Statement[object]] = ()) -> None:
        """Run the last statements and commit; `committed` says whether that happened, also after an error."""
        self.committed = False
        await self.make(partial(self._transaction.commit, last))

    async def commit_and_begin(self, last: Sequence[Statement[object]], receive: Statement[T]) -> T:
        """Run the last statements, commit, begin anew and receive, in one call.

        After an error `committed` tells the two halves apart: false, and this transaction is lost; true, and only
        the next receive failed.
        """
        self.committed = False
        return await self.make(partial(self._transaction.commit_and_begin, last, receive))

    async def undo_completion(self) -> bool:
        """After a failed completion: undo the attempt and keep the message, if the transaction still can."""
        return not self.closed and await self.make(self._transaction.undo_completion)

    async def rollback(self) -> None:
        """Put what was received back; harmless outside a transaction. Closes a connection that cannot."""
        if not self.closed:
            await self.make(self._transaction.roll_back)
        if self.closed:
            await self.close()

    async def abandon(self) -> None:
        """Give the connection up while a handler's thread still uses it: it is interrupted and rolled back.

        Waits as long as `close` does, at most: what cannot be interrupted is left to its thread.
        """
        self._calls.give_up()
        await self.close()

    def discard(self) -> None:
        """Do nothing: the session's own thread closes the connection."""

    async def give_up(self) -> None:
        """Abandon the connection: the session's own thread closes it, after what runs there."""
        await self.abandon()

    async def renew(self) -> None:
        """Do nothing: a session in which a handler changed settings `is_stained`."""

    @property
    def is_stained(self) -> bool:
        """Whether a handler may have changed what outlives its transaction, and is not put back."""
        return self._transaction.is_stained

    def admit(self, scope: Scope) -> None:
        """Let the code of one call use the handler's connection, and that of earlier ones no more."""
        self._scope = scope

    def start_attempt(self) -> None:
        """From here on, what a handler does through its connection can be undone."""
        self._transaction.start_attempt()

    @property
    def is_untouched(self) -> bool:
        """Whether it is known that nothing has used the connection since `admit`: never."""
        return False

    @property
    def is_occupied(self) -> bool:
        """Whether a handler that has ended left it in the midst of something: never, for a cancelled call closes it."""
        return False

    def reason(self, error: BaseException) -> BaseException:
        """Return the error: the driver tells what the server said."""
        return error

    @property
    def is_busy(self) -> bool:
        """Whether something runs just now: never, because each call is made when the one before has its answer."""
        return False

    async def run(
        self,
        statement: Statement[T],
        *,
        within: float | None = None,
        then: Callable[[T], Sequence[Statement[object]]] | None = None,
        undoable: bool = False,
    ) -> T:
        """Run one statement and decode its answer; `undoable`: with the attempt, if it is undone."""
        if not undoable:
            return await super().run(statement, within=within, then=then)
        return await self.make(partial(self._transaction.run_undoable, statement))

    async def undo_attempt(self) -> bool:
        """Undo what the handler did through its connection; false when the transaction was rolled back as a whole."""
        return not self._transaction.rolled_back and await self.make(self._transaction.undo_attempt)

    @property
    def ended(self) -> bool:
        """Whether there is no transaction: after `begin` that means that a handler ended it behind our back.

        One that the server rolled back after an error has not: that is known, and `undo_attempt` says it.
        """
        return not self._transaction.in_transaction and not self._transaction.rolled_back

    def ensure_usable(self) -> None:
        """Raise HandlerError if an error that the handler swallowed made the server roll its transaction back."""
        self._transaction.ensure_usable()
