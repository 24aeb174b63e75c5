"""A driver's connection that notes every call and answers as it is told: the order of calls is what tests look at.

It counts transactions as SQL Server does, so that sessions that ask about them get a true answer.

Invariant: nothing is checked here; tests read `calls`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Self

from mssql_python import exceptions as driver

from rowbus.database.sqlserver.transactions import BEGIN, COMMIT, ROLLBACK, STATE
from rowbus.database.statements import Query, Rows, Statement

Rule = Callable[[], Sequence[tuple[Any, ...]]]


class RecordingConnection:
    """A connection; `calls` holds the text and the parameters of each batch, and `close`."""

    __module__ = "mssql_python.connection"  # what sessions take it for

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.sizes: list[Any] = []
        self.open = 0
        self.doomed = False
        self.implicit = False
        self.closed = False
        self.cursors: list[RecordingCursor] = []
        self._rules: list[tuple[str, Rule]] = []
        self._late: list[tuple[str, Exception]] = []

    @property
    def texts(self) -> list[str]:
        """The texts of the batches alone."""
        return [call[0] for call in self.calls if isinstance(call, tuple)]

    def answer(self, pattern: str, *rows: tuple[Any, ...]) -> None:
        """Have batches that match answered with these rows."""
        self._rules.insert(0, (pattern, lambda: rows))

    def fail(self, pattern: str, error: Exception, *, dooms: bool = False, ends: bool = False) -> None:
        """Have batches that match fail; perhaps so that the transaction is doomed, or over."""

        def failure() -> Sequence[tuple[Any, ...]]:
            self.doomed = self.doomed or dooms
            self.open = 0 if ends else self.open
            raise error

        self._rules.insert(0, (pattern, failure))

    def call(self, pattern: str, action: Callable[[], object]) -> None:
        """Have something done by batches that match, which answer nothing."""

        def act() -> Sequence[tuple[Any, ...]]:
            action()
            return ()

        self._rules.insert(0, (pattern, act))

    def fail_late(self, pattern: str, error: Exception) -> None:
        """Have batches that match fail after their first answer."""
        self._late.append((pattern, error))

    def late(self, text: str) -> Exception | None:
        """Return the error that comes after the first answer."""
        return next((error for pattern, error in self._late if re.search(pattern, text)), None)

    def forget_rules(self) -> None:
        """Answer everything with nothing again."""
        self._rules.clear()

    def cursor(self) -> RecordingCursor:
        cursor = RecordingCursor(self)
        self.cursors.append(cursor)
        return cursor

    def close(self) -> None:
        self.calls.append("close")
        self.closed = True

    def run(self, text: str, parameters: Sequence[object]) -> Sequence[tuple[Any, ...]]:
        self.calls.append((text, *parameters))
        for pattern, rule in self._rules:
            if re.search(pattern, text):
                return rule()
        self._count(text)
        if "sp_prepare " in text:
            return [(1,)]  # the handle
        return [(self.open, self._state(), 2 if self.implicit else 0)] if text == STATE else []

    def _count(self, text: str) -> None:
        if text == BEGIN:
            self.open += 1
        elif text == ROLLBACK:
            self.open, self.doomed = 0, False
        elif text == COMMIT:
            if self.open == 0:
                raise NO_TRANSACTION
            self.open -= 1

    def _state(self) -> int:
        return -1 if self.doomed else min(self.open, 1)


class RecordingCursor:
    """A cursor; one answer a batch."""

    rowcount = -1

    def __init__(self, connection: RecordingConnection) -> None:
        self._connection = connection
        self._rows: Sequence[tuple[Any, ...]] = ()
        self.description: Any = None
        self._late: Exception | None = None
        self.closed = False

    def execute(self, text: str, /, *parameters: Any) -> Self:  # noqa: ANN401 - as the DB-API has it
        given = (
            parameters[0] if len(parameters) == 1 and isinstance(parameters[0], list | tuple) else parameters
        )
        self._rows = self._connection.run(text, given)
        self._late = self._connection.late(text)
        self.description = [(f"column{i}",) for i in range(len(self._rows[0]))] if self._rows else None
        return self

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        self._connection.sizes.append(list(sizes))

    def fetchall(self) -> Sequence[tuple[Any, ...]]:
        return self._rows

    def nextset(self) -> bool:
        if self._late is not None:
            raise self._late
        self.description = None
        return False

    def close(self) -> None:
        self.closed = True


def statement(text: str, /, **parameters: object) -> Statement[Rows]:
    """Return a statement of a test's own, whose answer is its rows."""
    query = Query(text.encode(), text.encode(), tuple(parameters), f"Failed to {text}")
    return Statement(query, parameters, lambda rows, _count: rows)


DEADLOCK = driver.OperationalError(
    "Serialization failure",
    "[Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Transaction (Process ID 5) was deadlocked on lock resources",
)
LINK_FAILURE = driver.OperationalError(
    "Communication link failure", "[Microsoft][ODBC Driver 18 for SQL Server]TCP Provider: Error code 0x2746"
)
CONVERSION = driver.ProgrammingError(
    "Syntax error or access violation",
    "[Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Error converting data type nvarchar to bigint.",
)
NO_TABLE = driver.ProgrammingError(
    "Base table or view not found",
    "[Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Invalid object name 'x'.",
)
NO_TRANSACTION = driver.OperationalError(
    "Invalid transaction state",
    "[Microsoft][ODBC][SQL Server]The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.",
)
LOCK_TIMEOUT = driver.OperationalError(
    "General error",
    "[Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Lock request time out period exceeded.",
)
BABELFISHS_LOCK_TIMEOUT = driver.OperationalError(
    "Syntax error or access violation",
    "[Microsoft][ODBC Driver 18 for SQL Server][SQL Server]canceling statement due to lock timeout",
)
