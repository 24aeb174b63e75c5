"""The face of `mssql_python`: connections and cursors of the DB-API, on a database of the tests' PostgreSQL.

Connections block, and belong to the thread that uses them, as the real ones do. PostgreSQL's session of one that is
closed is reset and kept for one to come: it knows the catalogue, which a new one would read anew.

Invariant: what callers see (marks, answers, exceptions, descriptions in lower case) is what the real driver shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any, Self

import psycopg
from mssql_python import exceptions as driver
from psycopg.pq import TransactionStatus

from tests.database.sqlserver.standin.faults import Fault, Gone, lost, raised
from tests.database.sqlserver.standin.machine import Answer, Machine
from tests.database.sqlserver.standin.running import run

SERVER_SQL = files("tests.database.sqlserver.standin").joinpath("server.sql").read_text("utf-8")
RESET = "close all; unlisten *; reset all; discard temp; select pg_advisory_unlock_all()"

_kept = defaultdict[str, list[psycopg.Connection[Any]]](list)  # by DSN


def prepare_database(dsn: str) -> None:
    """Make an empty database of PostgreSQL's the stand-in's."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SERVER_SQL.encode())


def connect(dsn: str) -> Connection:
    """Open a connection in autocommit mode to a database that `prepare_database` has prepared.

    Raises the driver's OperationalError.
    """
    kept = _kept[dsn]
    try:
        return Connection(_living(kept) or _new(dsn), kept)
    except psycopg.OperationalError as error:
        raise lost() from error


def _new(dsn: str) -> psycopg.Connection[Any]:
    return psycopg.connect(dsn, autocommit=True, options="-c search_path=dbo,sys -c timezone=UTC")


def _living(kept: list[psycopg.Connection[Any]]) -> psycopg.Connection[Any] | None:
    """Take one that still answers: a test may have had its session ended."""
    while kept:
        connection = kept.pop()
        with suppress(psycopg.Error):
            connection.execute("")
            return connection
        connection.close()
    return None


def close_kept() -> None:
    """Close the sessions that are kept."""
    while _kept:
        for connection in _kept.popitem()[1]:
            connection.close()


class Connection:
    """A connection; what it runs is in a transaction of its own unless one was begun."""

    __module__ = "mssql_python.connection"  # by which a user's connection is recognised

    autocommit = True

    def __init__(self, connection: psycopg.Connection[Any], kept: list[psycopg.Connection[Any]]) -> None:
        self._connection = connection
        self._kept = kept
        self._is_closed = False
        self._machine = Machine(connection, catalog=connection.info.dbname)

    @property
    def closed(self) -> bool:
        return self._is_closed or self._connection.closed

    def cursor(self) -> Cursor:
        self._check()
        return Cursor(self)

    def execute(self, operation: str, *parameters: object) -> Cursor:
        return self.cursor().execute(operation, *parameters)

    def close(self) -> None:
        if self.closed:
            return
        self._is_closed = True
        if self._connection.info.transaction_status is not TransactionStatus.ACTIVE:
            with suppress(psycopg.Error):
                self._connection.rollback()
                self._connection.execute(RESET)
                self._kept.append(self._connection)
                return
        self._connection.close()

    def cancel(self) -> None:
        self._connection.cancel_safe()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if self.closed:
            raise driver.InterfaceError("Cannot operate on a closed connection.", "")

    def _answers(self, operation: str, parameters: Sequence[object]) -> list[Answer]:
        self._check()
        try:
            return run(self._machine, operation, parameters)
        except (Gone, psycopg.OperationalError, psycopg.InterfaceError) as error:
            self._connection.close()
            raise lost() from error
        except Fault as fault:
            raise raised(fault) from fault


class Cursor:
    """A cursor: the answers of the last batch, one after another."""

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._answers = list[Answer]()
        self._rows = list[tuple[Any, ...]]()
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        self.closed = False

    def execute(self, operation: str, *parameters: object) -> Self:
        if self.closed:
            raise driver.ProgrammingError("Operation cannot be performed: The cursor is closed.", "")
        if len(parameters) == 1 and isinstance(parameters[0], tuple | list):
            parameters = tuple(parameters[0])
        self._answers = self.connection._answers(operation, parameters)
        self._show()
        return self

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Take no notice: PostgreSQL's texts have no lengths."""

    def cancel(self) -> None:
        """Interrupt what the connection does, from another thread."""
        self.connection.cancel()

    def _show(self) -> None:
        """Turn to the next answer; raises its error if it is one."""
        self.description, self._rows, self.rowcount = None, [], -1
        if not self._answers:
            return
        answer = self._answers.pop(0)
        if answer.fault is not None:
            self._answers = []
            raise raised(answer.fault)
        if answer.columns is None:
            self.rowcount = answer.touched
        else:
            self.description = [(name, str, None, None, None, None, True) for name in answer.columns]
            self._rows = [tuple(map(_as_the_driver_reads, row)) for row in answer.rows]

    def nextset(self) -> bool:
        if not self._answers:
            self.description, self._rows, self.rowcount = None, [], -1
            return False
        self._show()
        return True

    def fetchall(self) -> list[tuple[Any, ...]]:
        if self.description is None:
            raise driver.ProgrammingError("Invalid cursor state", "No results. Previous SQL was not a query.")
        found, self._rows = self._rows, []
        return found

    def close(self) -> None:
        self.closed = True


def _as_the_driver_reads(value: Any) -> Any:  # noqa: ANN401 - whatever the column holds
    """Take a byte order mark away that a text begins with: Microsoft's driver decodes by it."""
    return value.removeprefix("\ufeff") if isinstance(value, str) else value
