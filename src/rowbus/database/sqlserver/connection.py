"""A connection that runs statements. It blocks; `async_session` has the same in a thread.

An error leaves a transaction of SQL Server's as it was, or doomed, so that it can only be rolled back, or rolled back
already. So after an error inside a transaction the server is asked which it was, and a doomed one is rolled back at
once.

Invariant: a session never ends a transaction of its caller's, and once a transaction is gone, nothing runs in
autocommit that was meant to be part of it.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rowbus.database.sqlserver import driver
from rowbus.database.sqlserver.batches import Batches
from rowbus.database.sqlserver.faults import DOOMED, drivers_fault, is_conflict
from rowbus.database.sqlserver.transactions import (
    BEGIN,
    COMMIT,
    ROLLBACK,
    STATE,
    ends_transactions,
    save,
    undo,
)
from rowbus.errors import RowbusError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from rowbus.database.adaptation import KnownColumns
    from rowbus.database.sqlserver.batches import Answer
    from rowbus.database.sqlserver.driver import DriverConnection
    from rowbus.database.statements import Query, Row, Rows, Statement

T = TypeVar("T")


class _Block(NamedTuple):
    """The kind of a `transaction`: ours, a savepoint, or neither where the caller's begins by itself."""

    begins: bool = False
    savepoint: str = ""


class Session:
    """Run statements on a connection of the DB-API, in the transaction it is in. Blocks."""

    def __init__(self, connection: DriverConnection, *, borrowed: bool = False) -> None:
        """Use the connection as it is; a borrowed one may be in a transaction, any other is in autocommit mode."""
        self.connection = connection
        self._borrowed = borrowed
        self._batches = Batches(connection)
        self._blocks: list[_Block] = []
        self.in_transaction = False
        """Whether a transaction is open that was begun here."""
        self._levels = 1  # of begun transactions; a handler's batch may have left one open inside ours
        self._gone = False  # the server rolled it back, and who began it has yet to hear of it
        self.catalog: str | None = None
        """The catalog the connection was opened in, where that is known."""

    def share(self, known_columns: KnownColumns) -> None:
        """Remember the columns of tables together with other sessions of the same database."""
        self._batches.known_columns = known_columns

    @property
    def lost(self) -> bool:
        """Whether the connection was seen to be gone."""
        return self._batches.lost

    @property
    def modules(self) -> frozenset[str]:
        """The packages whose errors are the driver's."""
        return frozenset({driver.MODULE, type(self.connection).__module__.partition(".")[0]})

    def run(
        self, statement: Statement[T], *, then: Callable[[T], Sequence[Statement[object]]] | None = None
    ) -> T:
        """Run one statement and decode its answer; raises a `RowbusError` naming what failed."""
        if then is None:
            return self._run(statement)
        with self.transaction():
            answer = self._run(statement)
            self.run_all(then(answer))
        return answer

    def _run(self, statement: Statement[T]) -> T:
        self._refuse_if_gone()
        try:
            return self._batches.run(statement)
        except RowbusError:
            self._look_after_error()
            raise

    def run_all(self, statements: Sequence[Statement[object]], *, atomic: bool = False) -> None:
        """Run several statements, answers unread; `atomic`: if one fails undo them, and raise."""
        with self.transaction() if atomic else nullcontext():
            for statement in statements:
                self.run(statement)

    def copy(self, query: Query, rows: Iterable[Row]) -> None:
        """Run a table's `copy` for all rows; all or nothing."""
        with self.transaction():
            try:
                self._batches.copy(query, rows)
            except RowbusError:
                self._look_after_error()
                raise

    def answers(self, operation: str, parameters: Sequence[object]) -> list[Answer]:
        """Run a handler's batch and return its answers; raises the driver's errors."""
        self._refuse_if_gone()
        try:
            answers = self._batches.answers(operation, parameters)
        except Exception as error:
            self._look_after_error(by_error=is_conflict(error) or not ends_transactions(operation))
            raise
        if ends_transactions(operation):
            self._look(by_error=False)
        return answers

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Make what runs inside one transaction; within the caller's transaction, a savepoint.

        Where the caller's connection begins transactions by itself, the first statement begins one that the caller is
        to end, so nothing is committed here.
        """
        self.enter()
        try:
            yield
        except BaseException as error:
            self.leave(succeeded=False)
            ours = drivers_fault(error, self.modules)
            if ours is None:
                raise
            raise ours from error
        else:
            self.leave(succeeded=True)

    def enter(self) -> None:
        """Begin what `transaction` makes."""
        self._refuse_if_gone()
        block = self._block()
        if block.begins:
            self.begin_transaction()
        elif block.savepoint:
            self.control(save(block.savepoint))
        self._blocks.append(block)

    def leave(self, *, succeeded: bool) -> None:
        """End what `enter` began; raises only when something that succeeded cannot be kept."""
        block = self._blocks.pop() if self._blocks else _Block()
        if self._gone or self.lost:
            self._forget_transaction()
            if succeeded:
                raise _rolled_back()
            return
        if succeeded:
            self._keep(block)
        else:
            self._undo(block)

    def roll_back(self) -> None:
        """End the transaction that was begun here, if it still exists; afterwards `lost` if even that fails."""
        self._blocks.clear()
        self.in_transaction = self._gone = False
        if self.lost:
            return
        try:
            self.control(ROLLBACK)
        except RowbusError:
            self._batches.lost = True

    def begin_transaction(self) -> None:
        """Begin a transaction of ours."""
        self.control(BEGIN)
        self.in_transaction = True
        self._levels = 1

    def commit_transaction(self) -> None:
        """Commit the transaction that was begun here, with those that a handler began inside it and left open."""
        for _level in range(self._levels):
            self.control(COMMIT)
        self.in_transaction = False

    def interrupt(self) -> None:
        """Ask the server to give up what it is doing for this session, from another thread."""
        self._batches.interruption.interrupt()

    def notified(self, timeout: float) -> bool:
        """Wait; SQL Server has no notifications."""
        time.sleep(timeout)
        return False

    def close(self) -> None:
        """Close the connection; harmless when it is closed or broken. What is not committed is rolled back.

        That is said to the server, because the driver may keep the connection in a pool of its own.
        """
        self._batches.interruption.end()
        self.roll_back()
        self._batches.close()
        with suppress(Exception):  # every driver has errors of its own, and it is gone either way
            self.connection.close()

    def control(self, text: str) -> None:
        """Run a batch of transaction control, without parameters; in a prepared one it would be error 266."""
        self._batches.control(text)

    def ask(self, text: str) -> Rows:
        """Run a batch that asks the server about itself, and return its rows."""
        return self._batches.control(text)

    def _keep(self, block: _Block) -> None:
        if not block.begins:
            return
        try:
            self.commit_transaction()
        except RowbusError:
            self.roll_back()
            raise

    def _undo(self, block: _Block) -> None:
        if block.begins:
            self.roll_back()
        elif block.savepoint:
            try:
                self.control(undo(block.savepoint))
            except RowbusError:  # what the caller's transaction has come to is the caller's to see
                self._look_after_error()

    def _block(self) -> _Block:
        savepoint = _Block(savepoint=f"rowbus_block_{len(self._blocks) + 1}")
        if self.in_transaction:
            return savepoint
        if not self._borrowed:
            return _Block(begins=True)
        open_transactions, _doomed, implicit = self._state()
        return savepoint if open_transactions else _Block(begins=not implicit)

    def _look_after_error(self, *, by_error: bool = True) -> None:
        """See what an error left of the transaction; one that is doomed is rolled back, unless it is the caller's.

        `by_error` is false where it may have been the batch itself that ended it, and committed perhaps.
        """
        if not self.lost:
            self._look(by_error=by_error)

    def _look(self, *, by_error: bool) -> None:
        if not self.in_transaction:
            return
        try:
            open_transactions, doomed, _implicit = self._state()
            if doomed:
                self.control(ROLLBACK)
        except RowbusError:
            self._batches.lost = True
            return
        self._levels = open_transactions
        if doomed or not open_transactions:
            self._transaction_ended(by_error=by_error or doomed)

    def _transaction_ended(self, *, by_error: bool) -> None:  # noqa: ARG002 - a receive transaction tells them apart
        """Note that the transaction begun here is gone; until its block is left nothing runs any more."""
        self._gone = True

    def _state(self) -> tuple[int, bool, bool]:
        """Return how many transactions are open, whether they are doomed, and whether they are begun implicitly."""
        ((opened, state, implicit),) = self._batches.control(STATE)
        return int(opened), int(state) == -1, bool(int(implicit))

    def _refuse_if_gone(self) -> None:
        if self._gone:
            raise _rolled_back()

    def _forget_transaction(self) -> None:
        if not self._blocks:
            self.in_transaction = self._gone = False


def _rolled_back() -> StorageError:
    return StorageError(
        "The server rolled the transaction back after an error; nothing of it is left.",
        sqlstate=DOOMED,
        transient=False,
    )
